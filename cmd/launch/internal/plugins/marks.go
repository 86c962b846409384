package plugins

import (
	"strings"

	"github.com/launch-ml/launch/core/plugin"
)

// markText describes the commands that bear a mark.
func markText(m plugin.Mark) string {
	var all []string
	if m.Script != "" {
		all = append(all, "script "+m.Script)
	}
	either := func(what string, of []string) {
		if len(of) > 0 {
			all = append(all, what+" "+strings.Join(of, " or "))
		}
	}
	either("option", m.Flags)
	either("beside it", m.Beside)
	for _, text := range m.Contains {
		either("its source has", strings.Split(text, "|"))
	}
	return strings.Join(all, ", ")
}

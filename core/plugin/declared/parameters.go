package declared

import (
	"regexp"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

var initialiser = lazy.MustCompile(`\bdef __init__\(`)

// parameterOf is the default of an option GROUP.NAME where the script's options are the parameters of its classes, as
// jsonargparse (LightningCLI) makes them: that of the parameter NAME. known is false where no class of the script
// has it, or where several have different ones.
func parameterOf(script python.Source, p place) (value string, known bool) {
	_, name, dotted := strings.Cut(p.names[0], ".")
	if !dotted || !p.option() || !strings.Contains(script.Code, "LightningCLI") &&
		!strings.Contains(script.Code, "jsonargparse") {
		return "", false
	}
	name = name[strings.LastIndexByte(name, '.')+1:]
	parameter := regexp.MustCompile(`^` + regexp.QuoteMeta(name) + `\s*(?::[^=]*)?=(.*)$`)
	for _, at := range initialiser.FindAllStringIndex(script.Code, -1) {
		for _, a := range python.Arguments(script.Code[at[1]:]) {
			m := parameter.FindStringSubmatch(strings.TrimSpace(a))
			if m == nil {
				continue
			}
			if one := strings.TrimSpace(m[1]); known && one != value {
				return "", false
			} else {
				value, known = one, true
			}
		}
	}
	return value, known
}

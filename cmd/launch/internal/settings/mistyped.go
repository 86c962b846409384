package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/pflag"
)

// Mistyped returns a note for each variable of an environment whose name is almost that of a setting. Unlike in a
// settings file this is not an error: the variable may belong to another program named launch. A name that is close to
// no setting gets no note.
func Mistyped(environ []string) (notes []string) {
	settings := Known()
	for _, kv := range environ {
		env, value, _ := strings.Cut(kv, "=")
		prefix, key, ok := strings.Cut(env, "_")
		if !ok || value == "" || !strings.EqualFold(prefix, "launch") {
			continue
		}
		if env == Variable(SetFlag) {
			notes = append(notes, env+" has no effect: --set belongs to one command")
			continue
		}
		if near := nearest(key, settings); near != "" && Variable(near) != env {
			notes = append(notes, fmt.Sprintf("%s is not a setting and has no effect: did you mean %s?", env,
				Variable(near)))
		}
	}
	slices.Sort(notes)
	return notes
}

// nearest returns the setting that a mistyped name may mean, "" for none. Upper and lower case are the same, and so are
// _ and -.
func nearest(name string, settings *pflag.FlagSet) (near string) {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	best := 3 // at most 2: two letters changed, or two exchanged
	settings.VisitAll(func(f *pflag.Flag) {
		d := levenshtein.ComputeDistance(name, f.Name)
		if d < best && (d < 2 || len(f.Name) > 4) { // two letters of four make another word
			best, near = d, f.Name
		}
	})
	return near
}

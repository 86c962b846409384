package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// own are launch's settings as flags, without those of one command, such as --json.
func own() *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	addFlags(f)
	return f
}

// mistyped says of every variable of an environment that is nearly one of launch's settings, and none, which one may have been meant.
// That is no error, as it is in a settings file: other programs called launch have variables, too, and those that are unlike any
// setting are theirs.
func mistyped(environ []string) (notes []string) {
	settings := own()
	for _, kv := range environ {
		env, value, _ := strings.Cut(kv, "=")
		prefix, key, ok := strings.Cut(env, "_")
		if !ok || value == "" || !strings.EqualFold(prefix, "launch") {
			continue
		}
		if near := nearest(key, settings); near != "" && variable(near) != env {
			notes = append(notes, fmt.Sprintf("%s is no setting and changes nothing: was %s meant?", env, variable(near)))
		}
	}
	slices.Sort(notes)
	return notes
}

// nearest is the setting of which a name may be a slip of the pen, in any case and with _ for -; "" where there is none.
func nearest(name string, settings *pflag.FlagSet) (near string) {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	best := 3 // two letters changed, or two exchanged
	settings.VisitAll(func(f *pflag.Flag) {
		d := distance(name, f.Name)
		if d < best && (d < 2 || len(f.Name) > 4) { // of four letters, two make another word
			best, near = d, f.Name
		}
	})
	return near
}

// distance is Levenshtein's: how many bytes to insert, delete or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := before
			if a[i] != b[j] {
				replaced++
			}
			before = row[j+1]
			row[j+1] = min(replaced, before+1, row[j]+1)
		}
	}
	return row[len(b)]
}

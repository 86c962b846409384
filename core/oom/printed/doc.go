// Package printed reads what a program printed, whatever it means: lines of bytes without escape sequences (text.go),
// the few that may matter (words.go) and the last ones (tail.go); messages that rich has wrapped (rich.go), records in
// JSON (json.go), and rows without what launchers put before them (rows.go); counters of a training (progress.go), the
// place where another program began (renewal.go), and words for going on (aftermath.go), the amounts that a message
// states (numbers.go), and words of the system in other languages (locale.go). vocabulary.go has the words that open an
// excerpt, faults.go the table of what ends programs though memory did not run out.
package printed

import "github.com/launch-ml/launch/core/lazy"

// A pattern is a regular expression that is compiled when it is first used: most programs never fail.
type pattern = lazy.Regexp

func rx(source string) *pattern { return lazy.MustCompile(source) }

package states

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/job"
)

// CheckRehearsal returns an error for the first setting of a rehearsal that leads the program outside: launch runs it
// with settings that the user has not typed, and what it writes then belongs in launch's own folder. A path has to lie
// in that folder or in the folders of the command, or the command has it already.
func (r *Roots) CheckRehearsal() error {
	var typed []string
	for _, a := range r.job.Command.Args {
		typed = append(typed, words(a)...)
	}
	for _, e := range slices.Concat(r.job.Rehearsal.Edits, r.job.Rehearsal.Largest) {
		had := append(words(e.From), typed...)
		for _, word := range words(e.To) {
			if !slices.Contains(had, word) && !r.leadsInside(word) {
				return fmt.Errorf("it would set %.100s to %.200q, which is outside the folders of this command",
					e.At.Path, strings.ReplaceAll(word, anyName, job.ScratchName))
			}
		}
	}
	return nil
}

// anyName stands for [job.ScratchName], which has a space.
const anyName = "{scratch-name}"

// words are the parts of a value that may be paths: a list, a pair or a quoted text has several.
func words(value string) []string {
	value = strings.ReplaceAll(value, job.ScratchName, anyName)
	return strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(" \t\r\n\"'`=:,;()[]", c) })
}

func (r *Roots) leadsInside(word string) bool {
	if strings.IndexByte(word, 0) >= 0 {
		return false
	}
	if strings.Contains(word, job.Scratch) {
		rest, first := strings.CutPrefix(word, job.Scratch)
		rest = strings.TrimLeft(rest, "/")
		return first && (rest == "" || filepath.IsLocal(rest)) && !strings.Contains(rest, job.Scratch)
	}
	if word == "/dev/null" {
		return true
	}
	if strings.HasPrefix(word, "~") || strings.HasPrefix(word, "$") { // the program may expand it
		return false
	}
	inside := func(path string) bool {
		return slices.ContainsFunc(r.bases, func(b string) bool { return isWithin(b, path) })
	}
	path := filepath.Clean(absolute(r.dir, word))
	if !inside(path) {
		return false
	}
	p, err := r.place(path, "", true)
	return err == nil && inside(p.root) // no link leads out
}

package job

import (
	"slices"
	"strings"
)

// stopping are the words by which a plugin's warning tells that the program will stop, where the plugin does not list
// it among the faults.
var stopping = []string{"will stop at", "would stop at", "would stop with", "stops at it", "stops at a ",
	"stops at an ",
	"stops at the ", "stops at what", "stops at torch", "stops without", "stops the first"}

// StopsAt are the warnings at which the program will stop: its faults, and those that tell so. There are none without a
// job.
func (j *Job) StopsAt() (out []string) {
	if j == nil {
		return nil
	}
	out = slices.Clone(j.Faults)
	for _, w := range j.Warnings {
		tells := slices.ContainsFunc(stopping, func(words string) bool { return strings.Contains(w, words) })
		if tells && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

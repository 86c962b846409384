package job

import (
	"slices"

	"github.com/launch-ml/launch/core/lazy"
)

// stopping are the words by which a plugin's warning tells that the program will stop, where the plugin does not list
// it among the faults.
var stopping = lazy.MustCompile(`\b(will|would) stop (at|with)\b|\bstops (at ` +
	`(it|its|an?|the|what|torch)|without|the first)\b`)

// StopsAt are the warnings at which the program will stop: its faults, and those that tell so.
func (j *Job) StopsAt() (out []string) {
	out = slices.Clone(j.Faults)
	for _, w := range j.Warnings {
		if stopping.MatchString(w) && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

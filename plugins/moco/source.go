package moco

import (
	"slices"

	"github.com/launch-ml/launch/core/python"
)

// maxSource bounds what is read of one file: a Python module is some kilobytes.
const maxSource = 1 << 20

// readText reads a file of the checkout. What cannot be read is an empty source, in which nothing is found.
func readText(path string) python.Source { return python.ReadSource(path, maxSource) }

// declared finds an option by one of its names.
func declared(options []python.DeclaredOption, name string) (python.DeclaredOption, bool) {
	i := slices.IndexFunc(options, func(o python.DeclaredOption) bool { return slices.Contains(o.Names, name) })
	if i < 0 {
		return python.DeclaredOption{}, false
	}
	return options[i], true
}

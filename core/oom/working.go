package oom

import (
	"slices"
	"strings"
)

// Frames that tell no phase.

// ofGraph reports whether TensorFlow ran a whole graph, of which its frames do not name the part.
func ofGraph(calls []frame) bool {
	n := len(calls) - 1
	return n >= 0 && strings.Contains(strings.ReplaceAll(calls[n].path, `\`, "/"), "tensorflow/python/") &&
		slices.Contains([]string{"quick_execute", "_call_tf_sessionrun", "_do_call", "_do_run"}, calls[n].name)
}

// importsLibrary reports whether a library was being imported: of a process that begins, whatever it will do.
func importsLibrary(calls []frame) bool {
	n := len(calls) - 1
	return n >= 0 && calls[n].installed() && calls[n].name == "<module>" && imports(calls)
}

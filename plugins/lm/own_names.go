package lm

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/python"
)

// starred are libraries of which all names may be imported: they have none that a script calls its own settings, and
// their classes are themselves. patched are those that decide on a step.
var (
	starred = strings.Fields("transformers trl datasets torch peft accelerate typing os math pathlib itertools")
	patched = strings.Fields("transformers trl datasets torch peft accelerate builtins")
)

// altered reports why names of the script are not known: another module's may be any, and what is assigned to an
// attribute of a library changes what it does.
func (r *ownReader) altered() error {
	library := map[string]bool{} // by the names of its modules and classes
	for s := range r.Statements {
		for _, im := range r.importsOf(s) {
			top, _, _ := strings.Cut(im.Module, ".")
			if slices.Contains(patched, top) {
				for _, name := range r.Binds(r.Statements[s]) {
					library[name] = true
				}
			}
			star := slices.ContainsFunc(im.Names, func(n python.Imported) bool { return n.Name == "*" })
			if star && !slices.Contains(starred, top) {
				return errOwn("all names of %s are imported in line %d", im.Module, r.LineOf(r.Statements[s].First))
			}
		}
	}
	for _, s := range r.Statements {
		for _, name := range r.Binds(s) {
			root, rest, dotted := strings.Cut(name, ".")
			idle := ofLibrary(name, "torch.backends") || ofLibrary(name, "datasets.config") ||
				strings.HasPrefix(rest, "_dynamo.")
			if dotted && library[root] && !idle {
				return errOwn("%s is set in line %d", name, r.LineOf(s.First))
			}
		}
	}
	return nil
}

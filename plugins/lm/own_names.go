package lm

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/python"
)

// bindings are the statements that give a name a value, in whatever way, wherever they stand.
func (r *ownReader) bindings(name string) (all []int) {
	for s, statement := range r.Statements {
		if slices.Contains(r.Binds(statement), name) {
			all = append(all, s)
		}
	}
	return all
}

// imported reports whether a name is that of a library, and nothing else anywhere in the script.
func (r *ownReader) imported(name, library string) bool {
	all := r.bindings(name)
	for _, s := range all {
		if !slices.ContainsFunc(r.importsOf(s), func(im python.Import) bool {
			return ofLibrary(im.Module, library) && slices.Contains(im.Names, python.Imported{Name: name, As: name})
		}) {
			return false
		}
	}
	return len(all) > 0
}

// importsOf are the imports of a statement; none where it is another one.
func (r *ownReader) importsOf(s int) []python.Import {
	if !r.imports(r.Statements[s].First) {
		return nil
	}
	return python.NewSource("", r.Of(r.Statements[s].Range)).Imports()
}

// ofLibrary reports whether a module is a library or a part of it.
func ofLibrary(module, library string) bool {
	return module == library || strings.HasPrefix(module, library+".")
}

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

// same reports whether an argument is one of the data sets that the trainer is given: of a variable that gets nothing
// else after that.
func (r *ownReader) same(arg python.Arg, made python.Call, given map[string]python.Range) bool {
	if arg.Stars > 0 || arg.Name != "" && arg.Name != "eval_dataset" {
		return false
	}
	root, calls, ok := r.chain(arg.Range)
	if !ok || len(calls) > 0 {
		return false
	}
	trainer := r.statement(made.First)
	for _, s := range r.bindings(root) {
		if s >= trainer || r.Statements[s].In != r.Statements[trainer].In {
			return false
		}
	}
	return slices.ContainsFunc([]string{"train_dataset", "eval_dataset"}, func(name string) bool {
		_, kept, ok := r.chain(given[name])
		rest, is := strings.CutPrefix(r.Of(given[name]), r.Of(arg.Range))
		return ok && is && (rest == "" || rest[0] == '.') && !slices.ContainsFunc(kept, func(c link) bool {
			return !slices.Contains(keepsRows, c.name)
		})
	})
}

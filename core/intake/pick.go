package intake

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/declared"
	"github.com/launch-ml/launch/core/plugin/host"
)

// A queue has the plugins that may know a command, in the order in which they are asked: the built-in families, the
// declaration beside the script and the ready ones, then the plugins of others. The next is asked only if the one
// before has declined.
type queue struct {
	waiting  []host.Source
	searched bool // for the plugins of others
}

// queue returns the plugins to ask. The error is that of a plugin that the user names.
func (r *Reading) queue(o Options) (*queue, error) {
	if o.Plugin != "auto" {
		source, err := r.named(o)
		return &queue{[]host.Source{source}, true}, err
	}
	if r.program == nil {
		return &queue{searched: true}, nil
	}
	q := &queue{waiting: host.Matching(host.Builtin(o.Manifests()), r.seen())}
	if at := slices.IndexFunc(q.waiting, isDeclared); at > 0 && declared.Beside(*r.program, r.Command.Env).Prefers {
		first := q.waiting[at]
		q.waiting = slices.Insert(slices.Delete(q.waiting, at, at+1), 0, first)
	}
	return q, nil
}

// preferred reports whether a plugin was asked before the built-in families because its declaration wants that.
func (r *Reading) preferred(s host.Source) bool {
	return isDeclared(s) && r.program != nil && declared.Beside(*r.program, r.Command.Env).Prefers
}

func isDeclared(s host.Source) bool { return s.Path == "" && s.Manifest.Name == declared.Name }

// next takes the next plugin. launch reads the list of others' plugins only once no built-in one is left.
func (q *queue) next(r *Reading, o Options) (source host.Source, ok bool) {
	if len(q.waiting) == 0 && !q.searched {
		q.searched = true
		sources, unread := o.Sources()
		if unread != nil {
			r.Warnings = append(r.Warnings, unread.Error())
		}
		others := slices.DeleteFunc(sources, func(s host.Source) bool { return s.Path == "" })
		q.waiting = host.Matching(others, r.seen())
		if w := o.newcomers(); len(q.waiting) == 0 && w != "" {
			r.Warnings = append(r.Warnings, w)
		}
	}
	if len(q.waiting) == 0 {
		return source, false
	}
	source, q.waiting = q.waiting[0], q.waiting[1:]
	return source, true
}

// named finds the plugin that the user names.
func (r *Reading) named(o Options) (host.Source, error) {
	sources, unread := o.Sources()
	if unread != nil {
		r.Warnings = append(r.Warnings, unread.Error())
	}
	for _, src := range sources {
		if src.Manifest.Name == o.Plugin {
			return src, nil
		}
	}
	why := ""
	for _, p := range o.Strangers() {
		if p.Name() == o.Plugin {
			why = ": " + p.String()
		}
	}
	return host.Source{}, fmt.Errorf("no plugin %q; run `launch plugins` for a list%s", o.Plugin, why)
}

// seen returns the parts of the command that a plugin's marks test.
func (r *Reading) seen() plugin.Seen {
	if r.seeing == nil {
		seen := plugin.See(*r.program, r.Command.Env)
		r.seeing = &seen
	}
	return *r.seeing
}

// noteDeclaration notes which declaration the job is from, and one beside the script that is not used.
func (r *Reading) noteDeclaration(answered host.Source) {
	if r.Job == nil || r.program == nil {
		return
	}
	switch beside := declared.Beside(*r.program, r.Command.Env); {
	case beside.Path == "":
	case isDeclared(answered):
		if strings.HasSuffix(r.Job.Dialect, declared.File) {
			r.Declaration = r.asTyped(beside.Path)
		}
	case answered.Path == "" && beside.About:
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s is not used, because plugin %s knows this command; `prefer: "+
			"true` in "+
			"that file changes this", r.asTyped(beside.Path), answered.Manifest.Name))
	}
}

// asTyped returns a path as the user would type it in the current folder.
func (r *Reading) asTyped(path string) string {
	rel, err := filepath.Rel(r.Command.Dir, path)
	if err != nil || strings.HasPrefix(rel, "../../..") {
		return path
	}
	return rel
}

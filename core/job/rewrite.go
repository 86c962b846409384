package job

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
)

// A Rewritten is a command with edits made, and the edited copies of files that it reads. Nothing was written yet.
type Rewritten struct {
	Command Command
	Files   []File            // with the paths of the copies; a copy of Python source keeps the path of its original
	Set     map[string]string // what was set in the environment
}

// Rewrite makes the edits. Edited files become copies below dir, under their own names, and the command then names the
// copies; the user's own files are never changed. Copies of the same name lie in separate folders. What the user has
// asked for ([Job.Asked]) is edited first. A file that is outdated becomes a copy with its recorded text. Without
// edits and outdated files the command is returned unchanged.
func (j *Job) Rewrite(edits []config.Edit, dir string) (*Rewritten, error) {
	out := &Rewritten{Command: j.Command, Set: map[string]string{}}
	edits = slices.Concat(j.AskedInFiles(), edits)
	if len(edits) == 0 && !slices.ContainsFunc(j.Files, func(f File) bool { return f.Outdated }) {
		return out, nil
	}
	prog, err := j.Command.Prog()
	if err != nil {
		return nil, fmt.Errorf("rewriting the command: %w", err)
	}
	argv, err := config.ParseArgv(prog.Args, j.Options)
	if err != nil {
		return nil, fmt.Errorf("rewriting the command: %w", err)
	}
	docs, patched := map[string]config.Tree{}, map[string][]Patch{}
	for _, e := range edits {
		switch e.At.Doc {
		case config.EnvDoc:
			out.Set[e.At.Path] = e.To
		case config.ArgvDoc:
			err = editArgv(argv, e)
		default:
			if p, ok := j.patch(e); ok {
				patched[e.At.Doc] = append(patched[e.At.Doc], p)
			} else {
				err = j.editFile(docs, e)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	taken := map[string]bool{} // paths of copies
	for _, f := range j.Files {
		doc, edited := docs[f.Path]
		switch f.Patches = patched[f.Path]; {
		case edited:
			f.Text = doc.Bytes()
		case len(f.Patches) == 0 && !f.Outdated:
			continue
		}
		switch now, _ := argv.Get(f.Flag); {
		case f.Served(): // for this path
		case f.Format == Binary && now != f.Path: // by now the command continues from another saved state
			continue
		default:
			f.From, f.Path = f.Path, freeName(dir, filepath.Base(f.Path), taken)
			if err := pointAt(argv, f); err != nil {
				return nil, err
			}
		}
		out.Files = append(out.Files, f)
	}
	if out.Command.Args, err = prog.WithArgs(argv.Args()); err != nil {
		return nil, fmt.Errorf("rewriting the command: %w", err)
	}
	out.Command.Env = withEnv(j.Command.Env, out.Set)
	return out, nil
}

// AsBegan returns the job with those files of its recipe marked as outdated whose text is no longer the one that the
// plugin read, and lists them. read reads a file by its absolute path. Files whose copies the program would not read
// rightly ([Job.Fixed]) are left as they are.
func (j *Job) AsBegan(read func(path string) ([]byte, error)) (began *Job, outdated []string) {
	if j.Fixed != "" {
		return j, nil
	}
	out := *j
	out.Files = slices.Clone(j.Files)
	for i, f := range out.Files {
		if len(f.Text) == 0 || f.Added || f.Served() || f.Format == Binary || f.Flag == "" && !f.Argument {
			continue
		}
		path := f.Path
		if !filepath.IsAbs(path) {
			path = filepath.Join(j.Command.Dir, path)
		}
		if now, err := read(path); err != nil || !bytes.Equal(now, f.Text) {
			out.Files[i].Outdated = true
			outdated = append(outdated, f.Path)
		}
	}
	if outdated == nil {
		return j, nil
	}
	return &out, outdated
}

// AskedInFiles lists what the user has asked for in the files of the recipe. The command reads copies of those files.
func (j *Job) AskedInFiles() []config.Edit {
	return slices.DeleteFunc(slices.Clone(j.Asked), func(e config.Edit) bool { return e.At.Doc == config.ArgvDoc })
}

// With returns what the user has asked for, except where one of the edits changes the same setting, and then the edits:
// what the program should report.
func (j *Job) With(edits []config.Edit) []config.Edit {
	asked := slices.DeleteFunc(slices.Clone(j.Asked), func(e config.Edit) bool {
		return slices.ContainsFunc(edits, func(later config.Edit) bool { return later.At == e.At })
	})
	return append(asked, edits...)
}

// WithAsked returns a command's arguments with those of the edits made that change arguments. The command is the job's,
// as the user typed it.
func (j *Job) WithAsked(args []string, edits []config.Edit) ([]string, error) {
	if !slices.ContainsFunc(edits, func(e config.Edit) bool { return e.At.Doc == config.ArgvDoc }) {
		return args, nil
	}
	prog, err := command.Program(args, j.Command.Env, j.Command.Dir, j.Command.Texts...)
	if err != nil {
		return nil, fmt.Errorf("reading the command: %w", err)
	}
	argv, err := config.ParseArgv(prog.Args, j.Options)
	if err != nil {
		return nil, fmt.Errorf("reading the command: %w", err)
	}
	for _, e := range edits {
		switch {
		case e.At.Doc != config.ArgvDoc:
		case e.Remove:
			err = argv.Remove(e.At.Path)
		case e.Add:
			err = editArgv(argv, e)
		default:
			err = argv.Set(e.At.Path, e.To)
		}
		if err != nil {
			return nil, err
		}
	}
	return prog.WithArgs(argv.Args())
}

// pointAt makes the command read a file's copy.
func pointAt(argv *config.Argv, f File) (err error) {
	switch {
	case f.Argument:
		err = argv.Replace(f.From, f.Path)
	case f.Added:
		err = argv.Extend(f.Flag, f.Path)
	default:
		err = argv.Set(f.Flag, f.Path)
	}
	if err != nil {
		return fmt.Errorf("pointing %s at the edited copy: %w", cmp.Or(f.Flag, "the argument "+f.From), err)
	}
	return nil
}

// freeName returns a path below dir with that base name that is not taken yet: programs name experiments after their
// recipes, so the name stays and the folder differs.
func freeName(dir, base string, taken map[string]bool) string {
	path := filepath.Join(dir, base)
	for n := 2; taken[path]; n++ {
		path = filepath.Join(dir, strconv.Itoa(n), base)
	}
	taken[path] = true
	return path
}

// Away returns the job with its command started in another folder. The arguments that its rehearsal lists as paths become
// absolute, so that they still lead to the same files. A job whose rehearsal is not away is returned unchanged.
func (j *Job) Away(dir string) *Job {
	if !j.Rehearsal.Away {
		return j
	}
	out := *j
	out.Command.Args = slices.Clone(j.Command.Args)
	for _, i := range j.Rehearsal.Paths {
		if i >= 0 && i < len(out.Command.Args) && !filepath.IsAbs(out.Command.Args[i]) {
			out.Command.Args[i] = filepath.Join(j.Command.Dir, out.Command.Args[i])
		}
	}
	out.Command.Dir = dir
	return &out
}

// patch finds the prepared bytes of an edit.
func (j *Job) patch(e config.Edit) (Patch, bool) {
	for _, f := range j.Files {
		for _, p := range f.Patches {
			if f.Path == e.At.Doc && p.Path == e.At.Path && p.From == e.From && p.To == e.To {
				return p, true
			}
		}
	}
	return Patch{}, false
}

// Open reads the document.
func (f File) Open() (config.Tree, error) {
	if f.Format == Python {
		return config.OpenPython(f.Source)
	}
	return config.Parse(f.Path, f.Text)
}

func editArgv(argv *config.Argv, e config.Edit) error {
	if !e.Add {
		return config.Apply(argv, e)
	}
	var values []string
	if e.To != "" {
		values = []string{e.To}
	}
	if err := argv.Add(e.At.Path, values...); err != nil {
		return fmt.Errorf("adding %s: %w", e.At.Path, err)
	}
	return nil
}

func (j *Job) editFile(docs map[string]config.Tree, e config.Edit) error {
	doc, open := docs[e.At.Doc]
	if !open {
		i := slices.IndexFunc(j.Files, func(f File) bool { return f.Path == e.At.Doc })
		if i < 0 {
			return fmt.Errorf("editing %v: the command reads no such file", e.At)
		}
		var err error
		if doc, err = j.Files[i].Open(); err != nil {
			return err
		}
		docs[e.At.Doc] = doc
	}
	return config.Apply(doc, e)
}

// withEnv returns env with the variables of set, which replace those of the same name.
func withEnv(env []string, set map[string]string) []string {
	if len(set) == 0 {
		return env
	}
	out := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, replaced := set[name]
		return replaced
	})
	for name, value := range set {
		out = append(out, name+"="+value)
	}
	slices.Sort(out[len(out)-len(set):])
	return out
}

package intake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/overlay"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/room"
)

// edited is a job whose user has asked for other settings than its recipe has. The plugin reads them from copies in a
// folder that exists until the job is priced. All that launch keeps names the user's own files: every attempt
// makes its own copies of them, from the texts in the job.
type edited struct {
	job    *job.Job // as typed, with Asked and its arguments
	dir    string
	copies map[string]string // by the copy's path: the path of the user's file
	python map[string]string // by the path of Python source: the copy's
}

// edit writes the copies of a job with the settings that the user asks for.
func edit(j *job.Job, set []string) (e *edited, warnings []string, err error) {
	edits, warnings, err := Asked(j, set)
	if err != nil {
		return nil, nil, err
	}
	own := *j
	own.Asked = edits
	if own.Command.Args, err = j.WithAsked(j.Command.Args, edits); err != nil {
		return nil, nil, fmt.Errorf("--set: %w", err)
	}
	e = &edited{job: &own, copies: map[string]string{}, python: map[string]string{}}
	if e.dir, err = private.Temp("launch-set-"); err != nil {
		return nil, nil, fmt.Errorf("making a folder for the edited recipe: %w", err)
	}
	if err := e.write(); err != nil {
		e.remove()
		return nil, nil, err
	}
	return e, warnings, nil
}

// remove removes the copies.
func (e *edited) remove() { os.RemoveAll(e.dir) }

func (e *edited) write() error {
	made, err := e.job.Rewrite(nil, e.dir)
	if err != nil {
		return fmt.Errorf("--set: %w", err)
	}
	for i, f := range made.Files {
		path := f.Path
		if f.Served() {
			path = filepath.Join(e.dir, "python", strconv.Itoa(i), filepath.Base(f.Path))
			e.python[f.Path] = path
		} else {
			e.copies[path] = f.From
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("writing the edited recipe: %w", err)
		}
		if err := private.WriteFile(path, f.Text, 0o600); err != nil {
			return fmt.Errorf("writing the edited recipe: %w", err)
		}
	}
	return nil
}

// command is the command that reads the copies.
func (e *edited) command() (job.Command, error) {
	made, err := e.job.Rewrite(nil, e.dir)
	if err != nil {
		return job.Command{}, err
	}
	c := made.Command
	c.Sources = slices.DeleteFunc(slices.Clone(c.Sources), func(s config.PythonSource) bool {
		return e.python[s.Path] != ""
	})
	return c, nil
}

// sources reads Python files, and of the edited ones their copies.
func (e *edited) sources(paths []string, read func([]string) []config.PythonSource) []config.PythonSource {
	if e == nil {
		return read(paths)
	}
	from := slices.Clone(paths)
	for i, path := range paths {
		if c := e.python[path]; c != "" {
			from[i] = c
		}
	}
	out := read(from)
	for i := range out {
		out[i].Path = paths[i]
	}
	return out
}

// own returns what a plugin has read from the copies, in terms of the user's files.
func (e *edited) own(read *job.Job) (*job.Job, error) {
	text, err := json.Marshal(read)
	if err != nil {
		return nil, err
	}
	for path, own := range e.copies {
		text = bytes.ReplaceAll(text, inJSON(path), inJSON(own))
	}
	out := &job.Job{}
	if err := json.Unmarshal(text, out); err != nil {
		return nil, err
	}
	out.Plugin, out.Command, out.Asked = read.Plugin, e.job.Command, e.job.Asked
	out.Command.Devices, out.Merged = read.Command.Devices, nil
	for _, f := range e.job.Files {
		i := slices.IndexFunc(out.Files, func(o job.File) bool { return o.Path == f.Path })
		asked := slices.ContainsFunc(e.job.Asked, func(a config.Edit) bool { return a.At.Doc == f.Path })
		switch {
		case asked && i >= 0:
			out.Files[i] = f
		case asked:
			out.Files = append(out.Files, f)
		}
	}
	return out, nil
}

// inJSON is a text as it stands within a JSON string.
func inJSON(s string) []byte {
	b, _ := json.Marshal(s) // it never fails for a string
	return b[1 : len(b)-1]
}

// ownText replaces the paths of copies in a message.
func (e *edited) ownText(s string) string {
	for path, own := range e.copies {
		s = strings.ReplaceAll(s, path, own)
	}
	return s
}

// ladders makes the edits of ladders name the user's files.
func (e *edited) ladders(set *ladder.Set) {
	if e == nil {
		return
	}
	own := func(edits []config.Edit) {
		for i := range edits {
			if path, ok := e.copies[edits[i].At.Doc]; ok {
				edits[i].At.Doc = path
			}
		}
	}
	for _, r := range set.Shared.Rungs {
		own(r.Edits)
	}
	for _, l := range set.Phases {
		for _, r := range l.Rungs {
			own(r.Edits)
		}
	}
	if set.Host != nil {
		for _, r := range set.Host.Rungs {
			own(r.Edits)
		}
	}
}

// check returns an error if the program would not take a setting that the user asks for. read is the job with them.
func (e *edited) check(read *job.Job) error {
	for path := range e.python {
		src := read.Command.Source(path)
		for _, a := range e.job.Asked {
			if a.At.Doc != path || src == nil {
				continue
			}
			if src.Problem != "" {
				return fmt.Errorf("--set %s=%s: Python cannot read it: %s", a.At.Path, a.To, src.Problem)
			}
			if it, ok := src.Item(a.At.Path); !ok || !it.Literal {
				return fmt.Errorf("--set %s=%s: this is no value in Python; quote a text: %s=%q", a.At.Path, a.To,
					a.At.Path, a.To)
			}
		}
	}
	var merged config.Tree
	if read.Merged != nil {
		merged, _ = config.ParseYAML(read.Merged)
	}
	for _, a := range e.job.Asked {
		if now, ok := e.uses(read, merged, a); ok {
			return fmt.Errorf("--set %s=%s: the program would use %s all the same: something else in the command "+
				"outranks it", a.At.Path, a.To, now)
		}
	}
	return nil
}

// uses returns the value that the program would use instead of an asked number. ok is false if it would use that
// number, or nothing is known.
func (e *edited) uses(read *job.Job, merged config.Tree, a config.Edit) (now string, ok bool) {
	differ := func(now, want string) bool {
		x, err := strconv.ParseFloat(now, 64)
		y, wrong := strconv.ParseFloat(want, 64)
		return err == nil && wrong == nil && x != y
	}
	if merged != nil && a.At.Doc == config.ArgvDoc && !strings.HasPrefix(a.At.Path, "-") {
		if now := merged.Root().At(a.At.Path).Text(); differ(now, a.To) {
			return now, true
		}
	}
	value := func(j *job.Job) (string, bool) {
		i := slices.IndexFunc(j.Knobs, func(k job.Knob) bool { return k.Name == a.Knob })
		if i < 0 || j.Knobs[i].Default {
			return "", false
		}
		return j.Knobs[i].Value, true
	}
	was, known := value(e.job)
	if now, ok := value(read); ok && known && !differ(was, a.From) && differ(now, a.To) {
		return now, true // was: a knob whose value is not the setting's own says nothing
	}
	return "", false
}

// recognizeAsked asks the plugin again, about the command with the settings that the user asks for. It returns nil if
// there is an error, which the Reading has.
func (r *Reading) recognizeAsked(ctx context.Context, o Options, client plugin.Plugin, look func() (room.Room, error)) (
	plugin.Recognized, *edited) {
	e, warnings, err := edit(r.Job, o.Set)
	if err != nil {
		r.refuse(err)
		return nil, nil
	}
	r.Warnings = append(r.Warnings, warnings...)
	if why := overlayRefused(r, e.job); why != "" {
		r.refuse(fmt.Errorf("--set cannot change settings in Python source here: %s", why))
		return nil, e
	}
	c, err := e.command()
	if err != nil {
		r.refuse(fmt.Errorf("--set: %w", err))
		return nil, e
	}
	known, err := plugin.Answer(ctx, client.Recognize, &c, finder{r, o, look, e})
	if err == nil {
		if err = e.check(known.Job()); err == nil {
			r.Job, err = e.own(known.Job())
		}
	}
	if err != nil {
		r.refuse(errors.New(e.ownText(err.Error())))
		return nil, e
	}
	r.confine()
	return known, e
}

// overlayRefused returns why the program will not load the edited Python source, or "".
func overlayRefused(r *Reading, j *job.Job) string {
	python := slices.ContainsFunc(j.Asked, func(e config.Edit) bool {
		return slices.ContainsFunc(j.Files, func(f job.File) bool { return f.Served() && f.Path == e.At.Doc })
	})
	if !python || r.program == nil {
		return ""
	}
	return overlay.Refused(*r.program)
}

// needsPlugin is the error of --set for a command that launch runs as typed.
func (r *Reading) needsPlugin() error {
	why := r.Why()
	if n := len(r.Warnings); r.Explained && n > 0 {
		why = r.Warnings[n-1]
	}
	return fmt.Errorf("--set changes settings of jobs that launch recognises, and it does not recognise this one (%s); "+
		"change the command instead", why)
}

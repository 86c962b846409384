package main

import (
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/overlay"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/witness"
)

// hook has the program's Python processes load what is wanted of them: edited copies of its source, and what they know of
// their memory. Without the copies nothing may run, so that is an error; without the other the attempt's record says why.
func (x *executor) hook(a *attempt, sources []overlay.File) (err error) {
	var parts []overlay.Part
	if x.settings.Inside || x.job != nil && x.job.Inside {
		if a.unheard = unreachable(a); a.unheard == "" {
			parts = append(parts, witness.Part())
		}
	}
	if len(sources) == 0 && len(parts) == 0 {
		return nil
	}
	dir := a.dir
	if strings.ContainsRune(dir, filepath.ListSeparator) || !utf8.ValidString(dir) { // it cannot stand in PYTHONPATH
		if dir, err = private.Temp("launch-"); err == nil {
			a.hookDir = dir
		}
	}
	if err == nil {
		a.overlay, err = overlay.Install(dir, sources, a.command.Env, parts...)
	}
	if err != nil {
		a.unheard = err.Error()
		if len(sources) > 0 {
			return err
		}
		return nil
	}
	a.command.Env = withEnv(a.command.Env, a.overlay.Env)
	if len(parts) > 0 {
		a.witness = witness.Of(a.overlay)
	}
	return nil
}

// unreachable says why no hook can reach the program, as far as its command shows, or "".
func unreachable(a *attempt) string {
	prog, err := command.Program(a.command.Args, a.command.Env, a.command.Dir)
	if err != nil { // what is not understood may well start a Python
		return ""
	}
	return overlay.Refused(prog)
}

// inside is what was heard of a program that ended then; nil where it was not to be asked.
func (a *attempt) inside(ended time.Time) *oom.Inside {
	switch {
	case a.witness != nil:
		return a.witness.Inside(ended)
	case a.unheard != "":
		return witness.Unheard(a.unheard)
	}
	return nil
}

package declared

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/metric"
)

// check reports the first part of a declaration that contradicts another one, or that cannot be.
func (d *declaration) check(root config.Value) error {
	for _, part := range []func(config.Value) error{d.checkBatch, d.checkPhases, d.checkRungs, d.checkSigns, d.checkStates,
		d.checkNames, d.checkMemory} {
		if err := part(root); err != nil {
			return err
		}
	}
	slices.SortStableFunc(d.Rungs, func(a, b rung) int { return int(a.Cost) - int(b.Cost) })
	return nil
}

func (d *declaration) checkBatch(root config.Value) error {
	switch {
	case d.leavesAll():
	case d.Micro == nil && (d.Global == nil || d.Accumulation == nil):
		return wrong("micro-batch", root, "it is missing: where it is set, or global-batch and accumulation, from which the "+
			"program derives it")
	case d.Global != nil && (d.Global.cards || d.Global.place == nil && d.Global.whole() < 1):
		return wrong("global-batch", root.Get("global-batch"), "it is a whole number from 1, or a place")
	case d.SampleTokens != nil && (d.SampleTokens.cards || d.SampleTokens.place == nil && d.SampleTokens.whole() < 1):
		return wrong("sample-tokens", root.Get("sample-tokens"), "it is a whole number from 1, or a place")
	case d.SampleTokens != nil && d.Global == nil:
		return wrong("sample-tokens", root.Get("sample-tokens"), "it is the unit of global-batch, which is missing")
	case d.Ranks != nil && d.Ranks.place == nil && !d.Ranks.cards && d.Ranks.whole() < 1:
		return wrong("ranks", root.Get("ranks"), "it is a whole number from 1, a place, or cards")
	}
	return nil
}

func (d *declaration) checkPhases(root config.Value) error {
	for _, p := range d.Phases {
		at := root.Get("phases").Get(p.name)
		switch {
		case p.name == ladder.Shared || p.name == ladder.Host:
			return wrong("phases."+p.name, at, "a phase cannot have this name")
		case p.name == ladder.Training && p.value.Micro != nil:
			return wrong("phases."+p.name, at, "the batch of the training is micro-batch, at the top")
		}
	}
	return nil
}

func (d *declaration) checkRungs(root config.Value) error {
	names, owner := map[string]bool{}, map[string]string{}
	for i, g := range d.Rungs {
		at, key := root.Get("rungs"), "rungs"
		if at.Kind() == config.Seq {
			at, key = at.Index(i), fmt.Sprintf("rungs[%d]", i)
		}
		_, isPhase := d.Phases.get(g.Phase)
		switch {
		case (g.At == nil) == (len(g.Set) == 0) || (g.At == nil) != (g.To.any == nil):
			return wrong(key, at, "it has a place (at) and a value (to), or several of them (set)")
		case g.Phase != "" && g.Phase != ladder.Training && g.Phase != ladder.Shared && !isPhase:
			return wrong(key+".phase", at.Get("phase"), "there is no phase %q; there are training, shared%s", g.Phase,
				d.phaseList())
		case g.Slowdown < 0 || g.Slowdown > 1000:
			return wrong(key+".slowdown", at.Get("slowdown"), "%g is no time relative to a step as asked", g.Slowdown)
		case g.Name == "" || names[g.Name]:
			return wrong(key+".name", at.Get("name"), "each rung has a name of its own")
		}
		names[g.Name] = true
		for _, a := range g.assignments() {
			phase := cmp.Or(g.Phase, ladder.Training)
			if other, taken := owner[a.place.String()]; taken && other != phase {
				return wrong(key, at, "it changes %s, as a rung of %s does: a setting belongs to one phase", a.place.String(),
					other)
			}
			owner[a.place.String()] = phase
		}
	}
	return nil
}

func (d *declaration) phaseList() (list string) {
	for _, p := range d.Phases {
		list += ", " + p.name
	}
	return list
}

func (d *declaration) checkSigns(root config.Value) error {
	for i, m := range d.Metric {
		if _, err := metric.ParseDirection(m.Direction); err != nil {
			at := root.Get("metric")
			if at.Kind() == config.Seq {
				at = at.Index(i)
			}
			return wrong("metric.direction", at.Get("direction"), "%v", err)
		}
	}
	for i, e := range d.Check {
		at := root.Get("check")
		if at.Kind() == config.Seq {
			at = at.Index(i)
		}
		if err := e.check().Check(); err != nil {
			return wrong("check", at, "%s", strings.TrimPrefix(err.Error(), "its "))
		}
		if slices.ContainsFunc(d.Check[:i], func(o expectation) bool { return o.Name == e.Name }) {
			return wrong("check.name", at.Get("name"), "each check has a name of its own")
		}
	}
	for _, c := range d.Confirm {
		at := root.Get("confirm").Get(c.name)
		if !c.value.has("value") {
			return wrong("confirm."+c.name, at, "it has no group (?P<value>…)")
		}
		_, known := confirmed[c.name]
		if !known && !slices.ContainsFunc(d.Rungs, func(g rung) bool { return g.Name == c.name }) {
			keys := []string{"micro-batch", "accumulation", "global-batch"}
			for _, g := range d.Rungs {
				keys = append(keys, g.Name)
			}
			return below("confirm", at, unknown(c.name, at, keys))
		}
	}
	if d.Save != nil && !slices.Contains(signals, d.Save.signal()) {
		return wrong("save.signal", root.Get("save").Get("signal"), "%q is not one of the signals INT, TERM, "+
			"HUP, USR1 and USR2", d.Save.Signal)
	}
	return nil
}

var signals = []string{"SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"}

func (s *saving) signal() string { return "SIG" + strings.TrimPrefix(strings.ToUpper(s.Signal), "SIG") }

func (m figure) direction() metric.Direction {
	d, _ := metric.ParseDirection(m.Direction) // check has
	return d
}

func (d *declaration) checkStates(root config.Value) error {
	if d.ResumeValue != "" && (d.Resume == nil || d.Resume.option == nil) {
		return wrong("resume-value", root.Get("resume-value"), "it is the value of the option that resume names")
	}
	if h := d.Rehearse; h != nil {
		leads := slices.ContainsFunc(h.Set, func(a assigned[scalar]) bool {
			return strings.Contains(fmt.Sprint(a.value.any), job.Scratch)
		})
		if !leads {
			return wrong("rehearse", root.Get("rehearse"), "a trial must not write where the training does: one value of set "+
				"contains %s", job.Scratch)
		}
	}
	return nil
}

// checkNames looks for names in braces that mean nothing.
func (d *declaration) checkNames(root config.Value) error {
	check := func(key string, texts ...string) error {
		for _, text := range texts {
			for _, m := range reference.FindAllStringSubmatch(text, -1) {
				a, ok := d.Values.get(m[1])
				if strings.HasPrefix(m[1],
					"-") || ok && a.place != nil || m[0] == statePath || m[0] == job.Scratch || m[0] == job.ScratchName {
					continue
				}
				return wrong(key, root.Get(key), "%s is neither an option nor the name of a place under values", m[0])
			}
		}
		return nil
	}
	if d.LastWords != "" && !slices.Contains(job.Savers, d.LastWords) {
		return wrong("last-words", root.Get("last-words"), "it is none of %s", strings.Join(job.Savers, ", "))
	}
	var globs []string
	if d.Resume != nil {
		globs = d.Resume.globs
	}
	for _, one := range []struct {
		key   string
		texts []string
	}{{"resume", globs}, {"in-the-way", d.InTheWay}, {"clear", d.Clear}, {"exclusive", []string{d.Exclusive}}} {
		if err := check(one.key, one.texts...); err != nil {
			return err
		}
	}
	return nil
}

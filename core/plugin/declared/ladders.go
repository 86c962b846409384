package declared

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/python"
)

// slower is the expected slowdown of a rung whose author gives none.
const slower = 1.3

// Ladders implements [plugin.Recognized].
func (r *reading) Ladders(_ context.Context, d gpu.Device) (*ladder.Set, error) {
	b := r.job.Batch
	set := &ladder.Set{Values: map[string]int64{job.MicroBatch: b.Micro, job.Accumulation: b.Accumulation}}
	if r.whole > 0 {
		set.Invariants = []ladder.Invariant{{Name: job.GlobalBatch, Factors: []string{job.MicroBatch, job.Accumulation},
			Equals: r.whole, Until: ladder.Recipe}}
	}
	larger, smaller, err := r.splitRungs()
	if err != nil {
		return nil, err
	}
	beside := r.beside(d)
	on, above := map[string][]ladder.Rung{}, map[string][]ladder.Rung{}
	on[r.splitPhase()], above[r.splitPhase()] = smaller, larger
	for _, g := range r.Rungs {
		rg, ok, err := r.ownRung(g)
		if err != nil {
			return nil, err
		}
		if ok {
			phase := cmp.Or(g.Phase, ladder.Training)
			on[phase] = append(on[phase], rg)
		}
	}
	for _, p := range r.Phases {
		rungs, err := r.phaseRungs(p)
		if err != nil {
			return nil, err
		}
		on[p.name] = append(on[p.name], rungs...)
	}
	set.Shared = ladder.Ladder{Phase: ladder.Shared, Asked: len(above[ladder.Shared]),
		Rungs: append(above[ladder.Shared], ladder.Descend(ladder.AsAsked(), on[ladder.Shared], 0)...)}
	for _, phase := range r.phaseNames() {
		for _, rungs := range [][]ladder.Rung{above[phase], on[phase]} {
			for i := range rungs {
				if err := r.price(phase, &rungs[i], set.Shared.Rungs, beside); err != nil {
					return nil, err
				}
			}
		}
		asked := ladder.AsAsked()
		if err := r.price(phase, &asked, set.Shared.Rungs, beside); err != nil {
			return nil, err
		}
		set.Phases = append(set.Phases, ladder.Ladder{Phase: phase, Asked: len(above[phase]),
			Rungs: append(above[phase], ladder.Descend(asked, on[phase], set.Shared.Asked)...)})
	}
	return set, nil
}

// phaseNames are the phases of the program, the training first.
func (r *reading) phaseNames() []string {
	names := []string{ladder.Training}
	for _, p := range r.Phases {
		if p.name != ladder.Training {
			names = append(names, p.name)
		}
	}
	return names
}

// splitPhase is the ladder that has the training's micro-batch: the shared one if another phase follows it.
func (r *reading) splitPhase() string {
	if slices.ContainsFunc(r.Phases, func(p entry[phase]) bool { return p.value.coupled() }) {
		return ladder.Shared
	}
	return ladder.Training
}

// coupled reports whether the batch of the phase follows from the training's, and cannot be set apart.
func (p phase) coupled() bool { return p.Micro == nil && p.Times > 0 }

// splitRungs are the rungs that divide the batch in another way: larger micro-batches, for --fill, and smaller ones.
func (r *reading) splitRungs() (larger, smaller []ladder.Rung, err error) {
	switch { // what cannot be changed stays, and the job's warnings have the reason
	case r.batch.Micro == 0, r.micro == nil && !r.keeps, r.micro != nil && r.micro.change == nil:
		return nil, nil, nil
	}
	above, below := r.splits()
	for _, s := range slices.Concat(above, below) {
		rg, err := r.splitRung(s)
		if errors.Is(err, errUneven) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if s.Micro > r.batch.Micro {
			larger = append(larger, rg)
		} else {
			smaller = append(smaller, rg)
		}
	}
	return larger, smaller, nil
}

func (r *reading) splitRung(s ladder.Split) (rg ladder.Rung, err error) {
	times := float64(r.batch.Micro) / float64(s.Micro)
	rg = ladder.Rung{Name: fmt.Sprintf("micro-batch %d", s.Micro), Cost: ladder.Speed, Slowdown: 1 + 0.1*times,
		Values: map[string]int64{job.MicroBatch: s.Micro, job.Accumulation: s.Accumulation}}
	if times < 1 {
		rg.Slowdown = ladder.SplitSlowdown(times)
	}
	switch {
	case !r.keeps:
		rg.Cost = ladder.Recipe
	case r.BatchNorm:
		rg.Cost = ladder.Numerics
	}
	effects := r.effects()
	rg.NewState = r.counted != ""
	for _, e := range effects { // the dearest first
		if e.cost > rg.Cost {
			rg.Cost, rg.Why = e.cost, e.why
		}
	}
	if r.keeps {
		rg.Name += fmt.Sprintf(" × accumulation %d", s.Accumulation)
	}
	rg.Edits, err = r.splitting(s, rg.Cost)
	return rg, err
}

// phaseRungs are the rungs of a phase with a batch of its own.
func (r *reading) phaseRungs(p entry[phase]) (rungs []ladder.Rung, err error) {
	if p.value.Micro == nil {
		return nil, nil
	}
	s, err := r.find(p.value.Micro)
	if err != nil || s.change == nil {
		return nil, err
	}
	asked := r.phaseBatch(p.value, s)
	of, err := r.multiple(p.value.Of)
	if err != nil {
		return nil, err
	}
	for micro := asked / 2; micro >= 1; micro /= 2 {
		if micro*max(1, r.batch.Ranks)%of != 0 {
			continue
		}
		rg := ladder.Rung{Name: fmt.Sprintf("%s batch %d", p.name, micro), Cost: ladder.Speed,
			Slowdown: 1 + 0.1*float64(asked)/float64(micro), Values: map[string]int64{knobOf(p.name): micro}}
		e, err := r.edit(knobOf(p.name), s, scalar{any: micro}, rg.Cost)
		if err != nil {
			return nil, err
		}
		rg.Edits = []config.Edit{e}
		rungs = append(rungs, rg)
	}
	return rungs, nil
}

// multiple is the number of which a batch stays a multiple; 1 where nothing asks for that.
func (r *reading) multiple(of *amount) (int64, error) {
	if of == nil {
		return 1, nil
	}
	if of.place == nil {
		return max(1, of.whole()), nil
	}
	s, err := r.find(of.place)
	if err != nil {
		return 0, err
	}
	n, _ := s.count()
	return max(1, n), nil
}

// knobOf is the knob of a phase's batch.
func knobOf(phase string) string { return phase + " " + job.MicroBatch }

// phaseBatch is the batch of a phase as asked; 0 if it is not known.
func (r *reading) phaseBatch(p phase, s *setting) int64 {
	if s != nil {
		if n, ok := s.count(); ok {
			return n
		}
	}
	if p.Times > 0 && (s == nil || s.byScript) {
		return p.Times * r.batch.Micro
	}
	return 0
}

// ownRung is a rung of the author's. ok is false where the job is so already, where its conditions do not hold, and
// where launch cannot change the setting: then the job has a warning.
func (r *reading) ownRung(g rung) (rg ladder.Rung, ok bool, err error) {
	if ok, err := r.applies(g); err != nil || !ok {
		return rg, false, err
	}
	rg = ladder.Rung{Name: g.Name, Cost: ladder.Cost(g.Cost), Slowdown: cmp.Or(g.Slowdown, slower), NewState: g.NewState}
	for _, a := range g.assignments() {
		s, err := r.find(&a.place)
		if err != nil {
			return rg, false, err
		}
		if s.known && same(s.value, a.value.any) {
			continue
		}
		if s.change == nil || !s.set && r.refuses(a.place) {
			return rg, false, nil
		}
		knob := g.Name
		if g.At == nil {
			knob = a.place.String()
		}
		e, err := r.edit(knob, s, a.value, rg.Cost)
		if err != nil {
			return rg, false, err
		}
		if e.From != e.To || e.Add || e.Remove {
			rg.Edits = append(rg.Edits, e)
		}
	}
	return rg, len(rg.Edits) > 0, nil
}

// refuses reports whether the program has no such option, by its own parser: it would end with an error. That is only
// known where all of its options were read, and the micro-batch is one of them.
func (r *reading) refuses(p place) bool {
	list := r.prog.settings()
	if r.Micro == nil || len(list.Unread) > 0 || list.Cut || slices.ContainsFunc(list.Files, func(s python.Source) bool {
		return s.Names("parse_known_args")
	}) || handsOn(list.Files) {
		return false
	}
	own := func(p place) bool {
		return slices.ContainsFunc(p.names, func(n string) bool {
			o, ok := list.Lookup(n)
			return ok && o.How == python.Argparse
		})
	}
	all := p.each()
	return slices.ContainsFunc(r.Micro.each(), own) && !slices.ContainsFunc(all, func(one place) bool {
		return own(one) || !one.option() || one.pair || one.path != ""
	})
}

// handsOn reports whether a parser gets options where nothing was read: by a function of a library, or from a parent.
func handsOn(files []python.Source) bool {
	defined := map[string]bool{}
	var all []*python.Syntax
	for _, f := range files {
		x := f.Syntax()
		all = append(all, x)
		for _, st := range x.Statements {
			if d, ok := x.Definition(st); ok {
				defined[d.Name] = true
			}
		}
	}
	for _, x := range all {
		parsers := map[string]bool{}
		for _, st := range x.Statements {
			if a, ok := x.Assigns(st); ok && strings.HasSuffix(x.Of(a.Value), ")") && x.Find(a.Value, "(") >= 0 {
				call := x.Of(a.Value)
				parsers[a.Name] = parsers[a.Name] || strings.Contains(call, "ArgumentParser(") ||
					strings.Contains(call, ".add_parser(") || strings.Contains(call, ".add_argument_group(")
			}
		}
		for _, st := range x.Statements {
			for _, c := range x.Calls(st.Range) {
				args := x.Args(c.Open)
				if _, ok := python.Keyword(args, "parents"); ok {
					return true
				}
				gets := slices.ContainsFunc(args, func(a python.Arg) bool { return parsers[x.Of(a.Range)] })
				if gets && !defined[c.Name[strings.LastIndexByte(c.Name, '.')+1:]] {
					return true
				}
			}
		}
	}
	return false
}

// assignments are the settings of a rung.
func (g rung) assignments() settings[scalar] {
	if g.At != nil {
		return settings[scalar]{{*g.At, g.To}}
	}
	return g.Set
}

// applies reports whether the conditions of a rung hold.
func (r *reading) applies(g rung) (bool, error) {
	if !r.installed(g.Needs) {
		return false, nil
	}
	for _, a := range g.When {
		if ok, err := r.holds(a); err != nil || !ok {
			return false, err
		}
	}
	for _, a := range g.Unless {
		if ok, err := r.holds(a); err != nil || ok {
			return false, err
		}
	}
	return true, nil
}

// holds reports whether a setting has one of the values.
func (r *reading) holds(a assigned[values]) (bool, error) {
	s, err := r.find(&a.place)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(a.value, func(v scalar) bool {
		return v.any == given && s.set || s.known && same(s.value, v.any)
	}), nil
}

// given is the value, in a condition, of a setting that the command or its files set, to whatever.
const given = "set"

// same reports whether two values mean the same: 2 and 2.0, or "True" and true.
func same(a, b any) bool {
	text := func(v any) string { return strings.ToLower(strings.Trim(fmt.Sprint(v), `"'`)) }
	return a == b || text(a) == text(b)
}

// edit is the edit of one setting.
func (r *reading) edit(knob string, s *setting, to scalar, cost ladder.Cost) (config.Edit, error) {
	at := s.change
	if at == nil {
		return config.Edit{}, fmt.Errorf("%s: launch cannot change %s: %s", r.path, nameOf(s.at), s.fixed)
	}
	e, err := r.change(at, to)
	if err != nil {
		return config.Edit{}, fmt.Errorf("%s: %w", r.path, err)
	}
	e.Knob, e.Cost = knob, cost.String()
	return e, nil
}

// change is the edit of one spot, without its knob and cost.
func (r *reading) change(at *spot, to scalar) (config.Edit, error) {
	if f := r.file(at.at.Doc); f != nil {
		doc, err := f.Open()
		if err != nil {
			return config.Edit{}, err
		}
		text, err := doc.Text(to.any)
		if err != nil {
			return config.Edit{}, fmt.Errorf("%v: %w", at.at, err)
		}
		return config.Change(doc, at.at.Doc, at.at.Path, text)
	}
	argv, err := config.ParseArgv(r.prog.Args, r.options)
	if err != nil {
		return config.Edit{}, err
	}
	if flag, ok := to.any.(bool); ok && r.isFlag(at.at.Path) {
		return r.flagged(argv, at.at, flag)
	}
	return config.Change(argv, at.at.Doc, at.at.Path, cmp.Or(to.text, fmt.Sprint(to.any)))
}

// isFlag reports whether an option takes no value.
func (r *reading) isFlag(name string) bool {
	return slices.ContainsFunc(r.options, func(o config.Option) bool {
		return o.Takes == config.None && slices.Contains(o.Names, name)
	})
}

// flagged is the edit that sets a flag, or takes it away. Where the command is so already, nothing is changed.
func (r *reading) flagged(argv *config.Argv, at config.Address, to bool) (config.Edit, error) {
	e := config.Edit{At: at}
	var err error
	switch has := argv.Has(at.Path); {
	case to && !has:
		e.Add = true
		err = argv.Add(at.Path)
	case !to && has:
		e.Remove = true
		err = argv.Remove(at.Path)
	}
	return e, err
}

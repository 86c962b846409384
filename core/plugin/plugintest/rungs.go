package plugintest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/unit"
)

// How far, as a divisor, a rung's estimate may be from that of the job which it makes. What lies between two recorded
// micro-batches is rounded once more. What a phase leaves behind for another, such as the last training batch on the card, follows
// a rung that the other is not priced at.
const (
	own    = 1000
	others = 20
)

// rungs holds every rung against the job that it makes: those of the shared ladder, those of each phase, and the last of both. A
// rung of a phase is none of the others' concern: they stay what they were.
func rungs(t testing.TB, p plugin.Plugin, j *job.Job, set *ladder.Set, d gpu.Device) {
	t.Helper()
	hold := func(s int, at *ladder.Ladder, i int) {
		t.Helper()
		shared, rung := set.Shared.Rungs[s], ladder.Rung{}
		what := "shared, " + shared.Name
		if at != nil {
			rung = at.Rungs[i]
			what += "; " + at.Phase + ", " + rung.Name
		}
		typed, priced := made(t, p, j, d, slices.Concat(shared.Edits, rung.Edits), what)
		if priced == nil {
			return
		}
		if want, ok := global(set, shared.Values, rung.Values); ok && max(shared.Cost, rung.Cost) < ladder.Recipe && typed.Batch.Micro*typed.Batch.Accumulation != want {
			t.Errorf("%s: the job of this rung has micro-batch %d × accumulation %d, "+
				"but the rung promises a global batch of %d per rank", what, typed.Batch.Micro, typed.Batch.Accumulation, want)
		}
		for _, l := range set.Phases {
			k, near := l.Asked, unit.Bytes(own)
			switch {
			case at == nil:
			case l.Phase == at.Phase:
				k = i
			default:
				near = others
			}
			compare(t, what+": "+l.Phase, l.Rungs[k].At(s), asked(priced, l.Phase), near)
		}
	}
	for s := range set.Shared.Rungs {
		hold(s, nil, 0)
	}
	for n := range set.Phases {
		l := &set.Phases[n]
		for i := range l.Rungs {
			if i != l.Asked {
				hold(set.Shared.Asked, l, i)
			}
		}
		if last := len(l.Rungs) - 1; last != l.Asked {
			hold(len(set.Shared.Rungs)-1, l, last)
		}
	}
}

// global is what the values of a rung make of micro-batch and accumulation.
func global(set *ladder.Set, over ...map[string]int64) (int64, bool) {
	values := maps.Clone(set.Values)
	for _, m := range over {
		maps.Copy(values, m)
	}
	micro, ok := values[job.MicroBatch]
	accumulation, also := values[job.Accumulation]
	return micro * accumulation, ok && also
}

// asked is the estimate of a phase of the job as asked; nil where it has no such phase.
func asked(set *ladder.Set, phase string) *mem.Estimate {
	l := set.Ladder(phase)
	if l == nil {
		return nil
	}
	e := l.Rungs[l.Asked].At(set.Shared.Asked)
	return &e
}

// feeds holds the rungs of the host's ladder against the jobs that they make.
func feeds(t testing.TB, p plugin.Plugin, j *job.Job, set *ladder.Set, d gpu.Device) {
	t.Helper()
	if set.Host == nil {
		return
	}
	for i, r := range set.Host.Rungs {
		what := "host, " + r.Name
		_, priced := made(t, p, j, d, r.Edits, what)
		if priced == nil {
			continue
		}
		if priced.Host == nil {
			t.Errorf("%s: the job that it makes has no host ladder", what)
			continue
		}
		for _, room := range []string{ladder.HostMemory, ladder.SharedMemory, ladder.Apart} {
			e := priced.Host.At(0, room, j.Batch.Micro)
			compare(t, what+", "+room, set.Host.At(i, room, j.Batch.Micro), &e, own)
		}
	}
}

// made is the job that edits make, as a command that was typed, and its ladders; nil where there is none.
func made(t testing.TB, p plugin.Plugin, j *job.Job, d gpu.Device, edits []config.Edit, what string) (*job.Job, *ladder.Set) {
	t.Helper()
	out, err := j.Rewrite(edits, attempt(j))
	if err != nil {
		t.Errorf("%s: its edits cannot be made: %v", what, err)
		return nil, nil
	}
	defer write(t, out.Files)()
	c := out.Command
	c.Sources, c.Formulas = nil, nil
	r, typed := recognize(t, p, c)
	for _, e := range edits {
		for _, k := range typed.Knobs {
			if k.Name == e.Knob && k.Dead == "" && k.At.Path == e.At.Path && k.Value != e.To {
				t.Errorf("%s: the edit sets %s to %[4]q, but the plugin then reads %[3]q", what, e.Knob, k.Value, e.To)
			}
		}
	}
	set, err := r.Ladders(t.Context(), d)
	if err != nil {
		t.Errorf("%s: the job that it makes cannot be priced: %v", what, err)
		return nil, nil
	}
	return typed, set
}

// write puts the edited copies where the command finds them, until it is undone. Python source has no copy: it is changed in
// its place, which launch's overlay only seems to do.
func write(t testing.TB, files []job.File) (undo func()) {
	t.Helper()
	var undone []func()
	for _, f := range files {
		old, err := os.ReadFile(f.Path)
		undone = append(undone, func() {
			if err == nil {
				os.WriteFile(f.Path, old, 0o644)
			} else {
				os.Remove(f.Path)
			}
		})
		text := f.Text
		if f.Format == job.Binary {
			if text, err = os.ReadFile(f.From); err != nil {
				t.Fatal(err)
			}
			for _, patch := range f.Patches {
				for _, b := range patch.Bytes {
					copy(text[b.At:], b.New)
				}
			}
		}
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f.Path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		for _, f := range undone {
			f()
		}
	}
}

// compare holds an estimate against that of the job as typed, nil where that has no such phase. near is a divisor of what may be
// between them.
func compare(t testing.TB, what string, rung mem.Estimate, typed *mem.Estimate, near unit.Bytes) {
	t.Helper()
	switch {
	case typed == nil && rung.Total() > 0:
		t.Errorf("%s: %v as a rung, and the job that it makes has no such phase", what, rung.Total())
	case typed == nil:
	case rung.Known() != typed.Known():
		t.Errorf("%s: unknown as a rung %q, as typed %q", what, rung.Unknown, typed.Unknown)
	default:
		a, b := rung.Total(), typed.Total()
		if off := max(a-b, b-a); off > max(a, b)/near {
			t.Errorf("%s: %v as a rung, %v as typed%s", what, a, b, differences(rung, *typed))
		}
	}
}

// differences are the lines that two estimates do not share.
func differences(rung, typed mem.Estimate) string {
	sums := map[string][2]unit.Bytes{}
	for i, e := range []mem.Estimate{rung, typed} {
		for _, it := range e.Items {
			name := fmt.Sprintf("%s of %s", it.Kind, it.What)
			both := sums[name]
			both[i] += it.Bytes
			sums[name] = both
		}
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		if both := sums[name]; both[0] != both[1] {
			fmt.Fprintf(&out, "\n\t%s: %v, %v", name, both[0], both[1])
		}
	}
	return out.String()
}

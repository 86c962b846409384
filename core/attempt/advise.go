package attempt

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/advice"
	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/observe"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// advise returns what the attempt's output and its curves advise, after its end.
func (x *Executor) advise(a attempt, l *listener, watch *observe.Watch, out run.Outcome) []job.Advice {
	l.hush()
	l.tap.readAll()
	l.text.End()
	seen := x.seen(l, watch)
	for _, r := range out.Retries {
		seen.Retries, seen.Short = seen.Retries+r.Count, max(seen.Short, r.Short)
	}
	for name, m := range out.Metrics {
		if m.Diverged {
			seen.Diverged = append(seen.Diverged, name)
		}
	}
	slices.Sort(seen.Diverged)
	if x.Job != nil {
		seen.Ahead = x.ahead(a, out)
	}
	all := advice.Give(seen)
	for _, told := range l.told {
		if i := slices.IndexFunc(all, func(a job.Advice) bool { return a.Name == told.Name }); i >= 0 {
			all[i].Told = true
		} else {
			all = append(all, told)
		}
	}
	return advice.Once(all)
}

// seen is what advice is taken from, at the end of an attempt and before.
func (x *Executor) seen(l *listener, watch *observe.Watch) advice.Seen {
	seen := advice.Seen{Text: l.text, Training: ladder.Training, Cores: runtime.NumCPU()}
	observed(&seen, watch)
	if x.Job == nil {
		return seen
	}
	for _, k := range x.Job.Knobs {
		switch where := placeOf(k.At); {
		case k.Dead != "":
			seen.Unread = append(seen.Unread, advice.Setting{Where: where, Why: k.Dead})
		case strings.Contains(k.Name, "workers"):
			seen.Workers = where
		}
	}
	return seen
}

// lookEvery is how often launch looks for advice that does not wait for the end.
const lookEvery = 2 * time.Second

// tellInTime prints the advice that would come too late at the end of an attempt, as soon as it is certain, and notes
// it in l.told. stop ends that, before l.told is read.
func (x *Executor) tellInTime(a attempt, l *listener, watch *observe.Watch, began time.Time) (stop func()) {
	if x.Job == nil || a.trial != "" {
		return func() {}
	}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var found advice.Live
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			seen := x.seen(l, watch)
			seen.Retries, seen.Short = int(l.retried.Load()), unit.Bytes(l.short.Load())
			seen.Ahead = notYet(a.priced, watch.Course().Phases, x.Setup.Room.Size())
			for _, one := range slices.Concat(found.Look(seen, time.Since(began)), a.another(l.detector.State())) {
				l.press(one)
				if one = x.withStop(one); x.Tell != nil && x.tell(one) {
					l.told = append(l.told, one)
					x.Tell(one)
				}
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(end)
		<-done
	})
}

// another is the advice to stop a training that is another one than the run began.
func (a attempt) another(s oom.State) []job.Advice {
	if a.changed == nil {
		return nil
	}
	how := a.changed(s)
	if len(how) == 0 {
		return nil
	}
	return []job.Advice{{Name: "another training", Weight: job.Fails, Told: true,
		What: "this attempt trains otherwise than the one " +
			"before it: " + strings.Join(how, "; "), Evidence: how,
		Change: "set what follows the micro-batch to a fixed value, or allow no smaller one: --allow none"}}
}

// mostTold bounds how many lines of advice a run prints while it goes on.
const mostTold = 3

// tell reports whether to print advice now: once a run, and only so much of it.
func (x *Executor) tell(a job.Advice) bool {
	if len(x.told) >= mostTold || slices.Contains(x.told, a.Name) {
		return false
	}
	x.told = append(x.told, a.Name)
	return true
}

// withStop adds how to stop the run without losing what it has learned, if the program saves states.
func (x *Executor) withStop(a job.Advice) job.Advice {
	if x.Record != nil && x.Job != nil && a.Weight == job.Fails &&
		(len(x.Job.Signs.States) > 0 || x.Job.Signs.Has(job.SavedState)) {
		a.Change += fmt.Sprintf("; launch stop --save %s stops it after it has saved its state", x.Record.ID)
	}
	return a
}

// notYet lists the phases that have not begun, with what they need of the room.
func notYet(priced map[string]unit.Bytes, begun []string, room unit.Bytes) (needs []advice.Need) {
	for phase, needed := range priced {
		if phase != ladder.Training && needed > 0 && !slices.Contains(begun, phase) {
			needs = append(needs, advice.Need{Phase: phase, Needs: needed, Room: room})
		}
	}
	slices.SortFunc(needs, func(p, q advice.Need) int { return strings.Compare(p.Phase, q.Phase) })
	return needs
}

// observed adds what was observed of the card and of host memory.
func observed(seen *advice.Seen, watch *observe.Watch) {
	c := watch.Course()
	seen.Spent = c.Spent
	seen.Busy = advice.Busy{Percent: c.Busy, Looks: c.BusyLooks, For: c.BusyFor}
	seen.Host.Points = points(c.Host)
	if card := watch.Card(); card != nil {
		seen.Card.Points = points(c.Held)
		seen.Card.Room = max(0, card.Capacity-card.Others)
	}
	if host := watch.Host(); host != nil {
		seen.Host.Room = host.Room
	}
}

func points(readings []observe.Reading) (out []advice.Point) {
	for _, r := range readings {
		out = append(out, advice.Point(r))
	}
	return out
}

// placeOf names a setting as its user knows it: "x.yml: train.workers", "--workers".
func placeOf(at config.Address) string {
	if at.Doc == config.ArgvDoc || at.Doc == config.EnvDoc {
		return at.Path
	}
	return at.Doc + ": " + at.Path
}

// ahead lists the phases that a run which goes on has not been through.
func (x *Executor) ahead(a attempt, out run.Outcome) (needs []advice.Need) {
	if out.Ending == run.Succeeded || out.Ending == run.OutOfMemory || !out.Stepped {
		return nil
	}
	for phase, needed := range a.priced {
		if phase != ladder.Training && needed > 0 && !slices.Contains(out.Passed, phase) {
			needs = append(needs, advice.Need{Phase: phase, Needs: needed, Room: x.Setup.Room.Size()})
		}
	}
	slices.SortFunc(needs, func(p, q advice.Need) int { return strings.Compare(p.Phase, q.Phase) })
	return needs
}

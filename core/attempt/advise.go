package attempt

import (
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/advice"
	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/observe"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
)

// mostAdvised bounds, in bytes, how much of an output is read for advice: more than a record keeps.
const mostAdvised = 64 << 20

// advise returns what the attempt's output and its curves advise. It reads the output after the program's end, from the
// file that is kept, so that the program never waits for it.
func (x *Executor) advise(a attempt, watch *observe.Watch, out run.Outcome) []advice.Advice {
	seen := advice.Seen{Training: ladder.Training, Cores: runtime.NumCPU()}
	if a.dir != "" {
		if in, err := record.OpenOutput(outputIn(a.dir)); err == nil {
			seen.Text, _ = advice.Read(io.LimitReader(in, mostAdvised)) // what was read counts
			in.Close()
		}
	}
	observed(&seen, watch)
	for _, r := range out.Retries {
		seen.Retries, seen.Short = seen.Retries+r.Count, max(seen.Short, r.Short)
	}
	for name, m := range out.Metrics {
		if m.Diverged {
			seen.Diverged = append(seen.Diverged, name)
		}
	}
	slices.Sort(seen.Diverged)
	if x.Job == nil {
		return advice.Give(seen)
	}
	for _, k := range x.Job.Knobs {
		switch where := placeOf(k.At); {
		case k.Dead != "":
			seen.Unread = append(seen.Unread, advice.Setting{Where: where, Why: k.Dead})
		case strings.Contains(k.Name, "workers"):
			seen.Workers = where
		}
	}
	seen.Ahead = x.ahead(a, out)
	return advice.Give(seen)
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

package advice

import (
	"fmt"
	"math"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/unit"
)

// Bounds on what is observed over time.
const (
	// validationShare of the time is where validation is worth a remark, and validationTime the least to judge by.
	validationShare = 0.10
	validationTime  = 10 * time.Minute
	// idleBelow percent of the time the card is mostly idle. Two minutes of training are past its slow beginning.
	idleBelow = 30.0
	idleLooks = 60
	idleTime  = 2 * time.Minute
)

// validating compares the time in validation with the time in training.
func validating(s Seen) *job.Advice {
	training, other, phase := s.Spent[s.Training], time.Duration(0), ""
	for name, spent := range s.Spent {
		if name != s.Training && name != "" {
			if other += spent; spent > s.Spent[phase] || phase == "" {
				phase = name
			}
		}
	}
	all := training + other
	if training == 0 || all < validationTime || float64(other) <= validationShare*float64(all) {
		return nil
	}
	share := float64(other) / float64(all)
	// other/k is a tenth of training + other/k where k = 9 other / training
	rarer := math.Ceil((1 - validationShare) / validationShare * float64(other) / float64(training))
	return &job.Advice{Name: "validation-time", Weight: job.Slow, What: fmt.Sprintf("%s takes %.0f %% of the time", phase,
		100*share),
		Evidence: []string{fmt.Sprintf("%v of %v", other.Round(time.Second), all.Round(time.Second))},
		Change: fmt.Sprintf("validate less often: an interval %.0f times as long leaves %s a tenth of the time", max(2,
			rarer),
			phase)}
}

// idle judges how busy the card was while the program trained.
func idle(s Seen) *job.Advice {
	b := s.Busy
	if b.Looks < idleLooks || b.For < idleTime || b.Percent >= idleBelow {
		return nil
	}
	return &job.Advice{Name: "idle-card", Weight: job.Slow, What: fmt.Sprintf("the card was idle %.0f %% of the training",
		100-b.Percent),
		Evidence: []string{fmt.Sprintf("busy %.0f %% in %d samples of the driver over %v", b.Percent, b.Looks,
			b.For.Round(time.Second))},
		Change: "raise {workers} (there are {cores}), or the micro-batch: launch --fill -- COMMAND"}
}

// A memory curve climbs if, after its beginning, the least that is held in each of several windows of time keeps
// growing, and does not level off. The least, because a cache and a garbage collector let the rest swing. A pool that
// fills and an optimizer that gets its states grow at the beginning, or in one step.
const (
	climbTime    = 15 * time.Minute // that the curve has to span after its beginning
	climbWindows = 8
	climbPoints  = 3 // in each window
	climbRise    = 128 * unit.MiB
	climbShare   = 0.02 // of what was held
	climbSoon    = 30 * 24 * time.Hour
)

// A climb is a curve that keeps growing.
type climb struct {
	PerHour  unit.Bytes
	From, To Point
	Fails    time.Duration // after the start; 0: not known, or too far away
}

// climbs judges a curve; nil if it does not keep growing.
func (c Curve) climbs() *climb {
	if len(c.Points) == 0 {
		return nil
	}
	last := c.Points[len(c.Points)-1].After
	begin := c.Points[0].After + (last-c.Points[0].After)/3
	if last-begin < climbTime {
		return nil
	}
	var least [climbWindows]Point
	var n [climbWindows]int
	for _, p := range c.Points {
		if p.After < begin {
			continue
		}
		w := min(climbWindows-1, int(climbWindows*(p.After-begin)/(last-begin)))
		if n[w] == 0 || p.Held < least[w].Held {
			least[w] = p
		}
		n[w]++
	}
	grew := 0
	for w := range climbWindows {
		if n[w] < climbPoints || w > 0 && least[w].Held < least[w-1].Held {
			return nil
		}
		if w > 0 && least[w].Held > least[w-1].Held {
			grew++
		}
	}
	first, middle, end := least[0], least[climbWindows/2], least[climbWindows-1]
	rise, late := end.Held-first.Held, end.Held-middle.Held
	if grew < climbWindows-2 || rise < climbRise || float64(rise) < climbShare*float64(first.Held) || 3*late < rise {
		return nil // within its noise, in a step, or levelling off
	}
	out := &climb{From: first, To: end}
	perHour := float64(rise) / (end.After - first.After).Hours()
	out.PerHour = unit.Bytes(perHour)
	if c.Room > end.Held {
		hours := float64(c.Room-end.Held) / perHour
		if left := time.Duration(hours * float64(time.Hour)); hours < climbSoon.Hours() {
			out.Fails = end.After + left
		}
	}
	return out
}

func climbing(s Seen) *job.Advice {
	return leak(s.Card.climbs(), leakName, "the card's memory", s.Card.Room,
		"keep no tensors from step to step: loss.item() or .detach() where figures are collected")
}

func hostClimbing(s Seen) *job.Advice {
	return leak(s.Host.climbs(), hostLeakName, "the host memory in use", s.Host.Room,
		"hold the dataset's lists as numpy arrays or tensors (pytorch#13246), and keep no tensors from step to step")
}

func leak(c *climb, name, what string, room unit.Bytes, change string) *job.Advice {
	if c == nil {
		return nil
	}
	a := &job.Advice{Name: name, Weight: job.Slow, What: fmt.Sprintf("%s climbs by %v an hour", what, c.PerHour),
		Change: change,
		Evidence: []string{fmt.Sprintf("%v after %v, %v after %v", c.From.Held, hours(c.From.After), c.To.Held,
			hours(c.To.After))}}
	if c.Fails > 0 {
		a.Weight = job.Fails
		a.What += fmt.Sprintf(": at this pace it reaches %v %s after the start", room, hours(c.Fails))
	}
	return a
}

// hours is a time in hours, or in minutes below one.
func hours(d time.Duration) string {
	if d < time.Hour {
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}

package run

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// unbounded is the room if no device is visible: everything runs as asked.
const unbounded = unit.Bytes(1) << 62

// First returns the plan for the first attempt of the run itself, without trials before it. If the run is refused, it
// returns the refused plan and the reason.
func (r *Run) First() (*Plan, *Stop) {
	itself := *r
	itself.Limits.Fast, itself.Limits.Rehearse = false, false
	plan, stop := itself.Next()
	if plan == nil && stop != nil {
		plan = stop.Refused
	}
	return plan, stop
}

// Next returns the plan for the next attempt or, if there is to be none, why not. It reads nothing but the run.
func (r *Run) Next() (*Plan, *Stop) {
	p, stop := r.next()
	if p != nil { // decided; from here on it is only shown
		for i, c := range p.Choices {
			if c.Verdict == ladder.Fits {
				p.Choices[i].Verdict = r.judge(c.Estimate)
			}
		}
	}
	return p, stop
}

func (r *Run) next() (*Plan, *Stop) {
	switch last := r.Last(); {
	case last == nil:
		p, stop := r.first()
		if p != nil {
			p = r.tried(p)
		}
		return p, stop
	case last.Plan.Trial != "" && last.Outcome.Left == "":
		return r.afterTrial(last)
	default:
		return r.afterFailure(last)
	}
}

// On returns the next plan in another room, which the job would have alone. The run stays as it is.
func (r *Run) On(room unit.Bytes) (*Plan, *Stop) {
	there := *r
	there.Room, there.Empty = room, room
	return there.Next()
}

// afterFailure plans the attempt after one that failed; after a success there is none.
func (r *Run) afterFailure(last *Attempt) (*Plan, *Stop) {
	out := last.Outcome
	switch {
	case out.Left != "" && out.Ending != Succeeded: // also after an out-of-memory: another attempt would be ended too
		return nil, out.Ended()
	case out.Down():
		return r.afterPressure(last), nil
	case out.Ending == OutOfMemory && out.Beside:
		return nil, &Stop{Why: "it ran out of memory while others held a part of the card: " + out.Cause, Code: TryLater}
	case out.Untaken != "":
		return nil, &Stop{Why: "the program did not take its settings: " + out.Untaken, Code: OwnTrouble}
	case out.Ending == Interrupted && out.Report.NotMemory == "preempted":
		return nil, &Stop{Why: out.Cause, Code: TryLater}
	case out.Ending == Failed && out.Blocked != "" && !r.blockedBefore(out.Blocked):
		p := r.standAt(&last.Plan, "it stopped because of a file that an earlier attempt of this run left; launch "+
			"moves that file aside")
		r.goOn(p)
		return p, nil
	case out.Ending != OutOfMemory:
		return nil, &Stop{Why: string(out.Ending)}
	case r.hostRoom(out.Report) != "":
		return r.afterHost(last, r.hostRoom(out.Report))
	case out.Report.Kind != oom.GPUContention && !r.mends(out.Report):
		return nil, &Stop{Why: out.Report.Cause + "; no change that launch can make frees that memory"}
	}
	if why := r.Unmoved(last); why != "" {
		return nil, &Stop{Why: "the program does not use the settings: " + why, Code: OwnTrouble}
	}
	phase := r.phaseOf(out)
	l := r.Ladders.Ladder(phase)
	if l == nil || phase == ladder.Shared {
		return nil, &Stop{Why: fmt.Sprintf("out of memory in %s, which has no ladder", phase)}
	}
	if out.Report.Kind == oom.GPUContention {
		return r.afterContention(last, phase)
	}
	return r.after(last, phase)
}

// blockedBefore reports whether an earlier attempt also stopped because of the file, so that moving it aside did not
// help.
func (r *Run) blockedBefore(path string) bool {
	return slices.ContainsFunc(r.Attempts[:len(r.Attempts)-1], func(a Attempt) bool { return a.Outcome.Blocked == path })
}

// first plans the first attempt.
func (r *Run) first() (*Plan, *Stop) {
	if r.Limits.AsAsked || r.Room == 0 {
		p := r.plan(r.Ladders.Shared.Asked, r.picksAsAsked())
		p.Why = "as asked"
		if r.Room == 0 {
			p.Why = "as asked: no device can be seen"
			if w := r.hostReason(p); w != "" {
				p.Why = "no device can be seen; " + w
			}
		}
		r.goOn(p)
		return p, nil
	}
	p := r.choose(nil)
	if p == nil {
		return nil, r.usedUp(nil)
	}
	p.Why = r.reason(p)
	if p.Verdict() == ladder.Not && !r.Limits.Anyway {
		stop := r.usedUp(nil)
		stop.Refused = p
		return nil, stop
	}
	r.goOn(p)
	return p, nil
}

// after plans the attempt after one that ran out of memory in phase.
func (r *Run) after(last *Attempt, phase string) (*Plan, *Stop) {
	p := r.choose(last)
	if p == nil || p.Verdict() == ladder.Not && !r.Limits.Anyway && !r.Limits.AsAsked {
		return nil, r.usedUp(last)
	}
	p.Why = fmt.Sprintf("%s ran out of memory in %s", last.Plan.describe(phase), phase)
	r.goOn(p)
	return p, nil
}

// afterContention plans the attempt after one that failed because other processes held the memory. The room is smaller
// now, and the failure is no measurement of the job. The same plan can succeed only if the others have released memory.
func (r *Run) afterContention(last *Attempt, phase string) (*Plan, *Stop) {
	p := r.choose(nil)
	same := p != nil && p.stands(&last.Plan)
	if p == nil || p.Verdict() == ladder.Not || same && r.Room <= last.Plan.Room {
		return nil, &Stop{Why: "others hold the memory that the job needs: " + last.Outcome.Report.Cause, Code: TryLater}
	}
	again := 0
	for _, a := range r.Attempts {
		if a.Plan.stands(p) {
			again++
		}
	}
	if again > 1 { // do not try the same settings a third time
		return nil, &Stop{Why: "others keep taking the memory that the job needs", Code: TryLater}
	}
	p.Why = fmt.Sprintf("others held the memory in %s; the room is now %v", phase, r.Room)
	r.goOn(p)
	return p, nil
}

// mends reports whether a rung of the device's ladders can help. While the model is built, no memory of a step is in
// use, and no rung makes the model smaller. On a CPU a limit takes effect late, and any request may have met it.
func (r *Run) mends(rep oom.Report) bool {
	return rep.Phase != oom.Build || rep.Kind == oom.HostOOM || rep.Kind == oom.CPUAlloc
}

// phaseOf names the ladder of the phase that an attempt ended in.
func (r *Run) phaseOf(out Outcome) string {
	if out.Phase != "" && r.Ladders.Ladder(out.Phase) != nil {
		return out.Phase
	}
	return ladder.Training
}

// choose puts every phase on a rung. After an out-of-memory (last not nil) the phase that failed starts below the rung
// that failed.
//
// Of the shared rungs above the job as asked, it takes the largest with which all phases fit. Of those below, it
// prefers one with which all phases fit, then the mildest, then the nearest to the job as asked. Until something was
// measured, a guess alone does not change results, as in [ladder.Ladder.Fit].
func (r *Run) choose(last *Attempt) (best *Plan) {
	shared := r.Ladders.Shared
	from := shared.Asked
	if r.Limits.Fill {
		from = 0
	}
	if last != nil {
		from = last.Plan.Shared.Rung
	}
	measured := slices.ContainsFunc(r.Ladders.Phases, func(l ladder.Ladder) bool { return r.measured(l.Phase) })
	for s := from; s < len(shared.Rungs); s++ {
		if shared.Rungs[s].Cost > r.Limits.Allow {
			continue
		}
		p, ok := r.standOn(s, last)
		switch {
		case !ok:
		case s < shared.Asked:
			if p.Verdict() == ladder.Fits {
				return p
			}
		case best == nil:
			best = p
		case !measured && shared.Rungs[s].Cost > max(ladder.Speed, best.Shared.Cost) && r.onlyGuessed(best):
			return r.resplitShared(best, last)
		case better(p, best):
			best = p
		}
	}
	return r.resplitShared(best, last)
}

// onlyGuessed reports whether a plan fails to fit only by guessed lines.
func (r *Run) onlyGuessed(p *Plan) bool {
	return p.Verdict() <= ladder.May && !slices.ContainsFunc(p.Choices, func(c Choice) bool { return c.Estimate.Vouched() > r.room() })
}

// better reports whether p is preferred to q, which is above it on the shared ladder.
func better(p, q *Plan) bool {
	rank := func(v ladder.Verdict) int { // unknown is as good as fitting: the job runs as asked
		if v == ladder.Unknown {
			return int(ladder.Fits)
		}
		return int(v)
	}
	return cmp.Or(cmp.Compare(rank(p.Verdict()), rank(q.Verdict())), cmp.Compare(p.Cost, q.Cost)) < 0
}

// standOn puts every phase on its first rung that fits, at rung s of the shared ladder.
func (r *Run) standOn(s int, last *Attempt) (*Plan, bool) {
	picks := map[string]ladder.Pick{}
	for _, l := range r.Ladders.Phases {
		q := ladder.Query{
			From: l.Asked, Shared: s, Room: r.room(), Allow: r.Limits.Allow,
			Correct:  func(e mem.Estimate) mem.Estimate { return r.correct(l.Phase, s, e) },
			Measured: r.measured(l.Phase),
		}
		if r.Limits.Fill {
			q.From = 0
		}
		if last != nil {
			if c := last.Plan.Choice(l.Phase); c != nil {
				q.From = c.Rung
				if r.phaseOf(last.Outcome) == l.Phase && last.Plan.Shared.Rung == s {
					q.From++
				}
			}
		}
		if r.Limits.AsAsked && !r.measured(l.Phase) { // with --as-asked an estimate changes nothing
			e := l.Rungs[l.Asked].At(s)
			picks[l.Phase] = ladder.Pick{Rung: l.Asked, Estimate: e, Verdict: ladder.Judge(e, r.room())}
			continue
		}
		pick, ok := l.Fit(q)
		if !ok {
			return nil, false
		}
		picks[l.Phase] = r.resplit(l, q, pick, last)
	}
	p := r.plan(s, picks)
	rungs := map[string]int{}
	for phase, pick := range picks {
		rungs[phase] = pick.Rung
	}
	return p, len(r.Ladders.Broken(r.Ladders.ValuesAt(s, rungs), p.Cost)) == 0
}

func (r *Run) room() unit.Bytes {
	if r.Room == 0 {
		return unbounded
	}
	return r.Room
}

func (r *Run) picksAsAsked() map[string]ladder.Pick {
	picks := map[string]ladder.Pick{}
	for _, l := range r.Ladders.Phases {
		e := l.Rungs[l.Asked].At(r.Ladders.Shared.Asked)
		picks[l.Phase] = ladder.Pick{Rung: l.Asked, Estimate: e, Verdict: ladder.Judge(e, r.room())}
	}
	return picks
}

// plan returns the plan for these rungs.
func (r *Run) plan(s int, picks map[string]ladder.Pick) *Plan {
	shared := r.Ladders.Shared.Rungs[s]
	p := &Plan{
		Attempt: r.number(), Room: r.Room,
		Shared: Choice{Phase: ladder.Shared, Rung: s, Name: shared.Name, Cost: shared.Cost,
			Why: shared.Why},
		Edits: slices.Clone(shared.Edits), Cost: shared.Cost,
	}
	rungs := map[string]int{}
	for _, l := range r.Ladders.Phases {
		pick := picks[l.Phase]
		rung := l.Rungs[pick.Rung]
		rungs[l.Phase] = pick.Rung
		p.Choices = append(p.Choices, Choice{l.Phase, pick.Rung, rung.Name, rung.Cost, rung.Why, pick.Estimate, pick.Verdict})
		p.Edits = append(p.Edits, rung.Edits...)
		p.Cost = max(p.Cost, rung.Cost)
	}
	if len(r.Attempts) > 0 {
		p.Edits = append(p.Edits, r.Job.Resume.Always...)
	}
	p.Batch = batch(r.Job.Batch, r.Ladders.ValuesAt(s, rungs))
	r.feed(p)
	return p
}

func batch(asked job.Batch, values map[string]int64) job.Batch {
	b := asked
	if v, ok := values[job.MicroBatch]; ok {
		b.Micro = v
	}
	if v, ok := values[job.Accumulation]; ok {
		b.Accumulation = v
	}
	return b
}

// correct corrects an estimate by what the attempts have measured of the phase. An out-of-memory is a measurement: the
// need was at least allocated + requested. The correction is a line of its own, in proportion to the lines that grow
// with size.
func (r *Run) correct(phase string, shared int, e mem.Estimate) mem.Estimate {
	if s := r.state(); s != nil && r.Job.Resume.OnCard && r.Job.Resume.None == "" && e.Known() {
		e.Items, e.Below = slices.Clone(e.Items), 0
		e.Add(mem.Item{Kind: mem.Buffers, What: ResumedState, Bytes: s.Bytes, From: "the size of the saved state, which stays on the card"})
	}
	factor, from := 1.0, 0
	for _, a := range r.Attempts {
		needed, ok := r.needed(a, phase, shared)
		if !ok {
			continue
		}
		c := a.Plan.Choice(phase)
		raw := r.Ladders.Ladder(phase).Rungs[c.Rung].At(a.Plan.Shared.Rung)
		growing := raw.Growing()
		if !raw.Known() || growing <= 0 {
			continue
		}
		if f := float64(needed-(raw.Total()-growing)) / float64(growing); f > factor {
			factor, from = f, a.Plan.Attempt
		}
	}
	if factor <= 1 || !e.Known() {
		return e
	}
	out := e
	out.Items, out.Below = slices.Clone(e.Items), 0
	out.Add(mem.Item{
		Kind: mem.Correction, What: phase, Bytes: unit.Bytes(float64(e.Growing()) * (factor - 1)),
		From: fmt.Sprintf("attempt %d needed %.2f times the lines that grow with size", from, factor),
	})
	return out
}

// needed returns the need of a phase at the given shared rung, in bytes, if an attempt proves it.
func (r *Run) needed(a Attempt, phase string, shared int) (unit.Bytes, bool) {
	rep := a.Outcome.Report
	if a.Outcome.Ending != OutOfMemory || r.phaseOf(a.Outcome) != phase || rep.Kind == oom.GPUContention || r.hostRoom(rep) != "" || a.Plan.Choice(phase) == nil {
		return 0, false
	}
	if rep.Kind == oom.GPUFragmentation && a.Plan.Shared.Rung != shared {
		return 0, false // with another allocator setting, memory fragments differently
	}
	needed := a.Plan.Room + 1 // it did not fit: at least that is known
	if rep.Allocated != nil && rep.Requested != nil {
		needed = max(needed, *rep.Allocated+*rep.Requested)
	}
	return needed, a.Plan.Room > 0
}

func (r *Run) measured(phase string) bool {
	return slices.ContainsFunc(r.Attempts, func(a Attempt) bool {
		return r.ranOut(a, phase) || a.Outcome.Down() && r.phaseOf(a.Outcome) == phase
	})
}

// ranOut reports whether an attempt ran out of the device's memory in a phase.
func (r *Run) ranOut(a Attempt, phase string) bool {
	return a.Outcome.Ending == OutOfMemory && r.phaseOf(a.Outcome) == phase && r.hostRoom(a.Outcome.Report) == ""
}

// state returns the newest state that any attempt of this run has left, or nil.
func (r *Run) state() *State {
	if r.Left != nil {
		return r.Left
	}
	for i, a := range slices.Backward(r.Attempts) {
		for _, s := range a.Outcome.States() {
			if !r.replaced(&s, i) {
				return &s
			}
		}
	}
	return nil
}

// Begin notes that an attempt begins. The state from which it resumes is the run's newest until it has saved one; one
// that starts over makes the states before it void.
func (r *Run) Begin(p *Plan) {
	switch {
	case p.Trial != "":
	case p.Resume == nil:
		r.ForgetAll()
	default:
		r.Left = p.Resume
	}
}

// End appends an attempt.
func (r *Run) End(a Attempt) {
	r.Attempts = append(r.Attempts, a)
	if r.Left != nil && (a.Outcome.Saved != nil || r.replaced(r.Left, len(r.Attempts)-2)) {
		r.Left = nil // it is older than the attempt's own, or is no longer at its path
	}
}

// Lose drops the states at paths where something else lies now.
func (r *Run) Lose(paths []string) {
	lost := func(s *State) bool { return s != nil && slices.Contains(paths, s.Path) }
	if lost(r.Left) {
		r.Left = nil
	}
	r.Attempts = slices.Clone(r.Attempts)
	for i := range r.Attempts {
		out := &r.Attempts[i].Outcome
		left := slices.DeleteFunc(out.States(), func(s State) bool { return lost(&s) })
		if out.Saved, out.Earlier = nil, nil; len(left) > 0 {
			out.Saved, out.Earlier = &left[0], left[1:]
		}
	}
}

// replaced reports whether an attempt after the i-th has left something else at the path of a state: an incomplete
// state, or one that may be another run's.
func (r *Run) replaced(s *State, i int) bool {
	return slices.ContainsFunc(r.Attempts[i+1:], func(a Attempt) bool {
		return slices.Contains(a.Outcome.Torn, s.Path) || slices.Contains(a.Outcome.Strange, s.Path)
	})
}

// NewState names the rungs of a plan with which a saved state has another form.
func (r *Run) NewState(p *Plan) (names []string) {
	for _, c := range append([]Choice{p.Shared}, p.Choices...) {
		if l := r.Ladders.Ladder(c.Phase); l != nil && c.Rung < len(l.Rungs) && l.Rungs[c.Rung].NewState {
			names = append(names, c.Name)
		}
	}
	return names
}

// readable returns the newest state of the run that the plan's command can read, or nil. States from before an attempt
// that started over are no longer where they were.
func (r *Run) readable(p *Plan) *State {
	rungs := r.NewState(p)
	if r.Left != nil && slices.Equal(r.Left.Rungs, rungs) {
		return r.Left
	}
	for i, a := range slices.Backward(r.Attempts) {
		for _, s := range a.Outcome.States() {
			if slices.Equal(s.Rungs, rungs) && !r.replaced(&s, i) {
				return &s
			}
		}
		if a.Plan.Trial == "" && a.Plan.Resume == nil {
			break
		}
	}
	return nil
}

// goOn makes the plan's command resume from the run's newest saved state, if there is one that it can read and the
// program can resume.
func (r *Run) goOn(p *Plan) {
	if r.Job.Resume.None != "" {
		return
	}
	if p.Resume = r.readable(p); p.Resume == nil {
		if s := r.state(); s != nil {
			p.Why += fmt.Sprintf("; it starts over, because the state of %v cannot be read with this change", s)
		}
		return
	}
	for _, e := range r.Job.Resume.Edits {
		e.To = strings.ReplaceAll(e.To, job.SavedPath, p.Resume.Path)
		e.Why = fmt.Sprintf("resumes from %v", p.Resume)
		p.Edits = append(p.Edits, e)
	}
}

// usedUp returns the stop of a run that has no allowed rung left, with the next rung that the user could allow. last is
// the attempt that failed; nil if nothing was started.
func (r *Run) usedUp(last *Attempt) *Stop {
	stop := &Stop{Why: "no allowed change is left"}
	if last == nil {
		stop.Why, stop.Code = "cannot fit at the allowed cost", CannotFit
		alone := *r
		alone.Room = r.Empty
		if p := alone.choose(nil); r.Empty > r.Room && p != nil && p.Verdict() != ladder.Not {
			stop.Why = fmt.Sprintf("not enough free memory now: others hold %v of the device", r.Empty-r.Room)
			stop.Code = TryLater
			return stop
		}
	}
	if last == nil {
		stop.Absent = r.absent()
	}
	further := *r
	for c := r.Limits.Allow + 1; c <= ladder.Model; c++ {
		further.Limits.Allow = c
		p := further.choose(last)
		if p == nil || p.Verdict() == ladder.Not || p.Cost < c {
			continue
		}
		stop.Beyond = &Beyond{Name: p.onDevice(), Cost: c, Flag: "--allow " + c.String(), Why: p.CostsBecause(),
			Over: r.state() != nil && r.readable(p) == nil}
		return stop
	}
	if r.Limits.Allow < ladder.Model {
		stop.Why += ", and no change at a higher cost would fit"
	} else {
		stop.Why = "no change is left"
	}
	if r.Job.Fixed != "" {
		stop.Why = "launch can change nothing: " + r.Job.Fixed
	}
	return stop
}

// reason returns one line that explains the first plan.
func (r *Run) reason(p *Plan) string {
	var why []string
	for _, c := range p.Choices {
		l := r.Ladders.Ladder(c.Phase)
		asked := l.Rungs[l.Asked].At(r.Ladders.Shared.Asked)
		switch {
		case c.Rung > l.Asked || p.Shared.Rung != r.Ladders.Shared.Asked && ladder.Judge(asked, r.room()) > ladder.Unknown:
			needs := asked.Total().String()
			switch {
			case !asked.Known(): // the counted lines, or what it failed with, are a lower bound
				needs = "at least " + asked.Least().String()
			case !r.formula(*l, r.Ladders.Shared.Asked) && guessed(asked) && asked.Vouched() > r.room():
				needs = "at least " + asked.Vouched().String()
			}
			why = append(why, fmt.Sprintf("%s as asked needs %s of %v", c.Phase, needs, r.Room))
		case c.Rung < l.Asked || p.Shared.Rung < r.Ladders.Shared.Asked && asked.Known():
			why = append(why, fmt.Sprintf("%s as asked leaves %v unused", c.Phase, r.Room-asked.Total()))
		}
	}
	if w := r.hostReason(p); w != "" {
		why = append(why, w)
	}
	if len(why) == 0 {
		return "as asked"
	}
	return strings.Join(why, "; ")
}

// stands reports whether p and q are on the same rungs.
func (p *Plan) stands(q *Plan) bool {
	return p.Shared.Rung == q.Shared.Rung && p.Host.rung() == q.Host.rung() && slices.EqualFunc(p.Choices, q.Choices, func(a, b Choice) bool {
		return a.Phase == b.Phase && a.Rung == b.Rung
	})
}

func (p *Plan) describe(phase string) string {
	if c := p.Choice(phase); c != nil && c.Name != AsAsked {
		return fmt.Sprintf("%q", c.Name)
	}
	return fmt.Sprintf("%q", p.onDevice()) // the change may be on the shared ladder
}

// ResumedState is the line of a state that stays on the card after a resume.
const ResumedState = "resumed state"

// AsAsked is the name of the rung that changes nothing.
const AsAsked = "as asked"

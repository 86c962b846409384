package oom

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/launch-ml/launch/core/oom/printed"

	"github.com/launch-ml/launch/core/unit"
)

// Report returns what the output shows, given the program's exit if that is known. It may be called at any time.
func (d *Detector) Report(exit Exit) Report {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.streams {
		s.finish()
	}
	// launch sees the interrupt key, and the signal in the exit. Without either, an interrupt that the program prints ended
	// nothing.
	unasked := exit.Known && !exit.Asked && exit.Signal != sigint && exit.Code != 128+sigint && !exit.fine(d.signs.codes)
	all, state := d.all(unasked, nil), d.sumState()
	fate := d.fate(exit, state)
	if fate == untold && d.returns() {
		fate = well
	}
	all, tries := apart(all, exit)
	if fate != badly { // else what looks like a new program may be the buffer of another rank
		if alone := d.past(all); len(alone) > 0 {
			all, tries = apart(d.all(unasked, alone), exit)
		}
		for i := range all {
			all[i].alive = all[i].alive || all[i].done
		}
	}
	r := verdict(all, tries, fate, state)
	if (printed.Fault{Name: r.NotMemory}).Late() {
		r.Phase, r.Stage, r.Part = Unknown, string(Unknown), "" // a device reports its errors later, at any call
	}
	if !exit.Known && (r.NotMemory == "interrupted" || r.ordered()) {
		r.Phase, r.Stage, r.Part = Unknown, string(Unknown), "" // no part of the program failed
	}
	r.Survived = max(r.Survived, state.Survived)
	return r
}

// all reads every stream. alone has the line to begin at for some of them.
func (d *Detector) all(unasked bool, alone map[string]int) (out []finding) {
	for _, x := range d.snapshot() {
		if line := alone[x.stream]; line > 0 {
			var ok bool
			if x, ok = x.since(line); !ok {
				continue
			}
		}
		for _, f := range d.findings(&x) {
			if unasked && f.rule.name == "interrupted" {
				continue
			}
			f.order = len(out)
			out = append(out, f)
		}
	}
	return out
}

// apart separates what an allocator printed of requests that it tried again, which end nothing and are no findings of
// their own. A traceback in which the output ends counts only where the exit is not known.
func apart(all []finding, exit Exit) (out, tries []finding) {
	for _, f := range all {
		if f.rule.pressed {
			tries = append(tries, f)
		}
		if f.rule.nature != retried && !(exit.Known && f.rule.name == cutOffRule.name) {
			out = append(out, f)
		}
	}
	return out, tries
}

// A fate is what the exit and the signs show of a program's end, before its text is read.
type fate uint8

const (
	untold fate = iota
	well
	badly
)

// fate reads the exit and the signs. Exit codes can be wrong: a program that must print its success and did not has failed,
// and one that printed it has not run out of memory.
func (d *Detector) fate(exit Exit, s State) fate {
	switch {
	case !exit.Known:
		return untold
	case exit.fine(d.signs.codes) && s.fine(d.signs.mustSucceed):
		return well
	}
	return badly
}

// finish reads a record that rich may have wrapped and that is the end of the output.
func (s *stream) finish() {
	s.event = nil
	s.endRecord()
	if s.event == nil || s.open {
		if s.open {
			s.signed(s.excerpts[len(s.excerpts)-1])
		}
		return
	}
	x := &excerpt{stream: s.name, lines: s.tail.Lines(beforeLines), memory: true, phase: s.d.phaseFor(s),
		source: s.d.Source, signs: map[int]Event{s.event.Line.Number: *s.event}}
	x.first = max(0, len(x.lines)-s.record.Lines)
	s.excerpts = append(s.excerpts, x)
}

// verdict is the rule by which a text is judged:
//
//  1. An out-of-memory that the program survived ended nothing. If another program begins after it in the same text, it
//     did not end that one; if that one failed too, it is judged as if it were the only one.
//  2. The end is the heaviest of the fatal findings, the first among equals, in this order: the allocator, the kernel or
//     the scheduler in its own words; an order to stop; a broken device, which causes misleading messages; an exception;
//     an unexplained kill; a consequence of another process's end.
//  3. If an out-of-memory was caught and reported, and the program died of something else right after it, the
//     out-of-memory is the cause of that.
//  4. An out-of-memory of one rank is fatal even if other ranks went on for a while, until they were stopped.
//  5. A program that is known to have ended well did not fail, whatever it printed. If one is known to have failed and
//     gives no other reason, an out-of-memory that it reported is the reason.
func verdict(all, tries []finding, fate fate, state State) Report {
	root := heaviest(all)
	memory := bestNumbers(all)
	switch {
	case fate == well:
		root = nil
	case root == nil && fate == badly && memory != nil && !memory.alive:
		root = memory
	case root == nil || root.ofMemory() || memory == nil:
	case follows(root, memory):
		root = memory
	}
	var refused *finding
	if root != nil {
		if as, try := root.afterRefusal(tries); as != nil {
			root, refused = as, try
		} else if try := root.lastTry(tries, refusedBefore); root.ofCard() && root.Count() == 0 && try != nil {
			root.Numbers, refused = try.Numbers, try
		}
	}
	r := Report{Kind: NoMemory, Phase: Unknown, Stage: string(Unknown)}
	r.Survived = outlived(all, root)
	switch {
	case root != nil:
		r.Fatal = true
		r.describe(root, all, state)
		if last := root.endedBy(all); last != nil && r.Confidence == Certain { // it was caught, and the program may have survived it
			r.Confidence = Likely
			r.Evidence = append(r.Evidence, last.evidence())
		}
		if refused != nil {
			r.Evidence = append(r.Evidence, refused.evidence())
		}
	case memory != nil:
		r.LaterRun = memory.past && !memory.alive
		r.WentOn = !r.LaterRun && (memory.alive || memory.rule.nature == survived || fate == well)
		r.describe(memory, all, state)
	}
	return r
}

// endedBy returns the exception with a traceback of its own that ended a program after an out-of-memory; nil if the
// out-of-memory raised it, or if another process did.
func (f *finding) endedBy(all []finding) *finding {
	for i := range all {
		g := &all[i]
		if !f.ofMemory() || g.order <= f.order || g.x != f.x || g.rule.name != "exception" || !g.fatal || !g.traced ||
			g.rows[g.at].Rank != f.rows[f.at].Rank {
			continue
		}
		for _, r := range f.rows[f.at:g.at] {
			if chained.MatchString(r.Body) {
				return nil
			}
		}
		return g
	}
	return nil
}

// outlived counts the out-of-memories that the program survived. One that is in the log, on the terminal and in standard
// error counts once, and one that the program logs before it dies of it does not count.
func outlived(all []finding, root *finding) (most int) {
	counts := map[string]int{}
	for i := range all {
		f := &all[i]
		if !f.ofMemory() || f == root || f.rule.weight <= killed || f.fatal && !f.alive || f.past {
			continue
		}
		if root != nil && root.ofMemory() && f.precedes(root) {
			continue
		}
		counts[f.stream]++
		most = max(most, counts[f.stream])
	}
	return most
}

// precedes reports whether a message is about the same failure as another, printed right before it or in another
// stream.
func (f *finding) precedes(root *finding) bool {
	if f.alive || f.rule.nature == survived || f.Count() > 0 && !f.Numbers.Same(root.Numbers) {
		return false
	}
	return f.stream != root.stream || root.rows[root.at].Number-f.rows[f.at].Number < announceLines
}

// announceLines bounds, in lines, how long before a traceback's last line a program may have logged the same failure:
// about the length of the traceback.
const announceLines = 60

// heaviest returns the finding that ended the program, or nil.
func heaviest(all []finding) *finding {
	var root *finding
	for i := range all {
		f := &all[i]
		if f.fatal && !f.alive && !f.past && (root == nil || f.rule.weight > root.rule.weight) && !f.stopped() {
			root = f
		}
	}
	for root != nil && root.rule.weight == exception {
		next := root.raisedWith(all)
		if next == nil {
			break
		}
		root = next
	}
	return root
}

// stopped reports whether a process was killed after another had failed in another way: by torchrun, that is.
func (f *finding) stopped() bool {
	first := f.firstFailed(causeCode)
	return f.rule.weight == killed && first != nil && first[1] != "-9"
}

// chained is what Python prints between an exception and one that was raised while it was handled or because of it
// (traceback.py). The last one ended the program.
var chained = rx(`^(?:During handling of the above exception, another exception occurred|` +
	`The above exception was the direct cause of the following exception):`)

// raisedWith returns the exception that was raised because of this one, or whose text this one holds; nil if none was.
func (f *finding) raisedWith(all []finding) *finding {
	link := -1
	if reraised.MatchString(f.rows[f.at].Body) {
		link = f.at
	}
	for i := f.at + 1; i < min(len(f.rows), f.at+6); i++ {
		if r := f.rows[i]; r.Rank == f.rows[f.at].Rank && chained.MatchString(strings.TrimSpace(r.Body)) {
			link = i
		}
	}
	if link < 0 {
		return nil
	}
	for i := range all {
		g := &all[i]
		if g.x == f.x && g.at > link && g.at < link+maxTrace && g.fatal && !g.alive && g.rule.name == "exception" &&
			g.rows[g.at].Rank == f.rows[f.at].Rank {
			return g
		}
	}
	return nil
}

// bestNumbers returns the memory finding with the most numbers, or nil.
func bestNumbers(all []finding) *finding {
	var b *finding
	for i := range all {
		f := &all[i]
		if f.ofMemory() && f.rule.weight > killed && (b == nil || f.Count() > b.Count()) {
			b = f
		}
	}
	return b
}

// follows reports whether an out-of-memory caused a later failure of another kind.
func follows(root, memory *finding) bool {
	switch {
	case root.order < memory.order || root.stream != memory.stream:
		return false
	case root.rule.nature == consequence:
		return memory.rule.nature != survived
	case memory.alive, memory.past:
		return false
	}
	return root.rule.weight == exception && root.rows[root.at].Number-memory.rows[memory.at].Number <= 300
}

// describe fills the report from the finding that matters.
func (r *Report) describe(f *finding, all []finding, state State) {
	text := f.rows[f.at]
	r.Evidence = append(r.Evidence, f.evidence())
	r.Rank = f.failed()
	calls, after := f.calls()
	if reraised.MatchString(text.Body) && len(after) > 0 {
		calls, after = after, calls
	}
	by := f // the finding that the phase is read of
	if len(calls) == 0 && len(after) == 0 {
		by = f.printedWith(all)
		calls, after = by.calls()
	}
	r.Frame = cmp.Or(own(calls), own(after))
	if !f.ofMemory() {
		r.NotMemory, r.What = f.rule.name, f.rule.cause
		r.setPhase(f, calls, after, state)
		r.Cause = unit.Clip(f.otherCause(), headline)
		r.Confidence = f.sure()
		return
	}
	for i, tried := 0, 0; r.Frame == "" && i < len(all) && tried < 8; i++ {
		if g := &all[i]; g.rule.kind == f.rule.kind && g.fatal && g.x == f.x {
			tried++
			calls, after := g.calls()
			r.Frame = cmp.Or(own(calls), own(after))
		}
	}
	r.OOM, r.Kind = f.sure() != Weak, f.rule.kind
	r.Possible = !r.OOM
	r.Numbers = f.Numbers
	if told := f.better(all); told != nil {
		r.Numbers = told.Numbers
		r.Evidence = append(r.Evidence, told.evidence())
		if r.Frame == "" {
			more, _ := told.calls()
			r.Frame, calls = own(more), more
		}
	}
	r.setPhase(by, calls, after, state)
	r.gpu(f)
	r.Confidence = f.sure()
	if r.Allocated != nil && r.Requested != nil {
		r.Needs = *r.Allocated + *r.Requested
	}
	r.What = f.rule.cause
	m := printed.OneArray.FindStringSubmatch(printed.Joined(printed.Near(f.rows, f.at, 0, 1)))
	if m != nil && f.rule.kind == CPUAlloc {
		r.What += fmt.Sprintf(" for one array of shape %s of %s", m[1], m[2])
	}
	r.Cause = r.causeLine()
}

// otherCause is the cause of what is no out-of-memory: the rule's, or else the line itself.
func (f *finding) otherCause() string {
	cause, body := f.rule.cause, strings.TrimSpace(f.rows[f.at].Body)
	next := strings.TrimSpace(printed.Joined(printed.Near(f.rows, f.at, -1, 1)))
	what, thrown := strings.CutPrefix(next, "what():")
	switch {
	case cause == "" && strings.HasSuffix(body, ":"):
		return body + " " + next // "Error(s) in loading state_dict for Net:"
	case cause == "":
		return body
	case thrown:
		return cause + ": " + strings.TrimSpace(what)
	case f.name != "" && f.rule.name != "interrupted":
		return cause + " (" + f.name + ")"
	}
	return cause
}

// headline bounds a cause, in bytes: it is one line for a person, whatever a program printed in one.
const headline = 300

// printedWith returns the finding of the same message that has a traceback, or f: a debugger and a logger may print a
// message once without one.
func (f *finding) printedWith(all []finding) *finding {
	for i := range all {
		if g := &all[i]; f.ofCard() && g.traced && f.Count() > 1 && g.Numbers.Same(f.Numbers) {
			return g
		}
	}
	return f
}

// reraised is the message of an exception that is raised again in another thread or process, above its own traceback:
// torch/_utils.py, ExceptionWrapper.
var reraised = rx(`Caught \w+ in (?:replica|DataLoader worker process|pin memory thread)`)

// gpu decides why a GPU ran out.
func (r *Report) gpu(f *finding) {
	if r.Kind != GPUUnspecified {
		return
	}
	f.tensorFlow(&r.Numbers)
	r.Kind, r.Limit = gpuKind(&r.Numbers)
	near := printed.Near(f.rows, f.at, 20, 6)
	if r.Kind == GPUUnspecified && r.Capacity == nil {
		if m := printed.SmiUsage.FindStringSubmatch(printed.Squeeze(near)); m != nil {
			used, ok1 := printed.ParseSize(m[1])
			total, ok2 := printed.ParseSize(m[2])
			if ok1 && ok2 && used <= total {
				r.Capacity, r.Free = printed.Rounded(total), printed.Rounded(total-used)
				if total-used < total/10 && !f.progressBefore() {
					r.Kind = GPUContention // by nvidia-smi the card was full before we held anything
				}
			}
		}
	}
	if r.Kind == GPUUnspecified && r.Requested == nil && r.Capacity != nil && r.Allocated != nil {
		r.Kind = GPUCapacity // TensorFlow's allocator prints its state when it has no more to give
	}
	if r.Kind == GPUUnspecified && r.Capacity == nil && r.Requested != nil && unit.Value(r.Free) >= *r.Requested &&
		notReservable.MatchString(printed.Joined(near)) {
		r.Kind = GPUFragmentation
	}
	if r.Kind == GPUUnspecified && printed.NoHole.MatchString(printed.Joined(near)) {
		r.Kind = GPUFragmentation
	}
}

// progressBefore reports whether the program had made progress before: then a full card is full of what it holds
// itself.
func (f *finding) progressBefore() bool {
	for _, r := range printed.Near(f.rows, f.at, aheadRows, 0) {
		if _, ok := printed.ProgressOf(r.Body); ok {
			return true
		}
	}
	return false
}

// notReservable are XLA's words for what is free and not in one piece at the end where it was asked for.
var notReservable = rx(`That was not possible\. There are .{1,60} free, .{1,60} reservable`)

// setPhase sets the phase, from the first of these that has one: the plugin's sign of the failure, exact frames, the
// phase that was running by the signs, a forward's frames, the words around the evidence.
func (r *Report) setPhase(f *finding, calls, after []frame, state State) {
	f.saved = f.fatal && state.trainedOn()
	defer func() { r.Part = r.part(f, calls, after, state) }()
	if f.phase == "" && f.x.phase == "" && reportsWorkers.MatchString(f.rows[f.at].Body) {
		r.Phase, r.Stage = Unknown, string(Unknown)
		return
	}
	if f.phase == "" && f.ofMemory() && f.ofWholeStep(calls) {
		r.Phase, r.Stage = Unknown, "training"
		return
	}
	if tfFailure.MatchString(f.rows[f.at].Body) { // TensorFlow names the operation, below
		if p := f.operation(); p != Unknown {
			r.Phase, r.Stage = p, p.Coarse()
			return
		}
	}
	frames, exact := f.byFrames(calls, after)
	sign := f.phase
	if sign == "" {
		sign = f.x.phase
	}
	if !exact && frames == TrainForward && !named(calls) && !(sign == "training" && f.x.announced) {
		how := f.inTraining(calls)
		r.AnyForward = how != trainingNamed
		if how == untrained && sign != "training" {
			frames = Unknown
		}
	}
	switch {
	case f.rule.kind == SharedMemory && f.rule.cause == shmFull.cause, loaderProcess.MatchString(f.rows[f.at].Body):
		r.Phase = Data
	case f.phase != "" && frames.Coarse() != f.phase:
		r.Phase = signPhase(f.phase)
	case exact:
		r.Phase = frames
	case sign != "" && sign != "training":
		r.Phase = signPhase(sign)
	case frames != Unknown:
		r.Phase = frames
	default:
		r.Phase = r.guess(f)
	}
	r.Stage = r.Phase.Coarse()
	if r.Phase == Unknown && sign != "" {
		r.Stage = sign
	}
}

// reportsWorkers are Ray's words for how many workers of a machine it has killed: what they did, nothing near it tells.
var reportsWorkers = rx(`Workers \(tasks / actors\) killed due to memory pressure`)

// loaderProcess names a loader's worker: as torch's messages do, or by the name that torch gives its threads and processes and
// that the kernel prints (torch/utils/data/_utils/worker.py and pin_memory.py).
var loaderProcess = rx(`DataLoader worker|\bpt_data_(?:worker|pin)\b`)

// guess reads the words around evidence that has no frames.
func (r *Report) guess(f *finding) Phase {
	around := printed.Joined(printed.Near(f.rows, f.at, 12, 6))
	if p := phaseByLine(sourcePhases, around); p != Unknown {
		return p
	}
	if f.rule.name == "disk_full" && phaseOfWords(around) == Checkpoint {
		return Checkpoint // the only large thing that every program writes
	}
	switch f.name {
	case "ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError", "TabError":
		return Build
	}
	if !f.ofMemory() {
		return Unknown
	}
	body := f.rows[f.at].Body
	switch {
	case strings.Contains(body, "CUDA calloc"):
		return Build // NCCL makes its communicator at the first collective
	case strings.Contains(body, "for an array with shape"):
		if calls, after := f.calls(); len(calls)+len(after) > 0 {
			return Data // NumPy holds data before it goes to the GPU; the message alone may be of any work
		}
	}
	return f.told()
}

// better returns a finding of the same failure with numbers if this one has none: another rank's message, or the original one
// for a wrapper's message or a plugin's sign.
func (f *finding) better(all []finding) *finding {
	if f.Count() > 1 {
		return nil
	}
	var b *finding
	for i := range all {
		g := &all[i]
		if g.order != f.order && g.rule.kind == f.rule.kind && g.Count() > max(1, f.Count()) && !g.alive && b == nil {
			b = g
		}
	}
	return b
}

// causeLine is one line for a person: what ran out and where, the request, why it failed, and what the program did
// then.
func (r *Report) causeLine() string {
	text := r.eventWords()
	if where := r.where(); where != "" {
		text += " " + where
	}
	switch {
	case r.InAll():
		text += fmt.Sprintf(": it needs %v in all, of %v", *r.Requested, unit.Value(r.Capacity))
	case r.Requested != nil:
		text += fmt.Sprintf(": asked for %v", *r.Requested)
		if r.Free != nil && r.Capacity != nil {
			text += fmt.Sprintf(" with %v of %v free", *r.Free, *r.Capacity)
		}
	}
	if why := r.why(); why != "" {
		text += "; " + why
	}
	switch {
	case r.WentOn:
		text += "; the program went on"
	case r.LaterRun:
		text += "; another run began after it and shows no failure"
	case !r.Fatal:
		text += "; the text does not show whether the program went on"
	}
	return text
}

// InAll reports whether what was requested is all that a program needs of the device, and not one request more.
func (r *Report) InAll() bool {
	return r.Requested != nil && len(r.Evidence) > 0 && printed.XlaTotal.MatchString(r.Evidence[0].Text)
}

// eventWords names what happened, in a few words.
func (r *Report) eventWords() string {
	switch {
	case r.Possible:
		return "killed by SIGKILL: most often by the kernel, for lack of host memory; nothing here confirms it"
	case r.Kind == HostOOM && r.What == "out of host memory":
		return "killed for lack of host memory"
	case r.What == "":
		return "out of memory"
	}
	return r.What
}

// why explains, from the numbers, why the request failed; "" where it is plain.
func (r *Report) why() string {
	switch {
	case r.Limit && r.Allowed != nil:
		return fmt.Sprintf("the limit of %v set for this process is reached, not the card's end", *r.Allowed)
	case r.Kind == GPUFragmentation && r.Reserved != nil:
		return fmt.Sprintf("%v are reserved but in pieces too small", *r.Reserved-unit.Value(r.Allocated))
	case r.Kind == GPUContention && len(r.HeldBy) > 0:
		others := fmt.Sprintf("others hold the card: %s", r.HeldBy[0])
		if n := len(r.HeldBy) - 1; n > 0 {
			others += fmt.Sprintf(" and %d more", n)
		}
		return others
	case r.OfCard() && !r.Numbers.Roomy() && r.Numbers.Siblings() > 0:
		return fmt.Sprintf("%d other processes of one size are on this card, as when all ranks of a job begin on the "+
			"same one", r.Numbers.Siblings())
	case r.Kind == GPUContention && r.Capacity != nil && r.Numbers.OtherHeld() > 0:
		return fmt.Sprintf("other processes hold about %v", r.Numbers.OtherHeld().Round(100*unit.MiB))
	case r.OfCard() && r.Numbers.Roomy():
		return "far more than that was free: the card is neither full nor in pieces, and another limit was reached"
	case r.InAll():
	case r.Kind == GPUCapacity && r.Requested != nil && r.Capacity != nil && *r.Requested > *r.Capacity:
		return "that is more than the whole card"
	}
	return ""
}

// The places of a failure, for Report.Cause.
var (
	partPlaces = map[Part]string{Load: "while weights were loaded", Metric: "while a metric was computed",
		ImageLogging: "while an image was logged", SanityCheck: "in the sanity check, the validation before any training",
		Save: "while a state was saved", Resume: "while a state was resumed"}
	firstStepPlaces = map[Phase]string{TrainForward: "in the forward pass of the first step",
		TrainBackward: "in the backward pass of the first step",
		Optimizer:     "in the optimizer's first step, which makes its states"}
	phasePlaces = map[Phase]string{Build: "while the model was built", Data: "in the data pipeline",
		TrainForward: "in the training's forward pass", TrainBackward: "in the backward pass",
		Optimizer: "in the optimizer's step", Validation: "in validation", Checkpoint: "while a state was saved or loaded"}
)

// where describes the part of the program, for Report.Cause.
func (r *Report) where() string {
	switch {
	case r.Part == FirstStep:
		return cmp.Or(firstStepPlaces[r.Phase], "in the first step")
	case r.Part != "":
		return partPlaces[r.Part]
	case r.AnyForward && (r.Phase == Unknown || r.Phase == TrainForward):
		return "in a forward pass"
	case phasePlaces[r.Phase] != "" || r.Stage == string(Unknown) || r.Stage == "":
		return phasePlaces[r.Phase]
	}
	return "in " + r.Stage
}

// ordered reports whether the output shows that a scheduler or a user ended the program.
func (r *Report) ordered() bool {
	switch r.NotMemory {
	case "time_limit", "preempted", "cancelled":
		return true
	}
	return false
}

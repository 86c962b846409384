package printed

import (
	"slices"
	"strings"
)

// A renewal shows that another program began in a text that already holds one, as where runs are appended to one log: the
// head of the text, which is what was printed before any progress, comes again from its first lines on, followed by progress.
//
// The buffer of a dying program is also written after its traceback and also has progress, but a program prints its head only
// once. Several ranks may each print it, before any of them has failed: lines that come twice there are no head. Neither is
// what a program prints at every epoch, because that comes between the head and the failure too.
type Renewal struct {
	Head  []uint64 // of the first lines, without their numbers
	seen  map[uint64]bool
	Ended int // the line that ended the head
	next  int // the place in head behind the line that came again last
	near  int // the number of that line
	came  int // how many have, in order
	line  int // where the head came again; 0: it has not
	prior int // where it did before that, with progress behind it
	after int // lines of progress since

	Whole bool // headWhole lines of the head came again
	Agent int  // the line at which a sweep's agent began its last run; 0: none
	Moved int  // lines of progress since
}

const (
	headRead  = 200 // lines among which what comes twice is no head
	headKept  = 24  // of them
	headApart = 12  // lines between two of a head that comes again
	headAgain = 3   // of its lines at the least, and three quarters of them
	HeadAfter = 3   // of progress behind it
	headWhole = 12  // of its lines that come again are another program's, also where that repeats some of them
)

// read looks at a line. Before a stream has spoken of anything that matters it reads the first lines only.
func (r *Renewal) Read(seg Segment, marks uint64, spoken bool) {
	counts := false
	if (r.Ended == 0 || r.Agent > 0 || r.complete()) && MayCount(marks) {
		if _, counts = ProgressOf(string(seg.Text)); counts && r.complete() {
			r.after++
		}
	}
	r.observe(seg, counts)
	if r.Ended == 0 {
		if counts || seg.Number > headRead || spoken {
			r.Ended = seg.Number
		} else {
			r.take(HeadHash(seg.Text, marks))
		}
	}
	if !spoken || len(r.Head) < headAgain || counts {
		return
	}
	h := HeadHash(seg.Text, marks)
	if h <= 1 {
		return
	}
	if !r.complete() && seg.Number-r.near > headApart {
		r.next, r.came = 0, 0
	}
	for i, known := range r.Head {
		switch {
		case known != h || i > 1 && (r.came == 0 || i < r.next && r.Whole):
			continue
		case i < r.next: // it comes once more: the newest counts
			if line := r.Renewed(); line != 0 {
				r.prior = line
			}
			r.came, r.after = 0, 0
		}
		if r.came == 0 {
			r.line = seg.Number
		}
		r.next, r.near = i+1, seg.Number
		r.came++
		r.Whole = r.Whole || r.came >= headWhole
		return
	}
}

// observe counts what shows the work of a program that began after another: lines of progress, and figures of merit.
func (r *Renewal) observe(seg Segment, counts bool) {
	switch {
	case agentBegins(seg.Text):
		r.Agent, r.Moved = seg.Number, 0
	case counts && r.Agent > 0:
		r.Moved++
	}
	if r.Whole && !counts && r.complete() && Measured.MatchString(string(seg.Text[:min(len(seg.Text), 400)])) {
		r.after++
	}
}

// agentBegins reports whether a sweep's agent begins a run (wandb/wandb_agent.py, wandb/agents/pyagent.py).
func agentBegins(text []byte) bool {
	const words = "wandb: Agent Starting Run: "
	return len(text) > len(words) && string(text[:len(words)]) == words
}

// take adds a line to the head.
func (r *Renewal) take(h uint64) {
	switch {
	case h <= 1:
	case r.seen[h]:
		for i := range r.Head {
			if r.Head[i] == h {
				r.Head = slices.Delete(r.Head, i, i+1) // of several ranks, or said again and again
				break
			}
		}
	case len(r.Head) < headKept:
		if r.seen == nil {
			r.seen = map[uint64]bool{}
		}
		r.seen[h] = true
		r.Head = append(r.Head, h)
	}
}

// complete reports whether enough of the head has come again.
func (r *Renewal) complete() bool { return r.came >= headAgain && 4*r.came >= 3*len(r.Head) }

// renewed is the line at which the last program that made progress began, or 0 if that is the first program.
func (r *Renewal) Renewed() int {
	if r.complete() && r.after >= HeadAfter {
		return r.line
	}
	return r.prior
}

// headHash is of a line without its numbers (FNV-1a); 0 for one that says too little, that counts, that is the source
// below a warning, or that tells of a failure.
func HeadHash(text []byte, marks uint64) uint64 {
	const enough = 8 // letters
	if len(text) > 400 || len(text) > 1 && text[0] == ' ' && text[1] == ' ' || MayCount(marks) ||
		strings.HasPrefix(string(text), "Traceback") {
		return 0
	}
	h, letters, digits := uint64(14695981039346656037), 0, false
	for _, b := range text {
		if b >= '0' && b <= '9' {
			if digits {
				continue
			}
			digits, b = true, '0'
		} else {
			digits = false
		}
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80 {
			letters++
		}
		h = (h ^ uint64(b)) * 1099511628211
	}
	if letters < enough {
		return 0
	}
	return h
}

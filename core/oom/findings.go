package oom

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/oom/printed"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/unit"
)

// findings reads an excerpt.
func (d *Detector) findings(x *excerpt) []finding {
	rs, first := printed.Rows(x.lines, x.first, d.words)
	counted := countProgress(rs, d.words)
	var out []finding
	for _, i := range d.triggers(x, rs, first) {
		f, ok := finding{}, false
		if e, sign := x.signs[rs[i].Number]; sign && !rs[i].More {
			if f, ok = signFinding(e); ok {
				f.at, f.name, f.traced = i, head1(rs[i].Body), tracedAbove(rs, i)
				f.Numbers = printed.ReadNumbers(messageAt(rs, i))
			}
		}
		if !ok {
			f, ok = readRow(rs, i)
		}
		if ok {
			f.x, f.rows, f.stream = x, rs, x.stream
			out = append(out, f)
		}
	}
	if f, ok := cutOff(rs); ok && x.ends {
		f.x, f.rows, f.stream = x, rs, x.stream
		if !f.reduced(out) {
			out = append(out, f)
		}
	}
	for i := range out {
		out[i].shutDown()
	}
	for i := range slices.Backward(out) {
		f := &out[i]
		f.alive = f.alive || f.ofMemory() && (f.survivedAfter(out[i:], counted) || f.diedLater(out[i:], counted))
		f.done = !f.alive && (f.ofMemory() && (f.resumed(counted) || f.closed()) || f.outlasted(out[i+1:]))
	}
	return out
}

// maxFindings bounds the work on a program that prints only errors.
const maxFindings = 96

// triggers returns the rows that may matter. Of too many it keeps the first, which show the cause, and the last, which show
// the end.
func (d *Detector) triggers(x *excerpt, rs []printed.Row, first int) []int {
	var memory, failure []int
	below := false // in a traceback, below its first line
	for i := first; i < len(rs); i++ {
		_, sign := x.signs[rs[i].Number]
		sign = sign && !rs[i].More
		marks := uint64(0)
		if !rs[i].Source {
			marks = d.words.Scan([]byte(rs[i].Body))
		}
		switch {
		case sign || marks&printed.MarkMemory != 0:
			memory = append(memory, i)
		case marks&printed.MarkFailure != 0 || below && raisedLine.MatchString(rs[i].Body):
			failure = append(failure, i)
		}
		switch body := rs[i].Body; {
		case strings.HasPrefix(body, "Traceback (most recent call last)"):
			below = true
		case body == "" || body[0] != ' ' && body[0] != '\t':
			below = false
		}
	}
	out := append(bothEnds(rs, memory), bothEnds(rs, failure)...)
	slices.Sort(out)
	return out
}

// maxRead bounds their bytes: a row of a long line costs as much as twenty of the usual ones.
const maxRead = 24 << 10

// bothEnds returns the first half and the last of too many rows.
func bothEnds(rs []printed.Row, at []int) []int {
	part := func(n, step int) int { // how many rows from an end are read
		read, count := 0, 0
		for i := n; count < len(at) && count < maxFindings/2 && read < maxRead/2; i += step {
			read += len(rs[at[i]].Body)
			count++
		}
		return count
	}
	first, last := part(0, 1), part(len(at)-1, -1)
	if first+last >= len(at) {
		return at
	}
	return slices.Delete(at, first, len(at)-last)
}

// signFinding returns the finding for a plugin's sign.
func signFinding(e Event) (finding, bool) {
	switch e.Kind {
	case job.OutOfMemory:
		return finding{rule: rule{kind: GPUUnspecified, weight: sure, nature: spoken, cause: "out of memory"},
			phase: e.Phase, fatal: true}, true
	case job.Survived:
		return finding{rule: rule{kind: GPUUnspecified, weight: probable, nature: survived, cause: "out of memory"},
			phase: e.Phase}, true
	}
	return finding{}, false
}

// leastCard is less than any card has that a training runs on: TensorFlow takes nearly all that is free, so a
// smaller limit was set, or is what other processes have left over.
const leastCard = unit.GiB

// statsRows bounds the rows between TensorFlow's message and its allocator's state: it lists each of its chunks
// before that.
const statsRows = 400

// tensorFlow takes what TensorFlow's allocator prints of itself around a failure: its limit, and what is in use. XLA
// has a limit too, which its compiler prints where it could not stay below it: a request above that is more than the
// card gives.
func (f *finding) tensorFlow(n *printed.Numbers) {
	if n.Capacity != nil || n.Allocated != nil {
		return
	}
	for _, r := range printed.Near(f.rows, f.at, statsRows, statsRows) {
		if n.Capacity == nil && strings.Contains(r.Body, "reduce memory use") {
			if v, ok := printed.Find(printed.XlaLimit, r.Body); ok && unit.Bytes(v) < unit.Value(n.Requested) {
				n.Capacity = printed.Rounded(v)
			}
		}
		if !strings.Contains(r.Body, "Limit:") && !strings.Contains(r.Body, "InUse:") {
			continue
		}
		if v, ok := printed.Find(printed.TfLimit, r.Body); ok && unit.Bytes(v) >= leastCard {
			printed.Set(&n.Capacity, printed.TfLimit, r.Body)
		}
		printed.Set(&n.Allocated, printed.TfInUse, r.Body)
	}
}

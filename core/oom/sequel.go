package oom

import (
	"slices"
	"strings"
)

// What follows a failure may show that it ended nothing: records of the logger that reported it, the end of what the
// parent of a dead process was doing, a notebook's result. For a program that is known to have failed,
// none of this counts.

var (
	// loggedAt is the time at the head of a logger's record, in the formats that people configure.
	loggedAt = rx(`^\[?(?:\d{4}[-/.]\d\d[-/.]\d\d|` +
		`\d\d[-/.]\d\d[-/.]\d{4})[ T,]+\d\d:\d\d:\d\d(?:[.,]\d+)?(?: [AP]M)?\]?:? `)
	// measured is a figure of merit that a training reports.
	measured = rx(`(?i)(?:loss|acc(?:uracy)?|psnr|ssim|dice|f1|auc|iou|score|perplexity|` +
		`ppl)["']?\s{0,2}[:=]?\s{0,2}\d+\.\d`)
	// concluded are words for the end of a part of a program that went well.
	concluded = rx(`(?i)\b(?:training|validation|evaluation|testing|inference|prediction|export)\b(?: (?:is|` +
		`was|has|run)){0,2} ` +
		`(?:finished|completed?|done)\b`)
	// returned is what a notebook prints of a cell's last value, of which the class has no words of its own.
	returned = rx(`^<(?:[a-z_]\w*\.)+[A-Z]\w* (?:object )?at 0x[0-9a-f]+>$`)
)

// outlasted reports whether what follows shows that a failure ended nothing; later are the findings after it.
func (f *finding) outlasted(later []finding) bool {
	if !f.traced || !f.memory() && f.rule.name != anyException.name || slices.ContainsFunc(later, func(g finding) bool {
		return g.fatal && !g.alive && !g.done && g.rule.nature != consequence
	}) {
		return false
	}
	return f.loggedOn() || f.memory() && f.parentConcluded()
}

// loggedOn reports whether the logger that wrote a traceback went on to report figures, in later
// records. A logger writes
// each of its records at once, so that these are no buffer of a dying program.
func (f *finding) loggedOn() bool {
	begin := f.traceback()
	if begin < 1 {
		return false
	}
	above := f.rows[begin-1]
	head := loggedAt.FindString(above.text)
	if head == "" || lastWords.MatchString(above.text) {
		return false
	}
	figures := 0
	for _, r := range f.rows[f.at+1:] {
		stamp := loggedAt.FindString(r.text)
		switch {
		case stamp == "" || shape(stamp) != shape(head):
		case lastWords.MatchString(r.text):
			return false
		case stamp != head && measured.MatchString(clip(r.text)):
			figures++
		}
	}
	return figures >= 2
}

// shape is a stamp with letters for its digits, so that stamps of one format are alike.
func shape(stamp string) string {
	return strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return 'd'
		}
		if c == 'A' || c == 'P' {
			return 'A' // of the hour's half
		}
		return c
	}, stamp)
}

// parentConcluded reports whether a process died that multiprocessing had spawned, and its parent then
// printed the end of
// what it was doing. The parent's buffer is not written at a child's death.
func (f *finding) parentConcluded() bool {
	calls, _ := f.calls()
	if len(calls) < 2 || calls[0].path != "<string>" || calls[1].name != "spawn_main" {
		return false
	}
	return slices.ContainsFunc(f.rows[f.at+1:], func(r row) bool {
		return len(r.body) < 300 && concluded.MatchString(r.body) && !unfinished.MatchString(r.body)
	})
}

// traceback returns the row at which the traceback begins that ends in this finding; -1 if there is none.
func (f *finding) traceback() int {
	for i := f.at - 1; i > max(0, f.at-maxTrace); i-- {
		if r := f.rows[i]; r.rank == f.rows[f.at].rank && strings.HasPrefix(r.body, "Traceback (most recent call last)") {
			return i
		}
	}
	return -1
}

// returns reports whether the output ends with a notebook's result, so that its cell has come to its end.
func (d *Detector) returns() bool {
	if len(d.streams) != 1 {
		return false
	}
	return returned.MatchString(d.streams[0].lastLine())
}

// lastLine returns the last line that is not blank; "" if there is none among the last 40.
func (s *stream) lastLine() string {
	lines := s.tail.lines(40)
	if seg, ok := s.cleaner.pending(); ok {
		lines = append(lines, held{seg.number, string(seg.text)})
	}
	for _, l := range slices.Backward(lines) {
		if text := strings.TrimSpace(l.text); text != "" {
			return clip(text)
		}
	}
	return ""
}

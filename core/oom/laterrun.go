package oom

import (
	"slices"

	"github.com/launch-ml/launch/core/oom/printed"
)

// past marks what was found before another program began. It returns, by stream, the line at which one began that failed as
// well: that failure is judged without the text before it. A consequence of another process's end is not counted as such a
// failure: a rank that printed the same as another is stopped like that.
func (d *Detector) past(all []finding) map[string]int {
	alone := map[string]int{}
	for _, s := range d.streams {
		line := s.renewal.Renewed()
		waits := s.renewal.Agent > line && s.renewal.Moved < printed.HeadAfter
		if line = max(line, s.renewal.Agent); line == 0 {
			continue
		}
		failed := false
		var first, memory *finding // of the earlier program
		for i := range all {
			f := &all[i]
			switch late := f.rows[f.at].Number >= line; {
			case f.stream != s.name:
			case late:
				failed = failed || f.fatal && !f.alive && f.rule.nature != consequence
			default:
				if first == nil && (f.fatal || f.ofMemory()) {
					first = f
				}
				if memory == nil && f.ofMemory() {
					memory = f
				}
			}
		}
		switch {
		case first == nil || s.repeats(first) && !(s.renewal.Whole && s.endsWell()):
		case failed:
			alone[s.name] = line
		case memory != nil && !waits:
			for i := range all {
				if f := &all[i]; f.stream == s.name && f.rows[f.at].Number < line {
					f.past = true
				}
			}
		}
	}
	return alone
}

// endsWell reports whether the last line of a stream is one of a program that has come to its end.
func (s *stream) endsWell() bool {
	last := printed.Clip(s.lastLine())
	return (wholeTime.MatchString(last) || printed.Concluded.MatchString(last)) && !printed.Unfinished.MatchString(last)
}

// wholeTime is the time that a whole program took.
var wholeTime = rx(`(?i)\b(?:total|used|elapsed|whole|overall|run(?:ning)?|training) ?_?time\b[^\d]{0,24}\d|` +
	`\btrain_runtime\b`)

// since returns the part of an excerpt from a line on; ok is false if no line that matters is in it.
func (x excerpt) since(line int) (_ excerpt, ok bool) {
	n := 0
	for n < len(x.lines) && x.lines[n].Number < line {
		n++
	}
	x.lines, x.first = x.lines[n:], max(0, x.first-n)
	return x, x.first < len(x.lines)
}

// repeats reports whether lines of the head come again between it and a finding: then they are no head.
func (s *stream) repeats(f *finding) bool {
	for _, r := range f.rows[:f.at] {
		if r.Number > s.renewal.Ended && !r.More &&
			slices.Contains(s.renewal.Head, printed.HeadHash([]byte(r.Text), s.d.words.Scan([]byte(r.Text)))) {
			return true
		}
	}
	return false
}

package oom

import (
	"strings"

	"github.com/launch-ml/launch/core/oom/printed"
)

var (
	// inTrace are lines that a traceback has below its frames: source, carets, "[Previous line repeated …]", IPython's
	// frames.
	inTrace = rx(`^(?:\s+\S|File \S|-+> ?\d+|\s*\d+ +\S|Cell In|Input In|<ipython-input|[~/]\S*$|\S+\.pyc? in )`)
	trailer = rx("^(?:```.*|\\.{2,}|…|~~~)$")
	// starters are the files of programs that only start others.
	starters = rx(`torch/distributed/|/accelerate/commands/|/deepspeed/launcher/|/bin/(?:torchrun|accelerate|` +
		`deepspeed)$|/runpy\.py$|/subprocess\.py$|/ray/_private/worker\.py$`)
)

// cutOff returns the finding of a traceback in which the rows end.
func cutOff(rs []printed.Row) (finding, bool) {
	last := len(rs) - 1
	for last >= 0 && (strings.TrimSpace(rs[last].Body) == "" || trailer.MatchString(strings.TrimSpace(rs[last].Body))) {
		last--
	}
	if last < 0 || rs[last].More {
		return finding{}, false
	}
	if rs[last].Boxed {
		return cutBox(rs, last)
	}
	rank := rs[last].Rank
	for i := last; i > max(-1, last-maxTrace); i-- {
		body := strings.TrimRight(rs[i].Body, " ")
		switch m := beganTrace.FindStringSubmatch(strings.TrimSpace(body)); {
		case rs[i].Rank != rank && rs[i].Rank != "":
			continue
		case m != nil && (i < last || len(rs) > 1):
			return cutTrace(rs, i, last, m[1])
		case body != "" && !inTrace.MatchString(body) && !strings.HasPrefix(body, "---"):
			return finding{}, false
		}
	}
	return finding{}, false
}

// cutBox is the same of a traceback in rich's box, of which the last line is missing.
func cutBox(rs []printed.Row, last int) (finding, bool) {
	for i := last; i >= max(0, last-maxTrace) && rs[i].Boxed; i-- {
		switch s := strings.TrimSpace(rs[i].Text); {
		case strings.Contains(s, "╰"):
			return finding{}, false
		case beganTrace.MatchString(rs[i].Body):
			return cutTrace(rs, i, last, "")
		}
	}
	return finding{}, false
}

// cutTrace is the finding of a traceback that begins at a row and has lost its end. name is of the exception, if it
// is known.
func cutTrace(rs []printed.Row, from, last int, name string) (finding, bool) {
	f := finding{rule: cutOffRule, at: last, name: name, traced: true, fatal: true}
	all := frames(rs, from, last+1, rs[last].Rank)
	if len(all) == 0 && name == "" {
		return finding{}, false // nothing of it was printed
	}
	launched := len(all) > 0
	for _, c := range all {
		launched = launched && starters.MatchString(c.path)
	}
	switch {
	case ignored(rs, from), harnessAbove(rs, from), setAside(rs, from):
		return f, false
	case launched:
		f.rule = launchedRule
	case name != "":
		for _, r := range rules {
			if r.kind != NoMemory && r.nature != survived && r.nature != retried && r.re.MatchString(name+":") {
				f.rule = r
				break
			}
		}
	}
	return f, true
}

// mute are the exceptions of a program whose allocation was refused, that do not name it:
// torch/csrc/inductor/aoti_runtime, expandable segments (c10/cuda/CUDACachingAllocator.cpp), and TensorFlow's errors
// from eager execution.
var mute = rx(`aoti_torch_\w+ ?\(.*API call failed|CUDA driver error: device not ready|` +
	`\b(?:InternalError|UnknownError|_?FallbackException|InternalFailure)\b|CUDA error: unknown error`)

// refusedBefore bounds, in rows, how long before such an exception the allocator's warning stands.
const refusedBefore = 80

// afterRefusal returns a failure that does not name its cause as the out-of-memory that the allocator reported right
// before it, and the allocator's finding; nil where there is none.
func (f *finding) afterRefusal(tries []finding) (as, try *finding) {
	body := f.rows[f.at].Body
	if f.ofMemory() || f.rule.name != cutOffRule.name && !mute.MatchString(body) {
		return nil, nil
	}
	try = f.lastTry(tries, refusedBefore)
	if try == nil {
		return nil, nil
	}
	g := *f
	g.rule, g.Numbers = try.rule, try.Numbers
	g.rule.weight, g.rule.cause = suspected, "out of GPU memory"
	return &g, try
}

// lastTry is the last refusal before a finding, in its own stream, after which nothing made progress.
func (f *finding) lastTry(tries []finding, rows int) (try *finding) {
	from := f.at
	if f.traced {
		from = f.tracebackHead()
	}
	for i := range tries {
		if t := &tries[i]; t.x == f.x && t.at < f.at && t.at >= from-rows && t.rows[t.at].Rank == f.rows[f.at].Rank {
			try = t
		}
	}
	if try == nil {
		return nil
	}
	moved := 0
	for _, r := range f.rows[try.at+1 : max(from, try.at+1)] {
		if p, ok := printed.ProgressOf(r.Body); ok && p.N > 0 {
			moved++
		}
	}
	if moved >= 2 {
		return nil
	}
	return try
}

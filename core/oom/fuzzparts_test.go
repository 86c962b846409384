package oom

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/launch-ml/launch/core/oom/printed"

	"github.com/google/go-cmp/cmp"

	"github.com/launch-ml/launch/core/unit"
)

// pieces are what the parts that parse on their own are fed with, beside whole fixtures.
var pieces = []string{
	"CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 7.79 GiB total capacity; 5.47 GiB already allocated; 1.02 GiB free; " +
		"5.63 GiB reserved in total by PyTorch)",
	"Tried to allocate 172.00 MiB. GPU \x01 has a total capacty of 11.90 GiB of which 64.88 MiB is free. Process 12 has 17179869184.00 GiB " +
		"memory in use. 3.00 GiB allowed; Of the allocated memory 11.48 GiB is allocated by PyTorch, with 80.29 MiB allocated in private " +
		"pools (e.g., CUDA Graphs), and 108.73 MiB is reserved by PyTorch but unallocated.",
	"Currently allocated : 20.19 GiB\nRequested : 640.00 MiB\nDevice limit : 23.64 GiB\nFree (according to CUDA): 20.81 MiB",
	"OOM when allocating tensor with shape[1,99999999999,3] and type float on /job:localhost/device:GPU:0 by allocator GPU_0_bfc",
	"failed to allocate CUDA0 buffer of size 99999999999999999999", "9e9999 GiB", "1,2,3,,,4 MiB/ 5MiB", "0 bytes",
	"  File \"/home/user/train.py\", line 4, in forward\n    x = y\n", "File \"a.py\", line 99999999999999999999", "│ ❱ 149 │ \n│ /home/a.py:3 in f │",
	"---> 12 x = 1\nCell In[3], line 4", "/a/b.py in f(x)\n", "{\"log\":\"Traceback (most recent call last):\\n\",\"time\":\"\"}",
	"\"\\u001b[0;31mRuntimeError\\u001b[0m: CUDA out of memory\\n\",", "[pod/a-0/main] 2026-04-01T17:06:35Z [rank1]: # > 3: x",
	"[11/21/26 21:00:00] INFO     a message      train.py:1", "                             and more of it",
	" 41%|####| 410/1000 [02:10<03:07]", "Epoch 0/1 ━━ 99,99/4 0:00:00 • -:--:--", "step 99999999999999999999 loss nan", "\x1b]8;;x\x1b\\y\x1b[3Cz\r\n",
}

func seeds(f *testing.F) {
	for _, p := range pieces {
		f.Add(p)
	}
}

// FuzzNumbers: what a message states is a size that memory has, and the kind follows from it whatever it is.
func FuzzNumbers(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		n := printed.ReadNumbers(printed.Squeeze([]printed.Row{{Body: text}}))
		if unit.Value(n.Requested) < 0 || unit.Value(n.Capacity) < 0 || unit.Value(n.Allocated) < 0 ||
			unit.Value(n.Reserved) < 0 || unit.Value(n.Free) < 0 ||
			unit.Value(n.ProcessInUse) < 0 || unit.Value(n.Allowed) < 0 || n.OtherHeld() < 0 {
			t.Errorf("a size below zero in %q: %+v", text, n)
		}
		gpuKind(&n)
	})
}

// FuzzFrames: rows lose nothing of a line but what they know, and frames that stand in them are whole.
func FuzzFrames(f *testing.F) {
	seeds(f)
	d := newDetector(f, trainer)
	f.Fuzz(func(t *testing.T, text string) {
		var lines []printed.Held
		for i, l := range strings.Split(text, "\n") {
			lines = append(lines, printed.Held{Number: i + 1, Text: l})
		}
		rs, first := printed.Rows(lines, len(lines)/2, d.words)
		if len(rs) < len(lines) || first > len(rs) || rs[first].Number != lines[len(lines)/2].Number || rs[first].More {
			t.Fatalf("%d rows of %d lines, from %d", len(rs), len(lines), first)
		}
		for _, r := range rs {
			if len(r.Body) > printed.MaxRow {
				t.Errorf("a row of %d bytes", len(r.Body))
			}
			if utf8.ValidString(text) && !utf8.ValidString(r.Body) {
				t.Errorf("a cut within a letter: %q", r.Body)
			}
		}
		fs := frames(rs, 0, len(rs), "")
		for _, c := range fs {
			if c.row < 0 || c.row >= len(rs) || c.path == "" {
				t.Errorf("a frame without a place: %+v", c)
			}
		}
		phaseOf(fs)
		partOf(fs)
		if o := own(fs); strings.ContainsRune(o, '\n') {
			t.Errorf("a frame of two lines: %q", o)
		}
	})
}

// FuzzCleaner: the lines are the same wherever the bytes are split, and have no control characters.
func FuzzCleaner(f *testing.F) {
	for i, p := range pieces {
		f.Add([]byte(p), uint16(i))
	}
	f.Fuzz(func(t *testing.T, text []byte, step uint16) {
		lines := func(step int) (out []string) {
			c := printed.Cleaner{Emit: func(s printed.Segment) { out = append(out, string(s.Text)) }}
			for at := 0; at < len(text); at += step {
				c.Write(text[at:min(len(text), at+step)])
			}
			if s, ok := c.Pending(); ok {
				out = append(out, string(s.Text))
			}
			return out
		}
		want, got := lines(len(text)+1), lines(int(step%512)+1)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("split in steps of %d (-whole +split):\n%s", step%512+1, diff)
		}
		for _, l := range want {
			if i := strings.IndexFunc(l, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }); i >= 0 ||
				len(l) > printed.MaxLine {
				t.Errorf("%q, or %d bytes", l, len(l))
			}
		}
	})
}

// FuzzRich: a record is bounded, and its lines end where rich ended them.
func FuzzRich(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		var r printed.Record
		for i, l := range strings.Split(text, "\n") {
			line := []byte(l)
			if message, ok := printed.RichFirst(line); ok {
				if !strings.Contains(l, string(message)) {
					t.Errorf("%q is no part of %q", message, l)
				}
				r.Begin(i, line, message)
			} else if rest, ok := printed.RichRest(line); ok && r.Open && !r.Add(line, rest) {
				r.Open = false
			}
			if len(r.Spaced) > printed.MaxRecord+printed.MaxLine && len(l) < printed.MaxLine {
				t.Errorf("a record of %d bytes", len(r.Spaced))
			}
		}
	})
}

// fuzzWords are those of a program without signs.
var fuzzWords = plain().words

// FuzzProgress: a count is none below zero, and the cheap question never denies it.
func FuzzProgress(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := printed.ProgressOf(text)
		if ok && (p.N < 0 || !printed.MayCount(fuzzWords.Scan([]byte(text)))) {
			t.Errorf("%q counts %d", text, p.N)
		}
	})
}

// FuzzRules: that patterns look for their words first changes no answer.
func FuzzRules(f *testing.F) {
	seeds(f)
	for _, w := range append(printed.MemoryWords, printed.FailureWords...) {
		f.Add(w)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range rules {
			if whole := regexp.MustCompile(r.re.String()).MatchString(text); whole != r.re.MatchString(text) {
				t.Errorf("%s passes over %q", r.re, text)
			}
		}
	})
}

// FuzzPart: whatever stands around a finding, its part is one that there is.
func FuzzPart(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		var rs []printed.Row
		for i, l := range strings.Split(text, "\n") {
			rs = append(rs, printed.Row{Number: i + 1, Text: l, Body: l})
		}
		fnd := &finding{rows: rs, at: len(rs) / 2, x: &excerpt{}}
		for _, phase := range []Phase{Unknown, Build, TrainForward, Optimizer, Validation, Checkpoint} {
			r := Report{Phase: phase}
			switch r.Part = r.part(fnd, frames(rs, 0, fnd.at, ""), nil, State{}); r.Part {
			case "", Load, FirstStep, Metric, ImageLogging, SanityCheck, Save, Resume:
			default:
				t.Errorf("a part %q", r.Part)
			}
			if r.Part == FirstStep && phase.Coarse() != "training" {
				t.Errorf("a first step in %s", phase)
			}
			r.where()
		}
	})
}

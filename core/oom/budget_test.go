package oom

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/oom/printed"

	"github.com/launch-ml/launch/core/job"
)

// Patterns that take thousands of steps for each byte do not slow down a program, and the others go on.
func TestSlowPatterns(t *testing.T) {
	lines := []job.Sign{{Kind: job.Progress, Pattern: `(a?){400}a{400}b(?P<iteration>\d+)`},
		{Kind: job.Phase, Phase: "validation", Pattern: `((a|b)?c?){300}!`},
		{Kind: job.Succeeded, Pattern: `training is over`}}
	for i := range 15 {
		lines = append(lines, job.Sign{Kind: job.Metric, Name: fmt.Sprint(i), Direction: "minimise",
			Pattern: `(.*a){20}(?P<value>x)`})
	}
	d, err := NewDetector(job.Signs{Lines: lines})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for i := range 20_000 {
		fmt.Fprintf(d, "%s %d\n", strings.Repeat("a", 400), i)
	}
	fmt.Fprintf(d, "training is over\n")
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("reading took %v", took)
	}
	if slow := strings.Join(d.Slow(), " "); !strings.Contains(slow, "progress") || strings.Contains(slow, "over") {
		t.Errorf("the slow patterns are %s", slow)
	}
	if !d.State().Succeeded {
		t.Error("the other signs were lost")
	}
}

// A pattern whose program is large is not matched on a long line, and is on a short one.
func TestLargePatternOnALongLine(t *testing.T) {
	d, err := NewDetector(job.Signs{Lines: []job.Sign{{Kind: job.Progress, Pattern: `(x?){900}(?P<iteration>\d+)`}}})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 200 {
		io.WriteString(d, strings.Repeat("y", printed.MaxLine-10)+"7\n")
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("reading took %v", took)
	}
	io.WriteString(d, "xx12\n")
	if got := d.State().Iteration; got != 12 || len(d.Slow()) != 1 {
		t.Errorf("iteration %d, slow %q", got, d.Slow())
	}
}

func FuzzPatterns(f *testing.F) {
	for _, s := range [][2]string{{`step (?P<iteration>\d+)`, "step 3"}, {`(a?){90}a{90}`, "aaaa"}, {`(.*a){9}x`, "aaaa"},
		{`(?P<bytes>[\d.]+) (?P<unit>\w+)`, "3 GiB"}, {`[`, ""}, {`\pL{50}`, "é\xff"}, {`(?P<value>.*)`, "\x1b[31m\r\n"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		s := job.Sign{Kind: job.Metric, Name: "m", Direction: "minimise", Pattern: pattern}
		if len(pattern) > 4096 || instructions(pattern) > 50_000 {
			return
		}
		d, err := NewDetector(job.Signs{Lines: []job.Sign{s, {Kind: job.Progress, Pattern: pattern}}})
		if err != nil {
			return
		}
		began := time.Now()
		for range 50 {
			io.WriteString(d, text+strings.Repeat("a", 300)+"\n")
		}
		d.State()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%q took %v", pattern, took)
		}
	})
}

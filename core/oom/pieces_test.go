package oom

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/oom/printed"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/launch-ml/launch/core/job"
)

// TestAutomaton: it finds each word wherever it stands in a line, in capitals too, and nothing else.
func TestAutomaton(t *testing.T) {
	d := newDetector(t, trainer)
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 50_000 {
		line := soupOf(rnd, 3)
		low := printed.Lowered(line)
		in := func(w string) bool { return strings.Contains(low, w) }
		marks := d.words.Scan([]byte(line))
		if got, want := marks&printed.MarkFailure != 0, slices.ContainsFunc(printed.FailureWords, in); got != want {
			t.Fatalf("of %q it says %v", line, got)
		}
		if got, want := marks&printed.MarkFrame != 0, slices.ContainsFunc(printed.FrameWords, in); got != want {
			t.Fatalf("of frames in %q it says %v", line, got)
		}
	}
}

// TestMayCount: the cheap question never says no where the regular expressions say yes.
func TestMayCount(t *testing.T) {
	d := newDetector(t, trainer)
	rnd := rand.New(rand.NewPCG(7, 8))
	counts := 0
	for range 200_000 {
		line := soupOf(rnd, 5)
		if _, ok := printed.ProgressOf(line); ok {
			if counts++; !printed.MayCount(d.words.Scan([]byte(line))) {
				t.Fatalf("mayCount denies %q", line)
			}
		}
	}
	if counts < 100 {
		t.Errorf("only %d counts were tried", counts)
	}
}

// soupParts are what lines are cooked of; the words stand among them.
var soupParts = append(append(append([]string{
	"", " ", "x", "é", "\t", "\xff", "\x7f", "\x00", "OOM ", "oom", "fata", "rror:", "  File \"a.py\", line 3, in f", "iter: 1,200", "step 77 loss 0.1",
	"[epoch:  0, iter:   1,100, lr:(2.000e-04,)] [peak VRAM: 1.71 GB]", " 3/100 [00:01<00:20, 1.2it/s]", "│", "[rank0]: ",
	"[11/21/26 21:00:00] INFO     ", "INFO     ", "                             ", " train.py:26", "[a] ERROR \t", "\fDEBUG\t", "[[a b] CRITICAL  x", "LOſS 3 epoch: 4", "7/9 [0:01", "lr 3 it 5", "Ran out of VRAM during training",
	"Saving 3 validation images", "OOM Recovery successful", "Validation set5 done", "Batch size per gpu: 16", "\x1b[32m", "\x1b]8;;", "\x1b\\", "\x1b[3C", "\x1b",
	"RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 4.00 GiB total capacity; 3.00 GiB already allocated)",
	"Traceback (most recent call last):", "Killed", "2025-11-21 10:00:01,000 INFO: nothing to see here, and more of it",
}, printed.MemoryWords...), printed.FailureWords...), printed.FrameWords...)

// soupOf returns up to n parts, some of them cut, some in capitals.
func soupOf(rnd *rand.Rand, n int) string {
	var b strings.Builder
	for range rnd.IntN(n + 1) {
		p := soupParts[rnd.IntN(len(soupParts))]
		switch rnd.IntN(8) {
		case 0:
			p = p[:rnd.IntN(len(p)+1)]
		case 1:
			p = p[rnd.IntN(len(p)+1):]
		case 2:
			p = strings.ToUpper(p)
		case 3:
			p = strings.Repeat("-", rnd.IntN(9)) + p
		}
		b.WriteString(p)
	}
	return b.String()
}

// soup returns lines of anything: mostly dull ones.
func soup(rnd *rand.Rand) []byte {
	ends := [][]string{{"\n"}, {"\r\n"}, {"\n", "\r\n", "\r", "\r\r\n", ""}}[rnd.IntN(3)]
	dull := rnd.IntN(60)
	var b bytes.Buffer
	for range rnd.IntN(900) {
		switch {
		case rnd.IntN(400) == 0:
			b.WriteString(strings.Repeat("long ", rnd.IntN(printed.MaxLine/2)))
		case rnd.IntN(60) < dull:
			b.WriteString("2025-11-21 10:00:01 it is all well with the world of 0123456789"[:rnd.IntN(64)])
		default:
			b.WriteString(soupOf(rnd, 3))
		}
		b.WriteString(ends[rnd.IntN(len(ends))])
	}
	return b.Bytes()
}

// An account is all that a Detector knows.
type account struct {
	Report   Report
	State    State
	Events   []Event
	Excerpts []excerpt
	Tails    [][]printed.Held
}

func accountOf(t testing.TB, d *Detector, log []byte, next func(at int) int) account {
	var a account
	d.OnEvent = func(e Event) { a.Events = append(a.Events, e) }
	for at := 0; at < len(log); {
		to := min(len(log), max(at+1, next(at)))
		name := Terminal
		if len(log)%3 == 0 { // the log of a program is read differently
			name = Log
		}
		if _, err := d.Stream(name).Write(log[at:to]); err != nil {
			t.Fatal(err)
		}
		at = to
	}
	a.State = d.State()
	a.Excerpts = d.snapshot()
	for _, s := range d.streams {
		a.Tails = append(a.Tails, s.tail.Lines(beforeLines))
	}
	a.Report = d.Report(Exit{})
	return a
}

// sameSlowly compares a Detector with one that is given one byte at a time, so that every line is gathered before it
// is read.
func sameSlowly(t *testing.T, signs job.Signs, log []byte, next func(at int) int) {
	t.Helper()
	slow := newDetector(t, signs)
	want := accountOf(t, slow, log, func(at int) int { return at + 1 })
	got := accountOf(t, newDetector(t, signs), log, next)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(State{}, excerpt{}, printed.Held{}, printed.Progress{}),
		cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("of %d bytes (-slow +fast):\n%s", len(log), diff)
	}
}

// TestSameSlowly runs over all fixtures, as they are and with the line ends of a terminal, and over soups of lines.
func TestSameSlowly(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	random := func(at int) int { return at + 1 + rnd.IntN(1+rnd.IntN(5000)) }
	for _, f := range fixtures(t) {
		for _, signs := range []job.Signs{{}, trainer} {
			sameSlowly(t, signs, f.log, whole)
			sameSlowly(t, signs, f.log, random)
			sameSlowly(t, signs, bytes.ReplaceAll(f.log, []byte("\n"), []byte("\r\n")), random)
		}
	}
	dull := strings.Repeat("nothing to see here\n", 250)
	for _, log := range []string{
		"Killed\n" + dull + "  File \"a.py\", line 3, in f\n" + dull, // frames hold an excerpt open
		strings.Repeat("x", 3*printed.MaxLine) + " Killed\n" + strings.Repeat("y", printed.MaxLine) + "\r\n" +
			strings.Repeat("z", printed.MaxLine+1) + "\n",
	} {
		sameSlowly(t, job.Signs{}, []byte(log), whole)
	}
	soups := 12
	if testing.Short() {
		soups = 3
	}
	for range soups {
		log := soup(rnd)
		sameSlowly(t, []job.Signs{{}, trainer}[rnd.IntN(2)], log, random)
	}
}

// FuzzSameSlowly: the same of any bytes, split anywhere.
func FuzzSameSlowly(f *testing.F) {
	for i, x := range fixtures(f) {
		if len(x.log) < 1200 {
			f.Add(x.log, uint64(i))
		}
	}
	f.Fuzz(func(t *testing.T, log []byte, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		random := func(at int) int { return at + 1 + rnd.IntN(1+rnd.IntN(100)) }
		sameSlowly(t, []job.Signs{{}, trainer}[seed%2], log, random)
	})
}

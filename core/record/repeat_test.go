package record

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// A site is a machine on which one program without a formula runs again and again, with the receipts that it leaves.
type site struct {
	need     func(micro int64) unit.Bytes
	seen     func(unit.Bytes) unit.Bytes // how much of a peak is measured
	receipts []Receipt
	clock    time.Time
	runs     int
}

// divisible are the ladders of a program at a micro-batch, with every other division of its global batch.
func divisible(micro, accumulation int64) *ladder.Set {
	unknown := []mem.Estimate{{Unknown: "no formula"}}
	at := func(s ladder.Split) ladder.Rung {
		return ladder.Rung{Name: fmt.Sprint(s), Cost: ladder.Speed, Slowdown: 1, Estimates: unknown,
			Values: map[string]int64{job.MicroBatch: s.Micro, job.Accumulation: s.Accumulation},
			Edits: []config.Edit{
				{Knob: job.MicroBatch, To: fmt.Sprint(s.Micro)},
				{Knob: job.Accumulation, To: fmt.Sprint(s.Accumulation)},
			}}
	}
	asked := ladder.Split{Micro: micro, Accumulation: accumulation}
	larger, smaller := asked.Others(func(ladder.Split) bool { return true })
	l := ladder.Ladder{Phase: ladder.Training, Asked: len(larger)}
	for _, s := range larger {
		l.Rungs = append(l.Rungs, at(s))
	}
	l.Rungs = append(l.Rungs, ladder.AsAsked(unknown...))
	for _, s := range smaller {
		l.Rungs = append(l.Rungs, at(s))
	}
	return &ladder.Set{
		Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{{Name: "as asked"}}},
		Phases: []ladder.Ladder{l},
		Values: map[string]int64{job.MicroBatch: micro, job.Accumulation: accumulation},
	}
}

// carry runs the program in a room, and returns the micro-batches that ran out of memory and the one that did not; 0 if
// none fits.
func (s *site) carry(
	t interface{ Fatalf(string, ...any) },
	micro, accumulation int64,
	room unit.Bytes,
	limits run.Limits,
) (ooms []int64, ran int64) {
	s.runs++
	subject := Subject{job: &job.Job{Plugin: "declared"}, machine: Machine{Kind: "cpu"}, program: "x"}
	priced := divisible(micro, accumulation)
	learned, _ := subject.Learn(priced, s.receipts)
	limits.Allow = ladder.Speed
	r := &run.Run{
		Job:     &job.Job{Batch: job.Batch{Micro: micro, Accumulation: accumulation, Ranks: 1}},
		Ladders: learned,
		Priced:  priced,
		Limits:  limits,
		Room:    room,
		Host:    true,
	}
	for {
		p, stop := r.Next()
		if stop != nil && stop.Code != 0 {
			t.Fatalf("launch refuses: %+v", stop)
		}
		if stop != nil {
			return ooms, ran
		}
		if p.Batch.Micro*p.Batch.Accumulation != micro*accumulation {
			t.Fatalf("the global batch is %d × %d", p.Batch.Micro, p.Batch.Accumulation)
		}
		s.clock = s.clock.Add(time.Minute)
		out := run.Outcome{
			Ending: run.OutOfMemory,
			Phase:  ladder.Training,
			Report: oom.Report{OOM: true, Fatal: true, Kind: oom.CPUAlloc},
			Began:  s.clock,
		}
		if need := s.need(p.Batch.Micro); need <= room {
			ran = p.Batch.Micro
			seen := []mem.Measurement{{Is: mem.Data, Bytes: s.seen(need), Bound: mem.Sampled}}
			out = run.Outcome{Ending: run.Succeeded, Passed: []string{ladder.Training}, Began: s.clock,
				Measured: map[string][]mem.Measurement{ladder.Training: seen}}
		} else {
			ooms = append(ooms, p.Batch.Micro)
		}
		r.Attempts = append(r.Attempts, run.Attempt{Plan: *p, Outcome: out})
		s.receipts = append(s.receipts, subject.Receipts(fmt.Sprint("run-", s.runs), r, r.Last())...)
	}
}

func receiptLine(base, slope unit.Bytes) func(int64) unit.Bytes {
	return func(micro int64) unit.Bytes { return (base + slope*unit.Bytes(micro)) * mib }
}

func all(b unit.Bytes) unit.Bytes { return b }

// Whole runs of one program, one after the other: what is asked for, and the micro-batches that are tried, the last
// of them with success.
func TestRepeated(t *testing.T) {
	type step struct {
		micro, accumulation int64
		room                unit.Bytes
		fill                bool
		tried               string
	}
	for name, tt := range map[string]struct {
		need  func(int64) unit.Bytes
		steps []step
	}{
		"the third size is foreseen": {receiptLine(150, 6), []step{
			{8, 1, 700, false, "8"}, {16, 1, 700, false, "16"}, {64, 1, 500, false, "32"}, {96, 1, 700, false, "48"}}},
		"it fails once": {receiptLine(100, 10), []step{
			{64, 1, 500, false, "64 32"}, {64, 1, 500, false, "32"}, {128, 1, 500, false, "32"}, {128, 1, 900, false, "64"}}},
		"a size between is taken later": {receiptLine(50, 10), []step{
			{96, 1, 400, false, "96 48 24"}, {96, 1, 400, false, "32"}, {96, 1, 400, false, "32"}, {36, 1, 400, false, "18"}}},
		"between what fitted and what did not": {receiptLine(0, 10), []step{
			{16, 1, 450, false, "16"}, {96, 1, 2000, false, "96"}, {96, 1, 450, false, "32"}}},
		"filled by what is foreseen": {receiptLine(100, 10), []step{
			{4, 24, 700, true, "4"}, {8, 12, 700, false, "8"}, {4, 24, 700, true, "48"}, {4, 24, 700, false, "4"}}},
		"in a smaller room": {receiptLine(100, 10), []step{{32, 1, 450, false, "32"}, {32, 1, 300, false, "16"}}},
		"nothing fits":      {receiptLine(1000, 10), []step{{4, 1, 450, false, "4 2 1"}, {4, 1, 450, false, "1"}}},
		"a larger room": {receiptLine(100, 10), []step{{32, 1, 300, false, "32 16"}, {32, 1, 500, false, "32"}, {32, 1, 300,
			false, "16"}}},
		"below a size in need": {receiptLine(0, 10), []step{{6, 1, 25, false, "6 3 1"}, {6, 1, 25, false, "2"}}},
	} {
		s := &site{need: tt.need, seen: all}
		for i, st := range tt.steps {
			ooms, ran := s.carry(t, st.micro, st.accumulation, st.room*mib, run.Limits{Fill: st.fill})
			if ran > 0 {
				ooms = append(ooms, ran)
			}
			if got := fmt.Sprint(ooms); got != "["+st.tried+"]" {
				t.Errorf("%s: run %d tried %s, want [%s]", name, i+1, got, st.tried)
			}
		}
	}
}

// With any memory that grows with the micro-batch, in any rooms, a size that ran out of memory is not tried again in
// a room that is no larger, unless nothing smaller is left. One run has at most one out-of-memory for each time that
// its micro-batch can be halved, and one more. If memory grows as a straight line and all runs ask for the same, only
// the first of them runs out of memory. What is measured may miss a part of the peak.
func TestFewOutOfMemories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Int64Range(1, 300).Draw(t, "largest")
		straight, same := rapid.Bool().Draw(t, "straight"), rapid.Bool().Draw(t, "same")
		needs := []unit.Bytes{unit.Bytes(rapid.IntRange(1, 300).Draw(t, "base")) * mib}
		step := unit.Bytes(rapid.IntRange(1, 20).Draw(t, "slope")) * mib
		for n := int64(0); n < 3*most; n++ {
			if !straight {
				step = unit.Bytes(rapid.IntRange(0, 40).Draw(t, "step")) * mib
			}
			needs = append(needs, needs[n]+step)
		}
		missed := unit.Bytes(rapid.IntRange(0, 8).Draw(t, "missed percent"))
		if straight {
			missed = 0
		}
		s := &site{
			need: func(n int64) unit.Bytes { return needs[n] },
			seen: func(b unit.Bytes) unit.Bytes { return b - b*missed/100 },
		}
		failed := map[int64]unit.Bytes{}
		room := unit.Bytes(rapid.Int64Range(int64(needs[1]), int64(needs[most])+1).Draw(t, "room"))
		for i := range 6 {
			micro := most
			if !same {
				micro = rapid.Int64Range(1, most).Draw(t, "micro")
				room = unit.Bytes(rapid.Int64Range(int64(needs[1]), int64(needs[most])+1).Draw(t, "room"))
			}
			accumulation := rapid.Int64Range(1, 3).Draw(t, "accumulation")
			ooms, ran := s.carry(t, micro, accumulation, room, run.Limits{Fill: rapid.Bool().Draw(t, "fill")})
			if ran == 0 {
				t.Fatalf("run %d found no size in %v, where 1 needs %v: %v", i, room, needs[1], ooms)
			}
			if slices.ContainsFunc(ooms, func(n int64) bool { return failed[n] >= room }) {
				t.Fatalf("run %d tried %v in %v, and these failed before: %v", i, ooms, room, failed)
			}
			if len(ooms) > bits.Len64(uint64(3*micro))+3 { // four by what was foreseen, then by halves
				t.Fatalf("run %d ran out of memory at %v", i, ooms)
			}
			if straight && same && i > 0 && len(ooms) > 0 {
				t.Fatalf("run %d ran out of memory at %v", i, ooms)
			}
			for _, n := range ooms {
				failed[n] = max(failed[n], room)
			}
		}
	})
}

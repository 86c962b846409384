package ui

import (
	"fmt"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/run"
)

// host writes host memory and /dev/shm: one line each where the job as asked fits, else a table as for a phase.
func (p Printer) host(v View) {
	c := v.Plan.Host
	if v.Run.Host && v.Run.Ladders.Host == nil {
		p.line("")
		p.line("  the room is per process: the memory of loader workers and of other ranks is not counted")
	}
	if c == nil || len(c.Needs) == 0 {
		return
	}
	begun := false
	for _, n := range c.Needs {
		asked := v.Run.Ladders.Host.At(0, n.Name, v.Run.Job.Batch.Micro)
		changed := c.Rung > 0 || v.Plan.Batch.Micro != v.Run.Job.Batch.Micro
		if asked.Known() && asked.Total() == 0 && n.Estimate.Total() == 0 {
			continue // nothing is at stake
		}
		if !begun {
			p.line("")
			begun = true
		}
		if c.Rung == 0 && (n.Verdict == ladder.Fits || n.Verdict == ladder.Unknown) {
			p.line("  %s  %s, %s", p.bold(n.Name), askedTotal(n.Estimate), p.hostVerdict(n))
			continue
		}
		total := fmt.Sprintf("%12s", askedTotal(asked))
		if changed {
			p.line("  %s %12s %12s   %s", p.bold(pad(n.Name, 36)), "as asked", "planned", c.Name)
			total += fmt.Sprintf(" %12s", askedTotal(n.Estimate))
		} else {
			p.line("  %s %12s", p.bold(pad(n.Name, 36)), "as asked")
		}
		for _, row := range ledger(asked, n.Estimate) {
			cells := fmt.Sprintf("%12s", cell(row.asked))
			if changed {
				cells += fmt.Sprintf(" %12s", cell(row.planned))
			}
			p.line("    %s %s", pad(row.name, 34), cells)
		}
		p.line("    %s %s   %s", pad("estimate", 34), total, p.hostVerdict(n))
	}
}

// hostVerdict reports whether a need fits its room. No job is refused for it.
func (p Printer) hostVerdict(n run.HostNeed) string {
	if !n.Estimate.Known() {
		why := n.Estimate.Unknown
		if n.Name == ladder.Apart {
			why += "; not counted above"
		}
		return p.yellow(why)
	}
	if n.Name == ladder.Apart {
		return "in processes with their own limit, and in /dev/shm; not counted above"
	}
	if n.Room == nil {
		return "free memory is not known"
	}
	of := fmt.Sprintf("of %v, %s", n.Room.Free, n.Room.By)
	switch {
	case n.Verdict == ladder.Not:
		return p.red(fmt.Sprintf("does not fit: %v %s; launch runs it anyway", n.Estimate.Vouched(), of))
	case n.Verdict == ladder.May:
		return p.yellow(fmt.Sprintf("may not fit: part of it is rough, %s", of))
	}
	return p.green(fmt.Sprintf("fits, %v left", n.Room.Free-n.Estimate.Total())) + " " + of
}

// HostDoc is host memory or /dev/shm, as asked and as planned. The document's fits and verdict are the device's alone.
type HostDoc struct {
	// Room is "host memory", which includes "/dev/shm", or "/dev/shm". On a CPU host memory is the device, and "loader workers,
	// beside it" takes its place: memory that no line of a phase counts.
	Room    string           `json:"room"`
	Free    *ladder.HostRoom `json:"free"` // null: not known
	Asked   EstimateDoc      `json:"asked"`
	Planned EstimateDoc      `json:"planned"`
	Rung    string           `json:"rung"`
	Verdict string           `json:"verdict"`
}

func (v View) hostDocs() []HostDoc {
	docs := []HostDoc{}
	if v.Plan == nil || v.Plan.Host == nil {
		return docs
	}
	for _, n := range v.Plan.Host.Needs {
		docs = append(docs, HostDoc{
			Room: n.Name, Free: n.Room, Rung: v.Plan.Host.Name, Verdict: n.Verdict.String(),
			Asked: estimateDoc(v.Run.Ladders.Host.At(0, n.Name, v.Run.Job.Batch.Micro), 0), Planned: estimateDoc(n.Estimate, 0),
		})
	}
	return docs
}

package ui

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/unit"
)

// EstimateDocument is the output of `launch estimate --json`. Scripts depend on it.
type EstimateDocument struct {
	Version  int               `json:"version"`
	Plugin   string            `json:"plugin"`
	Arch     string            `json:"arch"`
	Settings map[string]string `json:"settings"` // as they were given
	Device   *gpu.Device       `json:"device"`   // null: no card, and the lines are tensors alone
	Phases   []BarePhaseDoc    `json:"phases"`
	Warnings []string          `json:"warnings"`
}

// BarePhaseDoc is one phase of a network alone. AllocatedBytes and ReservedBytes are the peaks that torch.cuda would report with
// unlimited room; null where they are not known. The estimate is what the phase needs.
type BarePhaseDoc struct {
	Phase string `json:"phase"`
	EstimateDoc
	AllocatedBytes *unit.Bytes `json:"allocated_bytes"`
}

// EstimateOf returns the document of a plugin's answer.
func EstimateOf(name, arch string, settings map[string]string, d *gpu.Device, phases []plugin.Phase, warnings []string) EstimateDocument {
	doc := EstimateDocument{Version: PlanVersion, Plugin: name, Arch: arch, Settings: settings, Device: d, Phases: []BarePhaseDoc{}, Warnings: append([]string{}, warnings...)}
	for _, p := range phases {
		b := BarePhaseDoc{Phase: p.Phase, EstimateDoc: estimateDoc(p.Estimate, 0)}
		if p.Allocated > 0 {
			b.AllocatedBytes = &p.Allocated
		}
		doc.Phases = append(doc.Phases, b)
		for _, w := range p.Warnings {
			if !slices.Contains(doc.Warnings, w) {
				doc.Warnings = append(doc.Warnings, w)
			}
		}
	}
	return doc
}

// Estimate writes the ledger of each phase of a bare network.
func (p Printer) Estimate(d EstimateDocument) {
	where := "its tensors only; --vram 12GiB adds what a card needs"
	if d.Device != nil {
		where = "on " + d.Device.Name + ", of an amount that is not known"
		if d.Device.Total > 0 {
			where = fmt.Sprintf("on %s, %v", d.Device.Name, d.Device.Total)
		}
		if d.Device.TotalFrom != "" { // its name has the amount
			where = fmt.Sprintf("on %s (%s)", d.Device.Name, d.Device.TotalFrom)
		}
	}
	p.line("%s (plugin %s), %s", p.bold(d.Arch), d.Plugin, where)
	for _, phase := range d.Phases {
		p.line("")
		p.line("  %s", p.bold(phase.Phase))
		for _, it := range phase.Items {
			guess := ""
			if it.Guess {
				guess = " (guess)"
			}
			count := ""
			if it.Count > 0 {
				count = fmt.Sprintf("%d", it.Count)
			}
			p.line("    %-52s %14s %12v   %s", it.Title()+guess, count, it.Bytes, it.From)
		}
		if phase.TotalBytes != nil {
			p.line("    %-52s %14s %12v", "estimate", "", *phase.TotalBytes)
		}
		if phase.AllocatedBytes != nil {
			p.line("    with ample room: %v allocated, %v reserved (as torch.cuda.max_memory_*)",
				*phase.AllocatedBytes, *phase.ReservedBytes)
		}
	}
	for _, w := range d.Warnings {
		p.line("%s %s", p.yellow("note:"), w)
	}
}

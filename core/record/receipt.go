package record

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/gpu"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// Receipts keep what was predicted and what was measured of each phase of an attempt, to correct later estimates.
//
// A [Subject] is a job on a machine. After an attempt it makes the receipts, which a [Receipts] keeps in a file;
// before the next run it corrects the job's ladders by the receipts in that file.

// ReceiptVersion is the version of [Receipt]. Fields are added within a version and never change their meaning.
const ReceiptVersion = 1

// A Receipt records one phase of one finished attempt: the memory that was predicted, the peaks that were measured, and
// the job and machine.
type Receipt struct {
	Version int        `json:"v"`
	Run     string     `json:"run"` // the name of the run
	Attempt int        `json:"attempt"`
	Time    time.Time  `json:"time"`
	Job     ReceiptKey `json:"job"`
	Machine Machine    `json:"machine"`
	Ending  string     `json:"ending"`
	// Imported marks a receipt that another machine wrote and the user imported.
	Imported bool `json:"imported,omitempty"`
	// Predicted is the estimate as the plugin priced it. It has no single requests, and no corrections: a correction must
	// not be learned again.
	Predicted mem.Estimate `json:"predicted"`
	// Planned is the total after corrections, to check whether learning improved it; absent if unknown.
	Planned  unit.Bytes        `json:"planned_bytes,omitempty"`
	Measured []mem.Measurement `json:"measured"`
	// Retries are requests that the card refused in this phase and the allocator tried again. Nothing is learned from
	// them; absent if there were none.
	Retries oom.Retries `json:"retries,omitzero"`
	// Rate is the speed of a training phase, in samples of the global batch per second; absent if it was not measured.
	Rate float64 `json:"samples_per_second,omitempty"`
}

// id names a receipt: a phase of an attempt has one receipt.
func (r Receipt) id() string { return fmt.Sprintf("%s/%d/%s", r.Run, r.Attempt, r.Job.Phase) }

// A ReceiptKey identifies a phase of a job at its settings.
type ReceiptKey struct {
	Plugin     string `json:"plugin"`
	Arch       string `json:"arch,omitempty"`
	Generation string `json:"generation,omitempty"`
	Phase      string `json:"phase"`
	// Settings are the knobs and the rung's values that it ran with: "micro-batch": "16".
	Settings map[string]string `json:"settings,omitempty"`
	// Program is a digest of the command and its recipe without micro-batch and accumulation. It distinguishes models
	// that have no formula.
	Program string `json:"program,omitempty"`
	// Project and Python are digests of the command's folder and of its interpreter's path. The project decides what the
	// program imports before its first tensor, the interpreter which packages that finds. Empty if unknown.
	Project string `json:"project,omitempty"`
	Python  string `json:"python,omitempty"`
}

// A Machine is everything besides the job that memory depends on.
type Machine struct {
	Kind       string     `json:"kind"`                  // "cuda", "hip", "xpu" or "cpu"
	Card       string     `json:"card,omitempty"`        // its name
	Total      unit.Bytes `json:"total_bytes,omitempty"` // of a card; 0 on a CPU, where a limit does not change the need
	Capability string     `json:"capability,omitempty"`
	Driver     string     `json:"driver,omitempty"`
	Torch      string     `json:"torch,omitempty"`     // version with its build; empty if unknown
	Allocator  string     `json:"allocator,omitempty"` // its settings in the environment
}

// find returns the receipt's measurement of a quantity.
func (r Receipt) find(is string) (mem.Measurement, bool) {
	for _, m := range r.Measured {
		if m.Is == is {
			return m, true
		}
	}
	return mem.Measurement{}, false
}

// Limits on a receipt's values: an imported file may come from a stranger.
const (
	mostBytes = 1 << 50
	mostRate  = 1e12 // samples per second
	mostLines = 500
	mostText  = 500
)

// check reports the first reason why r is not a valid receipt.
func (r Receipt) check() error {
	if err := r.checkHead(); err != nil {
		return err
	}
	for _, m := range r.Measured {
		switch {
		case m.Bytes <= 0 || m.Bytes > mostBytes:
			return fmt.Errorf("%d bytes %s are out of range", m.Bytes, m.Is)
		case !slices.Contains([]string{mem.Allocated, mem.Reserved, mem.Used, mem.Data, mem.Resident}, m.Is):
			return fmt.Errorf("%q is not a known quantity", m.Is)
		case !slices.Contains([]mem.Bound{mem.Exact, mem.Sampled, mem.AtLeast, mem.AtMost}, m.Bound):
			return fmt.Errorf("%q is not a known bound", m.Bound)
		}
	}
	for _, it := range r.Predicted.Items {
		if it.Bytes < 0 || it.Bytes > mostBytes {
			return fmt.Errorf("the line %s of %s is out of range", it.Kind, it.What)
		}
	}
	if r.Predicted.Known() && r.Predicted.Total() <= 0 {
		return fmt.Errorf("it has neither predicted lines nor a reason why the need is unknown")
	}
	return r.checkTexts()
}

// checkHead checks the fields outside of the lists.
func (r Receipt) checkHead() error {
	in := func(b unit.Bytes) bool { return 0 <= b && b <= mostBytes }
	switch {
	case r.Version < 1:
		return fmt.Errorf("it is not a receipt: it has no version")
	case r.Version > ReceiptVersion:
		return fmt.Errorf("a newer launch wrote it (version %d, this one reads %d)", r.Version, ReceiptVersion)
	case r.Run == "" || r.Attempt < 1 || r.Time.IsZero() || r.Job.Plugin == "" || r.Job.Phase == "":
		return fmt.Errorf("its run, attempt, time, plugin or phase is missing")
	case r.Machine.Kind != gpu.CPU && !(gpu.Device{Kind: r.Machine.Kind}).OnCard():
		return fmt.Errorf("%q is not a known kind of machine", r.Machine.Kind)
	case len(r.Measured) == 0:
		return fmt.Errorf("it has no measurement")
	case len(r.Predicted.Items) > mostLines || len(r.Measured) > mostLines || len(r.Job.Settings) > mostLines || len(r.Predicted.Allocs) > 0:
		return fmt.Errorf("it has too many lines")
	case !in(r.Planned) || !in(r.Predicted.Reserved) || !in(r.Machine.Total) || !in(r.Retries.Short) ||
		r.Retries.Count < 0:
		return fmt.Errorf("an amount of memory is out of range")
	case r.Rate < 0 || r.Rate > mostRate:
		return fmt.Errorf("%g samples per second are out of range", r.Rate)
	}
	return nil
}

// checkTexts rejects texts that are too long or contain control characters, which a terminal would act on.
func (r Receipt) checkTexts() error {
	texts := []string{r.Run, r.Job.Plugin, r.Job.Arch, r.Job.Generation, r.Job.Phase, r.Job.Program, r.Job.Project, r.Job.Python, r.Machine.Card, r.Machine.Capability,
		r.Machine.Driver, r.Machine.Torch, r.Machine.Allocator, r.Ending, r.Predicted.Unknown}
	for k, v := range r.Job.Settings {
		texts = append(texts, k, v)
	}
	for _, m := range r.Measured {
		texts = append(texts, m.From, m.With)
	}
	for _, it := range r.Predicted.Items {
		texts = append(texts, string(it.Kind), it.What, it.From)
	}
	for _, t := range texts {
		if len(t) > mostText {
			return fmt.Errorf("a text of %d bytes is too long", len(t))
		}
		if strings.ContainsFunc(t, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return fmt.Errorf("%q has control characters", t)
		}
	}
	return nil
}

// arch reports whether two keys are of the same phase of the same architecture.
func (k ReceiptKey) arch(o ReceiptKey) bool {
	return k.Plugin == o.Plugin && k.Arch == o.Arch && k.Generation == o.Generation && k.Phase == o.Phase && (k.Arch != "" || k.Program == o.Program)
}

// imports reports whether two programs import the same packages: both have the same known project and interpreter. Older
// receipts have neither, and unknown ones never match.
func (k ReceiptKey) imports(o ReceiptKey) bool {
	return k.Project != "" && k.Project == o.Project && k.Python != "" && k.Python == o.Python
}

// otherPython reports whether two keys have known and different interpreters.
func (k ReceiptKey) otherPython(o ReceiptKey) bool {
	return k.Python != "" && o.Python != "" && k.Python != o.Python
}

// How similar two machines are. Measurements on the most similar ones count, and the others are then ignored.
const (
	foreign   = iota // nothing applies
	otherCard        // live tensors apply
	sameCard         // also what the card's kernels request
	sameAll          // also the context: driver, torch and allocator are the same
)

func (m Machine) near(o Machine) int {
	switch {
	case m.Kind != o.Kind:
		return foreign
	case m == o, m.Kind == "cpu" && m.Torch == o.Torch && m.Allocator == o.Allocator:
		return sameAll
	case m.Kind == "cpu": // another torch imports other libraries
		return foreign
	case m.Card == o.Card && m.Total.Round(unit.GiB) == o.Total.Round(unit.GiB):
		return sameCard
	}
	return otherCard
}

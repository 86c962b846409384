package sweep

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// A Quote is what is known of a trial before it runs: the part of `launch plan --json` that a sweep keeps.
type Quote struct {
	Trial  int    `json:"trial"`
	Plugin string `json:"plugin,omitempty"` // "": no plugin recognised the command, and nothing else is known
	// Verdict is "fits", "may not fit", "cannot fit" or "unknown".
	Verdict string      `json:"verdict,omitempty"`
	Open    bool        `json:"open,omitempty"` // it may not fit, and that is as little known as that it does
	Rung    string      `json:"rung,omitempty"` // of the phase that needs most
	Cost    ladder.Cost `json:"cost"`
	Asked   unit.Bytes  `json:"asked_bytes,omitempty"` // of the fullest phase as asked; 0: unknown
	Needs   unit.Bytes  `json:"needs_bytes,omitempty"` // of the fullest phase as planned; 0: unknown
	Room    unit.Bytes  `json:"room_bytes,omitempty"`  // 0: no device is known
	Device  string      `json:"device,omitempty"`
	Steps   int64       `json:"steps,omitempty"`        // of the training; 0: unknown
	Slow    float64     `json:"slowdown,omitempty"`     // of the training as planned, relative to as asked; 0: unknown
	Global  int64       `json:"global_batch,omitempty"` // as asked; 0: unknown
	// Memory is host memory: on a CPU what the phases need is host memory, too. 0: unknown.
	Memory unit.Bytes `json:"host_memory_bytes,omitempty"`
	// Exclusive is the folder that no other trial may use.
	Exclusive string        `json:"exclusive,omitempty"`
	Ranks     int64         `json:"ranks,omitempty"`   // 0: unknown
	Resumes   bool          `json:"resumes,omitempty"` // it can go on from a saved state
	Card      string        `json:"card,omitempty"`    // on which it would begin; "": not known
	Edits     []config.Edit `json:"edits,omitempty"`
	Stop      string        `json:"stop,omitempty"` // why it would be refused
	Beyond    *run.Beyond   `json:"beyond,omitempty"`
}

// planned is the part of a document of `launch plan --json` that a quote is made of.
type planned struct {
	Version int                          `json:"version"`
	Plugin  string                       `json:"plugin"`
	Device  *struct{ Name, Kind string } `json:"device"`
	Room    *unit.Bytes                  `json:"room_bytes"`
	Verdict string                       `json:"verdict"`
	Fits    *bool                        `json:"fits"`
	Phases  []struct {
		Phase, Rung    string
		Asked, Planned estimate
		Slowdown       float64
	} `json:"phases"`
	Host []struct {
		Room    string
		Planned estimate
	} `json:"host"`
	Edits     []config.Edit          `json:"edits"`
	Cost      ladder.Cost            `json:"cost"`
	Batch     *struct{ Asked int64 } `json:"global_batch"`
	Steps     int64                  `json:"steps"`
	Exclusive string                 `json:"exclusive"`
	Ranks     int64                  `json:"ranks"`
	Resumes   bool                   `json:"resumes"`
	Stop      *run.Stop              `json:"stop"`
}

type estimate struct {
	Total *unit.Bytes `json:"total_bytes"`
}

// QuoteOf makes a quote of a plan's document, a value whose JSON [ReadQuote] reads.
func QuoteOf(trial int, plan any) (Quote, error) {
	doc, err := json.Marshal(plan)
	if err != nil {
		return Quote{}, fmt.Errorf("writing the plan of trial %d: %w", trial, err)
	}
	return ReadQuote(trial, doc)
}

// ReadQuote reads a document of `launch plan --json`.
func ReadQuote(trial int, doc []byte) (Quote, error) {
	var d planned
	if err := json.Unmarshal(doc, &d); err != nil {
		return Quote{}, fmt.Errorf("reading the plan of trial %d: %w", trial, err)
	}
	if d.Version != 1 {
		return Quote{}, fmt.Errorf("the plan of trial %d has version %d: another launch wrote it", trial, d.Version)
	}
	q := Quote{Trial: trial, Plugin: d.Plugin, Verdict: d.Verdict, Cost: d.Cost, Steps: d.Steps, Exclusive: d.Exclusive,
		Edits: d.Edits, Ranks: d.Ranks, Resumes: d.Resumes, Open: d.Fits == nil && d.Verdict == ladder.May.String()}
	if d.Room != nil {
		q.Room = *d.Room
	}
	if d.Device != nil {
		q.Device = d.Device.Name
	}
	if d.Batch != nil {
		q.Global = d.Batch.Asked
	}
	d.memory(&q)
	if d.Stop != nil {
		q.Stop, q.Beyond = d.Stop.Why, d.Stop.Beyond
	}
	return q, nil
}

// memory adds what the phases and host memory need.
func (d *planned) memory(q *Quote) {
	for _, h := range d.Host { // "/dev/shm" is in host memory
		if h.Room != "/dev/shm" && h.Planned.Total != nil {
			q.Memory = *h.Planned.Total
		}
	}
	known, asked := true, true
	for _, p := range d.Phases {
		known, asked = known && p.Planned.Total != nil, asked && p.Asked.Total != nil
		if p.Planned.Total != nil && *p.Planned.Total > q.Needs {
			q.Needs, q.Rung = *p.Planned.Total, p.Rung
		}
		if p.Asked.Total != nil {
			q.Asked = max(q.Asked, *p.Asked.Total)
		}
		if p.Phase == "training" {
			q.Slow = p.Slowdown
		}
	}
	switch {
	case d.Device == nil || d.Device.Kind != gpu.CPU:
	case known:
		q.Memory += q.Needs
	default: // the rest, without what the phases need, would pass for all of it
		q.Memory = 0
	}
	if !known { // the fullest phase may be one whose need is not known
		q.Needs = 0
	}
	if !asked { // likewise
		q.Asked = 0
	}
}

// Conflicts returns an error if two trials would write into the same folder.
func Conflicts(quotes []Quote) error {
	by := map[string][]int{}
	var folders []string
	for _, q := range quotes {
		if q.Exclusive == "" {
			continue
		}
		if by[q.Exclusive] == nil {
			folders = append(folders, q.Exclusive)
		}
		by[q.Exclusive] = append(by[q.Exclusive], q.Trial)
	}
	for _, folder := range folders {
		if all := by[folder]; len(all) > 1 {
			return fmt.Errorf("trials %s would write into the same folder, %s: give each a folder or a name of its own, with "+
				"{trial} or {name} in the command or in a value, such as --grid name={name}", numbers(all), folder)
		}
	}
	return nil
}

// numbers lists a few numbers: "1, 2, 3 and 9 more".
func numbers(all []int) string {
	var b strings.Builder
	for i, n := range all {
		switch {
		case i == 5 && len(all) > 6:
			fmt.Fprintf(&b, " and %d more", len(all)-i)
			return b.String()
		case i > 0 && i == len(all)-1:
			b.WriteString(" and ")
		case i > 0:
			b.WriteString(", ")
		}
		fmt.Fprint(&b, n)
	}
	return b.String()
}

// A Price prices every trial as if the shared settings had been asked for.
type Price func(shared Assignment) ([]Quote, error)

// SamePlan finds one plan that fits every trial: the mildest plan of a single trial that all others can take. It
// returns the plan's settings, which are none if all trials fit as asked, and its cost.
func SamePlan(quotes []Quote, price Price) (Assignment, ladder.Cost, error) {
	if len(quotes) == 0 {
		return nil, ladder.None, nil
	}
	tried := map[string]bool{}
	plans := slices.Clone(quotes)
	slices.SortStableFunc(plans, func(a, b Quote) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(a.Slow,
			b.Slow))
	})
	for _, q := range plans {
		if q.Plugin == "" {
			return nil, 0, errors.New("--same-plan: no plugin recognises the command, so nothing is known of what the " +
				"rows need. " +
				"To declare its settings: launch init -- COMMAND")
		}
		if q.Verdict == "unknown" || q.Needs == 0 {
			return nil, 0, fmt.Errorf("--same-plan: what trial %d needs is not known", q.Trial)
		}
		shared, err := settingsOf(q)
		if err != nil {
			return nil, 0, err
		}
		if q.Stop != "" || q.Verdict != "fits" || tried[shared.id()] {
			continue
		}
		tried[shared.id()] = true
		again, err := price(shared)
		if err != nil {
			return nil, 0, err
		}
		if allTake(quotes, again) {
			return shared, q.Cost, nil
		}
	}
	return nil, 0, errors.New("--same-plan: no plan of a single row fits all rows at their global batches; allow more " +
		"with " +
		"--allow, or leave out rows: launch sweep plan without --same-plan lists what each needs")
}

// allTake reports whether all trials fit with the shared settings as they are, each at its own global batch.
func allTake(asked, shared []Quote) bool {
	for i, q := range shared {
		if q.Verdict != "fits" || changes(q.Edits) || q.Global != asked[i].Global {
			return false
		}
	}
	return len(shared) == len(asked)
}

// changes reports whether edits change what the training computes or how: those of no cost may differ between rows.
func changes(edits []config.Edit) bool {
	return slices.ContainsFunc(edits, func(e config.Edit) bool { return e.Cost != "" && e.Cost != ladder.None.String() })
}

// settingsOf turns a plan's edits into settings, as if the user had asked for them.
func settingsOf(q Quote) (a Assignment, err error) {
	for _, e := range q.Edits {
		key := e.At.Path
		switch {
		case e.Remove:
			return nil, fmt.Errorf("--same-plan: the plan of trial %d removes %s, which cannot be given to the other rows",
				q.Trial, key)
		case e.At.Doc == "env":
			key = "env:" + key
		}
		a = append(a, Setting{key, e.To})
	}
	return a, nil
}

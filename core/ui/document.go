package ui

import (
	"slices"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// PlanVersion is the version of [PlanDocument]. Fields are added within a version and never change their meaning.
const PlanVersion = 1

// PlanDocument is the output of `launch plan --json`. Scripts depend on it.
type PlanDocument struct {
	Version     int               `json:"version"`
	Plugin      string            `json:"plugin"` // empty: no plugin recognised the command
	Dialect     string            `json:"dialect,omitempty"`
	Arch        string            `json:"arch"`
	Name        string            `json:"name,omitempty"`
	Device      *gpu.Device       `json:"device"`     // null: none can be seen and none was given
	RoomBytes   *unit.Bytes       `json:"room_bytes"` // what the job may take; null: not known
	Fits        *bool             `json:"fits"`       // null: not known, and it would run
	Verdict     string            `json:"verdict"`    // "fits", "may not fit", "cannot fit", "unknown"
	Phases      []PhaseDoc        `json:"phases"`
	Host        []HostDoc         `json:"host"`  // empty: nothing is known of it
	Asked       []config.Edit     `json:"asked"` // what the user has set beside the recipe, with --set
	Edits       []config.Edit     `json:"edits"` // launch's own
	Cost        ladder.Cost       `json:"cost"`
	GlobalBatch *BatchDoc         `json:"global_batch"` // null: not known
	Command     []string          `json:"command"`      // as it would be run; an edited recipe lies where {attempt} stands
	Env         map[string]string `json:"env"`          // what would be set
	Warnings    []string          `json:"warnings"`
	Truths      []string          `json:"truths"` // where the project's guides, comments or flags promise what its code does not do
	Why         string            `json:"why,omitempty"`
	Steps       int64             `json:"steps,omitempty"`     // optimizer steps of the whole training; absent: not known
	Exclusive   string            `json:"exclusive,omitempty"` // the folder that no other run may use at the same time
	Ranks       int64             `json:"ranks,omitempty"`     // processes or cards that share a step; absent: not known
	Resumes     bool              `json:"resumes,omitempty"`   // it can go on from a saved state
	Stop        *run.Stop         `json:"stop,omitempty"`      // why it would be refused
	// Alternatives are the rungs that the plan does not take, and why.
	Alternatives []AlternativeDoc `json:"alternatives"`
}

// AlternativeDoc is a rung that a plan does not take.
type AlternativeDoc struct {
	run.Alternative
	// TotalBytes is what the phase needs on it; of a shared rung, what the largest phase does if it is the only change.
	TotalBytes *unit.Bytes `json:"total_bytes"` // null: not known
	Verdict    string      `json:"verdict"`
}

// PhaseDoc is one phase, as asked and as planned.
type PhaseDoc struct {
	Phase   string      `json:"phase"`
	Asked   EstimateDoc `json:"asked"`
	Planned EstimateDoc `json:"planned"`
	Rung    string      `json:"rung"`
	Cost    ladder.Cost `json:"cost"`
	Verdict string      `json:"verdict"`
	// Slowdown is the expected time as planned relative to as asked, a rule of thumb.
	Slowdown float64 `json:"slowdown"`
}

// EstimateDoc is an estimate. TotalBytes is null, never zero, where it is unknown.
type EstimateDoc struct {
	TotalBytes *unit.Bytes `json:"total_bytes"`
	Items      []mem.Item  `json:"items"`
	// ReservedBytes is what the caching allocator would hold if it had unlimited room; null: not known.
	ReservedBytes *unit.Bytes `json:"reserved_bytes"`
	FirstFailing  *mem.Alloc  `json:"first_failing"` // null: no single request exceeds the room
	Unknown       string      `json:"unknown,omitempty"`
	Receipts      []string    `json:"receipts,omitempty"` // that corrected it: run/attempt/phase
}

// BatchDoc is the global batch as asked and as planned.
type BatchDoc struct {
	Asked   int64 `json:"asked"`
	Planned int64 `json:"planned"`
}

// open reports whether what may not fit is at most as large as its estimate, or fits by a guess alone: that it does not
// fit is then as little known as that it does.
func (v View) open() bool {
	return !slices.ContainsFunc(v.Plan.Choices, func(c run.Choice) bool {
		return c.Verdict == ladder.May && c.Estimate.AtMost == "" && c.Estimate.Total() > v.Run.Room
	})
}

// Document returns the JSON document of a view. command and env are what would be run.
func (v View) Document(command []string, env map[string]string) PlanDocument {
	j := v.Run.Job
	d := PlanDocument{
		Version: PlanVersion, Plugin: j.Plugin, Dialect: j.Dialect, Arch: j.Arch, Name: j.Name, Device: v.Device,
		Command: command, Env: env, Stop: v.Stop, Asked: j.Asked, Edits: []config.Edit{}, Phases: []PhaseDoc{},
		Steps: j.Steps, Exclusive: j.Exclusive, Ranks: j.Batch.Ranks,
		Resumes:  j.Resume.None == "" && (len(j.Resume.Edits) > 0 || j.Resume.Automatic),
		Warnings: append(append([]string{}, j.Warnings...), v.Warnings...), Truths: j.Truths,
	}
	room := v.Run.Room
	if room > 0 {
		d.RoomBytes = &room
	}
	if v.Plan == nil {
		d.Verdict = ladder.Unknown.String()
		return d.Complete()
	}
	d.Why, d.Cost = v.Plan.Why, v.Plan.Cost
	d.Edits = append(d.Edits, v.Plan.Edits...)
	if g := j.Batch.Global(); g > 0 {
		d.GlobalBatch = &BatchDoc{g, v.Plan.Batch.Global()}
	}
	for _, c := range v.Plan.Choices {
		l := v.Run.Ladders.Ladder(c.Phase)
		if why := l.Rungs[l.Asked].At(v.Run.Ladders.Shared.Asked).Unknown; why != "" {
			d.Warnings = append(d.Warnings, c.Phase+" is unknown: "+why)
		}
		rung, cost := c.Name, max(c.Cost, v.Plan.Shared.Cost)
		if s := v.Plan.Shared; c.Rung == l.Asked && s.Rung != v.Run.Ladders.Shared.Asked { // the change is on the shared ladder
			rung = s.Name
		}
		d.Phases = append(d.Phases, PhaseDoc{
			Phase: c.Phase, Rung: rung, Cost: cost, Verdict: c.Verdict.String(), Slowdown: v.slowdown(c),
			Asked:   estimateDoc(l.Rungs[l.Asked].At(v.Run.Ladders.Shared.Asked), room),
			Planned: estimateDoc(c.Estimate, room),
		})
	}
	d.Host = v.hostDocs()
	for _, a := range v.Run.Alternatives(v.Plan) {
		doc := AlternativeDoc{Alternative: a, Verdict: a.Verdict.String()}
		if a.Estimate.Known() {
			total := a.Estimate.Total()
			doc.TotalBytes = &total
		}
		d.Alternatives = append(d.Alternatives, doc)
	}
	worst := v.Plan.Verdict()
	if room == 0 {
		worst = ladder.Unknown
	}
	d.Verdict = worst.String()
	if worst != ladder.Unknown {
		fits := worst == ladder.Fits
		d.Fits = &fits
	}
	if worst == ladder.May && v.open() { // nothing is known against it
		d.Fits = nil
	}
	return d.Complete()
}

func estimateDoc(e mem.Estimate, room unit.Bytes) EstimateDoc {
	d := EstimateDoc{Items: append([]mem.Item{}, e.Items...), Unknown: e.Unknown, Receipts: e.Learned}
	if e.Known() {
		total := e.Total()
		d.TotalBytes = &total
	}
	if e.Reserved > 0 {
		d.ReservedBytes = &e.Reserved
	}
	if room > 0 {
		d.FirstFailing = e.FirstFailing(room)
	}
	return d
}

// Complete fills the lists that a script iterates over.
func (d PlanDocument) Complete() PlanDocument {
	if d.Phases == nil {
		d.Phases = []PhaseDoc{}
	}
	if d.Host == nil {
		d.Host = []HostDoc{}
	}
	if d.Asked == nil {
		d.Asked = []config.Edit{}
	}
	if d.Edits == nil {
		d.Edits = []config.Edit{}
	}
	if d.Alternatives == nil {
		d.Alternatives = []AlternativeDoc{}
	}
	if d.Warnings == nil {
		d.Warnings = []string{}
	}
	if d.Truths == nil {
		d.Truths = []string{}
	}
	if d.Env == nil {
		d.Env = map[string]string{}
	}
	return d
}

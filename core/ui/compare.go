package ui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// A Compared is what one reading of the command adds to a comparison: on one card and, where settings are compared,
// with one value.
type Compared struct {
	View    View
	Setting string // KEY=VALUE of the job as it was read; "": its rungs are compared
	// Speed returns the measured samples per second of training in a configuration; 0: not measured.
	Speed func(run.Configuration) float64
}

// CompareDoc is the output of `launch plan --compare --json`. Scripts depend on it.
type CompareDoc struct {
	Version  int               `json:"version"`
	Plugin   string            `json:"plugin"`
	Dialect  string            `json:"dialect,omitempty"`
	Arch     string            `json:"arch"`
	Name     string            `json:"name,omitempty"`
	Title    string            `json:"title"`
	Cards    []CompareCard     `json:"cards"`
	Phases   []ComparePhaseDoc `json:"phases"`
	Warnings []string          `json:"warnings"`
}

// CompareCard is a card of a comparison. Its amounts are null where no device is known.
type CompareCard struct {
	Name  string      `json:"name"`
	Total *unit.Bytes `json:"total_bytes"`
	Room  *unit.Bytes `json:"room_bytes"`
	line  string
}

// ComparePhaseDoc is the table of one phase.
type ComparePhaseDoc struct {
	Phase string `json:"phase"`
	// RelativeTo is the configuration whose speed is 1; absent if none was measured.
	RelativeTo string       `json:"relative_to,omitempty"`
	Rows       []CompareRow `json:"rows"`
}

// CompareRow is one configuration. What is not known is null.
type CompareRow struct {
	Configuration string        `json:"configuration"`
	Micro         *int64        `json:"micro_batch"`
	Accumulation  *int64        `json:"accumulation"`
	Global        *int64        `json:"global_batch"`
	Cost          ladder.Cost   `json:"cost"`
	Allowed       bool          `json:"allowed"`
	Asked         bool          `json:"asked"`
	Rate          *float64      `json:"samples_per_second"` // null: not measured
	Relative      *float64      `json:"relative_speed"`     // null: not measured
	Cards         []CompareNeed `json:"cards"`              // as the document's cards
	batch         string
}

// CompareNeed is a configuration on one card.
type CompareNeed struct {
	Memory  *unit.Bytes `json:"memory_bytes"`
	Share   *float64    `json:"share"`   // of the card's total
	Verdict string      `json:"verdict"` // "fits", "may not fit", "cannot fit", "unknown", "-": no such rung for this card
	Planned bool        `json:"planned"` // the plan for this card takes it
	Unknown string      `json:"unknown,omitempty"`
}

// none is the verdict of a configuration that a card's ladder does not have.
const none = "-"

// Compare joins readings of one command: the rows are its configurations, and each card has its needs of them.
func Compare(all []Compared) CompareDoc {
	j := all[0].View.Run.Job
	d := CompareDoc{Version: PlanVersion, Plugin: j.Plugin, Dialect: j.Dialect, Arch: j.Arch, Name: j.Name,
		Title: all[0].View.title(), Warnings: []string{}}
	at := make([]int, len(all)) // the card of each
	for i, c := range all {
		card := compareCard(c.View)
		at[i] = slices.IndexFunc(d.Cards, func(o CompareCard) bool { return o.line == card.line })
		if at[i] < 0 {
			at[i] = len(d.Cards)
			d.Cards = append(d.Cards, card)
		}
		for _, w := range append(slices.Clone(c.View.Run.Job.Warnings), c.View.Warnings...) {
			if !slices.Contains(d.Warnings, w) {
				d.Warnings = append(d.Warnings, w)
			}
		}
	}
	for _, l := range all[0].View.Run.Ladders.Phases {
		p := ComparePhaseDoc{Phase: l.Phase}
		for i, c := range all {
			if c.View.Run.Ladders.Ladder(l.Phase) != nil {
				p.add(c, at[i], d.Cards)
			}
		}
		p.relate()
		d.Phases = append(d.Phases, p)
	}
	return d
}

func compareCard(v View) CompareCard {
	c := CompareCard{Name: "no device", line: deviceLine(v)}
	if v.Device != nil {
		c.Name, c.Total, c.Room = v.Device.Name, known(v.Device.Total), known(v.Run.Room)
	}
	return c
}

// add adds what one reading knows of the phase on card number at.
func (p *ComparePhaseDoc) add(c Compared, at int, cards []CompareCard) {
	for _, f := range c.View.Run.Configurations(p.Phase, c.View.Plan) {
		name := f.Name
		if c.Setting != "" {
			if !f.Asked {
				continue
			}
			name = c.Setting
		}
		i := slices.IndexFunc(p.Rows, func(r CompareRow) bool { return r.Configuration == name })
		if i < 0 {
			i = len(p.Rows)
			p.Rows = append(p.Rows, CompareRow{Configuration: name, Micro: known(f.Batch.Micro),
				Accumulation: known(f.Batch.Accumulation), Global: known(f.Batch.Global()), Cost: f.Cost,
				Allowed: f.Allowed, Asked: f.Asked, Cards: missing(len(cards)), batch: batchText(f.Batch)})
		}
		r := &p.Rows[i]
		if c.Speed != nil && p.Phase == ladder.Training && r.Rate == nil {
			r.Rate = known(c.Speed(f))
		}
		n := CompareNeed{Verdict: f.Verdict.String(), Unknown: f.Estimate.Unknown,
			Planned: f.Taken && c.Setting == "" && c.View.Stop == nil}
		if f.Estimate.Known() {
			total := f.Estimate.Total()
			n.Memory = &total
			if whole := cards[at].Total; whole != nil && *whole > 0 {
				share := float64(total) / float64(*whole)
				n.Share = &share
			}
		}
		r.Cards[at] = n
	}
}

// missing are the needs of a row on cards that no reading has priced it for yet.
func missing(n int) []CompareNeed {
	out := make([]CompareNeed, n)
	for i := range out {
		out[i].Verdict = none
	}
	return out
}

// relate relates the speeds to that of the job as asked or, if that was not measured, to the fastest.
func (p *ComparePhaseDoc) relate() {
	var base *CompareRow
	for i := range p.Rows {
		r := &p.Rows[i]
		if r.Rate != nil && (base == nil || !base.Asked && (r.Asked || *r.Rate > *base.Rate)) {
			base = r
		}
	}
	if base == nil {
		return
	}
	p.RelativeTo = base.Configuration
	for i := range p.Rows {
		if r := &p.Rows[i]; r.Rate != nil {
			relative := *r.Rate / *base.Rate
			r.Relative = &relative
		}
	}
}

// Compare writes a comparison for a person: a table for each phase.
func (p Printer) Compare(d CompareDoc) {
	if p.Width > 0 {
		p.Width = max(p.Width, narrowest)
	}
	p.line("%s", p.bold(d.Title))
	for _, c := range d.Cards {
		p.line("%s", c.line)
	}
	for _, phase := range d.Phases {
		p.line("")
		p.line("%s", p.bold(phase.Phase))
		p.sheet(p.compareSheet(d, phase))
		if phase.RelativeTo != "" {
			p.line("speed: relative to %s; in brackets samples a second, as measured on this machine",
				phase.RelativeTo)
		}
		for _, why := range phase.unknowns() {
			p.line("unknown: %s", why)
		}
	}
	p.line("")
	for _, w := range d.Warnings {
		p.line("%s %s", p.yellow("note:"), w)
	}
	p.line("each configuration is one change of the job as asked; the share is that of the whole card; a global batch " +
		"is micro-batch × accumulation")
}

// unknowns are the reasons for what is not known, each once.
func (p ComparePhaseDoc) unknowns() (out []string) {
	for _, r := range p.Rows {
		for _, n := range r.Cards {
			if n.Unknown != "" && !slices.Contains(out, n.Unknown) {
				out = append(out, n.Unknown)
			}
		}
	}
	return out
}

func (p Printer) compareSheet(d CompareDoc, phase ComparePhaseDoc) sheet {
	training := phase.Phase == ladder.Training
	s := sheet{header: []string{"configuration"}, numbers: map[int]bool{}}
	number := func(names ...string) {
		for _, n := range names {
			s.numbers[len(s.header)] = true
			s.header = append(s.header, n)
		}
	}
	if training {
		s.header = append(s.header, "global batch")
	}
	one := len(d.Cards) == 1
	if one {
		number("memory", "share")
		s.header = append(s.header, "fits")
	} else {
		for _, c := range d.Cards {
			s.header = append(s.header, cardHead(c))
		}
	}
	if training {
		s.header = append(s.header, "speed")
	}
	s.header = append(s.header, "cost")
	for _, r := range phase.Rows {
		row := []string{OneLine(r.Configuration)} // a line break could imitate a line of launch
		if training {
			row = append(row, r.batch)
		}
		for _, n := range r.Cards {
			if memory, share, fits := p.needCells(n); one {
				row = append(row, memory, share, fits)
			} else {
				row = append(row, strings.Join(slices.DeleteFunc([]string{memory, share, fits},
					func(s string) bool { return s == "" }), ", "))
			}
		}
		if training {
			row = append(row, speedText(r))
		}
		cost := r.Cost.String()
		if !r.Allowed {
			cost = "--allow " + cost
		}
		s.rows = append(s.rows, append(row, cost))
	}
	return s
}

// cardHead is the head of a card's column.
func cardHead(c CompareCard) string {
	name := strings.TrimPrefix(c.Name, "a card of ")
	if c.Total != nil && !strings.Contains(name, c.Total.String()) {
		name += ", " + c.Total.String()
	}
	return OneLine(name)
}

// needCells are the cells of a configuration's need: the memory, its share of the card, and whether it fits.
func (p Printer) needCells(n CompareNeed) (memory, share, fits string) {
	if n.Verdict == none {
		return "", "", none
	}
	fits = p.fit(n.Verdict)
	if n.Memory == nil && n.Verdict == ladder.Unknown.String() {
		fits = ""
	}
	switch {
	case n.Planned && fits == "":
		fits = "planned"
	case n.Planned:
		fits += " (planned)"
	}
	switch {
	case n.Memory == nil:
		return "unknown", "", fits
	case *n.Memory == 0:
		return "left out", "", fits
	}
	if n.Share != nil {
		share = fmt.Sprintf("%.0f %%", 100**n.Share)
	}
	return n.Memory.String(), share, fits
}

// speedText is a relative speed and the measured one, or that nobody measured it.
func speedText(r CompareRow) string {
	if r.Rate == nil {
		return "not measured"
	}
	return fmt.Sprintf("%.2f (%.4g/s)", *r.Relative, *r.Rate)
}

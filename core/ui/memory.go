package ui

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// asked returns the estimate of a phase as asked.
func (v View) asked(phase string) mem.Estimate {
	l := v.Run.Ladders.Ladder(phase)
	return l.Rungs[l.Asked].At(v.Run.Ladders.Shared.Asked)
}

// moved reports whether the plan changes what a phase needs.
func (v View) moved(c run.Choice) bool {
	return c.Rung != v.Run.Ladders.Ladder(c.Phase).Asked || v.Plan.Shared.Rung != v.Run.Ladders.Shared.Asked
}

// answer is what happens to the command, in one line. At what it stops comes first.
func (p Printer) answer(v View) string {
	how := p.runs(v)
	switch stops := v.Run.Job.StopsAt(); {
	case v.Fails != nil:
		return p.red("it stops as it begins") + "; without that, " + how
	case len(stops) > 0:
		return p.red("it would stop: ") + stops[0] + "; without that, " + how
	}
	return how
}

// runs is what happens to the job, in one sentence.
func (p Printer) runs(v View) string {
	verdict, n := v.Plan.Verdict(), len(v.Plan.Edits)
	if v.Stop != nil {
		return p.red("nothing would be started: no change that is allowed makes it fit")
	}
	if v.Run.Room == 0 {
		if v.Device != nil {
			return "it runs as asked; the device's memory is not known, nor whether it fits"
		}
		return "it runs as asked; without a device it is not known whether it fits"
	}
	how, cost := "it runs as asked", ""
	switch {
	case n == 1:
		how, cost = "it runs with 1 change", "its"
	case n > 1:
		how, cost = fmt.Sprintf("it runs with %d changes", n), "their highest"
	}
	switch verdict {
	case ladder.Fits:
		how += " and " + p.green("fits")
	case ladder.Unknown:
		how += "; " + p.yellow("whether it fits is not known")
	case ladder.May:
		how += " and " + p.yellow("might not fit")
	default:
		flag := "--anyway"
		if v.Run.Limits.AsAsked {
			flag = "--as-asked"
		}
		how += " although it " + p.red("cannot fit") + " (" + flag + ")"
	}
	if n > 0 {
		how += fmt.Sprintf("; %s cost is %s", cost, v.Plan.Cost)
	}
	return how
}

// A bar's row is one phase, as asked or as planned.
type barRow struct {
	phase, which string
	estimate     mem.Estimate
	text         string
	rung         string        // of a row as planned
	before       *mem.Estimate // the phase as asked, for the row as planned where both are known
}

// rows returns the rows of a plan's bars: each phase as asked and, where the plan changes it, as planned.
func (p Printer) rows(v View) (out []barRow) {
	for _, c := range v.Plan.Choices {
		asked := v.asked(c.Phase)
		if !v.moved(c) {
			// receipts and attempts may have corrected it
			out = append(out, barRow{c.Phase, "as asked", c.Estimate, p.need(c.Estimate, c.Verdict, v.Run.Room), "", nil})
			continue
		}
		name := c.Name
		if c.Rung == v.Run.Ladders.Ladder(c.Phase).Asked { // the change is on the shared ladder
			name = v.Plan.Shared.Name
		}
		verdict := ladder.Told(asked, v.Run.Room)
		if v.Run.Room == 0 {
			verdict = ladder.Unknown
		}
		planned := barRow{c.Phase, "planned", c.Estimate, p.need(c.Estimate, c.Verdict, v.Run.Room), name, nil}
		if asked.Known() && c.Estimate.Known() {
			planned.before = &asked
		}
		out = append(out, barRow{c.Phase, "as asked", asked, p.need(asked, verdict, v.Run.Room), "", nil}, planned)
	}
	return out
}

// need is what an estimate needs, its share of the room, and whether it fits.
func (p Printer) need(e mem.Estimate, verdict ladder.Verdict, room unit.Bytes) string {
	if !e.Known() {
		s := p.yellow("unknown") + ": " + e.Unknown
		if least := e.Least(); least > 0 {
			s = fmt.Sprintf("at least %v so far, the rest is %s", least, s)
		}
		if verdict == ladder.Not && room > 0 {
			s += "; " + p.red("cannot fit")
		}
		return s
	}
	if room == 0 {
		return mostText(e)
	}
	return fmt.Sprintf("%s, %s the room: %s", mostText(e), shareText(e.Most(), room), p.fitText(e, verdict, room))
}

// mostText is a known estimate. Of one that is a guess in proportion to a larger size only that size bounds the need.
func mostText(e mem.Estimate) string {
	if e.Most() > e.Total() {
		return fmt.Sprintf("at most %v", e.Most())
	}
	return e.Total().String()
}

// shareText is a part of a whole as people read it: "84 % of", "64 times".
func shareText(part, whole unit.Bytes) string {
	share := float64(part) / float64(whole)
	if share >= 10 {
		return fmt.Sprintf("%.0f times", share)
	}
	return fmt.Sprintf("%.0f %% of", 100*share)
}

// fitText reports whether a known estimate fits the room, and by how much.
func (p Printer) fitText(e mem.Estimate, verdict ladder.Verdict, room unit.Bytes) string {
	left := room - e.Most()
	switch verdict {
	case ladder.Fits:
		return p.green("fits") + fmt.Sprintf(", %v left", left)
	case ladder.May:
		switch {
		case e.Most() > e.Total():
			return p.yellow("may not fit") + fmt.Sprintf(", up to %v too much", -left)
		case left >= 0:
			return p.yellow("may not fit") + fmt.Sprintf(", %v left, but all of the estimate is rough", left)
		case e.AtMost != "":
			return p.yellow("may not fit") + fmt.Sprintf(", up to %v too much: %s", -left, e.AtMost)
		}
		return p.yellow("may not fit") + fmt.Sprintf(", %v too much, but part of the estimate is rough", -left)
	case ladder.Not:
		return p.red("cannot fit") + fmt.Sprintf(", %v too much", -left)
	}
	return p.yellow("unknown")
}

// memory writes what each phase needs, as text and, if the printer draws them, as bars of one scale.
func (p Printer) memory(v View) {
	rows := p.rows(v)
	var all []mem.Estimate
	var totals []unit.Bytes
	wide := 0
	for _, r := range rows {
		all, totals = append(all, r.estimate), append(totals, r.estimate.Total())
		wide = max(wide, textWidth(r.phase))
	}
	top := v.Run.Room
	if v.Device != nil {
		top = max(top, v.Device.Total)
	}
	s := newScale(p.barWidth(), v.Run.Room, top, totals)
	p.line("")
	if p.Bars && s.full > 0 {
		p.line("  %s", legend(all, s.columns(s.top) > s.columns(s.room)))
		if s.room > 0 {
			p.line("  %s", s.device())
		}
	}
	wide = min(wide, 24)
	for _, r := range rows {
		p.line("  %s  %s  %s", p.bold(pad(OneLine(r.phase), wide)), pad(r.which, 8), r.text)
		if bar := s.bar(r.estimate); p.Bars && s.full > 0 {
			p.line("  %s", bar)
		}
		if last := r.which == "planned" || !slices.ContainsFunc(rows, func(o barRow) bool {
			return o.phase == r.phase && o.which == "planned" && o.before != nil
		}); last {
			p.parts(r)
		}
		if f := r.estimate.FirstFailing(v.Run.Room); f != nil && v.Run.Room > 0 && r.which == "as asked" {
			p.line("    the first request that fails: %v, %s", f.Bytes, f.What)
		}
	}
}

// parts writes the rung and the groups of a row in words: a bar shows nothing else.
func (p Printer) parts(r barRow) {
	text := partsText(r.before, r.estimate)
	if r.estimate.Most() > r.estimate.Total() { // that is no part of what it needs
		text = ""
	}
	if r.rung != "" {
		text = strings.TrimSuffix(r.rung+": "+text, ": ")
	}
	if text != "" {
		p.line("    %s", text)
	}
}

// barWidth is how many columns a bar may use.
func (p Printer) barWidth() int {
	width := cmp.Or(p.Width, 80)
	return max(10, width-len(p.Prefix)-2)
}

// costs writes what the changes give up, and what they are expected to cost in time.
func (p Printer) costs(v View) {
	if v.Stop != nil {
		return
	}
	if len(v.Plan.Edits) > 0 {
		var each []string
		for _, c := range v.paid() {
			each = append(each, fmt.Sprintf("%s (%s)", c, c.Meaning()))
		}
		p.line("%s %s", p.bold("cost:"), strings.Join(each, "; "))
	}
	if t := v.times(); t != "" { // "" where nothing is changed
		p.line("%s %s (a rule of thumb, not measured)", p.bold("time:"), t)
	}
}

// paid returns the costs of the plan's changes, the mildest first; none only where there is no other.
func (v View) paid() (out []ladder.Cost) {
	for _, e := range v.Plan.Edits {
		c, err := ladder.ParseCost(e.Cost)
		if err == nil && c > ladder.None && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	if !slices.Contains(out, v.Plan.Cost) { // a rung may cost more than its edits
		out = append(out, v.Plan.Cost)
	}
	slices.Sort(out)
	return out
}

// times returns how long the phases are expected to take; "" where it is as long as asked.
func (v View) times() string {
	var each []string
	all := map[string]bool{}
	for _, c := range v.Plan.Choices {
		s := v.slowdown(c)
		text := fmt.Sprintf("%.3g times as long as asked", s)
		all[text] = true
		if math.Abs(s-1) >= 0.005 {
			each = append(each, c.Phase+" "+text)
		}
	}
	if len(each) > 1 && len(all) == 1 {
		return "every phase " + slices.Collect(maps.Keys(all))[0]
	}
	return strings.Join(each, ", ")
}

// touched names the phases that a ladder's rungs touch.
func touched(phase string) string {
	if phase == ladder.Shared {
		return "all phases"
	}
	return phase
}

// shown is how many alternatives a plan lists, unless it is verbose.
const shown = 5

// alternatives writes rungs that the plan does not take, and why: the neighbours of those that it takes and, if it is
// verbose, all others.
func (p Printer) alternatives(v View) {
	if v.Run.Room == 0 {
		return
	}
	all := v.Run.Alternatives(v.Plan)
	list := all
	if !v.Verbose {
		list = slices.DeleteFunc(slices.Clone(all), func(a run.Alternative) bool { return !a.Near })
		list = list[:min(len(list), shown)]
	}
	if len(all) == 0 {
		return
	}
	p.line("%s", p.bold("not taken:"))
	for _, a := range list {
		need := ""
		if a.Estimate.Known() {
			need = mostText(a.Estimate) + ", "
		}
		p.line("  %s: %s (cost: %s): %s%s", touched(a.Phase), a.Name, a.Cost, need, a.Why)
	}
	if n := len(all) - len(list); n > 0 {
		p.line("  %d more: launch plan --verbose", n)
	}
	var told []string
	for _, a := range all {
		if why := fmt.Sprintf("cost %v: %s", a.Cost, a.Because); a.Because != "" && !slices.Contains(told, why) {
			told = append(told, why)
			p.line("%s %s", p.yellow("note:"), why)
		}
	}
}

// certainty writes how much of each estimate is counted and how much is guessed, and which receipts corrected it.
func (p Printer) certainty(v View) {
	var lines []string
	for _, c := range v.Plan.Choices {
		if e := c.Estimate; e.Known() && e.Total() > 0 {
			lines = append(lines, fmt.Sprintf("  %s: %s", c.Phase, certainText(e)))
		}
	}
	if len(lines) > 0 {
		p.line("%s", p.bold("how certain:"))
		for _, l := range lines {
			p.line("%s", l)
		}
		if slices.ContainsFunc(lines, func(l string) bool { return strings.HasSuffix(l, " rough") }) {
			p.line("  rough: a typical amount, not counted for this job; the first run measures it")
		}
	}
	c := v.Plan.Choice(ladder.Training)
	if v.Saves && v.Stop == nil && c != nil && ladder.Told(c.Estimate, v.Run.Room) == ladder.May {
		p.line("  training may run short of memory: --on-pressure=save would then save its state, and " +
			"--on-pressure=step-down also take the next rung")
	}
	var runs []string
	for _, c := range v.Plan.Choices {
		for _, id := range c.Estimate.Learned {
			if name, _, _ := strings.Cut(id, "/"); !slices.Contains(runs, name) {
				runs = append(runs, name)
			}
		}
	}
	if len(runs) == 0 {
		if len(lines) > 0 {
			p.line("  nothing that earlier runs measured is used")
		}
		return
	}
	word, more := "run", ""
	if len(runs) > 1 {
		word = "runs"
	}
	if n := len(runs) - 3; n > 0 {
		runs, more = runs[:3], fmt.Sprintf(" and %d more", n)
	}
	p.line("  the estimates use what %s %s%s measured; --receipts=false plans without it",
		word, strings.Join(runs, ", "), more)
}

// rough is how much of an estimate is a guess.
func rough(e mem.Estimate) (sum unit.Bytes) {
	for _, it := range e.Items {
		if it.Guess {
			sum += it.Bytes
		}
	}
	return sum
}

// certainText divides an estimate by how its lines are known. The amounts add up to its total.
func certainText(e mem.Estimate) string {
	if e.Most() > e.Total() {
		return fmt.Sprintf("at most %v, measured at a larger size", e.Most())
	}
	var counted, other unit.Bytes
	guess := rough(e)
	for _, it := range e.Items {
		switch {
		case it.Guess:
		case it.Kind.Counted():
			counted += it.Bytes
		default:
			other += it.Bytes
		}
	}
	var out []string
	if counted != 0 {
		out = append(out, fmt.Sprintf("%v counted", counted))
	}
	if other != 0 {
		out = append(out, fmt.Sprintf("%v by a rule or a measurement", other))
	}
	if guess != 0 {
		out = append(out, fmt.Sprintf("%v rough", guess))
	}
	return strings.Join(out, ", ")
}

// deviceLine names the device, what others hold of it, and the room.
func deviceLine(v View) string {
	if v.Device == nil {
		return "no device: no card can be seen here. Use --vram 12GiB to plan for a card, or --device cpu " +
			"--memory 8GiB for this machine"
	}
	d := v.Device
	s := d.Name
	switch {
	case d.Planned: // its name has the amount
		s += " (" + cmp.Or(d.TotalFrom, "given, not measured") + ")"
	case v.Limit > 0: // the device's amount is that limit too
		s = fmt.Sprintf("this machine's memory, limited to %v by --memory", v.Limit)
	case d.Shared:
		s += fmt.Sprintf(", which shares this machine's memory of %v with everything else", d.Total)
	case d.Total > 0:
		s += ", " + d.Total.String()
	case d.OnCard():
		s += ", of an amount that is not known"
	}
	if others := d.Used; others > 0 && d.OnCard() {
		s += fmt.Sprintf(", %v in use by others", others)
	}
	if v.Run.Room > 0 {
		s += fmt.Sprintf(" · room for this job %v", v.Run.Room)
	}
	if v.Decimal {
		s += " · MB and GB are read as MiB and GiB"
	}
	return s
}

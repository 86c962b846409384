package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

// drawDetails adds all that is known of the selected run.
func (s *Screen) drawDetails(c *canvas) {
	r := s.run()
	if r == nil {
		c.line("the run has ended", plain)
		return
	}
	c.line("run "+r.ID, bold)
	for _, f := range facts(r, s.snapshot.Time) {
		s.fact(c, f[0], f[1])
	}
	c.end()
	c.line("Commands for another terminal:", plain)
	for _, command := range commands(r) {
		c.line("  "+command, cyan)
	}
}

// fact adds a fact, with as many lines as it needs.
func (s *Screen) fact(c *canvas, name, text string) {
	const indent = 12
	width := max(8, c.width-indent)
	text = ansi.Wrap(ui.OneLine(text), width, "/")
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			name = ""
		}
		c.cell(name, min(indent, max(0, c.width-8)), false, faint)
		c.write(line, plain)
		c.end()
	}
}

// commands are what a person may want to run. launch top runs none of them.
func commands(r *Run) []string {
	show, explain, report := "launch show "+r.ID, "launch explain "+r.ID, "launch report "+r.ID
	if r.State == CutOff {
		return []string{explain, show, report} // it prints the command that continues the run
	}
	return []string{"launch stop " + r.ID, show, explain, report}
}

// facts are the names and values of what is known of a run.
func facts(r *Run, now time.Time) (out [][2]string) {
	add := func(name, format string, args ...any) {
		out = append(out, [2]string{name, fmt.Sprintf(format, args...)})
	}
	add("name", "%s", r.Title)
	add("command", "%s", strings.Join(r.Command, " "))
	if r.State == Running {
		add("state", "running since %s, by launch %d", r.Began.Local().Format("2006-01-02 15:04:05"), r.PID)
	} else {
		add("state", "cut off: its launch was killed")
	}
	st := r.Status
	if st == nil {
		add("phase", "no program is running: launch is between two attempts")
		return out
	}
	if age, silent := r.Silent(now); silent {
		add("silent", "launch wrote nothing about it for %s: it may be suspended, or its disk is slow", span(age))
	}
	trial := ""
	if st.Trial != "" {
		trial = ", a " + st.Trial
	}
	add("attempt", "%d%s, for %s", st.Attempt, trial, span(st.Time.Sub(st.Began)))
	if st.Phase == "" {
		add("phase", "%s: the program has printed no line about one", unknown)
	} else {
		add("phase", "%s", st.Phase)
	}
	progressFacts(add, r, now)
	if m := st.Memory; m != nil {
		is := m.Is
		if m.Is == record.Anonymous {
			is = "host memory of its processes that no file backs"
		}
		doubted := ""
		if m.Doubted {
			doubted = ", a part may belong to other processes"
		}
		when := "now"
		if r.State != Running {
			when = "at last"
		}
		add("memory", "%v %s, peak %v (%s%s)", m.Now, when, m.Peak, is, doubted)
	} else {
		add("memory", "%s", unknown)
	}
	if r.OnCards > 0 {
		add("on cards", "%v in all, as the driver counts it", r.OnCards)
	}
	add("estimate", "%s", estimates(st.Predicted, st.Room))
	if text, _ := cards(r, now); len(r.Cards) > 0 {
		add("cards", "%s", text)
	}
	return out
}

func progressFacts(add func(name, format string, args ...any), r *Run, now time.Time) {
	p := r.Status.Progress
	if p == nil {
		add("progress", "%s: the program has reported no step", unknown)
		return
	}
	text, of := strconv.FormatInt(p.Iteration, 10), ""
	if p.Total > 0 {
		text += " of " + strconv.FormatInt(p.Total, 10)
	}
	if p.Epoch {
		of = " of the epoch"
	}
	if part, ok := p.Part(); ok {
		of += fmt.Sprintf(" (%d %%)", int(part*100))
	}
	add("progress", "iteration %s%s, the last report %s ago", text, of, span(now.Sub(p.At)))
	if v := rateOf(r); v > 0 {
		add("speed", "%s samples a second", rate(v))
	}
	if r.Left != nil {
		add("time left", "%s, if it goes on as it did", span(time.Duration(*r.Left*float64(time.Second))))
	} else {
		add("time left", "%s", unknown)
	}
}

// estimates are the plan's estimates, by phase.
func estimates(by map[string]unit.Bytes, room unit.Bytes) string {
	var parts []string
	for _, phase := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, phase+" "+by[phase].String())
	}
	text := cmp.Or(strings.Join(parts, ", "), unknown)
	if room > 0 {
		text += ", room " + room.String()
	}
	return text
}

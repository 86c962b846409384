package ui

import (
	"fmt"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/unit"
)

// A StatusText is the status of a running attempt as a terminal shows it.
type StatusText struct {
	Line, Title string
	Percent     int // negative: not known
}

// Status is the status of a running attempt in one line, the more important first: a narrow terminal cuts its end.
func Status(s record.Status) StatusText {
	out := StatusText{Percent: -1}
	parts := []string{"launch"}
	if s.Attempt > 1 {
		parts[0] += fmt.Sprintf(" (attempt %d)", s.Attempt)
	}
	phase := strings.TrimSpace(OneLine(s.Phase))
	if phase != "" {
		parts = append(parts, phase)
	}
	short := "launch"
	if p := s.Progress; p != nil {
		at := fmt.Sprintf("%d", p.Iteration)
		if p.Total > 0 {
			at += fmt.Sprintf("/%d", p.Total)
		}
		if part, ok := p.Part(); ok && !p.Epoch {
			out.Percent = int(100 * part)
			at += fmt.Sprintf(" (%d %%)", out.Percent)
			short = fmt.Sprintf("%d %%", out.Percent)
		}
		parts = append(parts, at)
		if left, ok := p.Left(s.Time); ok {
			parts = append(parts, leftText(left)+" left")
			short += " · " + leftText(left) + " left"
		}
	}
	if m := s.Memory; m != nil {
		memory := fmt.Sprintf("%s now, %s peak", compact(m.Now), compact(m.Peak))
		if expected := s.Expected(); expected > 0 {
			memory += fmt.Sprintf(", %s estimated", compact(expected))
		}
		parts = append(parts, memory+" ("+OneLine(m.Is)+")")
	}
	out.Line = " " + strings.Join(parts, " · ")
	out.Title = short
	if phase != "" {
		out.Title += " · " + phase
	}
	return out
}

func compact(b unit.Bytes) string { return strings.ReplaceAll(b.String(), " ", "\u00a0") }

// leftText is a time that is left, no more exact than it is known.
func leftText(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()+0.5))
	}
	return fmt.Sprintf("%d s", int(d.Seconds()+0.5))
}

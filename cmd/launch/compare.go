package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

// byRungs is the value of --compare that names no setting.
const byRungs = "rungs"

// compare prints the ways to run a command beside each other: its rungs or, with --compare=KEY=V1,V2, the values of a
// setting; for one card, or for each of several. It starts nothing.
func compare(ctx context.Context, s settings, args []string, as planFlags) error {
	values, err := compareValues(as.Compare)
	if err != nil {
		return err
	}
	cards, err := s.compareCards(ctx)
	if err != nil {
		return err
	}
	say := ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}
	var all []ui.Compared
	for _, card := range cards {
		for _, value := range values {
			there := card
			if value != "" {
				there.Set = append(append([]string{}, s.Set...), value)
			}
			p, err := read(ctx, there, args, here)
			if err != nil {
				return err
			}
			p.Close()
			if p.Err != nil {
				return p.Err
			}
			if p.Job == nil {
				return planTyped(p, say, as.JSON)
			}
			all = append(all, ui.Compared{View: view(p), Setting: value, Speed: there.speeds(p)})
		}
	}
	d := ui.Compare(all)
	if as.JSON {
		return printJSON(d)
	}
	s.screen(say, os.Stdout).Compare(d)
	return nil
}

// compareValues returns the settings to compare, as --set takes them; one "" if the rungs are compared.
func compareValues(text string) ([]string, error) {
	if text == byRungs {
		return []string{""}, nil
	}
	key, list, ok := strings.Cut(text, "=")
	if !ok || key == "" || list == "" {
		return nil, fmt.Errorf("--compare=%s: write --compare, or --compare=KEY=VALUE,VALUE with a setting as for --set",
			text)
	}
	var out []string
	for value := range strings.SplitSeq(list, ",") {
		out = append(out, key+"="+strings.TrimSpace(value))
	}
	return out, nil
}

// compareCards returns the settings for each card to compare: those of --vram, or the cards of this machine that
// --device leaves to choose from.
func (s settings) compareCards(ctx context.Context) ([]settings, error) {
	var out []settings
	for _, c := range s.Cards {
		there := s
		there.VRAM, there.Card = c.bytes, c.name
		out = append(out, there)
	}
	if s.Chooses() {
		cards, err := room.Cards(ctx, s.Wish, os.Environ())
		if err != nil {
			return nil, s.deviceError(err)
		}
		for _, c := range cards {
			there := s
			there.Device = room.Names([]gpu.Device{c})
			out = append(out, there)
		}
	}
	if len(out) == 0 {
		out = append(out, s)
	}
	return out, nil
}

// speeds returns the measured speed of a configuration, by the receipts of this machine.
func (s settings) speeds(p *intake.Reading) func(run.Configuration) float64 {
	if !s.Receipts {
		return nil
	}
	rs, _, err := s.receipts().Read()
	if err != nil || len(rs) == 0 {
		return nil
	}
	of := record.SubjectOf(p.Job, p.Room.Device, p.Room.Limit() > 0)
	return func(c run.Configuration) float64 { return of.Speed(rs, p.Run.Ladders, c.Shared, c.Rung) }
}

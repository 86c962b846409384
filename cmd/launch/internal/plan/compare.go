package plan

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/reading"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/ui"
)

// byRungs is the value of --compare that names no setting.
const byRungs = "rungs"

// compare prints the ways to run a command beside each other: its rungs or, with --compare=KEY=V1,V2, the values of a
// setting; for one card, or for each of several. It starts nothing.
func compare(ctx context.Context, o planOptions, of []settings.Card, args []string) error {
	values, err := compareValues(o.compare)
	if err != nil {
		return err
	}
	cards, err := compareCards(ctx, o.reader, of)
	if err != nil {
		return err
	}
	say := cli.Out()
	var all []ui.Compared
	for _, card := range cards {
		for _, value := range values {
			there := card
			if value != "" {
				there.How.Set = append(append([]string{}, card.How.Set...), value)
			}
			p, err := there.Read(ctx, args)
			if err != nil {
				return err
			}
			p.Close()
			if p.Err != nil {
				return p.Err
			}
			if p.Job == nil {
				return planTyped(ctx, o, p, say)
			}
			all = append(all, ui.Compared{View: reading.View(p), Setting: value, Speed: there.Speeds(p)})
		}
	}
	return cli.Show(o.asJSON, ui.Compare(all), cli.Fitted(say, os.Stdout, o.bars).Compare)
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

// compareCards returns what reads the command for each card to compare: those of --vram, or the cards of this machine
// that --device leaves to choose from.
func compareCards(ctx context.Context, r reading.Reader, of []settings.Card) ([]reading.Reader, error) {
	var out []reading.Reader
	for _, c := range of {
		there := r
		there.Room.VRAM, there.Room.Card = c.Bytes, c.Card
		out = append(out, there)
	}
	if r.Room.Chooses() {
		cards, err := room.Cards(ctx, r.Room.Wish, os.Environ())
		if err != nil {
			return nil, r.Room.DeviceError(err)
		}
		for _, c := range cards {
			there := r
			there.Room.Device = room.Names([]gpu.Device{c})
			out = append(out, there)
		}
	}
	if len(out) == 0 {
		out = append(out, r)
	}
	return out, nil
}

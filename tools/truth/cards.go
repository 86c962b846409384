package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/tools/truth/rows"
)

// Cards are the measurements on real GPUs, and the grid that they are rows of.
type cards struct {
	notes    []string // of files that say nothing of a card
	grid     []rows.CardSetting
	measured []rows.CardRow
}

// readCards reads grid.txt (`gpu.py --list --checkout redux=.`) and every gpu_*.json beside it.
func readCards(dir string) (c cards, err error) {
	f, err := os.Open(filepath.Join(dir, "grid.txt"))
	if err != nil {
		return c, err
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var s rows.CardSetting
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return c, fmt.Errorf("grid.txt: %w", err)
		}
		c.grid = append(c.grid, s)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "gpu_*.json"))
	if err != nil {
		return c, err
	}
	for _, p := range paths {
		m, err := rows.ReadCards(p)
		if err != nil {
			return c, err
		}
		usable := slices.DeleteFunc(m.Rows, func(r rows.CardRow) bool { // a tracker on the CPU measures no card
			return m.Device != "cuda" || r.Skipped != "" || r.Error != ""
		})
		if len(usable) == 0 {
			c.notes = append(c.notes, fmt.Sprintf("Of %s no row is usable: it is of the device %q, or its rows ended in errors.", filepath.Base(p), m.Device))
		}
		c.measured = append(c.measured, usable...)
	}
	return c, nil
}

// table prints what was measured on GPUs, and never a figure in place of one that was not.
func (c cards) table(p *printer) {
	p.heading("On a GPU: allocated, reserved, used")
	for _, n := range c.notes {
		p.text("%s", n)
	}
	have := map[rows.CardSetting]bool{}
	var lines, unpriced [][]string
	var offs [3][]float64
	for _, r := range c.measured {
		if r.Skipped != "" || r.Error != "" || r.OOM != nil {
			continue
		}
		e, err := r.Price()
		if err != nil {
			unpriced = append(unpriced, []string{r.Facts.Device, r.Row.Net, r.Row.String(), err.Error()})
			continue
		}
		have[r.Row] = true
		_, allocated, reserved, used := rows.Sums(e)
		cells := []string{r.Facts.Device, r.Row.Net, r.Row.String()}
		f := r.Peak()
		for i, pair := range []struct {
			got  unit.Bytes
			want *unit.Bytes
		}{{allocated, f.Allocated}, {reserved, f.Reserved}, {used, f.Used}} {
			if pair.want == nil {
				cells = append(cells, mib(pair.got), "–", "–")
				continue
			}
			offs[i] = append(offs[i], off(pair.got, *pair.want))
			cells = append(cells, mib(pair.got), mib(*pair.want), fmt.Sprintf("%.3f", float64(pair.got)/float64(*pair.want)))
		}
		lines = append(lines, cells)
	}
	left := 0
	for _, s := range c.grid {
		if !have[s] {
			left++
		}
	}
	if len(lines) == 0 {
		p.text("No GPU row is recorded: all %d rows of the grid (tools/capture/gpu.py --list --checkout redux=DIR; without a checkout fewer) are unmeasured, and of reserved and used memory nothing is claimed here.", left)
		return
	}
	p.table([]string{"device", "architecture", "settings", "allocated", "measured", "ratio", "reserved", "measured", "ratio", "used", "measured", "ratio"}, 3, lines)
	var sums [][]string
	for i, what := range []string{"allocated", "reserved", "used"} {
		sums = append(sums, append([]string{what}, summarise(offs[i]).cells()...))
	}
	p.table([]string{"what", "rows", "median", "95th percentile", "worst", "under by more than 2 %"}, 1, sums)
	p.text("%d of %d rows of the grid are unmeasured.", left, len(c.grid))
	if len(unpriced) > 0 {
		p.table([]string{"device", "architecture", "settings", "without an estimate"}, 4, unpriced)
	}
	c.trials(p)
}

// trials prints the first step beside the second of the rows with cudnn.benchmark: its trials' workspaces are in the
// peak of the first alone.
func (c cards) trials(p *printer) {
	var lines [][]string
	for _, r := range c.measured {
		if first, second, ok := r.Trials(); ok {
			lines = append(lines, []string{r.Facts.Device, r.Row.Net, r.Row.String(), mib(first), mib(second),
				fmt.Sprintf("%.3f", float64(first)/float64(second))})
		}
	}
	if len(lines) == 0 {
		return
	}
	p.heading("The first step with cudnn.benchmark, and the second")
	p.table([]string{"device", "architecture", "settings", "first", "second", "ratio"}, 3, lines)
}

// priorsTable prints what cards were measured to take beside tensors.
func priorsTable(p *printer, priors []mem.Prior) {
	if len(priors) == 0 {
		return
	}
	p.heading("What only a card knows")
	var lines [][]string
	for _, o := range priors {
		lines = append(lines, []string{o.Card, o.Driver, o.Torch, o.Date, fmt.Sprint(o.Rows), mib(o.ContextLeast),
			mib(o.Context), mib(o.BLAS)})
	}
	p.table([]string{"card", "driver", "torch", "date", "processes", "context, least", "largest", "cuBLAS"}, 4, lines)
}

package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// The limits of traces against timm's benchmark, of a hundred models that were drawn.
const (
	leastFitted  = 0.95 // of the batches that trained, that fit
	leastRefused = 0.70 // of those that did not, that do not fit
)

// eagerContext is what a process of torch before 1.13 holds on an RTX 3090 outside its allocator, the least that was
// seen. It loads all its kernels at the start; from 1.13 on, built for CUDA 11.7 or later, each when it is first used
// (pytorch#86509, pytorch#107667). Seen by nvidia-smi: 1687 MiB with torch 1.8 (pytorch#55277), 1488 with 1.7
// (pytorch#49877); by out-of-memory messages of torch 1, the capacity less what is reserved and free: 1.6 GiB
// (transformers#8771), 1.21 GiB on two machines, and more where others hold some.
const eagerContext = 1239 * unit.MiB

// A tracedModel is one of timm's models, at the largest batch that trained on an RTX 3090 and at the next larger one.
type tracedModel struct {
	name, size, batch, failed string
	fitted, refused           unit.Bytes // what the traces say; 0: nothing
	why                       string     // there is none
}

// recordedRows are the rows of a table that tools/capture has recorded, without its header.
func recordedRows(root, name string) ([][]string, error) {
	f, err := os.Open(filepath.Join(root, "tools", "truth", "testdata", name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("%s is empty", name)
	}
	if err != nil {
		return nil, err
	}
	return rows[1:], nil
}

// twoNumbers are the first two fields.
func twoNumbers(fields []string) (a, b float64, err error) {
	if a, err = strconv.ParseFloat(fields[0], 64); err == nil {
		b, err = strconv.ParseFloat(fields[1], 64)
	}
	return a, b, err
}

// readTraced reads what tools/capture/traced.py has recorded.
func readTraced(root string) (out []tracedModel, err error) {
	rows, err := recordedRows(root, "traced.csv")
	if err != nil {
		return nil, err
	}
	for _, r := range rows { // model, size, batch, estimate, verdict, failed, its estimate, its verdict
		m := tracedModel{name: r[0], size: r[1], batch: r[2], failed: r[5]}
		for _, of := range []struct {
			text, verdict string
			into          *unit.Bytes
		}{{r[3], r[4], &m.fitted}, {r[6], r[7], &m.refused}} {
			if mib, err := strconv.ParseInt(of.text, 10, 64); err == nil {
				*of.into = unit.Bytes(mib) * unit.MiB
			} else if of.verdict != "" {
				m.why = of.verdict
			}
		}
		out = append(out, m)
	}
	return out, nil
}

// then is an estimate with the context of the torch that was measured, in place of today's.
func then(estimate unit.Bytes) unit.Bytes {
	if estimate == 0 {
		return 0
	}
	return estimate - mem.CUDAContext("RTX 3090", tracedRoom()).Bytes + eagerContext
}

func tracedRoom() unit.Bytes {
	return 24258 * unit.MiB // an RTX 3090 with a driver of those days: 23.69 GiB (karpathy/nanoGPT#93)
}

// right counts the batches that trained and fit, those that did not and are known, and those of them that do not fit.
func right(all []tracedModel, of func(unit.Bytes) unit.Bytes) (fitted, known, refused int) {
	for _, m := range all {
		if m.fitted > 0 && of(m.fitted) <= tracedRoom() {
			fitted++
		}
		if m.failed != "" {
			known++
			if of(m.refused) > tracedRoom() {
				refused++
			}
		}
	}
	return fitted, known, refused
}

func tracedBroken(all []tracedModel) (out []string) {
	fitted, known, refused := right(all, then)
	if float64(fitted) < leastFitted*float64(len(all)) {
		out = append(out, fmt.Sprintf("traces: %d of %d batches that trained fit, at least %.0f %% have to", fitted,
			len(all), 100*leastFitted))
	}
	if float64(refused) < leastRefused*float64(known) {
		out = append(out, fmt.Sprintf("traces: %d of %d batches that did not train do not fit, at least %.0f %% have to",
			refused, known, 100*leastRefused))
	}
	return out
}

const timmTable = "https://github.com/huggingface/pytorch-image-models, " +
	"results/benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv at aa4b5850"

func tracedTable(p *printer, all []tracedModel) {
	p.heading("Traces: models of timm on an RTX 3090")
	_, known, _ := right(all, then)
	p.text("%s has the largest batch at which each model trained on an RTX 3090, in July 2022, with torch 1.12. Its "+
		"benchmark.py takes the next smaller batch after a failure, so the next larger one is known to have failed, unless "+
		"the first, 512, trained: so it was for %d. A hundred models were drawn by seed before any result was looked at "+
		"(tools/capture/traced.py; gluon_xception65 is not in timm 1.0.31, and another took its place), and for %d of them "+
		"`launch plan --trace --vram \"RTX 3090\"` was asked at both batches, "+
		"with torch 2.15 on a machine without a card. Estimates are in MiB; the card gives %d.", timmTable, len(all)-known,
		len(all), tracedRoom()/unit.MiB)
	now := func(n unit.Bytes) unit.Bytes { return n }
	var lines [][]string
	for _, k := range []struct {
		what string
		of   func(unit.Bytes) unit.Bytes
	}{{"as launch says, with the context of torch 2", now},
		{fmt.Sprintf("with the context of torch 1.12, at least %d MiB", eagerContext/unit.MiB), then}} {
		fitted, known, refused := right(all, k.of)
		lines = append(lines, []string{k.what, fmt.Sprintf("%d of %d", fitted, len(all)),
			fmt.Sprintf("%d of %d", refused, known)})
	}
	p.table([]string{"estimate", "trained, and fits", "failed, and does not fit"}, 1, lines)
	lines = nil
	cell := func(n unit.Bytes) string {
		if n == 0 {
			return "–"
		}
		return fmt.Sprintf("%d", n/unit.MiB)
	}
	for _, m := range all {
		fits, not := "yes", "–"
		if m.fitted == 0 || then(m.fitted) > tracedRoom() {
			fits = "no"
		}
		if m.failed != "" {
			if not = "yes"; then(m.refused) <= tracedRoom() {
				not = "no"
			}
		}
		lines = append(lines, []string{m.name, m.size, m.batch, cell(m.fitted), cell(then(m.fitted)), fits, m.failed,
			cell(m.refused), cell(then(m.refused)), not, m.why})
	}
	p.long("traces", []string{"model", "image", "trained", "estimate", "in 2022", "fits", "failed", "its estimate",
		"its, in 2022", "does not fit", "why none"}, 1, lines, "Told wrongly", func(r []string) bool {
		return r[5] == "no" || r[9] == "no"
	})
}

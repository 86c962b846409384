package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/dualattn"
	"github.com/launch-ml/launch/plugins/moco"
	"github.com/launch-ml/launch/plugins/sisr"
	"github.com/launch-ml/launch/plugins/stablesr"
)

// The limits of what the public has measured on real cards: how far a figure may be off, and which share of the
// inference peaks has to be that near. The shares go up with the formulas; what they are today, docs/accuracy.md says.
const (
	lastOff         = 0.02 // channels_last
	contiguousOff   = 0.05 // NCHW
	leastLast       = 0.89
	leastContiguous = 0.92
	allocatedOff    = 0.05 // of a training's peak
	reservedOff     = 0.05
	usedOff         = 0.10 // of what nvidia-smi printed, which is rounded
	requestedOff    = 0.01
	mostUnanswered  = 0.03
)

// A bench is traiNNer-redux's own benchmark: the peak of an inference, in both memory formats, of many networks.
type bench struct {
	Source string
	Card   string
	Image  string
	Rows   []benchRow
	priced []benchPrice
}

// A benchRow is one network at one scale.
type benchRow struct {
	arch, amp  string
	scale      int64
	args       []string
	contiguous unit.Bytes
	last       unit.Bytes
}

// UnmarshalJSON reads a row from its columns.
func (r *benchRow) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&r.arch, &r.scale, &r.amp, &r.args, &r.contiguous, &r.last})
}

// A benchPrice is one measured peak beside its estimate.
type benchPrice struct {
	benchRow
	channelsLast bool
	measured     unit.Bytes
	allocated    unit.Bytes // as the estimate has it
	kept         unit.Bytes // the benchmark's output of the iteration before
	err          error
}

func (p benchPrice) agrees() bool {
	limit := contiguousOff
	if p.channelsLast {
		limit = lastOff
	}
	return p.err == nil && math.Abs(float64(p.measured)/float64(p.allocated+p.kept)-1) <= limit
}

// name is the network as a person asks for it.
func (r benchRow) name() string { return strings.Join(append([]string{r.arch}, r.args...), ", ") }

// An observation is a figure that somebody published of a training or an inference on a card.
type observation struct {
	ID         int        `json:"id"`
	Source     string     `json:"source"`
	Net        string     `json:"net"`
	Settings   string     `json:"settings"`
	Card       string     `json:"card"`
	Torch      string     `json:"torch"`
	What       string     `json:"what"`  // allocated, reserved, used, fits, does not fit, requested, context
	Bytes      unit.Bytes `json:"bytes"` // the figure, or the card's size
	Confidence string     `json:"confidence"`
	Phase      string     `json:"phase"`
	// Ask is the question that `launch estimate` answers; nil where no bare network stands for the job.
	Ask *struct {
		Plugin   string            `json:"plugin"`
		Arch     string            `json:"arch"`
		Settings map[string]string `json:"settings"`
	} `json:"ask"`

	estimate unit.Bytes
	agrees   bool
	err      error
}

// trusted reports whether the row has to agree or to have a reason.
func (o observation) trusted() bool { return o.Confidence == "high" || o.Confidence == "exact" }

// realCards is all of it.
type realCards struct {
	bench  bench
	others []observation
}

func readReal(dir string) (r realCards, err error) {
	if err := readJSON(dir, map[string]any{"real_inference.json": &r.bench, "real_others.json": &r.others}); err != nil {
		return r, err
	}
	r.bench.price()
	for i := range r.others {
		r.others[i].price()
	}
	return r, nil
}

// readJSON reads the files of those names.
func readJSON(dir string, files map[string]any) error {
	for name, into := range files {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
	}
	return nil
}

// estimators are the plugins that `launch estimate` asks.
var estimators = map[string]plugin.Plugin{"sisr": sisr.New(), "moco": moco.New(), "stablesr": stablesr.New(),
	"dualattn": dualattn.New()}

// formatSetting is the memory format, where a plugin's estimate knows one.
const formatSetting = "use_channels_last"

// ask is `launch estimate`: a plugin's answer to settings, on a card. A memory format that it does not know is left
// out.
func ask(name, arch string, settings map[string]string, d gpu.Device) ([]plugin.Phase, error) {
	e, ok := estimators[name].(plugin.Estimator)
	if !ok {
		return nil, fmt.Errorf("plugin %q estimates no network", name)
	}
	copied := func(without string) *plugin.Bare {
		q := &plugin.Bare{Arch: arch, Settings: map[string]string{}}
		for k, v := range settings {
			if k != without {
				q.Settings[k] = v
			}
		}
		return q
	}
	phases, err := e.Estimate(context.Background(), copied(""), d)
	if _, given := settings[formatSetting]; err != nil && given {
		return e.Estimate(context.Background(), copied(formatSetting), d)
	}
	return phases, err
}

// price prices each row in both memory formats, as many at a time as there are processors.
func (b *bench) price() {
	b.priced = make([]benchPrice, 2*len(b.Rows))
	var all sync.WaitGroup
	for i := range b.priced {
		r := b.Rows[i/2]
		p := &b.priced[i]
		p.benchRow, p.channelsLast, p.measured = r, i%2 == 1, r.contiguous
		if p.channelsLast {
			p.measured = r.last
		}
		all.Go(func() { p.allocated, p.err = p.ask(b.Image) })
	}
	all.Wait()
	b.keep()
}

// ask is the peak of allocated memory that launch foresees for the row's inference.
func (p *benchPrice) ask(image string) (unit.Bytes, error) {
	settings := map[string]string{"scale": fmt.Sprint(p.scale), "image": image, "amp": p.amp, "training": "false",
		"ema":         "false",
		formatSetting: fmt.Sprint(p.channelsLast)}
	for _, a := range p.args {
		name, value, _ := strings.Cut(a, "=")
		settings[name] = value
	}
	d := gpu.Device{Kind: gpu.CUDA, Name: "NVIDIA GeForce RTX 4090", Capability: "8.9", Total: 24 * unit.GiB}
	phases, err := ask("sisr", p.arch, settings, d)
	if err != nil {
		return 0, err
	}
	return phases[len(phases)-1].Allocated, nil // with cuBLAS's workspace, as max_memory_allocated has it
}

// keep adds the benchmark's output of the iteration before, which is alive while the next is made: three channels, in
// the type that the network returns. That is autocast's or float32, whichever makes the channels_last rows of all
// scales agree best.
func (b *bench) keep() {
	const pixels = 480 * 640
	of := map[string][]*benchPrice{}
	for i := range b.priced {
		of[b.priced[i].name()] = append(of[b.priced[i].name()], &b.priced[i])
	}
	for _, rows := range of {
		var best, width float64 = math.Inf(1), 0
		for _, w := range []float64{2, 4} {
			sum := 0.0
			for _, p := range rows {
				if p.channelsLast && p.err == nil {
					sum += math.Abs(float64(p.measured) - float64(p.allocated) - w*3*pixels*float64(p.scale*p.scale))
				}
			}
			if sum < best {
				best, width = sum, w
			}
		}
		for _, p := range rows {
			p.kept = unit.Bytes(width * 3 * pixels * float64(p.scale*p.scale))
		}
	}
}

// price asks what the observation is of, and compares.
func (o *observation) price() {
	d := gpu.Device{Kind: gpu.CUDA, Name: o.Card, Total: o.Bytes}
	if o.What == "context" {
		o.estimate = mem.CUDAContext(o.Card, d.Total).Bytes
		o.agrees = math.Abs(off(o.estimate, o.Bytes)) <= usedOff
		return
	}
	if j, ok := latentJobs[o.ID]; ok {
		phases, err := j.phases(d)
		if err != nil {
			o.err = err
			return
		}
		o.compare(slices.MaxFunc(phases, func(a, b plugin.Phase) int { // a trainer goes through all of them
			return cmp.Compare(a.Estimate.Total(), b.Estimate.Total())
		}))
		return
	}
	if o.Ask == nil {
		return
	}
	if o.What != "fits" && o.What != "does not fit" {
		d.Total = 24 * unit.GiB // it decides the prior of the context, and of these figures only the used ones have that
	}
	phases, err := ask(o.Ask.Plugin, o.Ask.Arch, o.Ask.Settings, d)
	if err != nil {
		o.err = err
		return
	}
	i := slices.IndexFunc(phases, func(p plugin.Phase) bool { return p.Phase == o.Phase })
	if i < 0 {
		o.err = fmt.Errorf("no phase %s", o.Phase)
		return
	}
	o.compare(phases[i])
}

// compare sets the estimate that the figure is compared with, and whether they agree.
func (o *observation) compare(p plugin.Phase) {
	e := p.Estimate
	near := func(b unit.Bytes, limit float64) {
		o.estimate, o.agrees = b, math.Abs(off(b, o.Bytes)) <= limit
	}
	switch o.What {
	case "fits":
		o.estimate, o.agrees = e.Total(), e.Total() <= o.Bytes
	case "does not fit":
		o.estimate, o.agrees = e.Total(), e.Total() > o.Bytes
	case "allocated":
		near(p.Allocated, allocatedOff)
	case "reserved":
		near(e.Reserved, reservedOff)
	case "used": // the card also has what is only cached
		near(max(e.Total(), e.Reserved+e.Of(mem.Context)), usedOff)
	case "requested":
		for _, a := range e.Allocs {
			if o.estimate == 0 || math.Abs(off(a.Bytes, o.Bytes)) < math.Abs(off(o.estimate, o.Bytes)) {
				near(a.Bytes, requestedOff)
			}
		}
	}
}

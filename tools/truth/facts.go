package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
	sisrarch "github.com/launch-ml/launch/plugins/sisr/arch"
)

// A fact is a row of an earlier study, of another hand and another release of PyTorch: MiB per sample, nil where it has none.
type fact struct {
	Arch          string         `json:"arch"`
	Type          string         `json:"type"`
	Scale         int64          `json:"scale"`
	Args          map[string]any `json:"args"`
	Commit        string         `json:"commit"`
	Checkpointing bool           `json:"checkpointing"`
	Params        int64          `json:"params"`
	SavedF32      *float64       `json:"saved_fp32_64"`
	SavedAMP      *float64       `json:"saved_amp_64"`
	SavedAMP128   *float64       `json:"saved_amp_128"`
	PeakF32       *float64       `json:"peak_fp32_64"`
	PeakAMP       *float64       `json:"peak_amp_64"`
	Eval128       *float64       `json:"eval_128"`
	Eval256       *float64       `json:"eval_256"`
	Eval512       *float64       `json:"eval_512"`
}

func readFacts(path string) ([]fact, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f struct{ Rows []fact }
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("read facts %s: %w", path, err)
	}
	return f.Rows, nil
}

// sources stand for the arch files of ParagonSR2's generations, by commit: enough of the text for the network to be told.
var sources = map[string]string{
	"da033d99": "class EfficientSelfAttention",
	"069b6d59": "class EfficientSelfAttention\nclass LocalWindowAttention",
	"933d5397": "class NanoBlock\nclass ProBlock\nclass TokenDictionaryCA\nclass UltimateBlock",
	"921e57d1": "class NanoBlock\nclass ProBlock\nclass TokenDictionaryCA",
}

// reproduced is how near a figure of the study is to be: half of its last digit, or this share of it.
const reproduced = 0.005

// withoutCasts is a peak without autocast's copies of the weights, which the study leaves out.
func withoutCasts(p nn.Peak) unit.Bytes {
	b := p.Bytes
	for _, part := range p.Parts {
		b -= part.Casts
	}
	return b
}

// A recording is a row of tools/capture/capture.py nets, of PyTorch 2.15 and upstream's class.
type recording struct {
	Name  string           `json:"name"`
	Args  map[string]any   `json:"args"`
	Shape []int64          `json:"shape"`
	AMP   bool             `json:"amp"`
	Saved unit.Bytes       `json:"saved"`
	Peak  unit.Bytes       `json:"peak"`
	Eval  map[string]int64 `json:"eval"`
}

// record is our own recordings of networks, by commit: where the study and the formula differ, they decide.
type record map[string][]recording

func readRecord(root string) (record, error) {
	paths, err := filepath.Glob(filepath.Join(root, "plugins", "sisr", "arch", "testdata", "net_*.json"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("no recordings of networks below %s: %v", root, err)
	}
	out := record{}
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		var f struct {
			Commit string
			Rows   []recording
		}
		if err := json.Unmarshal(data, &f); err != nil {
			return nil, fmt.Errorf("read recording %s: %w", p, err)
		}
		c := f.Commit[:min(8, len(f.Commit))]
		out[c] = append(out[c], f.Rows...)
	}
	return out, nil
}

// explained returns why a figure of the study is left alone, "" where nothing explains it. got is what the formula gives for
// torch 2.
func (rec record) explained(f fact, n sisrarch.Network, x finding, got float64) string {
	const image = 3 * 128 * 128 * 4. / (1 << 20) // a loss's, at scale 2
	if why := f.unlike(x.figure); why != "" {
		return why
	}
	side := int64(64)
	if x.figure == "saved AMP 128" {
		side = 128
		at64 := x
		at64.figure = "saved AMP 64"
		if rec.explained(f, n, at64, got/4) != "" {
			return "as at 64"
		}
	}
	if why := rec.agrees(f, n, x.figure, side, got); why != "" {
		return why
	}
	switch {
	case strings.HasPrefix(x.figure, "inference") && x.got > x.want && x.got-x.want < 2:
		return "autocast's copies of weights, which the study leaves out"
	case strings.HasPrefix(x.figure, "peak") && math.Abs(x.got-x.want) < image+.06:
		return "one image more or less, of the loss"
	case strings.HasPrefix(f.Type, "hat_"):
		return "hat_s, recorded from its class with torch 2.15, has what the formula has; the study is 1 % above for both"
	}
	return ""
}

// unlike returns how the study measured something else than the formula gives; "" where it did not.
func (f fact) unlike(figure string) string {
	switch {
	case f.Checkpointing && strings.HasPrefix(figure, "saved"):
		return "what a checkpoint's closure keeps no hook sees: the study has the inputs alone"
	case f.Checkpointing && strings.Contains(figure, "AMP"):
		return "the study's recomputation ran outside its autocast"
	case f.Checkpointing:
		return "what is recomputed is let go piece by piece"
	case (strings.HasPrefix(f.Type, "realplksr") || f.Type == "mosr") && !strings.HasPrefix(figure, "saved"):
		return "on the meta device mish is put together from several operations: the class is recorded on the CPU instead, and has what the formula has"
	}
	return ""
}

// agrees compares a figure of the formula, in MiB, with our own recordings of the same class; "" where none is near.
func (rec record) agrees(f fact, n sisrarch.Network, figure string, side int64, got float64) string {
	commits := []string{f.Commit}
	if f.Commit == "" {
		commits = slices.Collect(maps.Keys(rec))
	}
	for _, c := range commits {
		for _, r := range rec[c] {
			if !r.of(f, n, side) {
				continue
			}
			want, samples := r.figure(figure)
			if want > 0 && math.Abs(got/want-1) < 0.03 {
				at := "an image"
				if samples > 1 {
					at = fmt.Sprintf("an image of %d at once", samples)
				}
				return fmt.Sprintf("torch 2.15 has %.1f %s for the class, the formula for torch 2 and one image %.1f", want, at, got)
			}
		}
	}
	return ""
}

// of reports whether a recording is of a fact's network, at a side of its input.
func (r recording) of(f fact, n sisrarch.Network, side int64) bool {
	scale, _ := r.Args["scale"].(float64)
	on, _ := r.Args[n.CheckpointArg].(bool)
	return r.Name == f.Type && len(r.Shape) >= 4 && r.Shape[3] == side && (int64(scale) == f.Scale || scale == 0) && on == f.Checkpointing
}

// figure returns a figure of the study as a recording has it, in MiB per sample, and how many samples there were at once. It
// is 0 where the recording is of another precision.
func (r recording) figure(name string) (mib float64, samples int64) {
	var bytes float64
	samples = r.Shape[0]
	switch inference := strings.HasPrefix(name, "inference"); {
	case inference && r.AMP:
		samples = 1 // an image at a time
		bytes = float64(r.Eval[strings.TrimSuffix(strings.TrimPrefix(name, "inference "), "²")])
	case inference, strings.Contains(name, "AMP") != r.AMP:
		return 0, samples
	case strings.HasPrefix(name, "saved"):
		bytes = float64(r.Saved)
	default:
		bytes = float64(r.Peak)
	}
	return bytes / ((1 << 20) * float64(samples)), samples
}

// A finding is one figure of the study against the tape: off is relative.
type finding struct {
	figure    string
	want, got float64
	off       float64
	why       string
}

func (f finding) holds() bool {
	return math.Abs(f.off) <= reproduced || math.Abs(f.got-f.want) <= 0.0501
}

// figures are those that the study has of a network, and how each is priced, by the side of the input in pixels.
var figures = []struct {
	name  string
	want  func(fact) *float64
	price func(setting) unit.Bytes
}{
	{"saved fp32 64", func(f fact) *float64 { return f.SavedF32 }, func(s setting) unit.Bytes { return s.saved(64, nn.F32) }},
	{"saved AMP 64", func(f fact) *float64 { return f.SavedAMP }, func(s setting) unit.Bytes { return s.saved(64, nn.BF16) }},
	{"saved AMP 128", func(f fact) *float64 { return f.SavedAMP128 }, func(s setting) unit.Bytes { return s.saved(128, nn.BF16) }},
	{"peak fp32 64", func(f fact) *float64 { return f.PeakF32 }, func(s setting) unit.Bytes { return s.peak(64, nn.F32) }},
	{"peak AMP 64", func(f fact) *float64 { return f.PeakAMP }, func(s setting) unit.Bytes { return s.peak(64, nn.BF16) }},
	{"inference 128²", func(f fact) *float64 { return f.Eval128 }, func(s setting) unit.Bytes { return s.inference(128) }},
	{"inference 256²", func(f fact) *float64 { return f.Eval256 }, func(s setting) unit.Bytes { return s.inference(256) }},
	{"inference 512²", func(f fact) *float64 { return f.Eval512 }, func(s setting) unit.Bytes { return s.inference(512) }},
}

// A setting is what the study ran: a network, and PyTorch 1.13 or 2.
type setting struct {
	net    sisrarch.Network
	torch1 bool
}

func (s setting) tape(side int64, training bool) (*nn.Tape, nn.Tensor) {
	t := nn.NewTape()
	t.Dispatched, t.Torch1, t.UpsampleLow, t.Training = true, s.torch1, s.torch1, training
	return t, t.Hold(t.Input(nn.F32, 1, s.net.InCh, side, side))
}

func (s setting) train(side int64, low nn.DType) (saved, peak unit.Bytes) {
	t, x := s.tape(side, true)
	var y nn.Tensor
	t.Autocast(low, func() { y = t.Hold(t.Call("", x, s.net.Forward)) })
	before := t.Peak()
	t.Backward(t.Mean(t.Abs(y)))
	return before.Saved - before.SavedCasts, t.Peak().Bytes - x.Bytes()
}

func (s setting) saved(side int64, low nn.DType) unit.Bytes { b, _ := s.train(side, low); return b }
func (s setting) peak(side int64, low nn.DType) unit.Bytes  { _, b := s.train(side, low); return b }

func (s setting) inference(side int64) unit.Bytes {
	t, x := s.tape(side, false)
	t.NoGrad(func() {
		t.FreezeParams(func() { t.Autocast(nn.BF16, func() { t.Hold(t.Call("", x, s.net.Forward)) }) })
	})
	return withoutCasts(t.Peak()) - x.Bytes()
}

// build makes a fact's network. The error is sisrarch.ErrUnknown where the architecture has no formula.
func (f fact) build() (sisrarch.Network, error) {
	spec := sisrarch.Spec{Type: f.Type, Scale: f.Scale, Args: map[string]any{}}
	maps.Copy(spec.Args, f.Args)
	if s, ok := sources[f.Commit]; ok {
		spec.Source = []byte(s)
	}
	n, _, err := sisrarch.Build(spec)
	if err != nil || !f.Checkpointing {
		return n, err
	}
	if n.CheckpointArg == "" {
		return n, fmt.Errorf("activation checkpointing of it: %w", sisrarch.ErrUnknown)
	}
	spec.Args[n.CheckpointArg] = true
	n, _, err = sisrarch.Build(spec)
	return n, err
}

// check prices a fact. The error is sisrarch.ErrUnknown where the architecture has no formula.
func (f fact) check(rec record) (params int64, found []finding, err error) {
	n, err := f.build()
	if err != nil {
		return 0, nil, err
	}
	for _, fig := range figures {
		want := fig.want(f)
		if want == nil {
			continue
		}
		at := func(torch1 bool) finding {
			got := float64(fig.price(setting{n, torch1})) / (1 << 20)
			return finding{figure: fig.name, want: *want, got: got, off: got/(*want) - 1}
		}
		x := at(true) // the study ran PyTorch 1.13
		if !x.holds() {
			y := at(false)
			if y.holds() {
				x = y
			}
			x.why = rec.explained(f, n, x, y.got)
		}
		found = append(found, x)
	}
	return sisrarch.Parameters(n), found, nil
}

// A checked fact is what its check found.
type checked struct {
	fact
	params int64
	found  []finding
	err    error
}

// checkAll checks every fact, as many at a time as there are processors.
func checkAll(facts []fact, rec record) []checked {
	out := make([]checked, len(facts))
	var all sync.WaitGroup
	for i, f := range facts {
		all.Go(func() {
			params, found, err := f.check(rec)
			out[i] = checked{f, params, found, err}
		})
	}
	all.Wait()
	return out
}

// factsBroken lists figures that are neither reproduced nor explained.
func factsBroken(facts []checked) (out []string) {
	for _, f := range facts {
		params, found, err := f.params, f.found, f.err
		if errors.Is(err, sisrarch.ErrUnknown) {
			continue
		}
		if err != nil {
			out = append(out, fmt.Sprintf("%s: %v", f.Arch, err))
			continue
		}
		if params != f.Params {
			out = append(out, fmt.Sprintf("%s: %d parameters, the study has %d", f.Arch, params, f.Params))
		}
		for _, x := range found {
			if !x.holds() && x.why == "" {
				out = append(out, fmt.Sprintf("%s, %s: %.1f MiB, the study has %.1f (%+.2f %%), and nothing explains it", f.Arch, x.figure, x.got, x.want, 100*x.off))
			}
		}
	}
	return out
}

func factsTable(p *printer, facts []checked) {
	p.heading("Super-resolution networks against an earlier study")
	p.text("Figures of another hand: torch 1.13 on the meta device, MiB per sample. Reproduced: within half of its last digit or %.1f %%.", 100*reproduced)
	var lines [][]string
	var without []string
	for _, f := range facts {
		params, found, err := f.params, f.found, f.err
		if errors.Is(err, sisrarch.ErrUnknown) {
			without = append(without, f.Arch)
			continue
		}
		if err != nil {
			lines = append(lines, []string{f.Arch, err.Error(), "", ""})
			continue
		}
		equal := "exact"
		if params != f.Params {
			equal = fmt.Sprintf("%d, not %d", params, f.Params)
		}
		good, worst := 0, 0.0
		var rest []string
		for _, x := range found {
			if x.holds() {
				good++
				worst = math.Max(worst, math.Abs(x.off))
				continue
			}
			rest = append(rest, fmt.Sprintf("%s: %.1f, study %.1f (%s)", x.figure, x.got, x.want, orUnexplained(x.why)))
		}
		what := "–"
		if len(rest) > 0 {
			what = strings.Join(rest, "; ")
		}
		lines = append(lines, []string{f.Arch, equal, fmt.Sprintf("%d of %d", good, len(found)), what})
	}
	p.long("study", []string{"architecture", "parameters", "figures reproduced", "others"}, 4, lines,
		"With a figure that is not reproduced", func(r []string) bool { return r[3] != "–" })
	if len(without) > 0 {
		p.text("Without a formula: %s.", strings.Join(without, ", "))
	} else {
		p.text("None of them is without a formula.")
	}
}

func orUnexplained(why string) string {
	return cmp.Or(why, "not explained")
}

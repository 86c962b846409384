package arch

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/nn"
)

// A recording is what tools/capture wrote about a project's own classes.
type recording struct {
	Torch  string `json:"torch"`
	Commit string `json:"commit"`
	// Project is whose classes they are; none is traiNNer-redux or a fork of it.
	Project Project `json:"project"`
	Rows    []row   `json:"rows"`
}

type row struct {
	Name    string           `json:"name"`
	Args    map[string]any   `json:"args"`
	Shape   []int64          `json:"shape"`
	AMP     bool             `json:"amp"`
	Params  int64            `json:"params"`
	Buffers int64            `json:"buffers"`
	Saved   int64            `json:"saved"`
	Casts   int64            `json:"casts"`
	Peak    int64            `json:"peak"`
	PeakOp  string           `json:"peak_op"`
	Eval    map[string]int64 `json:"eval"`
}

func (r row) String() string { return fmt.Sprint(r.Name, " ", r.Args, " autocast ", r.AMP) }

func (r row) low() nn.DType {
	if r.AMP {
		return nn.BF16
	}
	return nn.F32
}

func recordings(t *testing.T, pattern string) []recording {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		t.Fatal("no recordings ", pattern, err)
	}
	var recs []recording
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var r recording
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatal(f, err)
		}
		recs = append(recs, r)
	}
	return recs
}

// sources stand for the arch files of ParagonSR2's generations, by the commit that was recorded: enough of the text
// for the network to be told.
var sources = map[string]string{
	"da033d99": "class EfficientSelfAttention",
	"069b6d59": "class EfficientSelfAttention\nclass LocalWindowAttention",
	"2f64430b": "class DynamicKernelGenerator\nhr_blocks",
	"933d5397": "class NanoBlock\nclass ProBlock\nclass TokenDictionaryCA\nclass UltimateBlock",
	"deafa14d": "class NanoBlock\nclass PhotoBlock",
	"1121aa15": "class NanoBlock\nclass PhotoBlock\nkw.pop(",
	"5a6cbb0c": "class NanoBlock\nclass PhotoBlock\nclass ATDBlock\nx_f32",
	"ea36e5c8": "class NanoBlock\nclass ProBlock\nclass TokenDictionaryCA\nclass ATDBlock\nkw.pop(\"window_size\", 8)",
	"921e57d1": "class NanoBlock\nclass ProBlock\nclass TokenDictionaryCA",
}

// A deviation collects how far the tape is from what was recorded.
type deviation struct {
	what string
	all  []float64
}

func (d *deviation) near(t *testing.T, r row, what string, got, want int64, under, over float64) {
	t.Helper()
	off := float64(got-want) / float64(max(want, 1))
	if off < -under || off > over {
		t.Errorf("%v: %s %d, PyTorch has %d (%+.2f %%; %s)", r, what, got, want, 100*off, r.PeakOp)
	}
	d.all = append(d.all, math.Abs(off))
}

func (d *deviation) log(t *testing.T) {
	t.Helper()
	slices.Sort(d.all)
	t.Logf("%s: %d rows, median %.2f %%, worst %.2f %%", d.what, len(d.all), 100*d.all[len(d.all)/2], 100*d.all[len(d.all)-1])
}

// TestNetworks compares every network with PyTorch's own account of upstream's class.
func TestNetworks(t *testing.T) {
	saved, peak, eval := deviation{what: "saved"}, deviation{what: "peak of a step"}, deviation{what: "peak of inference"}
	for _, rec := range recordings(t, "net_*.json") {
		for _, r := range rec.Rows {
			spec := Spec{Project: rec.Project, Type: r.Name, Scale: 4, Frames: r.Shape[1] / 3, Args: r.Args}
			if s, ok := sources[rec.Commit[:min(8, len(rec.Commit))]]; ok {
				spec.Source = []byte(s)
			}
			n, _, err := Build(spec)
			if err != nil {
				t.Error(err)
				continue
			}
			compare(t, r, n.Forward, n.Checkpointing, 0.02, &saved, &peak, &eval)
		}
	}
	saved.log(t)
	peak.log(t)
	eval.log(t)
}

// TestDiscriminators does the same for the discriminators.
func TestDiscriminators(t *testing.T) {
	saved, peak, eval := deviation{what: "saved"}, deviation{what: "peak of a step"}, deviation{what: "peak of inference"}
	for _, rec := range recordings(t, "disc_*.json") {
		for _, r := range rec.Rows {
			d, _, err := BuildDiscriminator(Spec{Project: rec.Project, Type: r.Name, Args: r.Args})
			if err != nil {
				t.Error(err)
				continue
			}
			compare(t, r, d.forward, false, 0.002, &saved, &peak, &eval)
		}
	}
	saved.log(t)
	peak.log(t)
	eval.log(t)
}

// withoutGradient are neosr's networks with parameters that no loss depends on: its attention runs under
// no_grad, or a block's result
// is not used.
var withoutGradient = map[string]bool{"flexnet": true, "metaflexnet": true, "ditn": true, "plainusr_ultra": true,
	"asid": true, "asid_d8": true}

// compare compares one row. under is by how much a peak may be under PyTorch's, of which it may be over by half as much again.
func compare(t *testing.T, r row, forward nn.Module, checkpointing bool, under float64, saved, peak, eval *deviation) {
	t.Helper()
	newTape := func(shape ...int64) (*nn.Tape, nn.Tensor) {
		tape := nn.NewTape()
		tape.Dispatched = true
		return tape, tape.Hold(tape.Input(nn.F32, shape...))
	}
	tape, x := newTape(r.Shape...)
	var y nn.Tensor
	tape.Autocast(r.low(), func() { y = tape.Hold(tape.Call("", x, forward)) })
	if size := tape.Size(); size.Params != r.Params || size.Buffers != r.Buffers {
		t.Errorf("%v: %d parameters and %d elements of buffers, PyTorch has %d and %d", r, size.Params, size.Buffers, r.Params,
			r.Buffers)
	}
	if !checkpointing { // a recording cannot see what the non-reentrant checkpoint keeps in a closure
		saved.near(t, r, "saved", int64(tape.Peak().Saved), r.Saved+r.Casts, under/2, under/2)
	}
	tape.Backward(tape.Mean(tape.Abs(y)))
	over := 1.5 * under
	if checkpointing { // what is recomputed is let go piece by piece
		over = 0.05
	}
	p := tape.Peak()
	peak.near(t, r, "peak of a step", int64(p.Bytes-x.Bytes()), r.Peak, under, over)
	// A gradient that is a view holds the whole: of Swin2SR's q_bias and v_bias, what torch.cat of three was given.
	own := tape.Size().GradBytes
	if withoutGradient[r.Name] && p.Gradients < own {
		own = p.Gradients
	}
	if p.Gradients < own || float64(p.Gradients-own) > 0.01*float64(own) {
		t.Errorf("%v: gradients of %v for parameters of %v", r, p.Gradients, tape.Size().GradBytes)
	}

	for side, want := range r.Eval {
		n, err := strconv.ParseInt(side, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		tape, x := newTape(1, r.Shape[1], n, n)
		tape.Training = false
		tape.NoGrad(func() {
			tape.FreezeParams(func() { tape.Autocast(r.low(), func() { tape.Hold(tape.Call("", x, forward)) }) })
		})
		eval.near(t, r, "peak of inference at "+side, int64(tape.Peak().Bytes-x.Bytes()), want, under, 1.5*under)
	}
}

// TestLosses compares the losses with PyTorch's own account of upstream's classes: of an image that requires a
// gradient, against one that does not.
func TestLosses(t *testing.T) {
	saved, peak := deviation{what: "saved"}, deviation{what: "peak of a step"}
	for _, rec := range recordings(t, "loss_*.json") {
		for _, r := range rec.Rows {
			compareLoss(t, r, Loss{Project: rec.Project, Type: r.Name, Args: r.Args}, &saved, &peak)
		}
	}
	saved.log(t)
	peak.log(t)
}

// compareLoss compares one row of a loss.
func compareLoss(t *testing.T, r row, l Loss, saved, peak *deviation) {
	t.Helper()
	f, err := l.build()
	if err != nil {
		t.Error(err)
		return
	}
	tape := nn.NewTape()
	tape.Dispatched = true
	image := tape.Param("image", r.Shape...)
	target := tape.Hold(tape.Input(nn.F32, r.Shape...))
	var loss nn.Tensor
	tape.Autocast(r.low(), func() {
		tape.Scope("", func() { loss = f(tape, image, target) }, image, target)
	})
	loss = tape.Hold(loss)
	if got := tape.Size().Params; got != r.Params {
		t.Errorf("%v: %d parameters, PyTorch has %d", r, got, r.Params)
	}
	got := tape.Peak()
	if want := r.Saved + r.Casts; want > 0 || got.Saved > 1024 {
		saved.near(t, r, "saved", int64(got.Saved), want, 0.005, 0.005)
	}
	tape.Backward(tape.Mean(tape.Abs(loss)))
	peak.near(t, r, "peak of a step", int64(tape.Peak().Bytes-target.Bytes()), r.Peak, 0.01, 0.02)
}

// TestNames looks for a recording or a stated equal of every name: a formula that nothing has checked is none.
func TestNames(t *testing.T) {
	checked := map[Project]map[string]bool{Redux: {}, BasicSR: {}, Neosr: {}}
	for _, rec := range recordings(t, "net_*.json") {
		for _, r := range rec.Rows {
			checked[rec.Project][r.Name] = true
		}
	}
	// The same constructors with other numbers.
	same := map[string]string{
		"ultracompact": "compact", "srvggnetcompact": "compact", "rrdbnet": "esrgan", "realplksr_large": "realplksr",
		"span_s": "span", "span_f32": "span", "span_f64": "span", "span_f96": "span", "paragonsr2_tiny": "paragonsr2_s",
		"artcnn": "artcnn_r8f64", "artcnn_r16f96": "artcnn_r8f64", "artcnn_r8f48": "artcnn_r8f64",
		"artcnn_r5f48": "artcnn_r8f64", "artcnn_r8f24": "artcnn_r8f64", "rcan_l": "rcan",
		"hat_m": "hat_s", "hat_l": "hat_s", "hat_m_aligned": "hat_s", "hat_l_aligned": "hat_s",
		"paragonsr2_m": "paragonsr2_s", "paragonsr2_xl": "paragonsr2_l", "hyperionsr_l": "hyperionsr_m",
		"paragonsr_m": "paragonsr_s", "paragonsr_l": "paragonsr_s", "paragonsr_xl": "paragonsr_s",
		"paragonsr2_static_xs": "paragonsr2_static_s", "paragonsr2_static_l": "paragonsr2_static_m",
		"paragonsr2_static_xl": "paragonsr2_static_m",
	}
	for _, n := range Names(Redux) {
		if !checked[Redux][n] && !checked[Redux][same[n]] {
			t.Errorf("%s: never compared with PyTorch", n)
		}
	}
	for _, n := range Names(Neosr) {
		if !checked[Neosr][n] {
			t.Errorf("neosr's %s: never compared with PyTorch", n)
		}
	}
	if !strings.Contains(strings.Join(Names(Redux), " "), "span") {
		t.Error("no names")
	}
}

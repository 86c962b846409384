package rows

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
	mocoarch "github.com/launch-ml/launch/plugins/moco/arch"
	sisrarch "github.com/launch-ml/launch/plugins/sisr/arch"
)

// Cards is what tools/capture/gpu.py has measured on one machine.
type Cards struct {
	Device string    `json:"device"` // "cuda", or "cpu" where a tracker stood in for the card
	Rows   []CardRow `json:"rows"`
	// Raw are the rows as they were written, with what is not read here.
	Raw []json.RawMessage `json:"-"`
}

// A CardSetting is a row of the script's grid.
type CardSetting struct {
	Source        string `json:"source"` // "ours", "torchvision", or a project by its name
	Net           string `json:"net"`
	Batch         int64  `json:"batch"`
	Size          int64  `json:"size"`
	Precision     string `json:"precision"`
	Checkpointing bool   `json:"checkpointing"`
	Optimizer     string `json:"optimizer"`
	// What the most valuable rows have beside: the memory format, cudnn.benchmark, and "gan", "ddp" (one rank) or
	// "validation" (three images of different sizes).
	ChannelsLast bool   `json:"channels_last,omitempty"`
	Benchmark    bool   `json:"benchmark,omitempty"`
	Kind         string `json:"kind,omitempty"`
}

func (s CardSetting) String() string {
	out := fmt.Sprintf("batch %d, %d², %s, %s", s.Batch, s.Size, s.Precision, s.Optimizer)
	for _, extra := range []struct {
		on   bool
		name string
	}{{s.Checkpointing, "checkpointing"}, {s.ChannelsLast, "channels_last"}, {s.Benchmark, "cudnn.benchmark"},
		{s.Kind != "", s.Kind}} {
		if extra.on {
			out += ", " + extra.name
		}
	}
	return out
}

// CardFacts are the machine of a measurement, and the day.
type CardFacts struct {
	Device     string     `json:"device"`
	Total      unit.Bytes `json:"total"`
	Capability string     `json:"capability"`
	Driver     string     `json:"driver"`
	Torch      string     `json:"torch"`
	Date       string     `json:"date"`
}

func (f CardFacts) String() string {
	return fmt.Sprintf("%s, driver %s, torch %s, %s", f.Device, f.Driver, f.Torch, f.Date)
}

// A CardRow is one row, measured.
type CardRow struct {
	Row       CardSetting `json:"row"`
	Facts     CardFacts   `json:"facts"`
	Overheads struct {
		// CuBLASAllocated is what the allocator handed out for the first product.
		CuBLASAllocated *unit.Bytes `json:"cublas_allocated"`
	} `json:"overheads"`
	Phases  map[string]Figures `json:"phases"`
	OOM     *Figures           `json:"oom"`
	Skipped string             `json:"skipped"`
	Error   string             `json:"error"`
}

// Context is what the process held beside its allocator's memory when its second step had ended: with the kernels that
// were loaded until then. ok is false where the driver reported no process's share.
func (r CardRow) Context() (b unit.Bytes, ok bool) {
	p := r.Phases["second optimizer step"]
	if p.Used == nil || p.ReservedNow == nil || *p.Used <= *p.ReservedNow {
		return 0, false
	}
	return *p.Used - *p.ReservedNow, true
}

// Figures are a phase's peaks; nil where nobody could say.
type Figures struct {
	Allocated *unit.Bytes `json:"allocated"`
	Reserved  *unit.Bytes `json:"reserved"`
	Used      *unit.Bytes `json:"used"`
	// ReservedNow is the allocator's at the phase's end, when Used was read.
	ReservedNow *unit.Bytes `json:"reserved_now"`
}

// Peak is the largest of each figure over the phases that the row's price is of: of a row of a validation that one,
// else the phases of the training, those after the first optimizer step included. What a program would print is the
// largest of all.
func (r CardRow) Peak() (f Figures) {
	larger := func(a, b *unit.Bytes) *unit.Bytes {
		if a == nil || b != nil && *b > *a {
			return b
		}
		return a
	}
	for name, p := range r.Phases {
		if name == "model" || (name == "validation") != (r.Row.Kind == "validation") || r.trials(name) {
			continue
		}
		f.Allocated, f.Reserved, f.Used = larger(f.Allocated, p.Allocated), larger(f.Reserved, p.Reserved), larger(f.Used, p.Used)
	}
	return f
}

// trials reports whether a phase's peaks hold the workspaces of cuDNN's trials: with cudnn.benchmark those are made in
// the first step, and given back (generate_and_filter_plans and run_single_conv in
// aten/src/ATen/native/cudnn/Conv_v8.cpp at 06ca69ca).
func (r CardRow) trials(phase string) bool { return r.Row.Benchmark && phase == firstPasses }

const (
	firstPasses = "forward and backward"
	laterPasses = "second forward and backward"
)

// Trials is the largest allocation of the first step with cudnn.benchmark, beside that of the second; ok is false for
// other rows.
func (r CardRow) Trials() (first, second unit.Bytes, ok bool) {
	a, b := r.Phases[firstPasses].Allocated, r.Phases[laterPasses].Allocated
	if !r.Row.Benchmark || r.Row.Kind == "validation" || a == nil || b == nil {
		return 0, 0, false
	}
	return *a, *b, true
}

// ReadCards reads what gpu.py wrote.
func ReadCards(path string) (c Cards, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	var raw struct{ Rows []json.RawMessage }
	if err := errors.Join(json.Unmarshal(data, &c), json.Unmarshal(data, &raw)); err != nil {
		return c, fmt.Errorf("read measurements %s: %w", path, err)
	}
	c.Raw = raw.Rows
	return c, nil
}

// network is the forward pass of a setting's network, and whether it classifies.
func (s CardSetting) network() (forward nn.Module, classes bool, err error) {
	switch s.Source {
	case "ours":
		forward, err = own(s.Net, s.Checkpointing)
		return forward, false, err
	case "torchvision":
		enc, err := mocoarch.Build(mocoarch.Torchvision, s.Net)
		if err != nil {
			return nil, true, err
		}
		return enc.Module(mocoarch.Options{Head: nn.Linear{Out: 1000}.Module()}), true, nil
	}
	n, _, err := sisrarch.Build(sisrarch.Spec{Type: s.Net, Scale: 4})
	return n.Forward, false, err
}

// The parts of a row's job.
const (
	trained = "network"
	judging = "discriminator"
)

// Price is launch's estimate of the row's training or validation: tensors, and as lines of their own what only a card
// knows.
func (r CardRow) Price() (e mem.Estimate, err error) {
	s := r.Row
	forward, classes, err := s.network()
	if err != nil {
		return e, err
	}
	t := nn.NewTape()
	if s.Kind == "validation" {
		s.validate(t, forward, classes)
	} else if err = s.step(t, forward, classes); err != nil {
		return e, err
	}
	var tensors mem.Tensors
	for _, part := range []string{trained, judging} {
		size := t.Size(part)
		if size.ParamBytes == 0 {
			continue
		}
		states := 2 * size.ParamBytes
		if s.Optimizer == "sgd" {
			states = size.ParamBytes
		}
		tensors.Add(mem.Item{Kind: mem.Parameters, What: part, Bytes: size.ParamBytes, Count: size.Params},
			mem.Item{Kind: mem.Buffers, What: part, Bytes: size.BufferBytes},
			mem.Item{Kind: mem.Optimizer, What: part, Bytes: states})
	}
	if s.Kind == "ddp" {
		tensors.Add(mem.Item{Kind: mem.Buffers, What: "DDP buckets", Bytes: t.Size(trained).GradBytes,
			From: "a second copy of the gradients (gradient_as_bucket_view=False)"})
	}
	tensors.AddPeak(t.Peak(), "images in float32")
	return tensors.OnCard(gpu.Device{Kind: gpu.CUDA, Name: r.Facts.Device, Capability: r.Facts.Capability, Total: r.Facts.Total}, mem.Caching{}), nil
}

// validate is the largest image of the row's validation, after its training: gpu.py, Job.validate.
func (s CardSetting) validate(t *nn.Tape, forward nn.Module, classes bool) {
	side := 4 * s.Size
	if classes {
		side = 2 * s.Size
	}
	t.Training = false
	x := t.Hold(t.Input(nn.F32, 1, 3, side, side))
	t.NoGrad(func() {
		t.Autocast(args{Precision: s.Precision}.amp(), func() { t.Part(trained, func() { t.Hold(t.Call("", x, forward)) }) })
	})
}

// step is a step of the row's training: gpu.py, Job.step.
func (s CardSetting) step(t *nn.Tape, forward nn.Module, classes bool) error {
	amp := args{Precision: s.Precision}.amp()
	var y, real, loss nn.Tensor
	judge, err := own("judge", false)
	if err != nil {
		return err
	}
	verdict := func(image nn.Tensor) nn.Tensor {
		said := t.Hold(t.Call("", image, judge))
		return t.BCEWithLogits(said, t.Hold(t.ZerosLike(said)))
	}
	x := t.Hold(t.Input(nn.F32, s.Batch, 3, s.Size, s.Size))
	t.Autocast(amp, func() {
		t.Part(trained, func() { y = t.Hold(t.Call("", x, forward)) })
		switch {
		case classes:
			loss = t.CrossEntropy(y, t.Zeros(nn.I64, s.Batch))
		case s.Kind == "gan":
			real = t.Hold(t.ZerosLike(y))
			loss = t.L1Loss(y, real)
			t.Part(judging, func() { t.FreezeParams(func() { loss = t.Add(loss, verdict(y)) }) })
		default:
			loss = t.L1Loss(y, t.ZerosLike(y))
		}
		loss = t.Hold(loss)
	})
	t.Part(trained, func() { t.Backward(loss) })
	if s.Kind == "gan" {
		t.Part(judging, func() {
			t.Autocast(amp, func() { loss = t.Hold(t.Add(verdict(real), verdict(t.Detach(y)))) })
			t.Backward(loss)
		})
	}
	s.optimize(t, trained)
	if s.Kind == "gan" {
		s.optimize(t, judging)
	}
	return nil
}

// optimize is the step of a part's optimizer, which works on lists: AdamW's root of a state is as large as the
// gradients.
func (s CardSetting) optimize(t *nn.Tape, part string) {
	temps := t.Size(part).GradBytes
	if s.Optimizer == "sgd" {
		temps = 0
	}
	t.OptimizerStep(part, temps)
}

// Sums of an estimate: of tensors, of what the allocator has handed out, of what it has reserved and of what the process
// uses where there is room for all that is cached.
func Sums(e mem.Estimate) (tensors, allocated, reserved, used unit.Bytes) {
	tensors = Price{Tensors: mem.Tensors{Estimate: e}}.Live()
	allocated = tensors + e.Of(mem.Workspace)
	reserved = max(allocated+e.Of(mem.Slack), e.Reserved+e.Of(mem.Workspace))
	return tensors, allocated, reserved, reserved + e.Of(mem.Context)
}

// own are the networks of gpu.py itself (its function ours).
func own(name string, recompute bool) (nn.Module, error) {
	var block nn.Module
	head, tail := nn.Conv{Out: 64, K: 3}.Module(), nn.Conv{Out: 3, K: 3}.Module()
	blocks := 16
	residual := func(norm bool) nn.Module {
		return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			y := t.Conv2d("c1", x, nn.Conv{Out: 64, K: 3})
			if norm {
				y = t.BatchNorm("n1", y, nn.BatchNorm{})
			}
			return t.Add(x, t.Conv2d("c2", t.ReLU(y), nn.Conv{Out: 64, K: 3}))
		}
	}
	switch name {
	case "plain", "judge":
		if name == "judge" {
			blocks = 4
		}
		block = func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return t.Sequential("", x, nn.Conv{Out: 64, K: 3}.Module(), func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.PReLU("weight", x, 64) })
		}
	case "residual":
		block = residual(false)
	case "residual bn":
		block = residual(true)
	case "attention", "fused attention":
		blocks = 6
		head = nn.Conv{Out: 192, K: 4, Stride: 4, Valid: true}.Module()
		tail = func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return t.PixelShuffle(t.Conv2d("0", x, nn.Conv{Out: 48, K: 1}), 4)
		}
		block = tokens(192, 6, name == "fused attention")
	default:
		return nil, fmt.Errorf("gpu.py's network %q has no formula", name)
	}
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		x = t.Rebind(x, t.Call("head", x, head))
		for i := range blocks {
			path := fmt.Sprint("blocks.", i)
			if recompute && t.Training {
				x = t.Rebind(x, t.Checkpoint(path, x, block))
			} else {
				x = t.Rebind(x, t.Call(path, x, block))
			}
		}
		return t.Call("tail", x, tail)
	}, nil
}

// tokens is a pre-norm transformer block over the pixels of an image.
func tokens(c, heads int64, fused bool) nn.Module {
	return func(t *nn.Tape, img nn.Tensor) nn.Tensor {
		b, h, w := img.Dim(0), img.Dim(2), img.Dim(3)
		n := h * w
		x := t.Transpose(t.View(img, b, c, n), 1, 2)
		attended := t.Call("", t.LayerNorm("n1", x), func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			qkv := t.Unbind(t.Permute(t.View(t.Linear("qkv", x, 3*c, true), b, n, 3, heads, c/heads), 2, 0, 3, 1, 4))
			q, k, v := t.Hold(qkv[0]), t.Hold(qkv[1]), t.Hold(qkv[2])
			var y nn.Tensor
			if fused {
				y = t.SDPA(q, k, v)
			} else {
				y = t.Matmul(t.Softmax(t.MulScalar(t.Matmul(q, t.Transpose(k, -2, -1)))), v)
			}
			return t.Linear("proj", t.Reshape(t.Transpose(y, 1, 2), b, n, c), c, true)
		})
		x = t.Hold(t.Add(x, attended))
		y := t.Linear("up", t.LayerNorm("n2", x), 4*c, true)
		x = t.Rebind(x, t.Add(x, t.Linear("down", t.GELU(y), c, true)))
		return t.Reshape(t.Transpose(x, 1, 2), b, c, h, w)
	}
}

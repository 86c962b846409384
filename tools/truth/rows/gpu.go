package rows

import (
	"encoding/json"
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
}

func (s CardSetting) String() string {
	out := fmt.Sprintf("batch %d, %d², %s, %s", s.Batch, s.Size, s.Precision, s.Optimizer)
	if s.Checkpointing {
		out += ", checkpointing"
	}
	return out
}

// A CardRow is one row, measured.
type CardRow struct {
	Row   CardSetting `json:"row"`
	Facts struct {
		Device     string     `json:"device"`
		Total      unit.Bytes `json:"total"`
		Capability string     `json:"capability"`
		Driver     string     `json:"driver"`
		Torch      string     `json:"torch"`
		Date       string     `json:"date"`
	} `json:"facts"`
	Phases  map[string]Figures `json:"phases"`
	OOM     *Figures           `json:"oom"`
	Skipped string             `json:"skipped"`
	Error   string             `json:"error"`
}

// Figures are a phase's peaks; nil where nobody could say.
type Figures struct {
	Allocated *unit.Bytes `json:"allocated"`
	Reserved  *unit.Bytes `json:"reserved"`
	Used      *unit.Bytes `json:"used"`
}

// Peak is the largest of each figure over the phases of the training: what comes behind the first optimizer step counts.
func (r CardRow) Peak() (f Figures) {
	larger := func(a, b *unit.Bytes) *unit.Bytes {
		if a == nil || b != nil && *b > *a {
			return b
		}
		return a
	}
	for name, p := range r.Phases {
		if name == "model" || name == "validation" {
			continue
		}
		f.Allocated, f.Reserved, f.Used = larger(f.Allocated, p.Allocated), larger(f.Reserved, p.Reserved), larger(f.Used, p.Used)
	}
	return f
}

// ReadCards reads what gpu.py wrote.
func ReadCards(path string) (c Cards, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("read measurements %s: %w", path, err)
	}
	return c, nil
}

// Price is launch's estimate of the row's training: tensors, and as lines of their own what only a card knows.
func (r CardRow) Price() (e mem.Estimate, err error) {
	s := r.Row
	amp := args{Precision: s.Precision}.amp()
	var forward nn.Module
	classes := s.Source == "torchvision"
	switch s.Source {
	case "ours":
		forward, err = own(s.Net, s.Checkpointing)
	case "torchvision":
		var enc mocoarch.Encoder
		if enc, err = mocoarch.Build(mocoarch.Torchvision, s.Net); err == nil {
			forward = enc.Module(mocoarch.Options{Head: nn.Linear{Out: 1000}.Module()})
		}
	default:
		var n sisrarch.Network
		if n, _, err = sisrarch.Build(sisrarch.Spec{Type: s.Net, Scale: 4}); err == nil {
			forward = n.Forward
		}
	}
	if err != nil {
		return e, err
	}
	t := nn.NewTape()
	const net = "network"
	var loss nn.Tensor
	x := t.Hold(t.Input(nn.F32, s.Batch, 3, s.Size, s.Size))
	t.Autocast(amp, func() {
		var y nn.Tensor
		t.Part(net, func() { y = t.Hold(t.Call("", x, forward)) })
		if classes {
			loss = t.CrossEntropy(y, t.Zeros(nn.I64, s.Batch))
		} else {
			loss = t.L1Loss(y, t.ZerosLike(y))
		}
		loss = t.Hold(loss)
	})
	t.Part(net, func() { t.Backward(loss) })
	size := t.Size(net)
	states, temps := 2*size.GradBytes, size.GradBytes
	if s.Optimizer == "sgd" {
		states, temps = size.GradBytes, 0
	}
	t.OptimizerStep(net, temps)
	var tensors mem.Tensors
	tensors.Add(mem.Item{Kind: mem.Parameters, What: net, Bytes: size.ParamBytes, Count: size.Params}, mem.Item{Kind: mem.Buffers, What: net, Bytes: size.BufferBytes},
		mem.Item{Kind: mem.Optimizer, What: net, Bytes: states})
	tensors.AddPeak(t.Peak(), "images in float32")
	return tensors.OnCard(gpu.Device{Kind: gpu.CUDA, Name: r.Facts.Device, Capability: r.Facts.Capability, Total: r.Facts.Total}, mem.Caching{}), nil
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
	case "plain":
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

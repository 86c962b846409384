package arch

import (
	"fmt"
	"strings"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// A Project is one of the family's training steps.
type Project int

const (
	V2       Project = iota // facebookresearch/moco: v1 and v2
	V3                      // facebookresearch/moco-v3
	Solar                   // solar-ssl/moco-v3, main
	SolarK2                 // the same on 2026-02-05: it enqueues the keys of the second crop only
	SolarExp                // the same, branch experiment--large-batch-size: no queue, keys in eval mode
)

// A Step is a training step of one process on one device.
type Step struct {
	Project Project
	Encoder Encoder
	Batch   int64 // images of this process: the micro-batch
	World   int64 // processes that share a step
	DDP     bool  // the model is wrapped in DistributedDataParallel, by one process too
	Image   int64 // side of a crop
	Dim     int64 // of a feature: --moco-dim, feature_dim
	MLPDim  int64 // --moco-mlp-dim, mlp_dim
	MLP     bool  // v2's --mlp
	K       int64 // length of the queue
	Queue   bool  // the loss reads it (of V2 always)
	// FrozenStem is stop_grad_conv1, which solar-ssl's main always sets.
	FrozenStem bool
	AMP        nn.DType // F16 or BF16 inside autocast, F32 outside
	Optimizer  string   // "sgd", "lars", "adamw"
	Accumulate int64
	// Checkpoint is the size of a saved state that stays on the card while the training runs; 0 for none.
	Checkpoint unit.Bytes
	Torch1     bool // PyTorch 1.13
}

// Training is the estimate of a step in the steady state, when gradients and optimizer states are there. Sizes that the
// encoder cannot have are an unknown estimate.
func Training(s Step) (e mem.Tensors) {
	defer mem.Refused(&e, s.asked)
	s.Queue = s.Queue || s.Project == V2
	t := nn.NewTape()
	s.record(t)
	e.Add(s.resident(t)...)
	e.AddPeak(t.Peak(), fmt.Sprintf("two crops an image of 3 × %d² in float32", s.Image))
	return e
}

// asked is the step in words.
func (s Step) asked() string {
	return fmt.Sprintf("a micro-batch of %d with images of %d", s.Batch, s.Image)
}

// The names of the parts, on the tape and in a ledger: alike in all projects, whatever their modules are called.
const (
	partBatch = "batch"
	partQuery = "query encoder" // with its projector and its predictor
	partKey   = "key encoder"
	partQueue = "queue"
)

func (s Step) query() string { return partQuery }
func (s Step) key() string   { return partKey }

// module is the project's own name for an encoder, which the paths of its requests have.
func (s Step) module(key bool) string {
	if key {
		return [...]string{"encoder_k", "momentum_encoder", "base_model_k", "base_model_k", "base_model_k"}[s.Project]
	}
	return [...]string{"encoder_q", "base_encoder", "base_model", "base_model", "base_model"}[s.Project]
}

// record puts a step on the tape.
func (s Step) record(t *nn.Tape) {
	t.Torch1, t.UpsampleLow = s.Torch1, s.Torch1
	var x1, x2 nn.Tensor
	t.Part(partBatch, func() {
		x1 = t.Hold(t.Input(nn.F32, s.Batch, 3, s.Image, s.Image))
		x2 = t.Hold(t.Input(nn.F32, s.Batch, 3, s.Image, s.Image))
	})
	if s.keepsGradients() {
		t.KeepGradients(s.query())
	}
	var loss nn.Tensor
	t.Autocast(s.AMP, func() {
		t.Scope("", func() {
			switch s.Project {
			case V2:
				loss = s.forwardV2(t, x1, x2)
			case V3:
				loss = s.forwardV3(t, x1, x2)
			default:
				loss = s.forwardSolar(t, x1, x2)
			}
			loss = t.Hold(loss)
		}, x1, x2)
	})
	if s.Project != Solar && !s.Torch1 { // zero_grad stands between forward and backward, and frees from torch 2.0 on
		t.ZeroGrad(s.query())
	}
	t.Part(s.query(), func() { t.Backward(loss) })
	t.OptimizerStep(s.query(), s.optimizer().temps*t.Size(s.query()).GradBytes)
}

// keepsGradients says whether the gradients of the step before are there during the forward. moco, moco-v3 and solar-ssl
// before accumulation call zero_grad between forward and backward; solar-ssl's main after the step, which frees them
// from torch 2.0 on (set_to_none), unless they are being accumulated.
func (s Step) keepsGradients() bool {
	return s.Project != Solar || s.Accumulate > 1 || s.Torch1
}

// encode calls an encoder with what stands behind it, the projector included.
func (s Step) encode(t *nn.Tape, x nn.Tensor, key bool) nn.Tensor {
	o := Options{FrozenStem: s.FrozenStem, Head: s.head()}
	if s.Project != V2 && s.Project != SolarExp { // convert_sync_batchnorm, of which one process makes a plain one
		o.Ranks = s.World
	}
	part, frozen := s.query(), false
	if key {
		part, frozen = s.key(), true
	}
	var y nn.Tensor
	t.Part(part, func() {
		if !frozen {
			y = t.Call(s.module(key), x, s.Encoder.Module(o))
			return
		}
		t.FreezeParams(func() {
			training := t.Training
			t.Training = training && s.Project != SolarExp
			y = t.Call(s.module(key), x, s.Encoder.Module(o))
			t.Training = training
		})
	})
	return y
}

// head is what the project puts behind the features of both encoders.
func (s Step) head() nn.Module {
	switch s.Project {
	case V2: // fc, or with --mlp Sequential(Linear, ReLU, fc) (moco/builder.py:35-42)
		return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			if s.MLP {
				x = t.Linear("0", x, x.Dim(1), true)
				x = t.ReLU(x)
				return t.Linear("2", x, s.Dim, true)
			}
			return t.Linear("", x, s.Dim, true)
		}
	case V3: // _build_mlp: two layers behind a resnet, three behind a transformer (moco/builder.py:95-121)
		layers := 3
		if s.Encoder.HeadName == "fc" {
			layers = 2
		}
		return s.mlp(layers, lastNorm{norm: true})
	case SolarExp: // projector_q: the last layer has a bias and no norm (src/models/moco_v3.py:59-68 at 023a7ec)
		return s.mlp(3, lastNorm{bias: true})
	}
	return s.mlp(3, lastNorm{norm: true, affine: true}) // projector_q (src/models/moco_v3.py:37-46 at d3649f9)
}

// predictor is the query's own last MLP, of two layers; v2 has none.
func (s Step) predictor() nn.Module {
	switch {
	case s.Project == V3 && s.Encoder.HeadName == "fc":
		return s.mlp(2, lastNorm{})
	case s.Project == V3:
		return s.mlp(2, lastNorm{norm: true})
	case s.Project == SolarExp:
		return s.mlp(2, lastNorm{bias: true})
	}
	return s.mlp(2, lastNorm{norm: true, affine: true})
}

// lastNorm says what an MLP's last layer has.
type lastNorm struct{ norm, affine, bias bool }

// mlp is a Sequential of linear layers without bias, each followed by BatchNorm1d and ReLU(inplace=True) but the last.
func (s Step) mlp(layers int, last lastNorm) nn.Module {
	ranks := s.World
	if s.Project == SolarExp {
		ranks = 1
	}
	var ms []nn.Module
	for range layers - 1 {
		ms = append(ms, nn.Linear{Out: s.MLPDim, NoBias: true}.Module(), nn.BatchNorm{Ranks: ranks}.Module(), (*nn.Tape).ReLUInplace)
	}
	ms = append(ms, nn.Linear{Out: s.Dim, NoBias: !last.bias}.Module())
	if last.norm {
		ms = append(ms, nn.BatchNorm{NoAffine: !last.affine, Ranks: ranks}.Module())
	}
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Sequential("", x, ms...) }
}

// forwardV2 is MoCo.forward (moco/builder.py:127-172) and the loss.
func (s Step) forwardV2(t *nn.Tape, imQ, imK nn.Tensor) nn.Tensor {
	q := s.encode(t, imQ, false)
	q = t.Hold(t.Rebind(q, normalize(t, q)))
	var k nn.Tensor
	t.NoGrad(func() {
		s.momentumUpdate(t)
		t.Line("x_gather[idx_this]")
		imK = t.Hold(t.Copy("index", s.gather(t, imK), imK.Shape()...))
		k = s.encode(t, imK, true)
		k = t.Rebind(k, normalize(t, k))
		k = t.Hold(t.Rebind(k, t.Copy("index", s.gather(t, k), k.Shape()...)))
	})
	var loss nn.Tensor
	t.Part(lossPart, func() {
		logits, labels := s.queueLogits(t, q, k)
		loss = t.CrossEntropy(logits, labels)
	})
	return loss
}

// forwardV3 is MoCo.forward (moco/builder.py:75-98).
func (s Step) forwardV3(t *nn.Tape, x1, x2 nn.Tensor) nn.Tensor {
	q1, q2 := s.predict(t, x1), s.predict(t, x2)
	var k1, k2 nn.Tensor
	t.NoGrad(func() {
		s.momentumUpdate(t)
		k1, k2 = t.Hold(s.encode(t, x1, true)), t.Hold(s.encode(t, x2, true))
	})
	return t.Add(s.batchLoss(t, q1, k2), s.batchLoss(t, q2, k1))
}

// forwardSolar is MoCoV3.forward (src/models/moco_v3.py:126-163 at d3649f9): the key encoder is updated first.
func (s Step) forwardSolar(t *nn.Tape, x1, x2 nn.Tensor) nn.Tensor {
	t.NoGrad(func() { s.momentumUpdate(t) })
	q1, q2 := s.predict(t, x1), s.predict(t, x2)
	var k1, k2, keys nn.Tensor
	t.NoGrad(func() {
		k1, k2 = t.Hold(s.encode(t, x1, true)), t.Hold(s.encode(t, x2, true))
		keys = k2
		if s.Project == Solar {
			keys = t.Cat(0, t.Hold(normalize(t, k1)), t.Hold(normalize(t, k2)))
		}
	})
	loss := t.Hold(t.Add(s.batchLoss(t, q1, k2), s.batchLoss(t, q2, k1)))
	if s.Queue {
		t.NoGrad(func() { s.gather(t, keys) })
	}
	if s.Project == Solar { // loss / gradient_accumulation_steps
		loss = t.DivScalar(loss)
	}
	return loss
}

// predict is the query's features behind its predictor.
func (s Step) predict(t *nn.Tape, x nn.Tensor) (q nn.Tensor) {
	y := s.encode(t, x, false)
	t.Part(s.query(), func() { q = t.Hold(t.Call("predictor", y, s.predictor())) })
	return q
}

// momentumUpdate is _update_momentum_encoder: param_k.data = param_k.data * m + param_q.data * (1. - m) makes three
// temporaries of a parameter's size, one of which becomes the parameter. The largest parameter of the encoder decides.
func (s Step) momentumUpdate(t *nn.Tape) {
	n := int64(s.largestParam()) / 4
	t.Part(s.key(), func() {
		t.Scope("", func() {
			t.Line("param_k.data = param_k.data * m + param_q.data * (1. - m)")
			t.Hold(t.Zeros(nn.F32, n))
			t.Hold(t.Zeros(nn.F32, n))
			t.Hold(t.Zeros(nn.F32, n))
		})
	})
}

// largestParam is the size of the largest parameter of an encoder with its head.
func (s Step) largestParam() unit.Bytes {
	t := nn.NewTape()
	one := s
	one.Batch = 1
	t.NoGrad(func() { one.encode(t, t.Input(nn.F32, 1, 3, s.Image, s.Image), false) })
	return t.LargestParam()
}

// gather is concat_all_gather: a list of one tensor a rank, then their concatenation.
func (s Step) gather(t *nn.Tape, x nn.Tensor) nn.Tensor {
	if s.World <= 1 && (s.Project == Solar || s.Project == SolarK2 || s.Project == SolarExp) && !s.DDP {
		return x // not initialised
	}
	return t.Within("", func() nn.Tensor {
		t.Line("tensors_gather = [torch.ones_like(tensor) for _ in range(world_size)]")
		var list []nn.Tensor
		for range max(s.World, 1) {
			list = append(list, t.Hold(t.ZerosLike(x)))
		}
		t.Line("torch.cat(tensors_gather, dim=0)")
		return t.Cat(0, list...)
	}, x)
}

// queueLogits are the positive logits beside those against the whole queue, and their labels.
func (s Step) queueLogits(t *nn.Tape, q, k nn.Tensor) (logits, labels nn.Tensor) {
	n := q.Dim(0)
	var queue nn.Tensor
	t.Part(s.key(), func() {
		queue = t.Buffer("queue", nn.F32, s.Dim, s.K)
		t.Buffer("queue_ptr", nn.I64, 1)
	})
	t.Line("l_pos = torch.einsum('nc,nc->n', [q, k]).unsqueeze(-1)")
	pos := t.Hold(t.View(t.Bmm(t.View(q, n, 1, s.Dim), t.View(k, n, s.Dim, 1)), n, 1))
	t.Line("l_neg = torch.einsum('nc,ck->nk', [q, self.queue.clone().detach()])")
	clone := t.Copy("clone", queue, s.Dim, s.K)
	neg := t.Within("", func() nn.Tensor {
		return t.View(t.Bmm(t.View(q, 1, n, s.Dim), t.View(clone, 1, s.Dim, s.K)), n, s.K)
	}, clone)
	neg = t.Hold(neg)
	t.Line("logits = torch.cat([l_pos, l_neg], dim=1)")
	logits = t.Hold(t.Cat(1, pos, neg)) // logits /= self.T is in place
	labels = t.Hold(t.Indices(n))
	return logits, labels
}

// batchLoss is contrastive_loss: against the queue, or against the keys of the batch.
func (s Step) batchLoss(t *nn.Tape, q, k nn.Tensor) (loss nn.Tensor) {
	t.Part(lossPart, func() { loss = s.contrast(t, q, k) })
	return loss
}

// lossPart is what belongs to neither encoder.
const lossPart = "loss"

func (s Step) contrast(t *nn.Tape, q, k nn.Tensor) (loss nn.Tensor) {
	t.Scope("contrastive_loss", func() {
		q, k := t.Hold(normalize(t, q)), t.Hold(normalize(t, k))
		if s.Queue {
			logits, labels := s.queueLogits(t, q, k)
			loss = t.CrossEntropy(logits, labels)
			return
		}
		if s.Project == V3 || s.Project == SolarExp {
			k = t.Hold(s.gather(t, k))
		}
		n, m := q.Dim(0), k.Dim(0)
		logits := t.Bmm(t.View(q, 1, n, s.Dim), t.Permute(t.View(k, 1, m, s.Dim), 0, 2, 1))
		logits = t.Hold(t.DivScalar(t.View(logits, n, m)))
		loss = t.MulScalar(t.CrossEntropy(logits, t.Hold(t.Indices(n))))
	}, q, k)
	return loss
}

// normalize is torch.nn.functional.normalize(x, dim=1): x / x.norm(2, 1, keepdim=True).clamp_min(eps).expand_as(x).
func normalize(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Within("", func() nn.Tensor {
		norm := t.Hold(t.Expand(t.Clamp(t.Norm(x, 1)), x.Shape()...))
		return t.Div(x, norm)
	}, x)
}

// An optimizer keeps states of the size of the trainable parameters, in float32, and needs more while it steps.
type optimizer struct{ states, temps unit.Bytes }

// optimizer is torch's SGD with momentum (one state; the foreach form adds the weight decay to a copy of the gradients),
// moco-v3's LARS (mu, one parameter at a time) or torch's AdamW (exp_avg and exp_avg_sq; the foreach form makes their
// root).
func (s Step) optimizer() optimizer {
	switch strings.ToLower(s.Optimizer) {
	case "adamw":
		return optimizer{2, 1}
	case "lars":
		return optimizer{1, 0}
	}
	return optimizer{1, 1}
}

// resident is what stays on the card from the first optimizer step on.
func (s Step) resident(t *nn.Tape) []mem.Item {
	q, k := t.Size(s.query()), t.Size(s.key())
	from := s.Encoder.Name + ", counted"
	items := []mem.Item{
		{Kind: mem.Parameters, What: partQuery, Bytes: q.ParamBytes, Count: q.Params, From: from},
		{Kind: mem.Parameters, What: partKey, Bytes: k.ParamBytes, Count: k.Params, From: from + ": the momentum encoder is a second copy"},
		{Kind: mem.Buffers, What: partQuery, Bytes: q.BufferBytes, Count: q.Buffers, From: from},
	}
	queue := unit.Bytes(0)
	if s.K > 0 && (s.Queue || s.Project == Solar) { // solar's main registers it, used or not
		queue = unit.Bytes(s.Dim*s.K*4 + 8)
		items = append(items, mem.Item{Kind: mem.Buffers, What: partQueue, Bytes: queue, Count: s.Dim*s.K + 1,
			From: fmt.Sprintf("%d keys of %d numbers in float32", s.K, s.Dim)})
	}
	if s.Queue {
		k.BufferBytes -= queue
		k.Buffers -= s.Dim*s.K + 1
	}
	o := s.optimizer()
	items = append(items,
		mem.Item{Kind: mem.Buffers, What: partKey, Bytes: k.BufferBytes, Count: k.Buffers, From: from},
		mem.Item{Kind: mem.Optimizer, What: partQuery, Bytes: o.states * q.GradBytes, Count: int64(o.states) * q.Trainable,
			From: fmt.Sprintf("%s: %d float32 states a trainable parameter, from the first optimizer step on", s.Optimizer, o.states)})
	if s.DDP {
		items = append(items, mem.Item{Kind: mem.Buffers, What: "DDP buckets", Bytes: q.GradBytes, Count: q.Trainable,
			From: "DistributedDataParallel's, a second copy of the gradients (gradient_as_bucket_view=False)"})
	}
	if s.Checkpoint > 0 {
		items = append(items, mem.Item{Kind: mem.Late, What: "saved state", Bytes: s.Checkpoint,
			From: "--resume loads it onto the card, where a local variable of main_worker keeps it to the end"})
	}
	return items
}

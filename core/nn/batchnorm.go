package nn

// A BatchNorm describes a torch.nn.BatchNorm1d or BatchNorm2d that is not the plain one of [Tape.BatchNorm2d].
type BatchNorm struct {
	NoAffine bool  // affine=False: neither weight nor bias
	Ranks    int64 // of a SyncBatchNorm: more than one process shares the statistics
}

// Module is the layer as a module.
func (b BatchNorm) Module() Module {
	return func(t *Tape, x Tensor) Tensor { return t.batchNorm(x, b) }
}

// BatchNorm is the layer under that name, over dimension 1 of (n, c) or (n, c, h, w). As BatchNorm2d it is on none of
// autocast's lists.
//
// Saved: input, mean and inverse deviation in float32 (derivatives.yaml, native_batch_norm); by a SyncBatchNorm the
// same (SyncBatchNorm.forward in torch/nn/modules/_functions.py: save_for_backward), whose forward gathers
// 2·c + 1 numbers from every rank.
func (t *Tape) BatchNorm(name string, x Tensor, b BatchNorm) Tensor {
	defer t.under(name)()
	return t.batchNorm(x, b)
}

func (t *Tape) batchNorm(x Tensor, b BatchNorm) Tensor {
	c := x.Dim(1)
	var weight, bias Tensor
	if !b.NoAffine {
		weight, bias = t.Param("weight", c), t.Param("bias", c)
	}
	t.Buffer("running_mean", F32, c)
	t.Buffer("running_var", F32, c)
	t.Buffer("num_batches_tracked", I64)
	name := "torch.nn.functional.batch_norm"
	if b.Ranks > 1 {
		name = "torch.nn.SyncBatchNorm"
		x = t.Contiguous(x)
	}
	o := t.op(name, x, weight, bias)
	y := o.out(x.like(x))
	mean, rstd := o.out(Tensor{}.resized(c)), o.out(Tensor{}.resized(c))
	if b.Ranks > 1 {
		o.tmp((b.Ranks + 1) * (2*c + 1) * 4) // combined, and its list
	}
	return o.ends(y, func() {
		o.save(x, mean, rstd)
		o.fresh(x, x)
		o.fresh(weight, weight)
		o.fresh(bias, bias)
	}, x, weight, bias)
}

// MaxPool2dPadded is torch.nn.MaxPool2d(k, stride, padding). Saved: as [Tape.MaxPool2d], whose index of each maximum is
// int64 under autocast too.
func (t *Tape) MaxPool2dPadded(x Tensor, k, stride, pad int64) Tensor {
	return t.maxPool("torch.nn.functional.max_pool2d", x, (x.Dim(2)+2*pad-k)/stride+1, (x.Dim(3)+2*pad-k)/stride+1)
}

package arch

import "github.com/launch-ml/launch/core/nn"

// normOrAffine is a LayerNorm under that name, or what the networks with i-LN have in its place: AffineTransform, a weight
// and a bias alone (hat_iln_arch.py and dat_iln_arch.py at 68629319).
func normOrAffine(t *nn.Tape, name string, x nn.Tensor, iln bool) nn.Tensor {
	if !iln {
		return t.LayerNorm(name, x)
	}
	return t.Call(name, x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		c := x.Dim(-1)
		return t.Add(t.Mul(t.Param("weight", c), x), t.Param("bias", c))
	})
}

// restored is a LayerNorm under that name, or iLN (traiNNer/archs/arch_util.py at 68629319), which normalises all of an
// image at once and returns its deviation too, for what comes of it to be multiplied with. Of the small tensors around the
// running deviation none is here: they have one element an image.
func restored(t *nn.Tape, name string, x nn.Tensor, iln bool) (y, std nn.Tensor) {
	if !iln {
		return t.LayerNorm(name, x), nn.Tensor{}
	}
	y = t.Call(name, x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		b, c := x.Dim(0), x.Dim(2)
		w, bias := t.Param("weight", c), t.Param("bias", c)
		t.Buffer("std_ema", nn.F32, 1)
		flat := t.Hold(t.View(x, b, x.Dim(1)*c))
		mean := t.Hold(t.View(t.MeanDim(flat, 1), b, 1, 1))
		dev := t.Hold(t.Sqrt(t.AddScalar(t.View(t.VarDim(flat, 1), b, 1, 1))))
		std = t.Hold(t.MulScalar(t.To(dev, nn.F32))) // the lesser of it and twice the running one, which is float32
		normed := t.Hold(t.Div(t.Sub(x, mean), dev))
		return t.Add(t.Mul(w, normed), bias)
	})
	return y, t.Hold(std)
}

// rescaled is std * y where there is one.
func rescaled(t *nn.Tape, std, y nn.Tensor) nn.Tensor {
	if std.Dims() == 0 {
		return y
	}
	return t.Mul(std, y)
}

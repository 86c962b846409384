package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// PLKSR (Lee et al., 2024), as traiNNer-redux builds it from spandrel 0.4.2 (architectures/PLKSR/__arch/PLKSR.py;
// defaults in traiNNer/archs/plksr_arch.py at 68629319).
var _ = entry(func() {
	plksr := func(blocks, kernel int64, ea bool) builder {
		return func(s Spec, a *args) Network {
			n := plksr{
				scale: s.Scale, dim: a.int("dim", 64), blocks: a.int("n_blocks", blocks), ccm: a.string("ccm_type", "DCCM"),
				kernel: a.int("kernel_size", kernel), lk: a.string("lk_type", "PLK"),
				maxKernel: a.bool("use_max_kernel", false), idt: a.bool("with_idt", false), ea: a.bool("use_ea", ea),
				sparse: a.ints("sparse_kernels", 5, 5, 5, 5), dilations: a.ints("sparse_dilations", 1, 2, 3, 4),
			}
			n.pdim = int64(float64(n.dim) * a.float("split_ratio", 0.25))
			switch n.lk {
			case "PLK", "SparsePLK", "RectSparsePLK":
			default:
				reject("unknown LK type: %s", n.lk)
			}
			switch n.ccm {
			case "CCM", "ICCM", "DCCM":
			default:
				reject("unknown CCM type: %s", n.ccm)
			}
			if len(n.sparse) != len(n.dilations) {
				n.sparse = n.sparse[:min(len(n.sparse), len(n.dilations))] // zip stops at the shorter
			}
			return Network{Forward: n.forward}
		}
	}
	register(plksr(28, 17, true), "plksr")
	register(plksr(12, 13, false), "plksr_tiny")
})

type plksr struct {
	scale, dim, blocks, kernel, pdim int64
	ccm, lk                          string
	maxKernel, idt, ea               bool
	sparse, dilations                []int64
}

func (n plksr) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	ms := []nn.Module{conv(n.dim, 3).Module()}
	ms = append(ms, nn.Repeat(n.block, n.blocks)...)
	ms = append(ms, conv(3*n.scale*n.scale, 3).Module())
	x = t.Rebind(x, t.Add(t.Sequential("feats", x, ms...), repeatInterleave(t, x, n.scale*n.scale)))
	return t.PixelShuffle(x, n.scale)
}

// repeatInterleave is torch.repeat_interleave over channels.
func repeatInterleave(t *nn.Tape, x nn.Tensor, repeats int64) nn.Tensor {
	return t.Copy("torch.repeat_interleave", x, x.Dim(0), x.Dim(1)*repeats, x.Dim(2), x.Dim(3))
}

// block is PLKBlock. Upstream's attribute is spelled channe_mixer.
func (n plksr) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	k1, k2 := int64(3), int64(3) // DCCM
	switch n.ccm {
	case "CCM":
		k2 = 1
	case "ICCM":
		k1 = 1
	}
	xSkip := x
	x = t.Sequential("channe_mixer", x, conv(2*n.dim, k1).Module(), (*nn.Tape).GELU, conv(n.dim, k2).Module())
	x = t.Rebind(x, t.Call("lk", x, n.largeKernel))
	if n.ea {
		x = t.Call("attn", x, elementwiseAttention)
	}
	x = t.Conv2d("refine", x, conv(n.dim, 1))
	return t.Add(x, xSkip)
}

// elementwiseAttention is EA.
func elementwiseAttention(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Mul(x, t.Sequential("f", x, conv(x.Dim(1), 3).Module(), (*nn.Tape).Sigmoid))
}

// partialConv is PLKConv2d: the first channels through a convolution, the others as they are.
func partialConv(t *nn.Tape, x nn.Tensor, pdim int64, f func(x1 nn.Tensor) nn.Tensor) nn.Tensor {
	if t.Training {
		p := t.Split(x, 1, pdim, x.Dim(1)-pdim)
		x1 := t.Hold(f(p[0]))
		return t.Cat(1, x1, p[1])
	}
	return t.WriteSlice(x, f(t.Narrow(x, 1, pdim)), false)
}

func (n plksr) largeKernel(t *nn.Tape, x nn.Tensor) nn.Tensor {
	switch n.lk {
	case "SparsePLK":
		return n.sparseKernels(t, x)
	case "RectSparsePLK":
		return partialConv(t, x, n.pdim, func(x nn.Tensor) nn.Tensor {
			m, k := n.kernel, n.kernel/3
			mn := t.Conv2d("mn_conv", x, nn.Conv{Out: n.pdim, K: m, KW: k})
			nm := t.Conv2d("nm_conv", x, nn.Conv{Out: n.pdim, K: k, KW: m})
			return t.Add(t.Add(mn, nm), t.Conv2d("nn_conv", x, conv(n.pdim, k)))
		})
	}
	return partialConv(t, x, n.pdim, func(x nn.Tensor) nn.Tensor {
		y := t.Conv2d("conv", x, conv(n.pdim, n.kernel))
		if n.idt {
			y = t.Add(y, x)
		}
		return y
	})
}

// sparseKernels is SparsePLKConv2d, which is the same in training and in eval.
func (n plksr) sparseKernels(t *nn.Tape, x nn.Tensor) nn.Tensor {
	p := t.Split(x, 1, n.pdim, x.Dim(1)-n.pdim)
	var convs []nn.Conv
	largest := n.kernel
	for i, k := range n.sparse {
		convs = append(convs, nn.Conv{Out: n.pdim, K: k, Dilation: n.dilations[i]})
		largest = max(largest, (k-1)*n.dilations[i]+1)
	}
	if n.maxKernel {
		convs = append(convs, conv(n.pdim, largest))
	}
	out := p[0]
	for i, c := range convs {
		y := t.Conv2d(fmt.Sprint("convs.", i), p[0], c)
		if i > 0 || n.idt {
			y = t.Add(out, y)
		} else {
			y = t.AddScalar(y) // out = 0.0 + conv(x1)
		}
		out = t.Hold(t.Rebind(out, y))
	}
	return t.Cat(1, out, p[1])
}

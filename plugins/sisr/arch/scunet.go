package arch

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// SCUNet (Zhang et al., 2022) as aaf6aa has it: traiNNer/archs/scunet_aaf6aa_arch.py at 68629319.
var _ = register(func(s Spec, a *args) Network {
	n := scuNet{
		scale: s.Scale, in: a.int("in_nc", 3), out: a.int("out_nc", 3), residual: a.bool("residual", true),
		unet: scuBlocks{
			config: a.intsOrNone("config", 2, 2, 2, 2, 2, 2, 2), dim: a.int("dim", 64),
			dropPath: a.float("drop_path_rate", 0), resolution: a.int("input_resolution", 256), up: s.Scale > 1,
		},
	}
	a.onlyNone("state") // a state dict, which no recipe can hold
	n.unet.check()
	refuse(n.scale < 1 || n.scale&(n.scale-1) != 0, "scale %d: the network upsamples by powers of two", n.scale)
	return Network{InCh: n.in, Forward: n.forward, Multiple: 64, MinLQ: 22} // reflection wants more than it adds
}, "scunet_aaf6aa")

type scuNet struct {
	scale, in, out int64
	residual       bool
	unet           scuBlocks
}

// scuPadding is how much upstream adds: up to a multiple of 64, and in eval 64 more.
func scuPadding(t *nn.Tape, k int64) int64 {
	if !t.Training {
		return multiple(k, 64) - k + 64
	}
	return multiple(k, 64) - k
}

// forward is SCUNet_aaf6aa.forward.
func (n scuNet) forward(t *nn.Tape, x0 nn.Tensor) nn.Tensor {
	h, w := x0.Dim(2), x0.Dim(3)
	x0 = t.Hold(t.Pad(x0, scuPadding(t, h), scuPadding(t, w), true))
	x1 := t.Hold(t.Sequential("m_head", x0, nn.Conv{Out: n.unet.dim, K: 3, NoBias: true}.Module()))
	x := n.unet.forward(t, x1)
	if n.residual {
		x1 = t.Rebind(x1, t.Sequential("m_res", x1, nn.Conv{Out: n.unet.dim, K: 3, NoBias: true}.Module()))
	}
	x = t.Rebind(x, t.Add(x, x1))
	if n.scale > 1 {
		x = t.Rebind(x, t.Sequential("m_upsample", x, rrdbUpsample(2, n.scale)))
	}
	x = t.Rebind(x, t.Sequential("m_tail", x, nn.Conv{Out: n.out, K: 3, NoBias: true}.Module()))
	return t.Narrow(t.Narrow(x, 2, h*n.scale), 3, w*n.scale)
}

// scuBlocks are what is between the head and the tail: m_down1 to m_up1.
type scuBlocks struct {
	config          []int64
	dim, resolution int64
	dropPath        float64
	up              bool // Upconv, where a network that leaves an image at its size has a transposed convolution
}

const (
	scuHead   = 32
	scuWindow = 8
)

func (n scuBlocks) check() {
	refuse(len(n.config) < 7, "config %v: 7 numbers of blocks", n.config)
	refuse(n.dim < 2*scuHead || n.dim%(2*scuHead) != 0,
		"dim %d: half of it does not divide into heads of %d", n.dim, scuHead)
}

// forward is the U-Net, as lines of the forward that calls it: what they name lives to its end.
func (n scuBlocks) forward(t *nn.Tape, x1 nn.Tensor) nn.Tensor {
	first, total := int64(0), int64(0)
	for _, c := range n.config {
		total += c
	}
	blocks := func(level int, dim, resolution int64) (ms []nn.Module) {
		for i := range n.config[level] {
			dropPath := n.dropPath * float64(first+i) / float64(max(total-1, 1))
			shift := i%2 == 1 && resolution > scuWindow
			ms = append(ms, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return scuBlock(t, x, dim, shift, dropPath) })
		}
		first += n.config[level]
		return ms
	}
	down := func(out int64) nn.Module {
		return nn.Conv{Out: out, K: 2, Stride: 2, Valid: true, NoBias: true}.Module()
	}
	up := func(out int64) nn.Module {
		if n.up {
			return scuUpconv(out)
		}
		return nn.ConvTranspose{Out: out, K: 2, Stride: 2, NoBias: true}.Module()
	}
	dim, r := n.dim, n.resolution
	x2 := t.Hold(t.Sequential("m_down1", x1, append(blocks(0, dim/2, r), down(2*dim))...))
	x3 := t.Hold(t.Sequential("m_down2", x2, append(blocks(1, dim, r/2), down(4*dim))...))
	x4 := t.Hold(t.Sequential("m_down3", x3, append(blocks(2, 2*dim, r/4), down(8*dim))...))
	x := t.Hold(t.Sequential("m_body", x4, blocks(3, 4*dim, r/8)...))
	x = t.Rebind(x, t.Sequential("m_up3", t.Add(x, x4), slices.Insert(blocks(4, 2*dim, r/4), 0, up(4*dim))...))
	x = t.Rebind(x, t.Sequential("m_up2", t.Add(x, x3), slices.Insert(blocks(5, dim, r/2), 0, up(2*dim))...))
	return t.Rebind(x, t.Sequential("m_up1", t.Add(x, x2), slices.Insert(blocks(6, dim/2, r), 0, up(dim))...))
}

// scuUpconv is Upconv by 2.
func scuUpconv(out int64) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		lrelu := (*nn.Tape).LeakyReLUInplace
		return t.Sequential("up", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Upsample(x, 2) },
			conv(x.Dim(1), 3).Module(), lrelu, conv(out, 3).Module(), lrelu)
	}
}

// rrdbUpsample is RRDBUpsample.
func rrdbUpsample(blocks, scale int64) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		lrelu, c := (*nn.Tape).LeakyReLUInplace, conv(x.Dim(1), 3).Module()
		ms := nn.Repeat(scuRRDB, blocks)
		for range bits.Len64(uint64(scale)) - 1 {
			ms = append(ms, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Upsample(x, 2) }, c, lrelu)
		}
		return t.Sequential("up", x, append(ms, c, lrelu)...)
	}
}

// scuRRDB is RRDB_ with ResidualDenseBlock_ of 32 channels.
func scuRRDB(t *nn.Tape, x nn.Tensor) nn.Tensor {
	dense := func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		xs := []nn.Tensor{x}
		for i := 1; i <= 4; i++ {
			in := x
			if i > 1 {
				in = t.Cat(1, xs...)
			}
			xs = append(xs, t.Hold(t.LeakyReLUInplace(t.Conv2d(fmt.Sprint("conv", i), in, conv(32, 3)))))
		}
		x5 := t.Hold(t.Conv2d("conv5", t.Cat(1, xs...), conv(x.Dim(1), 3)))
		return t.Add(t.MulScalar(x5), x)
	}
	out := t.Hold(t.Call("rdb1", x, dense))
	out = t.Rebind(out, t.Call("rdb2", out, dense))
	out = t.Rebind(out, t.Call("rdb3", out, dense))
	return t.Add(t.MulScalar(out), x)
}

// scuBlock is ConvTransBlock: half of the channels through convolutions, half through attention, and noise on the sum.
func scuBlock(t *nn.Tape, x nn.Tensor, dim int64, shift bool, dropPath float64) nn.Tensor {
	p := t.Split(t.Conv2d("conv1_1", x, conv(2*dim, 1)), 1, dim, dim)
	convX, transX := t.Hold(p[0]), t.Hold(p[1])
	c := nn.Conv{Out: dim, K: 3, NoBias: true}.Module()
	convX = t.Hold(t.Add(t.Sequential("conv_block", convX, c, (*nn.Tape).ReLUInplace, c), convX))
	transX = t.Permute(transX, 0, 2, 3, 1)
	y := t.Hold(t.Call("trans_block", transX, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // Block
		attn := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return scuAttention(t, x, shift) }
		x = t.Hold(t.Add(x, dropPathOf(t, t.Call("msa", t.LayerNorm("ln1", x), attn), dropPath)))
		mlp := t.Sequential("mlp", t.LayerNorm("ln2", x), nn.Linear{Out: 4 * dim}.Module(), (*nn.Tape).GELU, nn.Linear{Out: dim}.Module())
		return t.Rebind(x, t.Add(x, dropPathOf(t, mlp, dropPath)))
	}))
	y = t.Permute(y, 0, 3, 1, 2)
	res := t.Hold(t.Conv2d("conv1_2", t.Cat(1, convX, y), conv(2*dim, 1)))
	return t.Call("noise", t.Add(x, res), func(t *nn.Tape, x nn.Tensor) nn.Tensor { // GaussianNoise
		if !t.Training {
			return x
		}
		noise := t.Hold(t.MulScalar(t.ZerosLike(x)))
		return t.Add(t.Detach(t.Sub(t.Detach(t.Add(noise, x)), x)), x)
	})
}

// scuAttention is WMSA: what einops and einsum copy, they copy here.
func scuAttention(t *nn.Tape, x nn.Tensor, shift bool) nn.Tensor {
	const ws, np = int64(scuWindow), int64(scuWindow * scuWindow)
	b, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	heads, nw := c/scuHead, h/ws*(w/ws)
	params := t.Param("relative_position_params", heads, 2*ws-1, 2*ws-1)
	if shift {
		x = t.Hold(t.Roll(x))
	}
	y := t.Permute(t.View(x, b, h/ws, ws, w/ws, ws, c), 0, 1, 3, 2, 4, 5)
	y = t.View(t.Contiguous(y), b, nw, np, c)
	if shift {
		y = t.Rebind(x, y)
	} else {
		t.Hold(y)
	}
	qkv := t.Hold(t.Linear("embedding_layer", y, 3*c, true))
	p := t.Split(t.Permute(t.View(qkv, b, nw, np, 3*heads, scuHead), 3, 0, 1, 2, 4), 0, heads, heads, heads)
	sim := t.Hold(t.MulScalar(t.Matmul(p[0], t.Transpose(p[1], -2, -1))))
	bias := t.Copy("Tensor.__getitem__", params, heads, np, np)
	sim = t.Rebind(sim, t.Add(sim, t.View(bias, heads, 1, 1, np, np)))
	if shift {
		mask := t.Hold(t.Zeros(nn.Bool, 1, 1, nw, np, np)) // generate_mask
		sim = t.MaskedFill(sim, mask)
	}
	probs := t.Hold(t.Softmax(sim))
	out := t.Hold(t.Matmul(probs, p[2]))
	out = t.Rebind(out, t.View(t.Permute(out, 1, 2, 3, 0, 4), b, nw, np, c))
	out = t.Rebind(out, t.Linear("linear", out, c, true))
	out = t.Rebind(out, windowReverse(t, t.View(out, -1, ws, ws, c), ws, b, h, w))
	if shift {
		out = t.Rebind(out, t.Roll(out))
	}
	return out
}

package arch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/launch-ml/launch/core/nn"
)

// ParagonSR2 is several networks under one set of names. These two are the "hybrid" of Phhofm's tree of November
// 2025 (traiNNer/archs/paragonsr2_arch.py): with attention over the whole image at da033d99, and with attention in
// overlapping windows of 32 pixels at 069b6d59. The release is in paragonsr2_release.go.
const (
	paragonFull    = "full attention (da033d99)"
	paragonWindow  = "local windows of 32 (069b6d59)"
	paragonRelease = "release (Phhofm/ParagonSR2)"
)

// paragonGenerations are the networks that share names, by what chooses one: the commit that was read. The first has
// other names than the second; without the checkout's file each assumes the one marked.
var paragonGenerations = []struct {
	key, generation string
	hybrid          bool // nano to xl; the others are realtime to ultimate
	assumed         bool
}{
	{"2f64430b", paragonDynamic, true, false}, {"da033d99", paragonFull, true, false},
	{"069b6d59", paragonWindow, true, true}, {"1121aa15", paragonFirst, false, false},
	{"5a6cbb0c", paragonTokens, false, false}, {"ea36e5c8", paragonNarrow, false, false},
	{"921e57d1", paragonRelease, false, true}, {"933d5397", paragonUltimate, false, false},
}

// paragonOf is the generation of a name, and whether that is a guess: the one that is asked for, that of the checkout's
// file, or the one that is assumed. "" is one without a formula.
func paragonOf(s Spec, hybrid bool) (generation string, assumed bool) {
	var keys []string
	for _, g := range paragonGenerations {
		switch {
		case g.hybrid != hybrid:
		case s.Generation == g.key:
			return g.generation, false
		case s.Generation == "" && s.Source == nil && g.assumed:
			return g.generation, true
		default:
			keys = append(keys, g.key)
		}
	}
	refuse(s.Generation != "",
		"generation %q is none of those that have the name: %s", s.Generation, strings.Join(keys, ", "))
	return paragonGeneration(s.Source)
}

// paragonKnown is the SHA-256 of the arch files that were read line by line, with line ends as in the repository.
var paragonKnown = map[string]string{
	"05d6c9cc22253547858ffae05cf127e5d7bef404babfcf9e7d47b307d3a70a2f": paragonFull,
	"5e62251e44021a3c3a9f71da82715d1f7d750b162092e6ea1d5cdb767e83111f": paragonWindow,
	"36ba838b02c01e24bd5682465062972cdf0a754f75e8e3628a23f6b16316d3a7": paragonRelease,
	"841fe1d9a61619e2e200c5dc54782acbc6317ed4a7d70e2abf8294f5c784516a": paragonDynamic,
	"c15e0dc348eb6ba1b690429c84e3e713fd9cb4ed96398fa3115d04e783605edd": paragonUltimate,
	"9c2128807650344aab94f1b3a6fa3b52de3382761409db7a23f3d3399bb6215d": paragonDraft,  // deafa14d
	"cc8e2528a4c6b0a9a4f83115edc7dd5607631a82e51fd378733c80d8527d96c1": paragonFirst,  // 1121aa15, 255250b2
	"a874ddf012e3a77e0342369f3a709dc7029c6aaa789fb1dee74453802ed87ba9": paragonTokens, // 5a6cbb0c
	"a1187f86a9fd9b832bd49dcc28054d399a1c13b34cc741272df501bda693bde2": paragonNarrow, // ea36e5c8
}

// paragonGeneration says which network an arch file holds, and whether that is a guess. "" is one without a formula.
func paragonGeneration(source []byte) (generation string, assumed bool) {
	source = bytes.ReplaceAll(source, []byte("\r\n"), []byte("\n"))
	sum := sha256.Sum256(source)
	if g, ok := paragonKnown[hex.EncodeToString(sum[:])]; ok {
		return g, false
	}
	has := func(s string) bool { return bytes.Contains(source, []byte(s)) }
	switch {
	case has("class LocalWindowAttention") && has("class NanoBlock"): // December 2025, between the two
		return "", true
	case has("class UltimateBlock"):
		return paragonUltimate, true
	case has("class NanoBlock") && has("class ProBlock") && has("class TokenDictionaryCA"):
		if has(`kw.pop("window_size", 8)`) {
			return paragonNarrow, true
		}
		return paragonRelease, true
	case has("class NanoBlock") && has("class ATDBlock"):
		return paragonTokens, true
	case has("class NanoBlock") && has("class PhotoBlock") && !has("class ProBlock") && !has("x_f32"):
		if !has("kw.pop(") {
			return paragonDraft, true
		}
		return paragonFirst, true
	case has("class LocalWindowAttention"):
		return paragonWindow, true
	case has("class EfficientSelfAttention"):
		return paragonFull, true
	case has("class CheapDynamicModulation"): // after 2.1, before the static one
		return "", true
	case has("class DynamicKernelGenerator") && has("hr_blocks"):
		return paragonDynamic, true
	}
	return "", true
}

// paragonSizes are the factories' own arguments: num_feat, num_groups, num_blocks, ffn_expansion, band_kernel_size,
// and the defaults of fast_body_mode, use_norm, use_channel_mod, use_attention.
var paragonSizes = map[string]struct {
	feat, groups, blocks, band   int64
	ffn                          float64
	fast, norm, channelMod, attn bool
}{
	"paragonsr2_nano":  {12, 1, 1, 7, 1.2, true, false, false, true},
	"paragonsr2_micro": {16, 1, 2, 7, 1.5, true, false, true, true},
	"paragonsr2_tiny":  {24, 2, 2, 9, 1.5, true, true, true, true},
	"paragonsr2_xs":    {32, 2, 3, 11, 1.8, true, true, true, true},
	"paragonsr2_s":     {48, 3, 4, 11, 2, true, true, true, true},
	"paragonsr2_m":     {64, 4, 6, 11, 2, false, true, true, true},
	"paragonsr2_l":     {96, 6, 8, 13, 2, false, true, true, false},
	"paragonsr2_xl":    {128, 8, 10, 15, 2, false, true, true, false},
}

var _ = entry(func() {
	for name := range paragonSizes {
		register(buildParagon, name)
	}
})

func buildParagon(s Spec, a *args) Network {
	generation, assumed := paragonOf(s, true)
	if _, old := s.Args["hr_blocks"]; old && s.Source == nil && s.Generation == "" { // an argument of version 2.1 alone
		generation = paragonDynamic
	}
	switch {
	case generation == "":
		reject("this version of paragonsr2_arch.py: %w", ErrUnknown)
	case generation != paragonFull && generation != paragonWindow && generation != paragonDynamic:
		reject("the release of ParagonSR2 has no network of that name")
	case assumed && generation == paragonDynamic && s.Source == nil:
		a.warn("%s stands for several networks; without the checkout's paragonsr2_arch.py, %s is assumed, the one that "+
			"takes hr_blocks", s.Type, generation)
	case assumed && s.Source == nil:
		a.warn("%s stands for several networks; without the checkout's paragonsr2_arch.py, %s is assumed "+
			"(with full attention it needs far more, and version 2.1 far less)", s.Type, generation)
	case assumed:
		a.warn("this version of paragonsr2_arch.py is not one that is known; by its classes it is taken for %s", generation)
	}
	if generation == paragonDynamic {
		return buildParagonDynamic(s, a, assumed)
	}
	size := paragonSizes[s.Type]
	n := paragon{
		scale: s.Scale, feat: size.feat, groups: size.groups, blocks: size.blocks, band: size.band,
		hidden: int64(float64(size.feat) * size.ffn), window: generation == paragonWindow,
		alpha: a.float("upsampler_alpha", 0.5), norm: a.bool("use_norm", size.norm),
		channelMod: a.bool("use_channel_mod", size.channelMod), content: a.bool("use_content_aware", true),
		attention: size.attn,
	}
	if size.attn { // the factories of l and xl do not read it
		n.attention = a.bool("use_attention", true)
	}
	a.ignore("detail_gain", "use_channels_last")
	a.swallow = true
	if a.bool("fast_body_mode", size.fast) {
		n.groups, n.blocks = max(1, n.groups/2), max(1, n.blocks/2)
	}
	switch s.Scale {
	case 2, 3, 4, 8:
	default:
		reject("scale must be 2, 3, 4, or 8, got %d", s.Scale)
	}
	return Network{Forward: n.forward, Generation: generation, Assumed: assumed}
}

type paragon struct {
	scale, feat, groups, blocks, band, hidden int64
	alpha                                     float64
	norm, channelMod, content, attention      bool
	window                                    bool
}

// forward is ParagonSR2.forward.
func (n paragon) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	magic := magicKernel(n.scale, n.alpha, "sharpen", "resample_conv", "conv_h", "conv_v")
	xBase := t.Hold(t.Call("magic_upsampler", x, magic))

	out := t.Conv2d("conv_in", x, conv(n.feat, 3))
	out = t.Rebind(out, t.Call("body", out, n.body))
	out = t.Rebind(out, t.Add(t.Conv2d("conv_fuse", out, conv(n.feat, 3)), out))
	out = t.Hold(t.Rebind(out, t.Call("upsampler_net", out, n.upsampler)))
	xDetail := t.Hold(t.Conv2d("conv_out", out, conv(3, 3)))

	if n.content {
		adaptiveGain := t.Hold(t.Call("content_processor", x, n.contentProcessor))
		xDetail = t.Rebind(xDetail, t.Mul(xDetail, adaptiveGain))
	}
	return t.Add(xBase, xDetail)
}

func (n paragon) body(t *nn.Tape, x nn.Tensor) nn.Tensor {
	for g := range int(n.groups) {
		x = t.Call(fmt.Sprint(g), x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // ResidualGroupStatic
			blocks := nn.Repeat(n.block, n.blocks)
			return t.Add(t.Sequential("blocks", x, blocks...), x)
		})
	}
	return x
}

// upsampler is PixelShufflePack.
func (n paragon) upsampler(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.PixelShuffle(t.Conv2d("up_conv", x, conv(n.feat*n.scale*n.scale, 3)), n.scale)
}

// block is ParagonBlockStatic.
func (n paragon) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	res := t.Hold(x)
	x = t.Call("context", x, n.inception)
	x = t.Rebind(x, t.Add(res, t.Call("ls1", x, layerScale)))
	res = t.Rebind(res, x)
	x = t.Call("transformer", x, n.transformer)
	x = t.Rebind(x, t.Add(res, t.Call("ls2", x, layerScale)))
	if n.norm {
		x = t.Rebind(x, t.Call("norm", x, n.rmsNorm))
	}
	return x
}

// inception is InceptionDWConv2d.
func (n paragon) inception(t *nn.Tape, x nn.Tensor) nn.Tensor {
	gc := max(1, n.feat/8)
	p := t.Split(x, 1, n.feat-3*gc, gc, gc, gc)
	return t.Cat(1, p[0],
		t.Conv2d("dwconv_hw", p[1], depthwise(gc, 3)),
		t.Conv2d("dwconv_w", p[2], nn.Conv{Out: gc, K: 1, KW: n.band, Groups: gc}),
		t.Conv2d("dwconv_h", p[3], nn.Conv{Out: gc, K: n.band, KW: 1, Groups: gc}))
}

// transformer is StaticDepthwiseTransformer.
func (n paragon) transformer(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x = t.Conv2d("project_in", x, conv(n.hidden, 1))
	x = t.Sequential("dw_mixer", x, depthwise(n.hidden, 3).Module(), (*nn.Tape).LeakyReLUInplace,
		conv(n.hidden, 1).Module())
	if n.attention {
		attention := n.fullAttention
		if n.window {
			attention = n.windowAttention
		}
		x = t.Call("attention", x, attention)
	}
	if n.channelMod {
		x = t.Call("channel_mod", x, n.channelModulation)
	}
	return t.Conv2d("project_out", x, conv(n.feat, 1))
}

// channelModulation is CheapChannelModulation.
func (n paragon) channelModulation(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := x.Dim(1)
	return t.Mul(x, t.Sequential("net", x, (*nn.Tape).AvgPoolAll, conv(max(1, c/4), 1).Module(), (*nn.Tape).ReLUInplace,
		conv(c, 1).Module(), (*nn.Tape).Sigmoid))
}

// contentProcessor is ContentAwareDetailProcessor.
func (n paragon) contentProcessor(t *nn.Tape, x nn.Tensor) nn.Tensor {
	act := (*nn.Tape).LeakyReLUInplace
	complexity := t.Sequential("content_analyzer", x,
		conv(n.feat/4, 3).Module(), act, conv(n.feat/2, 5).Module(), act, conv(n.feat/2, 7).Module(), act,
		(*nn.Tape).AvgPoolAll, conv(1, 1).Module(), (*nn.Tape).Sigmoid)
	return t.AddScalar(t.MulScalar(t.Neg(complexity)))
}

// rmsNorm is RMSNorm: norm is on autocast's float32 list, so everything after it is float32.
func (n paragon) rmsNorm(t *nn.Tape, x nn.Tensor) nn.Tensor {
	scale, offset := t.Param("scale", n.feat, 1, 1), t.Param("offset", n.feat, 1, 1)
	normX := t.Hold(t.Norm(x, 1))
	rmsX := t.Hold(t.MulScalar(normX))
	xNormed := t.Hold(t.Div(x, t.AddScalar(rmsX)))
	return t.Add(t.Mul(scale, xNormed), offset)
}

// layerScale is LayerScale: a float32 parameter of a dimension, so the result is float32 whatever x is.
func layerScale(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Mul(x, t.Param("gamma", 1, x.Dim(1), 1, 1))
}

// magicKernel is MagicKernelSharp2021Upsample, whose weights are frozen, with the names that its two versions give
// its parts.
func magicKernel(scale int64, alpha float64, sharp, blur, h, v string) nn.Module {
	return magicKernelBy(func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Upsample(x, scale) }, alpha, sharp, blur, h, v)
}

// magicKernelBy is the same with what makes the image larger.
func magicKernelBy(upsample nn.Module, alpha float64, sharp, blur, h, v string) nn.Module {
	separable := func(k int64) nn.Module { // SeparableConv
		return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			c := x.Dim(1)
			return t.Conv2d(v, t.Conv2d(h, x, nn.Conv{Out: c, K: 1, KW: k, Groups: c, NoBias: true, Frozen: true}),
				nn.Conv{Out: c, K: k, KW: 1, Groups: c, NoBias: true, Frozen: true})
		}
	}
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		for _, p := range [...]struct {
			name string
			k    int64
		}{{sharp, 7}, {blur, 5}} { // the parameters are there whether they are used or not
			t.Scope(p.name, func() {
				t.Scope(h, func() { t.FrozenParam("weight", x.Dim(1), 1, 1, p.k) })
				t.Scope(v, func() { t.FrozenParam("weight", x.Dim(1), 1, p.k, 1) })
			})
		}
		if alpha > 0 {
			xSharp := t.Hold(t.Call(sharp, x, separable(7)))
			x = t.Hold(t.Add(x, t.MulScalar(t.Sub(xSharp, x))))
		}
		x = t.Hold(upsample(t, x))
		return t.Call(blur, x, separable(5))
	}
}

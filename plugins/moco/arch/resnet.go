package arch

import (
	"cmp"
	"strconv"

	"github.com/launch-ml/launch/core/nn"
)

// A resnet is torchvision.models.resnet.ResNet (resnet.py at v0.14).
type resnet struct {
	basic  bool // BasicBlock, else Bottleneck
	layers [4]int
	groups int64
	width  int64 // width_per_group; 64 unless said
	stem   int64 // channels behind the first convolution; 64 unless said
}

func torchvision() map[string]Encoder {
	out := map[string]Encoder{"vit_b_16": vitB16()}
	for name, r := range map[string]resnet{
		"resnet18":         {basic: true, layers: [4]int{2, 2, 2, 2}},
		"resnet34":         {basic: true, layers: [4]int{3, 4, 6, 3}},
		"resnet50":         {layers: [4]int{3, 4, 6, 3}},
		"resnet101":        {layers: [4]int{3, 4, 23, 3}},
		"resnet152":        {layers: [4]int{3, 8, 36, 3}},
		"resnext50_32x4d":  {layers: [4]int{3, 4, 6, 3}, groups: 32, width: 4},
		"resnext101_32x8d": {layers: [4]int{3, 4, 23, 3}, groups: 32, width: 8},
		"resnext101_64x4d": {layers: [4]int{3, 4, 23, 3}, groups: 64, width: 4},
		"wide_resnet50_2":  {layers: [4]int{3, 4, 6, 3}, width: 128},
		"wide_resnet101_2": {layers: [4]int{3, 4, 23, 3}, width: 128},
	} {
		out[name] = r.encoder()
	}
	return out
}

func (r resnet) encoder() Encoder {
	r.width = cmp.Or(r.width, 64)
	r.stem = cmp.Or(r.stem, 64)
	r.groups = max(r.groups, 1)
	return Encoder{Features: 8 * r.stem * r.expansion(), HeadName: "fc", BatchNorm: true, body: r.body}
}

func (r resnet) expansion() int64 {
	if r.basic {
		return 1
	}
	return 4
}

// body is ResNet._forward_impl without its fc.
func (r resnet) body(o Options) nn.Module {
	bn := nn.BatchNorm{Ranks: o.Ranks}
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		x = t.Rebind(x, t.Conv2d("conv1", x, nn.Conv{Out: r.stem, K: 7, Stride: 2, NoBias: true, Frozen: o.FrozenStem}))
		x = t.Rebind(x, t.BatchNorm("bn1", x, bn))
		x = t.ReLUInplace(x)
		x = t.Rebind(x, t.MaxPool2dPadded(x, 3, 2, 1))
		for i, blocks := range r.layers {
			planes, stride := r.stem<<i, int64(1)
			if i > 0 {
				stride = 2
			}
			x = t.Rebind(x, t.Call("layer"+strconv.Itoa(i+1), x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
				for b := range blocks {
					x = t.Call(strconv.Itoa(b), x, r.block(planes, stride, b == 0, bn))
					stride = 1
				}
				return x
			}))
		}
		x = t.Rebind(x, t.AvgPoolAll(x))
		return t.View(x, x.Dim(0), x.Dim(1)) // torch.flatten
	}
}

func (r resnet) block(planes, stride int64, first bool, bn nn.BatchNorm) nn.Module {
	out := planes * r.expansion()
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		identity, y := x, x
		layer := func(name string, c nn.Conv, relu bool) {
			c.NoBias = true
			y = t.Rebind(y, t.Conv2d("conv"+name, y, c))
			y = t.Rebind(y, t.BatchNorm("bn"+name, y, bn))
			if relu {
				y = t.ReLUInplace(y)
			}
		}
		if r.basic {
			layer("1", nn.Conv{Out: planes, K: 3, Stride: stride}, true)
			layer("2", nn.Conv{Out: planes, K: 3}, false)
		} else {
			width := planes * r.width / 64 * r.groups
			layer("1", nn.Conv{Out: width, K: 1}, true)
			layer("2", nn.Conv{Out: width, K: 3, Stride: stride, Groups: r.groups}, true)
			layer("3", nn.Conv{Out: out, K: 1}, false)
		}
		if first && (stride != 1 || x.Dim(1) != out) {
			identity = t.Call("downsample", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
				x = t.Conv2d("0", x, nn.Conv{Out: out, K: 1, Stride: stride, NoBias: true})
				return t.BatchNorm("1", x, bn)
			})
		}
		return t.ReLUInplace(t.AddInplace(y, identity))
	}
}

// Package arch is what the networks of latent diffusion, of StableSR and of its edge forks cost: each is its Python
// forward on an nn.Tape under upstream's names, and a training step, a validation or an image log is put together from
// them.
//
// Sources: IceClear/StableSR at 398ee938 (ldm/modules/diffusionmodules/openaimodel.py, model.py, util.py,
// ldm/modules/attention.py, spade.py, ldm/models/autoencoder.py, ldm/models/diffusion/ddpm.py), leiweiqiang/StableSR at
// cea3b81b and 8ed7c85 (edge_processor.py, unet_with_edge.py, ddpm_with_edge.py), CompVis/latent-diffusion at a506df57
// (ldm/models, ldm/modules), and its forks, whose commits are in code.go.
package arch

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/nn"
)

// ErrUnknown is the error for a class without a formula. It says nothing about the job: its cost is unknown, not wrong.
var ErrUnknown = errors.New("no formula for it")

// A Config is a section of a recipe with a target and its params, as OmegaConf resolves it: mappings are
// map[string]any, lists []any, numbers int64 or float64.
type Config map[string]any

// Target is the class that the section names: "UNetModelDualcondV2".
func (c Config) Target() string {
	s, _ := c["target"].(string)
	return s[strings.LastIndexByte(s, '.')+1:]
}

// params are the arguments of the section's class.
func (c Config) params() *args {
	p, _ := c["params"].(map[string]any)
	return &args{values: p}
}

// unknown says that a section's class has no formula.
func (c Config) unknown(section string) error {
	if t, ok := c["target"].(string); ok {
		return fmt.Errorf("%s %s: %w", section, t, ErrUnknown)
	}
	return fmt.Errorf("%s without a target: %w", section, ErrUnknown)
}

// args reads keyword arguments. Upstream's constructors have no **kwargs but for some that are ignored; a name that does
// not exist is the trainer's to refuse.
type args struct {
	values map[string]any
	err    error
}

func (a *args) wrong(name string, v any, want string) {
	if a.err == nil {
		a.err = fmt.Errorf("%s: %v is not %s", name, v, want)
	}
}

func (a *args) int(name string, def int64) int64 {
	v, ok := a.values[name]
	if !ok || v == nil {
		return def
	}
	n, ok := toInt(v)
	if !ok || n > math.MaxInt32 || n < -1 {
		a.wrong(name, v, "a whole number that a network can have")
		return def
	}
	return n
}

func toInt(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	case float64:
		return int64(v), v == math.Trunc(v)
	}
	return 0, false
}

// size is a whole number of at least 1.
func (a *args) size(name string, def int64) int64 {
	n := a.int(name, def)
	if n < 1 {
		a.wrong(name, n, "at least 1")
		return 1
	}
	return n
}

func (a *args) bool(name string, def bool) bool {
	switch v := a.values[name].(type) {
	case nil:
		if _, given := a.values[name]; given { // None is false wherever it is tested
			return false
		}
		return def
	case bool:
		return v
	case int64:
		return v != 0
	default:
		a.wrong(name, v, "true or false")
		return def
	}
}

func (a *args) float(name string, def float64) float64 {
	switch v := a.values[name].(type) {
	case nil:
		return def
	case float64:
		return v
	case int64:
		return float64(v)
	default:
		a.wrong(name, v, "a number")
		return def
	}
}

func (a *args) text(name, def string) string {
	if s, ok := a.values[name].(string); ok {
		return s
	}
	return def
}

// sizes is a list of whole numbers of at least 1; one number stands for itself.
func (a *args) sizes(name string, def ...int64) []int64 {
	v, ok := a.values[name]
	if !ok || v == nil {
		return def
	}
	if n, ok := toInt(v); ok {
		return []int64{n}
	}
	list, ok := v.([]any)
	ns := make([]int64, len(list))
	for i, e := range list {
		if ns[i], ok = toInt(e); !ok || ns[i] < 1 || ns[i] > math.MaxInt16 {
			ok = false
			break
		}
	}
	if !ok {
		a.wrong(name, v, "a list of whole numbers")
		return def
	}
	return ns
}

// section is a nested mapping, or an empty one.
func section(v any) Config {
	m, _ := v.(map[string]any)
	return m
}

// conv is torch.nn.Conv2d(in, out, k) with the padding that keeps the size.
func conv(out, k int64) nn.Conv { return nn.Conv{Out: out, K: k} }

// named is a child's name with its index: "block.0".
func named(name string, i int) string { return name + "." + strconv.Itoa(i) }

// Package arch computes the memory of the super-resolution networks, losses and discriminators of traiNNer-redux,
// BasicSR and neosr. Each file repeats the Python forward of one architecture on an nn.Tape. A training step is made
// of its network, losses and discriminator.
package arch

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/nn"
)

// ErrUnknown is the error for a network, a loss or a discriminator without a formula. It says nothing about the job:
// its cost is unknown, not wrong.
var ErrUnknown = errors.New("no formula for it")

// A Spec is a network as a recipe names it.
type Spec struct {
	Project Project
	Type    string // network_g.type; upper and lower case are one (registry.py registers the lower)
	Scale   int64  // the recipe's own; an argument "scale" in Args comes before it
	// Frames is how many the data set's clips have (clip_size), 0 where it says nothing: what a network of clips goes by that has
	// no argument for it.
	Frames int64
	Args   map[string]any // the other keys of network_g, with their values as the YAML reader gives them
	// Source is the text of the checkout's own file of the architecture, or nil. It decides where one name stands for
	// several networks: ParagonSR2's.
	Source []byte
	// Generation chooses among those networks instead, by the commit that its formula was read at; "" leaves it to the
	// source.
	Generation string
}

// A Network is an architecture with its arguments.
type Network struct {
	Name    string // the registered name
	Scale   int64
	InCh    int64
	Frames  int64     // of a network of clips, whose channels are those of all frames; 1 for one of images
	Forward nn.Module // (batch, InCh, h, w) to (batch, channels, h·Scale, w·Scale)
	// Generation names which of several networks of that name this is, and Assumed is true where that is a guess.
	Generation string
	Assumed    bool
	// CheckpointArg is the argument that switches activation checkpointing, or "" for a network that has none.
	CheckpointArg string
	Checkpointing bool
	BatchNorm     bool  // sees the micro-batch: splitting it is not the same mathematics
	NoFP16        bool  // upstream falls back to bfloat16 (ARCHS_WITHOUT_FP16 in arch_info.py)
	MinLQ         int64 // the smallest low-resolution crop; 0 for any
	MinBatch      int64 // the smallest micro-batch that it trains with; 0 for any
	Multiple      int64 // what the low-resolution crop should be a multiple of; at least 1
}

type builder func(s Spec, a *args) Network

// A refusal is what upstream's constructor or its first forward would raise. It ends the builder, as there.
type refusal struct{ error }

// refuse ends a builder where upstream stops, or where there is no formula.
func refuse(when bool, format string, v ...any) {
	if when {
		reject(format, v...)
	}
}

func reject(format string, v ...any) { panic(refusal{fmt.Errorf(format, v...)}) }

// built runs a builder. The error is its refusal.
func built[T any](build func() T) (v T, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case refusal:
			err = r.error
		default:
			panic(r)
		}
	}()
	return build(), nil
}

var networks catalog[builder]

// register enters names of traiNNer-redux's networks. Architecture files call it in their entry; for the
// classes of other projects they call networks.add and networks.share.
func register(b builder, names ...string) struct{} { return networks.add(Redux, b, names...) }

// Names lists the networks of a project that have a formula.
func Names(p Project) []string { return networks.names(p) }

// AllNames lists the networks that have a formula in any project.
func AllNames() []string { return networks.all() }

// HoldersOf are the projects that have a network of that name.
func HoldersOf(name string) []Project { return networks.holders(name) }

// Holders names, by network, the projects that have one of that name.
func Holders() map[string]string {
	all := map[string]string{}
	for _, n := range AllNames() {
		var names []string
		for _, p := range HoldersOf(n) {
			names = append(names, p.String())
		}
		all[n] = strings.Join(names, ", ")
	}
	return all
}

// Build finds the network of a recipe. The warnings say what upstream would swallow, and what was assumed. The error
// is ErrUnknown for a network without a formula, and otherwise says what upstream would stop at.
func Build(s Spec) (Network, []string, error) {
	s.Type = strings.ToLower(s.Type)
	b, ok := networks.find(s.Project, s.Type)
	if !ok {
		return Network{}, nil, fmt.Errorf("network %q: %w", s.Type, ErrUnknown)
	}
	a := &args{values: s.Args, used: map[string]bool{"type": true}}
	s.Scale = a.int("scale", s.Scale)
	n, err := built(func() Network { return b(s, a) })
	if err == nil {
		err = a.finish()
	}
	if err != nil {
		return Network{}, a.warnings, fmt.Errorf("network %q: %w", s.Type, err)
	}
	if s.Generation != "" && n.Generation == "" {
		return Network{}, a.warnings, fmt.Errorf("network %q has one generation, and generation is %q", s.Type, s.Generation)
	}
	n.Name = cmp.Or(n.Name, s.Type)
	n.Scale = s.Scale
	n.InCh = cmp.Or(n.InCh, 3)
	n.Frames, n.Multiple = max(n.Frames, 1), max(n.Multiple, 1)
	return n, a.warnings, nil
}

// label is the network in a line of an estimate: of several that share a name, which it is.
func (n Network) label() string {
	if n.Generation == "" {
		return n.Name
	}
	return n.Name + ", " + n.Generation
}

// gtCh is how many channels there are of an image that the network's result is compared with.
func (n Network) gtCh() int64 { return n.InCh / max(n.Frames, 1) }

// Parameters counts the parameters of a network; 0 where its shapes do not fit together.
func Parameters(n Network) (count int64) {
	defer func() {
		if recover() != nil {
			count = 0
		}
	}()
	m := max(n.Multiple, 1)
	side := (max(n.MinLQ, 64) + m - 1) / m * m
	t := nn.NewTape()
	t.NoGrad(func() {
		t.Part("network_g", func() { t.Call("", t.Input(nn.F32, 1, n.InCh, side, side), n.Forward) })
	})
	return t.Size("network_g").Params
}

// args reads keyword arguments as Python would: a name that nobody asks for is an error, or a warning where the
// constructor takes **kwargs.
type args struct {
	values   map[string]any
	used     map[string]bool
	swallow  bool // the constructor takes **kwargs and drops them
	warnings []string
	errs     []error
}

func (a *args) warn(format string, v ...any) {
	a.warnings = append(a.warnings, fmt.Sprintf(format, v...))
}

func (a *args) get(name string) (any, bool) {
	a.used[name] = true
	v, ok := a.values[name]
	return v, ok
}

func (a *args) wrong(name string, v any, want string) {
	a.errs = append(a.errs, fmt.Errorf("%s: %v is not %s", name, v, want))
}

func (a *args) int(name string, def int64) int64 {
	v, ok := a.get(name)
	if !ok {
		return def
	}
	n, ok := toInt(v)
	switch {
	case !ok:
		a.wrong(name, v, "a whole number")
	case n < 1 && def > 0 && isSize(name):
		a.wrong(name, v, "a whole number of at least 1")
	default:
		return n
	}
	return def
}

// sizes are parts of the names of arguments that are the size of something: none of them is less than 1.
var sizes = []string{"channel", "feat", "dim", "_ch", "in_c", "head", "window", "kernel", "filters", "nf", "scale",
	"size"}

func isSize(name string) bool {
	return slices.ContainsFunc(sizes, func(part string) bool { return strings.Contains(name, part) })
}

func toInt(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	case uint64:
		return int64(v), true
	case float64:
		return int64(v), v == float64(int64(v))
	}
	return 0, false
}

func (a *args) float(name string, def float64) float64 {
	v, ok := a.get(name)
	if !ok {
		return def
	}
	f, ok := toFloat(v)
	if !ok {
		a.wrong(name, v, "a number")
		return def
	}
	return f
}

func toFloat(v any) (float64, bool) {
	if f, ok := v.(float64); ok {
		return f, true
	}
	n, ok := toInt(v)
	return float64(n), ok
}

func (a *args) bool(name string, def bool) bool {
	v, ok := a.get(name)
	if !ok {
		return def
	}
	switch v := v.(type) {
	case bool:
		return v
	case nil: // None is false wherever it is tested
		return false
	}
	if n, ok := toInt(v); ok {
		return n != 0
	}
	a.wrong(name, v, "true or false")
	return def
}

func (a *args) string(name, def string) string {
	v, ok := a.get(name)
	if !ok {
		return def
	}
	switch v := v.(type) {
	case string:
		return v
	case nil:
		return ""
	}
	a.wrong(name, v, "text")
	return def
}

func (a *args) ints(name string, def ...int64) []int64 {
	return listOf(a, name, "a list of whole numbers", def, toInt)
}

// listOf reads a list of what one makes of each element.
func listOf[T any](a *args, name, what string, def []T, one func(any) (T, bool)) []T {
	v, ok := a.get(name)
	if !ok {
		return def
	}
	list, ok := v.([]any)
	vs := make([]T, len(list))
	for i := 0; i < len(list) && ok; i++ {
		vs[i], ok = one(list[i])
	}
	if !ok {
		a.wrong(name, v, what)
		return def
	}
	return vs
}

// usual reads the arguments of networks like SwinIR that have a formula for one value only. The error names the first
// that has another.
func (a *args) usual() {
	patch, ape := a.int("patch_size", 1), a.bool("ape", false)
	up, resi := a.string("upsampler", "pixelshuffle"), a.string("resi_connection", "1conv")
	refuse(patch != 1, "patch_size %d: %w; 1 has one", patch, ErrUnknown)
	refuse(ape, "ape: %w; false has one", ErrUnknown)
	refuse(up != "pixelshuffle", "upsampler %q: %w; pixelshuffle has one", up, ErrUnknown)
	refuse(resi != "1conv", "resi_connection %q: %w; 1conv has one", resi, ErrUnknown)
}

// onlyNone reads an argument that has a formula where it is None or not given.
func (a *args) onlyNone(name string) {
	v, _ := a.get(name)
	refuse(v != nil, "%s: %w", name, ErrUnknown)
}

// onlyPatch1 reads the patch_size of those whose forward has a formula for patches of one pixel alone.
func (a *args) onlyPatch1() {
	p := a.int("patch_size", 1)
	refuse(p != 1, "patch_size %d: %w", p, ErrUnknown)
}

// ignore marks arguments that cost no memory as known.
func (a *args) ignore(names ...string) {
	for _, n := range names {
		a.used[n] = true
	}
}

func (a *args) finish() error {
	for _, n := range slices.Sorted(maps.Keys(a.values)) {
		switch {
		case a.used[n]:
		case a.swallow:
			a.warn("network_g.%s is not read by this architecture", n)
		default:
			a.errs = append(a.errs, fmt.Errorf("got an unexpected keyword argument %q", n))
		}
	}
	return errors.Join(a.errs...)
}

// conv is torch.nn.Conv2d(in, out, k) with the padding that keeps the size.
func conv(out, k int64) nn.Conv { return nn.Conv{Out: out, K: k} }

// depthwise is torch.nn.Conv2d(c, c, k, groups=c) with the padding that keeps the size.
func depthwise(c, k int64) nn.Conv { return nn.Conv{Out: c, K: k, Groups: c} }

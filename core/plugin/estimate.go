package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// An Estimator is a Plugin that also prices a bare network, by settings and without a command, so that anybody can check
// a formula.
type Estimator interface {
	// Estimate prices the phases of the network on the device; on the zero Device its tensors alone. The error says what
	// of the question cannot be: a setting that does not exist, a value that the network cannot have.
	Estimate(ctx context.Context, q *Bare, d gpu.Device) ([]Phase, error)
}

// A Phase is one phase's estimate, and what torch.cuda would say of it at the end.
type Phase struct {
	Phase    string       `json:"phase"`
	Estimate mem.Estimate `json:"estimate"`
	// Allocated is max_memory_allocated, on a card with cuBLAS's workspace, which PyTorch allocates at the first matrix
	// product and keeps; 0 where the requests are not known. (Reserved is the estimate's own.)
	Allocated unit.Bytes `json:"allocated_bytes,omitempty"`
	// Warnings are what was assumed about the question, such as which of several networks of the name was priced.
	Warnings []string `json:"warnings,omitempty"`
}

// Price makes a phase of an estimate of tensors: on a card with what a process takes there beside them.
func Price(phase string, e mem.Tensors, d gpu.Device) Phase {
	p := Phase{Phase: phase, Estimate: e.Alone()}
	var a mem.Allocator
	if u, ok := a.Replay(e); ok {
		p.Allocated, p.Estimate.Reserved = u.Allocated, u.Reserved
	}
	switch d.Kind {
	case gpu.CUDA, gpu.HIP, gpu.XPU:
		p.Estimate = e.OnCard(d, mem.Caching{})
		if p.Allocated > 0 {
			workspace := mem.BLASWorkspace(d).Bytes
			p.Allocated += workspace
			p.Estimate.Reserved += workspace
		}
	case gpu.CPU:
		p.Estimate.Add(mem.HostRuntime(0))
	}
	return p
}

// Bare is a network by its name in a plugin's manifest, with settings as they were typed. A plugin reads each setting once,
// with what it is when nobody says anything, and asks [Bare.Err] at the end.
type Bare struct {
	Arch     string            `json:"arch"`
	Settings map[string]string `json:"settings,omitempty"`

	read []setting
	errs []string
}

// A setting is one that a plugin has asked for.
type setting struct{ name, value string }

// text is the setting of that name.
func (b *Bare) text(name, otherwise string) string {
	v, ok := b.Settings[name]
	if !ok {
		v = otherwise
	}
	b.read = append(b.read, setting{name, v})
	return v
}

func (b *Bare) wrong(name, format string, args ...any) {
	b.errs = append(b.errs, fmt.Sprintf("%s is %q: %s", name, b.Settings[name], fmt.Sprintf(format, args...)))
}

// Int is a whole number of at least one; otherwise 0 for a setting that may be left out.
func (b *Bare) Int(name string, otherwise int64) int64 {
	v := b.text(name, strconv.FormatInt(otherwise, 10))
	n, err := strconv.ParseInt(v, 10, 64)
	if _, given := b.Settings[name]; given && (err != nil || n < 1) {
		b.wrong(name, "it is a whole number of at least 1")
	}
	return n
}

// Float is a number.
func (b *Bare) Float(name string, otherwise float64) float64 {
	f, err := strconv.ParseFloat(b.text(name, strconv.FormatFloat(otherwise, 'g', -1, 64)), 64)
	if err != nil {
		b.wrong(name, "it is a number")
	}
	return f
}

// Bool is true or false.
func (b *Bare) Bool(name string, otherwise bool) bool {
	v, err := strconv.ParseBool(b.text(name, strconv.FormatBool(otherwise)))
	if err != nil {
		b.wrong(name, "it is true or false")
	}
	return v
}

// OneOf is one of the values, of which the first is the default.
func (b *Bare) OneOf(name string, values ...string) string {
	v := strings.ToLower(b.text(name, values[0]))
	if !slices.Contains(values, v) {
		b.wrong(name, "it is one of %s", strings.Join(values, ", "))
	}
	return v
}

// Text is any text.
func (b *Bare) Text(name, otherwise string) string { return b.text(name, otherwise) }

// Image is a size, "512x384" as height and width or "512" for both; zero where it is left out.
func (b *Bare) Image(name, otherwise string) (h, w int64) {
	v := b.text(name, otherwise)
	if v == "" {
		return 0, 0
	}
	first, second, two := strings.Cut(strings.ToLower(v), "x")
	if !two {
		second = first
	}
	h, err1 := strconv.ParseInt(first, 10, 64)
	w, err2 := strconv.ParseInt(second, 10, 64)
	if err1 != nil || err2 != nil || h < 1 || w < 1 {
		b.wrong(name, "it is a size such as 512 or 512x384")
	}
	return h, w
}

// Rest are the settings that were not asked for, which are then taken to be the network's own arguments: numbers, truth
// values, texts, and lists such as [8,16].
func (b *Bare) Rest() map[string]any {
	args := map[string]any{}
	for name, v := range b.Settings {
		if slices.ContainsFunc(b.read, func(s setting) bool { return s.name == name }) {
			continue
		}
		var list []any
		if strings.HasPrefix(v, "[") && json.Unmarshal([]byte(v), &list) == nil {
			for i, x := range list { // as a YAML reader has them
				if f, ok := x.(float64); ok && f == math.Trunc(f) {
					list[i] = int64(f)
				}
			}
			args[name] = list
		} else if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			args[name] = n
		} else if f, err := strconv.ParseFloat(v, 64); err == nil {
			args[name] = f
		} else if t, err := strconv.ParseBool(v); err == nil {
			args[name] = t
		} else {
			args[name] = v
		}
	}
	for name := range args {
		b.read = append(b.read, setting{name: name})
	}
	return args
}

// Err says what was asked for that does not exist, or has no such value.
func (b *Bare) Err() error {
	errs := slices.Clone(b.errs)
	var known []string
	for _, s := range b.read {
		known = append(known, strings.TrimSpace(s.name+" "+s.value))
	}
	for name := range b.Settings {
		if !slices.ContainsFunc(b.read, func(s setting) bool { return s.name == name }) {
			errs = append(errs, fmt.Sprintf("%s has no setting %q; it reads %s", b.Arch, name, strings.Join(known, ", ")))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	slices.Sort(errs)
	return fmt.Errorf("%s", strings.Join(errs, "; "))
}

// EstimateQuestion is what Estimate is asked over the wire.
type EstimateQuestion struct {
	Bare   *Bare      `json:"bare"`
	Device gpu.Device `json:"device"`
}

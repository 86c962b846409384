package declared

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// An expression gives bytes. It is compiled when all names are known, by [declaration.checkMemory].
type expression struct {
	text    string
	line    int
	program *vm.Program
}

func (e *expression) read(v config.Value) error {
	if v.Kind() != config.String && v.Kind() != config.Int {
		return errors.New("it is an expression")
	}
	e.text, e.line = v.Text(), v.Line()
	return nil
}

func (*expression) schema(definitions) object { return object{"type": []string{"string", "integer"}} }

// Names that every expression knows.
const (
	microName        = "micro_batch" // of the phase
	accumulationName = "accumulation"
	ranksName        = "ranks"
)

// functions are those of expr that an expression may call: none that makes or walks lists.
var functions = []string{"abs", "ceil", "floor", "round", "min", "max"}

// maxNodes bounds an expression, and with it the time that it takes: there are no loops.
const maxNodes = 500

var variable = lazy.MustCompile(`^[a-z_][a-z0-9_]*$`)

// checkMemory compiles the formula.
func (d *declaration) checkMemory(root config.Value) error {
	names := types.Map{microName: types.Float64, accumulationName: types.Float64, ranksName: types.Float64}
	for _, v := range d.Values {
		at := root.Get("values").Get(v.name)
		_, taken := names[v.name]
		switch {
		case !variable.MatchString(v.name):
			return wrong("values."+v.name, at, "a name has small letters, digits and _")
		case taken || slices.Contains(functions, v.name):
			return wrong("values."+v.name, at, "launch itself gives this name a meaning")
		case v.value.cards:
			return wrong("values."+v.name, at, "it is a number or a place")
		}
		if names[v.name] = types.Any; v.value.place == nil {
			names[v.name] = types.Float64
		}
	}
	for i := range d.Memory {
		l := &d.Memory[i]
		at, key := root.Get("memory"), "memory"
		if at.Kind() == config.Seq {
			at, key = at.Index(i), fmt.Sprintf("memory[%d]", i)
		}
		if _, ok := d.Phases.get(l.Phase); !ok && l.Phase != "" && l.Phase != ladder.Training {
			return wrong(key+".phase", at.Get("phase"), "there is no phase %q; there are training%s", l.Phase, d.phaseList())
		}
		if err := l.Bytes.compile(names); err != nil {
			return wrong(key+".bytes", at.Get("bytes"), "%v", err)
		}
	}
	return nil
}

var unknownName = lazy.MustCompile(`unknown name (\w+)`)

// compile checks the expression. Its variables are the given names, whose values are known only later.
func (e *expression) compile(names types.Map) (err error) {
	options := []expr.Option{expr.Env(names), expr.DisableAllBuiltins(), expr.MaxNodes(maxNodes), expr.Patch(reals{})}
	for _, f := range functions {
		options = append(options, expr.EnableBuiltin(f))
	}
	if e.program, err = expr.Compile(e.text, options...); err == nil {
		return nil
	}
	why, _, _ := strings.Cut(err.Error(), "\n")
	if m := unknownName.FindStringSubmatch(why); m != nil {
		var known []string
		for name := range names {
			known = append(known, name)
		}
		slices.Sort(known)
		why += "; there are " + strings.Join(known, ", ")
		if near := config.Near(m[1], known); near != "" {
			why = fmt.Sprintf("there is no value %s; did you mean %s?", m[1], near)
		}
	}
	return errors.New(why)
}

// reals makes all numbers of an expression floating-point ones: bytes of large networks overflow products of integers.
type reals struct{}

// Visit implements ast.Visitor.
func (reals) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.IntegerNode); ok {
		ast.Patch(node, &ast.FloatNode{Value: float64(n.Value)})
	}
}

// mostBytes of one line: more than any machine has.
const mostBytes = 1 << 46

// bytes evaluates the expression.
func (e *expression) bytes(values map[string]any) (unit.Bytes, error) {
	out, err := expr.Run(e.program, values)
	if err != nil {
		why, _, _ := strings.Cut(err.Error(), "\n")
		return 0, errors.New(why)
	}
	n, ok := out.(float64)
	switch {
	case !ok:
		return 0, fmt.Errorf("%s gives %v, not a number of bytes", e.text, out)
	case math.IsNaN(n) || n < 0 || n > mostBytes:
		return 0, fmt.Errorf("%s gives %g bytes", e.text, n)
	}
	return unit.Bytes(n), nil
}

// noFormula is why a phase without lines has no estimate.
const noFormula = "a declared project has no formula: launch works from what it measures"

// beside are the lines that every formula would have to add: what a process takes beside its tensors.
func (r *reading) beside(d gpu.Device) []mem.Item {
	switch d.Kind {
	case gpu.CUDA, gpu.HIP, gpu.XPU:
		return []mem.Item{mem.BLASWorkspace(d), mem.DeviceContext(d)}
	case gpu.CPU:
		return []mem.Item{mem.RuntimeOf(r.python().TorchCUDA())}
	}
	return nil
}

// price puts the estimates of a phase on a rung, one for each shared rung. The lines of beside are added to each.
func (r *reading) price(phase string, rg *ladder.Rung, shared []ladder.Rung, beside []mem.Item) error {
	rg.Estimates = nil
	for _, s := range shared {
		e, err := r.estimate(phase, *rg, s)
		if err != nil {
			return err
		}
		if e.Known() {
			e.Add(beside...)
		}
		rg.Estimates = append(rg.Estimates, e)
	}
	return nil
}

func (r *reading) estimate(phase string, rg, shared ladder.Rung) (e mem.Estimate, err error) {
	lines := slices.DeleteFunc(slices.Clone(r.Memory), func(l line) bool { return l.phase() != phase })
	if len(lines) == 0 {
		return mem.Estimate{Unknown: noFormula}, nil
	}
	values, why, err := r.variables(phase, rg, shared)
	if err != nil {
		return e, err
	}
	if why != "" {
		return mem.Estimate{Unknown: why}, nil
	}
	for _, l := range lines {
		if missing := l.Bytes.lacks(values); missing != "" {
			return mem.Estimate{Unknown: missing + " is not known"}, nil
		}
		n, err := l.Bytes.bytes(values)
		if err != nil && r.ready {
			return mem.Estimate{Unknown: err.Error()}, nil
		}
		if err != nil {
			return e, fmt.Errorf("%s, line %d: memory: %w", r.path, l.Bytes.line, err)
		}
		// the author vouches for it, and nothing that launch has checked: so it never refuses a job
		e.Add(mem.Item{Kind: mem.Saved, What: l.What, Bytes: n, From: "declared: " + l.Bytes.text, Guess: true})
	}
	return e, nil
}

func (l line) phase() string {
	return cmp.Or(l.Phase, ladder.Training)
}

// lacks names a variable of the expression that has no value, or is "".
func (e *expression) lacks(values map[string]any) string {
	f := &finder{values: values}
	node := e.program.Node()
	ast.Walk(&node, f)
	return f.lacks
}

type finder struct {
	values map[string]any
	lacks  string
}

// Visit implements ast.Visitor.
func (f *finder) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.IdentifierNode); ok && f.values[n.Value] == nil && !slices.Contains(functions, n.Value) {
		f.lacks = n.Value
	}
}

// variables are the values of the names at a rung. why is set where the rung changes something that the formula does
// not know.
func (r *reading) variables(phase string, rg, shared ladder.Rung) (values map[string]any, why string, err error) {
	values = map[string]any{ranksName: float64(r.batch.Ranks)}
	number := func(name, knob string, asked int64) {
		for _, of := range []map[string]int64{rg.Values, shared.Values} {
			if n, ok := of[knob]; ok {
				asked = n
				break
			}
		}
		if asked > 0 {
			values[name] = float64(asked)
		}
	}
	number(accumulationName, job.Accumulation, r.batch.Accumulation)
	number(microName, job.MicroBatch, r.batch.Micro)
	if p, ok := r.Phases.get(phase); ok && phase != ladder.Training {
		if err := r.phaseVariable(phase, p, values, number); err != nil {
			return nil, "", err
		}
	}
	known := map[config.Address]bool{}
	for _, v := range r.Values {
		if v.value.place == nil {
			values[v.name] = v.value.number
			continue
		}
		s, err := r.find(v.value.place)
		if err != nil {
			return nil, "", err
		}
		if s.known {
			values[v.name] = real(s.value)
		}
		for _, e := range slices.Concat(shared.Edits, rg.Edits) {
			if e.At == s.at || s.change != nil && e.At == s.change.at {
				known[e.At], values[v.name] = true, real(typed(strings.Trim(e.To, `"'`)))
				if e.Remove || e.Add && e.To == "" {
					values[v.name] = e.Add
				}
			}
		}
	}
	for _, e := range slices.Concat(shared.Edits, rg.Edits) {
		if !known[e.At] && e.Knob != job.MicroBatch && e.Knob != job.Accumulation && e.Knob != knobOf(phase) {
			return nil, fmt.Sprintf("the formula does not depend on %s", e.Knob), nil
		}
	}
	return values, "", nil
}

// phaseVariable sets the micro-batch to that of a phase.
func (r *reading) phaseVariable(name string, p phase, values map[string]any, number func(name, knob string,
	asked int64)) error {
	if p.Micro == nil {
		if training, ok := values[microName].(float64); ok && p.Times > 0 {
			values[microName] = training * float64(p.Times)
		}
		return nil
	}
	s, err := r.find(p.Micro)
	if err != nil {
		return err
	}
	delete(values, microName)
	number(microName, knobOf(name), r.phaseBatch(p, s))
	return nil
}

// real is a number as an expression has it.
func real(v any) any {
	if n, ok := v.(int64); ok {
		return float64(n)
	}
	return v
}

package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/launch-ml/launch/core/unit"
)

// A Program is the Python program that a command starts, as launch has understood the command: what stands before it
// (launchers, environment managers, a shell) is taken off.
type Program struct {
	Script string   `json:"script,omitempty"` // absolute path; empty for a module or code
	Module string   `json:"module,omitempty"` // for python -m
	Args   []string `json:"args,omitempty"`   // its own arguments
	Dir    string   `json:"dir,omitempty"`    // where it runs
	// Interpreter is the Python as typed; empty where a launcher chooses it.
	Interpreter string `json:"interpreter,omitempty"`
	// Ranks is how many processes its launchers start in all; 1 without a launcher, 0 if unknown.
	Ranks int64 `json:"ranks,omitempty"`
}

// A Formula asks what a PyTorch module of a plugin's author keeps and needs. launch imports File in the command's own
// Python, in a process that sees no GPU, and calls its Function with Config on PyTorch's meta device, where nothing is
// computed. docs/writing-a-plugin.md has what the function returns.
type Formula struct {
	// File is the absolute path of a Python file: one of the plugin's own, or one below the folder of the command or of
	// its script.
	File     string          `json:"file"`
	Function string          `json:"function"`
	Config   json.RawMessage `json:"config,omitempty"` // any JSON
}

// Same reports whether two formulas ask the same. Configurations are compared as JSON.
func (f Formula) Same(g Formula) bool {
	return f.File == g.File && f.Function == g.Function && bytes.Equal(Canonical(f.Config), Canonical(g.Config))
}

// Canonical writes JSON so that equal documents have equal bytes; what is no JSON stays as it is.
func Canonical(doc json.RawMessage) []byte {
	var v any
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	if len(doc) == 0 || d.Decode(&v) != nil {
		if len(doc) == 0 {
			return []byte("null")
		}
		return doc
	}
	out, err := json.Marshal(v) // keys are sorted
	if err != nil {
		return doc
	}
	return out
}

const maxConfig = 64 << 10 // bytes of a formula's configuration

// Check reports whether the question can be asked at all.
func (f Formula) Check() error {
	switch {
	case !filepath.IsAbs(f.File) || len(f.File) > maxPath || strings.IndexByte(f.File, 0) >= 0 ||
		filepath.Ext(f.File) != ".py":
		return fmt.Errorf("its formula is in %.100q, which is no absolute path of a Python file", f.File)
	case f.Function == "" || len(f.Function) > maxName:
		return fmt.Errorf("its formula is a function %.100q", f.Function)
	case len(f.Config) > maxConfig:
		return fmt.Errorf("the configuration of its formula has %d bytes", len(f.Config))
	}
	return nil
}

// A Counted is the answer to a [Formula]: what the module keeps and needs in one step.
type Counted struct {
	Formula Formula `json:"formula"`
	// Problem is why nothing is known; everything else is then empty.
	Problem string `json:"problem,omitempty"`
	Torch   string `json:"torch,omitempty"` // the version of PyTorch that counted
	// Parts are the children of the outermost module; "" is what belongs to none of them.
	Parts  []CountedPart `json:"parts,omitempty"`
	Input  unit.Bytes    `json:"input_bytes,omitempty"`
	Output unit.Bytes    `json:"output_bytes,omitempty"`
	// Saved is what autograd keeps from forward until backward: each storage once, without parameters, buffers, inputs.
	Saved unit.Bytes `json:"saved_bytes,omitempty"`
	// ForwardPeak is what is live at the forward's peak, without parameters, buffers and inputs.
	ForwardPeak unit.Bytes `json:"forward_peak_bytes,omitempty"`
	// Peak is the same for forward and backward together; 0 if there was no backward. PeakSaved and PeakGradients are
	// the saved tensors and the gradients of parameters in it.
	Peak          unit.Bytes `json:"peak_bytes,omitempty"`
	PeakSaved     unit.Bytes `json:"peak_saved_bytes,omitempty"`
	PeakGradients unit.Bytes `json:"peak_gradient_bytes,omitempty"`
	PeakAt        string     `json:"peak_at,omitempty"` // the operation
	Largest       unit.Bytes `json:"largest_bytes,omitempty"`
	LargestAt     string     `json:"largest_at,omitempty"`
	// NoBackward is why there was no backward; the peak is then the forward's.
	NoBackward string `json:"no_backward,omitempty"`
}

// A CountedPart is one part of a module. Its numbers are elements, its bytes those of the storages.
type CountedPart struct {
	Name           string     `json:"name"`
	Parameters     int64      `json:"parameters,omitempty"`
	ParameterBytes unit.Bytes `json:"parameter_bytes,omitempty"`
	Trainable      int64      `json:"trainable,omitempty"` // of the parameters: those that require a gradient
	TrainableBytes unit.Bytes `json:"trainable_bytes,omitempty"`
	Buffers        int64      `json:"buffers,omitempty"`
	BufferBytes    unit.Bytes `json:"buffer_bytes,omitempty"`
	Saved          unit.Bytes `json:"saved_bytes,omitempty"`
}

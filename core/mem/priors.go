package mem

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/launch-ml/launch/core/unit"
)

// A Prior is what processes were measured to hold on one card beside their tensors: tools/truth -take writes it from
// the records of tools/capture/card.py. It is still a guess for another process, driver or torch, so a user's own
// receipts replace it.
type Prior struct {
	Card       string     `json:"card"`
	Capability string     `json:"capability"`
	Total      unit.Bytes `json:"total_bytes"`
	Driver     string     `json:"driver"`
	Torch      string     `json:"torch"`
	Date       string     `json:"date"`
	Rows       int        `json:"rows"` // processes
	// The process's share by NVML less what its allocator had reserved, at the end of its training: the largest and
	// the least.
	Context      unit.Bytes `json:"context_bytes"`
	ContextLeast unit.Bytes `json:"context_least_bytes"`
	// What the allocator handed out for the first product: cuBLAS's workspace. 0 where that was not seen.
	BLAS unit.Bytes `json:"cublas_bytes,omitempty"`
}

// from is the source of a line.
func (p Prior) from(what string) string {
	return fmt.Sprintf("%s on %s, driver %s, torch %s, %s", what, p.Card, p.Driver, p.Torch, p.Date)
}

// ReadPriors reads a file of priors.
func ReadPriors(path string) ([]Prior, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []Prior
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("read priors %s: %w", path, err)
	}
	return out, nil
}

//go:embed priors.json
var priorsJSON []byte

// priors are the measured ones, oldest first; none where the file has none.
var priors = sync.OnceValue(func() (out []Prior) {
	if err := json.Unmarshal(priorsJSON, &out); err != nil {
		panic(fmt.Sprintf("core/mem/priors.json: %v", err)) // part of the binary, and tested
	}
	return out
})

// measuredOn returns the newest prior that keep selects.
func measuredOn(all []Prior, keep func(Prior) bool) (p Prior, ok bool) {
	for _, o := range all {
		if keep(o) && (!ok || o.Date >= p.Date) {
			p, ok = o, true
		}
	}
	return p, ok
}

// context is the measured line of a card of the same name.
func measuredContext(all []Prior, card string) (it Item, ok bool) {
	p, ok := measuredOn(all, func(p Prior) bool { return p.Card == card && p.Context > 0 })
	what := fmt.Sprintf("measured in %d processes, %v to %v,", p.Rows, p.ContextLeast, p.Context)
	return Item{Kind: Context, What: string(Context), Bytes: p.Context, Guess: true, From: p.from(what)}, ok
}

// measuredBLAS is the measured workspace of cuBLAS on a card of the same capability, which decides its default.
func measuredBLAS(all []Prior, capability string) (it Item, ok bool) {
	p, ok := measuredOn(all, func(p Prior) bool { return p.Capability == capability && p.BLAS > 0 })
	return Item{Kind: Workspace, What: "cuBLAS", Bytes: p.BLAS, Guess: true,
		From: p.from("measured at the first product")}, ok
}

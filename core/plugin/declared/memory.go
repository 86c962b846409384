package declared

import (
	"errors"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
)

// An expression gives bytes.
type expression string

func (e *expression) read(v config.Value) error {
	if v.Kind() != config.String && v.Kind() != config.Int {
		return errors.New("it is an expression")
	}
	*e = expression(v.Text())
	return nil
}

func (*expression) schema(definitions) object { return object{"type": []string{"string", "integer"}} }

// price puts the estimates of a phase on a rung, one for each shared rung.
func (r *reading) price(phase string, rg *ladder.Rung, shared []ladder.Rung) error {
	rg.Estimates = nil
	for range shared {
		rg.Estimates = append(rg.Estimates, mem.Estimate{Unknown: "a declared project has no formula: launch works from what it measures"})
	}
	return nil
}

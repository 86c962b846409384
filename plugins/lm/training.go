package lm

import (
	"fmt"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// The knobs' names beside those of package job.
const (
	knobValidation    = "validation " + job.MicroBatch
	knobCheckpointing = "activation checkpointing"
	knobPrecision     = "mixed precision"
	knobLength        = "sequence length"
)

// A training is what a command trains, as the reader of its framework has filled it: data alone, priced by ladders.
type training struct {
	split    ladder.Split
	ranks    int64
	replicas bool
	evals    int64 // sequences of an evaluation's batch; 0 for no evaluation
	pads     bool  // sequences of a batch are padded to the longest of them
	multiple bool  // they are padded to a multiple, so that one alone is padded, too
	// coupled: an evaluation has the batch of the training, unless it is set.
	coupled          bool
	single           bool  // a micro-batch of more than one row fails
	packs, evalPacks bool  // sequences are packed into a row, and so is an evaluation's batch
	spread           bool  // one process has several cards, with some layers on each
	bf16             bool  // axolotl's, after "auto"
	inferred         bool  // the type that the model is loaded in is of the configuration, and float32 on a CPU
	row              int64 // tokens of the longest row, where each is padded to more by a setting; 0 for none
	output           string

	model     arch.Config
	step      arch.Step
	predicted bool
	// unknown is why there is no estimate; "" where there is one.
	unknown  string
	warnings []string
	assumed  []string    // distributions whose version is taken for granted
	atMost   bool        // no batch is longer than step.Length, and nothing shows that one is as long
	unseen   []string    // what no card has measured
	sharding config.Tree // accelerate's file, where that turns DeepSpeed on
	wrapping *wrapBlock  // settings of FSDP, where that file or the environment turns it on
	pinned   bool        // DeepSpeed's file has the micro-batch or the accumulation as a number

	// sharded: DeepSpeed makes the optimizer its own, or FSDP divides its parameters, with a formula or without; wrapped
	// is FSDP alone.
	sharded, wrapped bool
	// averaging is what another micro-batch costs with the same global batch, and averages why, where that is more than
	// time.
	averaging ladder.Cost
	averages  string
	folds     int64        // of what number of tokens the length is made a multiple; 0 for any
	whole     bool         // each batch is padded to the length
	varlen    bool         // torch's varlen_attn tells packed sequences apart, where their type and the model allow it
	kernels   arch.Kernels // axolotl's, for adapters of frozen weights in 4 bits
}

func warn(t *training, format string, a ...any) {
	t.warnings = append(t.warnings, fmt.Sprintf(format, a...))
}

// unmeasured notes what has a formula by its source, and what no card has measured yet.
func unmeasured(t *training, what string) { t.unseen = append(t.unseen, what) }

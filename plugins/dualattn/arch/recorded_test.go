package arch

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/launch-ml/launch/core/nn"
)

// What the project's own class keeps and needs, recorded by tools/capture/dualattn.py with torch 2.15.
func TestRecorded(t *testing.T) {
	text, err := os.ReadFile("testdata/model.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Rows []struct {
			Height, Width, Batch, Classes, Layers int64
			TopK                                  float64 `json:"top_k"`
			DropPath                              bool    `json:"drop_path"`
			Commit                                string
			AMP                                   bool
			Params, Saved, Peak                   int64
			ValPeak                               int64 `json:"val_peak"`
		}
	}
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	if len(recorded.Rows) < 2 {
		t.Fatalf("%d rows", len(recorded.Rows))
	}
	for _, r := range recorded.Rows {
		n := base(size(r.Height, r.Width, r.TopK))
		n.Classes, n.Layers, n.DropPath = r.Classes, r.Layers, r.DropPath
		switch r.Commit {
		case "6a4e6b6":
			n.Loop = LastPairs
		case "6d5161d":
			n.ExtraBlock = true
		}
		low := nn.F32
		if r.AMP {
			low = nn.BF16
		}
		images := func(tape *nn.Tape) nn.Tensor { return tape.Hold(tape.Input(nn.F32, r.Batch, 3, r.Height, r.Width)) }
		tape := nn.NewTape()
		tape.Dispatched = true
		x, pair := images(tape), images(tape)
		var out outputs
		tape.Part(model, func() { tape.Autocast(low, func() { out = n.forward(tape, x, pair, nil) }) })
		for _, f := range out.features {
			tape.Hold(f)
		}
		var loss nn.Tensor
		for i, l := range out.logits {
			mean := tape.Mean(tape.To(l, nn.F32))
			if i > 0 {
				mean = tape.Add(loss, mean)
			}
			loss = mean
		}
		if got := tape.Size(model, unused).Params; got != r.Params {
			t.Errorf("%s: %d parameters, PyTorch %d", r.Commit, got, r.Params)
		}
		tape.Backward(loss)
		p := tape.Peak()
		batch := r.Batch * 3 * r.Height * r.Width * 4
		// The recording leaves out what the caller holds: the features, which in float32 the heads save too.
		saved := int64(p.Saved)
		if !r.AMP {
			saved -= min(max(saved-r.Saved, 0), 3*r.Batch*n.tokens()*n.Dim*4)
		}

		val := nn.NewTape()
		val.Dispatched, val.Training = true, false
		val.NoGrad(func() {
			x := images(val)
			for range 2 { // the outputs of the batch before
				val.Hold(val.Zeros(nn.F32, r.Batch, n.tokens(), n.Dim))
			}
			maps := n.maps(val, r.Batch)
			n.forward(val, x, x, maps)
		})
		for what, c := range map[string]struct {
			got, want   int64
			under, over float64
		}{
			"saved": {saved, r.Saved, .01, .01}, "peak": {int64(p.Bytes) - 2*batch, r.Peak, .02, .03},
			"validation": {int64(val.Peak().Bytes) - batch, r.ValPeak, .02, .03},
		} {
			off := float64(c.got-c.want) / float64(c.want)
			t.Logf("%s %d×%d amp=%v: %s %d, PyTorch %d (%+.3f %%)", r.Commit, r.Height, r.Width, r.AMP, what, c.got, c.want, 100*off)
			if off < -c.under || off > c.over {
				t.Errorf("%s %d×%d of %d, amp=%v: %s %d, PyTorch %d (%+.2f %%); %s", r.Commit, r.Height, r.Width, r.Batch, r.AMP, what, c.got, c.want, 100*off, p.Moment)
			}
		}
	}
}

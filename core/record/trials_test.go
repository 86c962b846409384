package record

import (
	"testing"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// A printed peak that holds cuDNN's trials teaches nothing; what was reserved beside it bounds the need. The figures
// are those of traiNNer-redux's Stream at batch 32: 8.09 GiB printed, 6.40 reserved.
func TestTrials(t *testing.T) {
	const gib = float64(unit.GiB)
	at := func(f float64) unit.Bytes { return unit.Bytes(f * gib) }
	price := func(counted, guessed float64) mem.Estimate {
		var e mem.Estimate
		e.Add(mem.Item{Kind: mem.Saved, Bytes: at(counted)}, mem.Item{Kind: mem.Workspace, Bytes: at(guessed), Guess: true},
			mem.Item{Kind: mem.Context, Bytes: at(.3), Guess: true})
		return e
	}
	trials := mem.Measurement{Is: mem.Allocated, Bytes: at(8.09), Bound: mem.AtMost, With: mem.Trials}
	reserved := mem.Measurement{Is: mem.Reserved, Bytes: at(6.40), Bound: mem.AtMost}
	for name, tt := range map[string]struct {
		counted, guessed float64
		measured         []mem.Measurement
		want             float64
	}{
		"it is not learned": {5.8, .2, []mem.Measurement{trials}, 6.3},
		"nor with what was reserved, above the estimate": {5.8, .2, []mem.Measurement{trials, reserved}, 6.3},
		"what was reserved bounds a guess":               {5.8, 2, []mem.Measurement{trials, reserved}, 6.7},
		"and no line that is counted":                    {7, 2, []mem.Measurement{trials, reserved}, 7.3},
		"another's peak is no bound": {5.8, 2, []mem.Measurement{trials, {Is: mem.Reserved, Bytes: at(6.4), Bound: mem.AtMost,
			With: mem.Trials}}, 8.1},
		"without the mark it is learned": {5.8, .2, []mem.Measurement{{Is: mem.Allocated, Bytes: at(8.09)}}, 8.39},
		"what the driver saw is learned": {5.8, .2, []mem.Measurement{trials, reserved, {Is: mem.Used, Bytes: at(6.7),
			Bound: mem.Sampled}}, 6.7},
		"no context of two bounds": {5.8, .2, []mem.Measurement{trials, reserved, {Is: mem.Used, Bytes: at(9),
			Bound: mem.AtMost, With: mem.Trials}}, 6.3},
	} {
		r := took(32, card, tt.measured...)
		r.Predicted = price(tt.counted, tt.guessed)
		if err := r.check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		of := key("net", 32)
		got := learn([]Receipt{r}, of, card, func(ReceiptKey) (mem.Estimate, bool) {
			return r.Predicted,
				true
		}).apply(r.Predicted,
			of)
		if off := float64(got.Total())/gib - tt.want; off < -.01 || off > .01 {
			t.Errorf("%s: %v, want %.2f GiB: %+v", name, got.Total(), tt.want, got.Items)
		}
	}
}

package oom

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
)

const (
	caughtCalls = "Traceback (most recent call last):\n  File \"/home/ann/fit.py\", line 31, in <module>\n    loss.backward()\n" +
		"  File \"/v/site-packages/torch/_tensor.py\", line 522, in backward\n    torch.autograd.backward(\n"
	caughtEnd = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which 1.00 GiB is free."
	caughtAll = caughtCalls + caughtEnd + "\n"
)

// epochs are the lines of a loop that says three things of each.
func epochs(from, to int) string {
	var b strings.Builder
	for e := from; e <= to; e++ {
		for s := 1; s <= 3; s++ {
			fmt.Fprintf(&b, "epoch %d step %d loss 0.5\n", e, s)
		}
	}
	return b.String()
}

// inJSON are lines as a logger's records, and a traceback in one of a level.
func inJSON(before, level, message, after string) string {
	var b strings.Builder
	put := func(fields map[string]string) {
		j, _ := json.Marshal(fields)
		b.Write(append(j, '\n'))
	}
	for _, l := range strings.FieldsFunc(before, func(r rune) bool { return r == '\n' }) {
		put(map[string]string{"level": "info", "msg": l})
	}
	put(map[string]string{"level": level, "msg": message, "exc_info": strings.TrimSpace(caughtAll)})
	for _, l := range strings.FieldsFunc(after, func(r rune) bool { return r == '\n' }) {
		put(map[string]string{"level": "info", "msg": l})
	}
	return b.String()
}

// An out-of-memory that was caught, with its traceback in the log: what a dying program's buffer holds is no sign of that.
func TestCaught(t *testing.T) {
	const retry, bug = "WARNING caught it, retrying with half the batch\n", "Traceback (most recent call last):\n  File \"/home/ann/fit.py\", line 40, in <module>\nKeyError: 'acc'\n"
	for name, tt := range map[string]struct {
		text string
		went bool
	}{
		"it says so, and that it is over":         {epochs(1, 1) + retry + caughtAll + epochs(1, 1) + "Training finished\n", true},
		"it says so, and has two more epochs":     {epochs(1, 1) + retry + caughtAll + epochs(2, 3), true},
		"it says what it has caught":              {epochs(1, 1) + "2026-02-03 04:05:06 WARNING: OOM at step 3\n" + caughtAll + epochs(2, 3), true},
		"it says that it skips":                   {epochs(1, 1) + "skipping batch 7\n" + caughtAll + epochs(1, 1) + "fine-tuning done\n", true},
		"a warning in JSON":                       {inJSON(epochs(1, 1), "warning", "step failed", epochs(2, 3)), true},
		"a warning in JSON, and it is over":       {inJSON("", "WARNING", "step failed", "training complete"), true},
		"an error in JSON":                        {inJSON(epochs(1, 1), "error", "step failed", epochs(2, 3)+"training complete"), false},
		"a warning in JSON, and nothing more":     {inJSON(epochs(1, 1), "warning", "step failed", ""), false},
		"a buffer, written late":                  {caughtAll + epochs(1, 3), false},
		"the rest of a buffer":                    {epochs(1, 1) + caughtAll + epochs(2, 4), false},
		"the same, with the words of an end":      {epochs(1, 1) + caughtAll + epochs(2, 4) + "Training finished\n", false},
		"a warning of something else above it":    {epochs(1, 1) + "WARNING: 3 files are missing\n" + caughtAll + epochs(2, 4) + "Training finished\n", false},
		"it retries, and has only said so before": {epochs(1, 1) + retry + caughtAll + epochs(1, 1), false},
		"it retries, and that was all":            {epochs(1, 1) + retry + caughtAll, false},
		"it retries, and says what failed":        {epochs(1, 1) + retry + caughtAll + "training finished with an error\n", false},
		"it says that it gives up":                {epochs(1, 1) + "WARNING caught it, giving up\n" + caughtAll + epochs(2, 4), false},
	} {
		if r := reported(t, tt.text); !r.OOM || r.WentOn != tt.went || r.Fatal == tt.went {
			t.Errorf("%s: went on %v, want %v, fatal %v: %s", name, r.WentOn, tt.went, r.Fatal, r.Cause)
		}
		d := newDetector(t, job.Signs{})
		d.Write([]byte(tt.text))
		if r := d.Report(Exited(1)); !r.OOM || !r.Fatal {
			t.Errorf("%s, and it exited 1: %+v", name, r)
		}
	}
	for name, text := range map[string]string{
		"logged":  "Epoch 1\n| WARNING: ran out of memory with exception: CUDA out of memory. Tried to allocate 96.00 MiB (GPU 0; 7.79 GiB total capacity; 5.47 GiB already allocated; 10.02 MiB free; 5.63 GiB reserved in total by PyTorch); skipping batch\nEpoch 2\n" + bug,
		"caught":  epochs(1, 1) + retry + caughtAll + epochs(1, 1) + bug,
		"wrapped": inJSON(epochs(1, 1), "warning", "step failed", epochs(1, 1)) + bug,
	} {
		if r := reported(t, text); r.OOM || !r.Fatal || !strings.HasPrefix(r.Cause, "KeyError") || r.Survived != 1 {
			t.Errorf("%s, and it died of something else: %+v", name, r)
		}
	}
}

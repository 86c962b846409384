package oom

import (
	"strconv"
	"strings"
	"testing"
)

// Which rank failed is told by what stands before its words, by who spawned it, or by torchrun's summary.
func TestRank(t *testing.T) {
	const message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 23.69 GiB of which 1.00 GiB is free."
	const trace = "Traceback (most recent call last):\n  File \"/home/u/train.py\", line 9, in <module>\n    main()\n" + message + "\n"
	const summary = "============================================================\ntrain.py FAILED\n------------------------------------------------------------\n" +
		"Failures:\n  <NO_OTHER_FAILURES>\n------------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n" +
		"  time      : 2024-03-01_10:00:00\n  host      : node1\n  rank      : 5 (local_rank: 1)\n  exitcode  : 1 (pid: 4711)\n"
	const below = "[default0]:[rank12]: " // what torchrun puts before torch's own
	for name, tt := range map[string]struct {
		text string
		want int64 // -1: not known
	}{
		"under a launcher's":  {below + began + below + inMain + below + message + "\n", 12},
		"torch's own":         {"[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/home/u/train.py\", line 9, in <module>\n[rank3]: " + message + "\n", 3},
		"Lightning's":         {"[rank: 2] " + message + "\n", 2},
		"torchrun --tee":      {"[default1]:" + message + "\n", 1},
		"mpirun":              {"[1,4]<stderr>:" + message + "\n", 4},
		"srun --label":        {"0: step 1\n1: step 1\n1: " + message + "\n", 1},
		"numbered lines":      {"6: step 1\n7: step 2\n8: " + message + "\n", -1},
		"a machine":           {"worker-1: " + message + "\n", -1},
		"in brackets":         {"[0] step 1\n[2] step 1\n[2] " + message + "\n", 2},
		"with a colon":        {"[0]: step 1\n[2]: step 1\n[2]: " + message + "\n", 2},
		"alone":               {"[2] step 1\n[2] " + message + "\n", -1},
		"the second alone":    {"[1] step 1\n[1] " + message + "\n", -1},
		"a numbered list":     {"[1] step 1\n[2] step 2\n[3] " + message + "\n", -1},
		"process ids":         {"[811] step 1\n[812] step 1\n[812] " + message + "\n", -1},
		"workers":             {"worker-0: step 1\nworker-2: step 1\nworker-2: " + strings.Replace(message, "GPU 1", "GPU 0", 1) + "\n", 2},
		"workers of many":     {"worker-0: step 1\nworker-2: step 1\nworker-2: " + message + "\n", -1},
		"JSON":                {`{"level": "error", "rank": 2, "msg": "failed", "exc_info": ` + strconv.Quote(trace) + "}\n", 2},
		"JSON, as text":       {`{"level": "error", "msg": "failed", "exc_info": ` + strconv.Quote(trace) + `, "rank": "3"}` + "\n", 3},
		"JSON, of a message":  {`{"level": "error", "msg": "{\"rank\": 4}", "exc_info": ` + strconv.Quote(trace) + "}\n", -1},
		"spawned":             {"-- Process 1 terminated with the following error:\n" + trace, 1},
		"torchrun's summary":  {trace + summary, 5},
		"one process":         {trace, -1},
		"another's spawn":     {"-- Process 1 terminated with the following error:\nTraceback (most recent call last):\n  File \"/home/u/a.py\", line 9, in <module>\nKeyError: 'x'\n\n" + trace, -1},
		"not memory, spawned": {"-- Process 2 terminated with the following error:\nTraceback (most recent call last):\n  File \"/home/u/a.py\", line 9, in <module>\nKeyError: 'x'\n", 2},
	} {
		r := reported(t, tt.text)
		if got := r.Rank; got == nil && tt.want >= 0 || got != nil && *got != tt.want {
			t.Errorf("%s: rank %v, want %d (%s)", name, got, tt.want, r.Cause)
		}
	}
}

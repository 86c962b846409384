package oom

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/oom/printed"
)

// TestPrefixes: what others put before a line is taken off, and says whose line it is where it does.
func TestPrefixes(t *testing.T) {
	const text = "RuntimeError: x"
	for prefix, rank := range map[string]string{
		"":                                       "",
		"[rank3]: ":                              "[rank3]",
		"[default0]:":                            "[default0]",
		"[default0]: ":                           "[default0]",
		"[trainer12]: ":                          "[trainer12]",
		"[rank: 1] ":                             "[rank: 1]",
		"[1,0]<stderr>: ":                        "[1,0]<stderr>",
		"[1,mpirank:0,algo-1]<stderr>: ":         "[1,mpirank:0,algo-1]<stderr>",
		"3: ":                                    "3",
		"worker-2: ":                             "worker-2",
		"gpu012: [rank9]: ":                      "gpu012",
		"10.0.0.7: ":                             "10.0.0.7",
		"(RayTrainWorker pid=912, ip=10.0.0.7) ": "(RayTrainWorker pid=912, ip=10.0.0.7)",
		"(EngineCore_DP0 pid=12) ":               "(EngineCore_DP0 pid=12)",
		"trainer-1  | ":                          "trainer-1  |",
		"trainer_1 | ":                           "trainer_1 |",
		"mytrainer  | ":                          "mytrainer  |",
		"[pod/trainer-0/main] ":                  "[pod/trainer-0/main]",
		"2026-04-01T17:06:35.003Z ":              "",
		"2026-04-01T17:06:35.003123456Z stderr F ":         "",
		"2026-04-01T17:06:35+0000 gpu-012 train.sh[812]: ": "",
		"Apr  1 17:06:35 gpu-012 train.sh[812]: ":          "",
		"Apr 11 17:06:35 ":                                 "",
		"# ":                                               "",
		"> ":                                               "",
		"[pod/a-0/main] 2026-04-01T17:06:35.003Z [rank1]: ": "[pod/a-0/main]",
	} {
		r := printed.Row{Body: prefix + text}
		r.Unprefix()
		if r.Body != text || r.Rank != rank {
			t.Errorf("of %q is left %q, of rank %q", prefix+text, r.Body, r.Rank)
		}
	}
	for _, line := range []string{"RuntimeError: x", "epoch1: loss 3", "loss: 0.5", "a | b", "[INFO] x", "[2026-04-01 10:00:00] x", "Step 3: x"} {
		r := printed.Row{Body: line}
		if r.Unprefix(); r.Body != line || r.Rank != "" {
			t.Errorf("%q becomes %q, of rank %q", line, r.Body, r.Rank)
		}
	}
}

// TestCut: a line that is longer than a row is cut where no word is torn, and nothing of it is lost.
func TestCut(t *testing.T) {
	d := newDetector(t, trainer)
	const message = "CUDA out of memory. Tried to allocate 2.00 GiB"
	for shift := range 80 {
		line := strings.Repeat("x ", printed.MaxRow/2-40) + strings.Repeat("y", shift) + " " + message +
			strings.Repeat(" and so on", 400)
		rs, _ := printed.Rows([]printed.Held{{Number: 1, Text: line}}, 0, d.words)
		whole, found := "", false
		for i, r := range rs {
			whole += r.Body
			found = found || strings.Contains(r.Body, "out of memory")
			if r.More != (i > 0) || len(r.Body) > printed.MaxRow {
				t.Fatalf("row %d of %d bytes goes on: %v", i, len(r.Body), r.More)
			}
		}
		if whole != line || !found || len(rs) < 2 {
			t.Fatalf("with the message at %d, the rows are torn: %d rows, %v", printed.MaxRow-79+shift, len(rs), found)
		}
	}
}

package sisr

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// The end of a validation is heard in every layout of the family's logs: rich's columns on a terminal, plain lines elsewhere.
func TestEndOfValidation(t *testing.T) {
	j, err := recognize(t, folder(t, map[string]string{"x.yml": recipeYAML}, nil), "python", "train.py", "-opt", "x.yml")
	if err != nil {
		t.Fatal(err)
	}
	rich := "[11/22/26 14:45:05] INFO     Validation Val                     sr_model.py:1081\n" +
		"                                      # psnr : 29.2520                          \n" +
		"                             Best: 29.2520 @         5 iter                     \n" +
		"                                                                                \n"
	for name, tt := range map[string]struct {
		text string
		ends int
	}{
		"rich":       {rich, 1},
		"two sets":   {rich + rich, 2},
		"a log":      {"2026-11-22 14:45:05,486 INFO: Validation Val\n\t # psnr : 29.2520\tBest: 29.2520 @         5 iter\n\n", 1},
		"a terminal": {"Validation Val Dataset\n\t # psnr : 29.2520\n", 1},
		"a sentence": {"2026-11-22 14:45:05,486 INFO: Validation is enabled: every 5 iterations\n", 0},
	} {
		d, err := oom.NewDetector(j.Signs)
		if err != nil {
			t.Fatal(err)
		}
		var seen []string
		d.OnEvent = func(e oom.Event) {
			if e.Kind == job.PhaseEnd {
				seen = append(seen, e.Phase)
			}
		}
		if _, err := io.WriteString(d, tt.text+"[11/22/26 14:45:07] INFO     [epoch:   0, iter:       6,           logger.py:158\n"); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(seen, slices.Repeat([]string{"validation"}, tt.ends)) {
			t.Errorf("%s: heard %q", name, seen)
		}
	}
}

// A step is heard when its line comes, and not when the next message shows that it was the end of one: a whole validation may lie between.
func TestStepIsHeardAtOnce(t *testing.T) {
	j, err := recognize(t, folder(t, map[string]string{"x.yml": recipeYAML}, nil), "python", "train.py", "-opt", "x.yml")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int64{
		"[11/22/26 14:45:07] INFO     [epoch:   0, iter:       6,           logger.py:158\n":         6,
		"[11/22/26 14:45:07] INFO     [epoch:   0, iter:  12,345,           logger.py:158\n":         12345,
		"2026-11-22 14:45:07,012 INFO: [epoch:   0, iter:   1,000, lr:(2.000e-04)] [eta: 0:00:00]\n": 1000,
		"2026-11-22 14:45:07,012 INFO: [epoch:  0, iter:   10000, lr:(2.000e-04)] [eta: 0:00:00]\n":  10000,
	} {
		d, err := oom.NewDetector(j.Signs)
		if err != nil {
			t.Fatal(err)
		}
		got := int64(-1)
		d.OnEvent = func(e oom.Event) { got = e.Iteration }
		if _, err := io.WriteString(d, text); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("after %q it is at iteration %d, want %d", text, got, want)
		}
	}
}

// traiNNer-redux saves after its failure: that is not where memory ran out.
func TestSavedAfterItFailed(t *testing.T) {
	j, err := recognize(t, folder(t, map[string]string{"x.yml": recipeYAML}, nil), "python", "train.py", "-opt", "x.yml")
	if err != nil {
		t.Fatal(err)
	}
	d, err := oom.NewDetector(j.Signs)
	if err != nil {
		t.Fatal(err)
	}
	const text = "[11/30/26 17:01:21] INFO     Saving models and training states to   train.py:475\n" +
		"                             experiments folder. Free space: 58 GB              \n" +
		"[11/30/26 17:01:29] INFO     [epoch:   0, iter:       6,           logger.py:158\n" +
		"                             lr:(2.000e-04)] [eta: 0:00:12]                     \n" +
		"[11/30/26 17:01:35] ERROR    Ran out of VRAM during training.       train.py:515\n" +
		"                             Reduce lq_size or batch_size_per_gpu               \n" +
		"                             RuntimeError: Ran out of VRAM during               \n" +
		"                             training. Reduce lq_size                           \n" +
		"[11/30/26 17:01:35] INFO     Saving models and training states to   train.py:557\n" +
		"                             experiments folder for epoch: 0, iter:             \n" +
		"                             6.                                                 \n" +
		"[11/30/26 17:01:35] INFO     Training stopped. Time consumed:       train.py:566\n"
	if _, err := io.WriteString(d, text); err != nil {
		t.Fatal(err)
	}
	r := d.Report(oom.Exit{})
	if !r.OOM || r.Part != "" || r.Stage != "training" || !strings.Contains(r.Cause, "in training") {
		t.Errorf("%v, part %q, stage %q: %s", r.OOM, r.Part, r.Stage, r.Cause)
	}
}

// The forks print what is reserved beside the peak: both are read, of a line that rich has broken too.
func TestPrintedMemory(t *testing.T) {
	j, err := recognize(t, folder(t, map[string]string{"x.yml": recipeYAML}, nil), "python", "train.py", "-opt", "x.yml")
	if err != nil {
		t.Fatal(err)
	}
	gib := func(f float64) unit.Bytes { return unit.Bytes(f * float64(unit.GiB)) }
	const line = "2025-12-27 11:58:31,170 INFO: [epoch:   0, iter:     100, lr:(2.000e-04)] [VRAM: 1.20 GB, peak: " +
		"8.09 GB, cached: 6.40 GB] l_g_l1: 1e-02\n"
	for name, tt := range map[string]struct {
		text           string
		peak, reserved unit.Bytes
	}{
		"a fork's": {line, gib(8.09), gib(6.40)},
		"an older fork's": {"2025-12-18 11:40:02,170 INFO: [epoch:   0, iter:     100] [VRAM: 1.20 GB, peak: 8.09 GB] " +
			"l_g_l1: 1e-02\n", gib(8.09), 0},
		"upstream's": {"2026-11-22 14:45:07,012 INFO: [epoch:   0, iter:   1,000] [peak VRAM: 8.09 GB] l_g_l1: " +
			"1e-02\n", gib(8.09), 0},
		"rich's": {"[12/27/25 11:58:31] INFO     [epoch:   0, iter:     100, lr:(2.000e-04)] [VRAM: 1.20 GB,     " +
			"logger.py:283\n" +
			"                             peak: 8.09 GB, cached: 6.40 GB] l_g_l1: 1e-02                        \n", gib(8.09),
			gib(6.40)},
		"rich's, broken between the two": {"[12/27/25 11:58:31] INFO     [epoch:   0, iter:     100] [VRAM: 1.20 GB, " +
			"peak: 8.09 GB,      logger.py:283\n" +
			"                             cached: 6.40 GB] l_g_l1: 1e-02                        \n", gib(8.09), gib(6.40)},
	} {
		d, err := oom.NewDetector(j.Signs)
		if err != nil {
			t.Fatal(err)
		}
		var peak, reserved unit.Bytes
		d.OnEvent = func(e oom.Event) {
			if e.Kind == job.Memory {
				peak, reserved = max(peak, e.Bytes), max(reserved, e.Reserved)
			}
		}
		if _, err := io.WriteString(d, tt.text+"[11/22/26 14:45:07] INFO     Saving models and training states.        "+
			"   logger.py:158\n"); err != nil {
			t.Fatal(err)
		}
		if (peak-tt.peak).Round(unit.MiB) != 0 || (reserved-tt.reserved).Round(unit.MiB) != 0 {
			t.Errorf("%s: a peak of %v and %v reserved, want %v and %v", name, peak, reserved, tt.peak, tt.reserved)
		}
	}
}

// The recipe names a validation's metrics, and each dialect prints them in its own layout.
func TestMetrics(t *testing.T) {
	recipe := strings.Replace(recipeYAML, "  val_freq: 100\n", "  val_freq: 100\n  metrics_enabled: true\n"+
		"  metrics:\n    psnr: {type: calculate_psnr}\n    sharp: {type: x, better: lower}\n    lpips: {type: "+
		"calculate_lpips}\n", 1)
	j, err := recognize(t, folder(t, map[string]string{"x.yml": recipe}, nil), "python", "train.py", "-opt", "x.yml")
	if err != nil {
		t.Fatal(err)
	}
	step := "[epoch:   0, iter:   1,000, lr:(2.000e-04)] [eta: 0:00:00]\n"
	for name, text := range map[string]string{
		"redux": "2026-11-22 14:45:05,486 INFO: " + step + "2026-11-22 14:45:05,486 INFO: Validation Val\n" +
			"\t # psnr : 29.2520\tBest: 31.0000 @         5 iter\n\t # sharp:  3.5000\tBest: 3.5 @ 5 iter\n\t # lpips:  " +
			"0.1200\n\n",
		"rich": "[11/22/26 14:45:07] INFO     [epoch:   0, iter:   1,000,           logger.py:158\n" +
			"[11/22/26 14:45:05] INFO     Validation Val                     sr_model.py:1081\n" +
			"                                      # psnr : 29.2520                          \n" +
			"                             Best: 31.0000 @         5 iter                     \n" +
			"                                      # sharp:  3.5000                          \n" +
			"                                      # lpips:  0.1200                          \n" +
			"[11/22/26 14:45:07] INFO     [epoch:   0, iter:   1,000,           logger.py:158\n",
		"BasicSR": "2026-11-22 14:45:05,486 INFO: " + step +
			"INFO: Validation Val\n\t # psnr: 29.2520\tBest: 31.0 @ 5 iter\n\t # sharp: 3.5\n\t # lpips: 0.12\n",
		"neosr": step + "INFO: Validation Val\n\n\t # psnr: 29.2520\x1b[92m........ Best: 31.0000 @ 5 iter\x1b[0m\n" +
			"\t # sharp: 3.5000\n\t # lpips: 0.1200\n",
	} {
		d, err := oom.NewDetector(j.Signs)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(d, text); err != nil {
			t.Fatal(err)
		}
		at := func(name string, dir metric.Direction, v float64) metric.Metric {
			return metric.Metric{Name: name, Direction: dir, Last: &metric.Point{Value: v, Step: 1000},
				Best: &metric.Point{Value: v, Step: 1000}}
		}
		want := metric.Set{"psnr": at("psnr", metric.Maximise, 29.252), "sharp": at("sharp", metric.Minimise, 3.5),
			"lpips": at("lpips", metric.Minimise, 0.12)}
		if diff := cmp.Diff(want, d.State().Metrics); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	two := strings.Replace(recipe, "  val:\n", "  val_2: {name: Other}\n  val:\n", 1)
	j, err = recognize(t, folder(t, map[string]string{"x.yml": two}, nil), "python", "train.py", "-opt", "x.yml")
	if err != nil || j.Signs.Has(job.Metric) {
		t.Errorf("two sets print the same names: %v", err)
	}
}

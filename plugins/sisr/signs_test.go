package sisr

import (
	"io"
	"slices"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
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

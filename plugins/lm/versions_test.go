package lm

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// A step is that of the release which the command's Python has; where no Python is found, of that which is pinned.
func TestReadsTheRelease(t *testing.T) {
	for name, tt := range map[string]struct {
		installed, requirements string
		release                 arch.Release
		optimizer, unknown      string
	}{
		"installed":        {"4.44.2", "transformers==4.40.0\n", 44, "adamw_torch", ""},
		"fused by default": {"4.54.1", "", 54, "adamw_torch_fused", ""},
		"of 5":             {"5.23.0", "", 0, "adamw_torch_fused", ""},
		"pinned": {"", "# tried\ntorch>=2.1\nTransformers[torch] == 4.46.3 ; python_version > '3.8'\n", 46,
			"adamw_torch", ""},
		"pinned, too old": {"", "transformers==4.28.1\n", 0, "", "has 4.28.1"},
		"no pin":          {"", "transformers>=4.40\n", 0, "adamw_torch_fused", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := cmd(t, folder(t, map[string]string{"requirements.txt": tt.requirements}), asked...)
			c.Args[0] = filepath.Join(t.TempDir(), "none", "python")
			if tt.installed != "" {
				c.Args[0] = interpreter(t, tt.installed)
			}
			r := recognised(t, c)
			if !strings.Contains(r.unknown, tt.unknown) || (r.unknown == "") != (tt.unknown == "") {
				t.Fatalf("unknown because %q, want %q", r.unknown, tt.unknown)
			}
			if tt.unknown == "" && (r.step.Release != tt.release || r.step.Optimizer != tt.optimizer) {
				t.Errorf("release %d with %s, want %d with %s", r.step.Release, r.step.Optimizer, tt.release, tt.optimizer)
			}
			said := strings.Contains(strings.Join(r.warnings, "\n"), "which requirements.txt asks for")
			if want := tt.unknown == "" && tt.installed == "" && tt.release > 0; said != want {
				t.Errorf("the plan names requirements.txt: %v, want %v", said, want)
			}
		})
	}
}

// The plan names the release that its estimate follows, and logits in float32 with their copies are more than those of
// 5.
func TestPricesTheRelease(t *testing.T) {
	price := func(version string, more ...string) mem.Estimate {
		t.Helper()
		c := cmd(t, folder(t, nil), append(slices.Clone(asked), more...)...)
		c.Args[0] = interpreter(t, version)
		set, err := recognised(t, c).Ladders(t.Context(), card)
		if err != nil {
			t.Fatal(err)
		}
		return set.Phases[0].Rungs[0].Estimates[0]
	}
	old, now := price("4.44.2", "--bf16"), price("5.23.0", "--bf16")
	before, after := old.Items[0].From, now.Items[0].From
	if !strings.HasSuffix(before, "in transformers 4.44") || strings.Contains(after, "transformers") {
		t.Errorf("parameters are from %q and %q", before, after)
	}
	if old.Total() <= now.Total() {
		t.Errorf("%v with transformers 4.44, and %v with 5", old.Total(), now.Total())
	}
	// In float32 no fused kernel takes the groups of heads that transformers leaves as they are since 4.54.
	if old, now := price("4.44.2"), price("5.23.0"); old.Total() >= now.Total() {
		t.Errorf("in float32 %v with transformers 4.44, and %v with 5", old.Total(), now.Total())
	}
}

// LLaMA-Factory's own command starts a process for each card since 0.8.
func TestStartsAProcessForEachCard(t *testing.T) {
	for version, one := range map[string]bool{"0.7.1": true, "0.8.0": false, "0.10.0": false, "": false} {
		c := factory(t, "a.yaml")
		c.Args, c.Devices = []string{"llamafactory-cli", "train", "a.yaml"}, 4
		if version != "" {
			write(t, c.Dir, map[string]string{"requirements.txt": "llamafactory==" + version + "\n"})
		}
		r := recognised(t, c)
		if r.replicas != one || strings.Contains(r.unknown, "DataParallel") != one {
			t.Errorf("%q: replicas %v, unknown because %q", version, r.replicas, r.unknown)
		}
	}
}

// Rows are cut to another length where nothing sets it.
func TestCutsAsTheRelease(t *testing.T) {
	for version, want := range map[string]int64{"0.9.0": 1024, "0.9.1": 2048, "": 2048} {
		c := factory(t, "a.yaml")
		recipe := strings.Replace(factoryRecipe, "cutoff_len", "max_samples", 1)
		write(t, c.Dir, map[string]string{"a.yaml": recipe})
		if version != "" {
			write(t, c.Dir, map[string]string{"requirements.txt": "llamafactory==" + version + "\n"})
		}
		c.Args = []string{"llamafactory-cli", "train", "a.yaml"}
		if r := recognised(t, c); r.step.Length != want {
			t.Errorf("%q: rows of %d tokens, want %d (%s)", version, r.step.Length, want, r.unknown)
		}
	}
}

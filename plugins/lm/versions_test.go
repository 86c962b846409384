package lm

import (
	"os"
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

// Before Ampere no fused kernel takes bfloat16, and eager attention asks for none.
func TestBfloat16BeforeAmpere(t *testing.T) {
	t4 := card
	t4.Capability = "7.5"
	for attention, known := range map[string]bool{"sdpa": false, "eager": true} {
		c := cmd(t, folder(t, nil), "sft.py", "--model_name_or_path", "model", "--dataset_name", "x", "--max_length", "256",
			"--output_dir", "o", "--attn_implementation", attention)
		set, err := recognised(t, c).Ladders(t.Context(), t4)
		if err != nil {
			t.Fatal(err)
		}
		if e := set.Phases[0].Rungs[set.Phases[0].Asked].Estimates[0]; (e.Unknown == "") != known {
			t.Errorf("%s: unknown because %q, want known %v", attention, e.Unknown, known)
		}
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

// gemma2 has no attention by SDPA since 5.21, where its class says so.
func TestBoundsScores(t *testing.T) {
	gemma := []string{"run_clm.py", "--model_name_or_path", "google/gemma-2-2b", "--do_train", "--output_dir", "o",
		"--block_size", "512", "--dtype", "bfloat16"}
	for version, eager := range map[string]bool{"5.20.0": false, "5.21.0": true, "5.24.0": true} {
		c := cmd(t, folder(t, nil), gemma...)
		c.Args[0] = interpreter(t, version)
		if r := recognised(t, c); r.unknown != "" || r.step.Eager != eager {
			t.Errorf("%s: eager %v, want %v (%s)", version, r.step.Eager, eager, r.unknown)
		}
	}
	c := cmd(t, folder(t, nil), append(gemma, "--use_liger_kernel")...)
	c.Args[0] = interpreter(t, "5.24.0")
	if r := recognised(t, withLiger(t, c, "0.8.5")); !strings.Contains(r.unknown, "have no formula for gemma2") {
		t.Errorf("Liger's kernels for gemma2: %q", r.unknown)
	}
}

// A model's own code is run where the program trusts it; otherwise transformers' class of its type is.
func TestNative(t *testing.T) {
	config := map[string]string{"model/config.json": `{"model_type": "phi3", "vocab_size": 1000, "hidden_size": 64, ` +
		`"num_attention_heads": 4, "auto_map": {"AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM"}}`}
	for _, tt := range []struct{ trusts, release, why string }{
		{"true", "0.9.3", "auto_map"}, {"false", "0.9.3", ""}, {"false", "0.9.1", "auto_map"},
	} {
		c := factoryIn(t, config, "a.yaml", "trust_remote_code="+tt.trusts)
		packages := filepath.Join(filepath.Dir(c.Args[0]), "../lib/python3.11/site-packages")
		if err := os.MkdirAll(filepath.Join(packages, "llamafactory-"+tt.release+".dist-info"), 0o755); err != nil {
			t.Fatal(err)
		}
		r := recognised(t, c)
		if got := strings.Contains(r.unknown, "auto_map"); got != (tt.why != "") {
			t.Errorf("%+v: unknown because %q", tt, r.unknown)
		}
	}
}

package lm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
)

// axolotl's plugin of cut cross entropy, beside others and with its setting.
func TestReadsCut(t *testing.T) {
	at := func(lines map[string]string) job.Command {
		if lines["plugins"] == "" {
			lines["plugins"] = "[" + cutPlugin + "]"
		}
		c := axolotlAt(t, lines, "train", "a.yaml")
		packages := filepath.Join(filepath.Dir(c.Args[0]), "../lib/python3.11/site-packages")
		if err := os.MkdirAll(filepath.Join(packages, "cut_cross_entropy"), 0o755); err != nil {
			t.Fatal(err)
		}
		return c
	}
	without := func(lines map[string]string) job.Command { return axolotlAt(t, lines, "train", "a.yaml") }
	both := "[" + cutPlugin + ", " + ligerPlugin + "]"
	for name, tt := range map[string]struct {
		command job.Command
		cut     bool
		unknown string
		warned  string
	}{
		"on":            {at(map[string]string{}), true, "", "no card has measured this yet: cut cross entropy"},
		"whole":         {at(map[string]string{"adapter": "-"}), true, "", ""},
		"off":           {at(map[string]string{"cut_cross_entropy": "false"}), false, "", ""},
		"null":          {at(map[string]string{"cut_cross_entropy": ""}), false, "", ""},
		"no plugin":     {without(map[string]string{"cut_cross_entropy": "true"}), false, "", "has no effect"},
		"not installed": {without(map[string]string{"plugins": "[" + cutPlugin + "]"}), false, "not installed", ""},
		"two losses": {withLiger(t, at(map[string]string{"plugins": both,
			"liger_fused_linear_cross_entropy": "true"}), "0.8.1"), true, "beside a loss of Liger's", ""},
		"other kernels": {withLiger(t, at(map[string]string{"plugins": both, "liger_rms_norm": "true"}), "0.8.1"),
			true, "", "cut cross entropy, "},
		"another plugin": {at(map[string]string{"plugins": "[" + cutPlugin + ", axolotl.integrations.kd.KDPlugin]"}),
			false, "KDPlugin has no formula", ""},
		"float32": {at(map[string]string{"bf16": "false"}), true, "weights in float32", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := recognised(t, tt.command)
			set, err := r.Ladders(t.Context(), card)
			if err != nil {
				t.Fatal(err)
			}
			why := set.Phases[0].Rungs[set.Phases[0].Asked].Estimates[0].Unknown
			if !strings.Contains(why, tt.unknown) || (why == "") != (tt.unknown == "") {
				t.Fatalf("unknown because %q, want %q", why, tt.unknown)
			}
			if r.step.Cut != tt.cut || r.step.Cut && r.step.Upcast {
				t.Errorf("cut: %v, with parts in float32: %v", r.step.Cut, r.step.Upcast)
			}
			if said := strings.Join(r.warnings, "\n"); !strings.Contains(said, tt.warned) {
				t.Errorf("warned: %q, want %q", said, tt.warned)
			}
		})
	}
}

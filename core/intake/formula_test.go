package intake

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/unit"
)

func TestFormula(t *testing.T) {
	sources := []host.Source{
		{Manifest: plugin.Manifest{Name: "sisr", Archs: []string{"span", "span_s", "swinir_m", "realplksr"}}},
		{Manifest: plugin.Manifest{Name: "moco", Archs: []string{"resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50", "wide_resnet50", "wide_resnet101", "small_resnet10", "vit_b"}}},
	}
	for _, tt := range []struct{ name, plugin, says string }{
		{"Swin-IR", "auto", "similar names are swinir_m;"},                                    // written otherwise
		{"realplksr_s", "auto", "similar names are realplksr;"},                               // more of it
		{"spam", "auto", "similar names are span, span_s;"},                                   // mistyped after its beginning
		{"vi", "auto", `no plugin has a formula for "vi"; `},                                  // too short to be like any
		{"resnet", "auto", "resnet18, resnet34, resnet50, resnet101, resnet152, resnext50, "}, // more than are shown
		{"resnet", "auto", ", 1 more; `launch estimate --list` lists all"},
		{"SPAN", "moco", `plugin sisr has the formula for "span", but --plugin is moco`},
		{"span", "nosuch", "no plugin \"nosuch\"; run `launch plugins`"},
	} {
		_, _, err := Formula(sources, tt.name, tt.plugin)
		if !strings.Contains(err.Error(), tt.says) || tt.name == "vi" && strings.Contains(err.Error(), "similar") {
			t.Errorf("%s of %s: %v, want it to say %q", tt.name, tt.plugin, err, tt.says)
		}
	}
}

// A formula is found by its name in any case.
func TestFormulaOf(t *testing.T) {
	sources := []host.Source{{Manifest: plugin.Manifest{Name: "sisr", Archs: []string{"span"}}}, {Manifest: plugin.Manifest{Name: "mine", Archs: []string{"Span"}}}}
	for only, want := range map[string]string{"auto": "sisr span", "sisr": "sisr span", "mine": "mine Span"} {
		src, arch, err := Formula(sources, "SPAN", only)
		if got := src.Manifest.Name + " " + arch; err != nil || got != want {
			t.Errorf("--plugin %s: %s, %v; want %s", only, got, err, want)
		}
	}
}

// Beyond 64 bits a number of bytes is anything.
func TestCountable(t *testing.T) {
	for bytes, ok := range map[unit.Bytes]bool{0: true, 1 << 50: true, 1<<50 + 1: false, -1: false} {
		p := plugin.Phase{Phase: "training", Estimate: mem.Estimate{Items: []mem.Item{{Kind: mem.Inputs, What: "batch", Bytes: bytes}}}}
		if err := Countable([]plugin.Phase{p}); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "training: batch inputs come to more than") {
			t.Errorf("%d bytes: %v", int64(bytes), err)
		}
	}
}

package settings

import (
	"slices"
	"strings"
	"testing"
)

func TestMistyped(t *testing.T) {
	for env, meant := range map[string]string{
		"LAUNCH_ALOW=none": "LAUNCH_ALLOW", "LAUNCH_QUITE=1": "LAUNCH_QUIET", "LAUNCH_DEVICES=0": "LAUNCH_DEVICE", "LAUNCH_ASASKED=1": "LAUNCH_AS_ASKED",
		"LAUNCH_AS-ASKED=1": "LAUNCH_AS_ASKED", "LAUNCH_RECEIPT=no": "LAUNCH_RECEIPTS", "LAUNCH_VRM=8GiB": "LAUNCH_VRAM", "launch_allow=none": "LAUNCH_ALLOW",
		"LAUNCH_JSONFILE=x": "LAUNCH_JSON_FILE", "LAUNCH_STATEDIR=x": "LAUNCH_STATE_DIR", "LAUNCH_GPU=1": "LAUNCH_GPUS",
		// settings, launch's own, its tests', and what belongs to others
		"LAUNCH_ALLOW=none": "", "LAUNCH_AS_ASKED=1": "", "LAUNCH_ALOW=": "", "ALOW=none": "", "CUDA_LAUNCH_BLOCKING=1": "", "LAUNCH=1": "", "LAUNCHALOW=1": "",
		"LAUNCH_OVERLAY=x": "", "LAUNCH_PLUGIN=x": "", "LAUNCH_PLUGIN_ASKED=x": "", "LAUNCH_TEST_PYTHON=x": "", "LAUNCH_HOSTILE_LINES=9": "",
		"LAUNCH_EDITOR=vi": "", "LAUNCH_DARKLY_SDK_KEY=x": "", "LAUNCH_MODE=x": "", "LAUNCH_DIR=/": "", "LAUNCH_URL=x": "", "LAUNCH_FULL=1": "LAUNCH_FILL",
		"LAUNCH_FOUL=1": "", "LAUNCH_DEVICE_ID=0": "", "LAUNCH_SET=a=1": "",
	} {
		var want []string
		if meant != "" {
			name, _, _ := strings.Cut(env, "=")
			want = []string{name + " is not a setting and has no effect: did you mean " + meant + "?"}
		}
		if strings.HasPrefix(env, "LAUNCH_SET=") {
			want = []string{"LAUNCH_SET has no effect: --set belongs to one command"}
		}
		if got := Mistyped([]string{"HOME=/", env}); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", env, got, want)
		}
	}
}

package python

import (
	"os"
	"strings"

	"github.com/launch-ml/launch/core/config"
)

// Allocator is the knob of the caching allocator's settings.
const Allocator = "allocator"

// ExpandableSegments is the edit that makes PyTorch's caching allocator use expandable segments, where that is known to be
// harmless: Linux and not WSL or Jetson, torch 2.2 or later, and nothing set by the user. pytorch#165685 and vllm#42609
// are about sharing tensors between processes: a plugin of a family that does so must not offer it.
func (e Environment) ExpandableSegments(env []string) (config.Edit, bool) {
	for _, kv := range env {
		if strings.HasPrefix(kv, "PYTORCH_CUDA_ALLOC_CONF=") || strings.HasPrefix(kv, "PYTORCH_ALLOC_CONF=") {
			return config.Edit{}, false
		}
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err != nil || strings.Contains(strings.ToLower(string(release)), "microsoft") ||
		strings.Contains(string(release), "tegra") {
		return config.Edit{}, false
	}
	major, minor, ok := e.Torch()
	if !ok || major < 2 || major == 2 && minor < 2 {
		return config.Edit{}, false
	}
	return config.Edit{
		Knob: Allocator, At: config.Address{Doc: config.EnvDoc, Path: "PYTORCH_CUDA_ALLOC_CONF"}, To: "expandable_segments:True", Add: true,
		Cost: "none", Why: "segments that grow leave fewer pieces too small to use",
	}, true
}

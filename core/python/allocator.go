package python

import (
	"os"
	"strings"

	"github.com/launch-ml/launch/core/config"
)

// Allocator is the knob of the caching allocator's settings.
const Allocator = "allocator"

// AllocatorConf is what the environment tells PyTorch's caching allocator on a card; "" for nothing. Since 2.9 it has two names, of
// which the older is read first (CUDAAllocatorConfig.h); 2.9 takes no expandable segments from the newer (pytorch#183387), and the
// torch before it nothing at all.
func (e Environment) AllocatorConf() string {
	if conf, ok := e.variable(olderConf); ok {
		return conf
	}
	conf, set := e.variable(newerConf)
	if !set {
		return ""
	}
	if major, minor, ok := e.Torch(); ok && major*100+minor < 210 {
		return ""
	}
	return conf
}

const (
	olderConf = "PYTORCH_CUDA_ALLOC_CONF"
	newerConf = "PYTORCH_ALLOC_CONF"
)

// ExpandableSegments is the edit that makes PyTorch's caching allocator use expandable segments, where that is known to be
// harmless: Linux and not WSL or Jetson, torch 2.2 or later, and nothing set by the user. pytorch#165685 and vllm#42609
// are about sharing tensors between processes: a plugin of a family that does so must not offer it.
func (e Environment) ExpandableSegments() (config.Edit, bool) {
	for _, name := range []string{olderConf, newerConf} {
		if _, set := e.variable(name); set {
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
		Knob: Allocator, At: config.Address{Doc: config.EnvDoc, Path: olderConf}, To: "expandable_segments:True", Add: true,
		Cost: "none", Why: "segments that grow leave fewer pieces too small to use",
	}, true
}

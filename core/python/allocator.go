package python

import (
	"os"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
)

// Allocator is the knob of the caching allocator's settings.
const Allocator = "allocator"

// AllocatorConf returns the environment's settings for PyTorch's caching allocator on a card, "" for none, and the
// torch that reads them: 201 for 2.1, 0 if unknown. Since 2.9 the variable has two names, and torch reads the older one
// first (CUDAAllocatorConfig.h). From the newer one, 2.9 takes no expandable segments (pytorch#183387), and older
// versions take nothing. The variable that turns the cache off is appended as if it were one of the options.
func (e Environment) AllocatorConf() (conf string, torch int) {
	older, newer, uncached := e.value(olderConf), e.value(newerConf), e.value(noCaching)
	if older == "" && e.forROCm() {
		older = e.value(hipConf)
	}
	if older+newer+uncached == "" {
		return "", 0
	}
	if major, minor, ok := e.Torch(); ok {
		torch = major*100 + minor
	}
	switch {
	case older != "":
		conf = older
	case torch == 0 || torch >= 210:
		conf = newer
	}
	if uncached != "" {
		conf += "," + noCaching
	}
	return conf, torch
}

// value returns the value of a variable, "" if it is not set.
func (e Environment) value(name string) string {
	v, _ := e.variable(name)
	return v
}

const (
	olderConf = "PYTORCH_CUDA_ALLOC_CONF"
	hipConf   = "PYTORCH_HIP_ALLOC_CONF" // of a torch for ROCm, where the older one is not set
	newerConf = "PYTORCH_ALLOC_CONF"
	noCaching = "PYTORCH_NO_CUDA_MEMORY_CACHING" // of any value but none (forceUncachedAllocator in CUDACachingAllocator.cpp)
)

// forROCm reports whether torch was built for ROCm.
func (e Environment) forROCm() bool { return hipVersion.MatchString(e.torch()) }

// ExpandableSegments returns the edit that makes PyTorch's caching allocator use expandable segments. ok is false
// unless they are known to be safe: Linux without WSL or Jetson, torch 2.2 or later for CUDA (others say that their
// platform has none, CUDACachingAllocator.cpp without PYTORCH_C10_DRIVER_API_SUPPORTED), no setting of the user's, no
// env(1) in the command that would remove the variable. A plugin whose family shares tensors between processes must not
// offer it (pytorch#165685, vllm#42609).
func (e Environment) ExpandableSegments() (config.Edit, bool) {
	if e.value(olderConf)+e.value(newerConf)+e.value(noCaching) != "" || e.stripped == nil || e.stripped(olderConf) {
		return config.Edit{}, false
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err != nil || strings.Contains(strings.ToLower(string(release)), "microsoft") ||
		strings.Contains(string(release), "tegra") {
		return config.Edit{}, false
	}
	major, minor, ok := e.Torch()
	if !ok || major < 2 || major == 2 && minor < 2 || e.forROCm() || strings.Contains(e.TorchBuild(), "+xpu") {
		return config.Edit{}, false
	}
	return config.Edit{
		Knob: Allocator, At: config.Address{Doc: config.EnvDoc, Path: olderConf}, To: "expandable_segments:True", Add: true,
		Cost: "none", Why: "segments that grow leave fewer pieces too small to use",
	}, true
}

// SteadyHeap returns the variables to add to env so that glibc returns freed memory and a limit counts what the program uses:
// without them the peak does not even rise with the batch. They are for a limited job on a CPU only, and never replace
// variables that the user has set.
func SteadyHeap(env []string) (add []string) {
	for _, kv := range []string{"MALLOC_ARENA_MAX=1", "MALLOC_MMAP_THRESHOLD_=65536", "OMP_NUM_THREADS=1"} {
		name, _, _ := strings.Cut(kv, "=")
		if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			add = append(add, kv)
		}
	}
	return add
}

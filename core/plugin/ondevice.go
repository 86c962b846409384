package plugin

import (
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/python"
)

// OnDevice is the estimate of a phase whose tensors are known: it adds what a process takes beside them. On a card
// that is the allocator's slack under the settings of the command's environment, cuBLAS's workspaces and the CUDA
// context; on a CPU the interpreter, torch and their libraries. On another device, nothing is added. An estimate
// without these lines is some hundred MiB too small.
func OnDevice(e mem.Tensors, d gpu.Device, prog command.Prog, env []string) mem.Estimate {
	at := python.Of(prog, env)
	switch d.Kind {
	case gpu.CUDA, gpu.HIP, gpu.XPU:
		return e.OnCard(d, mem.CachingOf(at.AllocatorConf()))
	case gpu.CPU:
		out := e.Alone()
		if out.Known() {
			out.Add(mem.RuntimeOf(at.TorchCUDA()))
		}
		return out
	}
	return e.Alone()
}

package mem

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/unit"
)

// Memory that no module's forward asks for. Each of these is a line of its own with its source, and a guess until a
// measurement on the user's card replaces it.

// CUDAContext is what a process holds on a card outside the allocator: the context, loaded kernels, cuBLAS handles. It
// is the process's share by NVML less what its allocator had reserved, from the out-of-memory messages of 2.1 to 2.9:
// 250 to 455 MiB on 10 to 24 GiB cards, 423 to 554 on V100, 707 to 768 on H100 and GH200, 711 on B200. What was
// measured on a card of the same name stands in place of these.
func CUDAContext(card string, total unit.Bytes) Item {
	if it, ok := measuredContext(priors(), card); ok {
		return it
	}
	it := Item{Kind: Context, What: string(Context), Bytes: 300 * unit.MiB, Guess: true,
		From: "prior for cards up to 24 GiB: 250 to 455 MiB in out-of-memory messages of torch 2.1 to 2.9"}
	switch {
	case named(card, "H100", "H200", "GH200", "B100", "B200", "B300"):
		it.Bytes, it.From = 750*unit.MiB, "prior for Hopper and Blackwell: 707 to 768 MiB in messages of torch 2.7 to 2.9"
	case named(card, "V100", "A100", "A800"), total > 24*unit.GiB+unit.GiB/2:
		it.Bytes, it.From = 500*unit.MiB, "prior for cards above 24 GiB: 423 to 554 MiB in messages of torch 2.3"
	}
	return it
}

// DeviceContext is [CUDAContext], or its like on a card of another maker, where nothing was measured.
func DeviceContext(d gpu.Device) Item {
	it := CUDAContext(d.Name, d.Total)
	switch d.Kind {
	case gpu.HIP:
		it.What, it.From = "HIP context", "a guess: nothing was measured under ROCm; as a CUDA context, "+it.From
	case gpu.XPU:
		it.What, it.From = "Level Zero context", asOnCUDA+"a CUDA context, "+it.From
	}
	return it
}

// named reports whether a card's name holds one of these.
func named(card string, names ...string) bool {
	card = strings.ToUpper(card)
	return slices.ContainsFunc(names, func(n string) bool { return strings.Contains(card, n) })
}

// asOnCUDA begins the origin of a figure of an Intel card, where nothing is known: none at all would be too little.
const asOnCUDA = "a guess: nothing was measured on an Intel card; as "

// BLASWorkspace is cuBLAS's, which PyTorch takes through its allocator: CUBLAS_WORKSPACE_CONFIG's default is 8 MiB and
// 128 KiB before Hopper (seen as 8,519,680 bytes) and 32 MiB from Hopper on (at/cuda/CublasHandlePool.cpp). hipBLAS's
// is 32 MiB, and 128 MiB on gfx94x and gfx95x (there, and docs/source/notes/hip.rst). None is
// known of Intel's cards.
func BLASWorkspace(d gpu.Device) Item {
	capability := d.Capability
	switch d.Kind {
	case gpu.HIP:
		it := Item{Kind: Workspace, What: "hipBLAS", Bytes: 32 * unit.MiB, Guess: true, From: "hipBLAS's default workspace"}
		if strings.HasPrefix(d.Arch, "gfx94") || strings.HasPrefix(d.Arch, "gfx95") || named(d.Name, "MI30", "MI32", "MI35") {
			it.Bytes, it.From = 128*unit.MiB, "hipBLAS's default workspace from MI300 on"
		}
		return it
	case gpu.XPU:
		return Item{Kind: Workspace, What: "oneMKL", Bytes: 8519680, Guess: true, From: asOnCUDA + "cuBLAS's workspace"}
	}
	if it, ok := measuredBLAS(priors(), capability); ok {
		return it
	}
	it := Item{Kind: Workspace, What: "cuBLAS", Bytes: 8519680, Guess: true, From: "cuBLAS's default workspace before Hopper"}
	if major, _, _ := strings.Cut(capability, "."); major >= "9" || len(major) > 1 {
		it.Bytes, it.From = 32*unit.MiB, "cuBLAS's default workspace from Hopper on"
	}
	return it
}

// BLASLtWorkspace is cuBLASLt's, which a linear layer with a bias asks of the allocator while it runs
// (_getWorkspaceSize in aten/src/ATen/cuda/CUDABlas.cpp, pytorch#120925): 1 MiB, and 32 MiB from Hopper on. hipBLASLt's
// is 76 MiB.
func BLASLtWorkspace(d gpu.Device) Item {
	capability := d.Capability
	switch d.Kind {
	case gpu.HIP:
		return Item{Kind: Workspace, What: "hipBLASLt", Bytes: 76 * unit.MiB, Guess: true,
			From: "hipBLASLt's default workspace"}
	case gpu.XPU:
		return Item{Kind: Workspace, What: "oneDNN", Bytes: unit.MiB, Guess: true, From: asOnCUDA + "cuBLASLt's workspace"}
	}
	it := Item{Kind: Workspace, What: "cuBLASLt", Bytes: unit.MiB, Guess: true, From: "cuBLASLt's default workspace before Hopper"}
	if major, _, _ := strings.Cut(capability, "."); major >= "9" || len(major) > 1 {
		it.Bytes, it.From = 32*unit.MiB, "cuBLASLt's default workspace from Hopper on"
	}
	return it
}

// Collectives is what NCCL keeps outside the allocator in each of several ranks, or in the one process that drives several
// cards (DataParallel copies parameters and sums gradients through it): nothing for one. It is there from the first
// collective on.
//
// A connection of a channel has a buffer for each protocol: 4 MiB (NCCL_BUFFSIZE), 4.7 MiB (LL128: 120 × 640 × 8 × 8 B) and
// 0.5 MiB (LL: 8 × 512 × 8 × 16 B) (computeBuffSizes in src/init.cc and src/include/device.h of NCCL 2.18), and there are a few
// channels over PCIe and dozens over NVLink; its kernels come to that. Processes under DDP on H100s of 93 and 94 GiB
// held 1302 to 1567 MiB outside the allocator in out-of-memory messages, others on such cards 707 to 768; on A100s and H100s of
// 80 GiB 1659 to 3457. Nothing was measured here.
func Collectives(d gpu.Device, ranks int64) []Item {
	if ranks <= 1 || d.Kind == gpu.CPU {
		return nil
	}
	it := Item{Kind: Context, What: "NCCL", Bytes: 128 * unit.MiB, Guess: true,
		From: "buffers of 9 MiB a connection, of some channels, and NCCL's kernels"}
	if named(d.Name, "A100", "A800", "H100", "H800", "H200", "GH200", "B100", "B200", "B300") {
		it.Bytes, it.From = 600*unit.MiB, "cards with NVLink: at the least what H100s under DDP held beyond those without, in out-of-memory messages"
	}
	switch d.Kind {
	case gpu.HIP:
		it.What, it.From = "RCCL", "not measured: as NCCL's, "+it.From
	case gpu.XPU:
		it.What, it.From = "oneCCL", asOnCUDA+"NCCL's, "+it.From
	}
	return []Item{it}
}

// HostRuntime is [RuntimeOf] where it is not known what torch was built for.
func HostRuntime(torchMajor int) Item { return RuntimeOf(torchMajor, "") }

// NoCUDA is what a torch was built for that knows no card.
const NoCUDA = "none"

// RuntimeOf is the interpreter, torch and their libraries, which count against a limit on a CPU. torchMajor is 0 where the
// version is not known; cuda is the CUDA that torch was built for ("12.4"), [NoCUDA], or "" where that is not known.
//
// VmData of a process, MiB (Linux 6.18, x86-64, one thread, one arena, mmap from 64 KiB on, 2026-11-22): after import
// torch; after a convolution's forward, backward and AdamW's step, under autocast too; and of that what lies in the data segments of
// CUDA's libraries, which a limit counts though no card is there:
//
//	1.13.0, Debian's, CPU         139   148     0
//	1.13.1+cu117, PyPI's          326   338   177
//	2.5.1+cu124, PyPI's           636   707   373
//	2.15.0+cu132, PyPI's          716   806   383
//
// What a trainer imports beside came to 0 (solar-ssl) to 176 MiB (dual cross-attention: pandas, matplotlib, timm), with 2.15.
// traiNNer-redux has 967 MiB before its first step, 985 before its first validation and 1025 after it: its threads have 8 MiB of stack
// each. pytorch-lightning 1.4.2 on 1.13 makes 213 of 149.
func RuntimeOf(torchMajor int, cuda string) Item {
	it := Item{Kind: Runtime, What: "Python and torch", Guess: true}
	switch {
	case torchMajor == 1 && (cuda == "" || cuda == NoCUDA):
		it.Bytes, it.From = 192*unit.MiB, "torch 1.13, CPU build: 148 MiB of RLIMIT_DATA, and a trainer's imports"
	case torchMajor == 1:
		it.Bytes, it.From = 384*unit.MiB, "torch 1.13, CUDA build: 338 MiB of RLIMIT_DATA, and a trainer's imports"
	case cuda == NoCUDA:
		it.Bytes, it.From = 640*unit.MiB, "a CPU build was not measured: torch 2.15 less the data of CUDA's libraries, with a trainer's imports and threads"
	default:
		it.Bytes, it.From = unit.GiB, "torch 2.15, CUDA build, with a trainer's imports and threads: 985 to 1025 MiB of RLIMIT_DATA"
	}
	return it
}

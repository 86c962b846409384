package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/gpu/drivers"
	"github.com/launch-ml/launch/core/unit"
)

// sound is a machine on which nothing is wrong, and nothing worth a note.
func sound() Machine {
	unlimited := Limit{Unlimited, Unlimited}
	return Machine{
		Kernel: "6.1.0-18-amd64", Dir: "/home/u/p",
		Driver: Probed[Driver]{Value: Driver{PCI: []string{"0000:01:00.0"}, Module: "550.54.14", OS: "debian",
			Control: OpenDevice, UVM: OpenDevice, DXG: NoDevice}},
		Cards: Probed[[]gpu.Device]{Value: []gpu.Device{card(0)}},
		Memory: Probed[Memory]{Value: Memory{Total: 64 * unit.GiB, Free: 40 * unit.GiB, TotalBy: "this machine's memory",
			FreeBy: "this machine's available memory"}},
		CPUs: Probed[CPUs]{Value: CPUs{Machine: 16, Allowed: 16}},
		Shm:  Probed[Shm]{Value: Shm{Total: 32 * unit.GiB, Free: 32 * unit.GiB}},
		Limits: Probed[Limits]{Value: Limits{Files: Limit{65536, 65536}, Space: unlimited, Locked: Limit{8 << 20, 8 << 20},
			Processes: unlimited}},
		Python: Probed[Python]{Value: Python{Command: "python", Interpreter: "/v/bin/python", Exists: true, Known: true,
			Version: "3.11", HasTorch: true, Torch: "2.6.0+cu124", Major: 2, Minor: 6, CUDA: "12.4", NumPy: "2.1.0",
			Beside: []Package{{"torchvision", "0.21.0", "==2.6.0"}}}},
		Mount: Probed[Mount]{Value: Mount{"ext4", "/home"}},
	}
}

func card(i int) gpu.Device {
	return gpu.Device{Kind: gpu.CUDA, Index: i, UUID: fmt.Sprintf("GPU-%d", i), Name: "NVIDIA A100", Total: 40 * unit.GiB,
		Capability: "8.0", Driver: "550.54.14"}
}

func TestSoundMachine(t *testing.T) {
	for _, f := range sound().Examine() {
		if f.State != Right && f.State != Absent {
			t.Errorf("%s is %s on a sound machine: %s, %s", f.Check, f.State, f.Found, f.Why)
		}
	}
}

// a fault is a change of the sound machine that a check must find, and a change nearly the same that it must not find.
type fault struct {
	name  string
	check string
	state MachineState
	says  string // in what was found or why
	mend  string // in one of the commands
	make  func(*Machine)
	near  func(*Machine)
}

func env(vars ...string) func(*Machine) { return func(m *Machine) { m.Env = vars } }

func inBox(kind string, then func(*Machine)) func(*Machine) {
	return func(m *Machine) { m.Container.Value.Kind = kind; then(m) }
}

func wsl2(then func(*Machine)) func(*Machine) {
	return func(m *Machine) {
		m.Kernel = "5.15.167.4-microsoft-standard-WSL2"
		m.Driver.Value = Driver{DXG: OpenDevice, Control: NoDevice, UVM: NoDevice}
		then(m)
	}
}

func nothing(*Machine) {}

// onAMD is a sound machine with a card of AMD's.
func onAMD(then func(*Machine)) func(*Machine) {
	return func(m *Machine) {
		m.Driver.Value = Driver{KFD: OpenDevice, OS: "ubuntu"}
		m.Cards.Value = []gpu.Device{{Kind: gpu.HIP, UUID: "GPU-00000000000000f1", Name: "AMD Instinct MI210",
			Driver: "amdgpu 6.7.0", Total: 64 * unit.GiB}}
		m.Python.Value.Torch, m.Python.Value.CUDA = "2.6.0+rocm6.2", ""
		then(m)
	}
}

var cardFaults = []fault{
	{"/dev/kfd of others", "driver", Wrong, "join the group", "usermod -aG render",
		onAMD(func(m *Machine) { m.Driver.Value.KFD = ClosedDevice }), onAMD(nothing)},
	{"an AMD card that is hidden", "cards", Wrong, "hides every device", "unset ROCR_VISIBLE_DEVICES",
		onAMD(env("ROCR_VISIBLE_DEVICES=")), onAMD(env("CUDA_VISIBLE_DEVICES="))},
	{"no driver", "driver", Wrong, "without a driver", "sudo apt install nvidia-driver",
		func(m *Machine) { m.Driver.Value = Driver{PCI: []string{"0000:01:00.0"}, OS: "debian"} },
		func(m *Machine) { m.Driver.Value = Driver{OS: "debian"} }}, // no card either
	{"nouveau", "driver", Wrong, "nouveau", "sudo reboot",
		func(m *Machine) { m.Driver.Value = Driver{PCI: []string{"0000:01:00.0"}, Nouveau: true} },
		func(m *Machine) { m.Driver.Value = Driver{Nouveau: true} }},
	{"a module that is not loaded", "driver", Wrong, "not loaded", "sudo modprobe nvidia",
		func(m *Machine) { m.Driver.Value.Module, m.Driver.Value.Library = "", "/usr/lib64/libcuda.so.1" },
		func(m *Machine) { m.Driver.Value.Library = "/usr/lib64/libcuda.so.1" }},
	{"a container without the card", "driver", Wrong, "started without the card", "docker run --gpus all",
		inBox("docker", func(m *Machine) { m.Driver.Value.Control = NoDevice }), inBox("docker", nothing)},
	{"no device files", "driver", Wrong, "device files", "nvidia-modprobe",
		func(m *Machine) { m.Driver.Value.Control = NoDevice }, nothing},
	{"device files of others", "driver", Wrong, "join the group", "usermod -aG",
		func(m *Machine) { m.Driver.Value.Control = ClosedDevice },
		func(m *Machine) { m.Driver.Value.DXG = ClosedDevice }},
	{"no unified memory", "driver", Wrong, "/dev/nvidia-uvm is missing", "nvidia-modprobe -c 0 -u",
		func(m *Machine) { m.Driver.Value.UVM = NoDevice }, nothing},
	{"a new library and an old module", "cards", Wrong, "old module", "sudo reboot",
		func(m *Machine) {
			m.Cards.Err = errors.New("asking the NVIDIA driver: Driver/library version mismatch")
		},
		func(m *Machine) {
			m.Driver.Value, m.Cards.Err = Driver{}, fmt.Errorf("%w: not found", drivers.ErrNoDriver)
		}},
	{"a container that lost its cards", "cards", Wrong, "systemd", "--device /dev/nvidiactl",
		inBox("docker", func(m *Machine) { m.Cards.Err = errors.New("asking the NVIDIA driver: Unknown Error") }),
		inBox("docker", nothing)},
	{"no NVML in a container", "cards", Wrong, "not in the container", "NVIDIA_DRIVER_CAPABILITIES",
		inBox("docker", func(m *Machine) { m.Cards.Err = drivers.ErrNoDriver }),
		inBox("docker", func(m *Machine) { m.Driver.Value, m.Cards.Err = Driver{}, drivers.ErrNoDriver })},
	{"a driver that hangs", "cards", Wrong, "hangs", "nvidia-smi -pm 1",
		func(m *Machine) { m.Cards.Err = fmt.Errorf("no answer: %w", context.DeadlineExceeded) }, nothing},
	{"a lost card", "cards", Wrong, "not taken it", "dmesg", func(m *Machine) { m.Cards.Value = nil },
		func(m *Machine) { m.Cards.Value, m.Driver.Value.PCI = nil, nil }},
	{"a card that is not there", "cards", Wrong, "names none of the 1 devices", "unset CUDA_VISIBLE_DEVICES",
		env("CUDA_VISIBLE_DEVICES=1"), env("CUDA_VISIBLE_DEVICES=0")},
	{"cards that differ", "cards", Remark, "CUDA numbers the fastest", "CUDA_DEVICE_ORDER=PCI_BUS_ID",
		func(m *Machine) {
			other := card(1)
			other.Name = "NVIDIA T4"
			m.Cards.Value = append(m.Cards.Value, other)
		},
		func(m *Machine) { m.Cards.Value = append(m.Cards.Value, card(1)) }},
	{"a full card", "cards", Remark, "process 7 python of ada", "launch gpus",
		func(m *Machine) {
			m.Cards.Value[0].Used = 21 * unit.GiB
			m.Cards.Value[0].Processes = []gpu.Process{{PID: 7, Used: 21 * unit.GiB, Name: "python", User: "ada"}}
		},
		func(m *Machine) { m.Cards.Value[0].Used = 20 * unit.GiB }},
}

var hostFaults = []fault{
	{"a small cgroup", "memory", Wrong, "cgroup /job", "systemd-run",
		func(m *Machine) {
			m.Memory.Value.Free, m.Memory.Value.FreeBy = unit.GiB, "the memory limit of cgroup /job"
		},
		func(m *Machine) {
			m.Memory.Value.Free, m.Memory.Value.FreeBy = 2*unit.GiB, "the memory limit of cgroup /job"
		}},
	{"a small job of Slurm", "memory", Wrong, "cgroup", "--mem=32G", func(m *Machine) {
		m.Memory.Value.Free, m.Memory.Value.FreeBy, m.Slurm.Job = unit.GiB, "the memory limit of cgroup /slurm", "7"
	}, nothing},
	{"a full machine", "memory", Wrong, "needs about", "ps -eo", func(m *Machine) { m.Memory.Value.Free = unit.GiB },
		func(m *Machine) { m.Memory.Value.Free = 2 * unit.GiB }},
	{"strict overcommit", "memory", Wrong, "refused", "vm.overcommit_memory=0",
		func(m *Machine) { m.Memory.Value.Overcommit = 2 }, func(m *Machine) { m.Memory.Value.Overcommit = 1 }},
	{"a quota of cores", "cores", Remark, "the time of 4", "OMP_NUM_THREADS=4",
		func(m *Machine) { m.CPUs.Value.Quota = 3.5 }, func(m *Machine) { m.CPUs.Value.Quota = 15.5 }},
	{"a quota that the user knows", "cores", Remark, "the time of 4", "OMP_NUM_THREADS=4",
		func(m *Machine) { m.CPUs.Value.Quota = 4 },
		func(m *Machine) { m.CPUs.Value.Quota = 4; m.Env = []string{"OMP_NUM_THREADS=4"} }},
	{"a container's /dev/shm", "shm", Wrong, "bus error", "docker run --shm-size 8g",
		inBox("docker", func(m *Machine) { m.Shm.Value = Shm{64 * unit.MiB, 64 * unit.MiB} }),
		inBox("docker", func(m *Machine) { m.Shm.Value = Shm{256 * unit.MiB, 256 * unit.MiB} })},
	{"a pod's /dev/shm", "shm", Wrong, "bus error", "emptyDir",
		inBox("kubernetes", func(m *Machine) { m.Shm.Value = Shm{64 * unit.MiB, 64 * unit.MiB} }), nothing},
	{"a small /dev/shm", "shm", Wrong, "bus error", "remount", func(m *Machine) { m.Shm.Value = Shm{unit.MiB, unit.MiB} },
		nothing},
	{"a full /dev/shm", "shm", Wrong, "it is full", "ls -lS /dev/shm",
		func(m *Machine) { m.Shm.Value.Free = 255 * unit.MiB }, func(m *Machine) { m.Shm.Value.Free = 256 * unit.MiB }},
	{"no /dev/shm", "shm", Wrong, "no /dev/shm", "mount -t tmpfs", func(m *Machine) { m.Shm.Err = errors.New("no file") },
		nothing},
	{"few files", "limits", Wrong, "Too many open files", "ulimit -n 4096",
		func(m *Machine) { m.Limits.Value.Files = Limit{256, 4096} },
		func(m *Machine) { m.Limits.Value.Files = Limit{4096, 4096} }},
	{"the usual number of files", "limits", Remark, "ancdata", "ulimit -n 65536",
		func(m *Machine) { m.Limits.Value.Files = Limit{1024, 1 << 20} },
		func(m *Machine) { m.Limits.Value.Files = Limit{1024, 1024} }}, // the user cannot raise it
	{"a small address space", "limits", Wrong, "reserves addresses", "ulimit -v unlimited",
		func(m *Machine) { m.Limits.Value.Space.Soft = uint64(103 * unit.GiB) },
		func(m *Machine) { m.Limits.Value.Space.Soft = uint64(104 * unit.GiB) }},
	{"a cgroup full of processes", "limits", Wrong, "can't start new thread", "TasksMax",
		func(m *Machine) { m.Limits.Value.Pids, m.Limits.Value.Tasks = 512, 300 },
		func(m *Machine) { m.Limits.Value.Pids, m.Limits.Value.Tasks = 512, 200 }},
	{"few processes", "limits", Wrong, "can't start new thread", "ulimit -u",
		func(m *Machine) { m.Limits.Value.Processes.Soft = 100 },
		func(m *Machine) { m.Limits.Value.Processes.Soft = 256 }},
	{"InfiniBand", "limits", Remark, "ibv_reg_mr", "ulimit -l unlimited",
		func(m *Machine) { m.Limits.Value.InfiniBand = true },
		func(m *Machine) { m.Limits.Value.InfiniBand, m.Limits.Value.Locked.Soft = true, Unlimited }},
}

func py(change func(*Python)) func(*Machine) { return func(m *Machine) { change(&m.Python.Value) } }

var pythonFaults = []fault{
	{"no such interpreter", "python", Wrong, "does not exist", "command -v", py(func(p *Python) { p.Exists = false }),
		nothing},
	{"PYTHONPATH", "python", Remark, "PYTHONPATH=/x", "unset PYTHONPATH", env("PYTHONPATH=/x"), env("PYTHONPATH=")},
	{"no torch", "torch", Wrong, "is not installed", "pip install torch",
		py(func(p *Python) { p.HasTorch, p.Torch = false, "" }),
		py(func(p *Python) { p.HasTorch, p.Torch, p.Known = false, "", false })},
	{"no torch, and no command", "torch", Remark, "another Python", "launch doctor -- COMMAND",
		py(func(p *Python) { p.HasTorch, p.Assumed = false, true }), py(func(p *Python) { p.Assumed = true })},
	{"torch without CUDA", "torch", Wrong, "cannot use the card", "whl/cu126", py(func(p *Python) { p.CUDA = "none" }),
		func(m *Machine) { m.Python.Value.CUDA, m.Cards.Value = "none", nil }},
	{"torch for CUDA and an AMD card", "torch", Wrong, "built for ROCm", "whl/rocm",
		onAMD(py(func(p *Python) { p.Torch, p.CUDA = "2.6.0+cu124", "12.4" })), onAMD(nothing)},
	{"torch for CUDA and an Intel card", "torch", Wrong, "built for Intel", "whl/xpu",
		onAMD(func(m *Machine) { m.Cards.Value[0].Kind, m.Python.Value.CUDA = gpu.XPU, "12.4" }),
		onAMD(func(m *Machine) {
			m.Cards.Value[0].Kind, m.Python.Value.Torch, m.Python.Value.CUDA = gpu.XPU, "2.6.0+xpu", "none"
		})},
	{"an old driver", "torch", Wrong, "CUDA 12 needs driver 525", "whl/cu118",
		func(m *Machine) { m.Cards.Value[0].Driver = "515.65.01" },
		func(m *Machine) { m.Cards.Value[0].Driver = "525.60.13" }},
	{"a new card", "torch", Wrong, "CUDA 12.8 or newer", "whl/cu128",
		func(m *Machine) { m.Cards.Value[0].Capability = "12.0" },
		func(m *Machine) { m.Cards.Value[0].Capability, m.Python.Value.CUDA = "12.0", "12.8" }},
	{"an old card", "torch", Wrong, "no code for cards below 7.5", "whl/cu126",
		func(m *Machine) {
			m.Cards.Value[0].Capability, m.Cards.Value[0].Driver, m.Python.Value.CUDA = "7.0", "580.65.06", "13.0"
		},
		func(m *Machine) {
			m.Cards.Value[0].Capability, m.Cards.Value[0].Driver, m.Python.Value.CUDA = "7.5", "580.65.06", "13.0"
		}},
	{"NumPy 2", "torch", Wrong, "NumPy 1", "'numpy<2'",
		py(func(p *Python) { p.Torch, p.Minor, p.Beside = "2.2.2+cu121", 2, nil }),
		py(func(p *Python) { p.Torch, p.Minor, p.Beside = "2.3.0+cu121", 3, nil })},
	{"torchvision of another torch", "torch", Wrong, "compiled for torch 2.5.1", "'torch==2.6.0' torchvision",
		py(func(p *Python) { p.Beside[0].Needs = "==2.5.1" }), py(func(p *Python) { p.Beside[0].Needs = ">=2.5.1,<3" })},
	{"torchvision of a newer torch", "torch", Wrong, "2.10 or newer", "torchvision",
		py(func(p *Python) { p.Beside[0].Needs = ">=2.10" }), py(func(p *Python) { p.Beside[0].Needs = ">=2.6" })},
	{"no caching", "allocator", Wrong, "many times slower", "unset PYTORCH_NO_CUDA_MEMORY_CACHING",
		env("PYTORCH_NO_CUDA_MEMORY_CACHING=1"), env("PYTORCH_NO_CUDA_MEMORY_CACHING=")},
	{"two variables", "allocator", Remark, "differ", "unset PYTORCH_ALLOC_CONF",
		env("PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64", "PYTORCH_ALLOC_CONF=max_split_size_mb:32"),
		env("PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64", "PYTORCH_ALLOC_CONF=max_split_size_mb:64")},
	{"a variable that is too new", "allocator", Remark, "does not read this variable", "export PYTORCH_CUDA_ALLOC_CONF=",
		env("PYTORCH_ALLOC_CONF=max_split_size_mb:64"), func(m *Machine) {
			m.Env, m.Python.Value.Minor = []string{"PYTORCH_ALLOC_CONF=max_split_size_mb:64"}, 9
		}},
	{"expandable segments in WSL", "allocator", Wrong, "WSL", "unset PYTORCH_CUDA_ALLOC_CONF",
		wsl2(env("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")),
		wsl2(env("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False"))},
	{"expandable segments on a Jetson", "allocator", Wrong, "Jetson", "export PYTORCH_CUDA_ALLOC_CONF=max_split_",
		func(m *Machine) {
			m.Kernel = "5.15.136-tegra"
			m.Env = []string{"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:64"}
		}, env("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:64")},
	{"expandable segments with an old torch", "allocator", Wrong, "does not know this option", "unset", func(m *Machine) {
		m.Env, m.Python.Value.Minor = []string{"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"}, 0
	}, func(m *Machine) {
		m.Env, m.Python.Value.Minor = []string{"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"}, 1
	}},
	{"a backend that ignores it", "allocator", Wrong, "has no effect", "backend:cudaMallocAsync",
		env("PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync,expandable_segments:True"),
		env("PYTORCH_CUDA_ALLOC_CONF=backend:native,expandable_segments:True")},
	{"a split that is too small", "allocator", Wrong, "refuses a value of 20", "roundup_power2_divisions:[256:1,>:4]",
		env("PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:20,roundup_power2_divisions:[256:1,>:4]"),
		env("PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:21")},
	{"a threshold beyond 1", "allocator", Wrong, "outside of 0 to 1", "unset",
		env("PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:80"),
		env("PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.8")},
	{"a variable that makes it slow", "environment", Remark, "waits for every kernel", "unset CUDA_LAUNCH_BLOCKING",
		env("CUDA_LAUNCH_BLOCKING=1"), env("CUDA_LAUNCH_BLOCKING=0")},
}

var placeFaults = []fault{
	{"WSL 1", "wsl", Wrong, "WSL 1", "--set-version", func(m *Machine) { m.Kernel = "4.4.0-19041-Microsoft" },
		wsl2(nothing)},
	{"WSL without the card", "wsl", Wrong, "/dev/dxg", "wsl.exe --update",
		wsl2(func(m *Machine) { m.Driver.Value.DXG = NoDevice }), wsl2(nothing)},
	{"WSL with a driver of its own", "wsl", Wrong, "hides the driver of Windows", "apt purge",
		wsl2(func(m *Machine) { m.Driver.Value.Library = "/usr/lib/x86_64-linux-gnu/libcuda.so.1" }), wsl2(nothing)},
	{"a drive of Windows", "wsl", Remark, "/mnt/c is a drive", "cp -r",
		wsl2(func(m *Machine) { m.Mount.Value = Mount{"9p", "/mnt/c"} }), func(m *Machine) { m.Mount.Value.Kind = "9p" }},
	{"no visible card", "container", Wrong, "gets no card", "--gpus all",
		inBox("docker", env("NVIDIA_VISIBLE_DEVICES=void")), inBox("docker", env("NVIDIA_VISIBLE_DEVICES=all"))},
	{"no compute", "container", Wrong, "has no CUDA", "compute,utility",
		inBox("podman", env("NVIDIA_DRIVER_CAPABILITIES=graphics,utility")),
		inBox("podman", env("NVIDIA_DRIVER_CAPABILITIES=utility,compute"))},
	{"a login node", "slurm", Remark, "login node", "srun", func(m *Machine) { m.Slurm.Installed = true },
		func(m *Machine) { m.Slurm = Slurm{Installed: true, Job: "7", GPUs: "0"} }},
	{"a job without a GPU", "slurm", Wrong, "did not ask", "--gres=gpu:1", func(m *Machine) { m.Slurm.Job = "7" },
		func(m *Machine) { m.Slurm.Job, m.Driver.Value.PCI = "7", nil }},
	{"a job with one core", "slurm", Remark, "share it", "--cpus-per-task", func(m *Machine) {
		m.Slurm, m.CPUs.Value.Allowed = Slurm{Job: "7", GPUs: "0"}, 1
	}, func(m *Machine) { m.Slurm, m.CPUs.Value.Allowed = Slurm{Job: "7", GPUs: "0"}, 2 }},
	{"a job that ends soon", "slurm", Remark, "ends in 14 minutes", "--save-on", func(m *Machine) {
		m.Slurm = Slurm{Job: "7", GPUs: "0", Now: 1000, Ends: 1000 + 899}
	}, func(m *Machine) { m.Slurm = Slurm{Job: "7", GPUs: "0", Now: 1000, Ends: 1000 + 900} }},
}

// Each check finds its fault, and does not find it in what is nearly the same.
func TestFaults(t *testing.T) {
	for _, f := range slices.Concat(cardFaults, hostFaults, pythonFaults, placeFaults) {
		m := sound()
		f.make(&m)
		if !f.in(m) {
			t.Errorf("%s: not found; the check found %+v", f.name, of(m, f.check))
		}
		m = sound()
		f.near(&m)
		if f.in(m) {
			t.Errorf("%s: found in its near miss", f.name)
		}
		if got := of(m, f.check); slices.ContainsFunc(got, func(g Finding) bool { return g.State == f.state }) {
			t.Errorf("%s: its near miss is %s as well: %+v", f.name, f.state, got)
		}
	}
}

func (f fault) in(m Machine) bool {
	found := of(m, f.check)
	all := fmt.Sprint(found)
	return slices.ContainsFunc(found, func(g Finding) bool { return g.State == f.state }) &&
		strings.Contains(all, f.says) && strings.Contains(all, f.mend)
}

func of(m Machine, check string) []Finding {
	return slices.DeleteFunc(m.Examine(), func(g Finding) bool { return g.Check != check })
}

// A fault always has a command that mends it, and what is unknown is never right.
func TestWrongHasMend(t *testing.T) {
	for _, f := range slices.Concat(cardFaults, hostFaults, pythonFaults, placeFaults) {
		m := sound()
		f.make(&m)
		all := m.Examine()
		for i, g := range all {
			last := i+1 == len(all) || all[i+1].Check != g.Check // the last of several may have the command for all
			if g.State == Wrong && (g.Why == "" || len(g.Mend) == 0 && last) {
				t.Errorf("%s: %+v does not name what mends it", f.name, g)
			}
		}
	}
	m := sound()
	err := errors.New("no answer")
	m.Driver.Err, m.Memory.Err, m.CPUs.Err, m.Limits.Err, m.Python.Err, m.Container.Err = err, err, err, err, err, err
	for _, check := range []string{"driver", "memory", "cores", "limits", "python", "torch", "container"} {
		if got := of(m, check); len(got) != 1 || got[0].State != Unseen || !strings.Contains(got[0].Why, "no answer") {
			t.Errorf("%s whose probe failed: %+v", check, got)
		}
	}
}

// A probe that hangs is left behind at its deadline, and the others are not.
func TestProbeThatHangs(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hangs := make(chan struct{})
	defer close(hangs)
	wait := later(ctx, func(context.Context) (int, error) { <-hangs; return 7, nil })
	quick := later(t.Context(), func(ctx context.Context) (bool, error) {
		until, bounded := ctx.Deadline()
		return bounded && time.Until(until) <= ProbeDeadline, nil
	})
	cancel() // as the deadline does
	if a := wait(); a.Err == nil || a.Value != 0 {
		t.Errorf("a probe that hangs answered %+v", a)
	}
	if a := quick(); a.Err != nil || !a.Value {
		t.Errorf("a probe has no deadline: %+v", a)
	}
}

// The files of the kernel are read as they are.
func TestFiles(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	const pci = "sys/bus/pci/devices/"
	root := fstest.MapFS{ // the third device is the second one's sound
		pci + "0000:00:02.0/vendor": file("0x8086\n"), pci + "0000:00:02.0/class": file("0x030000\n"),
		pci + "0000:01:00.0/vendor": file("0x10de\n"), pci + "0000:01:00.0/class": file("0x030200\n"),
		pci + "0000:01:00.1/vendor": file("0x10de\n"), pci + "0000:01:00.1/class": file("0x040300\n"),
		"sys/module/nvidia/version": file("550.54.14\n"), "etc/os-release": file("NAME=x\nID=\"ubuntu\"\n"),
		"proc/self/cgroup":      file("12:cpu,cpuacct:/old\n0::/a/b\n"),
		"sys/fs/cgroup/cpu.max": file("max 100000\n"), "sys/fs/cgroup/a/cpu.max": file("150000 100000\n"),
		"sys/fs/cgroup/a/b/cpu.max":              file("800000 100000\n"),
		"sys/fs/cgroup/cpu/old/cpu.cfs_quota_us": file("-1\n"), "sys/fs/cgroup/cpu/old/cpu.cfs_period_us": file("100000\n"),
		"proc/self/mounts":  file("/dev/sda / ext4 rw 0 0\nC:\\134 /mnt/c 9p rw 0 0\nx /mnt/cd ext4 rw 0 0\n"),
		"run/.containerenv": file(""),
	}
	d := driverOn(root, func(string) Access { return NoDevice })
	if !slices.Equal(d.PCI, []string{"0000:01:00.0"}) || d.Module != "550.54.14" || d.OS != "ubuntu" || d.Nouveau {
		t.Errorf("the driver is %+v", d)
	}
	if q := quota(root); q != 1.5 {
		t.Errorf("the quota is %v cores, want the smallest, 1.5", q)
	}
	if n := counted("0-7,16,18-19\n"); n != 11 {
		t.Errorf("%d cores, want 11", n)
	}
	for dir, want := range map[string]string{"/mnt/c/p": "9p", "/mnt/cd": "ext4", "/mnt/cx": "ext4"} {
		if m, err := mountOf(root, dir); err != nil || m.Kind != want {
			t.Errorf("%s is on %+v, %v; want %s", dir, m, err, want)
		}
	}
	if got := surrounding(root, nil); got != "podman" {
		t.Errorf("the container is %q", got)
	}
	if got := surrounding(root, []string{"KUBERNETES_SERVICE_HOST=10.0.0.1"}); got != "kubernetes" {
		t.Errorf("the pod is %q", got)
	}
	if got := surrounding(fstest.MapFS{}, nil); got != "" {
		t.Errorf("no container is %q", got)
	}
	s := slurmIn([]string{"SLURM_JOB_ID=7", "SLURM_GPUS_ON_NODE=2", "SLURM_JOB_END_TIME=99"}, time.Unix(5, 0))
	if s.Job != "7" || s.GPUs != "2" || s.Ends != 99 || s.Now != 5 {
		t.Errorf("the job is %+v", s)
	}
}

// This machine can be looked at, whatever it has.
func TestLookHere(t *testing.T) {
	m := LookAtMachine(t.Context(), Subject{Dir: "/"})
	if m.Memory.Err != nil || m.Memory.Value.Total <= 0 || m.CPUs.Value.Allowed < 1 || m.Limits.Value.Files.Soft == 0 {
		t.Errorf("this machine has memory %+v, cores %+v, limits %+v", m.Memory, m.CPUs, m.Limits)
	}
	if len(m.Examine()) < 13 {
		t.Errorf("not every check has a finding: %+v", m.Examine())
	}
}

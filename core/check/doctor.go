package check

import (
	"fmt"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/unit"
)

// A MachineState is the result of a check of the machine.
type MachineState string

// The states. Only Wrong counts as a fault.
const (
	Right  MachineState = "right"
	Remark MachineState = "note"    // it works, but something is worth knowing
	Wrong  MachineState = "wrong"   // a training fails, or does not use its card
	Unseen MachineState = "unknown" // launch could not find out
	Absent MachineState = "absent"  // this machine has none, so there is nothing to check
)

// A Finding is the result of one check. A check that has found several things has several.
type Finding struct {
	Check string       `json:"check"`
	State MachineState `json:"state"`
	Found string       `json:"found"`
	Why   string       `json:"why,omitempty"` // what is wrong, or worth knowing
	// Mend are the commands or settings that mend it, in order; launch runs none of them.
	Mend []string `json:"mend,omitempty"`
}

// A Probed is the result of one probe.
type Probed[T any] struct {
	Value T
	Err   error // why it is unknown
}

// A Machine is everything that the checks read.
type Machine struct {
	Env    []string // of the command
	Dir    string   // the folder that the command runs in
	Kernel string   // its release, from uname

	Driver    Probed[Driver]
	Cards     Probed[[]gpu.Device] // by NVML
	Memory    Probed[Memory]
	CPUs      Probed[CPUs]
	Shm       Probed[Shm]
	Limits    Probed[Limits]
	Python    Probed[Python]
	Container Probed[Container]
	Mount     Probed[Mount]
	Slurm     Slurm
}

// Driver is what the kernel and /dev show of NVIDIA's driver.
type Driver struct {
	PCI     []string // addresses of the NVIDIA cards on the bus
	Module  string   // the version of the loaded kernel module; "" if it is not loaded
	Nouveau bool     // the open driver that has no CUDA
	Library string   // a libcuda of this system's packages; "" if there is none
	Control Access   // of /dev/nvidiactl
	UVM     Access   // of /dev/nvidia-uvm
	DXG     Access   // of /dev/dxg, the card in WSL
	KFD     Access   // of /dev/kfd, through which ROCm uses AMD's cards
	OS      string   // ID of /etc/os-release
}

// An Access is whether this user can read and write a device file.
type Access string

// What a device file allows.
const (
	OpenDevice   Access = "open"
	NoDevice     Access = "missing"
	ClosedDevice Access = "forbidden"
)

// Memory is the host memory for a program that is started here.
type Memory struct {
	Total, Free     unit.Bytes
	TotalBy, FreeBy string // which limit they are: the machine's own, or that of a cgroup
	Overcommit      int    // /proc/sys/vm/overcommit_memory
}

// CPUs are the cores for a program that is started here.
type CPUs struct {
	Machine int     // of the machine
	Allowed int     // that this process may run on
	Quota   float64 // of core time, by a cgroup; 0: no quota
}

// Shm is /dev/shm.
type Shm struct{ Total, Free unit.Bytes }

// Limits are this process's own limits, which a program inherits.
type Limits struct {
	Files, Space, Locked, Processes Limit
	// Pids and Tasks are the most processes and threads of the cgroup, and those that there are; 0: no limit.
	Pids, Tasks int64
	InfiniBand  bool
}

// A Limit is soft and hard; [Unlimited] is none.
type Limit struct{ Soft, Hard uint64 }

// Unlimited is RLIM_INFINITY.
const Unlimited = ^uint64(0)

// Python is the interpreter of a command, by its files.
type Python struct {
	Command     string // what names it: the command's own words, or "python3 of PATH"
	Assumed     bool   // no command was given: it may use another one
	Interpreter string // its path; "" if unknown
	Exists      bool
	Known       bool   // its packages were found
	Version     string // "3.11"; "" if unknown
	HasTorch    bool
	Torch       string // "2.6.0+cu124"; "" if unknown
	Major       int
	Minor       int
	CUDA        string // that torch was built for; "none" for a build without CUDA, "" if unknown
	NumPy       string
	Beside      []Package
}

// A Package is one that was compiled against torch.
type Package struct {
	Name, Version string
	Needs         string // what it requires of torch's version: "==2.6.0"; "" if nothing
}

// Container is what surrounds this process.
type Container struct {
	Kind string // "docker", "podman", "kubernetes", "apptainer", "lxc", another name, or "" for none
}

// Mount is the file system of the command's folder.
type Mount struct{ Kind, At string }

// Slurm is what Slurm has set in the environment.
type Slurm struct {
	Job       string
	Installed bool // sbatch is in PATH
	GPUs      string
	CPUs      int   // of each task; 0: not set
	Ends      int64 // when the job ends, in Unix seconds; 0: not set
	Now       int64 // the time of the look
}

// Examine makes all checks, in a fixed order.
func (m Machine) Examine() []Finding {
	var out []Finding
	for _, check := range []struct {
		name string
		of   func(Machine) []Finding
	}{
		{"driver", driver}, {"cards", cards}, {"memory", hostFindings}, {"cores", cores}, {"shm", shm}, {"limits", limits},
		{"python", interpreter}, {"torch", torch}, {"allocator", allocator}, {"environment", environment},
		{"wsl", wsl}, {"container", container}, {"slurm", slurm},
	} {
		for _, f := range check.of(m) {
			f.Check = check.name
			out = append(out, f)
		}
	}
	return out
}

// WrongOnes counts the findings that are wrong.
func WrongOnes(all []Finding) (n int) {
	for _, f := range all {
		if f.State == Wrong {
			n++
		}
	}
	return n
}

// finding is the finding of a check that has one.
func finding(state MachineState, found, why string, mend ...string) []Finding {
	return []Finding{{State: state, Found: found, Why: why, Mend: mend}}
}

// unseen is the finding of a check whose probe failed.
func unseen(err error) []Finding {
	return finding(Unseen, "not known", fmt.Sprintf("launch could not find out: %v", err))
}

// variable returns a variable of the command's environment, "" if it is not set.
func (m Machine) variable(name string) string {
	v, _ := gpu.Lookup(m.Env, name)
	return v
}

package check

import (
	"fmt"
	"math"
	"strings"

	"github.com/launch-ml/launch/core/unit"
)

// leastMemory is a rule of thumb, not a measurement: importing torch with its CUDA libraries, opening a card and
// starting a few loader workers needs about that much host memory.
const leastMemory = 2 * unit.GiB

// hostFindings checks the host memory, by the machine and its cgroups.
func hostFindings(m Machine) (out []Finding) {
	if m.Memory.Err != nil {
		return unseen(m.Memory.Err)
	}
	v := m.Memory.Value
	found := fmt.Sprintf("%v free of %v (%s)", v.Free, v.Total, v.TotalBy)
	switch {
	case v.Free < leastMemory && strings.Contains(v.FreeBy, "cgroup"):
		out = finding(Wrong, found, fmt.Sprintf("torch with a card needs about %v to start; the limit is %s", leastMemory,
			v.FreeBy), raiseMemory(m)...)
	case v.Free < leastMemory:
		out = finding(Wrong, found, fmt.Sprintf("torch with a card needs about %v to start", leastMemory),
			"ps -eo pid,user,rss,comm --sort -rss | head")
	default:
		out = finding(Right, found, "")
	}
	if v.Overcommit == 2 {
		out = append(out, Finding{State: Wrong, Found: "vm.overcommit_memory=2",
			Why:  "CUDA reserves far more addresses than it uses, and loader workers are forks: both are refused",
			Mend: []string{"sudo sysctl vm.overcommit_memory=0"}})
	}
	return out
}

// raiseMemory returns what raises the memory limit of the cgroup.
func raiseMemory(m Machine) []string {
	switch {
	case m.Slurm.Job != "":
		return []string{"#SBATCH --mem=32G"}
	case m.Container.Value.Kind == "kubernetes":
		return []string{"resources: {limits: {memory: 32Gi}}   (in the pod's specification)"}
	case m.Container.Value.Kind != "" && m.Container.Value.Kind != "apptainer":
		return []string{m.Container.Value.Kind + " run --memory 32g …"}
	}
	return []string{"systemd-run --user --scope -p MemoryMax=32G …"}
}

// cores checks whether the program sees more cores than it gets: then its threads and workers hinder each other.
func cores(m Machine) []Finding {
	if m.CPUs.Err != nil {
		return unseen(m.CPUs.Err)
	}
	c := m.CPUs.Value
	found := fmt.Sprintf("%d cores", c.Allowed)
	if c.Machine > c.Allowed {
		found = fmt.Sprintf("%d of %d cores", c.Allowed, c.Machine)
	}
	gets := int(math.Ceil(c.Quota))
	if c.Quota == 0 || gets >= c.Allowed {
		return finding(Right, found, "")
	}
	found += fmt.Sprintf(", and core time for %.3g", c.Quota)
	if m.variable("OMP_NUM_THREADS") != "" {
		return finding(Right, found+"; OMP_NUM_THREADS="+m.variable("OMP_NUM_THREADS"), "")
	}
	return finding(Remark, found, fmt.Sprintf(
		"torch starts a thread for each of %d cores, but a cgroup gives it the time of %d",
		c.Allowed, gets), fmt.Sprintf("export OMP_NUM_THREADS=%d", gets))
}

const (
	// defaultShm is what Docker and Podman give a container (docker run --help, --shm-size).
	defaultShm = 64 * unit.MiB
	// leastShm is free space below which a few batches in the loader's queue fill it: 2 batches for each of 4 workers, 64
	// images of 3·224·224 float32 each, are 294 MiB.
	leastShm = 256 * unit.MiB
)

// shm checks /dev/shm, through which loader workers pass their batches.
func shm(m Machine) []Finding {
	if m.Shm.Err != nil {
		return finding(Wrong, "no /dev/shm", fmt.Sprintf("loader workers pass batches through it (%v)", m.Shm.Err),
			"sudo mount -t tmpfs tmpfs /dev/shm")
	}
	s := m.Shm.Value
	found := fmt.Sprintf("/dev/shm has %v free of %v", s.Free, s.Total)
	box := m.Container.Value.Kind
	switch {
	case s.Total <= defaultShm && (box == "docker" || box == "podman"):
		return finding(Wrong, found, "loader workers die with \"bus error\" or \"No space left on device\"",
			box+" run --shm-size 8g …", box+" run --ipc host …")
	case s.Total <= defaultShm && box == "kubernetes":
		return finding(Wrong, found, "loader workers die with \"bus error\" or \"No space left on device\"",
			"mount an emptyDir with medium: Memory at /dev/shm   (in the pod's specification)")
	case s.Total < leastShm:
		return finding(Wrong, found, "loader workers die with \"bus error\" or \"No space left on device\"",
			"sudo mount -o remount,size=8G /dev/shm")
	case s.Free < leastShm:
		return finding(Wrong, found, "it is full: programs that were killed leave files there", "ls -lS /dev/shm | head",
			"find /dev/shm -user $USER -name 'torch_*' -mmin +60 -delete")
	}
	return finding(Right, found, "")
}

const (
	// leastFiles is the usual default of Linux. torch's sharing strategy "file_descriptor" keeps a file open for each
	// tensor in the loader's queue (torch/multiprocessing, "Sharing strategies").
	leastFiles  = 1024
	enoughFiles = 4096
	// spareTasks are threads and processes for a training: workers, each with its threads, and torch's own pools.
	spareTasks = 256
)

// limits checks the limits that a program inherits (getrlimit(2)), and the cgroup's limit on processes.
func limits(m Machine) (out []Finding) {
	if m.Limits.Err != nil {
		return unseen(m.Limits.Err)
	}
	l := m.Limits.Value
	add := func(state MachineState, found, why string, mend ...string) {
		out = append(out, finding(state, found, why, mend...)...)
	}
	switch raised := min(l.Files.Hard, 65536); {
	case l.Files.Soft < leastFiles:
		add(Wrong, fmt.Sprintf("%d open files", l.Files.Soft), "loader workers fail with \"Too many open files\"",
			fmt.Sprintf("ulimit -n %d", raised))
	case l.Files.Soft < enoughFiles && l.Files.Hard > l.Files.Soft:
		add(Remark, fmt.Sprintf("%d open files", l.Files.Soft),
			"many loader workers can fail with \"Too many open files\" or \"received 0 items of ancdata\"",
			fmt.Sprintf("ulimit -n %d", raised))
	}
	if need := m.addresses(); l.Space.Soft != Unlimited && l.Space.Soft < uint64(need) {
		add(Wrong, fmt.Sprintf("an address space of %v", unit.Bytes(l.Space.Soft)), fmt.Sprintf("CUDA reserves addresses "+
			"for all memory of the machine and its cards, %v, and fails with \"out of memory\"", need), "ulimit -v unlimited")
	}
	if l.Pids > 0 && l.Pids-l.Tasks < spareTasks {
		add(Wrong, fmt.Sprintf("%d of %d processes and threads of the cgroup are in use", l.Tasks, l.Pids),
			"loader workers fail with \"can't start new thread\"", morePids(m)...)
	}
	if l.Processes.Soft < spareTasks {
		add(Wrong, fmt.Sprintf("%d processes and threads of this user", l.Processes.Soft),
			"loader workers fail with \"can't start new thread\"", "ulimit -u unlimited")
	}
	if l.InfiniBand && l.Locked.Soft != Unlimited {
		add(Remark, fmt.Sprintf("%v of locked memory, and InfiniBand", unit.Bytes(l.Locked.Soft)),
			"NCCL over InfiniBand locks its buffers, and can fail with \"ibv_reg_mr failed\"", "ulimit -l unlimited")
	}
	if len(out) == 0 {
		out = finding(Right, fmt.Sprintf("%d open files", l.Files.Soft), "")
	}
	return out
}

// addresses is the address space that CUDA reserves when it starts: that of the machine's memory and its cards'
// together (CUDA C++ Programming Guide, "Unified Virtual Address Space"). It is 0 without a card.
func (m Machine) addresses() (all unit.Bytes) {
	if m.Cards.Err != nil || len(m.Cards.Value) == 0 {
		return 0
	}
	for _, d := range m.Cards.Value {
		if d.Parent == "" {
			all += d.Total
		}
	}
	return all + m.Memory.Value.Total
}

// morePids raises the limit on processes.
func morePids(m Machine) []string {
	if box := m.Container.Value.Kind; box == "docker" || box == "podman" {
		return []string{box + " run --pids-limit -1 …"}
	}
	return []string{"sudo systemctl set-property user-$UID.slice TasksMax=infinity"}
}

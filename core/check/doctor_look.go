package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/gpu/drivers"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/unit"
)

// ProbeDeadline bounds each probe: a driver or a file system that hangs must not keep the other findings back.
const ProbeDeadline = 5 * time.Second

// A Subject is what the machine is examined for.
type Subject struct {
	Env    []string // of the command
	Dir    string
	Called string // how the command names its Python; "" if it starts none
	// Assumed: there is no command, and Python is the one of PATH.
	Assumed bool
	Python  python.Environment
}

// LookAtMachine reads the machine. All probes run at once, each under [ProbeDeadline]. It changes nothing.
func LookAtMachine(ctx context.Context, of Subject) Machine {
	root := os.DirFS("/")
	m := Machine{Env: of.Env, Dir: of.Dir, Kernel: strings.TrimSpace(read(root, "proc/sys/kernel/osrelease"))}
	devices := later(ctx, func(ctx context.Context) ([]gpu.Device, error) { return drivers.List(ctx) })
	box := later(ctx, func(context.Context) (Container, error) { return Container{surrounding(root, of.Env)}, nil })
	driver := later(ctx, func(context.Context) (Driver, error) { return driverOn(root, access), nil })
	memory := later(ctx, func(context.Context) (Memory, error) { return hostMemory(root) })
	cores := later(ctx, func(context.Context) (CPUs, error) { return cpus(root), nil })
	shared := later(ctx, func(context.Context) (Shm, error) { return sharedMemory() })
	bounds := later(ctx, func(context.Context) (Limits, error) { return ownLimits(root) })
	py := later(ctx, func(context.Context) (Python, error) { return pythonOf(of), nil })
	mount := later(ctx, func(context.Context) (Mount, error) { return mountOf(root, real(of.Dir)) })
	m.Cards, m.Container, m.Driver, m.Memory, m.CPUs = devices(), box(), driver(), memory(), cores()
	m.Shm, m.Limits, m.Python, m.Mount = shared(), bounds(), py(), mount()
	m.Slurm = slurmIn(of.Env, time.Now())
	return m
}

// later starts a probe, and returns the function that waits for its answer. A probe that hangs in the kernel is left
// behind: it ends with this process.
func later[T any](ctx context.Context, probe func(context.Context) (T, error)) func() Probed[T] {
	ctx, cancel := context.WithTimeout(ctx, ProbeDeadline)
	done := make(chan Probed[T], 1)
	go func() {
		v, err := probe(ctx)
		done <- Probed[T]{v, err}
	}()
	return func() Probed[T] {
		defer cancel()
		select {
		case a := <-done:
			return a
		default:
		}
		select {
		case a := <-done:
			return a
		case <-ctx.Done():
			return Probed[T]{Err: fmt.Errorf("no answer within %v: %w", ProbeDeadline, ctx.Err())}
		}
	}
}

// read returns a small file, "" if it cannot be read.
func read(root fs.FS, name string) string {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return string(text)
}

// access tests whether this user may open a device, without opening it.
func access(name string) Access {
	switch err := unix.Access(name, unix.R_OK|unix.W_OK); {
	case err == nil:
		return OpenDevice
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		return NoDevice
	}
	return ClosedDevice
}

// nvidia is the vendor's number on the PCI bus, and display the class of its cards.
const (
	nvidia  = "0x10de"
	display = "0x03"
)

func driverOn(root fs.FS, may func(string) Access) (d Driver) {
	buses, _ := fs.Glob(root, "sys/bus/pci/devices/*/vendor")
	for _, vendor := range buses {
		at := path.Dir(vendor)
		if strings.TrimSpace(read(root, vendor)) == nvidia && strings.HasPrefix(read(root, at+"/class"), display) {
			d.PCI = append(d.PCI, path.Base(at))
		}
	}
	d.Module = strings.TrimSpace(read(root, "sys/module/nvidia/version"))
	if _, err := fs.Stat(root, "sys/module/nouveau"); err == nil {
		d.Nouveau = true
	}
	for _, pattern := range []string{"usr/lib/x86_64-linux-gnu/libcuda.so.1", "usr/lib/aarch64-linux-gnu/libcuda.so.1",
		"usr/lib64/libcuda.so.1"} {
		if _, err := fs.Stat(root, pattern); err == nil {
			d.Library = "/" + pattern
		}
	}
	d.KFD = may("/dev/kfd")
	d.Control, d.UVM, d.DXG = may("/dev/nvidiactl"), may("/dev/nvidia-uvm"), may("/dev/dxg")
	for line := range strings.Lines(read(root, "etc/os-release")) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "ID="); ok {
			d.OS = strings.Trim(id, `"'`)
		}
	}
	return d
}

func hostMemory(root fs.FS) (m Memory, err error) {
	host := room.Host().Memory
	if m.Total, m.TotalBy = room.HostTotal(); host == nil || m.Total == 0 {
		return m, errors.New("/proc/meminfo cannot be read")
	}
	m.Free, m.FreeBy = host.Free, host.By
	m.Overcommit, _ = strconv.Atoi(strings.TrimSpace(read(root, "proc/sys/vm/overcommit_memory")))
	return m, nil
}

func cpus(root fs.FS) CPUs {
	online := counted(read(root, "sys/devices/system/cpu/online"))
	return CPUs{Machine: online, Allowed: runtime.NumCPU(), Quota: quota(root)}
}

// counted is the number of cores in a list such as "0-7,16".
func counted(list string) (n int) {
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		first, last, span := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		if err != nil {
			continue
		}
		b := a
		if span {
			b, _ = strconv.Atoi(last)
		}
		n += max(0, b-a+1)
	}
	return n
}

// quota is the smallest core time that this process's cgroups allow, in cores; 0 if there is no limit (cgroup-v2.rst,
// cpu.max; sched-bwc.rst, cpu.cfs_quota_us).
func quota(root fs.FS) (least float64) {
	eachGroup(root, "cpu", func(dir string, v2 bool) {
		most, period := "", ""
		if v2 {
			most, period, _ = strings.Cut(strings.TrimSpace(read(root, dir+"/cpu.max")), " ")
		} else {
			most, period = strings.TrimSpace(read(root, dir+"/cpu.cfs_quota_us")),
				strings.TrimSpace(read(root, dir+"/cpu.cfs_period_us"))
		}
		q, err := strconv.ParseFloat(most, 64) // "max" and -1 are no limit
		p, bad := strconv.ParseFloat(period, 64)
		if err == nil && bad == nil && q > 0 && p > 0 && (least == 0 || q/p < least) {
			least = q / p
		}
	})
	return least
}

// eachGroup calls see for the cgroups of this process that a controller has, from its own up to the root.
func eachGroup(root fs.FS, controller string, see func(dir string, v2 bool)) {
	for line := range strings.Lines(read(root, "proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 || !strings.HasPrefix(parts[2], "/") {
			continue
		}
		v2, mount := parts[0] == "0" && parts[1] == "", "sys/fs/cgroup/"+controller
		switch {
		case v2:
			mount = "sys/fs/cgroup"
		case !strings.Contains(","+parts[1]+",", ","+controller+","):
			continue
		}
		for at := path.Clean(parts[2]); ; at = path.Dir(at) {
			see(path.Join(mount, at), v2)
			if at == "/" {
				break
			}
		}
	}
}

func sharedMemory() (s Shm, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs("/dev/shm", &st); err != nil {
		return s, err
	}
	return Shm{unit.Bytes(st.Blocks) * unit.Bytes(st.Bsize), unit.Bytes(st.Bavail) * unit.Bytes(st.Bsize)}, nil
}

func ownLimits(root fs.FS) (l Limits, err error) {
	for _, of := range []struct {
		what int
		into *Limit
	}{{unix.RLIMIT_NOFILE, &l.Files}, {unix.RLIMIT_AS, &l.Space}, {unix.RLIMIT_MEMLOCK, &l.Locked},
		{unix.RLIMIT_NPROC, &l.Processes}} {
		var r unix.Rlimit
		if err := unix.Getrlimit(of.what, &r); err != nil {
			return l, fmt.Errorf("reading the limits: %w", err)
		}
		*of.into = Limit{r.Cur, r.Max}
	}
	eachGroup(root, "pids", func(dir string, _ bool) {
		most, err := strconv.ParseInt(strings.TrimSpace(read(root, dir+"/pids.max")), 10, 64)
		now, bad := strconv.ParseInt(strings.TrimSpace(read(root, dir+"/pids.current")), 10, 64)
		if err == nil && bad == nil && (l.Pids == 0 || most-now < l.Pids-l.Tasks) {
			l.Pids, l.Tasks = most, now
		}
	})
	cards, _ := fs.Glob(root, "sys/class/infiniband/*")
	l.InfiniBand = len(cards) > 0
	return l, nil
}

func pythonOf(of Subject) (p Python) {
	e := of.Python
	p.Command, p.Assumed, p.Interpreter, p.Known = of.Called, of.Assumed, e.Interpreter, e.Known()
	if p.Interpreter == "" {
		return p
	}
	_, err := os.Stat(p.Interpreter)
	p.Exists = err == nil
	p.Version, p.HasTorch = e.Release(), e.Has("torch")
	p.Torch = e.TorchBuild()
	p.Major, p.Minor, _ = e.Torch()
	_, p.CUDA = e.TorchCUDA()
	p.NumPy = e.Version("numpy")
	for _, name := range []string{"torchvision", "torchaudio"} {
		if version := e.Version(name); version != "" {
			p.Beside = append(p.Beside, Package{name, version, e.Requires(name, "torch")})
		}
	}
	return p
}

// surrounding names the container that this process runs in, "" for none.
func surrounding(root fs.FS, env []string) string {
	has := func(name string) bool { _, err := fs.Stat(root, name); return err == nil }
	set := func(name string) bool { v, _ := gpu.Lookup(env, name); return v != "" }
	named, _ := gpu.Lookup(env, "container") // systemd's convention (systemd.io/CONTAINER_INTERFACE)
	switch {
	case set("KUBERNETES_SERVICE_HOST"):
		return "kubernetes"
	case set("APPTAINER_CONTAINER"), set("SINGULARITY_CONTAINER"):
		return "apptainer"
	case has("run/.containerenv"):
		return "podman"
	case has(".dockerenv"):
		return "docker"
	}
	return named
}

// mountOf returns the file system of a folder, by the longest mount point above it.
func mountOf(root fs.FS, dir string) (m Mount, err error) {
	text := read(root, "proc/self/mounts")
	if text == "" {
		return m, errors.New("/proc/self/mounts cannot be read")
	}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		at := strings.ReplaceAll(f[1], `\040`, " ")
		if (at == "/" || dir == at || strings.HasPrefix(dir, at+"/")) && len(at) >= len(m.At) {
			m = Mount{f[2], at}
		}
	}
	return m, nil
}

func slurmIn(env []string, now time.Time) (s Slurm) {
	get := func(name string) string { v, _ := gpu.Lookup(env, name); return v }
	s.Job, s.Now = get("SLURM_JOB_ID"), now.Unix()
	_, err := private.Find("sbatch")
	s.Installed = err == nil
	for _, name := range []string{"SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_GPUS"} {
		if v := get(name); v != "" {
			s.GPUs = v
			break
		}
	}
	s.CPUs, _ = strconv.Atoi(get("SLURM_CPUS_PER_TASK"))
	s.Ends, _ = strconv.ParseInt(get("SLURM_JOB_END_TIME"), 10, 64)
	return s
}

// real is a folder without symbolic links, as the list of mounts names it.
func real(dir string) string {
	if path, err := filepath.EvalSymlinks(dir); err == nil {
		return path
	}
	return dir
}

package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// word is the first argument of the process that builds the jail.
const word = "launch-trace-jail"

// A cell is what the jail is built for, as the process that builds it reads it from its standard input.
type cell struct {
	Argv    []string          `json:"argv"`
	Env     []string          `json:"env"`
	Dir     string            `json:"dir"`
	Disk    int64             `json:"disk"`    // bytes of all that is written
	Data    uint64            `json:"data"`    // bytes of memory of each process; 0: no limit
	Seconds uint64            `json:"seconds"` // of CPU time of each process
	Input   []byte            `json:"input"`   // of the program
	Files   map[string][]byte `json:"files"`   // what the jail has in its folder [shelf], by name
}

// scrap is where the memory for what is written is mounted while the jail is built: a folder that every Linux has,
// and of which the jail has its own.
const scrap = "/proc"

// shelf is where the jail has the tracer.
const shelf = "/dev/launch"

// jailed is a command for a cell: a process that is the first one in namespaces of its own. It has no network, sees no
// process and no device of this machine, and when it ends, so does all that it has started.
func jailed(self string) *exec.Cmd {
	cmd := exec.Command(self, word)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID |
			unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
		AmbientCaps: []uintptr{
			unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH,
			unix.CAP_FOWNER, unix.CAP_CHOWN,
		},
		Setsid:    true,
		Pdeathsig: syscall.SIGKILL,
	}
	return cmd
}

// ChildMain is called first thing in main. It returns at once unless this process was started to build a jail; then it
// never returns.
func ChildMain() {
	if len(os.Args) != 2 || os.Args[1] != word || os.Getpid() != 1 {
		return
	}
	runtime.LockOSThread() // what give takes away, it takes from this thread, and the program is to be a child of it
	var c cell
	err := json.NewDecoder(os.Stdin).Decode(&c)
	if err == nil {
		err = c.build()
	}
	if err != nil {
		fmt.Fprintf(os.NewFile(4, "refusal"), "%v", err)
		os.Exit(125)
	}
	os.NewFile(4, "refusal").Close()
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Args, cmd.Env, cmd.Dir = c.Argv, c.Env, c.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(string(c.Input)), os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{os.NewFile(3, "events")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(127)
	}
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		os.Exit(bySignal + int(s.Signal()))
	}
	os.Exit(cmd.ProcessState.ExitCode())
}

// bySignal is the exit code of a jail whose program a signal has ended, less the signal's number, as of a shell.
const bySignal = 128

// build makes the file system of this process one whose writes go to memory of its own, and takes away what it may do.
func (c cell) build() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts its own: %w", err)
	}
	mounts, err := mounted()
	if err != nil {
		return err
	}
	options := fmt.Sprintf("size=%d,mode=0755", c.Disk)
	if err := unix.Mount("tmpfs", scrap, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mounting memory for what is written: %w", err)
	}
	root := filepath.Join(scrap, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mounting a root: %w", err)
	}
	l := &layers{cell: c, root: root, mounts: mounts}
	if err := l.cover("/"); err != nil {
		return err
	}
	for _, dir := range []string{"dev", "proc", "sys"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	if err := l.devices(); err != nil {
		return err
	}
	if err := system(root); err != nil {
		return err
	}
	old := filepath.Join(root, ".launch-old")
	if err := os.Mkdir(old, 0o700); err != nil {
		return err
	}
	if err := unix.PivotRoot(root, old); err != nil {
		return fmt.Errorf("entering the jail: %w", err)
	}
	if err := errors.Join(unix.Chdir("/"), unix.Unmount("/.launch-old", unix.MNT_DETACH)); err != nil {
		return fmt.Errorf("leaving the file system of this machine: %w", err)
	}
	os.Remove("/.launch-old")
	loopback()
	return c.give()
}

// layers puts layers over the file systems of this machine.
type layers struct {
	cell
	root   string
	mounts []string
	made   int
}

// mostEntries bounds the folders that are made anew, entry by entry.
const mostEntries = 5000

// cover puts a layer over a folder, into which all writes go: what is there can be read, and nothing can be changed.
// The kernel puts none over a folder with mounts below it, so such a folder is made anew from layers over what it
// holds. What takes no layer is there for reading only.
func (l *layers) cover(at string) error {
	if at == "/dev" || at == "/proc" || at == "/sys" {
		return nil
	}
	to := filepath.Join(l.root, at)
	info, err := os.Stat(at)
	if err != nil {
		return nil // what cannot be looked at cannot be read either
	}
	if at != "/" {
		if err := os.MkdirAll(to, info.Mode().Perm()|0o700); err != nil {
			return err
		}
	}
	below := strings.TrimSuffix(at, "/") + "/"
	if !slices.ContainsFunc(l.mounts, func(m string) bool { return m != at && strings.HasPrefix(m, below) }) {
		return l.layer(at, to, info.Mode())
	}
	entries, err := os.ReadDir(at)
	if err != nil {
		return nil
	}
	if len(entries) > mostEntries && at != "/" {
		return readOnly(at, to)
	}
	for _, e := range entries {
		path := filepath.Join(at, e.Name())
		switch {
		case e.IsDir():
			err = l.cover(path)
		case e.Type()&os.ModeSymlink != 0:
			var target string
			if target, err = os.Readlink(path); err == nil {
				err = os.Symlink(target, filepath.Join(to, e.Name()))
			}
		case e.Type().IsRegular():
			err = beside(path, filepath.Join(to, e.Name()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// layer puts one layer over a folder without mounts below it.
func (l *layers) layer(at, to string, mode os.FileMode) error {
	l.made++
	upper, work := fmt.Sprintf("%s/upper%d", scrap, l.made), fmt.Sprintf("%s/work%d", scrap, l.made)
	if err := errors.Join(os.Mkdir(upper, 0o755), os.Mkdir(work, 0o755)); err != nil {
		return err
	}
	if err := os.Chmod(upper, mode.Perm()|mode&os.ModeSticky); err != nil {
		return err
	}
	escape := strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`)
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,userxattr", escape.Replace(at), upper, work)
	if err := unix.Mount("overlay", to, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err == nil {
		return nil
	}
	return readOnly(at, to)
}

// mostCopied is the size up to which a file beside a mount is copied, so that it can be changed.
const mostCopied = 1 << 20

// beside makes a file appear that lies beside a mount.
func beside(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return nil
	}
	var text []byte
	if info.Size() <= mostCopied {
		text, _ = os.ReadFile(from) // what cannot be read is empty
	}
	if err := os.WriteFile(to, text, info.Mode().Perm()); err != nil || info.Size() <= mostCopied {
		return err
	}
	return readOnly(from, to)
}

// readOnly makes a folder or a file appear for reading only, with what is mounted below it.
func readOnly(from, to string) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("showing %s: %w", from, err)
	}
	only := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID}
	if err := unix.MountSetattr(unix.AT_FDCWD, to, unix.AT_RECURSIVE, &only); err != nil {
		return fmt.Errorf("making %s read-only: %w", from, err)
	}
	return nil
}

// devices gives the jail a /dev that has nothing of this machine's hardware in it.
func (l *layers) devices() error {
	dev := filepath.Join(l.root, "dev")
	if err := unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID, "size=64m,mode=0755"); err != nil {
		return fmt.Errorf("mounting /dev: %w", err)
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		to := filepath.Join(dev, name)
		f, err := os.Create(to)
		if err != nil {
			return err
		}
		f.Close()
		if err := unix.Mount("/dev/"+name, to, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("showing /dev/%s: %w", name, err)
		}
	}
	shm := filepath.Join(dev, "shm")
	if err := os.Mkdir(shm, 0o755); err != nil {
		return err
	}
	if err := l.layer("/dev/shm", shm, 0o777|os.ModeSticky); err != nil { // data sets may lie there
		return err
	}
	if err := terminals(dev); err != nil {
		return err
	}
	own := filepath.Join(l.root, shelf)
	if err := os.Mkdir(own, 0o755); err != nil {
		return err
	}
	for name, text := range l.Files {
		path := filepath.Join(own, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o644)); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
		"stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	return nil
}

// terminals gives the jail pseudo-terminals of its own, where the kernel allows it: a script may ask how wide its
// terminal is.
func terminals(dev string) error {
	pts := filepath.Join(dev, "pts")
	if err := os.Mkdir(pts, 0o755); err != nil {
		return err
	}
	const flags = unix.MS_NOSUID | unix.MS_NOEXEC
	if unix.Mount("devpts", pts, "devpts", flags, "newinstance,ptmxmode=0666,mode=0620") != nil {
		return os.Remove(pts)
	}
	return os.Symlink("pts/ptmx", filepath.Join(dev, "ptmx"))
}

// system gives the jail its own /proc, and /sys for reading.
func system(root string) error {
	proc := filepath.Join(root, "proc")
	if err := unix.Mount("proc", proc, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	for _, name := range []string{"sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi"} {
		path := filepath.Join(proc, name)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if err := readOnly(path, path); err != nil {
			return err
		}
	}
	return readOnly("/sys", filepath.Join(root, "sys"))
}

// loopback starts the jail's own loopback device: programs look there for a free port.
func loopback() {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(s)
	if r, err := unix.NewIfreq("lo"); err == nil {
		r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		_ = unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
	}
}

// give sets the limits of what is started, and gives up every capability for good.
func (c cell) give() error {
	limits := map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_CPU: c.Seconds}
	if c.Data > 0 {
		limits[unix.RLIMIT_DATA] = c.Data
	}
	for which, n := range limits {
		hard := n
		if which == unix.RLIMIT_CPU {
			hard += 5 // at the soft limit comes a signal that tells why
		}
		if err := unix.Setrlimit(which, &unix.Rlimit{Cur: n, Max: hard}); err != nil {
			return fmt.Errorf("limiting what it takes: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	for capability := range unix.CAP_LAST_CAP + 1 {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(capability), 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("giving up capabilities: %w", err)
		}
	}
	return errors.Join(unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0),
		unix.Prctl(unix.PR_SET_SECUREBITS, noRoot, 0, 0, 0))
}

// noRoot are SECBIT_NOROOT and SECBIT_NO_SETUID_FIXUP, both locked: root's number gives no capability.
const noRoot = 1<<0 | 1<<1 | 1<<2 | 1<<3

// virtual are file systems that hold no files of anybody's. The jail has its own, or none.
var virtual = []string{"proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "mqueue", "debugfs", "securityfs",
	"bpf",
	"tracefs", "hugetlbfs", "fusectl", "configfs", "nsfs", "pstore", "efivarfs", "autofs", "binfmt_misc", "rpc_pipefs"}

// mounted lists where file systems with files are mounted, each after what it lies in. /dev, /proc and /sys are left
// out.
func mounted() (at []string, err error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() { // 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw
		before, after, _ := strings.Cut(lines.Text(), " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(kind) < 1 || slices.Contains(virtual, kind[0]) {
			continue
		}
		path := unescaped(fields[4])
		inside := func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
		if inside("/dev") || inside("/proc") || inside("/sys") || slices.Contains(at, path) {
			continue
		}
		at = append(at, path)
	}
	return at, lines.Err()
}

// unescaped is a path of mountinfo, where a space is \040.
func unescaped(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

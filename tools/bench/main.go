// Bench measures what launch adds to the program it wraps, with script(1) beside it in the same run.
//
//	go run ./tools/bench [-n 30] [-mib 256] [-seconds 5] -- LAUNCH [ARGUMENT...]
//
// LAUNCH is the wrapper and its own arguments, up to and with its `--` where it wants one: `-- ./launch --`. A wrapper
// without arguments is given one. Absolute figures are this machine's; compare ratios. It never fails on a figure: on a
// busy machine any of them is noise.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

func main() {
	n := flag.Int("n", 30, "start-ups measured of each")
	mib := flag.Int("mib", 256, "MiB of lines through the pseudo-terminal")
	rounds := flag.Int("rounds", 3, "throughput measured how often")
	seconds := flag.Int("seconds", 5, "seconds of ten lines each")
	child := flag.String("child", "", "be the measured program: lines, ticks or clock (for bench itself)")
	flag.Parse()
	switch *child {
	case "lines":
		lines(*mib)
		return
	case "ticks":
		ticks(*seconds)
		return
	case "clock":
		fmt.Println(time.Now().UnixNano())
		return
	}
	wrapper := flag.Args()
	if len(wrapper) == 0 {
		fmt.Fprintln(os.Stderr, "bench: say what to measure, such as: go run ./tools/bench -- ./launch --")
		os.Exit(2)
	}
	if path, err := exec.LookPath(wrapper[0]); err == nil {
		wrapper[0] = path
	}
	if len(wrapper) == 1 {
		wrapper = append(wrapper, "--")
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	b := bench{self: self, wrappers: []wrapping{
		{"bare", func(c []string) []string { return c }},
		{filepath.Base(wrapper[0]), func(c []string) []string { return append(slices.Clone(wrapper), c...) }},
	}}
	if script, err := exec.LookPath("script"); err == nil {
		b.wrappers = append(b.wrappers, wrapping{"script", func(c []string) []string {
			return []string{script, "-qefc", strings.Join(c, " "), "/dev/null"}
		}})
	}
	machine()
	b.before(*n)
	b.start(*n)
	b.throughput(*mib, *rounds)
	b.cpu(*seconds)
}

// lines prints n MiB of lines of 64 bytes.
func lines(n int) {
	line := strings.Repeat("x", 63) + "\n"
	block := []byte(strings.Repeat(line, 1024))
	for range n * 16 {
		if _, err := os.Stdout.Write(block); err != nil {
			os.Exit(1)
		}
	}
}

// ticks prints ten lines a second.
func ticks(seconds int) {
	for i := range seconds * 10 {
		fmt.Printf("iter %d: loss 0.123\n", i)
		time.Sleep(100 * time.Millisecond)
	}
}

type wrapping struct {
	name string
	wrap func([]string) []string
}

type bench struct {
	self     string
	wrappers []wrapping
}

// each runs f for every wrapper, turn and turn about, so that a busy moment hits them all; it returns n results of each.
func (b bench) each(n int, f func(w wrapping) (float64, error)) [][]float64 {
	out := make([][]float64, len(b.wrappers))
	for range n {
		for i, w := range b.wrappers {
			v, err := f(w)
			if err != nil {
				fmt.Printf("  %s: %v\n", w.name, err)
				continue
			}
			out[i] = append(out[i], v)
		}
	}
	return out
}

// before measures the time from before the wrapper's start to the program's first instruction of its own: what is added
// before a training starts.
func (b bench) before(n int) {
	all := b.each(n, func(w wrapping) (float64, error) {
		args := w.wrap([]string{b.self, "-child=clock"})
		begin := time.Now()
		out, err := exec.Command(args[0], args[1:]...).Output()
		if err != nil {
			return 0, err
		}
		started, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
		return float64(time.Unix(0, started).Sub(begin).Microseconds()) / 1000, err
	})
	b.table(fmt.Sprintf("until the program runs, on pipes, ms, %d of each", n), all)
}

// table prints what was measured of every wrapper beside what it adds to bare, pair by pair.
func (b bench) table(title string, all [][]float64) {
	fmt.Printf("\n%s\n", title)
	fmt.Printf("%-12s %8s %8s %8s %8s\n", "", "median", "best", "added", "best")
	for i, w := range b.wrappers {
		var added []float64
		for k := range min(len(all[i]), len(all[0])) {
			added = append(added, all[i][k]-all[0][k])
		}
		best := at(all[i], 0)
		fmt.Printf("%-12s %8.2f %8.2f %8.2f %8.2f\n", w.name, at(all[i], 0.5), best, at(added, 0.5), best-at(all[0], 0))
	}
}

// start measures `true`: the time from before its start to after its end.
func (b bench) start(n int) {
	for _, where := range []string{"pipes", "terminal"} {
		all := b.each(n, func(w wrapping) (float64, error) {
			begin := time.Now()
			var err error
			if where == "terminal" {
				_, _, err = inTerminal(w.wrap([]string{"true"}))
			} else {
				args := w.wrap([]string{"true"})
				err = exec.Command(args[0], args[1:]...).Run()
			}
			return float64(time.Since(begin).Microseconds()) / 1000, err
		})
		b.table(fmt.Sprintf("start-up and end on %s, ms, %d of each", where, n), all)
	}
}

// throughput measures lines into a pseudo-terminal that is read here.
func (b bench) throughput(mib, rounds int) {
	fmt.Printf("\n%d MiB of lines through a terminal, %d rounds\n", mib, rounds)
	fmt.Printf("%-12s %8s %8s %10s %9s\n", "", "MiB/s", "best", "CPU s", "bytes")
	cpu := map[string][]float64{}
	size := map[string]int64{}
	all := b.each(rounds, func(w wrapping) (float64, error) {
		begin := time.Now()
		n, usage, err := inTerminal(w.wrap([]string{b.self, "-child=lines", "-mib=" + strconv.Itoa(mib)}))
		size[w.name] = n
		if usage != nil {
			cpu[w.name] = append(cpu[w.name], (usage.SystemTime() + usage.UserTime()).Seconds())
		}
		return float64(mib) / time.Since(begin).Seconds(), err
	})
	for i, w := range b.wrappers {
		fmt.Printf("%-12s %8.1f %8.1f %10.2f %9d\n", w.name, at(all[i], 0.5), at(all[i], 1), at(cpu[w.name], 0.5), size[w.name])
	}
	if len(all) == 3 && len(all[2]) > 0 {
		var ratio []float64
		for k := range min(len(all[1]), len(all[2])) {
			ratio = append(ratio, all[1][k]/all[2][k])
		}
		fmt.Printf("%s / script, paired: median %.3f, best %.3f\n", b.wrappers[1].name, at(ratio, 0.5), at(ratio, 1))
	}
}

// cpu measures the CPU time of the wrapper, its keeper included, while the program prints ten lines a second: what all used
// less what bare used.
func (b bench) cpu(seconds int) {
	fmt.Printf("\nten lines a second for %d s\n%-12s %12s %12s\n", seconds, "", "CPU ms", "% of a core")
	var bare float64
	for i, w := range b.wrappers {
		begin := time.Now()
		_, usage, err := inTerminal(w.wrap([]string{b.self, "-child=ticks", "-seconds=" + strconv.Itoa(seconds)}))
		if err != nil || usage == nil {
			fmt.Printf("%-12s %v\n", w.name, err)
			continue
		}
		ms := float64((usage.SystemTime() + usage.UserTime()).Microseconds()) / 1000
		if i == 0 {
			bare = ms
		}
		fmt.Printf("%-12s %12.1f %12.2f\n", w.name, ms-bare, (ms-bare)/float64(time.Since(begin).Milliseconds())*100)
	}
}

// at is the value at a share of the sorted list.
func at(list []float64, share float64) float64 {
	if len(list) == 0 {
		return 0
	}
	list = slices.Clone(list)
	slices.Sort(list)
	return list[int(share*float64(len(list)-1)+0.5)]
}

// inTerminal runs a command in a fresh pseudo-terminal and reads all that it shows.
func inTerminal(args []string) (int64, *os.ProcessState, error) {
	master, slave, err := openTerminal()
	if err != nil {
		return 0, nil, err
	}
	defer master.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	slave.Close()
	if err != nil {
		return 0, nil, err
	}
	buf := make([]byte, 64<<10)
	var n int64
	for {
		k, err := master.Read(buf)
		n += int64(k)
		if err != nil { // EIO: everybody has closed it
			break
		}
	}
	err = cmd.Wait()
	return n, cmd.ProcessState, err
}

// openTerminal is openpty(3), for a benchmark that depends on nothing.
func openTerminal() (master, slave *os.File, err error) {
	fd, err := syscall.Open("/dev/ptmx", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	var n, unlock uint32
	for _, call := range []struct {
		request uintptr
		arg     *uint32
	}{{syscall.TIOCSPTLCK, &unlock}, {syscall.TIOCGPTN, &n}} {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), call.request, uintptr(unsafe.Pointer(call.arg)))
		if errno != 0 {
			syscall.Close(fd)
			return nil, nil, errno
		}
	}
	s, err := syscall.Open("/dev/pts/"+strconv.Itoa(int(n)), syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		syscall.Close(fd)
		return nil, nil, err
	}
	size := [4]uint16{33, 111}
	_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TIOCSWINSZ, uintptr(unsafe.Pointer(&size)))
	return os.NewFile(uintptr(fd), "ptmx"), os.NewFile(uintptr(s), "pts"), nil
}

// machine prints what the figures were measured on.
func machine() {
	model := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if v, ok := strings.CutPrefix(line, "model name"); ok {
				model = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(v), ":"))
				break
			}
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("%s, %d cores, Linux %s, %s, load %s\n", model, runtime.NumCPU(), strings.TrimSpace(string(kernel)),
		runtime.Version(), strings.TrimSpace(string(load)))
}

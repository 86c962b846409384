// Package nvml asks NVIDIA's driver about the devices. It is the only importer of go-nvml.
//
// The driver's library is loaded into a process of its own, this program re-executed: a library that is older than
// the headers lacks symbols, and a call to one ends the process with "symbol lookup error" and status 127, which no
// recover catches. So the worst that a broken driver does to a training is that its card is not known.
package nvml

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/launch-ml/launch/core/gpu"
)

// word marks a process as the child that loads the driver's library.
const word = "__nvml"

// ErrNoDriver is wrapped by errors that say that this machine has no NVIDIA driver, which is no fault.
var ErrNoDriver = errors.New("no NVIDIA driver")

// look is one line of the child's output.
type look struct {
	Devices []gpu.Device `json:"devices,omitempty"`
	Busy    []*int       `json:"busy,omitempty"` // of each device: [gpu.Device.Busy]
	Error   string       `json:"error,omitempty"`
	Absent  bool         `json:"absent,omitempty"` // the error is that there is no driver
}

// lookAt is the look at these devices.
func lookAt(all []gpu.Device) look {
	l := look{Devices: all}
	for _, d := range all {
		l.Busy = append(l.Busy, d.Busy)
	}
	return l
}

// devices are those of a look that was read.
func (l look) devices() []gpu.Device {
	for i := range min(len(l.Devices), len(l.Busy)) {
		l.Devices[i].Busy = l.Busy[i]
	}
	return l.Devices
}

func (l look) err() error {
	switch {
	case l.Absent:
		return fmt.Errorf("%w: %s", ErrNoDriver, strings.TrimPrefix(l.Error, ErrNoDriver.Error()+": "))
	case l.Error != "":
		return fmt.Errorf("asking the NVIDIA driver: %s", l.Error)
	}
	return nil
}

// ChildMain is called first thing in main. It returns at once unless this process was started to load the driver's
// library; then it never returns.
func ChildMain() {
	if !isChild() {
		return
	}
	var every time.Duration
	if len(os.Args) > 2 {
		every, _ = time.ParseDuration(os.Args[2])
	}
	out := json.NewEncoder(os.Stdout)
	d, err := open()
	for err == nil {
		var all []gpu.Device
		if all, err = d.devices(); err != nil {
			break
		}
		if out.Encode(lookAt(all)) != nil || every == 0 { // a reader that has gone wants no more
			os.Exit(0)
		}
		time.Sleep(every)
	}
	out.Encode(look{Error: err.Error(), Absent: errors.Is(err, ErrNoDriver)})
	os.Exit(0)
}

// errChild keeps a program that does not call [ChildMain], such as a test, from starting itself without end.
var errChild = errors.New("asking the NVIDIA driver: this program does not call nvml.ChildMain")

func isChild() bool { return len(os.Args) > 1 && os.Args[1] == word }

// List returns the devices of this machine, MIG slices behind their cards. The error wraps [ErrNoDriver] where there is no driver.
func List(ctx context.Context) ([]gpu.Device, error) {
	if isChild() {
		return nil, errChild
	}
	cmd := child(ctx)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var l look
	if json.Unmarshal(out, &l) == nil {
		return l.devices(), l.err()
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("asking the NVIDIA driver: no answer: %w", ctx.Err())
	}
	return nil, fmt.Errorf("asking the NVIDIA driver: %w: %s", err, firstLine(errs.String()))
}

// Watch looks at the devices at once and then every so often, and hands each look to see, until ctx is done or the
// driver fails. It returns nil when ctx ended it.
func Watch(ctx context.Context, every time.Duration, see func(time.Time, []gpu.Device)) error {
	if isChild() {
		return errChild
	}
	cmd := child(ctx, every.String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("watching the GPU: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("watching the GPU: %w", err)
	}
	defer cmd.Wait()
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		var l look
		if json.Unmarshal(line, &l) == nil {
			if l.err() != nil {
				return l.err()
			}
			see(time.Now(), l.devices())
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == io.EOF:
			return fmt.Errorf("watching the GPU: the driver's process ended")
		case err != nil:
			return fmt.Errorf("watching the GPU: %w", err)
		}
	}
}

func child(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{word}, args...)...)
	cmd.Env = os.Environ()
	// In a process group of its own, so that Ctrl-C on the terminal does not end the watching before the program.
	// It dies with its reader: its next line meets a closed pipe.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	return cmd
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// Package drivers asks the drivers of this machine about its devices. It is the only importer of go-nvml.
//
// The driver's library is loaded into a process of its own, this program re-executed: a library that is older than
// the headers lacks symbols, and a call to one ends the process with "symbol lookup error" and status 127, which no
// recover catches. So the worst that a broken driver does to a training is that its card is not known.
package drivers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
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
		return &loadingError{fmt.Errorf("%w: %s", ErrNoDriver, strings.TrimPrefix(l.Error, ErrNoDriver.Error()+": "))}
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
	// A reader that has gone needs no reason.
	_ = out.Encode(look{Error: err.Error(), Absent: errors.Is(err, ErrNoDriver)})
	os.Exit(0)
}

// errChild keeps a program that does not call [ChildMain], such as a test, from starting itself without end.
var errChild = errors.New("asking the NVIDIA driver: this program does not call drivers.ChildMain")

func isChild() bool { return len(os.Args) > 1 && os.Args[1] == word }

// listNVIDIA asks NVIDIA's library. Where it cannot be loaded, nvidia-smi is asked.
func listNVIDIA(ctx context.Context) ([]gpu.Device, error) {
	if isChild() {
		return nil, errChild
	}
	return within(ctx, func() ([]gpu.Device, error) {
		all, err := byLibrary(ctx)
		if _, isLoading := errors.AsType[*loadingError](err); !isLoading {
			return all, err
		}
		return byTool(ctx, err)
	})
}

// lastWord is how long an answer is waited for after its context is done.
const lastWord = 2 * time.Second

// within is what ask returns, or the error of ctx some time after that is done: no signal ends a process that hangs in
// the driver, as with a card that has fallen off the bus, and so it is left behind.
func within[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	type answer struct {
		of  T
		err error
	}
	done := make(chan answer, 1)
	go func() {
		of, err := ask()
		done <- answer{of, err}
	}()
	select {
	case a := <-done:
		return a.of, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-done:
		return a.of, a.err
	case <-time.After(lastWord):
		var none T
		return none, fmt.Errorf("asking the NVIDIA driver: it hangs: %w", ctx.Err())
	}
}

func byLibrary(ctx context.Context) ([]gpu.Device, error) {
	cmd, started, err := child(ctx)
	if err != nil {
		return nil, notLoaded(err)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Start()
	started()
	if err != nil {
		return nil, notLoaded(notStarted(err))
	}
	err = cmd.Wait()
	var l look
	if json.Unmarshal(out.Bytes(), &l) == nil {
		return l.devices(), l.err()
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("asking the NVIDIA driver: no answer: %w", ctx.Err())
	}
	return nil, &loadingError{fmt.Errorf("asking the NVIDIA driver: %w: %s", err, firstLine(errs.String()))}
}

// watchNVIDIA is [Watch] of NVIDIA's cards alone. Where the library cannot be loaded, nvidia-smi is asked.
func watchNVIDIA(ctx context.Context, every time.Duration, see func(time.Time, []gpu.Device)) error {
	if isChild() {
		return errChild
	}
	_, err := within(ctx, func() (struct{}, error) {
		err := watchByLibrary(ctx, every, see)
		if _, isLoading := errors.AsType[*loadingError](err); isLoading && ctx.Err() == nil {
			err = watchByTool(ctx, every, err, see)
		}
		return struct{}{}, err
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func watchByLibrary(ctx context.Context, every time.Duration, see func(time.Time, []gpu.Device)) error {
	cmd, started, err := child(ctx, every.String())
	if err != nil {
		return notLoaded(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	started()
	if err != nil {
		return notLoaded(notStarted(err))
	}
	defer cmd.Wait()
	lines := bufio.NewReader(out)
	for seen := false; ; {
		line, err := lines.ReadBytes('\n')
		var l look
		if json.Unmarshal(line, &l) == nil {
			if l.err() != nil {
				return l.err()
			}
			if seen = true; ctx.Err() == nil {
				see(time.Now(), l.devices())
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == io.EOF && !seen:
			return &loadingError{errors.New("watching the GPU: the driver's process ended")}
		case err == io.EOF:
			return fmt.Errorf("watching the GPU: the driver's process ended")
		case err != nil:
			return fmt.Errorf("watching the GPU: %w", err)
		}
	}
}

// child is the command that loads the library. The caller calls started after it has started it, or failed to.
func child(ctx context.Context, args ...string) (cmd *exec.Cmd, started func(), err error) {
	path, started, err := program()
	if err != nil {
		return nil, nil, err
	}
	cmd = exec.CommandContext(ctx, path, append([]string{word}, args...)...)
	cmd.Env = os.Environ()
	// In a process group of its own, so that Ctrl-C on the terminal does not end the watching before the program.
	// It dies with its reader: its next line meets a closed pipe.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	return cmd, started, nil
}

// A loadingError says that the library could not be loaded. Another way to ask the driver may be open.
type loadingError struct{ error }

func (e *loadingError) Unwrap() error { return e.error }

// notLoaded is the error of a library that nothing has tried to load. Where nothing on this machine speaks for a
// driver it
// wraps [ErrNoDriver].
func notLoaded(why error) error {
	for _, sign := range []string{"/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"} { // the last is WSL's
		if _, err := os.Stat(sign); err == nil {
			return &loadingError{fmt.Errorf("asking the NVIDIA driver: %w", why)}
		}
	}
	return &loadingError{fmt.Errorf("%w, and launch could not ask one: %w", ErrNoDriver, why)}
}

// interpreters are the files by which the kernel starts a program that is linked to glibc.
var interpreters = map[string]string{"amd64": "/lib64/ld-linux-x86-64.so.2", "arm64": "/lib/ld-linux-aarch64.so.1"}

// notStarted explains why the process did not start: the kernel reports a missing interpreter as a missing program.
func notStarted(err error) error {
	loader := interpreters[runtime.GOARCH]
	if _, missing := os.Stat(loader); loader != "" && errors.Is(err, fs.ErrNotExist) && missing != nil {
		return fmt.Errorf("NVIDIA's library needs glibc, and this system has another C library (it has no %s)", loader)
	}
	return err
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

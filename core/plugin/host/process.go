package host

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"
	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/private"
)

// starter runs what starts processes on one thread that never ends: the parent-death signal is sent when the thread
// that started a process ends, not when its program does, and Go ends threads as it likes.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func onThread(f func() error) error {
	done := make(chan error, 1)
	starter() <- func() { done <- f() }
	return <-done
}

// keep is how many lines of a plugin's own words are kept for its obituary, of their beginning and of their end: a Go
// panic says first what happened, a Python traceback last.
const keep = 5

// longest is how much is kept of one line, in bytes.
const longest = 200

// tail keeps the first and the last lines of what a plugin's process says on its standard error.
type tail struct {
	mu          sync.Mutex
	first, last []string
	dropped     bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for line := range bytes.Lines(p) {
		s := "  " + strings.TrimSpace(string(line[:min(len(line), longest)]))
		switch {
		case len(s) == 2:
		case len(t.first) < keep:
			t.first = append(t.first, s)
		default:
			t.last = append(t.last, s)
		}
	}
	if n := len(t.last); n > keep {
		t.last, t.dropped = t.last[n-keep:], true
	}
	return len(p), nil
}

// String returns the kept lines, or "".
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := slices.Clone(t.first)
	if t.dropped {
		lines = append(lines, "  …")
	}
	return strings.Join(append(lines, t.last...), "\n")
}

// A process is a plugin's program. It implements go-plugin's runner: the whole process group ends with the program.
type process struct {
	cmd            *exec.Cmd
	dir            string // of its socket, which no other process has
	alone          bool   // it is launch's own program, which starts nothing
	stdout, stderr io.ReadCloser
	handshake      firstLine
	watch          watch         // of what it has started
	started        chan struct{} // closed when the program has been started, or could not be
	ended          chan struct{} // closed when the program has ended, and is not reaped yet

	mu     sync.Mutex
	reaped bool
}

var _ runner.Runner = (*process)(nil)

func newProcess(cmd *exec.Cmd, dir string, alone bool) (*process, error) {
	p := &process{cmd: cmd, dir: dir, alone: alone, started: make(chan struct{}),
		ended: make(chan struct{})}
	var err error
	if p.stdout, err = cmd.StdoutPipe(); err == nil {
		p.stderr, err = cmd.StderrPipe()
	}
	return p, err
}

// endWith ends the program with its context, unless it is connected before that.
func (p *process) endWith(ctx context.Context, connected <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-connected:
		return
	}
	select {
	case <-p.started:
		if p.ID() != "" {
			_ = p.Kill(context.WithoutCancel(ctx))
		}
	case <-connected:
	}
}

// Start implements [runner.Runner].
func (p *process) Start(context.Context) error {
	// In its own process group, so that it cannot read the user's terminal and Ctrl-C passes it by; and dead as soon as launch
	// is, for go-plugin leaves its processes behind when the host is killed.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.cmd.Stdin = nil // go-plugin hands on launch's own, which is the program's
	defer close(p.started)
	if err := onThread(p.cmd.Start); err != nil {
		close(p.ended)
		return err
	}
	pid := p.cmd.Process.Pid
	unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: data, Max: data}, nil)
	unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	p.watch.root = pid
	if !p.alone {
		// Where memory runs out all the same, the kernel ends this one first, and no training.
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("1000"), 0o644)
		p.watch.most = allowance()
		go p.watch.follow(p.ended, p.end)
	}
	go func() {
		defer close(p.ended)
		for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
		p.end() // while the program is a zombie, its number is no other's
		if !p.alone {
			p.watch.end()
			p.sweep()
		}
		// What still holds the pipes is out of reach: its words are waited for no longer.
		time.AfterFunc(time.Second, func() { p.stdout.Close(); p.stderr.Close() })
	}()
	return nil
}

// look finds what the program has started, while that is its child: it is about to end.
func (p *process) look() {
	if !p.alone && p.cmd.Process != nil {
		p.watch.look()
	}
}

// end kills the process group.
func (p *process) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd.Process != nil && !p.reaped {
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// sweep kills what the program started in groups of its own: its environment names the socket's folder. A process that is
// just executing a program shows no environment, so sweep looks again while there is one.
func (p *process) sweep() {
	for range 10 {
		if !p.sweepOnce() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// sweepOnce reports whether a process showed no environment.
func (p *process) sweepOnce() (unsure bool) {
	mine := []byte(socketDir + "=" + p.dir + "\x00")
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range all {
		env, err := os.ReadFile(filepath.Join(proc, "environ"))
		switch {
		case err != nil:
		case len(env) == 0:
			_, err := os.Readlink(filepath.Join(proc, "exe")) // a thread of the kernel and a zombie have none
			unsure = unsure || err == nil
		case bytes.Contains(env, mine):
			if pid, err := strconv.Atoi(filepath.Base(proc)); err == nil && pid != p.cmd.Process.Pid {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	return unsure
}

// firstLine keeps the first line that is written to it, up to a length that no handshake has.
type firstLine struct {
	mu    sync.Mutex
	line  []byte
	whole bool
}

func (f *firstLine) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.whole {
		var line []byte
		line, _, f.whole = bytes.Cut(p, []byte("\n"))
		f.line = append(f.line, line[:min(len(line), maxWords-len(f.line))]...)
	}
	return len(p), nil
}

// String returns the line, or what there is of it.
func (f *firstLine) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.line)
}

// Wait implements [runner.AttachedRunner].
func (p *process) Wait(context.Context) error {
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	return p.cmd.Wait()
}

// Kill implements [runner.AttachedRunner].
func (p *process) Kill(context.Context) error {
	p.look()
	p.end()
	return nil
}

// Stdout implements [runner.Runner]. It remembers the first line.
func (p *process) Stdout() io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.TeeReader(p.stdout, &p.handshake), p.stdout}
}

func (p *process) Stderr() io.ReadCloser { return p.stderr }
func (p *process) Name() string          { return p.cmd.Path }

// ID implements [runner.AttachedRunner]. It is empty until there is a process.
func (p *process) ID() string {
	if p.cmd.Process == nil {
		return ""
	}
	return strconv.Itoa(p.cmd.Process.Pid)
}

// Diagnose implements [runner.Runner].
func (p *process) Diagnose(context.Context) string { return "" }

// PluginToHost implements [runner.AddrTranslator]: a plugin is reached by a socket in its own folder and nowhere else.
func (p *process) PluginToHost(network, address string) (string, string, error) {
	if network != "unix" || filepath.Dir(address) != filepath.Clean(p.dir) {
		return "", "", fmt.Errorf("its handshake names %.100q, and a plugin is reached by a socket in the folder that it was given alone", network+" "+address)
	}
	return network, address, nil
}

// HostToPlugin implements [runner.AddrTranslator].
func (p *process) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// Ask starts a plugin's program once, for its manifest. It is told who the user is and nothing else.
func Ask(ctx context.Context, path string) (m plugin.Manifest, err error) {
	dir, err := private.Temp("launch-")
	if err != nil {
		return m, fmt.Errorf("making a folder for its socket: %w", err)
	}
	defer os.RemoveAll(dir)
	name := strings.TrimPrefix(filepath.Base(path), "launch-plugin-")
	c, err := Start(ctx, Source{Manifest: plugin.Manifest{Name: name, Env: []string{"PATH", "HOME", "LANG"}}, Path: path}, dir, nil)
	if err != nil {
		return m, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := c.call.Call(ctx, "Manifest", struct{}{}, &m); err != nil {
		return plugin.Manifest{}, c.trouble("asking what it knows", err)
	}
	if err := m.Check(); err != nil {
		return plugin.Manifest{}, c.trouble("asking what it knows", err)
	}
	return m, nil
}

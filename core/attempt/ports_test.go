package attempt

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/run"
)

// The port is what the command or the environment fixes.
func TestMeetingPort(t *testing.T) {
	env := []string{"MASTER_PORT=29700"}
	for line, want := range map[string]string{
		"torchrun --master-port 29501 t.py": "29501", "torchrun --rdzv-endpoint h:29502 t.py": "29502",
		"torchrun --standalone t.py": "",
		"python t.py":                "29700", "env -u MASTER_PORT python t.py": "", "echo": "",
	} {
		if got := meetingPort(job.Command{Args: strings.Fields(line), Env: env, Dir: "/"}); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// freed gives its port back as soon as launch has printed that it waits for it.
type freed struct {
	net.Listener
	lines []string
}

func (f *freed) Line(format string, args ...any) {
	f.lines = append(f.lines, fmt.Sprintf(format, args...))
	f.Close()
}
func (f *freed) Warn(format string, args ...any) { f.Line(format, args...) }
func (f *freed) Starting(*run.Plan, bool)        {}

// The next attempt waits for a port that one before it has left in use, and the first does not.
func TestWaitForPort(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Skip(err)
	}
	f := &freed{Listener: l}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	x := &Executor{Setup: Setup{Report: f}}
	c := job.Command{Args: []string{"torchrun", "--master-port", port, "t.py"}, Dir: "/"}
	x.waitForPort(context.Background(), c)
	if len(f.lines) != 0 {
		t.Errorf("the first attempt: %q", f.lines)
	}
	x.attempts = 1
	x.waitForPort(context.Background(), c)
	if len(f.lines) != 1 || !strings.Contains(f.lines[0], port) || !free(port) {
		t.Errorf("%q, free: %v", f.lines, free(port))
	}
	x.waitForPort(context.Background(), c)
	if len(f.lines) != 1 {
		t.Errorf("a free port: %q", f.lines)
	}
}

package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/proc/internal/keep"
)

// Output that cannot be written is reported, and the program meets it as a pipe that nobody reads.
func TestFullDisk(t *testing.T) {
	full := func() *os.File {
		f, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	for name, tt := range map[string]struct {
		text     string
		tty      Mode
		out, err bool // are full
		status   int
		says     string
	}{
		"it does not notice":       {`echo hi; exit 0`, Never, true, false, 0, "standard output could not be written: no space left on device"},
		"it goes on printing":      {`while echo hi; do :; done; exit 7`, Never, true, false, 128 + 13, "standard output could not be written: no space left on device"},
		"it takes no signal":       {`trap "" PIPE; while echo hi; do :; done 2>/dev/null; exit 7`, Never, true, false, 7, "standard output could not be written: no space left on device"},
		"standard error":           {`echo hi >&2; exit 0`, Never, false, true, 0, "standard error could not be written: no space left on device"},
		"a terminal of its own":    {`while echo hi; do sleep 0.01; done; exit 7`, Always, true, false, 128 + 1, "standard output could not be written: no space left on device"},
		"nothing printed, no loss": {`exit 0`, Never, true, true, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Spec{Args: []string{"sh", "-c", tt.text}, TTY: tt.tty}
			var told []byte
			s.Tap = func(_ Stream, p []byte) { told = append(told, p...) }
			read := files(t, &s)
			if tt.out {
				s.Stdout = full()
			}
			if tt.err {
				s.Stderr = full()
			}
			exit, err := Run(t.Context(), s)
			read()
			var lost *OutputError
			says := ""
			if errors.As(exit.Output, &lost) {
				says = lost.Error()
			}
			if err != nil || exit.Status() != tt.status || says != tt.says {
				t.Errorf("%v, %v, %q; want %d, %q", exit, err, says, tt.status, tt.says)
			}
			if tt.says != "" && len(told) == 0 {
				t.Error("the tap was not told what could not be written")
			}
		})
	}
}

// Where nobody reads any more, that is no trouble of ours.
func TestBrokenPipeIsNoLoss(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	exit, err := Run(t.Context(), Spec{Args: []string{"sh", "-c", "while echo hi; do :; done"}, Stdout: w, TTY: Never})
	if err != nil || exit.Signal != syscall.SIGPIPE || exit.Output != nil {
		t.Errorf("%+v, %v", exit, err)
	}
}

// Who is asked from outside has as long as it takes, who is asked by us has not; a second request gives no more time.
func TestTimeToStop(t *testing.T) {
	a := attempt{}
	if a.ask(0); a.grace != nil || !a.asked {
		t.Error("a request from outside has a limit that nobody set")
	}
	a.ask(time.Hour)
	was := a.grace
	if a.ask(time.Nanosecond); was == nil || a.grace != was {
		t.Error("the first limit does not stand")
	}
}

// Where the keeper is killed, nothing of the program's is left: not what has a session of its own, nor what was orphaned before.
func TestKilledKeeperLeavesNothing(t *testing.T) {
	for _, flag := range []string{"--tty", "--no-tty"} {
		t.Run(flag, func(t *testing.T) {
			note := filepath.Join(tempDir(t), "pids")
			cmd := exec.Command(os.Args[0], "__wrap", flag, "--", "sh", "-c", `setsid sh -c 'trap "" TERM HUP; while :; do sleep 1; done' & a=$!
				(setsid sh -c 'trap "" TERM HUP; echo $$ >`+note+`.late; while :; do sleep 1; done' &)
				while ! [ -s `+note+`.late ]; do sleep 0.01; done
				echo $$ $PPID $a $(cat `+note+`.late) >`+note+`; while :; do sleep 0.02; done`)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pids := pidsIn(t, note, 4)
			if err := syscall.Kill(pids[1], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			if got := ended(cmd.ProcessState); got != "exit 125" {
				t.Error(got)
			}
			for i, pid := range pids {
				if alive(pid) { // at once: it has waited for that
					t.Errorf("process %d is still there", i)
				}
			}
		})
	}
}

// A keeper that cannot be started has run nothing, and the program can run in our place.
func TestMeans(t *testing.T) {
	if err := (&keeper{from: make(chan keep.Message), sock: -1}).send(keep.MsgKill, nil); err == nil {
		t.Fatal("a message went nowhere")
	}
	k := &keeper{from: make(chan keep.Message), sock: -1}
	close(k.from)
	var none *MeansError
	if _, err := k.start(keep.StartOrder{Args: []string{"true"}}, nil); !errors.As(err, &none) {
		t.Errorf("a keeper that died before it began: %v", err)
	}
}

// Where launch's own runtime could not start, the program runs in its place.
func TestFewAddresses(t *testing.T) {
	for name, tt := range map[string]struct {
		args   string
		status string
	}{
		"a program":          {"--tty -- sh -c 'exit 7'", "exit 7"},
		"a value":            {"--limit 1GiB --allow speed -- sh -c 'exit 7'", "exit 7"},
		"none":               {"-- nosuchcommand-x", "exit 127"},
		"plan runs nothing":  {"plan -- sh -c 'exit 7'", "not 7"},
		"nor does --grace x": {"--grace plan -- sh -c 'exit 7'", "not 7"},
	} {
		cmd := exec.Command("sh", "-c", "ulimit -v 1000000; exec "+os.Args[0]+" -test.run=^$ "+tt.args) // no tests, should it come to that
		_ = cmd.Run()
		got := ended(cmd.ProcessState)
		if tt.status == "not 7" && got != "exit 7" {
			got = "not 7"
		}
		if got != tt.status {
			t.Errorf("%s: %s, want %s", name, got, tt.status)
		}
	}
}

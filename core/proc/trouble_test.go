package proc

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
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

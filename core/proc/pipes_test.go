package proc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/launch-ml/launch/core/proc/internal/keep"
	"github.com/launch-ml/launch/core/unit"
)

// sh runs a script bare, or wrapped, without a terminal: how it ended and its outputs.
func sh(t *testing.T, wrap bool, text, stdin string, extra ...*os.File) (status, out, errs string) {
	t.Helper()
	args := []string{"sh", "-c", text}
	if wrap {
		args = wrapped(args...)
	}
	var o, e bytes.Buffer
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = strings.NewReader(stdin), &o, &e, extra
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return ended(cmd.ProcessState), o.String(), e.String()
}

func TestPipesAreAsBare(t *testing.T) {
	for name, text := range map[string]string{
		"success":              `exit 0`,
		"exit code":            `exit 7`,
		"killed":               `kill -9 $$`,
		"crashed":              `kill -SEGV $$`,
		"aborted":              `kill -ABRT $$`,
		"quit":                 `kill -QUIT $$`,
		"terminated":           `kill -TERM $$`,
		"interrupted":          `kill -INT $$`,
		"outputs":              `echo out; echo err >&2; exit 3`,
		"input":                `cat; exit 4`,
		"4 MiB at the end":     `head -c 4194304 /dev/zero`,
		"environment":          `env | grep -v "^_="`,
		"no terminal":          `test -t 0; echo $?; test -t 1; echo $?; test -t 2; echo $?`,
		"limits":               `ulimit -a; ulimit -Ha`,
		"signals":              `grep -E "Sig(Blk|Ign)" /proc/self/status`,
		"descriptors":          `ls /proc/self/fd | wc -l`,
		"not found":            `exec nosuchcommand-x`,
		"folder":               `pwd`,
		"closed outputs":       `exec >&- 2>&-; exit 5`,
		"one output, in order": `exec 2>&1; for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantStatus, wantOut, wantErr := sh(t, false, text, "some\ninput")
			status, out, errs := sh(t, true, text, "some\ninput")
			if status != wantStatus || out != wantOut || errs != wantErr {
				t.Errorf("got %s %.300q %.300q\nwant %s %.300q %.300q", status, out, errs, wantStatus, wantOut, wantErr)
			}
		})
	}
}

// What a shell does around launch, compared as text.
func TestAroundAsBare(t *testing.T) {
	file := filepath.Join(tempDir(t), "file")
	for name, text := range map[string]string{
		"ignored signals":        `trap "" HUP INT QUIT TSTP; W sh -c 'grep SigIgn /proc/self/status'`,
		"an ignored SIGINT":      `trap "" INT; W sh -c 'grep SigIgn /proc/self/status'`,
		"an ignored SIGTERM":     `trap "" TERM USR1 USR2 PIPE ALRM TTIN TTOU WINCH XCPU XFSZ; W sh -c 'grep SigIgn /proc/self/status; kill -TERM $$; echo lives'`,
		"a job of a plain shell": `W sh -c 'grep SigIgn /proc/self/status' & wait`,
		"one file, in order":     `W sh -c 'for i in 1 2 3 4 5 6 7; do echo o$i; echo e$i >&2; done' >F 2>&1; cat F`,
		"one pipe, in order":     `W sh -c 'for i in 1 2 3 4 5 6 7; do echo o$i; echo e$i >&2; done' 2>&1 | cat`,
		"passed descriptors":     `echo hello >F; W sh -c 'cat <&3; cat <&9' 3<F 9<F`,
		"broken pipe":            `{ W yes; echo $? >F; } | head -n 1; cat F`,
		"leftovers hold outputs": `out=$(W sh -c '(sleep 0.3; echo late) & echo early'); echo "$out"`,
		"unlimited":              `W sh -c 'ulimit -d'`,
	} {
		t.Run(name, func(t *testing.T) {
			of := func(w string) string {
				text := strings.ReplaceAll(strings.ReplaceAll(text, "W ", w+" "), "F", file)
				out, err := exec.Command("sh", "-c", text).CombinedOutput()
				if err != nil {
					t.Errorf("%s: %v: %s", text, err, out)
				}
				return string(out)
			}
			if diff := cmp.Diff(of(""), of(strings.Join(wrapped(), " "))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// files gives Run outputs of this test's own, and returns what was written there.
func files(t *testing.T, s *Spec) (read func() (string, string)) {
	t.Helper()
	var got [2]bytes.Buffer
	var all sync.WaitGroup
	var ends []*os.File
	for i, f := range []**os.File{&s.Stdout, &s.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		*f = w
		ends = append(ends, w)
		all.Go(func() { _, _ = io.Copy(&got[i], r); r.Close() })
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	s.Stdin = null
	return func() (string, string) {
		for _, f := range append(ends, null) {
			f.Close()
		}
		all.Wait()
		return got[0].String(), got[1].String()
	}
}

// What a program leaves behind may go on printing without a pause: nobody waits for it.
func TestDaemonThatPrints(t *testing.T) {
	for _, tty := range []bool{false, true} {
		on := filepath.Join(tempDir(t), "on")
		if err := os.WriteFile(on, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		daemon := `perl -e '$| = 1; while (-e $ARGV[0]) { print "x\n"; select undef, undef, undef, 0.005 }' ` + on
		args := wrapped("sh", "-c", "trap '' HUP; "+daemon+" & echo me; exit 4")
		var cmd *exec.Cmd
		var all func() string
		if tty {
			s := newScreen(t, args...)
			cmd, all = s.cmd, s.all
		} else {
			out, err := os.Create(filepath.Join(tempDir(t), "out"))
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			cmd = exec.Command(args[0], args[1:]...)
			cmd.Stdout = out
			all = func() string { text, _ := os.ReadFile(out.Name()); return string(text) }
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan struct{})
		go func() { _ = cmd.Wait(); close(done) }()
		select {
		case <-done:
			if got := ended(cmd.ProcessState); got != "exit 4" {
				t.Errorf("terminal %v: %s", tty, got)
			}
			eventually(t, "what the program printed", func() bool { return strings.Contains(all(), "me") })
		case <-time.After(patient):
			t.Errorf("terminal %v: it waits for what the program left behind", tty)
			_ = cmd.Process.Kill()
		}
		os.Remove(on)
	}
}

func TestTapIsToldAll(t *testing.T) {
	var told [3]bytes.Buffer
	s := Spec{Args: []string{"sh", "-c", `seq 200000; echo bad >&2; printf last`}}
	s.Tap = func(from Stream, p []byte) { told[from].Write(p) }
	read := files(t, &s)
	exit, err := Run(t.Context(), s)
	out, errs := read()
	if err != nil || exit.Code != 0 || exit.Untapped != 0 || exit.MaxRSS <= 0 || exit.Left {
		t.Errorf("%+v, %v", exit, err)
	}
	if told[Output].String() != out || told[Error].String() != errs || errs != "bad\n" ||
		!strings.HasSuffix(out, "\n200000\nlast") {
		t.Errorf("told %d and %d bytes, read %d and %d", told[Output].Len(), told[Error].Len(), len(out), len(errs))
	}
}

func TestTapThatHangsIsGivenUp(t *testing.T) {
	never := make(chan struct{})
	tap := newTap(func(Stream, []byte) { <-never })
	tap.backlog, tap.hung = 1000, 20*time.Millisecond
	for range 100 {
		tap.put(Output, make([]byte, 100))
	}
	if n := tap.finish(); n != 10000 {
		t.Errorf("%d bytes not told, want 10000", n)
	}
	close(never)
}

func TestTapThatIsSlowIsToldAll(t *testing.T) {
	var n int
	tap := newTap(func(_ Stream, p []byte) { time.Sleep(time.Millisecond); n += len(p) })
	tap.backlog = 1000
	for range 100 {
		tap.put(Output, make([]byte, 100))
	}
	if left := tap.finish(); left != 0 || n != 10000 {
		t.Errorf("told %d bytes, %d left; want 10000, 0", n, left)
	}
}

func TestNotStarted(t *testing.T) {
	dir := tempDir(t)
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("#!/no/such/interpreter\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		dir  string
		code int
	}{
		{args: []string{"nosuchcommand-x"}, code: 127},
		{args: []string{"./nosuchcommand-x"}, code: 127},
		{args: []string{plain}, code: 126},
		{args: []string{dir}, code: 126},
		{args: []string{bad}, code: 127},
		{args: []string{"true"}, dir: plain, code: 126},
		{args: []string{"true", strings.Repeat("x", 3<<20)}, code: 126},
	} {
		_, err := Run(t.Context(), Spec{Args: tt.args, Dir: tt.dir})
		var start *StartError
		if !errors.As(err, &start) || start.ExitCode() != tt.code {
			t.Errorf("%.40s: %v, want %d", tt.args, err, tt.code)
		}
	}
	if _, err := Run(t.Context(), Spec{}); err == nil {
		t.Error("an empty command runs")
	}
}

func TestScriptWithoutFirstLine(t *testing.T) {
	s := Spec{Args: []string{"./script", "a b"}, Env: []string{"PATH=/bin:/usr/bin"}}
	s.Dir = filepath.Dir(script(t, `echo "$1" $PWD; exit 6`))
	read := files(t, &s)
	exit, err := Run(t.Context(), s)
	if out, _ := read(); err != nil || exit.Code != 6 || out != "a b "+s.Dir+"\n" {
		t.Errorf("%v, %v, %q", exit, err, out)
	}
}

func TestLimit(t *testing.T) {
	s := Spec{Args: []string{"sh", "-c", `ulimit -d; sh -c 'ulimit -d'`}, Limit: 300 * unit.MiB}
	read := files(t, &s)
	_, err := Run(t.Context(), s)
	if out, _ := read(); err != nil || out != "307200\n307200\n" {
		t.Errorf("%q, %v", out, err)
	}
	if _, out, _ := sh(t, true, "ulimit -d", ""); out != "unlimited\n" {
		t.Errorf("without a limit: %q", out)
	}
}

func TestCancelled(t *testing.T) {
	note := filepath.Join(tempDir(t), "pids")
	for _, tt := range []struct {
		name, text string
		grace      time.Duration
		killed     bool
		status     int
	}{
		{"it ends", `trap "exit 9" TERM`, patient, false, 9},
		{"it does not", `trap "" TERM`, 100 * time.Millisecond, true, 137},
	} {
		t.Run(tt.name, func(t *testing.T) {
			os.Remove(note)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := Spec{Args: []string{"sh", "-c", tt.text + `; setsid sh -c "trap '' TERM HUP; while :; do sleep 1; done" &
				echo $$ $! >` + note + `; while :; do sleep 0.02; done`}, Stop: tt.grace}
			read := files(t, &s)
			go func() { pidsIn(t, note, 2); cancel() }()
			exit, err := Run(ctx, s)
			read()
			if err != nil || exit.Status() != tt.status || !exit.Cancelled || exit.Killed != tt.killed {
				t.Errorf("%+v, %v", exit, err)
			}
			for _, pid := range pidsIn(t, note, 2) {
				eventually(t, "all that it started is gone", func() bool { return !alive(pid) })
			}
		})
	}
}

func TestManyRunsLeaveNothing(t *testing.T) {
	count := func() (goroutines, files, children int) {
		list, _ := os.ReadDir("/proc/self/fd")
		return runtime.NumGoroutine(), len(list), len(keep.Descendants(os.Getpid(), nil))
	}
	one := func(i int) {
		s := Spec{Args: []string{"sh", "-c", "echo hi; echo ho >&2"}, TTY: Mode(i % 3), Tap: func(Stream, []byte) {}}
		read := files(t, &s)
		if _, err := Run(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if out, errs := read(); strings.TrimSpace(out) != "hi" || errs != "ho\n" {
			t.Fatalf("%q %q", out, errs)
		}
		if i%5 == 0 {
			_, _ = Run(t.Context(), Spec{Args: []string{"/dev/null"}})
		}
	}
	one(0)
	g, f, c := count()
	for i := range 50 {
		one(i)
	}
	eventually(t, "as many goroutines, files and children as before", func() bool {
		g2, f2, c2 := count()
		return g2 <= g && f2 <= f && c2 <= c
	})
}

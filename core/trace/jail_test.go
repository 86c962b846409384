package trace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	ChildMain()
	os.Exit(m.Run())
}

// inJail runs a shell script in a jail. Where this machine's kernel gives none, it must refuse and say so, and
// nothing of the script may run.
func inJail(t *testing.T, dir, script string, deadline time.Duration) (*Trace, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	c := cell{Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin", "HOME=" + dir}, Dir: dir,
		Disk: 8 << 20,
		Data: 1 << 30, Seconds: 20, Input: []byte("asked\n"), Files: map[string][]byte{"recipe/x.yml": []byte("batch: 4\n")}}
	out, err := c.run(ctx)
	switch {
	case err == nil, ctx.Err() != nil, errors.Is(err, bufio.ErrTooLong):
		return out, true
	case strings.Contains(err.Error(), "namespaces") || strings.Contains(err.Error(), "no jail"):
		t.Logf("refused: %v", err)
		return nil, false
	}
	t.Fatal(err)
	return nil, false
}

func TestJailLeavesNoMark(t *testing.T) {
	home := t.TempDir()
	data := filepath.Join(home, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(data, "images.bin")
	if err := os.WriteFile(kept, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	beside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	called := make(chan bool, 1)
	go func() {
		if c, err := beside.Accept(); err == nil {
			c.Close()
			called <- true
		}
	}()
	port := beside.Addr().(*net.TCPAddr).Port
	out, ok := inJail(t, home, fmt.Sprintf(`
read asked; echo "input $asked"
cat %[1]s; echo
echo spoiled > %[1]s && cat %[1]s
echo new > made; ls made
rm -rf data && ls data 2>/dev/null
cat /dev/launch/recipe/x.yml; echo 8 > /dev/launch/recipe/x.yml
ls /dev/nvidia* 2>/dev/null
[ "$(ls /proc | grep -c '^[0-9]')" -lt 8 ] && echo alone
kill -9 %[2]d 2>/dev/null && echo killed
(python3 -c 'import socket; socket.create_connection(("127.0.0.1", %[3]d), 2)' && echo connected) 2>/dev/null
(setsid sleep 1000 >/dev/null 2>&1 &)
(mount -t tmpfs none /mnt && echo mounted) 2>/dev/null
head -c 100000000 /dev/zero > big 2>/dev/null || echo full
echo 'M step' >&3; echo 'E {"why": "done", "steps": 1}' >&3`, kept, os.Getpid(), port), time.Minute)
	if b, err := os.ReadFile(kept); err != nil || string(b) != "mine" {
		t.Errorf("the data are %q (%v)", b, err)
	}
	if all, _ := filepath.Glob(filepath.Join(home, "*")); len(all) != 1 {
		t.Errorf("the folder holds %v", all)
	}
	select {
	case <-called:
		t.Error("it has connected to a server of this machine")
	default:
	}
	if !ok {
		return
	}
	want := "input asked\nmine\nspoiled\nmade\nbatch: 4\nalone\nfull\n"
	if out.Output != want {
		t.Errorf("the script printed\n%s\nand not\n%s", out.Output, want)
	}
	if out.End.Why != "done" || out.steps() != 1 {
		t.Errorf("it ended with %+v after %d steps", out.End, out.steps())
	}
}

func TestJailEndsWithWhatItStarted(t *testing.T) {
	home := t.TempDir()
	begun := time.Now()
	out, ok := inJail(t, home, `(trap '' TERM INT HUP; setsid sh -c 'exec -a launch-trace-test sleep 300' &)
while :; do :; done`, 2*time.Second)
	if !ok {
		return
	}
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	if !out.End.Failed || out.End.Why != "the time was over" {
		t.Errorf("it ended with %+v", out.End)
	}
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		if b, _ := os.ReadFile(path); strings.HasPrefix(string(b), "launch-trace-test\x00") {
			t.Errorf("%s goes on", path)
		}
	}
}

func TestJailLimitsTime(t *testing.T) {
	out, ok := inJail(t, t.TempDir(), `ulimit -S -t 1; while :; do :; done`, 2*time.Minute)
	if ok && !strings.Contains(out.End.Why, "of CPU time were over") {
		t.Errorf("it ended with %+v", out.End)
	}
}

func TestJailBoundsOutput(t *testing.T) {
	out, ok := inJail(t, t.TempDir(), `head -c 50000000 /dev/zero | tr '\0' x; echo
echo last; echo 'E {"why": "done"}' >&3`, time.Minute)
	if ok && (len(out.Output) > mostText || !strings.HasSuffix(out.Output, "last\n")) {
		t.Errorf("%d bytes are kept of what it printed", len(out.Output))
	}
	out, ok = inJail(t, t.TempDir(), `head -c 5000000 /dev/zero | tr '\0' x >&3`, time.Minute)
	if ok && (out.End.Why != "" || len(out.Events) > 0) {
		t.Errorf("%+v was read of noise", out.End)
	}
}

// Root is one user, and most users are not root: the jail needs other rights of them.
func TestJailOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		return // the other tests have been of such a user
	}
	dir, err := os.MkdirTemp("", "launch-trace-user-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	program := filepath.Join(dir, "tests")
	err = errors.Join(os.WriteFile(program, self, 0o755), os.Chmod(dir, 0o755), os.Chown(dir, nobody, nobody))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run", "^TestJail(LeavesNoMark|LimitsTime)$", "-test.v")
	cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/bin:/bin", "TMPDIR=" + dir, "HOME=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS: TestJailLeavesNoMark") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A server's socket in a folder is no way out: in the layer it is another file.
func TestJailReachesNoSocket(t *testing.T) {
	dir := t.TempDir()
	server, err := net.Listen("unix", filepath.Join(dir, "server"))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	called := make(chan bool, 1)
	go func() {
		if c, err := server.Accept(); err == nil {
			c.Close()
			called <- true
		}
	}()
	out, ok := inJail(t, dir, `python3 -c '
import socket
s = socket.socket(socket.AF_UNIX)
try:
    s.connect("server")
    print("connected")
except ConnectionRefusedError:
    print("refused")'`, time.Minute)
	if ok && out.Output != "refused\n" {
		t.Errorf("the script printed %q", out.Output)
	}
	select {
	case <-called:
		t.Error("it has connected to a server of this machine")
	default:
	}
}

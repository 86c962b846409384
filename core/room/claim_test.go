package room

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/unit"
)

const (
	gib     = unit.GiB
	another = 64177 // an account without a name
)

func here(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	before := bases
	bases = func() []string { return append([]string{dir}, before()[1:]...) }
	t.Cleanup(func() { bases = before })
	return dir
}

func take(t *testing.T, want unit.Bytes) *Claim {
	t.Helper()
	c, err := TakeClaim(HostMemory, want, 24*gib, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Release)
	return c
}

// What is claimed is not given away twice, and can be had again when it is released.
func TestTake(t *testing.T) {
	here(t)
	first := take(t, 20*gib)
	_, err := TakeClaim(HostMemory, 20*gib, 24*gib, false)
	var taken *Taken
	if !errors.As(err, &taken) || len(taken.By) != 1 || taken.By[0].PID != os.Getpid() || !strings.Contains(err.Error(), "hold 20.0 GiB of 24.0 GiB of host memory") {
		t.Fatalf("the second: %v", err)
	}
	if _, err := TakeClaim(Resource{Kind: "card", ID: "GPU-1"}, 20*gib, 24*gib, false); err != nil {
		t.Errorf("of another resource: %v", err)
	}
	small := take(t, 4*gib)
	if held := Claims(); len(held) != 3 {
		t.Errorf("listed are %v", held)
	}
	small.Release()
	first.Release()
	first.Release()
	take(t, 24*gib)
	if c, err := TakeClaim(HostMemory, 24*gib, 24*gib, true); err != nil {
		t.Errorf("anyway: %v", err)
	} else {
		c.Release()
	}
}

// Batch systems give each job a TMPDIR of its own: its claims are for every other to see.
func TestClaimsAreOfTheMachine(t *testing.T) {
	before, err := place()
	if err != nil {
		t.Skip(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	if after, err := place(); err != nil || after != before {
		t.Errorf("with another TMPDIR they lie in %s, not %s: %v", after, before, err)
	}
}

// Two that begin at the same time do not both get it.
func TestTakeTogether(t *testing.T) {
	here(t)
	var mu sync.Mutex
	var wait sync.WaitGroup
	got := 0
	for range 8 {
		wait.Go(func() {
			if _, err := TakeClaim(HostMemory, 10*gib, 24*gib, false); err == nil {
				mu.Lock()
				got++
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if got != 2 {
		t.Errorf("%d of 8 have 10 GiB of 24 GiB", got)
	}
}

// TestMain is also a launch that holds a claim until it is killed.
func TestMain(m *testing.M) {
	if want := os.Getenv("CLAIM_TEST"); want != "" {
		bases = func() []string { return []string{os.Getenv("CLAIM_IN")} }
		b, _ := strconv.ParseInt(want, 10, 64)
		if _, err := TakeClaim(HostMemory, unit.Bytes(b), 24*gib, false); err != nil {
			os.Stdout.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Stdout.WriteString("held\n")
		time.Sleep(time.Minute)
	}
	os.Exit(m.Run())
}

// A claim dies with its launch.
func TestClaimDies(t *testing.T) {
	dir := here(t)
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "CLAIM_IN="+dir, "CLAIM_TEST="+strconv.FormatInt(int64(20*gib), 10))
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 5)
	out.Read(line)
	if _, err := TakeClaim(HostMemory, 10*gib, 24*gib, false); err == nil {
		t.Error("while it lives: it was given away twice")
	}
	c.Process.Kill()
	c.Wait()
	take(t, 10*gib)
	if held := Claims(); len(held) != 1 {
		t.Errorf("after its death: %v", held)
	}
	dir, _ = place()
	if files, _ := filepath.Glob(filepath.Join(dir, "[0-9]*")); len(files) != 2 {
		t.Errorf("what it left is still there: %v", files)
	}
}

// Claims of another account are listed and refuse nothing, whatever they say; root's refuse.
func TestAnothers(t *testing.T) {
	tmp := here(t)
	plant := func(uid int, h Held) {
		t.Helper()
		dir := filepath.Join(tmp, prefix+strconv.Itoa(uid))
		os.Mkdir(dir, 0o755)
		text, _ := json.Marshal(h)
		path := filepath.Join(dir, "1-x.json")
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Chown(path, uid, uid), os.Chown(dir, uid, uid)); err != nil {
			t.Skip("files of another account need root")
		}
	}
	sleep := exec.Command("sleep", "60")
	sleep.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: another, Gid: another}}
	if err := sleep.Start(); err != nil {
		t.Skipf("processes of another account need root: %v", err)
	}
	defer sleep.Wait()
	defer sleep.Process.Kill()
	plant(another, Held{Want: Want{Resource: HostMemory, Bytes: 400 << 40}, PID: sleep.Process.Pid, UID: 0})
	take(t, 20*gib)
	theirs := 0
	for _, h := range Claims() {
		if h.Bytes != 400<<40 {
			continue
		}
		if theirs++; h.UID != another || h.Refuses() {
			t.Errorf("another account's claim passes for %d's", h.UID)
		}
	}
	if theirs != 1 {
		t.Errorf("%d claims of the other account are listed", theirs)
	}
	if Claimable(HostMemory, 20*gib, 24*gib, []Held{{Want: Want{Resource: HostMemory, Bytes: 400 << 40},
		UID: another}}) != nil {
		t.Error("another account's claim refuses")
	}
	if Claimable(HostMemory, 20*gib, 24*gib, []Held{{Want: Want{Resource: HostMemory, Bytes: 20 * gib}, UID: 0}}) == nil {
		t.Error("root's claim does not refuse")
	}
}

// A folder of claims that another account has made is not used; and what lies in a folder is bounded.
func TestSquatted(t *testing.T) {
	tmp := here(t)
	squat := filepath.Join(tmp, prefix+strconv.Itoa(os.Geteuid()))
	os.Mkdir(squat, 0o777)
	os.Chmod(squat, 0o777)
	dir, err := own()
	if err == nil && strings.HasPrefix(dir, tmp) {
		t.Errorf("it is used: %s", dir)
	}
	os.Remove(dir)
	os.Chmod(squat, 0o755)
	os.WriteFile(filepath.Join(squat, "1-a.json"), []byte(strings.Repeat("x", mostText+1)), 0o644)
	os.Symlink("/etc/passwd", filepath.Join(squat, "1-b.json"))
	os.WriteFile(filepath.Join(squat, "1-c.json"), []byte(`{"kind":"host memory","bytes":-5,"pid":1}`), 0o644)
	if held := Claims(); len(held) != 0 {
		t.Errorf("listed are %v", held)
	}
	take(t, 20*gib)
}

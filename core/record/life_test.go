package record

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/run"
)

func begun(t *testing.T) (Store, *Record) {
	t.Helper()
	s := Store{Dir: filepath.Join(t.TempDir(), "runs")}
	rec, err := s.Create(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.Write(Event{Kind: Started, Run: aRun()}); err != nil {
		t.Fatal(err)
	}
	return s, rec
}

func life(t *testing.T, s Store, id string) Life {
	t.Helper()
	h, err := s.Read(id)
	if err != nil {
		t.Fatal(err)
	}
	return h.Life()
}

// A run is carried for as long as its record is open, and by one launch at a time; its process' number proves nothing.
func TestLife(t *testing.T) {
	s, rec := begun(t)
	if l := life(t, s, rec.ID); !l.Alive || l.Host != "" || l.PID != os.Getpid() {
		t.Errorf("while it is carried: %+v", l)
	}
	if _, err := s.Append(rec.ID); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "process") {
		t.Errorf("a second launch: %v", err)
	}
	rec.Close() // as the kernel does when launch dies: this process is still there, and carries nothing
	if l := life(t, s, rec.ID); l.Alive {
		t.Errorf("after its launch has died: %+v", l)
	}
	again, err := s.Append(rec.ID)
	if err != nil {
		t.Fatalf("resumed after that: %v", err)
	}
	if _, err := s.Append(rec.ID); !errors.Is(err, ErrBusy) {
		t.Errorf("resumed by two: %v", err)
	}
	again.Close()
}

// What the program or a plugin inherits does not keep a run alive.
func TestLifeIsNotInherited(t *testing.T) {
	s, rec := begun(t)
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer sleep.Wait()
	defer sleep.Process.Kill()
	rec.Close()
	if l := life(t, s, rec.ID); l.Alive {
		t.Errorf("a child of its launch keeps it alive: %+v", l)
	}
}

// On a machine that the lock does not reach the last sign counts; on the same one, in another container, the lock.
func TestLifeElsewhere(t *testing.T) {
	s, rec := begun(t)
	rec.Close()
	h, err := s.Read(rec.ID)
	if err != nil {
		t.Fatal(err)
	}
	mine, now := *h.Events[0].Carrier, time.Now()
	if mine.Host == "" || mine.Boot == "" {
		t.Fatalf("the carrier is %+v", mine)
	}
	container := mine
	container.Host, container.Namespace = "c0ffee", "pid:[1]"
	if l := h.lifeOn(container, now); l.Alive {
		t.Errorf("in another container on this machine: %+v", l)
	}
	if !ofOneMachine(h.Dir) {
		t.Skip("the temporary folder is on a file system of several machines")
	}
	defer func(was []int64) { oneMachine = was }(oneMachine)
	oneMachine = nil
	there := Carrier{Host: "gpu8", Boot: "another"}
	if l := h.lifeOn(there, now.Add(time.Minute)); !l.Alive || l.Host != mine.Host || l.Sign.IsZero() || !strings.Contains(l.String(), " on "+mine.Host+", last sign ") {
		t.Errorf("on another machine, a minute after its last sign: %+v", l)
	}
	if l := h.lifeOn(there, now.Add(time.Hour)); l.Alive {
		t.Errorf("on another machine, an hour after its last sign: %+v", l)
	}
}

// A record of before there were locks is carried if its process is, and is a launch.
func TestLifeWithoutLock(t *testing.T) {
	s, rec := begun(t)
	rec.Close()
	os.Remove(filepath.Join(rec.Dir, signFile))
	if l := life(t, s, rec.ID); !l.Alive {
		t.Error("its process is there")
	}
	path := filepath.Join(rec.Dir, events)
	b, _ := os.ReadFile(path)
	os.WriteFile(path, []byte(strings.ReplaceAll(string(b), `"pid":`, `"pid":1,"was":`)), 0o600)
	if l := life(t, s, rec.ID); l.Alive {
		t.Error("process 1 is no launch")
	}
}

// The experiment is locked whatever the state folder is, through a link, and where it is made or renamed only later.
func TestLockIsOfTheExperiment(t *testing.T) {
	machine(t)
	a, b := Store{Dir: filepath.Join(t.TempDir(), "runs")}, Store{Dir: filepath.Join(t.TempDir(), "runs")}
	w := t.TempDir()
	os.Symlink(w, w+"-link")
	unlock, err := a.Lock(w+"/experiments/x", "run 1")
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{w + "/experiments/x", w + "-link/experiments/x"} {
		if _, err := b.Lock(what, "run 2"); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "run 1 holds") {
			t.Errorf("%s, with another state folder: %v", what, err)
		}
	}
	if _, err := os.Stat(w + "/experiments"); err == nil {
		t.Error("something was made where the experiment will be")
	}
	os.MkdirAll(w+"/experiments", 0o755)
	if _, err := b.Lock(w+"-link/experiments/x", "run 2"); !errors.Is(err, ErrBusy) {
		t.Errorf("once the program has made a folder on the way: %v", err)
	}
	// With no folder in common, as in a container, the experiment's own lock counts.
	os.MkdirAll(w+"/experiments/x", 0o755)
	held := func() bool {
		f, err := os.Open(w + "/experiments/x")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), syscall.EWOULDBLOCK)
	}
	await := func(what string) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); !held(); {
			if time.Now().After(end) {
				t.Fatal(what)
			}
			time.Sleep(30 * time.Millisecond)
		}
	}
	await("the folder that the program made is never locked")
	machine(t)
	if _, err := b.Lock(w+"/experiments/x", "run 2"); !errors.Is(err, ErrBusy) {
		t.Errorf("with no folder in common: %v", err)
	}
	os.Rename(w+"/experiments/x", w+"/experiments/x_archived")
	os.Mkdir(w+"/experiments/x", 0o755)
	await("the folder that took the name is never locked")
	unlock()
	if again, err := b.Lock(w+"/experiments/x", "run 3"); err != nil {
		t.Errorf("after the first has ended: %v", err)
	} else {
		again()
	}
}

// A run belongs to a process on a machine: the number of a process occurs on every machine that shares the records.
func TestBegunBy(t *testing.T) {
	s := In(t.TempDir())
	began := time.Now()
	rec, err := s.Create(began)
	if err != nil {
		t.Fatal(err)
	}
	started := Event{Kind: Started, Run: &run.Run{Job: &job.Job{}}}
	if err := rec.Write(started); err != nil {
		t.Fatal(err)
	}
	rec.Close()
	elsewhere := Here()
	elsewhere.Boot = "another"
	for _, tt := range []struct {
		pid   int
		on    Carrier
		since time.Time
		want  string
	}{
		{os.Getpid(), Here(), began, rec.ID}, {os.Getpid() + 1, Here(), began, ""}, {os.Getpid(), elsewhere, began, ""},
		{os.Getpid(), Here(), began.Add(time.Hour), ""},
	} {
		if got := s.BegunBy(tt.pid, tt.on, tt.since); got != tt.want {
			t.Errorf("process %d on %+v since %v: %q, want %q", tt.pid, tt.on, tt.since, got, tt.want)
		}
	}
}

// What follows a folder may look once more while the lock is released.
func TestReleasedLockStaysSo(t *testing.T) {
	l := &folderLock{path: t.TempDir()}
	if err := l.take(); err != nil || l.held == nil {
		t.Fatalf("it is not locked: %v", err)
	}
	l.release()
	l.is = nil
	if l.take(); l.held != nil {
		t.Error("it is locked again after its release")
	}
}

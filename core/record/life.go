package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/private"
)

// A lock shows whether a run is still running: the kernel releases it when the launch that holds it ends. A process
// number would mean another process in another container. Where a lock does not reach (another machine, a file system
// without locks), the last sign counts: the time of the lock's file, which launch renews while the run lasts.

// A Carrier identifies the launch that carries a run.
type Carrier struct {
	Host string `json:"host"`
	// Boot is the kernel's ID of its boot (/proc/sys/kernel/random/boot_id): containers on one machine share it, and
	// two machines never do.
	Boot string `json:"boot,omitempty"`
	// Namespace is the PID namespace of the launch.
	Namespace string `json:"pid_namespace,omitempty"`
}

// Here identifies this process's machine.
func Here() Carrier { return *carrier() }

// BegunBy returns the run that a process on that machine has begun since then, if a plugin recognised its command; else
// "". A number of a process alone proves nothing where several machines share the records.
func (s Store) BegunBy(pid int, on Carrier, since time.Time) string {
	ids, err := s.List()
	if err != nil {
		return ""
	}
	first := since.Add(-time.Second).UTC().Format("20060102-150405.000") // as the names of runs begin
	for _, id := range slices.Backward(ids) {
		if id < first {
			continue
		}
		h, err := s.Read(id)
		if err != nil || h.Run() == nil {
			continue
		}
		if by := h.Events[0]; by.PID == pid && by.Carrier != nil && *by.Carrier == on {
			return id
		}
	}
	return ""
}

// OfRow returns the run of a start of a sweep's row, by its mark, among those that have begun since then; nil if there
// is none. A run that an earlier start of the row began is found by its name.
func (s Store) OfRow(mark, resumed string, since time.Time) *History {
	if mark == "" {
		return nil
	}
	has := func(id string) *History {
		h, err := s.Read(id)
		if err == nil && slices.ContainsFunc(h.Events, func(e Event) bool { return e.Row == mark }) {
			return h
		}
		return nil
	}
	if resumed != "" {
		if h := has(resumed); h != nil {
			return h
		}
	}
	ids, err := s.List()
	if err != nil {
		return nil
	}
	first := since.Add(-time.Minute).UTC().Format("20060102-150405.000") // as the names of runs begin
	for _, id := range slices.Backward(ids) {
		if id < first {
			break
		}
		if h := has(id); h != nil {
			return h
		}
	}
	return nil
}

var carrier = sync.OnceValue(func() *Carrier {
	c := &Carrier{}
	c.Host, _ = os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	c.Boot = strings.TrimSpace(string(boot))
	c.Namespace, _ = os.Readlink("/proc/self/ns/pid")
	return c
})

// signFile is the lock of a run, in its folder. Its time is the run's last sign.
const signFile = "lock"

// How often launch renews the last sign, and the age from which a sign means that its launch is gone.
const (
	signEvery = 30 * time.Second
	signLost  = 3 * time.Minute
)

// A sign is a held lock.
type sign struct {
	file *os.File
	once sync.Once
	done chan struct{}
}

// takeSign locks a run for this process. On a file system without locks it succeeds without one.
func takeSign(dir string) (*sign, error) {
	f, err := private.Open(filepath.Join(dir, signFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the run's lock: %w", err)
	}
	if err := flock(f, unix.LOCK_EX); errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, fmt.Errorf("%w: it took the run just now", ErrBusy)
	}
	s := &sign{file: f, done: make(chan struct{})}
	now := time.Now()
	os.Chtimes(f.Name(), now, now)
	go s.renew()
	return s, nil
}

func (s *sign) renew() {
	tick := time.NewTicker(signEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case now := <-tick.C:
			os.Chtimes(s.file.Name(), now, now)
		}
	}
}

func (s *sign) release() {
	s.once.Do(func() {
		close(s.done)
		s.file.Close()
	})
}

// A Life tells whether a launch carries a run now, and which one.
type Life struct {
	Alive bool
	PID   int       // of the launch that wrote last, in its own namespace
	Host  string    // the machine, if it is not this one; else ""
	Sign  time.Time // the time of its last sign; zero if unknown
}

// Untake restores the run's last sign, for a launch that has taken a run and then did nothing with it.
func (r *Record) Untake(was Life) {
	if !was.Sign.IsZero() {
		os.Chtimes(filepath.Join(r.Dir, signFile), was.Sign, was.Sign)
	}
}

// Asleep reports whether certainly no launch carries a run, by the run's lock alone: what Life reads costs more. sign
// is the time of the run's last sign. It changes when a launch takes the run, so that a run which is asleep stays so as
// long as its sign is the same. A run without a lock, of an early launch, is asleep.
func (s Store) Asleep(id string, now time.Time) (sign time.Time, asleep bool) {
	path := filepath.Join(s.Dir, id, signFile)
	info, err := os.Lstat(path)
	if err != nil {
		return time.Time{}, true
	}
	if sign = info.ModTime(); now.Sub(sign) < signLost {
		return sign, false
	}
	f, err := private.Open(path, os.O_RDONLY, 0) // a launch that was suspended gives no sign, and holds its lock
	if err != nil {
		return sign, true
	}
	defer f.Close()
	return sign, !errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// Sign returns the time of a run's last sign; zero if it has none.
func (s Store) Sign(id string) time.Time {
	info, err := os.Lstat(filepath.Join(s.Dir, id, signFile))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// Outline returns a history that has only what Life reads, to keep for a long time.
func (h *History) Outline() *History {
	out := &History{ID: h.ID, Dir: h.Dir, Torn: h.Torn, Events: make([]Event, 0, len(h.Events))}
	for _, e := range h.Events {
		out.Events = append(out.Events, Event{Time: e.Time, Kind: e.Kind, PID: e.PID, Carrier: e.Carrier})
	}
	return out
}

// Changed identifies the state of a run's record: it changes when an event is written. It is "" if there is no record.
func (s Store) Changed(id string) string {
	info, err := os.Lstat(filepath.Join(s.Dir, id, events))
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.Size(), info.ModTime().UnixNano())
}

// Over returns the latest time at which a run that nobody carries can have ended, by its last sign; zero if unknown.
func (l Life) Over() time.Time {
	if l.Sign.IsZero() {
		return l.Sign
	}
	return l.Sign.Add(signEvery)
}

// String names the launch that carries the run.
func (l Life) String() string {
	s := fmt.Sprintf("process %d", l.PID)
	if l.Host != "" {
		s += " on " + l.Host
		if !l.Sign.IsZero() {
			s += fmt.Sprintf(", last sign %v ago", max(0, time.Since(l.Sign)).Round(time.Second))
		}
	}
	return s
}

// Life finds out whether a launch carries the run now.
func (h *History) Life() Life { return h.lifeOn(*carrier(), time.Now()) }

func (h *History) lifeOn(here Carrier, now time.Time) Life {
	l := Life{PID: h.PID()}
	var by *Carrier
	for _, e := range slices.Backward(h.Events) {
		if e.Carrier != nil {
			by = e.Carrier
			break
		}
	}
	held, known := false, false
	f, err := private.Open(filepath.Join(h.Dir, signFile), os.O_RDONLY, 0)
	if err == nil {
		defer f.Close()
		if info, err := f.Stat(); err == nil {
			l.Sign = info.ModTime()
		}
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
		case err == nil:
			known = true
		case errors.Is(err, unix.EWOULDBLOCK):
			held, known = true, true
		}
	}
	switch away := by != nil && by.Boot != here.Boot; {
	case held:
		if l.Alive = true; away {
			l.Host = by.Host
		}
	case errors.Is(err, fs.ErrNotExist) || by == nil && !known: // recorded by a launch that took no lock
		l.Alive = samePrograms(l.PID)
	case known && (!away || ofOneMachine(h.Dir)):
	case !away && by.Namespace == here.Namespace:
		l.Alive = Running(l.PID)
	default: // on another machine, or in another container where there are no locks
		if l.Alive = now.Sub(l.Sign) < signLost; l.Alive {
			l.Host = by.Host
		}
	}
	return l
}

// samePrograms reports whether a process runs the program that this one does.
func samePrograms(pid int) bool {
	mine, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		return Running(pid)
	}
	its, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && string(its) == string(mine) && Running(pid)
}

// Running reports whether a process with this number runs in this namespace. A zombie, whose parent has not waited for
// it (in a notebook, in a container without an init), does not run.
func Running(pid int) bool {
	if pid <= 0 {
		return false
	}
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		_, state, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
		return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
	}
	err := unix.Kill(pid, 0)
	return err == nil || errors.Is(err, unix.EPERM)
}

// oneMachine lists file systems that only one kernel can have open (statfs(2)): if nobody holds a lock on this machine,
// nobody holds it.
var oneMachine = []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, 0x2fc12fc1} // the last is ZFS

func ofOneMachine(dir string) bool {
	var s unix.Statfs_t
	return unix.Statfs(dir, &s) == nil && slices.Contains(oneMachine, int64(s.Type))
}

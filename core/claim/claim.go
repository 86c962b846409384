// Package claim keeps launches of one machine from promising the same memory twice.
//
// A claim is memory that a run holds for itself. It is a locked file of this user's in a folder among the temporary
// files. The kernel releases the lock when the launch that holds it ends. A second file beside it has the amount and
// the process, for every account to read.
//
// Only claims of this account and of root can refuse a run: an account that claims 400 TiB must not stop the trainings
// of others. Claims of other accounts are listed, and at most cause a warning. launch takes only the numbers from them.
package claim

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/unit"
)

// A Resource is something that can be claimed: host memory or, later, a card by its UUID.
type Resource struct {
	Kind string `json:"kind"`
	ID   string `json:"id,omitempty"`
}

// Host is this machine's host memory.
var Host = Resource{Kind: "host memory"}

// A Held is a claim in the list of claims.
type Held struct {
	Resource
	Bytes unit.Bytes `json:"bytes"`
	PID   int        `json:"pid"`
	// Start distinguishes the process from a later one with its number: the kernel's boot ID, and the process's start
	// time.
	Start string    `json:"start"`
	Since time.Time `json:"since"`
	UID   int       `json:"uid"` // its account: the owner of the file
}

// Taken is the error of [Take] if others hold too much.
type Taken struct {
	Resource    Resource
	Want, Total unit.Bytes
	By          []Held
}

func (t *Taken) Error() string {
	sum, who := unit.Bytes(0), []string{}
	for _, h := range t.By {
		sum += h.Bytes
		who = append(who, fmt.Sprintf("process %d: %v since %s", h.PID, h.Bytes, h.Since.Local().Format("Jan 2 15:04")))
	}
	return fmt.Sprintf("other launches hold %v of %v of %s, and this one needs %v (%s)", sum, t.Total, t.Resource.Kind,
		t.Want, strings.Join(who, "; "))
}

// Room returns nil if that much of a resource can be claimed in addition to the claims held, or the reason why not.
func Room(r Resource, want, total unit.Bytes, held []Held) *Taken {
	sum, by := want, []Held{}
	for _, h := range held {
		if h.Resource == r && h.Refuses() {
			sum += h.Bytes
			by = append(by, h)
		}
	}
	if sum <= total || len(by) == 0 {
		return nil
	}
	return &Taken{r, want, total, by}
}

// Refuses reports whether a claim can refuse a claim of this account.
func (h Held) Refuses() bool { return h.UID == os.Geteuid() || h.UID == 0 }

// A Claim is held until it is released, or this process ends.
type Claim struct {
	lock *os.File
	path string // of the file that describes it
	once sync.Once
	done chan struct{}
}

// Take claims want bytes of a resource that has total bytes. The error is a *[Taken] if others hold too much; any other
// error means that the claim could not be written. With anyway it claims the memory in any case.
func Take(r Resource, want, total unit.Bytes, anyway bool) (*Claim, error) {
	dir, err := own()
	if err != nil {
		return nil, err
	}
	unlock, err := alone(dir) // two launches must not check at the same time and then both claim
	if err != nil {
		return nil, err
	}
	defer unlock()
	tidy(dir)
	if taken := Room(r, want, total, List()); taken != nil && !anyway {
		return nil, taken
	}
	var salt [4]byte
	rand.Read(salt[:])
	name := filepath.Join(dir, fmt.Sprintf("%d-%x", os.Getpid(), salt))
	c := &Claim{path: name + ".json", done: make(chan struct{})}
	if c.lock, err = private.Open(name+".lock", os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err != nil {
		return nil, fmt.Errorf("claiming %s: %w", r.Kind, err)
	}
	if err := unix.Flock(int(c.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		c.remove()
		return nil, fmt.Errorf("claiming %s: %w", r.Kind, err)
	}
	text, err := json.Marshal(Held{Resource: r, Bytes: want, PID: os.Getpid(), Start: start(os.Getpid()), Since: time.Now(), UID: os.Geteuid()})
	if err == nil {
		err = write(c.path, text)
	}
	if err != nil {
		c.remove()
		return nil, fmt.Errorf("claiming %s: %w", r.Kind, err)
	}
	go c.renew()
	return c, nil
}

// write publishes a claim. A reader that comes meanwhile does not see it; a launch that wants to claim waits. If the
// machine crashes, the file may be lost, but then the claim has ended too.
func write(path string, text []byte) error {
	f, err := private.Open(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Chmod(0o644), f.Close()) // independent of the umask
}

// Release ends the claim. It does nothing if c is nil.
func (c *Claim) Release() {
	if c != nil {
		c.once.Do(func() {
			close(c.done)
			c.remove()
		})
	}
}

func (c *Claim) remove() {
	os.Remove(c.path)
	os.Remove(c.lock.Name())
	c.lock.Close()
}

// renew updates the time of the claim's files, so that a cleaner of old temporary files leaves them during a training
// of weeks.
func (c *Claim) renew() {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		select {
		case <-c.done:
			return
		case now := <-tick.C:
			os.Chtimes(c.path, now, now)
			os.Chtimes(c.lock.Name(), now, now)
		}
	}
}

const prefix = "launch-claims-"

// bases lists the folders in which a folder of claims may be: first the temporary files that all launches of this
// machine see, then, if another account has taken the name there, the next.
var bases = private.Shared

// place returns this account's folder of claims, which may not exist yet.
func place() (string, error) {
	var first error
	for _, base := range bases() {
		dir := filepath.Join(base, prefix+strconv.Itoa(os.Geteuid()))
		err := private.Check(dir)
		if err == nil {
			_, err = os.Stat(base)
		}
		if _, there := os.Lstat(dir); err == nil && there != nil { // in a container the first base may be read-only
			err = unix.Access(base, unix.W_OK|unix.X_OK)
		}
		if err == nil {
			return dir, nil
		}
		if first == nil {
			first = err
		}
	}
	return "", fmt.Errorf("finding a folder for claims: %w", first)
}

// own makes this account's folder of claims, which others may read.
func own() (string, error) {
	dir, err := place()
	if err != nil {
		return "", err
	}
	if err = os.Mkdir(dir, 0o755); err == nil {
		err = os.Chmod(dir, 0o755) // independent of the umask
	} else if errors.Is(err, os.ErrExist) {
		err = nil
	}
	if err == nil {
		err = private.Check(dir) // another account may have been faster
	}
	if err != nil {
		return "", fmt.Errorf("making the folder of claims: %w", err)
	}
	return dir, nil
}

// alone waits until no other launch of this account uses the claims. Its lock is private to this account, so that no
// other account can hold it.
func alone(dir string) (unlock func(), err error) {
	f, err := private.Open(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the claims: %w", err)
	}
	for range 200 {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	f.Close()
	return nil, fmt.Errorf("locking the claims: %w", err)
}

// tidy removes this account's claims whose launch has ended.
func tidy(dir string) {
	locks, _ := filepath.Glob(filepath.Join(dir, "*.lock"))
	for _, path := range locks {
		if filepath.Base(path) != ".lock" && !locked(path) {
			os.Remove(strings.TrimSuffix(path, ".lock") + ".json")
			os.Remove(path)
		}
	}
}

func locked(path string) bool {
	f, err := private.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// Bounds of what is read from other accounts.
const (
	mostFolders = 100
	mostFiles   = 200
	mostText    = 4 << 10
	mostBytes   = 1 << 50
)

// List returns the claims that are held on this machine, those of other accounts included.
func List() (held []Held) {
	mine, _ := place()
	if mine != "" {
		held = in(mine)
	}
	for _, base := range bases() {
		dirs, _ := filepath.Glob(filepath.Join(base, prefix+"*"))
		for _, dir := range dirs[:min(len(dirs), mostFolders)] {
			if filepath.Base(dir) != prefix+strconv.Itoa(os.Geteuid()) {
				held = append(held, in(dir)...)
			}
		}
	}
	return held
}

// in lists the claims in one folder, of any account.
func in(dir string) (held []Held) {
	d, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	defer d.Close()
	info, err := d.Stat()
	if err != nil || filepath.Base(dir) != prefix+strconv.Itoa(private.Owner(info)) {
		return nil
	}
	uid := private.Owner(info)
	names, _ := d.Readdirnames(2 * mostFiles)
	for _, name := range names {
		if stem, ok := strings.CutSuffix(name, ".json"); ok {
			if h, ok := read(d, name, uid); ok && alive(h, filepath.Join(dir, stem+".lock")) {
				held = append(held, h)
			}
		}
	}
	slices.SortFunc(held, func(a, b Held) int { return a.Since.Compare(b.Since) })
	return held
}

// read reads one claim, relative to its folder.
func read(dir *os.File, name string, uid int) (h Held, ok bool) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return h, false
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || private.Owner(info) != uid || info.Size() > mostText {
		return h, false
	}
	text, err := io.ReadAll(io.LimitReader(f, mostText))
	if err != nil || json.Unmarshal(text, &h) != nil || h.Bytes <= 0 || h.Bytes > mostBytes || h.PID <= 0 {
		return h, false
	}
	if h.UID = uid; uid != os.Geteuid() && uid != 0 { // no text of another account is shown
		h.Resource = Resource{Kind: known(h.Kind)}
		h.Start = ""
	}
	return h, true
}

func known(kind string) string {
	if kind == Host.Kind {
		return kind
	}
	return "another resource"
}

// alive reports whether a claim is still held. For this account the lock decides. For other accounts, whose locks this
// process cannot open, the process decides.
func alive(h Held, lock string) bool {
	if h.UID == os.Geteuid() {
		return locked(lock)
	}
	info, err := os.Stat("/proc/" + strconv.Itoa(h.PID))
	return err == nil && private.Owner(info) == h.UID && (h.Start == "" || h.Start == start(h.PID))
}

var boot = sync.OnceValue(func() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
})

// start identifies the start of a process: the boot ID, and field 22 of /proc/PID/stat (proc_pid_stat(5)).
func start(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	f := strings.Fields(rest)
	if len(f) < 20 {
		return ""
	}
	return boot() + ":" + f[19]
}

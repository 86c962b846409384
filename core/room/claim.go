package room

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/unit"
)

// Claims keep launches of one machine from promising the same memory twice.
//
// A claim is memory that a run holds for itself. It is a locked file of this user's in a folder among the temporary
// files. The kernel releases the lock when the launch that holds it ends. A second file beside it has the amount and
// the process, for every account to read.
//
// Only claims of this account and of root can refuse a run: an account that claims 400 TiB must not stop the trainings
// of others. Claims of other accounts are listed, and at most cause a warning. launch takes only the numbers from them.

// A Resource is something that can be claimed: host memory, or a card by its UUID.
type Resource struct {
	Kind string `json:"kind"`
	ID   string `json:"id,omitempty"`
}

// HostMemory is this machine's host memory.
var HostMemory = Resource{Kind: "host memory"}

// Card is a card, or a MIG slice, by its UUID.
func Card(uuid string) Resource { return Resource{Kind: "card", ID: uuid} }

// Of is what a launch claims of a device: of a card that shares the memory of the machine, host memory.
func Of(d gpu.Device) Resource {
	if d.Shared {
		return HostMemory
	}
	return Card(d.UUID)
}

// A Want is what a launch claims.
type Want struct {
	Resource
	Bytes unit.Bytes `json:"bytes"`
	// Open: the need is not known. Bytes are what was free, and the job may take all of it, or a part.
	Open bool `json:"open,omitempty"`
	// Settled: the job has been through all its phases, and Bytes are what was measured.
	Settled bool `json:"settled,omitempty"`
	// Waiting: the launch holds nothing. It waits for this much.
	Waiting bool `json:"waiting,omitempty"`
	// Among are the cards, by their UUIDs, that a waiting launch could take.
	Among []string `json:"among,omitempty"`
}

// A Held is a claim in the list of claims.
type Held struct {
	Want
	PID int `json:"pid"`
	// Start distinguishes the process from a later one with its number: the kernel's boot ID, and the process's start
	// time.
	Start string    `json:"start"`
	Since time.Time `json:"since"`
	UID   int       `json:"uid"` // its account: the owner of the file
}

// Taken is the error of [TakeClaim] if others hold too much.
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

// Claimable returns nil if that much of a resource can be claimed in addition to the claims held, or the reason why
// not.
func Claimable(r Resource, want, total unit.Bytes, held []Held) *Taken {
	sum, by := want, []Held{}
	for _, h := range held {
		if h.Resource == r && h.Refuses() && !h.Waiting {
			sum += h.Bytes
			by = append(by, h)
		}
	}
	if sum <= total || len(by) == 0 {
		return nil
	}
	return &Taken{r, want, total, by}
}

// Claimed is how much of a resource is claimed by launches whose claims can refuse one of this account.
func Claimed(r Resource, held []Held) (sum unit.Bytes) {
	for _, h := range held {
		if h.Resource == r && h.Refuses() && !h.Waiting {
			sum += h.Bytes
		}
	}
	return sum
}

// Refuses reports whether a claim can refuse a claim of this account.
func (h Held) Refuses() bool { return h.UID == os.Geteuid() || h.UID == 0 }

// Own reports whether it is a claim of this process.
func (h Held) Own() bool {
	return h.PID == os.Getpid() && h.UID == os.Geteuid() && h.Start == start(h.PID)
}

// A Claim is held until it is released, or this process ends.
type Claim struct {
	lock *os.File
	path string // of the file that describes it
	once sync.Once
	done chan struct{}

	mu   sync.Mutex
	held Held
}

// TakeClaim claims want bytes of a resource that has total bytes. The error is a *[Taken] if others hold too much;
// any other error means that the claim could not be written. With anyway it claims the memory in any case.
func TakeClaim(r Resource, want, total unit.Bytes, anyway bool) (*Claim, error) {
	made, err := DecideClaims(nil, func(held []Held) ([]Want, error) {
		if taken := Claimable(r, want, total, held); taken != nil && !anyway {
			return nil, taken
		}
		return []Want{{Resource: r, Bytes: want}}, nil
	})
	if err != nil {
		return nil, err
	}
	return made[0], nil
}

// DecideClaims passes the claims that are held to decide, and makes the claims that it returns, all or none. No
// other launch of this account claims anything meanwhile, so decide has to be quick. The claims in place of which
// these are made then end; without an error only. An error of decide's is returned as it is.
func DecideClaims(inPlaceOf []*Claim, decide func(held []Held) ([]Want, error)) (made []*Claim, err error) {
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
	wants, err := decide(Claims())
	if err != nil {
		return nil, err
	}
	for _, w := range wants {
		c, err := publish(dir, w)
		if err != nil {
			for _, c := range made {
				c.Release()
			}
			return nil, fmt.Errorf("claiming %s: %w", w.Kind, err)
		}
		made = append(made, c)
	}
	for _, c := range inPlaceOf {
		c.Release()
	}
	return made, nil
}

// publish locks and writes a new claim.
func publish(dir string, w Want) (*Claim, error) {
	var salt [4]byte
	rand.Read(salt[:])
	name := filepath.Join(dir, fmt.Sprintf("%d-%x", os.Getpid(), salt))
	c := &Claim{path: name + ".json", done: make(chan struct{}), held: Held{
		Want: w, PID: os.Getpid(), Start: start(os.Getpid()), Since: time.Now(), UID: os.Geteuid()}}
	var err error
	if c.lock, err = private.Open(name+".lock", os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if err = unix.Flock(int(c.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		err = c.write()
	}
	if err != nil {
		c.remove()
		return nil, err
	}
	go c.renew()
	return c, nil
}

// write publishes the claim in one step: a reader sees it as it was before, or as it is now. If the machine crashes,
// the file may be lost, but then the claim has ended too.
func (c *Claim) write() error {
	text, err := json.Marshal(c.held)
	if err != nil {
		return err
	}
	next := strings.TrimSuffix(c.path, ".json") + ".next"
	f, err := private.Open(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil { // independent of the umask
		return err
	}
	return os.Rename(next, c.path)
}

// Want is what the claim holds.
func (c *Claim) Want() Want {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held.Want
}

// Set changes the amount of a claim, without a look at the claims of others. It does nothing if the claim has ended.
func (c *Claim) Set(bytes unit.Bytes, open bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set(bytes, open, false)
}

// Settle makes the claim what was measured, after the job has been through all its phases.
func (c *Claim) Settle(bytes unit.Bytes) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set(bytes, false, true)
}

func (c *Claim) set(bytes unit.Bytes, open, settled bool) error {
	select {
	case <-c.done:
		return nil
	default:
	}
	if c.held.Bytes == bytes && c.held.Open == open && c.held.Settled == settled {
		return nil
	}
	c.held.Bytes, c.held.Open, c.held.Settled = bytes, open, settled
	return c.write()
}

// Release ends the claim. It does nothing if c is nil.
func (c *Claim) Release() {
	if c != nil {
		c.once.Do(func() {
			c.mu.Lock()
			defer c.mu.Unlock()
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

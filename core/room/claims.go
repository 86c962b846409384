package room

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/gpu/drivers"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/unit"
)

// Any is the device of a launch that takes whichever card has room.
const Any = "any"

// Chooses reports whether launch chooses the card, from all of this machine or from a list.
func (w Wish) Chooses() bool { return w.Device == Any || strings.Contains(w.Device, ",") }

// A Hold is what a launch has claimed of its cards. A nil Hold holds nothing.
type Hold struct {
	claims  []*Claim
	devices []gpu.Device
	all     []gpu.Device // of the machine
	reserve unit.Bytes
	chosen  bool
}

// ErrGone is the error of a plan that no longer fits: another launch has claimed the room since it was measured.
var ErrGone = errors.New("another launch has claimed the room meanwhile")

// Claim claims what a job will take of its cards, after it chose them if the user left that to launch. The room is then
// the one of those cards. Claim waits for room, if the user allows it. It returns a [*Refusal] if there is none. If
// nothing can be claimed, such as with --vram, the Hold is nil.
func (r *Room) Claim(ctx context.Context, env []string, n Need, p Patience) (*Hold, error) {
	cards, err := r.cards(env, &n)
	if err != nil || len(cards) == 0 {
		return nil, err
	}
	strict := r.wish.Chooses() || p.For != 0
	h := &Hold{all: r.all, reserve: r.wish.Reserve, chosen: r.wish.Chooses()}
	fresh := false
	decide := func(held []Held, t turn) ([]Want, error) {
		offers := r.offers(cards, held)
		if !strict {
			h.devices = cards
			r.fullest(offers)
			return wants(offers, []Share{n.On(r.Size())}), nil
		}
		c := Choose(keep(offers, held, t.since, time.Now()), n, t.patient)
		switch {
		case len(c.At) == 0 && !t.patient && !fresh, len(c.At) > 0 && !c.Fits && !t.patient && !fresh:
			return nil, errLook
		case len(c.At) == 0 && t.patient:
			return tickets(offers, c, n.Cards), nil
		case len(c.At) == 0:
			return nil, &Refusal{Why: none(offers, n.Cards)}
		}
		var at []Offer
		h.devices = nil
		for k, i := range c.At {
			if at = append(at, offers[i]); !c.Fits {
				c.Shares[k] = n.On(max(1, offers[i].Free))
			}
			h.devices = append(h.devices, offers[i].Device)
		}
		r.fullest(at)
		return wants(at, c.Shares), nil
	}
	look := func() error {
		fresh = true
		all, err := list(ctx)
		if err == nil {
			cards = again(cards, all)
		}
		return err
	}
	q := &queue{Patience: p, decide: decide, look: look, seen: func(all []gpu.Device) { cards = again(cards, all) }}
	h.claims, err = q.wait(ctx)
	if err != nil {
		return nil, err
	}
	if strict {
		r.wish.Device, r.Devices = Names(h.devices), len(h.devices)
	}
	return h, nil
}

// Prefer puts the room on the cards that [Room.Claim] would choose now, without a claim.
func (r *Room) Prefer(env []string, n Need) error {
	cards, err := r.cards(env, &n)
	if err != nil || len(cards) == 0 || !r.wish.Chooses() {
		return err
	}
	held := Claims()
	offers := keep(r.offers(cards, held), held, time.Now(), time.Now())
	if c := Choose(offers, n, false); len(c.At) > 0 {
		var at []Offer
		for _, i := range c.At {
			at = append(at, offers[i])
		}
		r.fullest(at)
	}
	return nil
}

// ErrCards is wrapped by the error of a job that uses more cards than there are.
var ErrCards = errors.New("too few cards")

// cards lists the cards that the job may use: those to choose from, or those that it will use all.
func (r *Room) cards(env []string, n *Need) ([]gpu.Device, error) {
	if r.wish.Chooses() {
		from := r.seen
		if n.Cards = max(1, n.Cards); n.Cards > 1 { // CUDA gives a program one slice, and no other card beside it
			from = slices.DeleteFunc(slices.Clone(from), func(d gpu.Device) bool { return d.Parent != "" })
		}
		if len(r.seen) > 0 && len(from) < n.Cards {
			return nil, fmt.Errorf("%w: the command uses %d, and there are %d to choose from", ErrCards, n.Cards, len(from))
		}
		return from, nil
	}
	if r.Device == nil || !r.Device.OnCard() || r.Device.Planned || r.Device.UUID == "" {
		return nil, nil
	}
	use := r.seen
	narrowed := gpu.Narrowed(env, r.all) != ""
	switch {
	case n.Cards > 0:
		use = use[:min(n.Cards, len(use))]
	case !narrowed && r.wish.Device == "auto": // a program that is told nothing uses the first
		use = use[:1]
	}
	n.Cards = len(use)
	return use, nil
}

// offers looks at cards in the light of the claims.
func (r *Room) offers(cards []gpu.Device, held []Held) (out []Offer) {
	l := ledger{held: held, descends: proc.Descends, visible: visible, blind: blind(), reserve: r.wish.Reserve}
	for _, d := range cards {
		out = append(out, l.offer(d))
	}
	return out
}

// fullest makes the room that of the card with the least.
func (r *Room) fullest(offers []Offer) {
	o := slices.MinFunc(offers, func(a, b Offer) int { return cmp.Compare(a.Free, b.Free) })
	r.Device, r.promised = &o.Device, max(0, o.Device.Free()-r.wish.Reserve-o.Free)
}

// wants are the claims of shares on cards; one share may be that of all of them.
func wants(offers []Offer, shares []Share) (out []Want) {
	for i, o := range offers {
		s := shares[min(i, len(shares)-1)]
		w := Want{Resource: Of(o.Device), Bytes: min(s.Bytes, max(1, o.Free)), Open: s.Bytes == 0}
		if w.Open {
			w.Bytes = max(1, o.Free)
		}
		if !s.Never && o.Device.UUID != "" {
			out = append(out, w)
		}
	}
	return out
}

// tickets are the entries of a launch that waits.
func tickets(offers []Offer, c Choice, cards int) (out []Want) {
	w := Want{Resource: Card(""), Bytes: max(1, c.Want.Bytes), Open: c.Want.Bytes == 0, Waiting: true}
	for _, i := range c.Among {
		if uuid := offers[i].Device.UUID; uuid != "" && len(w.Among) < 64 {
			w.Among = append(w.Among, uuid)
		}
	}
	for range cards {
		out = append(out, w)
	}
	return out
}

// none explains why no card was chosen for a job whose need is not known.
func none(offers []Offer, cards int) string {
	var each []string
	for _, o := range offers {
		text := fmt.Sprintf("card %d has %v free", o.Device.Index, o.Free)
		if o.Claims > 0 {
			text += fmt.Sprintf(" and %d %s", o.Claims, map[bool]string{true: "claim", false: "claims"}[o.Claims == 1])
		}
		each = append(each, text)
	}
	what := "no card is free"
	if cards > 1 {
		what = fmt.Sprintf("there are no %d free cards", cards)
	}
	return fmt.Sprintf("%s for a job whose memory is not known (%s); --wait waits for one", what, strings.Join(each, "; "))
}

// Devices are the cards that launch chose; nil if it did not have to.
func (h *Hold) Devices() []gpu.Device {
	if h == nil || !h.chosen {
		return nil
	}
	return h.devices
}

// Env returns the environment in which the program sees the cards that launch chose for it, and no other.
func (h *Hold) Env(env []string) []string {
	if h == nil || !h.chosen {
		return env
	}
	return gpu.Narrow(env, h.devices, h.all)
}

// Plan makes the claims those of a plan that needs this much; 0: that is not known. It returns [ErrGone] if the plan
// needs more than before, and another launch has claimed that meanwhile. Any other error means that the claims are as
// they were.
func (h *Hold) Plan(r *Room, need unit.Bytes) error {
	if h == nil || len(h.claims) == 0 {
		return nil
	}
	_, err := DecideClaims(nil, func(held []Held) ([]Want, error) {
		var next []unit.Bytes
		for _, o := range r.offers(again(h.devices, r.all), held) {
			want := min(need, max(1, o.Free))
			if need == 0 {
				want = max(1, o.Free)
			}
			if r.Size() > o.Free && need > o.Free {
				return nil, ErrGone
			}
			next = append(next, want)
		}
		for i, c := range h.claims {
			if err := c.Set(next[min(i, len(next)-1)], need == 0); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	return err
}

// Claimed is the most that is claimed of a card; 0 if nothing is, or if it is what was free.
func (h *Hold) Claimed() (most unit.Bytes) {
	if h == nil {
		return 0
	}
	for _, c := range h.claims {
		if w := c.Want(); !w.Open {
			most = max(most, w.Bytes)
		}
	}
	return most
}

// Uses corrects the claim on a card by the most that the job was seen to use: until the job has settled, which is after
// it was in all its phases, the claim is only raised.
func (h *Hold) Uses(uuid string, used unit.Bytes, settled bool) {
	if h == nil {
		return
	}
	for _, c := range h.claims {
		w := c.Want()
		switch { // at worst the claim stays as it is, and the driver counts what is used
		case w.Resource != HostMemory && w.ID != uuid:
		case settled && !w.Open:
			if want := used + used/grows + growsBy; !w.Settled || want > w.Bytes {
				_ = c.Settle(max(used, min(want, max(w.Bytes, used+used/grows))))
			}
		case used > w.Bytes:
			_ = c.Set(used, w.Open)
		}
	}
}

// What a job may still take after it has been in all its phases: fragments, and small change.
const (
	grows   = 33 // a part in so many
	growsBy = 256 * unit.MiB
)

// Shared reports whether another launch has claimed a part of one of the cards.
func (h *Hold) Shared() bool {
	if h == nil {
		return false
	}
	l := ledger{held: Claims(), descends: proc.Descends}
	return slices.ContainsFunc(h.devices, func(d gpu.Device) bool { return len(l.of(d)) > 0 })
}

// Release ends the claims.
func (h *Hold) Release() {
	if h != nil {
		for _, c := range h.claims {
			c.Release()
		}
	}
}

// Names lists devices as --device does.
func Names(devices []gpu.Device) string {
	var out []string
	for _, d := range devices {
		out = append(out, cmp.Or(d.UUID, strconv.Itoa(d.Index)))
	}
	return strings.Join(out, ",")
}

// again returns the cards as they are in a later list.
func again(cards, all []gpu.Device) []gpu.Device {
	cards = slices.Clone(cards)
	for i := range cards {
		for _, d := range all {
			if d.UUID == cards[i].UUID && d.Index == cards[i].Index {
				cards[i] = d
			}
		}
	}
	return cards
}

// list asks the driver.
func list(ctx context.Context) ([]gpu.Device, error) {
	patient, cancel := proc.WithPatience(ctx, DriverDeadline)
	defer cancel()
	return drivers.List(patient)
}

func visible(pid int) bool {
	_, err := os.Stat("/proc/" + strconv.Itoa(pid))
	return err == nil
}

// firstNamespace is the inode of the machine's own PID namespace (Linux, include/uapi/linux/nsfs.h, PID_NS_INIT_INO;
// include/linux/proc_ns.h, PROC_PID_INIT_INO).
const firstNamespace = "pid:[4026531836]"

// blind reports whether the driver may not list this machine's processes: in a container, or in WSL.
func blind() bool {
	ns, err := os.Readlink("/proc/self/ns/pid")
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return err != nil || ns != firstNamespace || strings.Contains(strings.ToLower(string(kernel)), "microsoft")
}

package room

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/unit"
)

// A Promise is the host memory that the limit allows all ranks of a job together: the limit counts for each process.
// Loader workers are not ranks. The user chose the limit with their memory included.
type Promise struct {
	Limit unit.Bytes // for each process; 0: no limit, and no promise
	Ranks int64
}

// PromiseOf returns what the limit promises to a command. j is nil if no plugin recognised it.
func PromiseOf(limit unit.Bytes, c job.Command, j *job.Job) Promise {
	p := Promise{Limit: limit, Ranks: 1}
	if j != nil {
		p.Ranks = max(p.Ranks, j.Batch.Ranks)
	}
	if prog, err := c.Prog(); err == nil {
		for _, l := range prog.Launchers {
			if n, _ := l.PerNode(c.Devices); n > 0 { // on this machine; a plugin counts the ranks of all machines
				p.Ranks = int64(n)
			}
		}
	}
	return p
}

func (p Promise) bytes() unit.Bytes { return p.Limit * unit.Bytes(p.Ranks) }

// A Refusal is the error of a promise that cannot be kept.
type Refusal struct {
	Why string
	// Never: the machine has too little memory. Else other launches hold it now.
	Never bool
}

func (r *Refusal) Error() string { return r.Why }

// Check returns a [*Refusal] if the machine has too little memory for the promise, or other launches have claimed it.
// called names the limit's setting in the error.
func (p Promise) Check(called string) error {
	total, by := HostTotal()
	return p.check(called, total, by, Claims())
}

func (p Promise) check(called string, total unit.Bytes, by string, held []Held) error {
	want := p.bytes()
	if want == 0 || total == 0 {
		return nil
	}
	if want > total {
		each := ""
		if p.Ranks > 1 {
			each = fmt.Sprintf(" for each of %d processes, %v together,", p.Ranks, want)
		}
		return &Refusal{Why: fmt.Sprintf("%s%s is more than %s of %v", called, each, by, total), Never: true}
	}
	if taken := Claimable(HostMemory, want, total, held); taken != nil {
		return &Refusal{Why: taken.Error()}
	}
	return nil
}

// Take claims the promised memory until the claim is released. It waits for it as long as the user allows. It returns a
// [*Refusal] if the memory is not available; with anyway it claims it nevertheless. Any other failure is only a
// warning: the training matters more than the claim. An error of ctx is returned as it is.
func (p Promise) Take(
	ctx context.Context, called string, anyway bool, wait Patience,
) (held *Claim, warnings []string, err error) {
	if p.bytes() == 0 {
		return nil, nil, nil
	}
	total, by := HostTotal()
	err = p.check(called, total, by, nil) // more than the machine has
	if err == nil || anyway {
		var taking error
		held, taking = p.take(ctx, called, total, by, anyway, wait)
		switch refused := (*Refusal)(nil); {
		case errors.As(taking, &refused):
			err = cmp.Or(err, taking)
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case taking != nil:
			warnings = append(warnings, fmt.Sprintf("%v: other launches will not count the host memory that this one "+
				"takes", taking))
		}
	}
	if err == nil {
		warnings = append(warnings, crowded(total, Claims())...)
	}
	return held, warnings, err
}

// take waits in the queue for host memory. With anyway it does not: it returns the claim and the refusal.
func (p Promise) take(
	ctx context.Context, called string, total unit.Bytes, by string, anyway bool, wait Patience,
) (*Claim, error) {
	var refused error
	if anyway || total == 0 {
		wait.For = 0
	}
	q := &queue{Patience: wait, decide: func(held []Held, t turn) ([]Want, error) {
		want := Want{Resource: HostMemory, Bytes: p.bytes()}
		others := slices.DeleteFunc(slices.Clone(held), ledger{descends: proc.Descends}.around)
		free := total - Claimed(HostMemory, others)
		offer := keep([]Offer{{Free: free, Empty: total}}, held, t.since, time.Now())[0]
		refused = p.check(called, total, by, others)
		switch {
		case total == 0 || anyway:
		case t.patient && want.Bytes > offer.Free:
			want.Waiting = true
		case refused != nil:
			return nil, refused
		}
		return []Want{want}, nil
	}}
	made, err := q.wait(ctx)
	if err != nil || len(made) == 0 {
		return nil, err
	}
	return made[0], refused
}

// crowded returns a warning if the claims of all accounts exceed host memory. Claims of other accounts never refuse a
// run.
func crowded(total unit.Bytes, held []Held) []string {
	sum, others := unit.Bytes(0), unit.Bytes(0)
	for _, h := range held { // this launch's own is among them
		if h.Resource != HostMemory || h.Waiting {
			continue
		}
		sum = min(sum+h.Bytes, 1<<60)
		if !h.Refuses() {
			others = min(others+h.Bytes, 1<<60)
		}
	}
	if others == 0 || total == 0 || sum <= total {
		return nil
	}
	return []string{fmt.Sprintf("the --memory of all launches adds up to %v, more than the %v of host memory; "+
		"launches of other accounts hold %v of it", sum, total, others)}
}

package observe

import (
	"slices"
	"time"
)

// The ranks of a program are found among its processes on this machine, and it is decided here when those that wait for
// one that ran out of memory may be ended.
//
// It knows no launcher. A rank is a process that a launcher has given a number in its environment (torchrun,
// accelerate,
// srun, mpirun, a loop in a shell), or one with torch that has a TCP connection with another process of the program
// (mp.spawn, Process, Lightning): process groups connect their ranks with each other and with a store.

// A Rank is a process. Its start time tells it from a later process of the same number.
type Rank struct {
	PID   int
	start uint64 // in clock ticks after the machine's start
}

// Times of [Waiting].
const (
	// patience is how long the program may take by itself after the failing rank has ended: most launchers need less
	// than a second to end the others.
	patience = 2 * time.Second
	// noisy is the same for a program that still prints, but not that it progresses.
	noisy = 3 * time.Second
	// leaving is how long the failing rank may take to go after it has reported its end. Its launcher learns of it only
	// then, and on a busy machine an interpreter needs seconds for that; another that ended first would get the blame.
	leaving = 20 * time.Second
)

// RankFacts are what is known of a job at a moment.
type RankFacts struct {
	Now     time.Time
	Certain bool      // a rank is certain to have run out of memory and not to go on
	Ended   time.Time // when the first rank was seen to have ended, or reported its end; zero: none has
	Left    time.Time // when its process was gone; zero: it is still there
	Waiting int       // ranks of that time that are still alive
	Fresh   bool      // ranks have started since: the launcher starts the job again
	Printed time.Time // when the program last printed something
	Stepped time.Time // when it last reported progress
	Steps   bool      // it reports progress
	Writing bool      // a waiting rank is writing a file
}

// Hang decides whether the ranks that are still alive wait for one that will never come. A program that goes on
// without a
// rank, or that starts its ranks again, is left alone; so is one that may be saving a state.
func (f RankFacts) Hang() bool {
	if !f.Certain || f.Ended.IsZero() || f.Waiting == 0 || f.Fresh || f.Writing || f.Stepped.After(f.Ended) {
		return false
	}
	since := f.Now.Sub(f.Left)
	if f.Left.IsZero() {
		since = f.Now.Sub(f.Ended) - leaving
	}
	quiet := min(since, f.Now.Sub(f.Printed))
	return quiet >= patience || f.Steps && since >= noisy
}

// A process is what one look at /proc shows of a process of the program.
type process struct {
	pid, parent int
	start       uint64
	number      string          // the variable that gives it a number as a rank, with its value
	first       bool            // that number is the first on this machine
	sockets     map[string]bool // inodes; nil if it was not asked
	torch       func() bool     // whether libraries of torch are loaded
}

// choose returns the ranks among the processes. outer is the number that the environment of launch itself has. pairs
// are
// the TCP connections between two sockets of this machine. want is how many ranks the job has on this machine; 0:
// unknown.
func choose(all []process, outer string, pairs map[string]string, want int) (ranks []Rank) {
	by := map[int]*process{}
	for i := range all {
		by[all[i].pid] = &all[i]
	}
	above := func(p *process) string { // the number of its parent
		if q := by[p.parent]; q != nil {
			return q.number
		}
		return outer
	}
	rank := map[int]bool{}
	launcher := map[int]bool{} // has started the first rank of this machine, so it is none
	for i := range all {
		if p := &all[i]; p.number != "" && p.number != above(p) {
			rank[p.pid] = true
			launcher[p.parent] = launcher[p.parent] || p.first
		}
	}
	for _, p := range connected(all, by, pairs) {
		if !rank[p.pid] && !launcher[p.pid] && !descends(p, by, rank) && p.torch() {
			rank[p.pid] = true
		}
	}
	if len(rank) == 0 && want > 1 {
		rank = siblings(all, want)
	}
	for i := range all {
		if p := &all[i]; rank[p.pid] {
			ranks = append(ranks, Rank{p.pid, p.start})
		}
	}
	return ranks
}

// connected returns the processes with a TCP connection to another process of the program. A child that was forked has
// the sockets of its parent and does not count by them.
func connected(all []process, by map[int]*process, pairs map[string]string) (out []*process) {
	owner := map[string]int{}
	for i := range all {
		p := &all[i]
		for s := range p.sockets {
			if q := by[p.parent]; q == nil || !q.sockets[s] {
				owner[s] = p.pid
			}
		}
	}
	for i := range all {
		p := &all[i]
		for s := range p.sockets {
			if other, ok := owner[pairs[s]]; ok && owner[s] == p.pid && other != p.pid {
				out = append(out, p)
				break
			}
		}
	}
	return out
}

// descends reports whether a process descends from a rank, such as a loader worker.
func descends(p *process, by map[int]*process, rank map[int]bool) bool {
	for range by {
		q := by[p.parent]
		if q == nil {
			return false
		}
		if rank[q.pid] && q.number != "" {
			return true
		}
		p = q
	}
	return false
}

// siblings returns the children with torch of one process, if there are as many as the job has ranks: those of a
// program
// whose ranks have not met yet. Of several such groups it takes the one that started first.
func siblings(all []process, want int) map[int]bool {
	groups := map[int][]*process{}
	for i := range all {
		groups[all[i].parent] = append(groups[all[i].parent], &all[i])
	}
	var found []*process
	for _, g := range groups {
		g = slices.DeleteFunc(g, func(p *process) bool { return !p.torch() })
		if len(g) == want && (found == nil || g[0].start < found[0].start) {
			found = g
		}
	}
	out := map[int]bool{}
	for _, p := range found {
		out[p.pid] = true
	}
	return out
}

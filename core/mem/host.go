package mem

import (
	"fmt"

	"github.com/launch-ml/launch/core/unit"
)

// What a job needs of its host, beside what it needs of a card. The two are never added: nothing of the host's memory
// gives back anything of the card's.
const (
	Loaders   Kind = "loader batches"            // made by loader workers and not yet used
	Pinned    Kind = "pinned copies"             // of batches, in page-locked memory
	Decoded   Kind = "decoded images"            // whole, while a sample is cut from them
	Workers   Kind = "worker processes"          // what each loader worker has for itself
	HostModel Kind = "model on the host"         // on its way to the card
	Saving    Kind = "saved state in the making" // its copy on the host before it is on the disk
)

// A Moment is when a line of the host's memory is held. Peaks of two moments are not added.
type Moment string

const (
	Throughout Moment = ""         // of a program that trains
	Starting   Moment = "starting" // only until the model is on the card, before a loader has begun
	Training   Moment = "training" // only once loaders run
)

// A HostLine is one line of what a job needs of its host, all its processes there together. Bytes is the part that does
// not depend on the micro-batch.
type HostLine struct {
	Item
	PerSample unit.Bytes `json:"per_sample,omitempty"` // and this for every sample of one process's micro-batch
	// Shm says that it lies in /dev/shm, which is a room of its own and counts against the host's memory as well.
	Shm bool `json:"shm,omitempty"`
	// Apart says that it lies outside the processes that train: in their loader workers, or in /dev/shm. A limit on each
	// process (RLIMIT_DATA) counts it in none of those: what is shared is no data (mm/mmap.c, may_expand_vm), and a worker
	// has a limit of its own.
	Apart bool   `json:"apart,omitempty"`
	When  Moment `json:"when,omitempty"`
}

// at is the line for a micro-batch.
func (l HostLine) at(micro int64) Item {
	it := l.Item
	it.Bytes += l.PerSample * unit.Bytes(micro)
	return it
}

// HostMemory is what the lines come to for a micro-batch, at the moment that needs more.
func HostMemory(lines []HostLine, micro int64) Estimate {
	var starting, training Estimate
	for _, l := range lines {
		if l.When != Training {
			starting.Add(l.at(micro))
		}
		if l.When != Starting {
			training.Add(l.at(micro))
		}
	}
	if starting.Total() > training.Total() {
		return starting
	}
	return training
}

// SharedMemory is what of the lines lies in /dev/shm.
func SharedMemory(lines []HostLine, micro int64) (e Estimate) {
	for _, l := range lines {
		if l.Shm {
			e.Add(l.at(micro))
		}
	}
	return e
}

// Apart is what of the lines lies outside the processes that train.
func Apart(lines []HostLine, micro int64) (e Estimate) {
	for _, l := range lines {
		if l.Apart {
			e.Add(l.at(micro))
		}
	}
	return e
}

// A Loader is a PyTorch DataLoader that each of a job's processes on the host has.
type Loader struct {
	What     string // "training"
	Ranks    int64  // processes that have one each
	Workers  int64  // of each; 0: batches are made in the process itself
	Prefetch int64  // batches that each worker is ahead: prefetch_factor
	Pinned   bool   // pin_memory, with a card
	Queued   int64  // batches that a queue of the project's own holds beyond those
	// Sample is what one sample's tensors take in a batch, and Samples how many samples a batch has for one of the
	// micro-batch: more than 1 where one loader feeds several cards. Fixed is a batch's size where it does not follow the
	// micro-batch; Samples is then 0.
	Sample  unit.Bytes
	Samples int64
	Fixed   int64
	From    string // how Sample was reached
	// Making is what a worker holds of whole images while it makes a sample: a guess, as images differ.
	Making     unit.Bytes
	MakingFrom string
}

// workerPrivate is taken for what a forked worker has for itself beside its batch. Measured: 6 MiB of private pages with
// torch 1.13 (Debian's, Python 3.11) and 12 MiB with torch 2.15 (PyPI's, Python 3.12) in a worker that makes random
// tensors (Linux, x86-64, 2026-11-22). A trainer's worker has touched more of what it imported. From Python 3.14 on
// workers are no longer forked by default, and each imports torch anew.
const workerPrivate = 64 * unit.MiB

// Lines are what the loader needs.
//
// A loader is Workers × Prefetch batches ahead (torch/utils/data/dataloader.py, _try_put_index: fewer tasks are
// outstanding than that), and the program holds one, or for a moment two. A worker collates straight into shared memory (_utils/collate.py,
// _new_shared), where a batch stays until the program lets go of it. Measured by statfs on /dev/shm while a loader was
// stalled: 2.013, 5.009, 9.006, 17.049, 3.002 and 17.039 batches for workers × prefetch of 1 × 1, 2 × 2, 4 × 2, 4 × 4,
// 2 × 1 and 8 × 2, the same with torch 1.13 and 2.15 (2026-11-22); without workers nothing. For the moment in which the next
// batch is handed over the program's loop holds the last one too: in a /dev/shm with less than a batch to spare a training at
// 2 × 2 died three times of three, and passed with room for six.
//
// Pinned copies replace batches in shared memory, one by one; the allocator of page-locked memory keeps what it once had
// (at/cuda/CachingHostAllocator.cpp), so in time there may be as many again.
func (l Loader) Lines() (lines []HostLine) {
	held := int64(1)
	if l.Workers > 0 {
		held = 2
	}
	ahead := l.Workers*l.Prefetch + held + l.Queued
	name := l.What
	add := func(kind Kind, batches int64, guess, shm bool, from string) {
		lines = append(lines, HostLine{
			Item:      Item{Kind: kind, What: name, Bytes: l.Sample * unit.Bytes(batches*l.Ranks*l.Fixed), Guess: guess, From: from},
			PerSample: l.Sample * unit.Bytes(batches*l.Ranks*l.Samples), Shm: shm, Apart: l.Workers > 0 && kind != Pinned, When: Training,
		})
	}
	if l.Workers > 0 {
		add(Loaders, ahead, false, true, fmt.Sprintf("%s(%d workers × %d ahead + %d) batches of %s", l.each(), l.Workers, l.Prefetch, held+l.Queued, l.From))
		name = l.What + ", being made"
		add(Loaders, l.Workers, false, false, fmt.Sprintf("%s%d workers, each with the samples that it makes into a batch", l.each(), l.Workers))
		name = l.What
		lines = append(lines, HostLine{When: Training, Apart: true, Item: Item{Kind: Workers, What: l.What, Bytes: workerPrivate * unit.Bytes(l.Workers*l.Ranks), Guess: true,
			From: fmt.Sprintf("%s%d × %v: a worker that does nothing else has 6 MiB (torch 1.13) or 12 MiB (2.15)", l.each(), l.Workers, workerPrivate)}})
	} else {
		add(Loaders, ahead, false, false, fmt.Sprintf("%s%d batches of %s, made in the process itself", l.each(), ahead, l.From))
	}
	if l.Pinned {
		add(Pinned, ahead, true, false, "page-locked copies of the same batches, of which the allocator keeps what it once had")
	}
	if l.Making > 0 {
		makers := max(1, l.Workers)
		lines = append(lines, HostLine{When: Training, Apart: l.Workers > 0, Item: Item{Kind: Decoded, What: l.What, Bytes: l.Making * unit.Bytes(makers*l.Ranks), Guess: true,
			From: fmt.Sprintf("%s%d × %s", l.each(), makers, l.MakingFrom)}})
	}
	return lines
}

func (l Loader) each() string {
	if l.Ranks > 1 {
		return fmt.Sprintf("%d processes × ", l.Ranks)
	}
	return ""
}

// HostProcesses is the interpreter, torch and their libraries, as [RuntimeOf] has them, in each of a job's processes on the
// host. On a card the driver's libraries come to it, of which nobody has measured how much.
func HostProcesses(ranks int64, each Item) HostLine {
	each.Bytes *= unit.Bytes(max(1, ranks))
	return HostLine{Item: each}
}

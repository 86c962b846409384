package oom

import (
	"strconv"
	"strings"
)

var (
	// rankPrefix is a rank among what is put before a line (linePrefix says by whom): a number that counts processes, not
	// machines, pods or process ids.
	rankPrefix = rx(`^\[(?:rank:? ?|[a-z]\w*?)(\d+)\]:?$|^\[\d+,(?:mpirank:)?(\d+)(?:,[\w-]+)?\]<std|^(\d+)$|\brank=(\d+)`)
	globalRank = rx(`\[rank:? ?(\d+)\]`)
	// numbered are prefixes that count processes only where several stand beside each other: "[2] " of a launcher's own making,
	// and "worker-2: ", a machine by DeepSpeed's hostfile (deepspeed/launcher/multinode_runner.py, pdsh), which is a rank where
	// each has one process
	numbered = rx(`^(\[|worker-)(\d{1,4})\]?$`)
	// severalRanks matches what is only printed on a machine with more than one rank
	severalRanks = rx(`--local_rank[= ][1-9]|\blocal_rank: [1-9]|\b(?:GPU |cuda:)[1-9]`)
	// torch/multiprocessing/spawn.py, above the traceback of the child
	spawned = rx(`^-- Process (\d+) terminated with the following error:`)
	// torch/distributed/elastic/multiprocessing/errors/__init__.py, of the first that failed
	rootCause = rx(`^Root Cause \(first observed failure\):`)
	causeRank = rx(`^\s*rank\s*: (\d+) \(local_rank: \d+\)`)
	causeCode = rx(`^\s*exitcode\s*: (-?\d+)`)
)

// failed is the rank of a finding's process, by the prefix of its line, the lines above its traceback, or torchrun's summary
// after it; nil if none of them shows it.
func (f *finding) failed() *int64 {
	number := func(m []string) *int64 {
		for _, s := range m[min(1, len(m)):] {
			if n, err := strconv.ParseInt(s, 10, 32); err == nil {
				return &n
			}
		}
		return nil
	}
	own, text := f.rows[f.at].Rank, f.rows[f.at]
	if n := number(globalRank.FindStringSubmatch(strings.TrimSuffix(text.Text, text.Body))); n != nil {
		return n // torch's own, below what a launcher put before it, which counts on one machine
	}
	if n := number(rankPrefix.FindStringSubmatch(own)); n != nil && (own[0] < '0' || own[0] > '9' || f.others(own) > 0) {
		return n
	}
	if n := f.amongOthers(own); n != nil {
		return n
	}
	for i := f.at; i >= max(0, f.at-maxTrace); i-- {
		body := f.rows[i].Body
		if m := spawned.FindStringSubmatch(body); m != nil {
			return number(m)
		}
		if i < f.at && f.rows[i].Rank == own && exceptionLine.MatchString(body) {
			break // another failure
		}
	}
	return number(f.firstFailed(causeRank))
}

// firstFailed is what torchrun's summary, below a finding, has of the process that failed first.
func (f *finding) firstFailed(what *pattern) []string {
	root := false
	for _, r := range f.rows[f.at:] {
		if root = root || rootCause.MatchString(r.Body); root {
			if m := what.FindStringSubmatch(r.Body); m != nil {
				return m
			}
		}
	}
	return nil
}

// amongOthers is the number of a prefix that stands before several lines, and beside it others of its kind that count from 0
// or 1, as process ids do not.
func (f *finding) amongOthers(own string) *int64 {
	m := numbered.FindStringSubmatch(own)
	if m == nil || f.others(own) == 0 {
		return nil
	}
	n, _ := strconv.ParseInt(m[2], 10, 32)
	least, several := n, false
	for _, r := range f.rows {
		if m[1] == "worker-" && severalRanks.MatchString(r.Body) {
			return nil
		}
		if o := numbered.FindStringSubmatch(r.Rank); o != nil && o[1] == m[1] && r.Rank != own {
			k, _ := strconv.ParseInt(o[2], 10, 32)
			least, several = min(least, k), true
		}
	}
	if !several || least > 1 {
		return nil
	}
	return &n
}

// others counts the other lines of a rank: a bare number before one line only is a line's own, as cat -n and editors put it.
func (f *finding) others(rank string) (n int) {
	for i, r := range f.rows {
		if i != f.at && r.Rank == rank && r.Number != f.rows[f.at].Number {
			n++
		}
	}
	return n
}

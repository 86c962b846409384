package oom

import (
	"bytes"
	"fmt"

	"github.com/launch-ml/launch/core/unit"
)

// Since 2.13 torch prints a line for each request that the card refused, before it gives back what it caches and asks
// again (c10/cuda/CUDACachingAllocator.cpp). A program that succeeds may print thousands: they show a card that is
// full, and how much it lacked, and prove no failure.

// A Retry is one such line.
type Retry struct {
	Requested, Free, Total unit.Bytes
}

// Retries sums up those of a phase.
type Retries struct {
	Count int `json:"count"`
	// the most that a request was larger than what was free; 0 if it never was
	Short unit.Bytes `json:"short_bytes,omitempty"`
}

// Add adds one.
func (n *Retries) Add(r Retry) { n.Join(Retries{1, r.Requested - r.Free}) }

// Join adds others.
func (n *Retries) Join(o Retries) { n.Count, n.Short = n.Count+o.Count, max(n.Short, o.Short) }

// In returns a clause for a person: "41 times in validation, 380 MiB short". phase may be "".
func (n Retries) In(phase string) string {
	s := times(n.Count)
	if phase != "" {
		s += " in " + phase
	}
	if n.Short > 0 {
		s += fmt.Sprintf(", %v short", n.Short)
	}
	return s
}

var (
	retryWords = []byte(" failed with OOM on device ")
	retryLine  = rx(`memory (?:allocation|mapping) failed with OOM on device \d+ while trying to (?:allocate|` +
		`map) (\d+) bytes ` +
		`\(free: (\d+), total: (\d+)\)`)
)

// retry passes on a line that an allocator printed before it asked again. A program's own log file repeats what it
// printed.
func (s *stream) retry(text []byte) {
	if s.d.OnRetry == nil || s.name == Log || !bytes.Contains(text, retryWords) {
		return
	}
	m := retryLine.FindStringSubmatch(string(text[:min(len(text), maxRow)]))
	if m == nil {
		return
	}
	var b [3]unit.Bytes
	for i := range b {
		v, ok := parseSize(m[i+1])
		if !ok {
			return
		}
		b[i] = *rounded(v)
	}
	s.d.OnRetry(Retry{b[0], b[1], b[2]})
}

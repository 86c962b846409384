package oom

import "fmt"

// A Handshake says how far a hook within the program's processes was taken.
type Handshake struct {
	Processes int    `json:"processes"`       // Python processes that read it
	Torch     string `json:"torch,omitempty"` // the version that they imported; empty where none has
	CUDA      int    `json:"cuda"`            // processes that initialised CUDA
	Observed  int    `json:"observed"`        // those of them in which each request that the allocator refuses is seen
	Why       string `json:"why,omitempty"`   // why nothing was taken, or not all; a clause
}

// Taken reports whether any process read it.
func (h Handshake) Taken() bool { return h.Processes > 0 }

// String says it to a person, in one line.
func (h Handshake) String() string {
	if !h.Taken() {
		return "the hook was not taken: " + h.Why
	}
	s := fmt.Sprintf("the hook was read by %d Python processes", h.Processes)
	if h.Processes == 1 {
		s = "the hook was read by 1 Python process"
	}
	switch {
	case h.Torch == "":
		s += "; no torch was imported"
	case h.CUDA == 0:
		s += fmt.Sprintf("; torch %s; no CUDA was initialised", h.Torch)
	case h.CUDA == h.Observed:
		s += fmt.Sprintf("; torch %s; CUDA was observed in %d", h.Torch, h.CUDA)
	default:
		s += fmt.Sprintf("; torch %s; CUDA was observed in %d of %d", h.Torch, h.Observed, h.CUDA)
	}
	if h.Why != "" {
		s += "; " + h.Why
	}
	return s
}

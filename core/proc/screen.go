package proc

import (
	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/proc/internal/keep"
)

// fdWriter writes to a descriptor.
type fdWriter int

func (f fdWriter) Write(p []byte) (int, error) {
	if err := keep.WriteAll(int(f), p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// share gives the screen the output that goes to the user's terminal, or else to where Stderr leads.
func (a *attempt) share() {
	st := a.st
	if a.spec.Screen == nil {
		return
	}
	errs := int(a.spec.Stderr.Fd())
	var shared *copier
	for _, c := range st.copies {
		if isTerminal(c.dst) || shared == nil && sameFile(c.dst, errs) {
			shared = c
		}
	}
	if shared == nil {
		return
	}
	shared.screen = a.spec.Screen
	a.place = &Terminal{To: fdWriter(shared.dst), Raw: isTerminal(shared.dst), Ours: sameFile(shared.dst, errs)}
	a.spec.Screen.Fit(*a.place)
	if st.user != nil && isTerminal(shared.dst) && sameFile(shared.dst, st.user.fd) {
		a.place.Again = func() {
			select {
			case a.again <- struct{}{}:
			default:
			}
		}
		st.ctl.fit = a.fit
	}
}

// fit lets the screen keep rows of the user's terminal for itself.
func (a *attempt) fit(size *unix.Winsize) {
	t := *a.place
	t.Rows, t.Cols = int(size.Row), int(size.Col)
	size.Row = uint16(max(0, a.spec.Screen.Fit(t)))
}

// unshare gives the user's terminal back.
func (a *attempt) unshare() {
	if a.place != nil {
		a.spec.Screen.Close()
	}
}

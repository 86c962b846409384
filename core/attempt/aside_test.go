package attempt

import (
	"bytes"
	"strings"
	"testing"
)

// A stopped reader holds up whoever writes to it until it is let go on.
type stopped struct {
	entered, on chan struct{}
	got         bytes.Buffer
}

func (s *stopped) Write(p []byte) (int, error) {
	select {
	case s.entered <- struct{}{}:
	default:
	}
	<-s.on
	return s.got.Write(p)
}

// What is read aside arrives whole and in order, and a reader that does not read holds up nobody: what is too much is
// left out.
func TestAside(t *testing.T) {
	s := &stopped{entered: make(chan struct{}, 1), on: make(chan struct{})}
	a := newAside(s)
	a.write([]byte("first\n"))
	<-s.entered
	part := strings.Repeat("x", 1<<20-1) + "\n"
	for range 40 { // it does not block
		a.write([]byte(part))
	}
	close(s.on)
	a.close()
	a.close()
	if got := s.got.Len(); got < 15<<20 || got > mostAside {
		t.Errorf("%d bytes were read", got)
	}
	s = &stopped{entered: make(chan struct{}, 1), on: make(chan struct{})}
	close(s.on)
	a, want := newAside(s), ""
	for range 1000 {
		a.write([]byte("half a "))
		a.write([]byte("line\n"))
		want += "half a line\n"
	}
	a.close()
	if s.got.String() != want {
		t.Errorf("%d bytes of %d", s.got.Len(), len(want))
	}
}

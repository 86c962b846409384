package proc

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// userTerminal is the terminal that launch itself was started on. Its settings are touched only while we are in its
// foreground: in the background that would stop us.
type userTerminal struct {
	fd          int
	before, now unix.Termios // while raw: its settings before, and as we made them
	isRaw       bool
}

// foreground reports whether we may read from t and set it. A terminal that does not control us lets anybody.
func (t *userTerminal) foreground() bool {
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// makeRaw hands every key to us as it is typed, and every byte that we write to the screen as it is: interpreting both is
// the work of the program's own terminal. Typed-ahead input stays where it is. tell is told what is about to be done, and then what
// was: whoever may have to undo it knows of it first.
func (t *userTerminal) makeRaw(tell func(before, now *unix.Termios)) error {
	if t.isRaw {
		return nil
	}
	before, err := unix.IoctlGetTermios(t.fd, unix.TCGETS)
	if err != nil {
		return err
	}
	raw := *before
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL |
		unix.IXON | unix.IXOFF | unix.IXANY | unix.IMAXBEL
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	tell(before, &raw)
	if err := unix.IoctlSetTermios(t.fd, unix.TCSETS, &raw); err != nil {
		return err
	}
	t.before, t.isRaw = *before, true
	t.now = raw
	if got, err := unix.IoctlGetTermios(t.fd, unix.TCGETS); err == nil {
		t.now = *got // the driver may have its own view
		tell(before, got)
	}
	return nil
}

// restore undoes makeRaw. In the background it leaves the terminal to whoever has it now: they have set it.
func (t *userTerminal) restore() {
	if !t.isRaw {
		return
	}
	if t.foreground() {
		_ = unix.IoctlSetTermios(t.fd, unix.TCSETS, &t.before)
	}
	t.isRaw = false
}

// A ptyPair is a pseudo-terminal of the program's.
type ptyPair struct {
	master int                 // does not block
	slave  int                 // -1 once closed
	set    unix.Termios        // as we set it
	fit    func(*unix.Winsize) // takes rows that the program does not get; may be nil
}

// openPty opens a pseudo-terminal.
func openPty() (*ptyPair, error) {
	m, s, err := pty.Open()
	if err != nil {
		return nil, fmt.Errorf("opening a pseudo-terminal: %w (is /dev/pts mounted?)", err)
	}
	defer m.Close()
	defer s.Close()
	// Descriptors of our own: those of creack/pty are closed by the garbage collector, and its master blocks.
	master, err := unix.FcntlInt(m.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("opening a pseudo-terminal: %w", err)
	}
	slave, err := unix.FcntlInt(s.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err == nil {
		err = unix.SetNonblock(master, true)
	}
	if err != nil {
		unix.Close(master)
		return nil, fmt.Errorf("opening a pseudo-terminal: %w", err)
	}
	return &ptyPair{master: master, slave: slave}, nil
}

func (p *ptyPair) closeSlave() {
	if p.slave >= 0 {
		unix.Close(p.slave)
		p.slave = -1
	}
}

// resize gives p the size of the terminal from, which has the program told if it is another.
func (p *ptyPair) resize(from int) {
	size, err := unix.IoctlGetWinsize(from, unix.TIOCGWINSZ)
	if err != nil {
		size = &unix.Winsize{Row: 24, Col: 80}
	}
	if p.fit != nil && size.Row > 0 {
		p.fit(size)
	}
	_ = unix.IoctlSetWinsize(p.master, unix.TIOCSWINSZ, size)
}

// settings are the program's settings of its terminal.
func (p *ptyPair) settings() (unix.Termios, error) {
	t, err := unix.IoctlGetTermios(p.master, unix.TCGETS)
	if err != nil {
		return unix.Termios{}, err
	}
	return *t, nil
}

func (p *ptyPair) apply(t unix.Termios) {
	_ = unix.IoctlSetTermios(p.master, unix.TCSETS, &t)
	p.set, _ = p.settings()
}

// adopt gives p the settings and the size of the user's terminal.
func (p *ptyPair) adopt(user int) {
	if t, err := unix.IoctlGetTermios(user, unix.TCGETS); err == nil {
		p.apply(*t)
	}
	p.resize(user)
}

// untouched reports whether the program has left the settings as we made them.
func (p *ptyPair) untouched() bool {
	now, err := p.settings()
	return err == nil && now == p.set
}

// unread takes back the input that nobody has read. The slave must still be open.
func (p *ptyPair) unread() []byte {
	old, err := unix.IoctlGetTermios(p.slave, unix.TCGETS)
	if err != nil {
		return nil
	}
	t := *old
	t.Lflag &^= unix.ICANON // half a line is input too
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 0, 0
	if unix.IoctlSetTermios(p.slave, unix.TCSETS, &t) != nil {
		return nil
	}
	defer func() { _ = unix.IoctlSetTermios(p.slave, unix.TCSETS, old) }()
	var all []byte
	buf := make([]byte, 4096)
	for {
		n, err := unix.Read(p.slave, buf)
		if err == unix.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			return all
		}
		for _, c := range buf[:n] {
			if c != 0 { // what the driver keeps of an end of input
				all = append(all, c)
			}
		}
	}
}

// typed is input that came for a program that has ended, and that it did not read. The next one gets it.
var typed struct {
	sync.Mutex
	bytes []byte
}

func keepTyped(p []byte) {
	typed.Lock()
	defer typed.Unlock()
	typed.bytes = append(typed.bytes, p...)
}

func takeTyped() []byte {
	typed.Lock()
	defer typed.Unlock()
	p := typed.bytes
	typed.bytes = nil
	return p
}

func sti(tty int, c byte) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(tty), unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
	if errno != 0 {
		return errno
	}
	return nil
}

// handBack puts kept input where a shell will find it. Linux 6.2 and later allow that only to root, or with the sysctl
// dev.tty.legacy_tiocsti; otherwise it is lost, as it is with script(1).
func handBack(tty int) {
	p := takeTyped()
	t := userTerminal{fd: tty}
	if len(p) == 0 || !isTerminal(tty) || !t.foreground() || t.makeRaw(func(_, _ *unix.Termios) {}) != nil {
		return
	}
	defer t.restore()
	for _, c := range p {
		if sti(tty, c) != nil {
			return
		}
	}
}

package proc

import (
	"encoding/binary"
	"errors"
	"io"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What launch and its keeper say to each other over a socket pair: frames of a length, a kind and a body. Both ends are
// the same executable, so there are no versions. The end of the stream is itself a message: the other end has died.
type kind byte

const (
	msgStart      kind = iota + 1 // start the program: a startOrder; files: its three, then those that startOrder names
	msgSignal                     // a signal came: number, group, matched (see keeper.signal)
	msgForeground                 // we are in the foreground of the user's terminal, or no longer
	msgRaw                        // the user's terminal becomes raw: its settings before, and then; files: it
	msgKill                       // kill the program and all that it started
	msgLeave                      // the end: copy each first file to the second while there is anyone to write, and go

	msgBegun   // it has the order, and will now carry it out
	msgStarted // pid
	msgFailed  // errno
	msgStopped // the program was stopped by this signal
	msgEnded   // wait status, peak resident bytes, whether it left anything
	msgKilled  // all that was to be killed is gone
)

type message struct {
	kind  kind
	body  body
	files []int
}

// A body is a sequence of numbers and strings, read in the order in which they were written. Strings are bytes: an argument
// need not be UTF-8.
type body []byte

func (b *body) putInt(v ...int64) {
	for _, v := range v {
		*b = binary.LittleEndian.AppendUint64(*b, uint64(v))
	}
}

func (b *body) putBool(v bool) {
	n := int64(0)
	if v {
		n = 1
	}
	b.putInt(n)
}

func (b *body) putString(s string) {
	b.putInt(int64(len(s)))
	*b = append(*b, s...)
}

func (b *body) putStrings(list []string) {
	b.putInt(int64(len(list)))
	for _, s := range list {
		b.putString(s)
	}
}

func (b *body) int() int64 {
	v := binary.LittleEndian.Uint64(*b)
	*b = (*b)[8:]
	return int64(v)
}

func (b *body) bool() bool { return b.int() != 0 }

func (b *body) string() string {
	n := b.int()
	s := string((*b)[:n])
	*b = (*b)[n:]
	return s
}

func (b *body) strings() []string {
	list := make([]string, b.int())
	for i := range list {
		list[i] = b.string()
	}
	return list
}

// A startOrder is all that the keeper needs to start the program.
type startOrder struct {
	path       string
	args, env  []string
	dir        string
	limit      int64
	control    bool // file 3 is the terminal that the program is to control
	foreground bool // of that terminal
}

func (o startOrder) encode() (b body) {
	b.putString(o.path)
	b.putStrings(o.args)
	b.putStrings(o.env)
	b.putString(o.dir)
	b.putInt(o.limit)
	b.putBool(o.control)
	b.putBool(o.foreground)
	return b
}

func (b *body) startOrder() startOrder {
	return startOrder{path: b.string(), args: b.strings(), env: b.strings(), dir: b.string(), limit: b.int(),
		control: b.bool(), foreground: b.bool()}
}

func termiosBytes(t *unix.Termios) string {
	return string(unsafe.Slice((*byte)(unsafe.Pointer(t)), unsafe.Sizeof(*t)))
}

func termiosOf(s string) (t unix.Termios) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&t)), unsafe.Sizeof(t)), s)
	return t
}

// send writes one message to the socket fd, which blocks. Only one send may be under way.
func send(fd int, m message) error {
	frame := binary.LittleEndian.AppendUint32(nil, uint32(len(m.body)+2))
	frame = append(frame, byte(m.kind), byte(len(m.files)))
	frame = append(frame, m.body...)
	var rights []byte
	if len(m.files) > 0 {
		rights = unix.UnixRights(m.files...)
	}
	for len(frame) > 0 {
		n, err := unix.SendmsgN(fd, frame, rights, nil, unix.MSG_NOSIGNAL)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		}
		frame, rights = frame[n:], nil
	}
	return nil
}

// receive sends the messages that arrive on the socket fd to ch, and closes ch when the other end is gone.
func receive(fd int, ch chan<- message) {
	defer close(ch)
	var buf []byte
	var files []int
	next := func(n int) ([]byte, error) {
		for len(buf) < n {
			p, fds, err := recv(fd)
			if err != nil {
				return nil, err
			}
			buf, files = append(buf, p...), append(files, fds...)
		}
		head := buf[:n:n]
		buf = buf[n:]
		return head, nil
	}
	for {
		head, err := next(4)
		if err != nil {
			return
		}
		frame, err := next(int(binary.LittleEndian.Uint32(head)))
		if err != nil {
			return
		}
		n := int(frame[1])
		if n > len(files) { // out of descriptors: the kernel drops what does not fit
			return
		}
		m := message{kind: kind(frame[0]), body: frame[2:], files: files[:n:n]}
		files = files[n:]
		ch <- m
	}
}

func recv(fd int) ([]byte, []int, error) {
	p := make([]byte, 64<<10)
	oob := make([]byte, unix.CmsgSpace(16*4))
	for {
		n, oobn, _, _, err := unix.Recvmsg(fd, p, oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if n == 0 {
			return nil, nil, io.EOF
		}
		var files []int
		if oobn > 0 {
			msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
			if err != nil {
				return nil, nil, err
			}
			for _, m := range msgs {
				fds, err := unix.ParseUnixRights(&m)
				if err != nil && !errors.Is(err, unix.EINVAL) {
					return nil, nil, err
				}
				files = append(files, fds...)
			}
		}
		return p[:n], files, nil
	}
}

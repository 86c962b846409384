package keep

import (
	"errors"
	"io"
	"syscall"
	"unsafe"
)

// A Kind is what launch and its keeper say to each other over a socket pair, in frames of a length, a kind and a
// body. Both ends are the same executable, so there are no versions, and numbers are as this machine has them. The
// end of the stream is itself a message: the other end has died.
type Kind byte

const (
	MsgStart      Kind = iota + 1 // start the program: a StartOrder; files: its three, then those that StartOrder names
	MsgSignal                     // a signal came: number, group, matched (see keeper.signal)
	MsgForeground                 // we are in the foreground of the user's terminal, or no longer
	MsgRaw                        // the user's terminal becomes raw: its settings before, and then; files: it
	MsgKill                       // kill the program and all that it started
	MsgLeave                      // the end: copy each first file to the second while there is anyone to write, and go

	MsgBegun   // it has the order, and will now carry it out
	MsgStarted // pid
	MsgFailed  // errno
	MsgStopped // the program was stopped by this signal
	MsgEnded   // wait status, peak resident bytes, whether it left anything
	MsgKilled  // all that was to be killed is gone
)

type Message struct {
	Kind  Kind
	Body  Body
	Files []int
}

// A Body is a sequence of numbers and strings, read in the order in which they were written. Strings are bytes: an
// argument need not be UTF-8.
type Body []byte

func (b *Body) PutInt(v ...int64) {
	for _, v := range v {
		*b = append(*b, (*[8]byte)(unsafe.Pointer(&v))[:]...)
	}
}

func (b *Body) PutBool(v bool) {
	n := int64(0)
	if v {
		n = 1
	}
	b.PutInt(n)
}

func (b *Body) PutText(s string) {
	b.PutInt(int64(len(s)))
	*b = append(*b, s...)
}

func (b *Body) PutTexts(list []string) {
	b.PutInt(int64(len(list)))
	for _, s := range list {
		b.PutText(s)
	}
}

func (b *Body) Int() int64 {
	var v int64
	copy((*[8]byte)(unsafe.Pointer(&v))[:], (*b)[:8])
	*b = (*b)[8:]
	return v
}

func (b *Body) Bool() bool { return b.Int() != 0 }

func (b *Body) Text() string {
	n := b.Int()
	s := string((*b)[:n])
	*b = (*b)[n:]
	return s
}

func (b *Body) Texts() []string {
	list := make([]string, b.Int())
	for i := range list {
		list[i] = b.Text()
	}
	return list
}

// A StartOrder is all that the keeper needs to start the program.
type StartOrder struct {
	Path       string
	Args, Env  []string
	Dir        string
	Limit      int64
	Control    bool // file 3 is the terminal that the program is to control
	Foreground bool // of that terminal
}

func (o StartOrder) Encode() (b Body) {
	b.PutText(o.Path)
	b.PutTexts(o.Args)
	b.PutTexts(o.Env)
	b.PutText(o.Dir)
	b.PutInt(o.Limit)
	b.PutBool(o.Control)
	b.PutBool(o.Foreground)
	return b
}

func (b *Body) StartOrder() StartOrder {
	return StartOrder{Path: b.Text(), Args: b.Texts(), Env: b.Texts(), Dir: b.Text(), Limit: b.Int(),
		Control: b.Bool(), Foreground: b.Bool()}
}

func (b *Body) PutTermios(t *syscall.Termios) {
	b.PutText(string(unsafe.Slice((*byte)(unsafe.Pointer(t)), unsafe.Sizeof(*t))))
}

func (b *Body) Termios() (t syscall.Termios) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&t)), unsafe.Sizeof(t)), b.Text())
	return t
}

// Send writes one message to the socket fd, which blocks. Only one Send may be under way.
func Send(fd int, m Message) error {
	var frame Body
	frame.PutInt(int64(len(m.Body) + 2))
	frame = append(frame, byte(m.Kind), byte(len(m.Files)))
	frame = append(frame, m.Body...)
	var rights []byte
	if len(m.Files) > 0 {
		rights = syscall.UnixRights(m.Files...)
	}
	for len(frame) > 0 {
		n, err := syscall.SendmsgN(fd, frame, rights, nil, syscall.MSG_NOSIGNAL)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return err
		}
		frame, rights = frame[n:], nil
	}
	return nil
}

// Receive sends the messages that arrive on the socket fd to ch, and closes ch when the other end is gone.
func Receive(fd int, ch chan<- Message) {
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
		head, err := next(8)
		if err != nil {
			return
		}
		frame, err := next(int((*Body)(&head).Int()))
		if err != nil {
			return
		}
		n := int(frame[1])
		if n > len(files) { // out of descriptors: the kernel drops what does not fit
			return
		}
		m := Message{Kind: Kind(frame[0]), Body: frame[2:], Files: files[:n:n]}
		files = files[n:]
		ch <- m
	}
}

func recv(fd int) ([]byte, []int, error) {
	p := make([]byte, 64<<10)
	oob := make([]byte, syscall.CmsgSpace(16*4))
	for {
		n, oobn, _, _, err := syscall.Recvmsg(fd, p, oob, syscall.MSG_CMSG_CLOEXEC)
		if err == syscall.EINTR {
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
			msgs, err := syscall.ParseSocketControlMessage(oob[:oobn])
			if err != nil {
				return nil, nil, err
			}
			for _, m := range msgs {
				fds, err := syscall.ParseUnixRights(&m)
				if err != nil && !errors.Is(err, syscall.EINVAL) {
					return nil, nil, err
				}
				files = append(files, fds...)
			}
		}
		return p[:n], files, nil
	}
}

package moco

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// A torch checkpoint's data.pkl is a pickle of protocol 2 (torch/serialization.py, _save). What is read here is its
// structure: containers, numbers, strings, and of tensors where their storage lies. Nothing is imported or called: a
// global is its name, and a call is kept as what was to be called with what.

// A call is the result of REDUCE, NEWOBJ or BUILD: what was to be called, and with what.
type call struct {
	name string
	args []any
}

// A dict keeps its string keys only; the others' values are of no interest here.
type dict map[string]any

// A reference is what a pickle refers to outside itself: of torch, ("storage", class, key, location, elements).
type reference []any

// mark stands on the stack where a list of arguments begins.
type mark struct{}

// limits of a pickle: a checkpoint of a network has some thousand tensors, each of some thirty opcodes.
const (
	maxPickle = 64 << 20
	maxStack  = 1 << 22
	maxMemo   = 1 << 22
)

var errPickle = errors.New("no pickle that can be read")

// unpickle reads one value.
func unpickle(b []byte) (v any, err error) {
	if len(b) > maxPickle {
		return nil, fmt.Errorf("%w: it has %d bytes", errPickle, len(b))
	}
	m := machine{in: b, memo: map[uint32]any{}}
	defer func() { // reading behind the end, or taking from an empty stack
		if r := recover(); r != nil {
			v, err = nil, fmt.Errorf("%w: %v", errPickle, r)
		}
	}()
	return m.run()
}

type machine struct {
	in    []byte
	at    int
	stack []any
	memo  map[uint32]any
}

func (m *machine) bytes(n int) []byte {
	if n < 0 || n > len(m.in)-m.at {
		panic("it ends too early")
	}
	m.at += n
	return m.in[m.at-n : m.at]
}

func (m *machine) uint(n int) uint64 {
	var b [8]byte
	copy(b[:], m.bytes(n))
	return binary.LittleEndian.Uint64(b[:])
}

func (m *machine) line() string {
	end := bytes.IndexByte(m.in[m.at:], '\n')
	if end < 0 {
		panic("it ends too early")
	}
	s := string(m.bytes(end))
	m.at++
	return s
}

func (m *machine) push(v any) {
	if len(m.stack) >= maxStack {
		panic("it is too deep")
	}
	m.stack = append(m.stack, v)
}

func (m *machine) pop() any {
	v := m.top()
	m.stack = m.stack[:len(m.stack)-1]
	return v
}

func (m *machine) top() any {
	if len(m.stack) == 0 {
		panic("it takes from an empty stack")
	}
	return m.stack[len(m.stack)-1]
}

// marked takes what stands above the last mark, and the mark.
func (m *machine) marked() []any {
	for i := len(m.stack) - 1; i >= 0; i-- {
		if _, ok := m.stack[i].(mark); ok {
			vs := append([]any(nil), m.stack[i+1:]...)
			m.stack = m.stack[:i]
			return vs
		}
	}
	panic("it has no mark")
}

// take is the last n values, in order.
func (m *machine) take(n int) []any {
	vs := make([]any, n)
	for i := n - 1; i >= 0; i-- {
		vs[i] = m.pop()
	}
	return vs
}

func (m *machine) remember(i uint32) {
	if len(m.memo) >= maxMemo {
		panic("it remembers too much")
	}
	m.memo[i] = m.top()
}

func (m *machine) recall(i uint32) {
	v, ok := m.memo[i]
	if !ok {
		panic("it recalls what it never remembered")
	}
	m.push(v)
}

// set enters pairs of keys and values into the dict on top, or into what stands for one: an OrderedDict is a call.
func (m *machine) set(pairs []any) {
	d, ok := m.top().(dict)
	if c, is := m.top().(*call); is && c.name == "collections.OrderedDict" {
		if len(c.args) == 0 {
			c.args = []any{dict{}}
		}
		d, ok = c.args[0].(dict)
	}
	if !ok {
		return // of something else; nobody asks
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if k, is := pairs[i].(string); is {
			d[k] = pairs[i+1]
		}
	}
}

// The opcodes' names are those of Lib/pickle.py.
func (m *machine) run() (any, error) {
	for {
		switch op := m.bytes(1)[0]; op {
		case 0x80: // PROTO
			if v := m.bytes(1)[0]; v > 5 {
				return nil, fmt.Errorf("%w: protocol %d", errPickle, v)
			}
		case 0x95: // FRAME
			m.uint(8)
		case '.': // STOP
			return m.pop(), nil
		case '(': // MARK
			m.push(mark{})
		case '0': // POP
			m.pop()
		case '1': // POP_MARK
			m.marked()
		case '2': // DUP
			m.push(m.top())
		case 'N': // NONE
			m.push(nil)
		case 0x88, 0x89: // NEWTRUE, NEWFALSE
			m.push(op == 0x88)
		case 'J': // BININT
			m.push(int64(int32(m.uint(4))))
		case 'K': // BININT1
			m.push(int64(m.uint(1)))
		case 'M': // BININT2
			m.push(int64(m.uint(2)))
		case 0x8a: // LONG1: little-endian, two's complement
			m.push(long(m.bytes(int(m.uint(1)))))
		case 'G': // BINFLOAT
			m.push(math.Float64frombits(binary.BigEndian.Uint64(m.bytes(8))))
		case 'X': // BINUNICODE
			m.push(string(m.bytes(int(m.uint(4)))))
		case 0x8c: // SHORT_BINUNICODE
			m.push(string(m.bytes(int(m.uint(1)))))
		case 'U', 'C': // SHORT_BINSTRING, SHORT_BINBYTES
			m.bytes(int(m.uint(1)))
			m.push(nil)
		case 'T', 'B': // BINSTRING, BINBYTES
			m.bytes(int(m.uint(4)))
			m.push(nil)
		case '}': // EMPTY_DICT
			m.push(dict{})
		case ']', 0x8f: // EMPTY_LIST, EMPTY_SET
			m.push(&call{name: "list"})
		case ')': // EMPTY_TUPLE
			m.push([]any{})
		case 't': // TUPLE
			m.push(m.marked())
		case 0x85, 0x86, 0x87: // TUPLE1, TUPLE2, TUPLE3
			m.push(m.take(int(op - 0x84)))
		case 'a': // APPEND
			m.pop()
			m.top()
		case 'e', 0x90: // APPENDS, ADDITEMS
			m.marked()
			m.top()
		case 's': // SETITEM
			pair := m.take(2)
			m.set(pair)
		case 'u': // SETITEMS
			pairs := m.marked()
			m.set(pairs)
		case 'd': // DICT
			pairs := m.marked()
			m.push(dict{})
			m.set(pairs)
		case 'l': // LIST
			m.marked()
			m.push(&call{name: "list"})
		case 'c': // GLOBAL
			module := m.line()
			m.push(&call{name: module + "." + m.line()})
		case 0x93: // STACK_GLOBAL
			n := m.take(2)
			m.push(&call{name: fmt.Sprint(n[0], ".", n[1])})
		case 'R', 0x81: // REDUCE, NEWOBJ
			args, _ := m.pop().([]any)
			f, ok := m.pop().(*call)
			if !ok {
				f = &call{}
			}
			m.push(&call{name: f.name, args: args})
		case 'b': // BUILD: the state of an object, which nobody asks for
			m.pop()
			m.top()
		case 'Q': // BINPERSID
			r, _ := m.pop().([]any)
			m.push(reference(r))
		case 'q': // BINPUT
			m.remember(uint32(m.uint(1)))
		case 'r': // LONG_BINPUT
			m.remember(uint32(m.uint(4)))
		case 0x94: // MEMOIZE
			m.remember(uint32(len(m.memo)))
		case 'h': // BINGET
			m.recall(uint32(m.uint(1)))
		case 'j': // LONG_BINGET
			m.recall(uint32(m.uint(4)))
		default:
			return nil, fmt.Errorf("%w: opcode %#x at %d", errPickle, op, m.at-1)
		}
	}
}

// long is a number of at most eight bytes; of a longer one 0.
func long(b []byte) int64 {
	if len(b) == 0 || len(b) > 8 {
		return 0
	}
	fill := byte(0)
	if b[len(b)-1] >= 0x80 {
		fill = 0xff
	}
	w := bytes.Repeat([]byte{fill}, 8)
	copy(w, b)
	return int64(binary.LittleEndian.Uint64(w))
}

// entries are the string keys of a dict or an OrderedDict.
func entries(v any) dict {
	switch v := v.(type) {
	case dict:
		return v
	case *call:
		if v.name == "collections.OrderedDict" && len(v.args) > 0 {
			d, _ := v.args[0].(dict)
			return d
		}
	}
	return nil
}

// A tensor is where a pickled tensor's numbers lie.
type tensor struct {
	key    string // of its storage
	class  string // "torch.LongStorage"
	offset int64  // in elements
	shape  []int64
}

// asTensor reads torch._utils._rebuild_tensor_v2(storage, offset, size, stride, …).
func asTensor(v any) (t tensor, ok bool) {
	c, is := v.(*call)
	if !is || c.name != "torch._utils._rebuild_tensor_v2" && c.name != "torch._utils._rebuild_tensor" || len(c.args) < 3 {
		return t, false
	}
	r, is := c.args[0].(reference)
	if !is || len(r) < 5 || r[0] != "storage" {
		return t, false
	}
	class, is := r[1].(*call)
	key, isKey := r[2].(string)
	offset, isOffset := c.args[1].(int64)
	size, isSize := c.args[2].([]any)
	if !is || !isKey || !isOffset || !isSize {
		return t, false
	}
	for _, d := range size {
		n, is := d.(int64)
		if !is {
			return t, false
		}
		t.shape = append(t.shape, n)
	}
	t.key, t.class, t.offset = key, class.name, offset
	return t, true
}

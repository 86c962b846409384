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

// run carries out the opcodes up to STOP, and returns what is then on top.
func (m *machine) run() (any, error) {
	for {
		switch op := m.bytes(1)[0]; {
		case op == '.': // STOP
			return m.pop(), nil
		case op == 0x80: // PROTO
			if v := m.bytes(1)[0]; v > 5 {
				return nil, fmt.Errorf("%w: protocol %d", errPickle, v)
			}
		case opcodes[op] == nil:
			return nil, fmt.Errorf("%w: opcode %#x at %d", errPickle, op, m.at-1)
		default:
			opcodes[op](m)
		}
	}
}

// opcodes are what each of them does, under its name in Lib/pickle.py. PROTO and STOP are [machine.run]'s.
var opcodes = [256]func(m *machine){
	0x95: func(m *machine) { m.uint(8) },       // FRAME
	'(':  func(m *machine) { m.push(mark{}) },  // MARK
	'0':  func(m *machine) { m.pop() },         // POP
	'1':  func(m *machine) { m.marked() },      // POP_MARK
	'2':  func(m *machine) { m.push(m.top()) }, // DUP

	'N':  func(m *machine) { m.push(nil) },                                                       // NONE
	0x88: func(m *machine) { m.push(true) },                                                      // NEWTRUE
	0x89: func(m *machine) { m.push(false) },                                                     // NEWFALSE
	'J':  func(m *machine) { m.push(int64(int32(m.uint(4)))) },                                   // BININT
	'K':  func(m *machine) { m.push(int64(m.uint(1))) },                                          // BININT1
	'M':  func(m *machine) { m.push(int64(m.uint(2))) },                                          // BININT2
	0x8a: func(m *machine) { m.push(long(m.bytes(int(m.uint(1))))) },                             // LONG1: little-endian, two's complement
	'G':  func(m *machine) { m.push(math.Float64frombits(binary.BigEndian.Uint64(m.bytes(8)))) }, // BINFLOAT
	'X':  func(m *machine) { m.push(string(m.bytes(int(m.uint(4))))) },                           // BINUNICODE
	0x8c: func(m *machine) { m.push(string(m.bytes(int(m.uint(1))))) },                           // SHORT_BINUNICODE
	'U':  func(m *machine) { m.skip(1) },                                                         // SHORT_BINSTRING
	'C':  func(m *machine) { m.skip(1) },                                                         // SHORT_BINBYTES
	'T':  func(m *machine) { m.skip(4) },                                                         // BINSTRING
	'B':  func(m *machine) { m.skip(4) },                                                         // BINBYTES

	')':  func(m *machine) { m.push([]any{}) },      // EMPTY_TUPLE
	't':  func(m *machine) { m.push(m.marked()) },   // TUPLE
	0x85: func(m *machine) { m.push(m.take(1)) },    // TUPLE1
	0x86: func(m *machine) { m.push(m.take(2)) },    // TUPLE2
	0x87: func(m *machine) { m.push(m.take(3)) },    // TUPLE3
	']':  (*machine).list,                           // EMPTY_LIST
	0x8f: (*machine).list,                           // EMPTY_SET
	'l':  func(m *machine) { m.marked(); m.list() }, // LIST
	'a':  func(m *machine) { m.pop(); m.top() },     // APPEND
	'e':  func(m *machine) { m.marked(); m.top() },  // APPENDS
	0x90: func(m *machine) { m.marked(); m.top() },  // ADDITEMS

	'}': func(m *machine) { m.push(dict{}) },                                    // EMPTY_DICT
	's': func(m *machine) { pair := m.take(2); m.set(pair) },                    // SETITEM
	'u': func(m *machine) { pairs := m.marked(); m.set(pairs) },                 // SETITEMS
	'd': func(m *machine) { pairs := m.marked(); m.push(dict{}); m.set(pairs) }, // DICT

	'c':  func(m *machine) { module := m.line(); m.push(&call{name: module + "." + m.line()}) }, // GLOBAL
	0x93: func(m *machine) { n := m.take(2); m.push(&call{name: fmt.Sprint(n[0], ".", n[1])}) }, // STACK_GLOBAL
	'R':  (*machine).reduce,                                                                     // REDUCE
	0x81: (*machine).reduce,                                                                     // NEWOBJ
	'b':  func(m *machine) { m.pop(); m.top() },                                                 // BUILD: the state of an object, which nobody asks for
	'Q':  func(m *machine) { r, _ := m.pop().([]any); m.push(reference(r)) },                    // BINPERSID

	'q':  func(m *machine) { m.remember(uint32(m.uint(1))) },   // BINPUT
	'r':  func(m *machine) { m.remember(uint32(m.uint(4))) },   // LONG_BINPUT
	0x94: func(m *machine) { m.remember(uint32(len(m.memo))) }, // MEMOIZE
	'h':  func(m *machine) { m.recall(uint32(m.uint(1))) },     // BINGET
	'j':  func(m *machine) { m.recall(uint32(m.uint(4))) },     // LONG_BINGET
}

// skip passes over bytes, whose number is written in so many, and leaves None in their place.
func (m *machine) skip(width int) {
	m.bytes(int(m.uint(width)))
	m.push(nil)
}

func (m *machine) list() { m.push(&call{name: "list"}) }

// reduce calls what is below the top with the arguments on it.
func (m *machine) reduce() {
	args, _ := m.pop().([]any)
	f, ok := m.pop().(*call)
	if !ok {
		f = &call{}
	}
	m.push(&call{name: f.name, args: args})
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

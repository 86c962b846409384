package record

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// printed is so many bytes of numbered lines.
func printed(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "line %09d\n", i)
	}
	return b.Bytes()[:n]
}

func small(t *testing.T) *Output {
	t.Helper()
	o, err := CreateOutput(filepath.Join(t.TempDir(), "output.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func(head, size int64) func() { return func() { headKept, segment = head, size } }(headKept, segment))
	headKept, segment = 1000, 300
	return o
}

// write writes in pieces of any size.
func write(t *testing.T, o *Output, text []byte) {
	t.Helper()
	for rest := text; len(rest) > 0; {
		n := min(len(rest), 1+rand.IntN(700))
		if wrote, err := o.Write(rest[:n]); err != nil || wrote != n {
			t.Fatalf("wrote %d of %d: %v", wrote, n, err)
		}
		rest = rest[n:]
	}
}

func whole(t *testing.T, path string) string {
	t.Helper()
	in, err := OpenOutput(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	text, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An output of any length begins and ends as what was printed, says what is missing, and reads the same whether launch was
// killed or has closed it.
func TestOutput(t *testing.T) {
	for _, n := range []int{0, 1, 999, 1000, 1001, 1300, 1301, 2199, 2200, 2201, 2500, 2501, 10000, 12345} {
		o, text := small(t), printed(n)
		write(t, o, text)
		killed := whole(t, o.path)
		o.Close()
		closed, err := os.ReadFile(o.path)
		if err != nil {
			t.Fatal(err)
		}
		if string(closed) != killed || whole(t, o.path) != killed {
			t.Fatalf("%d bytes: closed it reads otherwise than killed", n)
		}
		if left, _ := filepath.Glob(o.path + ".*"); len(left) > 0 {
			t.Errorf("%d bytes: it leaves %v", n, left)
		}
		if n <= 1000+4*300 {
			if killed != string(text) {
				t.Errorf("%d bytes are not kept as they were", n)
			}
			continue
		}
		head, tail, found := strings.Cut(killed, "\n[launch: ")
		number, tail, _ := strings.Cut(tail, " bytes of the output were left out here]\n")
		if !found && string(text) == killed {
			continue
		}
		if !found || head != string(text[:1000]) || !strings.HasSuffix(string(text), tail) || len(tail) < 3*300 || len(tail) > 4*300 ||
			number != fmt.Sprint(n-len(head)-len(tail)) {
			t.Errorf("%d bytes: head of %d, %s left out, tail of %d", n, len(head), number, len(tail))
		}
	}
}

// A kill between the joining and the clearing up doubles nothing.
func TestOutputJoinedAndKilled(t *testing.T) {
	o := small(t)
	write(t, o, printed(5000))
	text := whole(t, o.path)
	if err := os.WriteFile(o.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if whole(t, o.path) != text {
		t.Error("the tail is read twice")
	}
}

// What was left out is known of a closed output and of one that was killed.
func TestLeftOut(t *testing.T) {
	o, err := CreateOutput(filepath.Join(t.TempDir(), "output.log"))
	if err != nil {
		t.Fatal(err)
	}
	block := printed(1 << 20)
	for range 50 {
		o.Write(block)
	}
	if left := LeftOut(o.path); left != 16<<20 {
		t.Errorf("killed: %d", left)
	}
	o.Close()
	if left := LeftOut(o.path); left != 16<<20 {
		t.Errorf("closed: %d", left)
	}
	if info, err := os.Stat(o.path); err != nil || info.Size() > 41<<20 {
		t.Errorf("it is of %d bytes", info.Size())
	}
	if lines, err := Tail(o.path, 2); err != nil || len(lines) != 2 {
		t.Errorf("its tail is %v, %v", lines, err)
	}
}

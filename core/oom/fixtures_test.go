package oom

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/launch-ml/launch/core/job"
)

// A fixture is one log of testdata, and beside it how it was made and what its report must say. Only the fields named
// there are compared; null means that the report must not say.
type fixture struct {
	name   string
	log    []byte
	Made   string         `json:"made"`
	Expect map[string]any `json:"expect"`
}

func fixtures(t testing.TB) []fixture {
	t.Helper()
	names, err := filepath.Glob("testdata/*/*.log")
	if err != nil || len(names) < 60 {
		t.Fatalf("found %d logs in testdata: %v", len(names), err)
	}
	var out []fixture
	for _, name := range names {
		f := fixture{name: strings.TrimSuffix(strings.TrimPrefix(name, "testdata/"), ".log")}
		var err error
		if f.log, err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(strings.TrimSuffix(name, ".log") + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &f); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if f.Made == "" || len(f.Expect) < 2 {
			t.Fatalf("%s does not say how it was made, or expects nothing", name)
		}
		out = append(out, f)
	}
	return out
}

func fixtureNamed(t testing.TB, name string) fixture {
	t.Helper()
	for _, f := range fixtures(t) {
		if f.name == name {
			return f
		}
	}
	t.Fatalf("no fixture %s", name)
	return fixture{}
}

// plain is a Detector without signs. What it looks for never changes and takes two milliseconds to make, which tests that
// split a log at every byte share.
var plain = sync.OnceValue(func() *Detector {
	d, err := NewDetector(job.Signs{})
	if err != nil {
		panic(err)
	}
	return d
})

// readIn reports on a log that arrives in pieces, whose ends next returns.
func readIn(t testing.TB, log []byte, next func(at int) int) Report {
	t.Helper()
	p := plain()
	d := &Detector{words: p.words, signs: p.signs}
	for at := 0; at < len(log); {
		to := min(len(log), max(at+1, next(at)))
		if n, err := d.Write(log[at:to]); n != to-at || err != nil {
			t.Fatalf("Write took %d of %d bytes: %v", n, to-at, err)
		}
		at = to
	}
	return d.Report(Exit{})
}

func newDetector(t testing.TB, signs job.Signs) *Detector {
	t.Helper()
	d, err := NewDetector(signs)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func whole(int) int { return 1 << 30 }

func TestFixtures(t *testing.T) {
	for _, f := range fixtures(t) {
		t.Run(f.name, func(t *testing.T) {
			b, err := json.Marshal(readIn(t, f.log, whole))
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(b, &got); err != nil {
				t.Fatal(err)
			}
			for k, want := range f.Expect {
				if !cmp.Equal(want, got[k]) {
					t.Errorf("%s is %v, want %v", k, got[k], want)
				}
			}
			if t.Failed() {
				t.Logf("the report was %s", b)
			}
		})
	}
}

// TestSplitAnywhere: a pseudo-terminal hands over bytes as it likes, and the verdict must not depend on it.
func TestSplitAnywhere(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, f := range fixtures(t) {
		t.Run(f.name, func(t *testing.T) {
			want := readIn(t, f.log, whole)
			pieces := map[string]func(int) int{
				"byte by byte": func(at int) int { return at + 1 },
				"at random":    func(at int) int { return at + 1 + rnd.IntN(40) },
				"lines":        func(at int) int { return at + 1 + strings.IndexByte(string(f.log[at:])+"\n", '\n') },
			}
			for how, next := range pieces {
				if diff := cmp.Diff(want, readIn(t, f.log, next)); diff != "" {
					t.Errorf("%s (-whole +split):\n%s", how, diff)
				}
			}
		})
	}
}

// TestEachByte splits short logs in two at every byte.
func TestEachByte(t *testing.T) {
	for _, f := range fixtures(t) {
		if len(f.log) > 500 {
			continue
		}
		want := readIn(t, f.log, whole)
		for at := 1; at < len(f.log); at++ {
			got := readIn(t, f.log, func(from int) int {
				if from == 0 {
					return at
				}
				return len(f.log)
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s, split after byte %d (-whole +split):\n%s", f.name, at, diff)
			}
		}
	}
}

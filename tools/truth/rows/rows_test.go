package rows

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// A told is a test that is told of, to see what Check says.
type told struct{ errors []string }

func (*told) Helper()             {}
func (*told) Logf(string, ...any) {}
func (r *told) Errorf(format string, v ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, v...))
}

const resnet = `{"family": "torchvision", "rows": [{"name": "resnet18", "params": %d, "saved": %d, "peak": %d,
	"args": {"net": "resnet18", "batch": 2, "size": 224, "precision": "%s", "optimizer": "sgd"}}]}`

// Measured with torch 2.15 and torchvision 0.29 on the meta device; each figure moved beyond its limit is seen.
func TestCheck(t *testing.T) {
	for name, tt := range map[string]struct {
		params, saved, peak int64
		precision, says     string
	}{
		"as measured":        {11689512, 43201860, 188274996, "fp32", ""},
		"one parameter":      {11689513, 43201860, 188274996, "fp32", "parameters"},
		"saved 2 % less":     {11689512, 42337823, 188274996, "fp32", "saves"},
		"peak 3 % more":      {11689512, 43201860, 193923246, "fp32", "-2.91 %"},
		"peak 4 % less":      {11689512, 43201860, 180743996, "fp32", "+4.17 %"},
		"another precision":  {11689512, 43201860, 188274996, "fp16", "saves"},
		"no such recording":  {0, 0, 0, "", "read recording"},
		"an unknown network": {0, 0, 0, "none", "no formula"},
	} {
		path := filepath.Join(t.TempDir(), "steps.json")
		text := fmt.Sprintf(resnet, tt.params, tt.saved, tt.peak, tt.precision)
		switch tt.precision {
		case "":
			text = "{"
		case "none":
			text = strings.Replace(text, `"net": "resnet18"`, `"net": "resnet19"`, 1)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var r told
		Check(&r, path)
		got := strings.Join(r.errors, "; ")
		if tt.says == "" && got != "" || !strings.Contains(got, tt.says) {
			t.Errorf("%s: told %q, want %q", name, got, tt.says)
		}
	}
}

// What no tensor stands behind is no part of live bytes, and the sums build on one another.
func TestSums(t *testing.T) {
	e := mem.Estimate{Items: []mem.Item{{Kind: mem.Saved, Bytes: 1}, {Kind: mem.Late, Bytes: 10}, {Kind: mem.Workspace, Bytes: 100},
		{Kind: mem.Slack, Bytes: 1000}, {Kind: mem.Context, Bytes: 10000}}}
	tensors, allocated, reserved, used := Sums(e)
	if tensors != 11 || allocated != 111 || reserved != 1111 || used != 11111 {
		t.Errorf("tensors %d, allocated %d, reserved %d, used %d", tensors, allocated, reserved, used)
	}
}

// What the allocator is replayed to hand out is the tensors themselves, rounded: of every recorded row of every family. A
// request that is made twice, or for a line that is none of the card's, is seen here.
func TestAllocatedIsLive(t *testing.T) {
	files, err := All("../../..")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range files {
		for _, r := range f.Rows {
			p, err := r.Price()
			if err != nil {
				t.Error(err)
				continue
			}
			for _, expandable := range []bool{false, true} {
				a := mem.Allocator{Caching: mem.Caching{Expandable: expandable}}
				u, ok := a.Replay(p.Tensors)
				live := p.Live()
				// A block of more than 10 MiB may be up to 1 MiB larger than what it was asked for.
				if most := live + live/20 + 8*unit.MiB; !ok || u.Allocated < live || u.Allocated > most || u.Reserved < u.Allocated {
					t.Errorf("%s %s (expandable %v): %v of tensors, %v allocated, %v reserved", r.Name, r.Settings(), expandable, live, u.Allocated, u.Reserved)
				}
				n++
			}
		}
	}
	if n < 200 {
		t.Errorf("only %d replays", n)
	}
}

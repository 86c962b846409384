package oom

import (
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/launch-ml/launch/core/job"
)

// FuzzDetector: any bytes, split anywhere, give the same report, and none of them a crash.
func FuzzDetector(f *testing.F) {
	for _, x := range fixtures(f) {
		if len(x.log) < 1200 {
			f.Add(x.log, uint16(7))
		}
	}
	f.Fuzz(func(t *testing.T, log []byte, step uint16) {
		want := readIn(t, log, whole)
		got := readIn(t, log, func(at int) int { return at + int(step%997) + 1 })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("split in steps of %d (-whole +split):\n%s", step%997+1, diff)
		}
		d := newDetector(t, trainer)
		write(t, d, Log, string(log))
		write(t, d, Stderr, string(log))
		d.Judge(Seen{Exit: Exited(int(step))}, trainer)
	})
}

// TestBounded: gigabytes without a line end, without a frame that closes, of nothing but errors, are held in little.
func TestBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes 150 MB")
	}
	block := make([]byte, 1<<20)
	for name, fill := range map[string]string{
		"no line end":           "0123456789abcdef",
		"an open string":        "\x1b]8;;abcdefgh",
		"carriage returns only": "  3%|#    | 3/100 [00:01<00:20, 1.2it/s]\r",
		"nothing but errors":    "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB\n",
		"nothing but frames":    "  File \"/home/user/train.py\", line 4, in forward\nTraceback (most recent call last):\n",
		"an open rich record":   "[11/21/26 21:00:00] INFO     a message      train.py:1\n                             and more of it\n",
	} {
		t.Run(name, func(t *testing.T) {
			for at := 0; at < len(block); {
				at += copy(block[at:], fill)
			}
			d := newDetector(t, trainer)
			before := heap()
			for range 24 {
				if _, err := d.Write(block); err != nil {
					t.Fatal(err)
				}
			}
			if grown := heap() - before; grown > 16<<20 {
				t.Errorf("it holds %d MiB after 24 MiB", grown>>20)
			}
			d.Judge(Seen{Exit: Exited(1)}, job.Signs{})
			runtime.KeepAlive(d)
		})
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

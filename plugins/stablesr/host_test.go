package stablesr

import (
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// A sample at a crop of 512: 3 MiB, and three kernels.
const sample512 = 3*unit.MiB + 3*21*21*4

func hostTurns(h *ladder.HostLadder) string {
	var out []string
	for _, r := range h.Rungs {
		to := ""
		for _, e := range r.Edits {
			to += e.At.Path[strings.LastIndexByte(e.At.Path, '.')+1:] + "=" + e.To
		}
		out = append(out, to)
	}
	return strings.Join(out, " ")
}

func TestHostLadder(t *testing.T) {
	named := func(edit func(string) string, more ...string) *job.Job {
		dir := checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": edit})
		return mine(t, dir, append([]string{"main.py", "--train", "--base", "r.yaml", "--scale_lr", "False"}, more...)...)
	}
	for _, tt := range []struct {
		name    string
		j       *job.Job
		batches unit.Bytes // of 6, of both loaders: workers × 2 ahead, two in use and one that Lightning looks at
		sample  unit.Bytes
		turns   string
	}{
		{"as its recipe is", named(nil, "--gpus", "0,"), 2 * 15, sample512, " num_workers=3 num_workers=1 num_workers=0"},
		{"two for each sample where it does not say", named(replace("    num_workers: 6\n", ""), "--gpus", "0,"), 2 * 27, sample512,
			" num_workers=6 num_workers=3 num_workers=1 num_workers=0"},
		{"in every process", named(nil, "--gpus", "0,1,"), 2 * 2 * 15, sample512, " num_workers=3 num_workers=1 num_workers=0"},
		{"no validation", named(replace("    validation:\n      target: basicsr.data.realesrgan_dataset.RealESRGANDataset\n      params:\n        crop_size: 512\n", ""), "--gpus", "0,"),
			15, sample512, " num_workers=3 num_workers=1 num_workers=0"},
		{"a word of the dotlist", named(nil, "--gpus", "0,", "data.params.num_workers=2"), 2 * 7, sample512, " num_workers=1 num_workers=0"},
	} {
		set := laddersOf(t, tt.j, card(48*unit.GiB))
		h := set.Host
		if got := hostTurns(h); got != tt.turns {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.turns)
		}
		if e := h.At(0, ladder.SharedMemory, 6); !e.Known() || e.Total() != tt.batches*6*tt.sample {
			t.Errorf("%s: /dev/shm %v (%s), want %v", tt.name, e.Total(), e.Unknown, tt.batches*6*tt.sample)
		}
		if last := h.Rungs[len(h.Rungs)-1]; len(last.Edits) > 0 { // the program reads what the rung says
			r := after(t, tt.j, last.Edits)
			if n, ok := integer(r.root, keyWorkers); !ok || n != 0 {
				t.Errorf("%s: the program would read %d workers", tt.name, n)
			}
		}
	}
}

// The edge fork's data set gives as much of edges as of the image.
func TestHostOfEdges(t *testing.T) {
	dir := checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": nil})
	write(t, filepath.Join(dir, dataSource), "return_d = {'gt': img_gt, 'img_edge': img_edge}\n")
	j := mine(t, dir, "main.py", "--train", "--base", "r.yaml", "--gpus", "0,", "--scale_lr", "False")
	if got, want := laddersOf(t, j, card(48*unit.GiB)).Host.At(0, ladder.SharedMemory, 6).Total(), 2*15*6*(sample512+3*unit.MiB); got != want {
		t.Errorf("/dev/shm %v, want %v", got, want)
	}
	other := checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": replace("target: basicsr.data.realesrgan_dataset.RealESRGANDataset", "target: mine.Pairs")})
	j = mine(t, other, "main.py", "--train", "--base", "r.yaml", "--gpus", "0,", "--scale_lr", "False")
	if laddersOf(t, j, card(48*unit.GiB)).Host.At(0, ladder.SharedMemory, 6).Known() {
		t.Error("another data set is known")
	}
}

// At the start every process holds the model and what it is loaded from, 11 to 12 GiB (facts of upstream: 5.3 + 5.2, or
// 3.9 of OpenCLIP, beside the interpreter); that is none of what a loader needs later, and no worker gives it back.
func TestHostStates(t *testing.T) {
	lines := func(j *job.Job, d gpu.Device) []mem.HostLine { return laddersOf(t, j, d).Host.Rungs[0].Lines }
	sum := func(ls []mem.HostLine, when mem.Moment, kind mem.Kind) (n unit.Bytes) {
		for _, l := range ls {
			if l.When == when && l.Kind == kind {
				n += l.Bytes
			}
		}
		return n
	}
	one := lines(stock(t), card(48*unit.GiB))
	model := sum(one, mem.Starting, mem.HostModel)
	if model < 4*unit.GiB || model > 12*unit.GiB {
		t.Errorf("the model and what it is loaded from: %v", model)
	}
	dir := checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": nil})
	two := lines(mine(t, dir, "main.py", "--train", "--base", "r.yaml", "--gpus", "0,1,", "--scale_lr", "False"), card(48*unit.GiB))
	if got := sum(two, mem.Starting, mem.HostModel); got != 2*model {
		t.Errorf("two processes: %v, want twice %v", got, model)
	}
	if a, b := sum(one, mem.Training, mem.Saving), sum(two, mem.Training, mem.Saving); a <= 0 || a != b {
		t.Errorf("a saved state takes %v, and of two processes, of which one saves, %v", a, b)
	}
	if got := sum(lines(stock(t), gpu.Device{Kind: gpu.CPU, Total: 8 * unit.GiB}), mem.Starting, mem.HostModel); got != 0 {
		t.Errorf("on a CPU there is no way to the card: %v", got)
	}
}

func TestHostImages(t *testing.T) {
	dir := checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": replace("        queue_size: 180\n", "        queue_size: 180\n        gt_path: [hr, none]\n")})
	os.MkdirAll(filepath.Join(dir, "hr"), 0o755)
	f, err := os.Create(filepath.Join(dir, "hr", "a.png"))
	if err != nil {
		t.Fatal(err)
	}
	if err := png.Encode(f, image.NewGray(image.Rect(0, 0, 200, 100))); err != nil {
		t.Fatal(err)
	}
	f.Close()
	h := laddersOf(t, mine(t, dir, "main.py", "--train", "--base", "r.yaml", "--gpus", "0,", "--scale_lr", "False"), card(48*unit.GiB)).Host
	want := []unit.Bytes{6 * 200 * 100 * 27, 6 * 7680 * 4320 * 27} // of the training, and of the validation, which names none
	var got []unit.Bytes
	for _, l := range h.Rungs[0].Lines {
		if l.Kind == mem.Decoded {
			got = append(got, l.Bytes)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("decoded images %v, want %v", got, want)
	}
}

// Where the micro-batch is split, the workers are held at what they were; the host's rung outranks that.
func TestHostRungIsNoCardRung(t *testing.T) {
	dir := checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": replace("    num_workers: 6\n", "")})
	set := laddersOf(t, mine(t, dir, "main.py", "--train", "--base", "r.yaml", "--gpus", "0,", "--scale_lr", "False"), card(24*unit.GiB))
	for _, r := range set.Shared.Rungs {
		for _, e := range r.Edits {
			if e.Knob == knobWorkers && (e.To != "12" || e.Cost != "none" || e.At != set.Host.Rungs[1].Edits[0].At) {
				t.Errorf("rung %q turns the workers: %+v", r.Name, e)
			}
		}
	}
}

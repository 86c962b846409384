package moco

import (
	"archive/zip"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/core/unit"
)

var checkpoints = []string{"checkpoint_113.pth.tar", "checkpoint_215.pth.tar"}

func readFixture(t *testing.T, name string) (checkpoint, []byte) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	c := checkpoint{path: name, size: unit.Bytes(len(b))}
	if err := c.readFrom(bytes.NewReader(b), int64(len(b))); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c, b
}

func TestCheckpoint(t *testing.T) {
	for _, name := range checkpoints {
		c, _ := readFixture(t, name)
		if c.epoch != 3 || c.arch != "resnet50" || c.k != 64 || !c.hasPtr || c.ptr != 24 {
			t.Errorf("%s: read %+v", name, c)
		}
	}
}

// patched is a copy of a fixture with another pointer.
func patched(t *testing.T, name string, to int64) []byte {
	t.Helper()
	c, b := readFixture(t, name)
	b = slices.Clone(b)
	for _, p := range c.patch(to).Bytes {
		copy(b[p.At:], p.New)
	}
	return b
}

func TestPatchedPointer(t *testing.T) {
	for _, name := range checkpoints {
		b := patched(t, name, 16)
		_, before := readFixture(t, name)
		if len(b) != len(before) || bytes.Equal(b, before) {
			t.Fatalf("%s: nothing was changed, or the size", name)
		}
		var c checkpoint
		if err := c.readFrom(bytes.NewReader(b), int64(len(b))); err != nil || c.ptr != 16 { // checks the sums too
			t.Errorf("%s: the copy stands at %d: %v", name, c.ptr, err)
		}
	}
}

// PyTorch itself loads the copy, with the other pointer and everything else as it was.
func TestPyTorchLoadsThePatchedCopy(t *testing.T) {
	python := os.Getenv("LAUNCH_TEST_PYTHON")
	if python == "" {
		python = "/usr/bin/python3"
	}
	args := []string{"-c", `
import sys, zipfile, torch
for copy, old in zip(sys.argv[1::2], sys.argv[2::2]):
    assert zipfile.ZipFile(copy).testzip() is None
    a, b = (torch.load(p)["state_dict"] for p in (copy, old))
    same = [k for k in a if torch.equal(a[k], b[k])]
    print(int(a["module.queue_ptr"]), int(b["module.queue_ptr"]), len(a) - len(same))`}
	for _, name := range checkpoints {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, patched(t, name, 16), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path, filepath.Join("testdata", name))
	}
	out, err := exec.Command(python, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("this test needs PyTorch: set LAUNCH_TEST_PYTHON (%s: %v\n%s)", python, err, out)
	}
	if got := string(out); got != strings.Repeat("16 24 1\n", len(checkpoints)) {
		t.Errorf("PyTorch reads %q", got)
	}
}

// A torn file, and one that is something else, are said to be so.
func TestCheckpointRefuses(t *testing.T) {
	_, b := readFixture(t, checkpoints[0])
	flip := func(at int) []byte {
		c := slices.Clone(b)
		c[at] ^= 0xff
		return c
	}
	at := bytes.Index(b, []byte("queue_ptr"))
	for name, b := range map[string][]byte{
		"empty": nil, "torn": b[:len(b)/2], "no archive": []byte("hello"), "a flipped bit in the pickle": flip(at),
	} {
		var c checkpoint
		if err := c.readFrom(bytes.NewReader(b), int64(len(b))); err == nil {
			t.Errorf("%s: read %+v", name, c)
		}
	}
}

func FuzzUnpickle(f *testing.F) {
	for _, s := range []string{"\x80\x02}q\x00.", "\x80\x02(K\x01K\x02t.", "\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R.", "(((((0", "\x80\x02}(X\x01\x00\x00\x00aK\x01u."} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := unpickle(b)
		if err == nil {
			for _, e := range entries(v) {
				asTensor(e)
			}
		}
	})
}

func TestMain(m *testing.M) { plugintest.Main(m) }

// FuzzCheckpoint reads archives of any pickle and any pointer, with some byte of the archive changed. The archive is made in
// the test: nearly every change of a whole one ends at a checksum, and nothing after that would be tried.
func FuzzCheckpoint(f *testing.F) {
	for _, name := range checkpoints {
		z, err := zip.OpenReader(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		parts := map[string][]byte{}
		for _, e := range z.File {
			if parts[filepath.Base(e.Name)], err = contents(e, maxPickle); err != nil {
				f.Fatal(err)
			}
		}
		z.Close()
		f.Add(parts["data.pkl"], parts["1"], uint16(0), byte(0))
		f.Add(parts["data.pkl"], parts["1"], uint16(100), byte(1))
	}
	f.Fuzz(func(t *testing.T, pickle, pointer []byte, at uint16, flip byte) {
		if len(pickle) > 1<<16 || len(pointer) > maxPointer+1 {
			return
		}
		var buf bytes.Buffer
		z := zip.NewWriter(&buf)
		for _, part := range []struct {
			name string
			text []byte
		}{{"a/data.pkl", pickle}, {"a/byteorder", []byte("little")}, {"a/data/0", nil}, {"a/data/1", pointer}} {
			if w, err := z.CreateHeader(&zip.FileHeader{Name: part.name, Method: zip.Store}); err != nil {
				t.Fatal(err)
			} else if _, err := w.Write(part.text); err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		b := buf.Bytes()
		b[int(at)%len(b)] ^= flip
		var c checkpoint
		if c.readFrom(bytes.NewReader(b), int64(len(b))) != nil || !c.hasPtr {
			return
		}
		for _, p := range c.patch(8).Bytes {
			if p.At < 0 || p.At+int64(len(p.New)) > int64(len(b)) {
				t.Errorf("writes %d bytes at %d of %d", len(p.New), p.At, len(b))
			}
		}
	})
}

// resuming is a moco checkout with a saved state whose queue of 64 stands at 24, and a job on it.
func resuming(t *testing.T, batch string, more ...string) (string, *job.Job) {
	t.Helper()
	dir := checkout(t, "v2", nil)
	b, err := os.ReadFile(filepath.Join("testdata", checkpoints[0]))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "checkpoint_0002.pth.tar"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-b", batch, "--moco-k", "64", "--resume", "checkpoint_0002.pth.tar", "data"}, more...)
	return dir, mine(t, asked(dir, 2, with("main_moco.py", args...)...))
}

// The pointer of a saved queue and the batch: halving is always safe, anything else is refitted in a copy or said.
func TestQueuePointer(t *testing.T) {
	_, j := resuming(t, "16")
	if !says(j.Warnings, "stands at 24, which is no multiple of the 16 keys of a step") {
		t.Errorf("warns %q", j.Warnings)
	}
	if _, j := resuming(t, "8"); says(j.Warnings, "stands at") {
		t.Errorf("8 divides 24: %q", j.Warnings)
	}
	_, j = resuming(t, "8")
	l := training(t, ladders(t, j, 24*unit.GiB))
	for _, r := range l.Rungs {
		b, _ := strconv.ParseInt(to(r, job.MicroBatch), 10, 64)
		if b == 0 {
			continue
		}
		want := ""
		if 24%b != 0 {
			want = strconv.FormatInt(24/b*b, 10)
		}
		if got := to(r, knobPointer); got != want {
			t.Errorf("batch %d: pointer to %q, want %q", b, got, want)
		}
		out, err := j.Rewrite(r.Edits, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if want == "" != (len(out.Files) == 0) {
			t.Errorf("batch %d: %d files are copied", b, len(out.Files))
		}
		if want != "" && (slices.Contains(out.Command.Args, "checkpoint_0002.pth.tar") || len(out.Files[0].Patches) != 1) {
			t.Errorf("batch %d: runs %v on %+v", b, out.Command.Args, out.Files)
		}
	}
}

// The queue that a saved state holds must be as long as the job's.
func TestQueueLengthOfTheState(t *testing.T) {
	if _, j := resuming(t, "8", "--moco-k", "128"); !says(j.Warnings, "has 64 keys and the job's has 128") {
		t.Errorf("warns %q", j.Warnings)
	}
	if _, j := resuming(t, "8", "-a", "resnet18"); !says(j.Warnings, "a state of resnet50") {
		t.Errorf("warns %q", j.Warnings)
	}
}

// A resumed run of facebookresearch's needs more: the state that it loads stays on the card.
func TestResumedStateStaysOnTheCard(t *testing.T) {
	_, j := resuming(t, "8")
	l := training(t, ladders(t, j, 24*unit.GiB))
	size := unit.Bytes(0)
	for _, it := range l.Rungs[l.Asked].At(0).Items {
		if it.Kind == mem.Late {
			size += it.Bytes
		}
	}
	info, err := os.Stat(filepath.Join("testdata", checkpoints[0]))
	if err != nil {
		t.Fatal(err)
	}
	if size != unit.Bytes(info.Size()) {
		t.Errorf("the state is %v in the ledger, and %d bytes long", size, info.Size())
	}
	// solar-ssl's branch loads it into the host's memory.
	dir := checkout(t, "solar_exp", nil)
	if err := os.WriteFile(filepath.Join(dir, "last.pth"), make([]byte, 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	j = mine(t, asked(dir, 2, with("main.py", "--resume", "last.pth")...))
	l = training(t, ladders(t, j, 24*unit.GiB))
	for _, it := range l.Rungs[l.Asked].At(0).Items {
		if it.Kind == mem.Late {
			t.Errorf("%s: %v on the card", it.What, it.Bytes)
		}
	}
}

// A state without what the trainer reads of it, such as a released one: moco-v3 wants its scaler.
func TestStateWithoutAScaler(t *testing.T) {
	dir := checkout(t, "v3", nil)
	b, err := os.ReadFile(filepath.Join("testdata", checkpoints[0]))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.pth.tar"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	j := mine(t, asked(dir, 2, with("main_moco.py", "--resume", "a.pth.tar", "data")...))
	if !says(j.Warnings, `has no "scaler"`) {
		t.Errorf("warns %q", j.Warnings)
	}
	if _, j := resuming(t, "8"); says(j.Warnings, "KeyError") {
		t.Errorf("moco's own state: %q", j.Warnings)
	}
}

func TestMissingState(t *testing.T) {
	for name, script := range map[string]string{"v2": "main_moco.py", "v3": "main_moco.py", "solar_exp": "main.py"} {
		j := mine(t, asked(checkout(t, name, nil), 2, with(script, "--resume", "gone.pth.tar", "data")...))
		if name == "solar_exp" {
			j = mine(t, asked(checkout(t, name, nil), 2, with(script, "--resume", "gone.pth.tar")...))
		}
		if !says(j.Warnings, "there is no saved state gone.pth.tar") {
			t.Errorf("%s: warns %q", name, j.Warnings)
		}
	}
}

// How a retry goes on.
func TestResumption(t *testing.T) {
	edit := func(j *job.Job) string {
		if len(j.Resume.Edits) != 1 {
			return ""
		}
		out, err := j.Rewrite(j.Resume.Edits, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(out.Command.Args, " ")
	}
	j := mine(t, asked(checkout(t, "v2", nil), 2, with("main_moco.py", "data")...))
	if got := edit(j); !strings.HasSuffix(got, "data --resume "+job.SavedPath) || !j.Resume.OnCard {
		t.Errorf("goes on by %q, %+v", got, j.Resume)
	}
	if _, j := resuming(t, "8"); !strings.Contains(edit(j), "--resume "+job.SavedPath) || strings.Contains(edit(j), "checkpoint_0002") {
		t.Errorf("goes on by %q", edit(j))
	}
	j = mine(t, asked(checkout(t, "solar_exp", nil), 2, with("main.py")...))
	if got := edit(j); !strings.HasSuffix(got, "--resume "+job.SavedPath) {
		t.Errorf("goes on by %q", got)
	}
	if len(j.Signs.States) != 2 || !strings.HasSuffix(j.Signs.States[0], "/checkpoints/resnet50/last.pth") {
		t.Errorf("its states are %v", j.Signs.States)
	}
	// No state of solar-ssl's main can be gone on from: what a retry would overwrite is put aside. A split has the same tag.
	dir := checkout(t, "solar", nil)
	j = mine(t, asked(dir, 2, with("main.py")...))
	want := filepath.Join(dir, "checkpoints", "r50_bs256_lr0.06_ep800_lowvram", "last.pth")
	if j.Resume.None == "" || len(j.Resume.Edits) != 0 || !slices.Contains(j.Resume.Aside, want) || j.Exclusive != filepath.Dir(want) {
		t.Errorf("resume %+v, exclusive %s; want %s", j.Resume, j.Exclusive, want)
	}
	plain := checkout(t, "solar", map[string][]string{"src/config_low.py": {"_bs{eff_batch}_", "_bs{self.batch_size}_"}})
	if j := mine(t, asked(plain, 2, with("main.py")...)); filepath.Base(j.Exclusive) != "r50_bs32_lr0.06_ep800_lowvram" {
		t.Errorf("the tag is made after the worker has divided: %s", j.Exclusive)
	}
	one := mine(t, asked(dir, 1, "main.py"))
	if filepath.Base(one.Exclusive) != "r50_bs512_lr0.06_ep800_lowvram" {
		t.Errorf("on one GPU it saves into %s", one.Exclusive)
	}
}

// What changes the queue of a run that can be gone on with is no rung at any cost.
func TestQueueOfAResumableRun(t *testing.T) {
	_, j := resuming(t, "8")
	for _, r := range training(t, ladders(t, j, 80*unit.GiB)).Rungs {
		if to(r, knobQueue) != "" || r.Cost > ladder.Recipe {
			t.Errorf("rung %q", r.Name)
		}
	}
}

// What an attempt has left behind may still hold the port, and the next would stop at "address already in use".
func TestRetryAtAFreshPort(t *testing.T) {
	port := func(args ...string) string {
		j := mine(t, asked(checkout(t, "v2", nil), 2, with("main_moco.py", append(args, "data")...)...))
		if len(j.Resume.Always) == 0 {
			return ""
		}
		return j.Resume.Always[0].To
	}
	for url, want := range map[string]string{
		"tcp://localhost:10001": "tcp://localhost:" + job.FreePort,
		"tcp://127.0.0.1:1":     "tcp://127.0.0.1:" + job.FreePort,
		"tcp://node7:10001":     "", // of another machine nothing is known
		"env://":                "",
	} {
		if got := port("--dist-url", url); got != want {
			t.Errorf("%s: a retry meets at %q, want %q", url, got, want)
		}
	}
	if got := port("--dist-url", "tcp://localhost:10001", "--world-size", "2"); got != "" {
		t.Errorf("on two nodes a retry would meet at %q", got)
	}
	j := mine(t, asked(checkout(t, "solar", nil), 2, with("main.py")...))
	if len(j.Resume.Always) != 1 || !j.Resume.Always[0].Add {
		t.Errorf("the default address: %+v", j.Resume.Always)
	}
}

package states

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/run"
)

// folder is where relative globs begin.
type folder string

func (f folder) Glob(pattern string) []string {
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(string(f), pattern)
	}
	hits, _ := filepath.Glob(pattern)
	return hits
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func archive(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("archive/data.pkl")
	if err == nil {
		_, err = w.Write(bytes.Repeat([]byte("weights"), 100))
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A state counts where it is new and something shows whose it is.
func TestWhoseStateItIs(t *testing.T) {
	whole := archive(t)
	for name, tt := range map[string]struct {
		evidence func(dir string) Evidence
		want     string
	}{
		"nothing shows it":       {func(string) Evidence { return Evidence{} }, ""},
		"its folder is held":     {func(dir string) Evidence { return Evidence{Held: []string{dir + "/runs/b"}} }, "runs/b/0002.pt"},
		"another folder is held": {func(dir string) Evidence { return Evidence{Held: []string{dir + "/runs/bb"}} }, ""},
		"its path was printed": {func(dir string) Evidence {
			return Evidence{Printed: onlyOf(dir + "/runs/b/0002.pt")}
		}, "runs/b/0002.pt"},
		"it was seen being made": {func(dir string) Evidence {
			m, _ := look(dir + "/runs/b/0002.pt")
			return Evidence{Wrote: func(id ID) bool { return id == m.ID }}
		}, "runs/b/0002.pt"},
		"its process reported it": {func(dir string) Evidence {
			return Evidence{Said: func(path string) bool { return path == dir+"/runs/b/0002.pt" }}
		}, "runs/b/0002.pt"},
		"the older one was saved": {func(dir string) Evidence {
			return Evidence{Printed: onlyOf(dir + "/runs/b/0001.pt")}
		}, "runs/b/0001.pt"},
	} {
		dir := t.TempDir()
		write(t, dir+"/runs/b/0000.pt", whole) // of a run before
		signs := job.Signs{States: []string{"runs/*/*.pt"}}
		before := List(folder(dir), signs.States)
		write(t, dir+"/runs/b/0001.pt", whole)
		write(t, dir+"/runs/b/0002.pt", whole)
		write(t, dir+"/runs/b/0003.pt", whole[:len(whole)/2]) // torn
		f := Newest(folder(dir), signs, before, tt.evidence(dir))
		got := ""
		if f.State != nil {
			got = strings.TrimPrefix(f.State.Path, dir+"/")
		}
		if got != tt.want {
			t.Errorf("%s: it goes on from %q, want %q (%+v)", name, got, tt.want, f)
		}
		if tt.want == "" && len(f.Strange) != 2 {
			t.Errorf("%s: strange are %q", name, f.Strange)
		}
	}
}

// What a listing holds is not new, whatever its time; what was written after it is, even with a time long before.
func TestNoClock(t *testing.T) {
	dir, signs := t.TempDir(), job.Signs{States: []string{"*.pt"}, StateIteration: `^(?P<iteration>\d+)`}
	held := Evidence{Held: []string{dir}}
	write(t, dir+"/5.pt", "old")
	ahead := time.Now().Add(time.Hour)
	if err := os.Chtimes(dir+"/5.pt", ahead, ahead); err != nil {
		t.Fatal(err)
	}
	before := List(folder(dir), signs.States)
	if f := Newest(folder(dir), signs, before, held); f.State != nil {
		t.Errorf("a state that was there before counts: %+v", f.State)
	}
	write(t, dir+"/6.pt", "new")
	past := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(dir+"/6.pt", past, past); err != nil {
		t.Fatal(err)
	}
	f := Newest(folder(dir), signs, before, held)
	if f.State == nil || f.State.Iteration != 6 {
		t.Errorf("a state of yesterday by its clock is not found: %+v", f)
	}
	write(t, dir+"/5.pt", "new, too") // overwritten in place
	if f := Newest(folder(dir), job.Signs{States: []string{"5.pt"}}, before, held); f.State == nil {
		t.Error("a state that was overwritten is not found")
	}
}

// The first folder of all is complete with the file that is written last in it, where one process writes.
func TestFirstFolder(t *testing.T) {
	signs := job.Signs{States: []string{"out/step_*"}}
	tensors := "\x02\x00\x00\x00\x00\x00\x00\x00{}"
	for name, tt := range map[string]struct {
		last  string
		alone bool
		want  bool
	}{
		"its last file":          {"random_states_0.pkl", true, true},
		"one of several writers": {"random_states_0.pkl", false, false},
		"another file":           {"scheduler.bin", true, false},
	} {
		dir := t.TempDir()
		write(t, dir+"/out/step_5/model.safetensors", tensors)
		write(t, dir+"/out/step_5/optimizer.bin", archive(t))
		write(t, dir+"/out/step_5/"+tt.last, archive(t))
		f := Newest(folder(dir), signs, Listing{}, Evidence{Held: []string{dir}, Alone: tt.alone})
		if got := f.State != nil; got != tt.want {
			t.Errorf("%s: it goes on from %+v", name, f.State)
		}
	}
}

// Of states that are folders the newest complete one counts.
func TestFolders(t *testing.T) {
	signs := job.Signs{States: []string{"out/checkpoint-*"}}
	full := map[string]string{"model.safetensors": "\x02\x00\x00\x00\x00\x00\x00\x00{}", "optimizer.pt": archive(t), "trainer_state.json": `{"global_step": 8}`}
	for name, tt := range map[string]struct {
		second map[string]string // checkpoint-16
		want   string
	}{
		"both whole":           {full, "checkpoint-16"},
		"a file is missing":    {map[string]string{"model.safetensors": full["model.safetensors"], "trainer_state.json": "{}"}, "checkpoint-8"},
		"a JSON is cut short":  {map[string]string{"model.safetensors": full["model.safetensors"], "optimizer.pt": full["optimizer.pt"], "trainer_state.json": `{"glo`}, "checkpoint-8"},
		"tensors are short":    {map[string]string{"model.safetensors": "\xff\x00\x00\x00\x00\x00\x00\x00{}", "optimizer.pt": full["optimizer.pt"], "trainer_state.json": "{}"}, "checkpoint-8"},
		"an archive is torn":   {map[string]string{"model.safetensors": full["model.safetensors"], "optimizer.pt": full["optimizer.pt"][:60], "trainer_state.json": "{}"}, "checkpoint-8"},
		"it is empty":          {nil, "checkpoint-8"},
		"a file is being made": {map[string]string{"model.safetensors": full["model.safetensors"], "optimizer.pt": full["optimizer.pt"], "trainer_state.json": "{}", "x.tmp": "x"}, "checkpoint-8"},
		"it is not whole yet": {map[string]string{"model.safetensors": full["model.safetensors"],
			"optimizer.pt": full["optimizer.pt"], "trainer_state.json": "{}",
			"checkpoint-is-incomplete.txt": "x"}, "checkpoint-8"},
	} {
		dir := t.TempDir()
		for f, text := range full {
			write(t, dir+"/out/checkpoint-8/"+f, text)
		}
		os.MkdirAll(dir+"/out/checkpoint-16", 0o755)
		for f, text := range tt.second {
			write(t, dir+"/out/checkpoint-16/"+f, text)
		}
		write(t, dir+"/out/tmp-checkpoint-24/model", "x")
		f := Newest(folder(dir), signs, Listing{}, Evidence{Held: []string{dir}})
		if f.State == nil || filepath.Base(f.State.Path) != tt.want {
			t.Errorf("%s: it goes on from %+v, want %s", name, f.State, tt.want)
		}
	}

	// A first one, which nothing can be compared with.
	dir := t.TempDir()
	write(t, dir+"/out/checkpoint-8/model.bin", "weights")
	held := Evidence{Held: []string{dir}}
	if f := Newest(folder(dir), signs, Listing{}, held); f.State != nil || len(f.Torn) != 1 {
		t.Errorf("nothing shows that the first one is complete: %+v", f)
	}
	held.Printed = func(string) Claim { return Saving }
	if f := Newest(folder(dir), signs, Listing{}, held); f.State != nil {
		t.Error("the program has only begun to write the first one, but it counts")
	}
	held.Printed = func(string) Claim { return Saved }
	if f := Newest(folder(dir), signs, Listing{}, held); f.State != nil {
		t.Error("one of several ranks has written its part of the first one, but it counts")
	}
	held.Alone = true
	if f := Newest(folder(dir), signs, Listing{}, held); f.State == nil {
		t.Error("the program printed that it has written the first one: it is complete")
	}
	held.Alone, held.Printed = false, nil
	held.Stepped = time.Now().Add(time.Second)
	if f := Newest(folder(dir), signs, Listing{}, held); f.State == nil {
		t.Error("a step came after it: it is complete")
	}
	if f := Newest(folder(dir), signs, List(folder(dir), signs.States), held); f.State != nil {
		t.Errorf("a folder that was there before counts: %+v", f.State)
	}
}

func signsFor(globs ...string) job.Signs {
	return job.Signs{States: globs, Lines: []job.Sign{{Kind: job.SavedState, Pattern: `saved (?P<path>\S+)`}}}
}

func opened(log string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return os.Open(log) }
}

func knownStates(paths ...string) (known []run.State) {
	for _, path := range paths {
		known = append(known, run.State{Path: path})
	}
	return known
}

// onlyOf is the evidence of a program that printed that it saved one state.
func onlyOf(path string) func(string) Claim {
	return func(p string) Claim {
		if p == path {
			return Saving
		}
		return Unsaid
	}
}

func TestPrinted(t *testing.T) {
	dir := t.TempDir()
	log := write(t, dir+"/log", strings.Join([]string{
		"saved runs/b/0002.pt", "Saving to ./runs/b/0003.pt.", "wrote '" + dir + "/runs/b/0004.pt'",
		"Saving folder runs/b/checkpoint-8/", "loading runs/a/0005.pt", "=> found checkpoint runs/a/0006.pt",
		"saved runs/b/0007.pt.tmp", "saved 0009.pt", "saved deep/runs/b/0010.pt", "Resuming from runs/a/0011.pt\rstep 1",
		"INFO - Saving current state to runs/b/checkpoint-16", "Weights saved in runs/b/checkpoint-16/model.bin",
		"INFO - Saved state to runs/b/checkpoint-24", "Weights saved in runs/b/checkpoint-32",
		"Saved state to runs/b/checkpoint-4000",
	}, "\n"))
	signs := job.Signs{Lines: []job.Sign{
		{Kind: job.SavedState, Pattern: `Sav\w+ .*state to (?P<path>\S+)`}, {Kind: job.SavedState, Pattern: `saved$`},
	}}
	printed := Printed(func() (io.ReadCloser, error) { return os.Open(log) }, dir, signs)
	for path, want := range map[string]Claim{
		"runs/b/0002.pt": Saving, "runs/b/0003.pt": Saving, "runs/b/0004.pt": Saving, "runs/b/checkpoint-8": Saving,
		"runs/a/0005.pt": Unsaid, "runs/a/0006.pt": Unsaid, "runs/b/0007.pt": Unsaid, "0009.pt": Unsaid,
		"runs/b/0010.pt": Unsaid, "runs/a/0011.pt": Unsaid, "runs/b/000": Unsaid, "runs/b/checkpoint-40": Unsaid,
		"runs/b/checkpoint-16": Saving, "runs/b/checkpoint-24": Saved, "runs/b/checkpoint-32": Saving,
	} {
		if got := printed(filepath.Join(dir, path)); got != want {
			t.Errorf("%s: printed %v, want %v", path, got, want)
		}
	}
}

// What a process of the run writes is seen, under a name that it has only later, too; what another writes is not.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	ours := exec.Command("sh", "-c", `read x; mkdir -p runs/b; exec 3>runs/b/tmp; echo weights >&3; sleep 0.3; exec 3>&-; mv runs/b/tmp runs/b/0001.pt; read x`)
	theirs := exec.Command("sh", "-c", `mkdir -p runs/a; exec 3>runs/a/0001.pt; echo weights >&3; sleep 0.3; exec 3>&-; read x`)
	ours.Dir, theirs.Dir = dir, dir
	stdin, err := ours.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	wait, err := theirs.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := ours.Start(); err != nil {
		t.Fatal(err)
	}
	w := NewWatch(dir, []string{"runs/*/*.pt"}, func() []int { return []int{ours.Process.Pid} }, &log, t.TempDir())
	if err := theirs.Start(); err != nil {
		t.Fatal(err)
	}
	stdin.Write([]byte("\n"))
	id := func(path string) ID { m, _ := look(path); return m.ID }
	for deadline := time.Now().Add(10 * time.Second); !w.Wrote(id(dir+"/runs/b/0001.pt")) && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if !w.Wrote(id(dir + "/runs/b/0001.pt")) {
		t.Error("a file of this run's was not seen")
	}
	if w.Wrote(id(dir + "/runs/a/0001.pt")) {
		t.Error("a file of another run's was taken for this one's")
	}
	stdin.Close()
	wait.Close()
	ours.Wait()
	theirs.Wait()
	w.Stop()

	// And all of it outlives launch.
	if err := (Notes{Before: Listing{"x": {Bytes: 1}}, Held: []string{"y"}}).Write(dir); err != nil {
		t.Fatal(err)
	}
	f, err := WrittenLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	f.Write(log.Bytes())
	f.Close()
	n, noted, err := ReadNotes(dir)
	if err != nil || n.Before["x"].Bytes != 1 || n.Held[0] != "y" || !noted.Wrote(id(dir+"/runs/b/0001.pt")) || noted.Wrote(id(dir+"/runs/a/0001.pt")) {
		t.Errorf("read back: %+v, %v", n, err)
	}
}

// The order in which states were written is known, also where each was open only for a moment, and the last mark of
// each shows later whether somebody has written it since.
func TestWatchOrder(t *testing.T) {
	dir, own := t.TempDir(), t.TempDir()
	log, err := WrittenLog(own)
	if err != nil {
		t.Fatal(err)
	}
	os.Mkdir(dir+"/runs", 0o755)
	w := NewWatch(dir, []string{"runs/*.pt", "runs/ck-*"}, func() []int { return nil }, log, own)
	for _, name := range []string{"b.pt", "a.pt", "ck-1/model", "c.tmp"} {
		write(t, dir+"/runs/"+name, "state")
	}
	if err := os.Rename(dir+"/runs/c.tmp", dir+"/runs/c.pt"); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/runs/b.pt", "more")
	w.Settle()
	of := func(name string) int64 { return w.Order(dir + "/runs/" + name) }
	a, b, c, folder := of("a.pt"), of("b.pt"), of("c.pt"), of("ck-1")
	if a == 0 || folder <= a || c <= folder || b <= c || of("none.pt") != 0 {
		t.Errorf("a %d, the folder %d, c %d, b again %d", a, folder, c, b)
	}
	os.Remove(dir + "/runs/a.pt")
	w.Settle()
	if w.Order(dir+"/runs/a.pt") != 0 {
		t.Error("a state that is gone has an order")
	}
	w.Stop()
	log.Close()
	if err := (Notes{}).Write(own); err != nil {
		t.Fatal(err)
	}
	_, s, err := ReadNotes(own)
	if err != nil {
		t.Fatal(err)
	}
	now, _ := look(dir + "/runs/c.pt")
	if s.Rewritten(dir+"/runs/c.pt", now) || s.Order(dir+"/runs/b.pt") != b || s.Disturbed(dir) {
		t.Errorf("noted %+v, order %d", s.noted, s.Order(dir+"/runs/b.pt"))
	}
	held := Evidence{Held: []string{dir}, Rewritten: s.Rewritten, Wrote: func(ID) bool { return true }}
	if !held.ours(dir+"/runs/c.pt", now) {
		t.Error("a state that nobody has written since is not this run's")
	}
	for _, name := range []string{"c.pt", "b.pt"} {
		write(t, dir+"/runs/"+name, "somebody else's")
	}
	now, _ = look(dir + "/runs/c.pt")
	if held.ours(dir+"/runs/c.pt", now) || !s.Disturbed(dir) {
		t.Error("a state that was overwritten in place since is this run's")
	}
}

// A numbered state that somebody writes after the program has printed that it saved it is not the run's any more; one
// without a number the program may write again, and does not always print it.
func TestWrittenAfterItWasSaid(t *testing.T) {
	dir := t.TempDir()
	w := NewWatch(dir, []string{"*.pt"}, func() []int { return nil }, nil, "")
	defer w.Stop()
	old := time.Now().Add(-time.Minute)
	for name, tt := range map[string]struct {
		line string
		want bool
	}{
		"0001.pt": {"saved it", true}, "0002.pt": {"saving it", false}, "last.pt": {"saved it", false},
		"0003.bin": {"saved it", false},
	} {
		path := write(t, filepath.Join(dir, name), "mine")
		os.Chtimes(path, old, old)
		w.Said(path, tt.line)
		if m, _ := look(path); w.Rewritten(path, m) {
			t.Errorf("%s: nobody has written it since", name)
		}
		write(t, path, "theirs")
		m, _ := look(path)
		if got := w.Rewritten(path, m); got != tt.want {
			t.Errorf("%s: written since: %v, want %v", name, got, tt.want)
		}
		if w.Said(path, "saved it"); w.Rewritten(path, m) {
			t.Errorf("%s: the program printed that it wrote it again", name)
		}
	}
}

// A file that this run wrote and that another program was seen to write later is that program's, and the other way
// round. A launch that comes later knows it, too.
func TestOverwritten(t *testing.T) {
	own := t.TempDir()
	log, err := WrittenLog(own)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWatch(own, nil, nil, log, "")
	a, b := ID{Inode: 1}, ID{Inode: 2}
	for _, foreign := range []bool{false, true} {
		w.note(a, "", foreign)
		w.note(b, "", !foreign)
	}
	w.Stop()
	log.Close()
	if err := (Notes{}).Write(own); err != nil {
		t.Fatal(err)
	}
	_, s, err := ReadNotes(own)
	if err != nil {
		t.Fatal(err)
	}
	if w.Wrote(a) || !w.Foreign(a) || !w.Wrote(b) || w.Foreign(b) {
		t.Error("who wrote a file last does not count")
	}
	if s.Wrote(a) || !s.Foreign(a) || !s.Wrote(b) || s.Foreign(b) {
		t.Error("who wrote a file last is not read back")
	}
}

// A file is in the way if the program says so, and an attempt of this run made it, where the command may.
func TestBlocked(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	old := write(t, dir+"/old.yaml", "x")
	time.Sleep(50 * time.Millisecond)
	began := time.Now()
	write(t, dir+"/logs/config.yaml", "x")
	write(t, elsewhere+"/config.yaml", "x")
	if err := os.Symlink(elsewhere, dir+"/link"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	spans := []Span{{began, time.Now()}}
	time.Sleep(50 * time.Millisecond)
	write(t, dir+"/new.yaml", "x")
	for text, want := range map[string]string{
		"RuntimeError: SaveConfigCallback expected logs/config.yaml to NOT exist. Aborting":                           dir + "/logs/config.yaml",
		"raise RuntimeError(f\"expected {path} to NOT exist\")\nRuntimeError: expected logs/config.yaml to NOT exist": dir + "/logs/config.yaml",
		"FileExistsError: [Errno 17] File exists: '" + dir + "/logs'":                                                 dir + "/logs",
		"expected " + old + " to NOT exist":                                                                           "", // it was there before
		"expected new.yaml to NOT exist":                                                                              "", // nobody knows who made it
		"expected " + elsewhere + "/config.yaml to NOT exist":                                                         "",
		"expected link/config.yaml to NOT exist":                                                                      "",
		"expected logs/../../x to NOT exist":                                                                          "",
		"FileExistsError: [Errno 17] File exists: '" + dir + "'":                                                      "",
		"no such words": "",
	} {
		if got, _ := Blocked(write(t, t.TempDir()+"/log", "step 1\n"+text+"\n"), dir, spans); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// The number of a file that is deleted is soon another's.
func TestBorn(t *testing.T) {
	path := t.TempDir() + "/a.pt"
	for range 200 {
		write(t, path, "x")
		was, _ := look(path)
		os.Remove(path)
		time.Sleep(10 * time.Millisecond)
		write(t, path, "y")
		is, _ := look(path)
		os.Remove(path)
		if is.ID.Inode != was.ID.Inode || is.ID.Born == 0 {
			continue
		}
		if is.ID == was.ID || is.ids[0] == was.ids[0] {
			t.Errorf("two files, and one ID: %+v", is.ID)
		}
		return
	}
	t.Skip("no number came again here")
}

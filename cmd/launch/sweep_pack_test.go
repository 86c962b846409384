package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

// A fakeCards is a folder with four fake cards, and a plugin that knows what its program needs.
type fakeCards struct {
	dir, claims, launch string
	env                 []string
	total               map[string]unit.Bytes
}

func newFakeCards(t *testing.T, maker func(*testing.T, string) (map[string]unit.Bytes, []string)) fakeCards {
	launch, err := exec.LookPath("launch")
	must(t, err)
	dir := t.TempDir()
	f := fakeCards{dir: dir, claims: filepath.Join(dir, "claims"), launch: launch, total: map[string]unit.Bytes{}}
	plugins := filepath.Join(dir, "home", ".local", "share", "launch", "plugins")
	must(t, os.MkdirAll(plugins, 0o755))
	must(t, os.Mkdir(f.claims, 0o755))
	must(t, os.Symlink(buildPlugin(t, "./testdata/badplugin"), filepath.Join(plugins, "launch-plugin-saves")))
	copyPrograms(t, dir)
	cards, seeing := maker(t, dir)
	for name, total := range cards {
		if i, err := strconv.Atoi(name); err == nil {
			name = fmt.Sprintf("GPU-%016x", 0xf0+i)
		}
		f.total[name] = total
	}
	f.env = append(os.Environ(), "HOME="+filepath.Join(dir, "home"), "XDG_STATE_HOME="+filepath.Join(dir, "records"),
		claimsForTest+"="+f.claims)
	f.env = append(f.env, seeing...)
	trustPlugin(t, launch, "saves", f.env)
	return f
}

func (f fakeCards) command(args ...string) *exec.Cmd {
	c := exec.Command(f.launch, args...)
	c.Dir, c.Env = f.dir, f.env
	return c
}

// rows are the rows of the sweep as they are now.
func (f fakeCards) rows(t *testing.T) []ui.SweepRow {
	t.Helper()
	out, err := f.command("sweep", "export", "--json").Output()
	var d ui.SweepDoc
	if err == nil {
		err = json.Unmarshal(out, &d)
	}
	must(t, err)
	return d.Rows
}

// add has a process hold memory of a card, as the driver sees it.
func (f fakeCards) add(t *testing.T, card, pid int, b unit.Bytes) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(f.dir, "kernel")); err == nil { // the next program that takes memory adds it up
		path := filepath.Join(f.dir, "kernel/sys/class/kfd/kfd/proc", strconv.Itoa(pid))
		must(t, os.MkdirAll(path, 0o755))
		must(t, os.WriteFile(filepath.Join(path, "vram_"+strconv.Itoa(100+card)), fmt.Appendln(nil, int64(b)), 0o644))
		return
	}
	path := filepath.Join(f.dir, "state")
	lock, err := os.Create(path + ".lock")
	must(t, err)
	defer lock.Close()
	must(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	text, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path+".new", fmt.Appendf(text, "use %d %d %d\n", card, pid, int64(b)), 0o644))
	must(t, os.Rename(path+".new", path))
}

// until waits for something to come true.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// A sweep shares the cards among its trials. When somebody else's process comes, the youngest trial of the card saves,
// and runs again later. No card is ever over its memory.
func TestPackedSweep(t *testing.T) { packedSweep(t, nvidia) }

func TestPackedSweepOnAMD(t *testing.T) { packedSweep(t, amd) }

func packedSweep(t *testing.T, maker func(*testing.T, string) (map[string]unit.Bytes, []string)) {
	if testing.Short() {
		t.Skip("it starts sixteen launches")
	}
	f := newFakeCards(t, maker)
	var sizes []string
	for i := range 16 {
		mib := 2400 + 250*i // large enough that two of them overflow the smallest card
		if i%7 == 3 {
			mib = 9<<10 + i
		}
		sizes = append(sizes, strconv.Itoa(mib))
	}
	args := []string{"--grid", "mib=" + strings.Join(sizes, ","), "--", testPython(), "saves.py", "log-{trial}", "{mib}"}
	plan, err := f.command(append([]string{"sweep", "plan"}, args...)...).Output()
	must(t, err)
	if !strings.Contains(string(plan), "  card ") || strings.Count(string(plan), "  fits") != 16 {
		t.Errorf("the plan does not name the cards:\n%s", plan)
	}
	c := f.command(append([]string{"sweep", "--name", "p"}, args...)...)
	var printed bytes.Buffer
	c.Stderr = &printed
	must(t, c.Start())
	t.Cleanup(func() { c.Process.Kill() })

	shared := "" // a card with two trials that have settled
	until(t, "two trials share a card", func() bool {
		on := map[string]int{}
		for _, h := range listIn(f.claims) {
			if h.Settled && h.ID != "" {
				if on[h.ID]++; on[h.ID] == 2 {
					shared = h.ID
				}
			}
		}
		return shared != ""
	})
	status, err := f.command("sweep", "status").Output()
	must(t, err)
	t.Logf("%s", status)
	var on []ui.SweepRow
	used := unit.Bytes(0)
	for _, r := range f.rows(t) {
		if r.State == string(sweep.Running) && r.Card.UUID == shared {
			on = append(on, r)
			mib, err := strconv.Atoi(r.Assignment[0].Value)
			must(t, err)
			used += unit.Bytes(mib) * unit.MiB
		}
	}
	if len(on) < 2 {
		t.Fatalf("%d trials run on %s", len(on), shared)
	}
	// So much that the trials and what the process may still grow by do not fit, and that the process has room meanwhile.
	foreign := (f.total[shared] - used - 128*unit.MiB) * 2 / 3
	other := exec.Command("sleep", "1000")
	must(t, other.Start())
	defer func() { other.Process.Kill(); other.Wait() }()
	f.add(t, on[0].Card.Index, other.Process.Pid, foreign)
	var back ui.SweepRow
	until(t, "a trial is put back", func() bool {
		for _, r := range f.rows(t) {
			if r.PutBack > 0 {
				back = r
			}
		}
		return back.PutBack > 0
	})
	other.Process.Kill()
	other.Wait()
	must(t, os.WriteFile(filepath.Join(f.dir, "go"), nil, 0o644))
	if err := c.Wait(); err != nil {
		t.Errorf("%v\n%s", err, printed.String())
	}
	youngest := on[0]
	for _, r := range on {
		if r.Began.After(*youngest.Began) {
			youngest = r
		}
	}
	if back.Trial != youngest.Trial {
		t.Errorf("trial %d was put back, and %d is the youngest on its card\n%s", back.Trial, youngest.Trial,
			printed.String())
	}
	line := fmt.Sprintf("p-%d  mib=%s  is asked to save and stop, and runs again later: the card fills", back.Trial,
		back.Assignment[0].Value)
	if strings.Count(printed.String(), line) != 1 {
		t.Errorf("no line %q in\n%s", line, printed.String())
	}
	f.check(t, back.Trial)
	if held := listIn(f.claims); len(held) != 0 {
		t.Errorf("claims are left: %+v", held)
	}
	for _, path := range f.outputs(t, "p") { // claims would keep a card from overflowing where the placement is wrong
		if text, _ := os.ReadFile(path); strings.Contains(string(text), "launch: waiting for ") {
			t.Errorf("the sweep placed a trial on a card without room for it; its launch had to wait: %s\n%s", path, text)
		}
	}
}

// outputs are the files of what the trials of a sweep print.
func (f fakeCards) outputs(t *testing.T, name string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(f.dir, "records", "launch", "sweeps", name, "trials", "*", "output.log"))
	must(t, err)
	if len(paths) == 0 {
		t.Errorf("no trial of sweep %s has an output below %s", name, f.dir)
	}
	return paths
}

// A trial that runs out of memory beside another one is no reason to change its settings: it runs again, alone.
func TestOutOfMemoryBesideAnother(t *testing.T) {
	f := newFakeCards(t, nvidia)
	// The first is so small that the message does not give it as the reason.
	c := f.command("sweep", "--name", "b", "--device", "3,", "--zip", "mib=700,2001;env:REAL=700,7600", "--",
		testPython(), "saves.py", "log-{trial}", "{mib}")
	var printed bytes.Buffer
	c.Stderr = &printed
	must(t, c.Start())
	t.Cleanup(func() { c.Process.Kill() })
	log := func() string {
		text, _ := os.ReadFile(filepath.Join(f.dir, "log-2"))
		return string(text)
	}
	until(t, "the second trial runs out of memory", func() bool { return strings.Contains(log(), "short ") })
	until(t, "it is put back, or tried with other settings", func() bool {
		return f.rows(t)[1].State != string(sweep.Running) || strings.Count(log(), "start ") > 1
	})
	must(t, os.WriteFile(filepath.Join(f.dir, "go"), nil, 0o644))
	if err := c.Wait(); err != nil {
		t.Errorf("%v\n%s", err, printed.String())
	}
	const line = "waiting, is put back: it ran out of memory while others held a part of its card"
	if strings.Count(printed.String(), line) != 1 || strings.Count(log(), "short ") != 1 ||
		strings.Contains(log(), "smaller=1") || !strings.Contains(log(), "end ") {
		t.Errorf("%s\n%s", log(), printed.String())
	}
	for _, r := range f.rows(t) {
		if r.State != string(sweep.Succeeded) || r.Changes != "" {
			t.Errorf("trial %d: %s, %q", r.Trial, r.State, r.Changes)
		}
	}
}

// check reads what the programs of the trials wrote.
func (f fakeCards) check(t *testing.T, back int) {
	t.Helper()
	for _, r := range f.rows(t) {
		text, err := os.ReadFile(filepath.Join(f.dir, "log-"+strconv.Itoa(r.Trial)))
		must(t, err)
		if r.State != string(sweep.Succeeded) || r.Changes != "" || strings.Count(string(text), "\nend ") != 1 {
			t.Errorf("trial %d: %s, %q\n%s", r.Trial, r.State, r.Changes, text)
		}
		if bytes.Contains(text, []byte("over ")) || bytes.Contains(text, []byte("smaller=1")) {
			t.Errorf("trial %d: a card was over its memory, or the trial was made smaller\n%s", r.Trial, text)
		}
		if saved := strings.Count(string(text), "saved "); (saved == 1) != (r.Trial == back) || saved > 1 {
			t.Errorf("trial %d saved %d times\n%s", r.Trial, saved, text)
		}
		if r.Trial == back && (strings.Count(string(text), "start ") != 2 || strings.Count(string(text), "step=0 ") != 1) {
			printed, _ := os.ReadFile(filepath.Join(f.dir, "records", "launch", "sweeps", "p", "trials",
				strconv.Itoa(r.Trial), "output.log"))
			t.Errorf("trial %d did not go on from its state\n%s\n%s", r.Trial, text, printed)
		}
	}
}

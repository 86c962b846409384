package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/unit"
)

// Bounds of the tests of many launches at once.
const (
	// freeWithin is how long the claim of a killed launch may last.
	freeWithin = time.Second
	// idleAtMost is how long a launch may wait for what is free, while no other one starts.
	idleAtMost = 2 * time.Second
	// loaded is how much longer both may be on a busy machine: so many times what `launch version` takes there at worst.
	// A launch that has its claim starts its plugin, its keeper and the program, and reads what they print.
	loaded = 15
)

// A busy machine is measured while a test runs: the longest that a small program took.
type busy struct {
	mu    sync.Mutex
	worst time.Duration
	stop  chan struct{}
}

func measureLoad(t *testing.T, launch string) *busy {
	b := &busy{stop: make(chan struct{})}
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			began := time.Now()
			if err := exec.Command(launch, "version").Run(); err != nil {
				t.Error(err)
				return
			}
			b.mu.Lock()
			b.worst = max(b.worst, time.Since(began))
			b.mu.Unlock()
			select {
			case <-b.stop:
				return
			case <-time.After(500 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() { close(b.stop); wait.Wait() })
	return b
}

func (b *busy) slack() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return loaded * b.worst
}

// A trainee is one launch of a test, as its program's log has it.
type trainee struct {
	need              unit.Bytes
	asked, start, end time.Time
	card              string
	cmd               *exec.Cmd
	err               bytes.Buffer
	killed            bool
	waits             atomic.Bool
}

// Write takes what a launch prints. It waits for room from when it prints so.
func (w *trainee) Write(text []byte) (int, error) {
	if w.asked.IsZero() && bytes.Contains(text, []byte("launch: waiting for")) {
		w.asked = time.Now()
		w.waits.Store(true)
	}
	return w.err.Write(text)
}

// fits reports whether a card has room for w at some time, beside those that run.
func (w *trainee) fits(total unit.Bytes, card string, at time.Time, all []*trainee) bool {
	for _, j := range all {
		if j != w && j.card == card && !j.start.After(at) && j.end.After(at) {
			total -= j.need
		}
	}
	return w.need <= total
}

// idle is the longest time for which a launch waited though it would have fitted on a card, and no other one started.
func idle(cards map[string]unit.Bytes, all []*trainee) (longest time.Duration, of *trainee) {
	var events []time.Time
	for _, j := range all {
		events = append(events, j.asked, j.start, j.end)
	}
	slices.SortFunc(events, time.Time.Compare)
	starts := func(at time.Time) bool {
		return slices.ContainsFunc(all, func(j *trainee) bool { return j.start.Equal(at) })
	}
	for _, w := range all {
		since := time.Time{}
		for _, at := range events {
			if at.Before(w.asked) || at.After(w.start) {
				continue
			}
			if !since.IsZero() && at.Sub(since) > longest {
				longest, of = at.Sub(since), w
			}
			somewhere := false
			for card, total := range cards {
				somewhere = somewhere || w.fits(total, card, at, all)
			}
			switch {
			case !somewhere:
				since = time.Time{}
			case since.IsZero() || starts(at):
				since = at
			}
		}
	}
	return longest, of
}

// fourCards are the sizes of the four fake cards, in GiB.
var fourCards = []unit.Bytes{24, 16, 12, 8}

// nvidia makes four fake cards of NVIDIA's, and returns what a program knows each by, and the variables with which
// launch sees them.
func nvidia(t *testing.T, dir string) (cards map[string]unit.Bytes, env []string) {
	cards = map[string]unit.Bytes{}
	state := ""
	for i, gib := range fourCards {
		uuid := "GPU-f" + strconv.Itoa(i)
		cards[uuid] = gib * unit.GiB
		state += fmt.Sprintf("gpu A_card %s %d 0 0 8.6\n", uuid, int64(cards[uuid]))
	}
	must(t, os.WriteFile(filepath.Join(dir, "state"), []byte(state), 0o644))
	return cards, []string{"LD_LIBRARY_PATH=" + buildFakeDriver(t), "FAKE_NVML_STATE=" + filepath.Join(dir, "state")}
}

// amd makes four fake cards of AMD's, as nvidia does. ROCm's number of a card is 100 and its index.
func amd(t *testing.T, dir string) (cards map[string]unit.Bytes, env []string) {
	cards = map[string]unit.Bytes{}
	root := filepath.Join(dir, "kernel")
	put := func(text string, path ...string) {
		name := filepath.Join(append([]string{root}, path...)...)
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must(t, os.WriteFile(name, []byte(text), 0o644))
	}
	put("", "dev/kfd")
	must(t, os.MkdirAll(filepath.Join(root, "sys/class/kfd/kfd/proc"), 0o755))
	for i, gib := range fourCards {
		at := strconv.Itoa(i)
		cards[at] = gib * unit.GiB
		card, node := "sys/class/drm/card"+at+"/device", "sys/class/kfd/kfd/topology/nodes/"+at
		put("0x1002\n", card, "vendor")
		put("A card\n", card, "product_name")
		put(fmt.Sprintf("PCI_SLOT_NAME=0000:0%d:00.0\n", i+1), card, "uevent")
		put(fmt.Sprintln(int64(cards[at])), card, "mem_info_vram_total")
		put("0\n", card, "mem_info_vram_used")
		put(fmt.Sprintln(100+i), node, "gpu_id")
		put(fmt.Sprintf("simd_count 64\ngfx_target_version 90010\nlocation_id %d\nunique_id %d\n", (i+1)<<8, 0xf0+i),
			node, "properties")
	}
	return cards, []string{kernelForTest + "=" + root}
}

// Two launches never promise the same bytes; what is free is used; what a killed launch held is free.
func TestFortyLaunches(t *testing.T) { fortyLaunches(t, nvidia) }

func TestFortyLaunchesOnAMD(t *testing.T) { fortyLaunches(t, amd) }

func fortyLaunches(t *testing.T, maker func(*testing.T, string) (map[string]unit.Bytes, []string)) {
	if testing.Short() {
		t.Skip("it starts forty launches")
	}
	launch, err := exec.LookPath("launch")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	plugins := filepath.Join(dir, "home", ".local", "share", "launch", "plugins")
	claims := filepath.Join(dir, "claims")
	must(t, os.MkdirAll(plugins, 0o755))
	must(t, os.Mkdir(claims, 0o755))
	must(t, os.Symlink(buildPlugin(t, "./testdata/badplugin"), filepath.Join(plugins, "launch-plugin-sized")))
	copyPrograms(t, dir)
	cards, seeing := maker(t, dir)
	env := append(os.Environ(), "HOME="+filepath.Join(dir, "home"), "XDG_STATE_HOME="+filepath.Join(dir, "records"),
		claimsForTest+"="+claims)
	env = append(env, seeing...)
	trustPlugin(t, launch, "sized", env)
	load := measureLoad(t, launch)

	random := rand.New(rand.NewPCG(17, 4)) // sizes of 1 to 20 GiB, mostly small
	var all []*trainee
	for i := range 40 {
		mib := 1024 + random.IntN(7<<10)
		seconds := 0.4 + random.Float64()
		if i%8 == 0 {
			mib = (14 + random.IntN(7)) << 10
		}
		if i%13 == 5 { // to be killed, long before its end
			seconds = 600
		}
		w := &trainee{need: unit.Bytes(mib) * unit.MiB}
		w.cmd = exec.Command(launch, "--device", "any", "--wait", "--", testPython(), "sized.py",
			filepath.Join(dir, "log-"+strconv.Itoa(i)), fmt.Sprint(seconds), strconv.Itoa(mib))
		w.cmd.Dir, w.cmd.Env, w.cmd.Stderr = dir, env, w
		w.killed = seconds == 600
		all = append(all, w)
	}
	var wait sync.WaitGroup
	for i, w := range all {
		must(t, w.cmd.Start())
		t.Cleanup(func() { w.cmd.Process.Kill() })
		if w.killed {
			wait.Go(func() { kill(t, w, filepath.Join(dir, "log-"+strconv.Itoa(i)), claims, load) })
		} else {
			wait.Go(func() {
				if err := w.cmd.Wait(); err != nil {
					t.Errorf("launch %d of %v: %v\n%s", i, w.need, err, w.err.String())
				}
			})
		}
	}
	// However slow the machine is, all of them want a card at the same time: the first ones end after the last has asked.
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		asked := 0
		for i, w := range all {
			if _, err := os.Stat(filepath.Join(dir, "log-"+strconv.Itoa(i))); err == nil || w.waits.Load() {
				asked++
			}
		}
		if asked == len(all) {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("%d of %d launches have asked for a card", asked, len(all))
			break
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "all-asked"), nil, 0o644))
	wait.Wait()
	waited := 0
	for i, w := range all {
		if w.read(t, filepath.Join(dir, "log-"+strconv.Itoa(i))); w.asked.IsZero() {
			w.asked = w.start // it did not wait
		} else {
			waited++
		}
	}
	if waited < 10 {
		t.Errorf("%d of 40 launches waited", waited)
	}
	longest, of := idle(cards, all)
	t.Logf("the longest that a launch waited for what was free: %v; slack for a busy machine: %v", longest, load.slack())
	if longest > idleAtMost+load.slack() {
		t.Errorf("the launch of %v waited %v for what was free, and nothing started", of.need, longest)
	}
	if held := listIn(claims); len(held) != 0 {
		t.Errorf("claims are left: %+v", held)
	}
	if t.Failed() {
		t.Log(timeline(all))
	}
}

// copyPrograms puts the programs that take memory of fake cards into a folder.
func copyPrograms(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"fakecard.py", "sized.py", "saves.py"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
}

// timeline is what ran on which card, and when.
func timeline(all []*trainee) string {
	by := slices.Clone(all)
	slices.SortFunc(by, func(a, b *trainee) int { return a.start.Compare(b.start) })
	out, first := "what ran:\n", by[0].start
	for _, w := range by {
		from, to := w.start.Sub(first).Seconds(), w.end.Sub(first).Seconds()
		out += fmt.Sprintf("%s %v from %.3f s to %.3f s", w.card, w.need, from, to)
		if w.killed {
			out += ", then its launch was killed"
		}
		out += "\n"
	}
	return out
}

// kill kills a launch after its program has started, and waits until its claim is gone.
func kill(t *testing.T, w *trainee, log, claims string, load *busy) {
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if text, _ := os.ReadFile(log); bytes.Contains(text, []byte("\n")) {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("the launch of %v never started its program\n%s", w.need, w.err.String())
			return
		}
	}
	time.Sleep(300 * time.Millisecond)
	began := time.Now()
	w.cmd.Process.Kill()
	w.cmd.Wait()
	for slices.ContainsFunc(listIn(claims), func(h room.Held) bool { return h.PID == w.cmd.Process.Pid }) {
		if time.Since(began) > freeWithin+load.slack() {
			t.Errorf("the claim of a killed launch is held for %v", time.Since(began))
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.end = began
}

var listing sync.Mutex

// listIn lists the claims in a folder that is not the machine's.
func listIn(claims string) []room.Held {
	listing.Lock()
	defer listing.Unlock()
	room.ClaimsWithin(claims)
	return room.Claims()
}

// read reads a program's log.
func (w *trainee) read(t *testing.T, log string) {
	t.Helper()
	text, err := os.ReadFile(log)
	must(t, err)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		seconds, err := strconv.ParseFloat(f[1], 64)
		must(t, err)
		at := time.Unix(0, int64(seconds*1e9))
		switch f[0] {
		case "start":
			w.start, w.card = at, strings.TrimPrefix(f[3], "card=")
			if f[5] != "smaller=None" {
				t.Errorf("a launch that could wait took less than it was asked: %s\n%s", line, w.err.String())
			}
		case "over":
			t.Errorf("a card is over its memory: %s\n%s", line, w.err.String())
		case "end":
			w.end = at
		}
	}
	if w.start.IsZero() || w.end.IsZero() {
		t.Errorf("the program of the launch of %v did not end: %q", w.need, text)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The same for host memory, from a shell: xargs starts twelve at once.
func TestMemoryOfMany(t *testing.T) {
	launch, err := exec.LookPath("launch")
	must(t, err)
	total, _ := room.HostTotal()
	if total < 2*unit.GiB {
		t.Skip("too little memory is known")
	}
	dir := t.TempDir()
	claims := filepath.Join(dir, "claims")
	must(t, os.Mkdir(claims, 0o755))
	load := measureLoad(t, launch)
	const script = `date "+start %s.%N 0 card= 0 smaller=None" > "$1"; sleep "$2"; date "+end %s.%N" >> "$1"`
	var all []*trainee
	rows := ""
	for i := range 12 {
		need := total/unit.Bytes(2+i%4) - unit.Bytes(i)*unit.MiB // of each size a few, none twice the same
		seconds := 0.3 + float64(i%3)/5
		w := &trainee{need: need, asked: time.Now(), killed: i == 6}
		if w.killed {
			seconds = 600
		}
		all = append(all, w)
		rows += fmt.Sprintf("%s %d %v\n", filepath.Join(dir, "log-"+strconv.Itoa(i)), need, seconds)
	}
	c := exec.Command("xargs", "-P", "12", "-n", "3", "sh", "-c",
		`"$0" -q --memory "$2" --wait -- sh -c '`+script+`' sh "$1" "$3" || echo "$2 ended with $?"`, launch)
	c.Stdin = strings.NewReader(rows)
	c.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "records"), claimsForTest+"="+claims)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	must(t, c.Start())
	victim := all[6]
	for range 15000 {
		if victim.cmd != nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
		for _, h := range listIn(claims) {
			if p, err := os.FindProcess(h.PID); err == nil && h.Bytes == victim.need && !h.Waiting {
				victim.cmd = &exec.Cmd{Process: p}
			}
		}
	}
	if victim.cmd == nil {
		t.Fatalf("no claim of %v\n%s", victim.need, out.String())
	}
	kill(t, victim, filepath.Join(dir, "log-6"), claims, load)
	ended := fmt.Sprintf("%d ended with 137\n", victim.need)
	err = c.Wait()
	if err != nil || strings.Count(out.String(), "ended with") != 1 || !strings.Contains(out.String(), ended) {
		t.Errorf("%v\n%s", err, out.String())
	}
	for i, w := range all {
		w.read(t, filepath.Join(dir, "log-"+strconv.Itoa(i)))
	}
	for _, w := range all {
		if !w.fits(total, "", w.start, all) {
			t.Errorf("more than %v of host memory is promised when the launch of %v starts", total, w.need)
		}
	}
	longest, of := idle(map[string]unit.Bytes{"": total}, all)
	t.Logf("the longest that a launch waited for what was free: %v; slack for a busy machine: %v", longest, load.slack())
	if longest > idleAtMost+load.slack() {
		t.Errorf("the launch of %v waited %v for what was free, and nothing started", of.need, longest)
	}
}

// What a test of many launches measures is what it should.
func TestIdle(t *testing.T) {
	began := time.Now()
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	job := func(need unit.Bytes, asked, start, end int) *trainee {
		return &trainee{need: need, asked: at(asked), start: at(start), end: at(end), card: "GPU-1"}
	}
	cards := map[string]unit.Bytes{"GPU-1": 10}
	for name, tt := range map[string]struct {
		all  []*trainee
		want time.Duration
	}{
		"it waits for room":               {[]*trainee{job(8, 0, 0, 5), job(8, 0, 5, 9)}, 0},
		"it waits though there was room":  {[]*trainee{job(2, 0, 0, 9), job(8, 0, 4, 9)}, 4 * time.Second},
		"and after room had come":         {[]*trainee{job(8, 0, 0, 5), job(8, 0, 8, 9)}, 3 * time.Second},
		"but others started meanwhile":    {[]*trainee{job(1, 0, 0, 9), job(1, 2, 2, 9), job(8, 0, 4, 9)}, 2 * time.Second},
		"not before it had begun to wait": {[]*trainee{job(8, 0, 0, 1), job(8, 5, 6, 9)}, time.Second},
	} {
		if got, _ := idle(cards, tt.all); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

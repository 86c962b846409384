package top

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/unit"
)

var update = flag.Bool("update", false, "write the expected screens")

const gib = unit.GiB

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// workstation is a machine with runs in every state.
func workstation() Snapshot {
	busy := func(n int) *int { return &n }
	run := func(n int, title string, s *record.Status) Run {
		r := Run{ID: fmt.Sprintf("20261123-0900%02d.000-a0%02d", n, n), State: Running, Title: title, Plugin: "sisr",
			Command: []string{"python", "train.py", "-opt", "options/" + title + ".yml"}, PID: 4000 + n,
			Began: noon.Add(-3 * time.Hour), Status: s}
		if s == nil {
			return r
		}
		s.Version, s.Attempt, s.Time, s.PID = record.StatusVersion, max(1, s.Attempt), noon.Add(-time.Second), 4100+n
		s.Began = noon.Add(-2 * time.Hour)
		r.Expected = s.Expected()
		if left, ok := s.Progress.Left(noon); ok {
			seconds := left.Seconds()
			r.Left = &seconds
		}
		return r
	}
	by := map[string]unit.Bytes{"training": 17 * gib, "validation": 20 * gib}
	s := Snapshot{Version: 1, Time: noon, Machine: "workstation", Waiting: 1, Problems: []string{},
		Host: &Host{Total: 62*gib + 700*unit.MiB, Free: 21 * gib}}
	s.Runs = []Run{
		run(1, "span_x4_df2k", &record.Status{Attempt: 2, Phase: "training", Predicted: by, Room: 23 * gib,
			Progress: &record.Progress{Iteration: 210_000, Total: 500_000, At: noon.Add(-2 * time.Second), Rate: 61.4,
				Step: 130 * time.Millisecond},
			Memory: &record.StatusMemory{Now: 16 * gib, Peak: 18 * gib, Is: "used"}}),
		run(2, "realplksr_x2_anime_with_a_rather_long_name", &record.Status{Phase: "validation", Predicted: by,
			Room:     23 * gib,
			Progress: &record.Progress{Iteration: 5000, At: noon.Add(-40 * time.Second), Rate: 7.21},
			Memory:   &record.StatusMemory{Now: 19 * gib, Peak: 19 * gib, Is: "used"}}),
		run(3, "moco_v2_r50", &record.Status{Trial: "rehearsal", Phase: "training"}),
		run(4, "between", nil),
		run(5, "suspended", &record.Status{Phase: "training", Progress: &record.Progress{Iteration: 4, Total: 8, At: noon}}),
		run(6, "killed\x1b[2Jtitle", &record.Status{Phase: "training",
			Progress: &record.Progress{Iteration: 7, Total: 8, At: noon},
			Memory:   &record.StatusMemory{Now: gib, Peak: 2 * gib, Is: "used"}}),
	}
	s.Runs[0].Cards, s.Runs[1].Cards, s.Runs[2].Cards = []int{0}, []int{0, 1}, []int{1}
	s.Runs[4].Status.Time = noon.Add(-45 * time.Second)
	s.Runs[5].State, s.Runs[5].Left = CutOff, nil
	s.Cards = []Card{
		{Device: gpu.Device{Kind: gpu.CUDA, Name: "NVIDIA RTX A5000", Total: 24 * gib, Used: 18 * gib}, Busy: busy(97),
			Runs: []string{s.Runs[0].ID, s.Runs[1].ID}, Others: 2 * gib},
		{Device: gpu.Device{Kind: gpu.CUDA, Name: "NVIDIA GeForce RTX 3060", Total: 12 * gib, Used: 3 * gib}},
	}
	s.Others = []Process{
		{Card: 0, Process: gpu.Process{PID: 912, Used: 2*gib - 300*unit.MiB, User: "mia",
			Name: "jupyter\u202e-lab\x1b]0;x\a"}},
		{Card: 0, Process: gpu.Process{PID: 1512, Used: 300 * unit.MiB, Name: "Xorg", User: "root"}},
		{Card: 1, Process: gpu.Process{PID: 88, Used: -1, Name: "ollama", User: "ollama"}},
	}
	return s
}

func screenOf(width, height int, s Snapshot) *Screen {
	out := &Screen{Width: width, Height: height}
	out.Take(s)
	return out
}

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got+"\n" != string(want) {
		t.Errorf("%s differs; go test -update writes it. Now:\n%s", path, got)
	}
}

// The same machine on screens of several sizes, without colour.
func TestScreens(t *testing.T) {
	for _, size := range [][2]int{{120, 40}, {80, 24}, {40, 15}, {20, 10}} {
		golden(t, fmt.Sprintf("%dx%d", size[0], size[1]), screenOf(size[0], size[1], workstation()).Text())
	}
	golden(t, "table", strings.TrimSuffix(Table(workstation()), "\n"))
}

// The other views.
func TestViews(t *testing.T) {
	for name, keys := range map[string][]string{"details": {"enter"}, "processes": {"o"}, "help": {"?"},
		"cutoff": {"end", "enter"}} {
		s := screenOf(100, 30, workstation())
		for _, k := range keys {
			s.Key(k, "")
		}
		golden(t, name, s.Text())
	}
}

// No text is wider or longer than the screen, whatever the size, and no name reaches the terminal as a command.
func TestFits(t *testing.T) {
	for _, keys := range [][]string{{}, {"enter"}, {"o"}, {"?"}, {"/", "x"}, {"s", "s", "r"}} {
		for _, machine := range []Snapshot{workstation(), many(200, 8), {}} {
			for width := 1; width <= 130; width += 3 {
				for _, height := range []int{1, 2, 3, 5, 9, 24, 60} {
					s := screenOf(width, height, machine)
					s.Colour = width%2 == 0
					for _, k := range keys {
						s.Key(k, k)
					}
					check(t, fmt.Sprintf("%v at %dx%d", keys, width, height), s)
				}
			}
		}
	}
}

// Whatever the machine has, a screen of four lines shows the selected run, and the help is nowhere cut at the right.
func TestSmall(t *testing.T) {
	none := workstation()
	none.Cards, none.NoCards = nil, "no NVIDIA driver"
	for _, machine := range []Snapshot{workstation(), many(200, 8), none} {
		for height := 4; height < 12; height++ {
			if text := screenOf(20, height, machine).Text(); !strings.Contains(text, "\n> ") {
				t.Errorf("no run is selected on %d lines:\n%s", height, text)
			}
		}
	}
	s := screenOf(100, 30, none)
	s.Key("?", "")
	if text := s.Text(); strings.Contains(text, "…") {
		t.Errorf("the help is cut:\n%s", text)
	}
}

func check(t *testing.T, name string, s *Screen) {
	t.Helper()
	text := s.Text()
	lines := strings.Split(text, "\n")
	if len(lines) != s.Height {
		t.Errorf("%s: %d lines", name, len(lines))
	}
	for _, l := range lines {
		if w := ansi.StringWidth(l); w > s.Width {
			t.Errorf("%s: a line of %d columns: %q", name, w, l)
		}
	}
	for _, bad := range []string{"\x1b[2J", "\x1b]", "\u202e", "\a"} {
		if strings.Contains(text, bad) {
			t.Errorf("%s: has %q", name, bad)
		}
	}
	if !s.Colour && strings.ContainsRune(text, '\x1b') {
		t.Errorf("%s: has an escape sequence", name)
	}
}

// With colours, the text is the same.
func TestColour(t *testing.T) {
	s := screenOf(120, 40, workstation())
	bare := s.Text()
	s.Colour = true
	if text := s.Text(); ansi.Strip(text) != bare || !strings.Contains(text, "\x1b[31m") {
		t.Errorf("with colours:\n%s", ansi.Strip(text))
	}
}

func TestKeys(t *testing.T) {
	s := screenOf(100, 30, workstation())
	press := func(keys ...string) {
		t.Helper()
		for _, k := range keys {
			if s.Key(k, k) {
				t.Fatalf("%s quits", k)
			}
		}
	}
	on := func(title string) {
		t.Helper()
		if r := s.run(); r == nil || !strings.HasPrefix(r.Title, title) {
			t.Errorf("selected is %+v, want %s", r, title)
		}
	}
	on("span")
	press("down", "j")
	on("moco")
	s.Text() // a page is what is shown
	press("up", "pgdown")
	on("killed")
	press("home", "s") // by name
	press("home")
	on("between")
	press("r", "home")
	on("suspended")
	press("/", "M", "o", "C", "backspace", "c")
	on("moco")
	if len(s.rows) != 1 || s.filter != "Moc" {
		t.Errorf("the filter %q leaves %d runs", s.filter, len(s.rows))
	}
	press("q", "backspace", "enter", "enter") // while a text is typed, q is a letter
	if s.view != details {
		t.Error("enter does not open the details")
	}
	press("esc", "esc")
	if s.view != overview || s.filter != "" || len(s.rows) != 6 {
		t.Error("esc does not lead back")
	}
	on("moco")
	press("space")
	fewer := workstation()
	fewer.Runs = fewer.Runs[:1]
	if s.Take(fewer); len(s.rows) != 6 {
		t.Error("it changes while it is paused")
	}
	press("space")
	if s.Take(fewer); len(s.rows) != 1 {
		t.Error("it stays paused")
	}
	on("span") // what was selected has ended
	for _, k := range []string{"q", "ctrl+c"} {
		if !s.Key(k, "") {
			t.Errorf("%s does not quit", k)
		}
	}
}

func TestMouse(t *testing.T) {
	s := screenOf(120, 40, workstation())
	text := strings.Split(s.Text(), "\n")
	line := func(has string) int {
		for i, l := range text {
			if strings.Contains(l, has) {
				return i
			}
		}
		t.Fatalf("no line has %q", has)
		return 0
	}
	s.Click(5, line("moco_v2"))
	if r := s.run(); r.Title != "moco_v2_r50" || s.view != overview {
		t.Errorf("a click selects %s", r.Title)
	}
	s.Wheel(true)
	if r := s.run(); r.Title != "between" {
		t.Errorf("the wheel selects %s", r.Title)
	}
	s.Click(strings.Index(text[line("SAMPLES/S")], "SAMPLES/S")+1, line("SAMPLES/S"))
	if s.sort != &colRate || s.snapshot.Runs[s.rows[0]].Title != "span_x4_df2k" {
		t.Errorf("a click on a column's name sorts by %v", s.sort)
	}
	s.Text()
	s.Click(5, s.runsAt)
	s.Click(5, s.runsAt)
	if s.view != details {
		t.Error("a second click does not open the details")
	}
	s.Click(-5, 1000)
	s.Wheel(false)
}

// A run of another plugin sorts last where its figure is not known, in both orders of arrival.
func TestSortsUnknownLast(t *testing.T) {
	s := screenOf(120, 40, workstation())
	for range sorts {
		s.Key("s", "")
		if s.sort == &colLeft && s.snapshot.Runs[s.rows[0]].Left == nil {
			t.Error("what is not known stands first")
		}
	}
	if s.sort != nil {
		t.Errorf("the sorts do not come back to the first: %v", s.sort.name)
	}
}

// Of a command that no plugin knows, NOW is what the driver counts, and no peak is known. What launch has measured
// counts more.
func TestOnCards(t *testing.T) {
	r := Run{State: Running, OnCards: 5 * gib, Status: &record.Status{
		Memory: &record.StatusMemory{Now: gib, Peak: 2 * gib, Is: record.Anonymous}}}
	if nowOf(&r) != 5*gib || peakOf(&r) != 0 {
		t.Errorf("as typed: %v now, peak %v", nowOf(&r), peakOf(&r))
	}
	r.Status.Memory.Is = "used"
	if nowOf(&r) != gib || peakOf(&r) != 2*gib {
		t.Errorf("watched: %v now, peak %v", nowOf(&r), peakOf(&r))
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Second: "0s", 59 * time.Second: "59s", time.Minute: "1m",
		59*time.Minute + 59*time.Second: "59m", 3*time.Hour + 20*time.Minute: "3h 20m", 52 * time.Hour: "2d 4h"} {
		if got := span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// many is a machine with so many runs on so many cards. Its figures depend on n.
func many(runs, cards int) Snapshot {
	s := Snapshot{Version: 1, Time: noon, Machine: "node", Host: &Host{Total: 1024 * gib, Free: 300 * gib}}
	for i := range cards {
		busy := 90 + i
		s.Cards = append(s.Cards, Card{Device: gpu.Device{Name: "NVIDIA H100 80GB HBM3", Total: 80 * gib,
			Used: unit.Bytes(60+i) * gib}, Busy: &busy, Others: gib})
		s.Others = append(s.Others, Process{Card: i, Process: gpu.Process{PID: 100 + i, Used: gib, Name: "other"}})
	}
	for i := range runs {
		left := float64(i * 100)
		r := Run{ID: fmt.Sprintf("20261123-09%02d%02d.000-%04x", i/60, i%60, i), State: Running,
			Title: fmt.Sprintf("trial-%03d", i), PID: 1000 + i, Expected: 8 * gib, Left: &left, Cards: []int{i % max(1, cards)},
			Status: &record.Status{Time: noon, Phase: "training", Memory: &record.StatusMemory{Now: 7 * gib, Peak: 8 * gib,
				Is: "used"},
				Progress: &record.Progress{Iteration: int64(i), Total: 1000, At: noon, Rate: 12.5, Step: time.Second}}}
		s.Runs = append(s.Runs, r)
	}
	return s
}

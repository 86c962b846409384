package local

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/sweep"
)

// The test binary is the "launch" of these tests: it writes what the test asked for as a result, and ends.
func TestMain(m *testing.M) {
	if os.Args[0] == "launch" {
		play()
		return
	}
	os.Exit(m.Run())
}

// play is the scripted launch. Its command is a list of steps.
func play() {
	at := slices.Index(os.Args, "--")
	result := ""
	for _, a := range os.Args[:at] {
		if path, ok := strings.CutPrefix(a, jsonFile); ok {
			result = path
		}
	}
	if slices.Contains(os.Args[:at], "plan") {
		fmt.Print(os.Args[len(os.Args)-1])
		return
	}
	for _, step := range os.Args[at+1:] {
		verb, arg, _ := strings.Cut(step, " ")
		switch verb {
		case "print":
			fmt.Println(arg, strings.Join(os.Args[1:at], " "), os.Getenv("TOLD"))
		case "await": // a file
			for _, err := os.Stat(arg); err != nil; _, err = os.Stat(arg) {
				time.Sleep(5 * time.Millisecond)
			}
		case "result":
			os.WriteFile(result, []byte(arg), 0o600)
		case "exit":
			code, _ := strconv.Atoi(arg)
			os.Exit(code)
		case "die":
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
}

const succeeded = `result {"version":1,"ending":"succeeded","exit_code":0}`

func executor(t *testing.T) (*Executor, string) {
	t.Helper()
	dir := t.TempDir()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{Launch: own, Dir: dir, Flags: []string{"--allow=speed"}, Runs: record.In(filepath.Join(dir,
		"state")),
		Folder: func(n int) string { return filepath.Join(dir, "trials", fmt.Sprint(n)) }}), dir
}

func start(trial int, steps ...string) sweep.Start {
	return sweep.Start{Trial: trial, Number: 1, Invocation: sweep.Invocation{Args: steps, Env: []string{"TOLD=yes"},
		Set: []string{"a.b=1"}}}
}

func end(t *testing.T, x *Executor) sweep.End {
	t.Helper()
	select {
	case e := <-x.Ends():
		return e
	case <-time.After(time.Minute):
		t.Fatal("no end")
	}
	return sweep.End{}
}

func TestStart(t *testing.T) {
	x, _ := executor(t)
	for name, tt := range map[string]struct {
		steps []string
		want  run.Ending
	}{
		"a result":                  {[]string{"print hi", succeeded}, run.Succeeded},
		"no result":                 {[]string{"print hi"}, run.Succeeded}, // its exit code tells
		"no result, and a failure":  {[]string{"print hi", "exit 3"}, run.Failed},
		"no result, and no room":    {[]string{"exit 75"}, run.Interrupted},
		"no result, and no fit":     {[]string{"exit 78"}, sweep.Refused},
		"killed":                    {[]string{"die"}, sweep.Lost},
		"a result, and then killed": {[]string{succeeded, "die"}, run.Succeeded},
		"what is no result":         {[]string{"result {}"}, sweep.NotRun},
	} {
		s := start(len(name), tt.steps...)
		if err := x.Start(s); err != nil {
			t.Fatal(err)
		}
		if e := end(t, x); e.Trial != s.Trial || e.Start != 1 || e.Result.Ending != tt.want {
			t.Errorf("%s: %+v", name, e)
		}
	}
	out, err := os.ReadFile(Output(x.Folder(len("a result"))))
	if want := "hi --allow=speed --json-file=" + x.Result(8, 1) + " --set=a.b=1 yes\n"; err != nil || string(out) != want {
		t.Errorf("printed %q, want %q (%v)", out, want, err)
	}
	x.Launch = "/nonexistent"
	if err := x.Start(start(99, succeeded)); err == nil {
		t.Error("a launch that does not exist was started")
	}
}

// A launch that was killed leaves its run behind: the trial's next start resumes that.
func TestLostRun(t *testing.T) {
	x, dir := executor(t)
	rec, err := x.Runs.Create(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	j := &job.Job{Plugin: "p", Command: job.Command{Args: []string{"python", "t.py"}, Dir: dir}}
	rec.Write(record.Event{Kind: record.Started, Run: &run.Run{Job: j}})
	rec.Close()
	s := start(1, "python", "t.py")
	s.Invocation.Set, s.Since = nil, time.Now().Add(-time.Minute)
	other, resumed, later := s, s, s
	other.Invocation.Args = []string{"python", "u.py"}
	resumed.Resume = "R"
	later.Since = time.Now().Add(time.Minute)
	for _, tt := range []struct {
		name  string
		pid   int
		start sweep.Start
		want  string
	}{
		{"by its process", os.Getpid(), other, rec.ID}, {"not by its command", 0, s, ""}, {"another command", 0, other, ""},
		{"it had been resumed", 0, resumed, "R"}, {"a run from before", os.Getpid(), later, ""},
	} {
		if r := x.result(tt.start, tt.pid, nil); r.Ending != sweep.Lost || r.Run != tt.want || r.Known != (tt.want != "") {
			t.Errorf("%s: %+v, want %q", tt.name, r, tt.want)
		}
	}
}

// A row finds its own run by its mark, and never that of a row that ran the same command. What the record has of the
// run's end is the row's result.
func TestRecordedResult(t *testing.T) {
	x, dir := executor(t)
	x.Mark = sweep.Spec{Name: "s", ID: "x"}.Mark
	write := func(row string, events ...record.Event) string {
		rec, err := x.Runs.Create(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		rec.Row = row
		j := &job.Job{Plugin: "p", Command: job.Command{Args: []string{"python", "t.py"}, Dir: dir}}
		rec.Write(record.Event{Kind: record.Started, Run: &run.Run{Job: j}})
		for _, e := range events {
			rec.Write(e)
		}
		rec.Close()
		return rec.ID
	}
	attempt := func(e run.Ending, code int) record.Event {
		return record.Event{Kind: record.Ended, Attempt: &run.Attempt{Outcome: run.Outcome{Ending: e, Code: code}}}
	}
	stopped := func(code int) record.Event {
		return record.Event{Kind: record.Stopped, Stop: &run.Stop{}, Code: &code}
	}
	write("s/2/1/x", attempt(run.Succeeded, 0), stopped(0))
	write("s/3/1/y", attempt(run.Succeeded, 0), stopped(0))
	cut := write("s/4/1/x")
	write("s/5/1/x", attempt(run.Succeeded, 0))
	write("s/6/1/x", attempt(run.Failed, 3), stopped(3))
	short := write("s/7/1/x", attempt(run.OutOfMemory, 1))
	for trial, want := range map[int]sweep.Result{
		1: {Ending: sweep.Lost}, 2: {Ending: run.Succeeded}, 3: {Ending: sweep.Lost},
		4: {Ending: sweep.Lost, Run: cut, Known: true}, 5: {Ending: run.Succeeded}, 6: {Ending: run.Failed, Code: 3},
		7: {Ending: sweep.Lost, Run: short, Known: true},
	} {
		s := start(trial, "python", "t.py")
		s.Since = time.Now()
		r := x.result(s, 0, nil)
		if r.Ending != want.Ending || r.Code != want.Code || want.Ending == sweep.Lost && r.Run != want.Run {
			t.Errorf("trial %d: %+v, want %+v", trial, r, want)
		}
	}
	if got := strings.Join(x.args(start(2, "python")), " "); !strings.Contains(got, " --sweep-row=s/2/1/x ") {
		t.Errorf("the launch does not get its mark: %s", got)
	}
}

func TestResumeArguments(t *testing.T) {
	x, _ := executor(t)
	x.Flags = append(x.Flags, "--set=a=1")
	s := start(1, "python", "t.py")
	s.Resume, s.Number = "R", 2
	if got := strings.Join(x.args(s), " "); got != "resume R --allow=speed --json-file="+x.Result(1, 2) {
		t.Error(got)
	}
	s.Invocation.Args = []string{"python", "t.py", "--password", "x"}
	if got := strings.Join(x.args(s), " "); !strings.HasSuffix(got, " -- python t.py --password x") {
		t.Error("a secret that no record has is not given again:", got)
	}
}

// A process that drives a sweep is killed. The next one waits for what still runs, and starts nothing twice.
func TestAdopt(t *testing.T) {
	x, dir := executor(t)
	gate := filepath.Join(dir, "gate")
	out := func(trial int) *os.File { // as the killed process has opened it, with its lock
		os.MkdirAll(x.Folder(trial), 0o700)
		f, err := os.OpenFile(Output(x.Folder(trial)), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil || hold(f) != nil {
			t.Fatal(err)
		}
		return f
	}
	orphan := func(trial int, steps ...string) *exec.Cmd {
		f := out(trial)
		defer f.Close()
		cmd := exec.Command(x.Launch)
		cmd.Args = append([]string{"launch"}, x.args(start(trial, steps...))...)
		cmd.Stdout = f
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go cmd.Wait()
		return cmd
	}
	orphan(1, "await "+gate, succeeded) // still runs
	orphan(2, succeeded)                // has ended meanwhile
	f := out(3)                         // forked, and has no command line yet
	// trial 4 was never started
	for n := 1; n <= 4; n++ {
		s := start(n)
		s.Begun = true
		if err := x.Start(s); err != nil {
			t.Fatal(err)
		}
	}
	want := map[int]run.Ending{2: run.Succeeded, 4: sweep.Lost}
	for range 2 {
		if e := end(t, x); e.Result.Ending != want[e.Trial] {
			t.Errorf("%+v", e)
		}
	}
	select {
	case e := <-x.Ends():
		t.Fatalf("trial %d is taken for dead while it lives", e.Trial)
	case <-time.After(200 * time.Millisecond):
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if e := end(t, x); e.Trial != 1 || e.Result.Ending != run.Succeeded {
		t.Errorf("%+v", e)
	}
	os.WriteFile(x.Result(3, 1), []byte(strings.TrimPrefix(succeeded, "result ")), 0o600)
	f.Close()
	if e := end(t, x); e.Trial != 3 || e.Result.Ending != run.Succeeded {
		t.Errorf("%+v", e)
	}
}

func TestStop(t *testing.T) {
	x, dir := executor(t)
	for trial, now := range map[int]bool{1: false, 2: true} {
		if err := x.Start(start(trial, "await "+filepath.Join(dir, "never"))); err != nil {
			t.Fatal(err)
		}
		x.Stop(trial, now)
		if e := end(t, x); e.Trial != trial || e.Result.Ending != sweep.Lost {
			t.Errorf("%+v", e)
		}
	}
	// one that another process started
	cmd := exec.Command(x.Launch)
	cmd.Args = append([]string{"launch"}, x.args(start(3, "await "+filepath.Join(dir, "never")))...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go cmd.Wait()
	s := start(3)
	s.Begun = true
	x.Start(s)
	x.Stop(3, false)
	if e := end(t, x); e.Trial != 3 {
		t.Errorf("%+v", e)
	}
}

func TestPlan(t *testing.T) {
	x, _ := executor(t)
	trials := sweep.Template{}.Number(1, []sweep.Assignment{{{Key: "v", Value: "1"}}, {{Key: "v", Value: "2"}}, {{Key: "v",
		Value: "3"}}})
	template := sweep.Template{Command: []string{"t", `{"version":1,"plugin":"p","steps":{v}}`}}
	quotes, err := x.Plan(t.Context(), template, trials, true)
	if err != nil || len(quotes) != 3 || quotes[2].Steps != 3 || quotes[2].Trial != 3 {
		t.Errorf("%+v, %v", quotes, err)
	}
	template.Command[1] = `{"version":1,"steps":{v}}`
	if quotes, err := x.Plan(t.Context(), template, trials, true); err != nil || len(quotes) != 1 {
		t.Errorf("what no plugin recognises is priced %d times: %v", len(quotes), err)
	}
	template.Command[1] = `{v}`
	if _, err := x.Plan(t.Context(), template, trials, false); err == nil {
		t.Error("what is no plan is taken for one")
	}
}

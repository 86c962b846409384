package local

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

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
	return New(Options{Launch: own, Dir: dir, Flags: []string{"--allow=speed"}, Runs: record.In(filepath.Join(dir, "state")),
		Folder: func(n int) string { return filepath.Join(dir, "trials", fmt.Sprint(n)) }}), dir
}

func start(trial int, steps ...string) sweep.Start {
	return sweep.Start{Trial: trial, Number: 1, Invocation: sweep.Invocation{Args: steps, Env: []string{"TOLD=yes"}, Set: []string{"a.b=1"}}}
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
		"no result":                 {[]string{"print hi"}, sweep.Lost},
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

func TestResumeArguments(t *testing.T) {
	x, _ := executor(t)
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
	trials := sweep.Number(1, []sweep.Assignment{{{Key: "v", Value: "1"}}, {{Key: "v", Value: "2"}}, {{Key: "v", Value: "3"}}})
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

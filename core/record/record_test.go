package record

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/run"
)

func aRun() *run.Run {
	return &run.Run{
		Job:     &job.Job{Plugin: "sisr", Command: job.Command{Args: []string{"python", "train.py"}, Dir: "/w"}},
		Ladders: &ladder.Set{Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{{Name: "as asked"}}}},
		Room:    123,
	}
}

// What was written can be read, also when launch died while it wrote, and appended to after that.
func TestTornRecord(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "runs")}
	rec, err := s.Create(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.Write(Event{Kind: Started, Run: aRun()}); err != nil {
		t.Fatal(err)
	}
	rec.Planned(&run.Plan{Attempt: 1})
	rec.Ended(&run.Attempt{Plan: run.Plan{Attempt: 1}, Outcome: run.Outcome{Ending: run.OutOfMemory}})
	rec.Planned(&run.Plan{Attempt: 2})
	rec.Close()
	path := filepath.Join(rec.Dir, events)
	b, _ := os.ReadFile(path)
	for cut := len(b); cut > len(b)-40; cut-- {
		if err := os.WriteFile(path, b[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := s.Read(rec.ID)
		if err != nil {
			t.Fatalf("cut to %d bytes: %v", cut, err)
		}
		r := h.Run()
		if r == nil || len(r.Attempts) != 1 || r.Room != 123 || r.Attempts[0].Outcome.Ending != run.OutOfMemory {
			t.Fatalf("cut to %d bytes: the run is %+v", cut, r)
		}
		if h.Torn != (cut < len(b)-1) {
			t.Errorf("cut to %d of %d bytes: torn is %v", cut, len(b), h.Torn)
		}
	}
	again, err := s.Append(rec.ID)
	if err != nil {
		t.Fatal(err)
	}
	again.Write(Event{Kind: Stopped, Stop: &run.Stop{Why: "over"}})
	again.Close()
	h, err := s.Read(rec.ID)
	if err != nil || h.Stop() == nil || h.Stop().Why != "over" {
		t.Errorf("after appending to a torn record: stop %+v, %v", h.Stop(), err)
	}
}

// A run that starts over forgets its states at that moment, not only once the new attempt has saved one. What was
// left by an attempt that was cut off before is forgotten as well.
func TestFromStart(t *testing.T) {
	state := &run.State{Path: "3.pt", Iteration: 3}
	failed := Event{Kind: Ended, Attempt: &run.Attempt{Plan: run.Plan{Attempt: 1},
		Outcome: run.Outcome{Ending: run.Failed, Saved: state}}}
	begin, plan := Event{Kind: Started, Run: aRun()}, Event{Kind: Planned, Plan: &run.Plan{Attempt: 1}}
	resumed, over := Event{Kind: Resumed}, Event{Kind: Resumed, FromStart: true}
	from := Event{Kind: Planned, Plan: &run.Plan{Attempt: 2, Resume: state}}
	fresh := Event{Kind: Planned, Plan: &run.Plan{Attempt: 2}}
	for name, tt := range map[string]struct {
		events []Event
		state  bool
		cut    bool
	}{
		"it resumes":                        {[]Event{begin, plan, failed, resumed}, true, false},
		"cut off again before it saved":     {[]Event{begin, plan, failed, resumed, from}, true, true},
		"and again":                         {[]Event{begin, plan, failed, resumed, from, resumed, from}, true, true},
		"from the start":                    {[]Event{begin, plan, failed, over}, false, false},
		"from the start, and cut off":       {[]Event{begin, plan, failed, over, fresh}, false, true},
		"cut off, and from the start":       {[]Event{begin, plan, over}, false, false},
		"a rung with other states":          {[]Event{begin, plan, failed, fresh}, false, true},
		"cut off twice, and from the start": {[]Event{begin, plan, failed, resumed, from, over}, false, false},
	} {
		h := &History{Events: tt.events}
		r := h.Run()
		if got := r.Saved() != nil; got != tt.state {
			t.Errorf("%s: it has a state: %v", name, got)
		}
		if _, cut := h.CutOff(); cut != tt.cut {
			t.Errorf("%s: it is cut off: %v", name, cut)
		}
	}
}

func TestFind(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "runs")}
	if _, err := s.Find("last"); err == nil || !strings.Contains(err.Error(), "no runs yet") {
		t.Errorf("in an empty store: %v", err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var ids []string
	for i := range 3 {
		rec, err := s.Create(at.Add(time.Duration(i) * time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		rec.Close()
		ids = append(ids, rec.ID)
	}
	for name, want := range map[string]string{"last": ids[2], "": ids[2], ids[0]: ids[0], ids[1][:len(ids[1])-2]: ids[1]} {
		if got, err := s.Find(name); err != nil || got != want {
			t.Errorf("Find(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
	ahead, err := s.Create(at.Add(-time.Hour)) // the clock was ahead, and is right now
	if err != nil {
		t.Fatal(err)
	}
	ahead.Close()
	if got, err := s.Find("last"); err != nil || got != ahead.ID {
		t.Errorf("the last run is %s, %v; want %s, whose name is not the last", got, err, ahead.ID)
	}
	if err := os.Remove(s.Dir + ".order"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Find("last"); err != nil || got != ids[2] {
		t.Errorf("without the list of their order, the last run is %s, %v; want %s", got, err, ids[2])
	}
	if _, err := s.Find("2026"); err == nil || !strings.Contains(err.Error(), "is ambiguous: it could be") {
		t.Errorf("an ambiguous name: %v", err)
	}
	for _, name := range []string{"../../etc", "nobody"} {
		if _, err := s.Find(name); err == nil {
			t.Errorf("Find(%q) found one", name)
		}
		if _, err := s.Read(name); err == nil {
			t.Errorf("Read(%q) read one", name)
		}
	}
}

func TestMask(t *testing.T) {
	args := []string{"python", "t.py", "--wandb-token", "abc", "--api_key=def", "PASSWORD=ghi", "-opt", "x.yml", "https://me:jkl@host/x", "--tokenizer", "bert"}
	want := []string{"python", "t.py", "--wandb-token", Masked, "--api_key=" + Masked, "PASSWORD=" + Masked, "-opt", "x.yml", "https://me:" + Masked + "@host/x", "--tokenizer", "bert"}
	if got := MaskArgs(args); !slices.Equal(got, want) {
		t.Errorf("masked to %q\nwant      %q", got, want)
	}
	if args[3] != "abc" {
		t.Error("the command itself was changed")
	}
	for in, want := range map[string]string{ // words apart by "|"; as they are where there is no "→"
		"python|t.py|--pw|x|--lr|1":                                       "python|t.py|--pw|***|--lr|1",
		"t.py|--header=Authorization: Bearer abc":                         "t.py|--header=Authorization: ***",
		"curl|-H|Authorization: Bearer abc|http://x":                      "curl|-H|Authorization: ***|http://x",
		"curl|-H|X-Api-Key: abc|-H|Accept: json":                          "curl|-H|X-Api-Key: ***|-H|Accept: json",
		"env|HF_TOKEN=abc|WANDB_KEY=d|python|t.py":                        "env|HF_TOKEN=***|WANDB_KEY=***|python|t.py",
		"t.py|logger.wandb.api_key=abc|apiKey=d":                          "t.py|logger.wandb.api_key=***|apiKey=***",
		"t.py|--wandb-key|abc|--hf_token=d|--token|e":                     "t.py|--wandb-key|***|--hf_token=***|--token|***",
		"sh|-c|TOKEN=x python t.py --pw 'a b' --lr 1":                     "sh|-c|TOKEN=*** python t.py --pw *** --lr 1",
		"sh|-c|export MY_KEY=x; python t.py":                              "sh|-c|export MY_KEY=***; python t.py",
		"bash|-lc|cd x && TOKEN='it'\\''s' python t.py && echo done":      "bash|-lc|cd x && TOKEN=*** python t.py && echo done",
		"sh|-c|curl -H \"Authorization: Bearer x\" http://y; python t.py": "sh|-c|curl -H 'Authorization: ***' http://y; python t.py",
		"sh|-c|sh -c 'TOKEN=x python t.py'":                               "sh|-c|sh -c 'TOKEN=*** python t.py'",
		"ssh|host|WANDB_API_KEY=x python t.py":                            "ssh|host|WANDB_API_KEY=***",
		"ssh|host|cd x; HF_TOKEN=x python t.py":                           "ssh|host|cd x; HF_TOKEN=*** python t.py",
		"env|TOKEN=two words|t.py|--password=three more words":            "env|TOKEN=***|t.py|--password=***",
		"sh|-c|TOKEN=x python t.py (":                                     "sh|-c|TOKEN=*** python t.py (",
		"sshpass|-p|x|ssh|h|python|main.py|-p|10":                         "sshpass|-p|***|ssh|h|python|main.py|-p|10",
		"nice|-n|5|mysql|-psecret|-u|me":                                  "nice|-n|5|mysql|-p***|-u|me",
		"sh|-c|mysql -psecret -e 'select 1' && python main.py -p 10":      "sh|-c|mysql -p*** -e 'select 1' && python main.py -p 10",
		"env|MYSQL_PWD=x|--db-password=https://me:y@host/z":               "env|MYSQL_PWD=***|--db-password=***",
		"docker|login|-p|x":                                               "docker|login|-p|***",
		"sh|-c|printf %s \"$(TOKEN=x cat oom)\" --pw \"a $(cat y)\"":      "sh|-c|printf %s \"$(TOKEN=*** cat oom)\" --pw ***",
		// none of which is a secret
		"sh|-c|printf '%s' \"$(cat oom)\" $(echo $(echo 'a b'))":         "",
		"python|main.py|-p|10|--print-freq|10":                           "",
		"docker|run|-p|80:80|image":                                      "",
		"t.py|--key-frames|3|--tokenizer|x|--token-size|4":               "",
		"t.py|--max-tokens|100|--num-tokens=5|--tokens|x":                "",
		"t.py|--pad-token|<pad>|--placeholder_token|<cat>|--eos_token=2": "",
		"t.py|--image-key|jpg|data.sort_key=name|--key|x":                "",
		"t.py|--use_auth_token|x.yml|--authors|3|--compass|1|--pass|2":   "",
		"t.py|--keypoints|17|--monkey=1|--passes|2|--author=me":          "",
		"sh|-c|TOKEN=$HF_TOKEN python t.py --token \"$HF_TOKEN\"":        "",
		"t.py|--prompt|a photo of a token, its key = 3; and more":        "",
		"t.py|--header|0|--headers=Accept: x":                            "",
	} {
		if want == "" {
			want = in
		}
		if got := strings.Join(MaskArgs(strings.Split(in, "|")), "|"); got != want {
			t.Errorf("%s\nmasked to %s\nwant      %s", in, got, want)
		}
	}
	env := MaskEnv([]string{"HOME=/h", "CUDA_VISIBLE_DEVICES=0", "AWS_SECRET_ACCESS_KEY=x", "LAUNCH_SECRET=y", "PYTORCH_CUDA_ALLOC_CONF=a:b"})
	if want := []string{"CUDA_VISIBLE_DEVICES=0", "LAUNCH_SECRET=" + Masked, "PYTORCH_CUDA_ALLOC_CONF=a:b"}; !slices.Equal(env, want) {
		t.Errorf("environment %q, want %q", env, want)
	}
}

// A command that is given again is the recorded one but for its secrets; and what differs is named, without a secret in it.
func TestUnmask(t *testing.T) {
	command := []string{"sh", "-c", "TOKEN=abc python t.py --header \"Authorization: x\"", "--pw", "def", "--lr", "1"}
	recorded := MaskArgs(command)
	other := func(i int, word string) []string { c := slices.Clone(command); c[i] = word; return c }
	for what, tt := range map[string]struct {
		given []string
		says  string
	}{
		"the same":           {command, ""},
		"another secret":     {other(4, "changed"), ""},
		"another in a shell": {other(2, "TOKEN='new one' python t.py --header \"Authorization: y\""), ""},
		"another script":     {other(2, "TOKEN=abc python u.py --header \"Authorization: x\""), "where the recorded one has"},
		"another option":     {other(6, "2"), `has "2" where the recorded one has "1"`},
		"shorter":            {command[:6], `ends before "1"`},
		"longer":             {append(slices.Clone(command), "--token=abc"), `has "--token=***" where the recorded one ends`},
		"the mask":           {recorded, "put the secret in the place of ***"},
	} {
		err := Unmask(recorded, tt.given)
		if (err == nil) != (tt.says == "") || err != nil && (!strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "abc")) {
			t.Errorf("%s: %v, want %q", what, err, tt.says)
		}
	}
	if err := Unmask([]string{"t.py", "--old=***"}, []string{"t.py", "--old=x"}); err != nil {
		t.Errorf("masked by other rules: %v", err)
	}
}

// machine gives a test the folder of a machine of its own.
func machine(t *testing.T) {
	t.Helper()
	before, dir := machineDir, t.TempDir()
	machineDir = func() string { return dir }
	t.Cleanup(func() { machineDir = before })
}

// A launch in a batch job of another TMPDIR sees the locks, too.
func TestLocksAreOfTheMachine(t *testing.T) {
	before := machineLocks()
	t.Setenv("TMPDIR", t.TempDir())
	if after := machineLocks(); after != before {
		t.Errorf("with another TMPDIR locks lie in %s, not %s", after, before)
	}
}

func TestLock(t *testing.T) {
	machine(t)
	s := Store{Dir: filepath.Join(t.TempDir(), "runs")}
	unlock, err := s.Lock("/w/experiments/x", "run 1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lock("/w/experiments/x", "run 2"); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "run 1 holds /w/experiments/x") {
		t.Errorf("a second launch in the same experiment: %v", err)
	}
	if other, err := s.Lock("/w/experiments/y", "run 2"); err != nil {
		t.Errorf("another experiment: %v", err)
	} else {
		other()
	}
	unlock()
	if again, err := s.Lock("/w/experiments/x", "run 3"); err != nil {
		t.Errorf("after the first has ended: %v", err)
	} else {
		again()
	}
}

// Whatever a command is, masking ends, and soon: a run waits for it.
func FuzzMask(f *testing.F) {
	for _, s := range []string{"a b", "$(echo $(echo \"$(x y)\"))", "TOKEN='x y' sh -c 'sh -c \"TOKEN=x y\"'", "--pw a --token=\"$X\" `b c`", "é \xff (", "x=$((1+2)) ${a:-b c}", "<<E\na\nE"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		done := make(chan int, 1)
		go func() { done <- len(MaskArgs([]string{"sh", "-c", script, script})) }()
		select {
		case n := <-done:
			if n != 4 {
				t.Errorf("%d words of 4 are left", n)
			}
		case <-time.After(time.Minute):
			t.Fatal("it takes longer than a minute")
		}
	})
}

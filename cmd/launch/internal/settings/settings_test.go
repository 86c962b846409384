package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/private"
)

// What a stranger may type, and what is said to it: what is wrong, and what would do.
func TestAmountsThatCannotBe(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	dir := t.TempDir()
	for _, tt := range []struct {
		args string
		says string // "": it is taken
	}{
		{"--vram 0", "--vram 0: 0 B is too small for a training; give an amount with its unit, such as 12GiB, or leave it out to plan for this machine's card"},
		{"--vram 12", "--vram 12: 12 B is too small for a training"},
		{"--memory 0", "leave it out to set no limit"},
		{"--memory 10MiB", "--memory 10MiB: 10.0 MiB is too small for a training"},
		{"--vram --json", "--vram needs an amount of memory, such as --vram 8GiB"},
		{"--reserve --", "--reserve needs an amount of memory"},
		{"--vram much", `"much" is not an amount of memory`},
		{"--vram 8GiB --memory 8GiB", "remove one of them"},
		{"--vram 8GiB --device cpu", "To limit host memory use --memory"},
		{"--vram 8GiB --device 7", "--vram plans for any card of that size, but --device 7 names one in this machine: remove one of them, or set --device auto"},
		{"--device GPU-foo --vram 8GiB", "but --device GPU-foo names one in this machine"},
		{"--vram 8GiB --device auto", ""},
		{"--device 7", ""},
		{"--reserve 0", ""},
		{"--vram=", ""},
		{"--vram 64MiB --reserve 12", ""},
	} {
		f := pflag.NewFlagSet("launch", pflag.ContinueOnError)
		AddFlags(f)
		f.Bool("json", false, "")
		args := strings.Fields(tt.args)
		if err := f.Parse(args); err != nil {
			t.Fatalf("%s: %v", tt.args, err)
		}
		_, err := Read(f, dir)
		switch {
		case tt.says == "" && err != nil:
			t.Errorf("%s: %v", tt.args, err)
		case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: %v, want one sentence that says %q", tt.args, err, tt.says)
		}
	}
}

// set reads the settings of a folder with one .launch.yaml, which the user has approved, one of the user, and one variable. In
// what it says the folders are PROJECT and USER.
func set(t *testing.T, env, file, user string, args ...string) (Values, string) {
	t.Helper()
	project, home := t.TempDir(), t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	write(t, filepath.Join(project, ".launch.yaml"), []byte(file))
	write(t, filepath.Join(home, "launch", "config.yaml"), []byte(user))
	if f, err := private.ReadSettings(filepath.Join(project, ".launch.yaml")); err != nil {
		t.Fatal(err)
	} else if err := private.Approved().Add(f); err != nil {
		t.Fatal(err)
	}
	if name, value, ok := strings.Cut(env, "="); ok {
		t.Setenv(name, value)
		defer os.Unsetenv(name)
	}
	f := pflag.NewFlagSet("launch", pflag.ContinueOnError)
	AddFlags(f)
	f.Bool("json", false, "") // of one command, and no setting
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	s, err := Read(f, project)
	if err == nil {
		return s, ""
	}
	return s, strings.NewReplacer(project, "PROJECT", home, "USER").Replace(err.Error())
}

// A text that says neither yes nor no, or no number, is not taken for no or nothing: from the environment or a file as little as
// from a flag. The complaint says where it stands.
func TestSettingsThatCannotBeRead(t *testing.T) {
	for _, tt := range []struct{ env, file, user, args, says string }{
		{env: "LAUNCH_ANYWAY=maybe", says: `LAUNCH_ANYWAY: "maybe" is not true or false`},
		{env: "LAUNCH_AS_ASKED=2", says: `LAUNCH_AS_ASKED: "2" is not true or false`},
		{env: "LAUNCH_GPUS=two", says: `LAUNCH_GPUS: "two" is not a whole number of at least 0`},
		{env: "LAUNCH_GPUS=-1", says: `LAUNCH_GPUS: "-1" is not a whole number of at least 0`},
		{env: "LAUNCH_GRACE=30", says: `LAUNCH_GRACE: "30" is not a time, such as 30s`},
		{env: "LAUNCH_TRACE=maybe", says: `LAUNCH_TRACE: "maybe" is not one of auto, never and always`},
		{args: "--trace-time=0", says: `--trace-time: "0s" is not a time, such as 30s`},
		{env: "LAUNCH_FILL=much", says: `LAUNCH_FILL: "much" is neither fast nor true or false`},
		{env: "LAUNCH_VRAM=12", says: "LAUNCH_VRAM (12): 12 B is too small for a training; give an amount with its unit, such as 12GiB, or leave it out to plan for this machine's card"},
		{file: "quiet: sometimes", says: `quiet in PROJECT/.launch.yaml: "sometimes" is not true or false`},
		{file: "sample: 5", says: `sample in PROJECT/.launch.yaml: "5" is not a time, such as 30s`},
		{file: "reserve: much", says: `reserve in PROJECT/.launch.yaml: "much" is not an amount of memory, such as 8GiB or 8192MiB`},
		{file: "allow: all", says: `allow in PROJECT/.launch.yaml: "all" is not a cost; the costs are none, speed, numerics, metrics, recipe, model`},
		{file: "memory: 8GiB", args: "--vram=8GiB", says: "--vram plans for a card, memory in PROJECT/.launch.yaml for host memory: remove one of them"},
		{file: "device: 1", args: "--memory=8GiB", says: "--memory limits host memory: it goes with --device cpu, not with device in PROJECT/.launch.yaml (1). For a card use --vram"},
		{file: "device: 1", args: "--vram=8GiB", says: "--vram plans for any card of that size, but device in PROJECT/.launch.yaml (1) names one in this machine: remove one of them, or set --device auto"},
		{file: "device: 1", args: "--vram=8GiB --device=auto"},
		{file: "as-asked: true", args: "--fill", says: "as-asked in PROJECT/.launch.yaml and --fill contradict each other"},
		{user: "grace: 5", says: `grace in USER/launch/config.yaml: "5" is not a time, such as 30s`},
		{user: "grace: 5s", file: "grace: 6", says: `grace in PROJECT/.launch.yaml: "6" is not a time, such as 30s`}, // of the one that counts
		{user: "grace: 5s", file: "grace: 6", env: "LAUNCH_GRACE=7", says: `LAUNCH_GRACE: "7" is not a time, such as 30s`},
		{user: "grace: 5", file: "grace: 6", env: "LAUNCH_GRACE=7", args: "--grace=-8s", says: `--grace: "-8s" is not a time, such as 30s`},
		{file: "vram: [1]", says: "vram in PROJECT/.launch.yaml is a list: it takes one value"},
		{file: "vram: [1]", args: "--vram=8GiB", says: "vram in PROJECT/.launch.yaml is a list: it takes one value"},
		{file: "allow: [speed, metrics]", says: "allow in PROJECT/.launch.yaml is a list: it takes one value"},
		{file: "vram: {size: 12GiB}", says: "vram in PROJECT/.launch.yaml is a mapping: it takes one value"},
		{file: "json-file: {}", says: "json-file in PROJECT/.launch.yaml is a mapping: it takes one value"},
		{file: "vram:", says: "vram in PROJECT/.launch.yaml has no value: give it one, or remove the line"},
		{user: "state-dir: null", says: "state-dir in USER/launch/config.yaml has no value: give it one, or remove the line"},
		{file: "allow: ~\nquiet: []", says: "allow in PROJECT/.launch.yaml has no value: give it one, or remove the line\nquiet in PROJECT/.launch.yaml is a list: it takes one value"},
		{file: "allow: speed\nAllow: none", says: "PROJECT/.launch.yaml sets allow twice"},
		{file: "as_asked: true", says: "PROJECT/.launch.yaml: launch has no setting \"as_asked\" " +
			"(did you mean as-asked?); its settings are the flags in `launch help settings`"},
		{file: "json: true", says: "PROJECT/.launch.yaml: launch has no setting \"json\"; " +
			"its settings are the flags in `launch help settings`"},
		{file: "gpus: !!int 2\nvram: &size 12GiB\nreserve: *size\nQuiet: yes\ndevice: auto"}, // an anchor is a value, and case is no matter
		{env: "LAUNCH_VRAM=", file: "# nothing yet"},                                         // as everywhere: an empty variable is none
		{env: "LAUNCH_QUIET=", file: "quiet: maybe", says: `quiet in PROJECT/.launch.yaml: "maybe" is not true or false`},
		{file: "fill: much", args: "--fill=more", says: "--fill=more: write --fill or --fill=fast"},
	} {
		if _, says := set(t, tt.env, tt.file, tt.user, strings.Fields(tt.args)...); says != tt.says {
			t.Errorf("%+v: %q", tt, says)
		}
	}
}

// Who writes YAML 1.1 writes yes and no.
func TestBooleans(t *testing.T) {
	for text, on := range map[string]bool{
		"yes": true, "Yes": true, "YES": true, "y": true, "on": true, "On": true, "true": true, "TRUE": true, "1": true, "t": true, `"yes"`: true,
		"no": false, "No": false, "N": false, "off": false, "OFF": false, "false": false, "0": false,
	} {
		for _, key := range []string{"quiet", "receipts", "fill"} {
			for _, from := range []string{"file", "environment"} {
				env, file := "", key+": "+text+"\n"
				if from == "environment" {
					env, file = Variable(key)+"="+strings.Trim(text, `"`), ""
				}
				s, says := set(t, env, file, "")
				all := map[string]bool{"quiet": s.Output.Quiet, "receipts": s.Reading.Receipts, "fill": s.Limits.Fill}
				if got := all[key]; says != "" || got != on || s.Limits.Fast {
					t.Errorf("%s: %s from the %s is %v, %s", key, text, from, got, says)
				}
			}
		}
	}
	if s, says := set(t, "", "device: 010", ""); says != "" || s.Room.Device != "010" {
		t.Errorf("as it is written: %+v, %s", s, says)
	}
	for args, want := range map[string]string{"": TraceAuto, "--trace": TraceAlways, "--trace=no": TraceNever,
		"--trace=Never": TraceNever, "--trace=true": TraceAlways} {
		if s, says := set(t, "", "", "", strings.Fields(args)...); says != "" || s.Reading.Trace != want {
			t.Errorf("%q: trace is %q (%s)", args, s.Reading.Trace, says)
		}
	}
	if s, says := set(t, "LAUNCH_FILL=Fast", "fill: no", "fill: yes"); says != "" || !s.Limits.Fill || !s.Limits.Fast {
		t.Errorf("fast: %+v, %s", s, says)
	}
	s, says := set(t, "LAUNCH_ANYWAY=1", "receipts: false\ngpus: 2\ngrace: 5s\n", "quiet: on\ngpus: 3")
	if says != "" ||
		!s.Limits.Anyway || s.Reading.Receipts || s.Room.GPUs != 2 || !s.Output.Quiet || s.Program.Grace.Seconds() != 5 {
		t.Errorf("all together: %+v, %s", s, says)
	}
}

// What is believed of a project's file, by who could have written it and what the user has said of it.
func TestBelief(t *testing.T) {
	const all = "json-file: x.json\nstate-dir: here\nmemory: 8GiB\nplugin: mine\nanyway: true\ngrace: 1s\nallow: recipe\nquiet: true\n"
	for _, tt := range []struct {
		what, file string
		mode       os.FileMode
		approve    bool
		notes      []string // what each holds
		asTyped    bool
		quiet      bool // "quiet: true" was taken
		whole      bool // so was the rest
	}{
		{what: "one's own", file: all, mode: 0o644, quiet: true, notes: []string{"sets allow, anyway, grace, json-file, memory, plugin, state-dir; a project's file may do so only after `launch trust "}},
		{what: "approved", file: all, mode: 0o644, approve: true, quiet: true, whole: true},
		{what: "open to all", file: all, mode: 0o666, asTyped: true, notes: []string{"and changes nothing of the training: .launch.yaml can be written by every user"}},
		{what: "open and approved", file: all, mode: 0o666, approve: true, quiet: true, notes: []string{"a file that others can write may not do so"}},
		{what: "what does less", file: "plugin: none\nallow: none\nanyway: false\nquiet: yes\n", mode: 0o644, quiet: true},
	} {
		t.Run(tt.what, func(t *testing.T) {
			t.Setenv("XDG_CONFIG_HOME", t.TempDir())
			t.Setenv("XDG_STATE_HOME", "/state")
			dir := t.TempDir()
			path := filepath.Join(dir, ".launch.yaml")
			write(t, path, []byte(tt.file))
			os.Chmod(path, tt.mode)
			if tt.approve {
				f, err := private.ReadSettings(path)
				if err != nil || private.Approved().Add(f) != nil {
					t.Fatal(err)
				}
			}
			f := pflag.NewFlagSet("launch", pflag.ContinueOnError)
			AddFlags(f)
			s, err := Read(f, dir)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Reading.Notes) != len(tt.notes) {
				t.Errorf("notes %q, want %d", s.Reading.Notes, len(tt.notes))
			}
			for i, note := range tt.notes {
				if i < len(s.Reading.Notes) && !strings.Contains(s.Reading.Notes[i], note) {
					t.Errorf("note %q, want %q in it", s.Reading.Notes[i], note)
				}
			}
			if (s.Reading.AsTyped != "") != tt.asTyped || s.Output.Quiet != tt.quiet {
				t.Errorf("as typed: %q; quiet: %v", s.Reading.AsTyped, s.Output.Quiet)
			}
			whole := s.Result.File == "x.json" && s.State == filepath.Join(dir, "here") && s.Room.Memory > 0 &&
				s.Reading.Plugin == "mine" && s.Limits.Anyway && s.Program.Grace == time.Second && s.Limits.Allow == ladder.Recipe
			some := s.Result.File != "" || s.State != "/state/launch" || s.Room.Memory > 0 ||
				s.Reading.Plugin == "mine" || s.Limits.Anyway || s.Program.Grace == time.Second || s.Limits.Allow == ladder.Recipe
			if whole != tt.whole || some != tt.whole {
				t.Errorf("taken: %+v", s)
			}
		})
	}
}

// A folder of records stays where it was meant, whichever folder launch goes to.
func TestStateDirIsAbsolute(t *testing.T) {
	project := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(project, "config"))
	below := filepath.Join(project, "below")
	write(t, filepath.Join(project, "config", "launch", "config.yaml"), []byte("state-dir: my state\n"))
	os.Mkdir(below, 0o755)
	read := func(args ...string) string {
		f := pflag.NewFlagSet("launch", pflag.ContinueOnError)
		AddFlags(f)
		if err := f.Parse(args); err != nil {
			t.Fatal(err)
		}
		s, err := Read(f, below)
		if err != nil {
			t.Fatal(err)
		}
		return s.State
	}
	if got, want := read(), filepath.Join(project, "config", "launch", "my state"); got != want {
		t.Errorf("from a file: %s, want %s", got, want)
	}
	if got, want := read("--state-dir=../st:ate"), filepath.Join(project, "st:ate"); got != want {
		t.Errorf("by a flag: %s, want %s", got, want)
	}
	t.Setenv("LAUNCH_STATE_DIR", "x")
	if got, want := read(), filepath.Join(below, "x"); got != want {
		t.Errorf("by the environment: %s, want %s", got, want)
	}
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

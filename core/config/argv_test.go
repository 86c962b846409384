package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var trainer = []Option{
	{Names: []string{"-opt"}},
	{Names: []string{"--launcher"}},
	{Names: []string{"--auto_resume"}, Takes: None},
	{Names: []string{"--debug"}, Takes: None},
	{Names: []string{"-b", "--batch-size"}},
	{Names: []string{"--batch-size-val"}},
	{Names: []string{"-v"}, Takes: None},
	{Names: []string{"-q"}, Takes: None},
	{Names: []string{"--base"}, Takes: Any},
	{Names: []string{"--resume"}, Takes: Maybe},
	{Names: []string{"--force_yml"}, Takes: Some},
}

func TestArgvSet(t *testing.T) {
	for _, tt := range []struct{ in, path, get, set, want string }{
		{"-opt x.yml", "-opt", "x.yml", "y.yml", "-opt y.yml"},
		{"-opt=x.yml", "-opt", "x.yml", "y.yml", "-opt=y.yml"},
		{"-op x.yml", "-opt", "x.yml", "y.yml", "-op y.yml"},
		{"-opt a -opt b", "-opt", "b", "c", "-opt a -opt c"},
		{"-opt x -- -opt z", "-opt", "x", "y", "-opt y -- -opt z"},
		{"--laun pytorch -opt x", "--launcher", "pytorch", "none", "--laun none -opt x"},
		{"--launcher=a=b", "--launcher", "a=b", "c", "--launcher=c"},
		{"-b 8", "--batch-size", "8", "4", "-b 4"},
		{"-b8", "-b", "8", "4", "-b4"},
		{"-b=8", "-b", "8", "4", "-b=4"},
		{"--batch-size=8 --batch-size-val=2", "-b", "8", "4", "--batch-size=4 --batch-size-val=2"},
		{"--batch-size-v 2", "--batch-size-val", "2", "1", "--batch-size-v 1"},
		{"-b -1", "-b", "-1", "-2", "-b -2"},
		{"--base a.yml -b 8", "--base", "a.yml", "b.yml", "--base b.yml -b 8"},
		{"a.b=1 --unknown x a.b=2", "a.b", "2", "3", "a.b=1 --unknown x a.b=3"},
		{"a.b=1", "a.b", "1", "", "a.b="},
		{"--resume -b 8", "-b", "8", "4", "--resume -b 4"},
		// absent
		{"-opt x", "--launcher", "", "none", "-opt x --launcher none"},
		{"-opt x -- y", "--launcher", "", "none", "-opt x --launcher none -- y"},
		{"-opt x", "a.b", "", "1", "-opt x a.b=1"},
		{"-v --base a.yml", "a.b", "", "1", "a.b=1 -v --base a.yml"},
		{"--base a.yml a.b=1", "a.b", "", "1", "a.b=1 --base a.yml a.b=1"},
	} {
		a, err := ParseArgv(strings.Fields(tt.in), trainer)
		if err != nil {
			t.Errorf("%s: %v", tt.in, err)
			continue
		}
		if got, _ := a.Get(tt.path); got != tt.get {
			t.Errorf("%s: Get(%s) = %q, want %q", tt.in, tt.path, got, tt.get)
		}
		if err := a.Set(tt.path, tt.set); err != nil {
			t.Errorf("%s: %v", tt.in, err)
		}
		if got := strings.Join(a.Args(), " "); got != tt.want {
			t.Errorf("%s: Set(%s, %s)\n got %s\nwant %s", tt.in, tt.path, tt.set, got, tt.want)
		}
		if got, ok := a.Get(tt.path); !ok || got != tt.set {
			t.Errorf("%s: Get(%s) after Set = %q", tt.in, tt.path, got)
		}
	}
}

func TestArgvReads(t *testing.T) {
	a, err := ParseArgv([]string{"pos", "-vq", "--auto", "--base", "a", "b", "--unknown", "--what=1", "-x y", "-3",
		"--resume",
		"--force_yml", "a=1", "b=2", "--", "-v", "--"}, trainer)
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"-v", "-q", "--auto_resume", "--resume"} {
		if got, ok := a.Get(flag); !ok || got != "" {
			t.Errorf("%s is %q, %v", flag, got, ok)
		}
	}
	for path, want := range map[string][]string{"--base": {"a", "b"}, "--force_yml": {"a=1", "b=2"}, "--debug": nil,
		"a": nil} {
		if diff := cmp.Diff(want, a.Values(path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	if diff := cmp.Diff([]string{"pos", "-x y", "-3", "-v", "--"}, a.Positionals()); diff != "" {
		t.Errorf("positional (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"--unknown", "--what=1"}, a.Unknown()); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
	if got := string(a.Bytes()); !strings.HasPrefix(got, "pos\x00-vq\x00") {
		t.Errorf("Bytes() = %q", got)
	}
}

// An override is added to those that are there, which may all belong to one option.
func TestAddOverride(t *testing.T) {
	for args, want := range map[string]string{
		"c.py --cfg-options a.b=1 c=2 --launcher x": "c.py --cfg-options a.b=1 c=2 d.e=4 --launcher x",
		"c.py --launcher x":                         "c.py --launcher x d.e=4",
		"runs/lr=1/c.py --launcher x":               "runs/lr=1/c.py --launcher x d.e=4",
		"+a=1 x -- b=2":                             "+a=1 d.e=4 x -- b=2",
	} {
		a, err := ParseArgv(strings.Fields(args), []Option{{Names: []string{"--launcher"}}})
		if err == nil {
			err = a.Add("d.e", "4")
		}
		if got := strings.Join(a.Args(), " "); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", args, got, err, want)
		}
	}
}

func TestArgvAddRemove(t *testing.T) {
	a, err := ParseArgv(strings.Fields("-opt x --auto_resume --debug -b 8 --auto a.b=1 -vq"), trainer)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		do   func() error
		want string // the arguments, or what is wrong
	}{
		{func() error { return a.Remove("--auto_resume") }, "-opt x --debug -b 8 a.b=1 -vq"},
		{func() error { return a.Remove("--batch-size") }, "-opt x --debug a.b=1 -vq"},
		{func() error { return a.Add("--auto_resume") }, "-opt x --debug a.b=1 -vq --auto_resume"},
		{func() error { return a.Remove("a.b") }, "-opt x --debug -vq --auto_resume"},
		{func() error { return a.Add("--base", "p", "q") }, "-opt x --debug -vq --auto_resume --base p q"},
		{func() error { return a.Remove("--auto_resume") }, "-opt x --debug -vq --base p q"},
		{func() error { return a.Remove("--launcher") }, "error: --launcher is not there"},
		{func() error { return a.Remove("-v") }, "error: -v stands in a row of flags -vq"},
		{func() error { return a.Add("--debug") }, "error: --debug is there already"},
		{func() error { return a.Add("--never") }, "error: the program has no option --never"},
		{func() error { return a.Set("--never", "1") }, "error: the program has no option --never"},
		{func() error { return a.Add("--launcher") }, "error: --launcher does not take 0 values"},
		{func() error { return a.Set("--auto_resume", "1") }, "error: --auto_resume does not take 1 values"},
		{func() error { return a.Set("--base", "1") }, "error: --base: it has 2 values, not one"},
		{func() error { return a.Set("-opt", "-v") }, "error: setting -opt to"},
		{func() error { return a.Set("-opt", "-vx") }, "error: "},
		{func() error { return a.Set("--launcher", "--") }, "error: "},
		{func() error { return a.Add("") }, "error: "},
	} {
		before := strings.Join(a.Args(), " ")
		err := step.do()
		got := strings.Join(a.Args(), " ")
		if want, isErr := strings.CutPrefix(step.want, "error: "); isErr {
			if err == nil || !strings.Contains(err.Error(), want) || got != before {
				t.Errorf("%v, arguments %s; want %s", err, got, step.want)
			}
		} else if err != nil || got != step.want {
			t.Errorf("%v, arguments %s; want %s", err, got, step.want)
		}
	}
}

func TestArgvRefused(t *testing.T) {
	for _, in := range []string{"-opt", "-opt --debug", "-opt -- x", "--debug=1", "--batch 8", "--b", "--force_yml",
		"-vx", "-op=x"} {
		if a, err := ParseArgv(strings.Fields(in), trainer); !errors.Is(err, ErrArgs) {
			t.Errorf("%s is read as %+v, %v", in, a.tokens, err)
		}
	}
	if a, err := ParseArgv([]string{"--he"}, nil); err != nil || !a.Has("--help") {
		t.Error("--help is not declared")
	}
}

func FuzzArgv(f *testing.F) {
	for _, s := range []string{"-opt\x1fx", "-opt=x\x1f--\x1fy", "-vq\x1f-b8\x1f--base\x1fa\x1fb\x1fa.b=1",
		"--res\x1f-1\x1f--auto"} {
		f.Add(s, "-opt", "y")
		f.Add(s, "a.b", "-y")
	}
	f.Fuzz(func(t *testing.T, s, path, value string) {
		args := strings.Split(s, "\x1f")
		a, err := ParseArgv(args, trainer)
		if err != nil {
			return
		}
		if !cmp.Equal(a.Args(), args) {
			t.Fatal("reading changed the arguments")
		}
		old, was := a.Get(path)
		many := len(a.Values(path))
		if err := a.Set(path, value); err != nil {
			if !cmp.Equal(a.Args(), args) {
				t.Fatal("a refused edit changed the arguments")
			}
			return
		}
		if got, ok := a.Get(path); !ok || got != value {
			t.Fatalf("%q: %s set to %q reads %q", args, path, value, got)
		}
		again, err := ParseArgv(a.Args(), trainer)
		if err != nil {
			t.Fatalf("%q became %q: %v", args, a.Args(), err)
		}
		if got, _ := again.Get(path); got != value {
			t.Fatalf("%q reads back as %q", a.Args(), got)
		}
		if was && many == 1 {
			if len(a.Args()) != len(args) {
				t.Fatalf("%q became %q", args, a.Args())
			}
			if err := a.Set(path, old); err != nil || !cmp.Equal(a.Args(), args, cmpopts.EquateEmpty()) {
				t.Fatalf("%q: set to %q and back is %q, %v", args, value, a.Args(), err)
			}
		}
	})
}

// Where the command joins its values by "=", so does what is added.
func TestArgvAddJoined(t *testing.T) {
	for line, want := range map[string]string{
		"--a=1 --b=2":            "--a=1 --b=2 --new=v",
		"config.py --a=1 --flag": "config.py --a=1 --flag --new=v",
		"--a=1 --b 2":            "--a=1 --b 2 --new v",
		"--a 1":                  "--a 1 --new v",
		"-a 1":                   "-a 1 --new v",
		"x=1":                    "x=1 --new v",
		"":                       "--new v",
	} {
		a, err := ParseArgv(strings.Fields(line), []Option{{Names: []string{"--new"}}})
		if err == nil {
			err = a.Add("--new", "v")
		}
		if got := strings.Join(a.Args(), " "); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", line, got, err, want)
		}
	}
}

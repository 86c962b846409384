package job

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
)

const recipe = "# mine\nname: x   # the name\ntrain:\n  batch: 16\n  lr: !!float 2e-4\n"

func job(args ...string) *Job {
	return &Job{
		Command: Command{Args: args, Dir: "/w", Env: []string{"PATH=/bin", "A=1"}},
		Options: []config.Option{{Names: []string{"-opt"}}, {Names: []string{"--auto_resume"}, Takes: config.None}},
		Files:   []File{{Path: "x.yml", Format: "yaml", Flag: "-opt", Text: []byte(recipe)}},
	}
}

func TestRewrite(t *testing.T) {
	batch := config.Edit{Knob: "micro-batch", At: config.Address{Doc: "x.yml", Path: "train.batch"}, From: "16", To: "8"}
	resume := config.Edit{Knob: "resume", At: config.Address{Doc: config.ArgvDoc, Path: "--auto_resume"}, Add: true}
	env := config.Edit{Knob: "allocator", At: config.Address{Doc: config.EnvDoc, Path: "A"}, To: "2"}

	for _, tt := range []struct {
		name  string
		args  []string
		edits []config.Edit
		want  []string
	}{
		{"nothing", []string{"python", "train.py", "-opt", "x.yml"}, nil, []string{"python", "train.py", "-opt", "x.yml"}},
		{"a copy", []string{"python", "train.py", "-opt", "x.yml"}, []config.Edit{batch}, []string{"python", "train.py", "-opt", "/a/x.yml"}},
		{"joined", []string{"python", "train.py", "-opt=x.yml"}, []config.Edit{batch}, []string{"python", "train.py", "-opt=/a/x.yml"}},
		{"a flag", []string{"python", "train.py", "-opt", "x.yml"}, []config.Edit{resume}, []string{"python", "train.py", "-opt", "x.yml", "--auto_resume"}},
		{"behind torchrun", []string{"torchrun", "--nproc-per-node", "2", "train.py", "-opt", "x.yml"}, []config.Edit{batch, resume},
			[]string{"torchrun", "--nproc-per-node", "2", "train.py", "-opt", "/a/x.yml", "--auto_resume"}},
		{"within a shell", []string{"sh", "-c", "python train.py -opt x.yml"}, []config.Edit{batch}, []string{"sh", "-c", "python train.py -opt /a/x.yml"}},
	} {
		j := job(tt.args...)
		out, err := j.Rewrite(tt.edits, "/a")
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if !slices.Equal(out.Command.Args, tt.want) {
			t.Errorf("%s: command %q, want %q", tt.name, out.Command.Args, tt.want)
		}
		if !slices.Equal(j.Command.Args, tt.args) || string(j.Files[0].Text) != recipe {
			t.Errorf("%s: the job itself was changed", tt.name)
		}
	}

	out, err := job("python", "train.py", "-opt", "x.yml").Rewrite([]config.Edit{batch, env}, "/a")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(out.Files[0].Text); got != strings.Replace(recipe, "batch: 16", "batch: 8", 1) {
		t.Errorf("copy:\n%s", got)
	}
	if !slices.Equal(out.Command.Env, []string{"PATH=/bin", "A=2"}) || out.Set["A"] != "2" {
		t.Errorf("environment %q, set %v", out.Command.Env, out.Set)
	}
}

func TestRewriteRefuses(t *testing.T) {
	for name, e := range map[string]config.Edit{
		"a value that is not there any more": {At: config.Address{Doc: "x.yml", Path: "train.batch"}, From: "32", To: "8"},
		"a file that is not read":            {At: config.Address{Doc: "y.yml", Path: "train.batch"}, From: "16", To: "8"},
		"a key that is there already":        {At: config.Address{Doc: "x.yml", Path: "train.batch"}, To: "8", Add: true},
	} {
		if out, err := job("python", "train.py", "-opt", "x.yml").Rewrite([]config.Edit{e}, "/a"); err == nil {
			t.Errorf("%s: made %q", name, out.Command.Args)
		}
	}
}

func TestRewriteOfWhatIsNoRecipe(t *testing.T) {
	j := job("python", "train.py", "-opt", "x.yml", "--base", "a.yml", "--resume", "old.pt", "--gpu", "0")
	j.Options = append(j.Options, config.Option{Names: []string{"--base"}, Takes: config.Any}, config.Option{Names: []string{"--resume"}}, config.Option{Names: []string{"--gpu"}})
	source := &config.PythonSource{Path: "/w/c.py", Text: []byte("A = 1\nB = 2\n"), Items: []config.PythonItem{{Path: "A", Value: []byte("1"), Literal: true, Start: 4, End: 5}, {Path: "B", Value: []byte("2"), Literal: true, Start: 10, End: 11}}}
	j.Files = append(j.Files,
		File{Path: "launch.yaml", Format: "yaml", Flag: "--base", Text: []byte("{}\n"), Added: true},
		File{Path: "/w/c.py", Format: Python, Source: source},
		File{Path: "old.pt", Format: Binary, Flag: "--resume", Patches: []Patch{{Path: "queue_ptr", From: "224", To: "0", Bytes: []Bytes{{7, []byte{0}}}}}})
	at := func(doc, path string) config.Address { return config.Address{Doc: doc, Path: path} }
	out, err := j.Rewrite([]config.Edit{
		{At: at("launch.yaml", "data.batch"), To: "3", Add: true},
		{At: at("/w/c.py", "A"), From: "1", To: "16"}, {At: at("/w/c.py", "B"), From: "2", To: "32"},
		{At: at("old.pt", "queue_ptr"), From: "224", To: "0"},
		{At: at(config.ArgvDoc, "--gpu"), From: "0", Remove: true},
	}, "/a")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"python", "train.py", "-opt", "x.yml", "--base", "a.yml", "/a/launch.yaml", "--resume", "/a/old.pt"}; !slices.Equal(out.Command.Args, want) {
		t.Errorf("command %q, want %q", out.Command.Args, want)
	}
	if len(out.Files) != 3 || string(out.Files[0].Text) != "{data: {batch: 3}}\n" || string(out.Files[1].Text) != "A = 16\nB = 32\n" ||
		out.Files[1].Path != "/w/c.py" || out.Files[2].From != "old.pt" || len(out.Files[2].Patches) != 1 {
		t.Errorf("files %+v", out.Files)
	}
	if out, err := j.Rewrite([]config.Edit{{At: at("old.pt", "queue_ptr"), From: "224", To: "1"}}, "/a"); err == nil {
		t.Errorf("a patch that nobody prepared: %+v", out)
	}
}

// Two recipes of one name stay two, and each option gets its own.
func TestRewriteOfOneName(t *testing.T) {
	j := &Job{
		Command: Command{Args: []string{"python", "train.py", "--data", "a/c.yml", "--optim", "b/c.yml", "--net", "2/c.yml"}, Dir: "/w"},
		Options: []config.Option{{Names: []string{"--data"}}, {Names: []string{"--optim"}}, {Names: []string{"--net"}}},
	}
	var edits []config.Edit
	for i, f := range []File{{Path: "a/c.yml", Flag: "--data"}, {Path: "b/c.yml", Flag: "--optim"}, {Path: "2/c.yml", Flag: "--net"}} {
		f.Format, f.Text = "yaml", []byte("n: 1\n")
		j.Files = append(j.Files, f)
		edits = append(edits, config.Edit{Knob: f.Flag, At: config.Address{Doc: f.Path, Path: "n"}, From: "1", To: strings.Repeat("2", i+1)})
	}
	out, err := j.Rewrite(edits, "/run")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]string{}
	for _, f := range out.Files {
		if was, twice := named[f.Path]; twice {
			t.Errorf("%s is the copy of %s and of %s", f.Path, was, f.From)
		}
		named[f.Path] = f.From
		if filepath.Base(f.Path) != "c.yml" {
			t.Errorf("the copy of %s is called %s: an experiment may be named by it", f.From, f.Path)
		}
	}
	for i, want := range []string{"a/c.yml", "b/c.yml", "2/c.yml"} {
		if got := out.Command.Args[3+2*i]; named[got] != want {
			t.Errorf("%s names the copy of %q, not of %q", out.Command.Args[2+2*i], named[got], want)
		}
	}
}

// What the user has asked for is edited first, also without edits of launch's own. Its arguments are in the command.
func TestRewriteAsked(t *testing.T) {
	j := job("python", "train.py", "-opt", "x.yml", "--auto_resume")
	at := config.Address{Doc: "x.yml", Path: "train.batch"}
	j.Asked = []config.Edit{
		{Knob: "micro-batch", At: at, From: "16", To: "12"},
		{At: config.Address{Doc: config.ArgvDoc, Path: "--auto_resume"}, Remove: true},
	}
	args, err := j.WithAsked(j.Command.Args, j.Asked)
	if err != nil || !slices.Equal(args, []string{"python", "train.py", "-opt", "x.yml"}) {
		t.Fatalf("the arguments are %q, %v", args, err)
	}
	j.Command.Args = args
	later := config.Edit{Knob: "micro-batch", At: at, From: "12", To: "6"}
	for batch, edits := range map[string][]config.Edit{"12": nil, "6": {later}} {
		out, err := j.Rewrite(edits, "/a")
		if err != nil || len(out.Files) != 1 || !strings.Contains(string(out.Files[0].Text), "batch: "+batch+"\n") ||
			!slices.Equal(out.Command.Args, []string{"python", "train.py", "-opt", "/a/x.yml"}) {
			t.Errorf("%v: %+v, %v", edits, out, err)
		}
	}
	if got := j.With([]config.Edit{later}); len(got) != 2 || got[0] != j.Asked[1] || got[1] != later {
		t.Errorf("the program should report %v", got)
	}
	if j.Asked = j.Asked[1:]; len(j.AskedInFiles()) != 0 {
		t.Errorf("in files: %v", j.AskedInFiles())
	}
	if out, err := j.Rewrite(nil, "/a"); err != nil || len(out.Files) != 0 || !slices.Equal(out.Command.Args, args) {
		t.Errorf("without edits of files: %+v, %v", out, err)
	}
}

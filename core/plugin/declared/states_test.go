package declared

import (
	"slices"
	"strings"
	"testing"
)

// Each form of resume becomes the edits of a resume, the states, and what is put aside.
func TestResumeForms(t *testing.T) {
	files := map[string]string{"c.yaml": "out: runs/y\nresume: false\n"}
	for name, tt := range map[string]struct{ declaration, args, resumes, states, aside, none string }{
		"an option": {"resume: {--resume: 'ckpt/*.pt'}", "--x", "--x --resume {saved state}", "ckpt/*.pt", "", ""},
		"a key": {"resume: {'ckpt_path=': 'ckpt/*.pt'}", "a=1", "a=1 ckpt_path={saved state}", "ckpt/*.pt", "",
			""},
		"several globs": {"resume: {[--resume]: x}", "", "", "", "", "error"},
		"a value in a file": {"resume: {'--config:resume': 'ckpt/*.pt'}", "--config c.yaml",
			`--config /copies/c.yaml | c.yaml: out: runs/y; resume: "{saved state}"`, "ckpt/*.pt", "", ""},
		"several settings": {"resume: {from: 'ckpt/*.pt', set: {'model=': '{state}', 'resume=': true}}", "model=a.yaml",
			"model={saved state} resume=true", "ckpt/*.pt", "", ""},
		"several settings, a file": {"resume: {from: 'o/*', set: {--init: resume, '--config:resume': true}}",
			"--config c.yaml",
			"--config /copies/c.yaml --init resume | c.yaml: out: runs/y; resume: true", "o/*", "", ""},
		"by a folder of a name": {"resume: {--resume: '{out}/*.pt'}\nvalues: {out: {--config: out}}",
			"--config c.yaml", "--config c.yaml --resume {saved state}", "runs/y/*.pt", "", ""},
		"a name that is unknown": {"resume: {--resume: '{out}/*.pt'}\nvalues: {out: --out}", "",
			"--resume {saved state}", "*/*.pt", "", ""},
		"a part of a state's path": {"resume: {from: 'o/*/model.pt', set: {--from: '{state}/..'}}", "",
			"--from {saved state}/..", "o/*/model.pt", "", ""},
		"automatic":         {"resume: automatic", "", "", "", "", ""},
		"automatic, states": {"resume: {automatic: 'o/*.pt'}", "", "", "o/*.pt", "o/*.pt", ""},
		"cleared": {"resume: none\nclear: ['{--name}/log', 'tmp']\nin-the-way: '{--name}/x'", "--name a",
			"", "", "a/log tmp", "cannot resume"},
		"none":    {"resume: none", "", "", "", "", "cannot resume"},
		"nothing": {"", "", "", "", "", "names no option"},
		"a place that is not there": {"resume: {'--config:resume': 'ckpt/*.pt'}", "", "", "ckpt/*.pt", "",
			"launch cannot change --config:resume"},
		"new states": {"resume: {--resume: 'ckpt/*.pt'}\nrungs: [{name: a, at: --o, to: 1, cost: speed, " +
			"new-state: true}]", "", "--resume {saved state}", "ckpt/*.pt", "ckpt/*.pt", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := try{files, "python train.py " + tt.args, 0}.in(t, "script: train.py\nmicro-batch: {at: -b, default: "+
				"2}\n"+tt.declaration+"\n")
			r, err := recognized(t, c)
			if (err != nil) != (tt.none == "error") {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			j := r.Job()
			resumes := ""
			if len(j.Resume.Edits) > 0 {
				resumes = made(t, j, j.Resume.Edits)
			}
			got := []string{resumes, strings.Join(j.Signs.States, " "), strings.Join(j.Resume.Aside, " ")}
			if !slices.Equal(got, []string{tt.resumes, tt.states, tt.aside}) ||
				!strings.Contains(j.Resume.None, tt.none) || (tt.none == "") != (j.Resume.None == "") ||
				j.Resume.Automatic != strings.HasPrefix(name, "automatic") {
				t.Errorf("%q, states %q, %+v", resumes, j.Signs.States, j.Resume)
			}
		})
	}
}

// The folder of the states is the one that the program takes where none is typed. Nothing is assumed where another
// name of the option is typed, or where its default is not a constant; then it is said.
func TestDefaultFolder(t *testing.T) {
	for name, tt := range map[string]struct{ script, args, saved, states, exclusive, warns string }{
		"typed":          {`"--out", default="runs/a"`, "--out o", "", "o/*.pt", "/o", ""},
		"the default":    {`"--out", default="runs/a"`, "", "", "runs/a/*.pt", "", ""},
		"another name":   {`"-o", "--out", default="runs/a"`, "-o b", "", "b/*.pt", "", ""},
		"its beginning":  {`"--out", default="runs/a"`, "--ou b", "", "b/*.pt", "", ""},
		"no default":     {`"--out"`, "", "", "*/*.pt", "", "--out is not typed"},
		"by the clock":   {`"--out", default=time.strftime("runs/%H")`, "", "", "*/*.pt", "", "--out is not typed"},
		"it is printed":  {`"--out", default=time.strftime("runs/%H")`, "", `saved (?P<path>\S+)`, "*/*.pt", "", ""},
		"no such option": {`"--o"`, "", "", "*/*.pt", "", "--out is not typed"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"train.py": "import argparse, time\np = argparse.ArgumentParser()\n" +
				"p.add_argument(\"--batch\", type=int, default=2)\np.add_argument(" + tt.script + ")\na = p.parse_args()\n"}
			c := try{files, "python train.py " + tt.args, 0}.in(t, "script: train.py\nmicro-batch: --batch\n"+
				"resume: {--resume: '{--out}/*.pt'}\nsaved: '"+tt.saved+"'\n")
			r, err := recognized(t, c)
			if err != nil {
				t.Fatal(err)
			}
			j, warnings := r.Job(), strings.Join(r.(*reading).warnings, "\n")
			if got := strings.Join(j.Signs.States, " "); got != tt.states {
				t.Errorf("the states are %s, want %s", got, tt.states)
			}
			if got := strings.TrimPrefix(j.Exclusive, c.Dir); got != tt.exclusive {
				t.Errorf("%q is locked, want %q", got, tt.exclusive)
			}
			if !strings.Contains(warnings, tt.warns) || (tt.warns == "") != (warnings == "") {
				t.Errorf("warnings: %s", warnings)
			}
		})
	}
}

// Two runs must not use the same folder, which the declaration names.
func TestExclusive(t *testing.T) {
	for declaration, want := range map[string]string{
		"exclusive: 'runs/{--name}'":                                   "/runs/a",
		"exclusive: '{out}/x'\nvalues: {out: --out}":                   "",
		"exclusive: '{out}/x'\nvalues: {out: {at: --out, default: o}}": "/o/x",
		"resume: {--resume: 'runs/{--name}/*.pt'}":                     "/runs/a",
	} {
		c := try{command: "python train.py --name a"}.in(t, "script: train.py\nmicro-batch: {at: -b, default: "+
			"2}\n"+declaration+"\n")
		r, err := recognized(t, c)
		if err != nil {
			t.Fatal(err)
		}
		if want != "" {
			want = c.Dir + want
		}
		if got := r.Job().Exclusive; got != want {
			t.Errorf("%s: %q, want %q", declaration, got, want)
		}
	}
}

// A rehearsal leads what the program writes into a folder of launch's own.
func TestRehearse(t *testing.T) {
	c := try{command: "python train.py --out o"}.in(t, "script: train.py\nmicro-batch: {at: -b, default: 2}\n"+
		"rehearse: {steps: 20, set: {--out: '{scratch}', --epochs: 1}}\n")
	r, err := recognized(t, c)
	if err != nil {
		t.Fatal(err)
	}
	h := r.Job().Rehearsal
	if got := made(t, r.Job(), h.Edits); h.Steps != 20 || h.None != "" || got != "--out {scratch} --epochs 1" {
		t.Errorf("%s, %+v", got, h)
	}
}

// What does not change the memory is data of the job, as receipts have it.
func TestIgnore(t *testing.T) {
	files := map[string]string{"conf/c.yaml": "lr: 1\nbatch: 2\n"}
	c := try{files, "python train.py --config conf/c.yaml", 0}.in(t, "script: train.py\nmicro-batch: {--config: batch}\n"+
		"ignore: [[--lr, -l], seed=, --name=, {--config: lr}, {--other: x}]\n")
	r, err := recognized(t, c)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(r.Job().Ignore, "|"); got != "--lr|--name|-l|c.yaml: lr|seed=" {
		t.Errorf("%s", got)
	}
}

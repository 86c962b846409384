package sweep

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"

	"github.com/launch-ml/launch/core/unit"
)

var task = EngineFile{
	Name: "Lr_1", Flags: []string{"--allow=speed"}, State: "/state/lr", Image: "registry/train:1", Claim: "disk",
	Cards: "L4:1", GPUs: 1, Memory: 3*unit.GiB + 1,
	Rows: []EngineRow{
		{1, Invocation{Args: []string{"python", "train.py", "--note", "it's a $HOME; rm -rf /"},
			Env: []string{"A=b c"}}},
		{2, Invocation{Args: []string{"python", "train.py"}, Set: []string{"train.lr=1e-4"}}},
	},
}

func write(t *testing.T, engine string) string {
	t.Helper()
	text, err := task.For(engine)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The Job has only fields of Kubernetes's own types, with its rules where they have to be.
func TestKubernetes(t *testing.T) {
	var j batchv1.Job
	if err := yaml.UnmarshalStrict([]byte(write(t, "kubernetes")), &j); err != nil {
		t.Fatal(err)
	}
	if *j.Spec.Completions != 2 || *j.Spec.CompletionMode != batchv1.IndexedCompletion || j.Name != "launch-lr-1" {
		t.Errorf("the Job is %+v", j.Spec)
	}
	rules := j.Spec.PodFailurePolicy.Rules
	if rules[0].Action != batchv1.PodFailurePolicyActionIgnore || rules[0].OnExitCodes.Values[0] != 75 ||
		rules[2].Action != batchv1.PodFailurePolicyActionFailIndex || rules[2].OnExitCodes.Values[0] != 78 {
		t.Errorf("the rules are %+v", rules)
	}
	pod := j.Spec.Template.Spec
	if limit := pod.Containers[0].Resources.Limits.Memory(); limit.Value() != 3073<<20 {
		t.Errorf("the memory limit is %v", limit)
	}
	if pod.RestartPolicy != "Never" { // which a podFailurePolicy needs
		t.Errorf("the restart policy is %q", pod.RestartPolicy)
	}
	runRow(t, pod.Containers[0].Command[2], "JOB_COMPLETION_INDEX=1",
		"--continue|--state-dir=/state/lr/2|--save-on=TERM=45s|"+
			"--allow=speed|--set=train.lr=1e-4|--|python|train.py|")
}

func TestSkyPilot(t *testing.T) {
	var task struct {
		Run       string
		Resources struct {
			Recovery struct {
				Codes []int `json:"recover_on_exit_codes"`
				Most  int   `json:"max_restarts_on_errors"`
			} `json:"job_recovery"`
			Accelerators, Image_id, Memory string
		}
		Name, Workdir string
		Envs          map[string]string
	}
	if err := yaml.UnmarshalStrict([]byte(write(t, "skypilot")), &task); err != nil {
		t.Fatal(err)
	}
	r := task.Resources
	if len(r.Recovery.Codes) != 1 || r.Recovery.Codes[0] != 75 || r.Memory != "4+" || r.Accelerators != "L4:1" {
		t.Errorf("the resources are %+v", r)
	}
	runRow(t, task.Run, "LAUNCH_ROW=1", "--continue|--state-dir=/state/lr/1|--save-on=TERM=45s|"+
		"--allow=speed|--|python|train.py|--note|it's a $HOME; rm -rf /|b c")
}

func TestParallel(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(write(t, "parallel")), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2", len(lines))
	}
	want := "launch sweep line A=b%20c --continue --state-dir=/state/lr/1 --allow=speed -- python train.py --note " +
		"it%27s%20a%20%24HOME%3B%20rm%20-rf%20/"
	if lines[0] != want {
		t.Errorf("the line is\n%s, want\n%s", lines[0], want)
	}
	runRow(t, lines[1], "", "--continue|--state-dir=/state/lr/2|--allow=speed|--set=train.lr=1e-4|--|python|train.py|")
}

// hostile are values that shells, xargs, parallel and Kubernetes would change, or run.
var hostile = []string{"", " ", "a b", "$(touch pwned)", "`touch pwned`", "$(JOB_COMPLETION_INDEX)", "$$(HOME)",
	"$$$$(A)", "x;touch pwned", "*", "~", "=cat", "{}", "{1}", "{a,b}", `"`, "'", `\`, `\\"'`, "a\nb", "\t",
	"é\x80", "%41", "%", "100%", "!x", "#", "&", "|", "<f", "-n", "--", "$HOME", "${HOME}", "[64, 64]",
	"\x01\x1b[31m", "\u0085\u2028\ufeff"}

// Every value arrives as it is, and none is run, whatever reads the file.
func TestValuesArrive(t *testing.T) {
	dir := t.TempDir()
	text := "#!/bin/sh\nif [ \"$1\" = sweep ]; then exec \"$ITSELF\" \"$@\"; fi\n" +
		"for a; do :; done; printf '%s\\0' \"$a\" >> \"$OUT\"\n"
	if err := os.WriteFile(filepath.Join(dir, "launch"), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	many := EngineFile{Name: "s", Image: "i", State: "/s"}
	for i, v := range hostile {
		many.Rows = append(many.Rows, EngineRow{i + 1, Invocation{Args: []string{"python", "t.py", "--v", v}}})
	}
	file, err := many.For("parallel")
	if err != nil {
		t.Fatal(err)
	}
	rows := filepath.Join(dir, "rows")
	if err := os.WriteFile(rows, file, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"sh rows", "xargs -d '\\n' -n1 sh -c < rows", "xargs -I{} sh -c '{}' < rows",
		"xargs -I{} dash -c '{}' < rows", "bash rows", "parallel -j1 -k < rows"} {
		shell, _, _ := strings.Cut(how, " ")
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		out := filepath.Join(t.TempDir(), "out")
		cmd := exec.Command("sh", "-c", how)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "ITSELF="+own, "OUT="+out, "HOME="+dir)
		if printed, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", how, err, printed)
		}
		got, _ := os.ReadFile(out)
		if want := strings.Join(hostile, "\x00") + "\x00"; string(got) != want {
			t.Errorf("%s: the rows got\n%q, want\n%q", how, got, want)
		}
		if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
			t.Fatalf("%s: a value was run", how)
		}
	}
	var j batchv1.Job
	if _, err := many.For("kubernetes"); err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("bytes that are no UTF-8 are written as YAML: %v", err)
	}
	at := slices.Index(hostile, "é\x80")
	many.Rows[at].Args[3] = "é"
	valid := slices.Clone(hostile)
	valid[at] = "é"
	doc, err := many.For("kubernetes")
	if err == nil {
		err = yaml.UnmarshalStrict(doc, &j)
	}
	if err != nil {
		t.Fatal(err)
	}
	script := j.Spec.Template.Spec.Containers[0].Command[2]
	if got := expandAsKubernetes(script); got != script {
		t.Errorf("Kubernetes changes the script to\n%s", got)
	}
	for i, v := range valid {
		out := filepath.Join(t.TempDir(), "out")
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "OUT="+out, fmt.Sprint("JOB_COMPLETION_INDEX=", i))
		printed, err := cmd.CombinedOutput()
		if got, _ := os.ReadFile(out); err != nil || string(got) != v+"\x00" {
			t.Errorf("kubernetes: got %q, want %q: %v %s", got, v, err, printed)
		}
	}
}

// expandAsKubernetes replaces $(NAME) and $$ as the kubelet does in a container's command, of variables that all exist.
func expandAsKubernetes(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		switch i++; text[i] {
		case '$':
			out.WriteByte('$')
		case '(':
			if end := strings.IndexByte(text[i:], ')'); end >= 0 {
				out.WriteString("EXPANDED")
				i += end
				continue
			}
			out.WriteString("$(")
		default:
			out.WriteString("$" + text[i:i+1])
		}
	}
	return out.String()
}

// The test binary is the launch that reads an emitted line: it runs the launch of the tests with the words.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "sweep" && os.Args[2] == "line" {
		_, args, err := DecodeLine(os.Args[3:])
		if err == nil {
			cmd := exec.Command("launch", args...)
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			err = cmd.Run()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestErrors(t *testing.T) {
	for engine, change := range map[string]func(*EngineFile){
		"ray": func(*EngineFile) {}, "kubernetes": func(t *EngineFile) { t.Image = "" },
		"parallel": func(t *EngineFile) { t.Rows = nil },
		"skypilot": func(t *EngineFile) { t.Rows = []EngineRow{{1, Invocation{Args: []string{"a\x00b"}}}} },
	} {
		bad := task
		change(&bad)
		if _, err := bad.For(engine); err == nil {
			t.Errorf("%s: no error", engine)
		}
	}
}

// runRow runs a row's script with a launch that prints its arguments, each followed by a bar, and the variable A.
func runRow(t *testing.T, script, env, want string) {
	t.Helper()
	dir := t.TempDir()
	text := "#!/bin/sh\nfor a; do printf '%s|' \"$a\"; done; printf '%s' \"$A\"\n"
	if err := os.WriteFile(filepath.Join(dir, "launch"), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", env}
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != want {
		t.Errorf("it prints\n%s, want\n%s: %v", out, want, err)
	}
}

package emit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"

	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/unit"
)

var task = Task{
	Name: "Lr_1", Flags: []string{"--allow=speed"}, State: "/state/lr", Image: "registry/train:1", Claim: "disk",
	Cards: "L4:1", GPUs: 1, Memory: 3*unit.GiB + 1,
	Rows: []Row{
		{1, sweep.Invocation{Args: []string{"python", "train.py", "--note", "it's a $HOME; rm -rf /"},
			Env: []string{"A=b c"}}},
		{2, sweep.Invocation{Args: []string{"python", "train.py"}, Set: []string{"train.lr=1e-4"}}},
	},
}

func write(t *testing.T, engine string) string {
	t.Helper()
	text, err := Write(engine, task)
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
	runRow(t, lines[0], "", "--continue|--state-dir=/state/lr/1|--allow=speed|"+
		"--|python|train.py|--note|it's a $HOME; rm -rf /|b c")
}

func TestErrors(t *testing.T) {
	for engine, change := range map[string]func(*Task){
		"ray": func(*Task) {}, "kubernetes": func(t *Task) { t.Image = "" }, "parallel": func(t *Task) { t.Rows = nil },
		"skypilot": func(t *Task) { t.Rows = []Row{{1, sweep.Invocation{Args: []string{"a\x00b"}}}} },
	} {
		bad := task
		change(&bad)
		if _, err := Write(engine, bad); err == nil {
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

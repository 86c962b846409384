package sweep

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// An EngineFile is a sweep for another engine, which reads it from a file: SkyPilot, Kubernetes, GNU parallel. launch
// does not run these engines: each row is one launch that continues its own run whenever the engine starts it again.
type EngineFile struct {
	Name  string
	Flags []string // launch's
	Rows  []EngineRow
	// State is the folder for launch's state, one folder in it for each row. The engine has to keep it between two starts
	// of a row.
	State  string
	Image  string // of the container, which has launch in it
	Claim  string // Kubernetes: the volume claim that has State
	Cards  string // SkyPilot: the accelerators, such as L4:1
	GPUs   int    // Kubernetes: of each row
	Memory unit.Bytes
	Jobs   int // how many rows run at the same time; 0: no limit
}

// An EngineRow is a trial, ready to be started.
type EngineRow struct {
	Number int
	Invocation
}

// FileEngines are the engines that files can be written for.
var FileEngines = []string{"skypilot", "kubernetes", "parallel"}

// For returns the file for an engine.
func (t EngineFile) For(engine string) ([]byte, error) {
	if len(t.Rows) == 0 {
		return nil, errors.New("the sweep has no rows")
	}
	if strings.ContainsAny(t.State, "\n\r\x00") {
		return nil, fmt.Errorf("--state %q has a line break", t.State)
	}
	switch engine {
	case "skypilot":
		return t.skypilot()
	case "kubernetes":
		return t.kubernetes()
	case "parallel":
		return t.parallel()
	}
	return nil, fmt.Errorf("%q is not one of %s", engine, strings.Join(FileEngines, ", "))
}

// words are the command of a row: its variables, and launch's arguments. flags are those that the engine needs in
// addition.
func (t EngineFile) words(r EngineRow, flags ...string) (env, args []string, err error) {
	args = []string{"--continue"}
	if t.State != "" {
		args = append(args, fmt.Sprintf("--state-dir=%s/%d", t.State, r.Number))
	}
	args = slices.Concat(args, flags, t.Flags)
	for _, s := range r.Set {
		args = append(args, "--set="+s)
	}
	args = slices.Concat(args, []string{"--"}, r.Args)
	for _, w := range slices.Concat(r.Env, args) {
		if strings.Contains(w, "\x00") {
			return nil, nil, fmt.Errorf("row %d: %q cannot be an argument of a program", r.Number, w)
		}
	}
	return r.Env, args, nil
}

// line is the shell command of a row.
func (t EngineFile) line(r EngineRow, flags ...string) (string, error) {
	env, args, err := t.words(r, flags...)
	words := slices.Concat([]string{"launch"}, args)
	if len(env) > 0 {
		words = slices.Concat([]string{"env"}, env, words)
	}
	for i, w := range words {
		words[i] = quoted(w)
	}
	return strings.Join(words, " "), err
}

// quoted quotes a word for any shell of POSIX. Within the quotes no "$(" and no "$$" is left, which Kubernetes would
// replace in a container's command.
func quoted(word string) string {
	if plain(word) {
		return word
	}
	word = strings.ReplaceAll(word, "'", `'\''`)
	for _, second := range []string{"(", "$"} { // $$$ needs two passes
		word = strings.ReplaceAll(word, "$"+second, "$''"+second)
	}
	return "'" + strings.ReplaceAll(word, "$$", "$''$") + "'"
}

// parallel is an argument file: one command a line, for GNU parallel, xargs and sh. No word of it is changed by a
// shell, by xargs or by parallel, however often they read it: words that might be are written with percent signs.
func (t EngineFile) parallel() ([]byte, error) {
	var out bytes.Buffer
	for _, r := range t.Rows {
		env, args, err := t.words(r)
		if err != nil {
			return nil, err
		}
		words := slices.Concat([]string{"launch"}, args)
		if len(env) > 0 {
			words = slices.Concat([]string{"env"}, env, words)
		}
		if !slices.ContainsFunc(words, func(w string) bool { return !plain(w) }) {
			fmt.Fprintln(&out, strings.Join(words, " "))
			continue
		}
		words = slices.Concat(env, args)
		for i, w := range words {
			words[i] = encode(w)
		}
		fmt.Fprintln(&out, "launch sweep line "+strings.Join(words, " "))
	}
	return out.Bytes(), nil
}

// choose is a script that runs the row whose number is in a variable.
func (t EngineFile) choose(variable string, first int, flags ...string) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "case \"$%s\" in\n", variable)
	for i, r := range t.Rows {
		line, err := t.line(r, flags...)
		if err == nil && !utf8.ValidString(line) {
			err = fmt.Errorf("row %d has bytes that are no UTF-8, which YAML cannot hold", r.Number)
		}
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%d) exec %s ;;\n", first+i, line)
	}
	fmt.Fprintf(&out, "*) echo \"no row $%s\" >&2; exit %d ;;\nesac\n", variable, run.CannotFit)
	return out.String(), nil
}

// grace is how long a row may take after the engine's SIGTERM: to save, and to stop.
const grace = 60

func saveOn() string { return fmt.Sprintf("--save-on=TERM=%ds", grace*3/4) }

// mib rounds up to what engines take.
func mib(b unit.Bytes) int64 { return int64((b + unit.MiB - 1) / unit.MiB) }

// skypilot is a task of SkyPilot (sky/utils/schemas.py, 0.14.1). Each row is a managed job of its own, whose
// environment names it. Exit code 75 means "elsewhere or later", which is what recover_on_exit_codes does.
func (t EngineFile) skypilot() ([]byte, error) {
	script, err := t.choose("LAUNCH_ROW", 1, saveOn())
	if err != nil {
		return nil, err
	}
	resources := node("job_recovery", node("max_restarts_on_errors", 0, "recover_on_exit_codes", []int{run.TryLater}))
	if t.Cards != "" {
		resources = append(resources, node("accelerators", t.Cards)...)
	}
	if t.Image != "" {
		resources = append(resources, node("image_id", "docker:"+t.Image)...)
	}
	if t.Memory > 0 {
		resources = append(resources, node("memory", strconv.FormatInt(int64((t.Memory+unit.GiB-1)/unit.GiB), 10)+"+")...)
	}
	head := fmt.Sprintf("# launch sweep: %d rows. Each is a managed job:\n"+
		"#   for row in $(seq %d); do sky jobs launch -y -d -n %s-$row --env LAUNCH_ROW=$row FILE; done\n"+
		"# %s has to be on storage that a recovered job sees again.\n", len(t.Rows), len(t.Rows), t.Name, t.State)
	return inYAML(head, node("name", t.Name, "workdir", ".", "envs", node("LAUNCH_ROW", "1"), "resources", resources,
		"run", script))
}

var label = lazy.MustCompile(`[^a-z0-9-]+`)

// kubernetes is an indexed Job (batch/v1, Kubernetes 1.31 or later). Exit codes 75 and a pod that the cluster took away
// start the row again without being counted; 78, 125, 126 and 127 end the row at once, because another start changes
// nothing.
func (t EngineFile) kubernetes() ([]byte, error) {
	if t.Image == "" {
		return nil, errors.New("a Job needs an image: --image NAME, with launch and the training's Python in it")
	}
	script, err := t.choose("JOB_COMPLETION_INDEX", 0, saveOn())
	if err != nil {
		return nil, err
	}
	limits := mapping{}
	if t.Memory > 0 {
		limits = append(limits, node("memory", fmt.Sprintf("%dMi", mib(t.Memory)))...)
	}
	if t.GPUs > 0 {
		limits = append(limits, node("nvidia.com/gpu", t.GPUs)...)
	}
	container := node("name", "launch", "image", t.Image, "command", []string{"/bin/sh", "-c", script})
	if len(limits) > 0 {
		container = append(container, node("resources", node("limits", limits))...)
	}
	pod := node("restartPolicy", "Never", "terminationGracePeriodSeconds", grace)
	if t.Claim != "" {
		container = append(container, node("volumeMounts", []any{node("name", "state", "mountPath", t.State)})...)
		pod = append(pod, node("volumes", []any{node("name", "state", "persistentVolumeClaim", node("claimName",
			t.Claim))})...)
	}
	pod = append(pod, node("containers", []any{container})...)
	spec := node("completions", len(t.Rows), "completionMode", "Indexed")
	if t.Jobs > 0 {
		spec = append(spec, node("parallelism", t.Jobs)...)
	} else {
		spec = append(spec, node("parallelism", len(t.Rows))...)
	}
	spec = append(spec, node("backoffLimitPerIndex", 0, "maxFailedIndexes", len(t.Rows),
		"podFailurePolicy", node("rules", []any{
			node("action", "Ignore", "onExitCodes", node("operator", "In", "values", []int{run.TryLater})),
			node("action", "Ignore", "onPodConditions", []any{node("type", "DisruptionTarget")}),
			node("action", "FailIndex", "onExitCodes", node("operator", "In", "values", []int{run.CannotFit,
				run.OwnTrouble, 126, 127})),
		}), "template", node("spec", pod))...)
	head := fmt.Sprintf("# launch sweep: %d rows, one for each index.\n", len(t.Rows))
	if t.Claim == "" {
		head += "# Without a volume (--claim NAME) a row that starts again begins from the beginning.\n"
	}
	name := strings.Trim(label.ReplaceAllString(strings.ToLower(t.Name), "-"), "-")
	return inYAML(head, node("apiVersion", "batch/v1", "kind", "Job", "metadata", node("name", "launch-"+name),
		"spec", spec))
}

// A mapping is one of YAML, in this order.
type mapping []pair

type pair struct {
	key   string
	value any
}

// node makes a mapping of keys and values.
func node(pairs ...any) (out mapping) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, pair{pairs[i].(string), pairs[i+1]})
	}
	return out
}

// MarshalYAML implements yaml.Marshaler.
func (f mapping) MarshalYAML() (any, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, e := range f {
		var value yaml.Node
		if err := value.Encode(e.value); err != nil {
			return nil, err
		}
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: e.key}, &value)
	}
	return n, nil
}

func inYAML(head string, f mapping) ([]byte, error) {
	out := bytes.NewBufferString(head)
	e := yaml.NewEncoder(out)
	e.SetIndent(2)
	err := e.Encode(f)
	return out.Bytes(), errors.Join(err, e.Close())
}

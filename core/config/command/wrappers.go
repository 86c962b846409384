package command

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
)

// Nested deeper than any real command, so that "env env env …" ends.
const maxWrappers = 32

// command reads a command by its first word.
func (r *reader) command(words []word) error {
	if r.depth++; r.depth > maxWrappers {
		return notUnderstood("more than %d nested commands", maxWrappers)
	}
	if len(words) == 0 {
		return notUnderstood("no command")
	}
	name := filepath.Base(words[0].text)
	switch {
	case rePython.MatchString(name):
		return r.python(words)
	case strings.HasSuffix(name, ".py"): // an executable script with a first line of its own
		return r.run(Script, words)
	}
	switch name {
	case "env":
		return r.envCommand(words)
	case "sh", "bash", "dash", "zsh", "ksh":
		return r.shell(words)
	case "torchrun", "deepspeed", "accelerate", "accelerate-launch":
		r.prog.Starter = r.lookup(words[0].text)
	}
	switch name {
	case "torchrun":
		return r.torchrun(words)
	case "accelerate", "uv", "poetry", "pdm", "pipenv", "rye", "pixi", "hatch", "conda", "mamba", "micromamba":
		return r.subcommand(words)
	case "accelerate-launch":
		return r.accelerate(words)
	case "deepspeed":
		return r.deepspeed(words)
	case "srun":
		return r.srun(words)
	case "mpirun", "mpiexec":
		return r.mpirun(words)
	case "docker", "podman", "nerdctl", "apptainer", "singularity":
		return notUnderstood("%s: a container has other files than this machine; launch works inside it: "+
			"%s … IMAGE launch -- python …", name, name)
	}
	if spec, ok := simple[name]; ok {
		return r.simple(words, name, spec)
	}
	return r.executable(words)
}

// simple are commands that change something of the process and then run another command: their options, and how many
// words stand between those and the command.
var simple = map[string]struct {
	options string
	words   int
}{
	"nice":     {"-n|--adjustment:", 0},
	"nohup":    {"", 0},
	"time":     {"-a|--append -f|--format: -o|--output: -p|--portability -v|--verbose -q|--quiet", 0},
	"stdbuf":   {"-i|--input: -o|--output: -e|--error:", 0},
	"timeout":  {"-k|--kill-after: -s|--signal: -v|--verbose --foreground --preserve-status", 1},
	"ionice":   {"-c|--class: -n|--classdata: -t|--ignore", 0},
	"setsid":   {"-c|--ctty -f|--fork -w|--wait", 0},
	"taskset":  {"-a|--all-tasks -c|--cpu-list", 1},
	"numactl":  {"-N|--cpunodebind: -m|--membind: -i|--interleave: -C|--physcpubind: -l|--localalloc -p|--preferred:", 0},
	"unbuffer": {"-p", 0},
	"xvfb-run": {"-a|--auto-servernum -e|--error-file: -f|--auth-file: -n|--server-num: -l|--listen-tcp " +
		"-p|--xauth-protocol: -s|--server-args: -w|--wait:", 0},
	"command": {"", 0},
	"exec":    {"", 0},
}

var reNiceness = lazy.MustCompile(`^-[0-9]+$`)

func (r *reader) simple(words []word, name string, spec struct {
	options string
	words   int
}) error {
	r.through(name)
	if name == "nice" && len(words) > 1 && reNiceness.MatchString(words[1].text) {
		return r.command(words[2:])
	}
	_, rest, err := readOptions(words, spec.options)
	if err != nil {
		return err
	}
	if len(rest) < spec.words {
		return notUnderstood("%s without a command", name)
	}
	return r.command(rest[spec.words:])
}

var reAssignment = lazy.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

func (r *reader) envCommand(words []word) error {
	r.through("env")
	if len(words) > 1 && words[1].text == "-" { // the same as -i
		words = append([]word{words[0], {text: "-i", arg: words[1].arg}}, words[2:]...)
	}
	o, rest, err := readOptions(words, "-i|--ignore-environment -u|--unset: -C|--chdir: -v|--debug")
	if err != nil {
		return err
	}
	if o.has("--ignore-environment") {
		r.prog.ClearEnv, r.prog.Env = true, nil
	}
	for _, name := range o["--unset"] {
		r.unset(name)
	}
	for len(rest) > 0 && strings.Contains(rest[0].text, "=") {
		if !reAssignment.MatchString(rest[0].text) {
			return notUnderstood("the assignment %s", rest[0].text)
		}
		r.assign(rest[0].text)
		rest = rest[1:]
	}
	if dir, ok := o.last("--chdir"); ok {
		if err := r.chdir(dir); err != nil {
			return err
		}
	}
	return r.command(rest)
}

func (r *reader) unset(name string) {
	r.prog.Unset = append(r.prog.Unset, name)
	kept := r.prog.Env[:0]
	for _, e := range r.prog.Env {
		if !strings.HasPrefix(e, name+"=") {
			kept = append(kept, e)
		}
	}
	r.prog.Env = kept
}

// subcommand reads tools of which one subcommand runs another command.
func (r *reader) subcommand(words []word) error {
	tool := filepath.Base(words[0].text)
	global := ""
	switch tool {
	case "uv":
		global = `-q|--quiet -v|--verbose -n|--no-cache --offline --cache-dir: --directory: --project: --config-file:
			--no-config --no-progress`
	case "poetry":
		global = "-q|--quiet -v|--verbose -n|--no-interaction --ansi --no-ansi -C|--directory: -P|--project:"
	case "pdm":
		global = "-q|--quiet -v|--verbose -n|--non-interactive -c|--config:"
	case "hatch":
		global = "-e|--env: -p|--project: -v|--verbose -q|--quiet --no-color --color --interactive --no-interactive " +
			"--data-dir: --cache-dir: --config:"
	case "accelerate.commands.accelerate_cli":
		tool = "accelerate"
	}
	before, rest, err := readOptions(words, global)
	if err != nil {
		return err
	}
	want := "run"
	if tool == "accelerate" {
		want = "launch"
	}
	if len(rest) == 0 || rest[0].text != want {
		return notUnderstood("%s without %s", tool, want)
	}
	if tool == "accelerate" {
		return r.accelerate(rest)
	}
	r.through(tool + " run")
	o, rest, err := readOptions(rest, runOptions[tool])
	if err != nil {
		return err
	}
	for _, opts := range []options{before, o} {
		for _, name := range []string{"--directory", "--cwd"} {
			if dir, ok := opts.last(name); ok {
				if err := r.chdir(dir); err != nil {
					return err
				}
			}
		}
	}
	r.inEnvironment(tool, o)
	for _, kv := range o["--env"] {
		if !reAssignment.MatchString(kv) {
			return notUnderstood("the assignment %s", kv)
		}
		r.assign(kv)
	}
	if tool == "uv" && (o.has("--module") || o.has("--script")) {
		return r.run(kindOf(o.has("--module")), rest)
	}
	return r.command(rest)
}

var runOptions = map[string]string{
	"uv": `-w|--with: --with-editable: --with-requirements: -p|--python: --extra: --all-extras --no-extra: --dev --no-dev
		--only-dev --group: --no-group: --no-default-groups --only-group: --all-groups --env-file: --no-env-file -e|--no-editable
		--isolated --active --no-active --exact --no-project --frozen --locked --no-sync --package: --all-packages -m|--module
		-s|--script --index: --default-index: -i|--index-url: --extra-index-url: -f|--find-links: --no-index --index-strategy:
		--keyring-provider: -U|--upgrade -P|--upgrade-package: --reinstall --reinstall-package: --resolution: --prerelease:
		-C|--config-setting: --link-mode: --no-build --no-binary --no-build-package: --no-binary-package: --refresh
		--refresh-package: --no-cache -n|--no-cache --cache-dir: --managed-python --no-managed-python --offline --directory:
		--project: --config-file: --no-config -q|--quiet -v|--verbose --no-progress --color: --exclude-newer: --torch-backend:`,
	"poetry": "-q|--quiet -v|--verbose -n|--no-interaction --ansi --no-ansi -C|--directory: -P|--project:",
	"pdm":    "-s|--site-packages --no-self --recreate --venv:",
	"pipenv": "--system -v|--verbose -q|--quiet",
	"rye":    "-v|--verbose -q|--quiet",
	"hatch":  "-i|--include: -x|--exclude: --filter: --force-continue --ignore-compat",
	"pixi": `-e|--environment: --manifest-path: --frozen --locked -v|--verbose -q|--quiet --no-install --as-is --clean-env
		-x|--executable`,
	"conda":      conda,
	"mamba":      conda,
	"micromamba": "-n|--name: -p|--prefix: -r|--root-prefix: -e|--env: --cwd: -a|--attach: -d|--detach -v|--verbose -q|--quiet",
}

const conda = "-n|--name: -p|--prefix: --cwd: --no-capture-output --live-stream -v|--verbose --dev --debug-wrapper-scripts"

// maxUp bounds how far up a project's folder is looked for.
const maxUp = 16

// inEnvironment notes the folder of the programs of the environment that a tool runs its command in, where that
// folder shows.
func (r *reader) inEnvironment(tool string, o options) {
	note := func(bin string) bool {
		if info, err := os.Stat(bin); err != nil || !info.IsDir() {
			return false
		}
		r.prog.Bins = append([]string{bin}, r.prog.Bins...)
		return true
	}
	inProject := func(path ...string) {
		for dir, i := r.prog.Dir, 0; dir != "" && i < maxUp; i++ {
			if note(filepath.Join(append([]string{dir}, path...)...)) || dir == filepath.Dir(dir) {
				return
			}
			dir = filepath.Dir(dir)
		}
	}
	switch tool {
	case "uv", "poetry", "pdm", "rye", "pipenv":
		if active, ok := r.getenv("VIRTUAL_ENV"); ok && (tool != "uv" || o.has("--active")) {
			note(filepath.Join(active, "bin"))
			return
		}
		if !slices.ContainsFunc(apart, o.has) {
			inProject(".venv", "bin")
		}
	case "pixi":
		name, _ := o.last("--environment")
		inProject(".pixi", "envs", cmp.Or(name, "default"), "bin")
	case "conda", "mamba", "micromamba":
		if prefix, ok := o.last("--prefix"); ok && (r.prog.Dir != "" || filepath.IsAbs(prefix)) {
			note(filepath.Join(resolve(r.prog.Dir, prefix), "bin"))
			return
		}
		root, _ := r.getenv("MAMBA_ROOT_PREFIX")
		if exe, ok := r.getenv("CONDA_EXE"); ok {
			root = filepath.Dir(filepath.Dir(exe))
		}
		switch name, ok := o.last("--name"); {
		case root == "" || !ok:
		case name == "base":
			note(filepath.Join(root, "bin"))
		default:
			note(filepath.Join(root, "envs", name, "bin"))
		}
	}
}

// apart are options of uv run with which the program has other packages than the project's environment.
var apart = strings.Fields("--with --with-editable --with-requirements --isolated --no-project --python")

// srun reads the options of Slurm 22.05 that training scripts are started with.
func (r *reader) srun(words []word) error {
	r.through("srun")
	o, rest, err := readOptions(words, `-A|--account: -c|--cpus-per-task: -C|--constraint: -D|--chdir: -d|--dependency:
		-E|--preserve-env -e|--error: --exclusive? --export: -G|--gpus: --gpus-per-node: --gpus-per-task: --gpu-bind: --cpu-bind:
		--gres: -H|--hold -i|--input: -J|--job-name: -K|--kill-on-bad-exit? -k|--no-kill -l|--label --mem: --mem-per-cpu:
		--mem-per-gpu: --mpi: -N|--nodes: -n|--ntasks: --ntasks-per-node: --ntasks-per-gpu: -o|--output: -O|--overcommit --overlap
		-p|--partition: --pty -Q|--quiet -q|--qos: --reservation: -s|--oversubscribe --signal: -t|--time: -u|--unbuffered
		-v|--verbose -W|--wait: -w|--nodelist: -x|--exclude: --exact --jobid: --threads-per-core: --task-epilog: --task-prolog:
		--container-image: --container-mounts: --container-workdir: --container-name: --no-container-mount-home --comment:`)
	if err != nil {
		return err
	}
	if o.has("--container-image") || o.has("--container-name") {
		return notUnderstood("srun: a container, which has other files than this machine")
	}
	l := Launcher{Name: "srun"}
	l.Spec = r.option(o, "--ntasks", "SLURM_NTASKS", "")
	l.Procs = number(l.Spec)
	l.Nodes = number(r.option(o, "--nodes", "SLURM_NNODES", ""))
	if per, ok := o.last("--ntasks-per-node"); ok && l.Spec == "" {
		l.Spec, l.Procs = per+" per node", number(per)*l.Nodes
	}
	r.prog.Launchers = append(r.prog.Launchers, l)
	if dir, ok := o.last("--chdir"); ok {
		if err := r.chdir(dir); err != nil {
			return err
		}
	}
	return r.command(rest)
}

// mpirun reads the few options of Open MPI and MPICH that mean the same to both.
func (r *reader) mpirun(words []word) error {
	r.through("mpirun")
	l := Launcher{Name: "mpirun"}
	rest := words[1:]
	for len(rest) > 1 && strings.HasPrefix(rest[0].text, "-") {
		switch rest[0].text {
		case "-n", "-np", "--np":
			l.Spec = rest[1].text
			l.Procs = number(l.Spec)
			rest = rest[2:]
		case "-H", "--host", "-host", "--hostfile", "-hostfile", "--bind-to", "-bind-to", "--map-by", "-map-by":
			rest = rest[2:]
		case "--allow-run-as-root", "--oversubscribe":
			rest = rest[1:]
		case "-x":
			if name, _, ok := strings.Cut(rest[1].text, "="); ok && name != "" {
				r.assign(rest[1].text)
			}
			rest = rest[2:]
		default:
			return notUnderstood("mpirun: option %s", rest[0].text)
		}
	}
	r.prog.Launchers = append(r.prog.Launchers, l)
	return r.command(rest)
}

package lm

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/file"
)

// acceleratePlain are the options of accelerate launch that change nothing of what a step keeps and have a value, and
// accelerateBare those that have none.
var (
	acceleratePlain = strings.Fields("--num_processes --num_machines --machine_rank --main_process_ip " +
		"--main_process_port --num_cpu_threads_per_process --gpu_ids --rdzv_backend --max_restarts --monitor_interval")
	accelerateBare = strings.Fields("--multi_gpu --same_network --quiet --debug --module --no_python")
)

func isAccelerate(l command.Launcher) bool { return l.Name == "accelerate" }

// acceleratePrecision is the mixed precision that accelerate launch sets: its own option, else its file's. why says
// what of it has no formula.
func acceleratePrecision(s *settings, t *training) (precision, why string) {
	if s.is(axolotl) && len(s.prog.Launchers) == 0 && s.prog.Kind == command.Installed { // which starts it itself
		precision, path, _, why := accelerateOptions(launching(s))
		if why != "" || s.text("launcher", "accelerate") != "accelerate" {
			return "", why
		}
		return configured(s, t, precision, path)
	}
	if s.trl() && s.prog.Path() == "" { // trl starts it, too (trl/cli/accelerate_launcher.py:47)
		return configured(s, t, "", "")
	}
	if !slices.ContainsFunc(s.prog.Launchers, isAccelerate) {
		return s.getenv("ACCELERATE_MIXED_PRECISION"), ""
	}
	args := s.command.Args
	from := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(filepath.Base(a), "accelerate") })
	to := slices.IndexFunc(args, func(a string) bool {
		return a == s.prog.Script ||
			filepath.Base(a) == filepath.Base(s.prog.Path())
	})
	if from < 0 || to <= from {
		return "", "how accelerate is started could not be read"
	}
	precision, path, _, why := accelerateOptions(args[from+1 : to])
	if why != "" {
		return "", why
	}
	return configured(s, t, precision, path)
}

// accelerateOptions reads options of accelerate launch, and the number of processes as torchrun spells it, too.
func accelerateOptions(args []string) (precision, path, processes, why string) {
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		name = "--" + strings.ReplaceAll(strings.TrimLeft(name, "-"), "-", "_")
		take := func() string {
			if !joined && i+1 < len(args) {
				i++
				value = args[i]
			}
			return value
		}
		switch {
		case args[i] == "launch" || args[i] == "-m" || args[i] == "-q":
		case name == "--mixed_precision":
			precision = take()
		case name == "--config_file":
			path = take()
		case name == "--dynamo_backend":
			if v := take(); !strings.EqualFold(v, "no") {
				return "", "", "", "accelerate's " + name + " " + v + " has no formula"
			}
		case name == "--num_processes" || name == "--nproc_per_node":
			processes = take()
		case slices.Contains(acceleratePlain, name):
			take()
		case !slices.Contains(accelerateBare, name):
			return "", "", "", "accelerate's " + args[i] + " has no formula"
		}
	}
	return precision, path, processes, ""
}

// configured reads accelerate's file, its default one where none is named (accelerate/commands/config/config_args.py).
func configured(s *settings, t *training, precision, path string) (string, string) {
	tree, ok := s.accelerateFile(path)
	if !ok {
		return "", "accelerate's settings could not be read"
	}
	get := func(key string) string { return unquoted(tree, key) }
	switch kind := get("distributed_type"); {
	case kind == "DEEPSPEED" && !s.is(axolotl):
		t.sharding = tree
	case kind == "FSDP" && !s.is(axolotl):
		t.wrapping = wrapFile(tree.Root())
	case kind != "" && kind != "NO" && kind != "MULTI_GPU":
		return "", "accelerate's distributed_type " + kind + " has no formula"
	}
	compiled := get("dynamo_config.dynamo_backend")
	switch {
	case compiled != "" && !strings.EqualFold(compiled, "no"):
		return "", "accelerate's dynamo_config of " + compiled + " has no formula"
	case tree != nil && tree.Root().Get("parallelism_config").Len() > 0:
		return "", "accelerate's parallelism_config has no formula"
	case get("use_cpu") == "true":
		return "", "accelerate's use_cpu has no formula"
	case precision == "":
		precision = get("mixed_precision")
	}
	return precision, ""
}

// Variables of accelerate that change what a step keeps, with what they are where they change nothing. One of
// ACCELERATE_GRADIENT_ACCUMULATION_STEPS does not, without DeepSpeed: the Trainer counts its steps itself
// (trainer.py:825, accelerator.py:541).
var accelerateVariables = []unmade{{"ACCELERATE_USE_DEEPSPEED", "false"}, {"ACCELERATE_USE_MEGATRON_LM", "false"},
	{"ACCELERATE_USE_PARALLELISM_CONFIG", "false"}, {"ACCELERATE_USE_CPU", "false"},
	{"ACCELERATE_DYNAMO_BACKEND", "no"},
	{"ACCELERATE_USE_SAGEMAKER", "false"}, {"ACCELERATE_TORCH_DEVICE", ""}}

// surrounded says which variable of the command's environment has no formula, and has FSDP read where one turns it on
// (accelerator.py:382): accelerate launch passes them on (os.environ.copy in utils/launch.py:257).
func surrounded(s *settings, t *training) string {
	launches := slices.ContainsFunc(s.prog.Launchers, isAccelerate)
	for _, v := range accelerateVariables {
		set := s.getenv(v.field)
		switch {
		case set == "" || strings.EqualFold(set, v.harmless):
		case v.field == "ACCELERATE_USE_DEEPSPEED" && (s.has("deepspeed") || t.sharding != nil): // which is the same
		case v.field == "ACCELERATE_DYNAMO_BACKEND" && launches: // which has an option of its own for it
		default:
			return fmt.Sprintf("%s=%s in the environment has no formula", v.field, set)
		}
	}
	for _, key := range accelerateShardKeys {
		if name := "ACCELERATE_DEEPSPEED_" + key; s.getenv(name) != "" && t.sharding != nil {
			return name + " in the environment beside accelerate's deepspeed_config has no formula"
		}
	}
	on := s.getenv("ACCELERATE_USE_FSDP")
	switch turned := strings.EqualFold(on, "true"); {
	case on != "" && !turned && !strings.EqualFold(on, "false"):
		return "ACCELERATE_USE_FSDP=" + on + " has no formula: accelerate takes true alone"
	case turned && t.wrapping == nil && !asksFSDP(s):
		t.wrapping = wrapVariables(s)
	case usesFSDP(s, t):
		for _, key := range fsdpVariables {
			if name := "FSDP_" + key; s.getenv(name) != "" && !slices.Contains(fsdpHarmless, key) {
				return name + " in the environment beside other settings of FSDP has no formula"
			}
		}
	}
	return ""
}

// accelerateShardKeys are DeepSpeed's settings among accelerate's variables (utils/launch.py:565).
var accelerateShardKeys = strings.Fields("ZERO_STAGE OFFLOAD_OPTIMIZER_DEVICE OFFLOAD_PARAM_DEVICE " +
	"OFFLOAD_OPTIMIZER_NVME_PATH OFFLOAD_PARAM_NVME_PATH ZERO3_INIT CONFIG_FILE MOE_LAYER_CLS_NAMES")

// accelerateFile is accelerate's file, nil where there is none. ok is false for one that is named and cannot be read.
func (s *settings) accelerateFile(path string) (tree config.Tree, ok bool) {
	named := path != ""
	if !named {
		home := s.getenv("HF_HOME")
		if home == "" && s.getenv("XDG_CACHE_HOME") != "" {
			home = filepath.Join(s.getenv("XDG_CACHE_HOME"), "huggingface")
		}
		if home == "" {
			home = filepath.Join(s.getenv("HOME"), ".cache/huggingface")
		}
		path = filepath.Join(home, "accelerate", "default_config.yaml")
	}
	text, err := file.Read(file.In(s.prog.Dir, path), maxFile)
	if err != nil {
		return nil, !named
	}
	tree, err = config.Parse(path, text)
	return tree, err == nil
}

// unquoted is a value of a file, "" where there is none.
func unquoted(tree config.Tree, key string) string {
	if tree == nil {
		return ""
	}
	v, _ := tree.Get(key)
	return strings.Trim(v, `"'`)
}

// launching are the arguments that `axolotl train` passes to accelerate or torchrun: what it does not know, and what
// follows "--" (cli/main.py, train).
func launching(s *settings) (args []string) {
	if i := slices.Index(s.prog.Args, "--"); i >= 0 {
		return s.prog.Args[i+1:]
	}
	for i, arg := range s.prog.Args {
		if slices.Contains(s.argv.Unknown(), arg) {
			return s.prog.Args[i:]
		}
	}
	return nil
}

package lm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// wrapped is accelerate's file with settings of FSDP, for four processes.
func wrapped(precision, settings string) string {
	return "distributed_type: FSDP\nmixed_precision: " + precision + "\nnum_processes: 4\nfsdp_config:\n" + settings
}

// Settings of FSDP as LLaMA-Factory's examples have them.
const (
	wrap1 = "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_backward_prefetch: BACKWARD_PRE\n" +
		"  fsdp_cpu_ram_efficient_loading: true\n  fsdp_forward_prefetch: false\n  fsdp_offload_params: true\n" +
		"  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_state_dict_type: FULL_STATE_DICT\n" +
		"  fsdp_sync_module_states: true\n  fsdp_use_orig_params: false\n"
	wrap2 = "  fsdp_version: 2\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_offload_params: false\n" +
		"  fsdp_cpu_ram_efficient_loading: true\n  fsdp_reshard_after_forward: true\n"
)

// program makes a program beside the interpreter of a command, as pip installs it, and a distribution.
func program(t *testing.T, c job.Command, name, distribution string) (path string) {
	t.Helper()
	bin := filepath.Dir(c.Args[0])
	path = filepath.Join(bin, name)
	if err := os.WriteFile(path, []byte("#!"+c.Args[0]+"\nimport sys\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	info := filepath.Join(bin, "../lib/python3.11/site-packages", distribution+".dist-info")
	if err := os.MkdirAll(info, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// accelerated is a command behind accelerate launch with that file, in a Python with accelerate of a version.
func accelerated(t *testing.T, c job.Command, file, version string) job.Command {
	t.Helper()
	write(t, c.Dir, map[string]string{"acc.yaml": file})
	path := program(t, c, "accelerate", "accelerate-"+version)
	c.Args = append([]string{path, "launch", "--config_file", "acc.yaml"}, c.Args[1:]...)
	c.Devices = 4
	return c
}

// inFour is a command behind torchrun, in a Python with accelerate 1.15.
func inFour(t *testing.T, c job.Command) job.Command {
	t.Helper()
	path := program(t, c, "torchrun", "accelerate-1.15.0")
	c.Args, c.Devices = append([]string{path, "--nproc_per_node", "4"}, c.Args[1:]...), 4
	return c
}

// known fails where FSDP is not read as that, or is unknown for another reason.
func known(t *testing.T, r *recognized, want arch.FSDP, unknown string) {
	t.Helper()
	if !strings.Contains(r.unknown, unknown) || (r.unknown == "") != (unknown == "") {
		t.Fatalf("unknown because %q, want %q", r.unknown, unknown)
	}
	if unknown != "" {
		return
	}
	if r.step.FSDP == nil || *r.step.FSDP != want {
		t.Fatalf("read as %+v, want %+v", r.step.FSDP, want)
	}
	if all := strings.Join(r.warnings, "\n"); !strings.Contains(all, "FSDP of version") {
		t.Errorf("the warnings are %q, want one of FSDP", all)
	}
	set, err := r.Ladders(t.Context(), card)
	if err != nil {
		t.Fatal(err)
	}
	if why := set.Phases[0].Rungs[set.Phases[0].Asked].Estimates[0].Unknown; why != "" {
		t.Errorf("without an estimate: %s", why)
	}
	for _, rung := range set.Shared.Rungs {
		if strings.Contains(rung.Name, "AdamW") || strings.Contains(rung.Name, "precision") {
			t.Errorf("with FSDP there is a rung %q", rung.Name)
		}
	}
	if (set.Host != nil) != want.Offload {
		t.Errorf("the ladder of the host is %v", set.Host)
	}
}

// What is made of accelerate's file, or why that has no formula.
func TestAccelerateFSDP(t *testing.T) {
	version2 := arch.FSDP{Version: 2, Layers: true, Carved: true, Master: nn.F32}
	version1 := arch.FSDP{Version: 1, Layers: true, Offload: true, Master: nn.F32}
	with := func(f arch.FSDP, edit func(f *arch.FSDP)) arch.FSDP {
		edit(&f)
		return f
	}
	as := func(*arch.FSDP) {}
	for name, tt := range map[string]struct {
		file    string
		version string
		args    []string
		want    arch.FSDP
		unknown string
	}{
		"version 2": {wrapped("bf16", wrap2), "1.15.0", nil, version2, ""},
		"version 1": {wrapped("bf16", wrap1), "1.15.0", nil, version1, ""},
		"older": {wrapped("bf16", wrap2), "1.13.0", nil, with(version2, func(f *arch.FSDP) { f.Carved = false }),
			""},
		"no cast": {wrapped("bf16", wrap2), "1.13.0", []string{"--dtype", "bfloat16"},
			with(version2, func(f *arch.FSDP) { f.Carved, f.Master = false, nn.BF16 }), ""},
		"cast whole": {wrapped("bf16", wrap2), "1.12.0", []string{"--dtype", "bfloat16"},
			with(version2, func(f *arch.FSDP) { f.Carved = false }), ""},
		"carved":  {wrapped("bf16", wrap2), "1.14.0", []string{"--dtype", "bfloat16"}, version2, ""},
		"too old": {wrapped("bf16", wrap2), "1.7.0", nil, version2, "accelerate from 1.8"},
		"bfloat16": {wrapped("no", wrap2), "1.15.0", []string{"--dtype", "bfloat16"},
			with(version2, func(f *arch.FSDP) { f.Master = nn.BF16 }), ""},
		"float32": {wrapped("no", wrap2), "1.15.0", nil, version2, ""},
		"kept": {wrapped("bf16", strings.Replace(wrap2, "forward: true", "forward: false", 1)), "1.15.0", nil,
			with(version2, func(f *arch.FSDP) { f.Keeps = true }), ""},
		"kept by its strategy": {wrapped("bf16", strings.Replace(wrap1, "FULL_SHARD", "SHARD_GRAD_OP", 1)), "1.15.0",
			nil,
			with(version1, func(f *arch.FSDP) { f.Keeps = true }), ""},
		"one unit": {wrapped("bf16", "  fsdp_offload_params: false\n"), "1.15.0", nil,
			arch.FSDP{Version: 1, Master: nn.F32}, ""},
		"checkpointing": {wrapped("bf16", wrap2+"  fsdp_activation_checkpointing: true\n"), "1.15.0", nil, version2,
			""},
		"both": {wrapped("bf16", wrap2+"  fsdp_activation_checkpointing: true\n"), "1.15.0",
			[]string{"--gradient_checkpointing"}, version2, "refused"},
		"to the host": {wrapped("bf16", wrap2+"  fsdp_activation_checkpointing_offload: true\n"), "1.15.0", nil,
			version2,
			"activation_checkpointing_offload"},
		"hybrid": {wrapped("bf16", "  fsdp_sharding_strategy: HYBRID_SHARD\n"), "1.15.0", nil, version1,
			"HYBRID_SHARD"},
		"by size": {wrapped("bf16", "  fsdp_auto_wrap_policy: SIZE_BASED_WRAP\n"), "1.15.0", nil, version1,
			"SIZE_BASED"},
		"other layers": {wrapped("bf16", wrap2+"  fsdp_transformer_layer_cls_to_wrap: GPT2Block\n"), "1.15.0", nil,
			version2,
			"LlamaDecoderLayer"},
		"its layers": {wrapped("bf16", wrap2+"  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer\n"), "1.15.0",
			nil,
			version2, ""},
		"no effect": {wrapped("bf16", wrap2+"  fsdp_sharding_strategy: SHARD_GRAD_OP\n"), "1.15.0", nil, version2,
			"no effect"},
		"foreign":    {wrapped("bf16", wrap2+"  fsdp_magic: true\n"), "1.15.0", nil, version2, "fsdp_magic"},
		"no version": {wrapped("bf16", "  fsdp_version: 3\n"), "1.15.0", nil, version2, "version 3"},
		"in parallel": {wrapped("bf16", wrap2) + "parallelism_config:\n  tp_size: 2\n", "1.15.0", nil, version2,
			"parallelism"},
		"twice":     {wrapped("bf16", wrap2), "1.15.0", []string{"--fsdp"}, version2, "beside accelerate's"},
		"deepspeed": {wrapped("bf16", wrap2), "1.15.0", []string{"--deepspeed", "none.json"}, version2, "none.json"},
	} {
		t.Run(name, func(t *testing.T) {
			c := cmd(t, folder(t, nil), append(asked[:len(asked):len(asked)], tt.args...)...)
			r := recognised(t, accelerated(t, c, tt.file, tt.version))
			want := with(tt.want, as)
			known(t, r, want, tt.unknown)
			if tt.unknown != "" {
				return
			}
			compute, autocast := nn.BF16, nn.F32
			if name == "float32" {
				compute = nn.F32
			}
			if want.Version == 1 {
				autocast = nn.BF16
			}
			if s := r.step; s.Weights != compute || s.Autocast != autocast ||
				s.Checkpointing != (name == "checkpointing") ||
				r.ranks != 4 || s.Reentrant {
				t.Errorf("gathered in %v under %v, checkpointing %v, in %d processes", s.Weights, s.Autocast,
					s.Checkpointing,
					r.ranks)
			}
		})
	}
}

// Variables of accelerate's are settings, too, behind any launcher: none is ignored.
func TestAccelerateVariables(t *testing.T) {
	version2 := arch.FSDP{Version: 2, Layers: true, Carved: true, Master: nn.F32}
	version1 := arch.FSDP{Version: 1, Layers: true, Keeps: true, Master: nn.F32}
	const on, layers = "ACCELERATE_USE_FSDP=true", "FSDP_AUTO_WRAP_POLICY=TRANSFORMER_BASED_WRAP"
	for name, tt := range map[string]struct {
		env     []string
		file    string
		args    []string
		want    arch.FSDP
		unknown string
	}{
		"version 2": {[]string{on, layers, "FSDP_VERSION=2"}, "", nil, version2, ""},
		"version 1": {[]string{on, layers, "FSDP_SHARDING_STRATEGY=SHARD_GRAD_OP"}, "", nil, version1, ""},
		"of no unit": {[]string{"ACCELERATE_USE_FSDP=True"}, "", nil, arch.FSDP{Version: 1, Master: nn.F32},
			""},
		"behind accelerate": {[]string{on, layers, "FSDP_VERSION=2"}, "num_processes: 4\n", nil, version2, ""},
		"off":               {[]string{"ACCELERATE_USE_FSDP=false", "FSDP_VERSION=2"}, "", nil, arch.FSDP{}, ""},
		"not true":          {[]string{"ACCELERATE_USE_FSDP=1"}, "", nil, version2, "takes true alone"},
		"hybrid": {[]string{on, "FSDP_SHARDING_STRATEGY=HYBRID_SHARD"}, "", nil, version2,
			"HYBRID_SHARD"},
		"ignored": {[]string{on, "FSDP_IGNORED_MODULES=.*"}, "", nil, version2, "IGNORED_MODULES"},
		"beside a file": {[]string{"FSDP_OFFLOAD_PARAMS=true"}, wrapped("bf16", wrap2), nil, version2,
			"FSDP_OFFLOAD"},
		"beside the script": {[]string{on, "FSDP_RESHARD_AFTER_FORWARD=false"}, "", []string{"--fsdp"}, version2,
			"FSDP_RESHARD"},
		"loaded":    {[]string{"FSDP_CPU_RAM_EFFICIENT_LOADING=true"}, "", []string{"--fsdp"}, version2, ""},
		"deepspeed": {[]string{"ACCELERATE_USE_DEEPSPEED=true"}, "", nil, version2, "ACCELERATE_USE_DEEPSPEED"},
		"a stage": {[]string{"ACCELERATE_DEEPSPEED_ZERO_STAGE=3"}, "distributed_type: DEEPSPEED\nnum_processes: 4\n",
			nil, version2, "ACCELERATE_DEEPSPEED_ZERO_STAGE"},
		"compiled": {[]string{"ACCELERATE_DYNAMO_BACKEND=INDUCTOR"}, "", nil, version2, "ACCELERATE_DYNAMO_BACKEND"},
		"compiled by its file": {nil, "num_processes: 4\ndynamo_config:\n  dynamo_backend: INDUCTOR\n", nil, version2,
			"dynamo_config"},
		"not compiled": {[]string{"ACCELERATE_DYNAMO_BACKEND=NO"}, "", nil, arch.FSDP{}, ""},
		"in parallel": {nil, "num_processes: 4\nparallelism_config:\n  parallelism_config_tp_size: 2\n", nil, version2,
			"parallelism"},
		"on the CPU":   {[]string{"ACCELERATE_USE_CPU=true"}, "", nil, version2, "ACCELERATE_USE_CPU"},
		"accumulation": {[]string{"ACCELERATE_GRADIENT_ACCUMULATION_STEPS=4"}, "", nil, arch.FSDP{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := cmd(t, folder(t, nil), append(append(asked[:len(asked):len(asked)], "--bf16"), tt.args...)...)
			if c.Env = append(c.Env, tt.env...); tt.file != "" {
				c = accelerated(t, c, tt.file, "1.15.0")
			} else {
				c = inFour(t, c)
			}
			r := recognised(t, c)
			if tt.want != (arch.FSDP{}) {
				known(t, r, tt.want, tt.unknown)
			} else if r.unknown != "" || r.step.FSDP != nil || r.split.Accumulation != 2 {
				t.Errorf("unknown because %q, read as %+v, accumulation %d", r.unknown, r.step.FSDP,
					r.split.Accumulation)
			}
		})
	}
	for _, name := range fsdpVariables { // which a plugin is told of
		told := New().Manifest().Environ([]string{"FSDP_" + name + "=1"}, nil)
		if len(told) != 1 {
			t.Errorf("FSDP_%s is not passed on", name)
		}
	}
}

// What the command trl does not know it passes on to accelerate launch, and so does its file.
func TestPassedOn(t *testing.T) {
	const file = "model_name_or_path: model\ndataset_name: x\noutput_dir: out\n"
	for want, tt := range map[string]struct {
		file string
		args []string
	}{
		"":                    {file, nil},
		"--accelerate_config": {file, []string{"--accelerate_config", "zero3"}},
		"--num_processes":     {file, []string{"--num_processes", "1"}},
		"accelerate_config":   {file + "accelerate_config: fsdp2\n", nil},
	} {
		c := cmd(t, folder(t, map[string]string{"a.yaml": tt.file}), "trl")
		c.Args = append([]string{program(t, c, "trl", "trl-1.16.0"), "sft", "--config", "a.yaml"}, tt.args...)
		r := recognised(t, c)
		if want == "" && r.unknown != "" || !strings.Contains(r.unknown, want) {
			t.Errorf("%q: unknown because %q, want %q", tt.args, r.unknown, want)
		}
	}
}

// The Trainer's own settings turn version 2 on. "--fsdp" needs no value.
func TestTrainerFSDP(t *testing.T) {
	want := arch.FSDP{Version: 2, Layers: true, Carved: true, Master: nn.F32}
	offloaded, kept, first := want, want, want
	offloaded.Offload, kept.Keeps = true, true
	first.Version, first.Carved = 1, false
	for name, tt := range map[string]struct {
		args    []string
		file    string
		want    arch.FSDP
		unknown string
	}{
		"bare":      {[]string{"--fsdp"}, "", want, ""},
		"before":    {[]string{"--fsdp", "--seed", "1"}, "", want, ""},
		"full":      {[]string{"--fsdp", "full_shard auto_wrap"}, "", want, ""},
		"offload":   {[]string{"--fsdp", "full_shard offload"}, "", offloaded, ""},
		"gradients": {[]string{"--fsdp", "shard_grad_op"}, "", kept, ""},
		"hybrid":    {[]string{"--fsdp", "hybrid_shard"}, "", want, "hybrid_shard"},
		"a file":    {[]string{"--fsdp", "--fsdp_config", "f.json"}, `{"fsdp_version": 1}`, first, ""},
		"in place":  {[]string{"--fsdp", "--fsdp_config", `{"cpu_offload": true}`}, "", offloaded, ""},
		"no effect": {[]string{"--fsdp", "--fsdp_config", "f.json"}, `{"fsdp_offload_params": true}`, want,
			"offload_params"},
		"unbounded": {[]string{"--fsdp", "--fsdp_config", "f.json"}, `{"version": 1, "limit_all_gathers": false}`,
			want, "bounds"},
		"first kept": {[]string{"--fsdp", "shard_grad_op", "--fsdp_config", "f.json"}, `{"version": 1}`, want,
			"shard_grad_op"},
		"xla":     {[]string{"--fsdp", "--fsdp_config", "f.json"}, `{"xla": true}`, want, "xla"},
		"no file": {[]string{"--fsdp", "--fsdp_config", "g.json"}, "", want, "g.json"},
		"other layers": {[]string{"--fsdp", "--fsdp_config", "f.json"}, `{"transformer_layer_cls_to_wrap": ["Block"]}`,
			want,
			"Block"},
	} {
		t.Run(name, func(t *testing.T) {
			c := cmd(t, folder(t, map[string]string{"f.json": tt.file}), append(append(asked[:len(asked):len(asked)],
				"--bf16"), tt.args...)...)
			known(t, recognised(t, inFour(t, c)), tt.want, tt.unknown)
		})
	}
	for _, args := range [][]string{{"--fsdp", ""}, {"--fsdp_config", "f.json"}} { // which turn nothing on
		c := cmd(t, folder(t, nil), append(append(asked[:len(asked):len(asked)], "--bf16"), args...)...)
		if r := recognised(t, inFour(t, c)); r.unknown != "" || r.step.FSDP != nil {
			t.Errorf("%q: unknown because %q, read as %+v", args, r.unknown, r.step.FSDP)
		}
	}
}

// LLaMA-Factory's src/train.py behind accelerate launch, whole and with adapters.
func TestFactoryFSDP(t *testing.T) {
	const script = "from llamafactory.train.tuner import run_exp\n\ndef main():\n    run_exp()\n"
	want := arch.FSDP{Version: 2, Layers: true, Carved: true, Master: nn.F32}
	lora, lora1 := want, arch.FSDP{Version: 1, Layers: true, Offload: true, Master: nn.F32, Frozen: nn.BF16}
	lora.Frozen = nn.BF16
	original := lora1
	original.Original = true
	for name, tt := range map[string]struct {
		file    string
		args    []string
		want    arch.FSDP
		unknown string
	}{
		"whole": {wrapped("bf16", wrap2), []string{"finetuning_type=full"}, want, ""},
		"pure": {wrapped("bf16", wrap2), []string{"finetuning_type=full", "bf16=false", "pure_bf16=true"}, want,
			""},
		"on each": {wrapped("bf16", strings.Replace(wrap2, "loading: true", "loading: false", 1)),
			[]string{"finetuning_type=full"}, want, "whole model"},
		"adapters":   {wrapped("bf16", wrap2), nil, lora, ""},
		"pure below": {wrapped("bf16", wrap2), []string{"bf16=false", "pure_bf16=true"}, lora, ""},
		"adapters as they are": {wrapped("bf16", strings.Replace(wrap1, "TRANSFORMER_BASED_WRAP", "NO_WRAP", 1)), nil,
			lora1, ""},
		"original": {wrapped("bf16", strings.Replace(wrap1, "orig_params: false", "orig_params: true", 1)), nil,
			original, ""},
		"without precision": {wrapped("no", wrap2), []string{"finetuning_type=full", "bf16=false"}, want,
			"mixed precision"},
		"nested": {wrapped("bf16", wrap2+"  fsdp_activation_checkpointing: true\n"),
			[]string{"finetuning_type=full"}, want, "disable_gradient_checkpointing"},
		"its own": {"distributed_type: MULTI_GPU\nnum_processes: 4\n", []string{"finetuning_type=full",
			"fsdp=full_shard"}, want, "accelerate's file"},
		"plain DDP": {"distributed_type: MULTI_GPU\nnum_processes: 4\n", []string{"finetuning_type=full"}, arch.FSDP{},
			""},
		"not a file": {wrapped("bf16", wrap2), []string{"--stage", "sft"}, want, "a file alone"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, map[string]string{"a.yaml": factoryRecipe, "src/train.py": script})
			args := append([]string{"src/train.py", "a.yaml"}, tt.args...)
			if name == "not a file" {
				args = append([]string{"src/train.py"}, tt.args...)
			}
			c := accelerated(t, cmd(t, dir, args...), tt.file, "1.15.0")
			if name == "not a file" {
				if _, err := New().Recognize(t.Context(), c); err == nil || !strings.Contains(err.Error(), tt.unknown) {
					t.Errorf("the error is %v, want %q", err, tt.unknown)
				}
				return
			}
			r := recognised(t, c)
			if tt.want == (arch.FSDP{}) {
				if r.unknown != "" || r.step.FSDP != nil || r.ranks != 4 {
					t.Errorf("unknown because %q, %+v in %d processes", r.unknown, r.step.FSDP, r.ranks)
				}
				return
			}
			known(t, r, tt.want, tt.unknown)
			if tt.unknown != "" {
				return
			}
			// of version 2 alone, whatever use_reentrant_gc is (checkpointing.py:158 of LLaMA-Factory)
			if s := r.step; s.Reentrant != (tt.want.Version == 1) || s.Weights != nn.BF16 || s.LoRA != nil &&
				(s.LoRA.Type != nn.BF16 || s.LoRA.Wide != (name == "original")) {
				t.Errorf("reentrant %v, gathered in %v, adapters %+v", s.Reentrant, s.Weights, s.LoRA)
			}
		})
	}
	other := cmd(t, folder(t, map[string]string{"src/train.py": "print()\n"}), "src/train.py", "a.yaml")
	if _, err := New().Recognize(t.Context(), other); !errors.Is(err, plugin.ErrNotMine) {
		t.Errorf("another train.py is recognised (%v)", err)
	}
}

// axolotl's version 2 leaves the parts in the type that the model was loaded in, and its version 1 makes them float32.
func TestAxolotlFSDP(t *testing.T) {
	const first = "\n  fsdp_limit_all_gathers: true\n  fsdp_offload_params: true\n  fsdp_use_orig_params: false\n" +
		"  fsdp_cpu_ram_efficient_loading: true\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n" +
		"  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer\n  fsdp_state_dict_type: FULL_STATE_DICT\n" +
		"  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_backward_prefetch: BACKWARD_PRE"
	const second = "\n  offload_params: false\n  cpu_ram_efficient_loading: true\n  reshard_after_forward: true"
	version1 := arch.FSDP{Version: 1, Layers: true, Offload: true, Master: nn.F32}
	version2 := arch.FSDP{Version: 2, Layers: true, Master: nn.BF16}
	for name, tt := range map[string]struct {
		lines   map[string]string
		args    []string
		want    arch.FSDP
		unknown string
	}{
		"version 1": {map[string]string{"fsdp": "[full_shard, auto_wrap]", "fsdp_config": first}, nil, version1, ""},
		"version 2": {map[string]string{"fsdp_version": "2", "fsdp_config": second}, nil, version2, ""},
		"inside":    {map[string]string{"fsdp_config": second + "\n  fsdp_version: 2"}, nil, version2, ""},
		"on each": {map[string]string{"fsdp_version": "2", "fsdp_config": "\n  offload_params: false"}, nil, version2,
			"whole model"},
		"alone": {map[string]string{"fsdp": "[full_shard]"}, nil, version2, "fsdp alone"},
		"no effect": {map[string]string{"fsdp_config": strings.Replace(first, "FULL_SHARD", "SHARD_GRAD_OP", 1)}, nil,
			version1, "no effect"},
		"an option": {map[string]string{"fsdp_version": "2", "fsdp_config": second},
			[]string{"--fsdp-config.offload-params"}, version2, "options"},
		"both": {map[string]string{"fsdp_version": "2", "fsdp_config": second + "\n  activation_checkpointing: true"},
			nil,
			version2, "refused"},
		"checkpointing": {map[string]string{"fsdp_version": "2", "gradient_checkpointing": "false",
			"fsdp_config": second + "\n  activation_checkpointing: true"}, nil, version2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			lines := map[string]string{"adapter": "-"}
			for key, v := range tt.lines {
				lines[key] = v
			}
			c := axolotlAt(t, lines, append([]string{"train", "a.yaml"}, tt.args...)...)
			c.Devices = 4
			r := recognised(t, c)
			known(t, r, tt.want, tt.unknown)
			if tt.unknown == "" && (r.step.Upcast || r.step.Weights != nn.BF16 || !r.step.Checkpointing ||
				r.ranks != 4) {
				t.Errorf("gathered in %v, norms in float32 %v, checkpointing %v, %d processes", r.step.Weights,
					r.step.Upcast,
					r.step.Checkpointing, r.ranks)
			}
		})
	}
	c := axolotlAt(t, map[string]string{"fsdp_version": "2", "fsdp_config": second}, "train", "a.yaml")
	c.Devices = 4
	set, err := recognised(t, c).Ladders(t.Context(), card)
	if err != nil || !strings.Contains(set.Phases[0].Rungs[0].Estimates[0].Unknown, "adapters of axolotl") {
		t.Errorf("adapters have an estimate (%v)", err)
	}
}

// Weights of 4 bits have their own reason: where they stay whole is what surprises.
func TestFSDPQuantised(t *testing.T) {
	const script = "from llamafactory.train.tuner import run_exp\n\ndef main():\n    run_exp()\n"
	sft := func(file string, args ...string) job.Command {
		c := cmd(t, folder(t, nil), append([]string{"sft.py", "--model_name_or_path", "model", "--dataset_name", "x",
			"--use_peft", "--dtype", "bfloat16"}, args...)...)
		return accelerated(t, c, file, "1.15.0")
	}
	factory := accelerated(t, cmd(t, folder(t, map[string]string{"a.yaml": factoryRecipe, "src/train.py": script}),
		"src/train.py", "a.yaml", "quantization_bit=4"), wrapped("bf16", wrap2), "1.15.0")
	for name, tt := range map[string]struct {
		command job.Command
		want    string
	}{
		"in bytes": {sft(wrapped("bf16", wrap2), "--load_in_4bit"), "uint8 stay whole on each card"},
		"in halves": {sft(wrapped("bf16", wrap2), "--load_in_4bit", "--bnb_4bit_quant_storage", "bfloat16"),
			"loads all"},
		"version 1":     {sft(wrapped("bf16", wrap1), "--load_in_4bit"), "loads all"},
		"8 bits":        {sft(wrapped("bf16", wrap2), "--load_in_8bit"), "8 bits"},
		"LLaMA-Factory": {factory, "loads all"},
	} {
		if r := recognised(t, tt.command); !strings.Contains(r.unknown, tt.want) {
			t.Errorf("%s: unknown because %q, want %q", name, r.unknown, tt.want)
		}
	}
	r := recognised(t, sft(wrapped("bf16", wrap2)))
	if r.unknown != "" || r.step.FSDP.Frozen != nn.BF16 || !r.step.Fused {
		t.Errorf("unknown because %q, read as %+v", r.unknown, r.step.FSDP)
	}
}

// What version 2 makes of frozen weights depends on the release of accelerate.
func TestFSDPReleases(t *testing.T) {
	const script = "from llamafactory.train.tuner import run_exp\n\ndef main():\n    run_exp()\n"
	// until 1.12 accelerate made frozen weights float32, too
	for version, want := range map[string]arch.FSDP{
		"1.11.0": {Version: 2, Layers: true, Master: nn.F32, Frozen: nn.F32},
		"1.13.0": {Version: 2, Layers: true, Master: nn.F32, Frozen: nn.BF16},
		"1.14.0": {Version: 2, Layers: true, Carved: true, Master: nn.F32, Frozen: nn.BF16},
	} {
		c := cmd(t, folder(t, map[string]string{"a.yaml": factoryRecipe, "src/train.py": script}), "src/train.py",
			"a.yaml")
		known(t, recognised(t, accelerated(t, c, wrapped("bf16", wrap2), version)), want, "")
	}
	// which LLaMA-Factory asks for, and so is assumed where it is not installed
	nowhere := cmd(t, folder(t, map[string]string{"a.yaml": factoryRecipe, "src/train.py": script,
		"acc.yaml": wrapped("bf16", wrap2)}))
	nowhere.Args = strings.Fields("accelerate launch --config_file acc.yaml src/train.py a.yaml")
	nowhere.Devices = 4
	r := recognised(t, nowhere)
	known(t, r, arch.FSDP{Version: 2, Layers: true, Master: nn.F32, Frozen: nn.F32}, "")
	if all := strings.Join(r.warnings, "\n"); !strings.Contains(all, "accelerate 1.11") {
		t.Errorf("the warnings are %q, want one of accelerate 1.11", all)
	}
}

// A rung keeps the global batch, and is priced as the job that it makes.
func TestFSDPPromises(t *testing.T) {
	for _, file := range []string{wrapped("bf16", wrap2), wrapped("bf16", wrap1), wrapped("no", wrap2)} {
		c := accelerated(t, cmd(t, folder(t, nil), asked...), file, "1.15.0")
		plugintest.Check(t, New(), c, card)
		plugintest.Check(t, New(), c, gpu.Device{Kind: gpu.CUDA, Total: 2 * unit.GiB, Capability: "8.9"})
	}
	for _, script := range []string{"sft.py", "dpo.py"} {
		dir := folder(t, map[string]string{"dpo.py": dpoScript})
		c := cmd(t, dir, script, "--model_name_or_path", "model", "--dataset_name", "x", "--use_peft")
		c = installed(t, accelerated(t, c, wrapped("bf16", wrap2), "1.15.0"), "bitsandbytes")
		plugintest.Check(t, New(), c, card)
	}
}

package command

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/launch-ml/launch/core/file"
)

// torchrun reads torch/distributed/run.py and launch.py of PyTorch 1.10 to 2.9. All names are accepted with dashes and
// with underscores, which is what newer versions do and covers the older ones.
func (r *reader) torchrun(words []word) error {
	name := filepath.Base(words[0].text)
	if name == "torch.distributed.run" {
		name = "torchrun"
	}
	r.through(name)
	o, rest, err := readOptions(words, `--nnodes: --nproc-per-node: --rdzv-backend: --rdzv-endpoint: --rdzv-id: --rdzv-conf:
		--max-restarts: --monitor-interval: --start-method: --event-log-handler: --role: -m|--module --no-python --run-path
		--standalone --log-dir: -r|--redirects: -t|--tee: --local-ranks-filter: --node-rank: --master-addr: --master-port:
		--local-addr: --logs-specs: --numa-binding: --signals-to-handle: --virtual-local-rank --use-env
		--duplicate-stdout-filters: --duplicate-stderr-filters: --logs_specs: --shutdown-timeout:`, loose)
	if err != nil {
		return err
	}
	l := Launcher{Name: name, Spec: r.option(o, "--nproc-per-node", "PET_NPROC_PER_NODE", "1")}
	l.Procs = number(strings.TrimSpace(l.Spec)) // as int() does
	l.Nodes = number(r.option(o, "--nnodes", "PET_NNODES", "1"))
	r.prog.Node = r.option(o, "--node-rank", "PET_NODE_RANK", "")
	if !o.has("--standalone") {
		_, r.prog.Port, _ = strings.Cut(r.option(o, "--rdzv-endpoint", "PET_RDZV_ENDPOINT", ""), ":")
		r.prog.Port = cmp.Or(r.prog.Port, r.option(o, "--master-port", "PET_MASTER_PORT", ""))
	}
	r.prog.Launchers = append(r.prog.Launchers, l)
	if o.has("--no-python") || o.has("--run-path") {
		if o.has("--run-path") {
			return r.run(Script, rest)
		}
		return r.command(rest)
	}
	return r.run(kindOf(o.has("--module")), rest)
}

// option returns an option's value, or that of the variable that stands in for it, or the default.
func (r *reader) option(o options, name, variable, def string) string {
	if v, ok := o.last(name); ok {
		return v
	}
	if v, ok := r.getenv(variable); ok {
		return v
	}
	return def
}

// accelerateOptions are those of "accelerate launch" in accelerate 0.20 to 1.15, without those of Amazon and of TPUs.
const accelerateOptions = `--config-file: -q|--quiet --cpu --multi-gpu --tpu --ipex --mixed-precision:
	--num-processes: --num-machines: --num-cpu-threads-per-process: --enable-cpu-affinity --dynamo-backend: --dynamo-mode:
	--dynamo-use-fullgraph --dynamo-use-dynamic --dynamo-use-regional-compilation --use-deepspeed --use-fsdp
	--use-parallelism-config --use-megatron-lm --use-xpu --gpu-ids: --same-network --machine-rank: --main-process-ip:
	--main-process-port: -t|--tee: --log-dir: --role: --rdzv-backend: --rdzv-conf: --max-restarts: --monitor-interval:
	-m|--module --no-python --debug --downcast-bf16 --main-training-function: --gradient-accumulation-steps:
	--deepspeed-config-file: --zero-stage: --offload-optimizer-device: --offload-param-device: --gradient-clipping:
	--offload-optimizer-nvme-path: --offload-param-nvme-path: --zero3-init-flag: --zero3-save-16bit-model:
	--deepspeed-hostfile: --deepspeed-exclusion-filter: --deepspeed-inclusion-filter: --deepspeed-multinode-launcher:
	--deepspeed-moe-layer-cls-names: --fsdp-version: --fsdp-offload-params: --fsdp-min-num-params:
	--fsdp-sharding-strategy:
	--fsdp-reshard-after-forward: --fsdp-auto-wrap-policy: --fsdp-transformer-layer-cls-to-wrap: --fsdp-backward-prefetch:
	--fsdp-state-dict-type: --fsdp-forward-prefetch: --fsdp-use-orig-params: --fsdp-cpu-ram-efficient-loading:
	--fsdp-sync-module-states: --fsdp-activation-checkpointing: --fsdp-activation-checkpointing-offload: --fp8-backend:
	--fp8-use-autocast-during-eval --fp8-margin: --fp8-interval: --fp8-format: --fp8-amax-history-len:
	--fp8-amax-compute-algo: --fp8-override-linear-precision: --fp8-opt-level: --fp8-enable-fsdp-float8-all-gather:
	--fp8-pad-inner-dim: --mpirun-hostfile: --megatron-lm-tp-degree: --megatron-lm-pp-degree:
	--megatron-lm-num-micro-batches:
	--megatron-lm-sequence-parallelism: --megatron-lm-recompute-activations: --megatron-lm-use-distributed-optimizer:
	--megatron-lm-gradient-clipping: --parallelism-config-dp-replicate-size: --parallelism-config-dp-shard-size:
	--parallelism-config-tp-size: --parallelism-config-cp-size: --parallelism-config-cp-backend:
	--parallelism-config-cp-comm-strategy:`

// accelerate reads "accelerate launch": accelerate/commands/launch.py. What the command line leaves out comes from a
// configuration file: the one that it names, or the user's own; where there is none, accelerate takes all GPUs.
func (r *reader) accelerate(words []word) error {
	r.through("accelerate launch")
	o, rest, err := readOptions(words, accelerateOptions, loose)
	if err != nil {
		return err
	}
	config := r.accelerateConfig(o)
	setting := func(option, key string) string {
		v, ok := o.last(option)
		if !ok {
			v = config(key)
		}
		return v
	}
	l := Launcher{Name: "accelerate", Spec: setting("--num-processes", "num_processes")}
	l.Procs = number(l.Spec)
	l.Nodes = number(setting("--num-machines", "num_machines"))
	if l.Nodes == 1 && !o.has("--num-machines") {
		l.Nodes = 0
	}
	if l.Spec == "" && l.Nodes < 2 && config("") == "" {
		l.Spec = allGPUs
	}
	r.prog.Node, _ = o.last("--machine-rank")
	if r.prog.Node == "" && l.Nodes > 1 {
		r.prog.Node = config("machine_rank")
	}
	r.prog.Port = setting("--main-process-port", "main_process_port")
	r.prog.Launchers = append(r.prog.Launchers, l)
	if o.has("--no-python") {
		return r.command(rest)
	}
	return r.run(kindOf(o.has("--module")), rest)
}

// maxConfig bounds accelerate's configuration file.
const maxConfig = 1 << 20

// accelerateConfig returns the top-level settings of the configuration file, as text; of "" its path, which is ""
// where there is none. The places are those of accelerate/commands/config/config_args.py of accelerate 1.15.
func (r *reader) accelerateConfig(o options) func(key string) string {
	path, named := o.last("--config-file")
	if !named && !o.has("--cpu") {
		home, _ := r.getenv("HOME")
		if cache, ok := r.getenv("XDG_CACHE_HOME"); ok {
			path = filepath.Join(cache, "huggingface")
		} else if home != "" {
			path = filepath.Join(home, ".cache", "huggingface")
		}
		if hub, ok := r.getenv("HF_HOME"); ok {
			path = hub
		}
		if path != "" {
			path = filepath.Join(path, "accelerate", "default_config.yaml")
		}
	}
	if path != "" && (r.prog.Dir != "" || filepath.IsAbs(path)) {
		path = resolve(r.prog.Dir, path)
	}
	text := []byte(nil)
	if path != "" {
		var err error
		if text, err = file.Read(path, maxConfig); errors.Is(err, fs.ErrNotExist) && !named {
			path = ""
		}
	}
	return func(key string) string {
		if key == "" {
			return path
		}
		m := regexp.MustCompile(`(?m)^(?:` + key + `|[ \t]*"` + key + `")[ \t]*:[ \t]*["']?([^"'\s,#]+)`).FindSubmatch(text)
		if m == nil || string(m[1]) == "null" {
			return ""
		}
		return string(m[1])
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// deepspeed reads deepspeed/launcher/runner.py of DeepSpeed 0.10 to 0.18.
func (r *reader) deepspeed(words []word) error {
	r.through("deepspeed")
	o, rest, err := readOptions(words, `-H|--hostfile: -i|--include: -e|--exclude: --num-nodes: --min-elastic-nodes:
		--max-elastic-nodes: --num-gpus: --master-port: --master-addr: --node-rank: --launcher: --launcher-args: --module
		--no-python --no-local-rank --no-ssh --no-ssh-check --force-multi --save-pid --enable-each-rank-log: --autotuning:
		--elastic-training --bind-cores-to-rank --bind-core-list: --ssh-port: --venv-script:`, loose)
	if err != nil {
		return err
	}
	l := Launcher{Name: "deepspeed", Nodes: 1}
	l.Spec, _ = o.last("--num-gpus")
	l.Procs = number(l.Spec)
	if hosts, _ := o.last("--hostfile"); l.Spec == "" && !o.has("--include") && !o.has("--exclude") &&
		!exists(cmp.Or(hosts, "/job/hostfile")) {
		l.Spec = allGPUs
	}
	if n, ok := o.last("--num-nodes"); ok {
		l.Nodes = number(n)
	}
	r.prog.Node, _ = o.last("--node-rank")
	r.prog.Port, _ = o.last("--master-port")
	r.prog.Launchers = append(r.prog.Launchers, l)
	if o.has("--no-python") {
		return r.command(rest)
	}
	return r.run(kindOf(o.has("--module")), rest)
}

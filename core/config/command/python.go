package command

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
)

var rePython = lazy.MustCompile(`^(?:python|pypy)[0-9.]*$`)

// python reads an interpreter's own options: "usage" in CPython's Modules/main.c and Python/initconfig.c.
func (r *reader) python(words []word) error {
	r.prog.Interpreter, r.prog.InterpreterAt = words[0].text, words[0].arg
	words = words[1:]
	for len(words) > 0 {
		w := words[0].text
		switch {
		case w == "--":
			return r.run(Script, words[1:])
		case w == "-" || w == "":
			return notUnderstood("Python reads its standard input")
		case w[0] != '-':
			return r.run(Script, words)
		case w == "--check-hash-based-pycs":
			words = words[min(2, len(words)):]
			continue
		case strings.HasPrefix(w, "--"):
			return notUnderstood("Python's option %s", w)
		}
		flag, value, err := pythonFlags(words[0])
		if err != nil {
			return err
		}
		words = words[1:]
		switch {
		case flag == 0:
			continue
		case value != nil:
			words = append([]word{*value}, words...)
		case len(words) == 0:
			return notUnderstood("Python's option -%c without a value", flag)
		}
		switch flag {
		case 'm':
			return r.module(words)
		case 'c':
			return r.run(Code, words)
		}
		words = words[1:] // the value of -W or -X
	}
	return notUnderstood("Python without a script")
}

// pythonFlags reads letters such as -uOm: the one that takes a value, or 0, and its value where that is joined to it.
func pythonFlags(w word) (flag byte, value *word, err error) {
	for i := 1; i < len(w.text); i++ {
		switch c := w.text[i]; {
		case strings.IndexByte("bBdEiIOPqsSuvx", c) >= 0:
		case strings.IndexByte("mcWX", c) < 0:
			return 0, nil, notUnderstood("Python's option -%c", c)
		case i+1 < len(w.text):
			w.text = w.text[i+1:]
			return c, &w, nil
		default:
			return c, nil, nil
		}
	}
	return 0, nil, nil
}

// module reads what stands behind -m: a program, or something that starts one.
func (r *reader) module(words []word) error {
	switch name := words[0].text; name {
	case "torch.distributed.run", "torch.distributed.launch":
		return r.torchrun(words)
	case "accelerate.commands.launch":
		return r.accelerate(words)
	case "accelerate", "accelerate.commands.accelerate_cli":
		return r.subcommand(words)
	case "deepspeed", "deepspeed.launcher.runner":
		return r.deepspeed(words)
	case "cProfile", "profile":
		r.through(name)
		o, rest, err := readOptions(words, "-o|--outfile: -s|--sort: -m")
		if err != nil {
			return err
		}
		return r.run(kindOf(o.has("-m")), rest)
	case "pdb", "trace", "timeit", "venv", "pip", "coverage", "debugpy", "torch.distributed.elastic", "runpy", "unittest":
		return notUnderstood("python -m %s", name)
	}
	return r.run(Module, words)
}

func kindOf(module bool) Kind {
	if module {
		return Module
	}
	return Script
}

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

// accelerate reads "accelerate launch": accelerate/commands/launch.py of accelerate 0.20 to 1.11. What its
// configuration file says is not read, so a number that is not on the command line is not known.
func (r *reader) accelerate(words []word) error {
	r.through("accelerate launch")
	o, rest, err := readOptions(words, `--config-file: -q|--quiet --cpu --multi-gpu --tpu --ipex --mixed-precision:
		--num-processes: --num-machines: --num-cpu-threads-per-process: --enable-cpu-affinity --dynamo-backend: --dynamo-mode:
		--dynamo-use-fullgraph --dynamo-use-dynamic --dynamo-use-regional-compilation --use-deepspeed --use-fsdp
		--use-parallelism-config --use-megatron-lm --use-xpu --gpu-ids: --same-network --machine-rank: --main-process-ip:
		--main-process-port: -t|--tee: --log-dir: --role: --rdzv-backend: --rdzv-conf: --max-restarts: --monitor-interval:
		-m|--module --no-python --debug --downcast-bf16 --main-training-function: --gradient-accumulation-steps:
		--deepspeed-config-file: --zero-stage: --offload-optimizer-device: --offload-param-device: --gradient-clipping:
		--offload-optimizer-nvme-path: --offload-param-nvme-path: --zero3-init-flag: --zero3-save-16bit-model:
		--deepspeed-hostfile: --deepspeed-exclusion-filter: --deepspeed-inclusion-filter: --deepspeed-multinode-launcher:
		--fsdp-version: --fsdp-offload-params: --fsdp-min-num-params: --fsdp-sharding-strategy: --fsdp-reshard-after-forward:
		--fsdp-auto-wrap-policy: --fsdp-transformer-layer-cls-to-wrap: --fsdp-backward-prefetch: --fsdp-state-dict-type:
		--fsdp-forward-prefetch: --fsdp-use-orig-params: --fsdp-cpu-ram-efficient-loading: --fsdp-sync-module-states:
		--fsdp-activation-checkpointing:`, loose)
	if err != nil {
		return err
	}
	l := Launcher{Name: "accelerate"}
	l.Spec, _ = o.last("--num-processes")
	l.Procs = number(l.Spec)
	if n, ok := o.last("--num-machines"); ok {
		l.Nodes = number(n)
	}
	r.prog.Node, _ = o.last("--machine-rank")
	r.prog.Port, _ = o.last("--main-process-port")
	r.prog.Launchers = append(r.prog.Launchers, l)
	if o.has("--no-python") {
		return r.command(rest)
	}
	return r.run(kindOf(o.has("--module")), rest)
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

package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/oom/printed"
	"github.com/launch-ml/launch/core/unit"
)

// A Remedy is one thing that would have helped.
type Remedy struct {
	What string `json:"what"`
	// Cost is what it gives up, by the name of a rung's cost: none, speed, numerics, metrics, recipe, model.
	Cost  string   `json:"cost"`
	Env   []string `json:"env,omitempty"`   // NAME=value, for the program
	Flags []Flag   `json:"flags,omitempty"` // settings of frameworks and schedulers, as they take them
	Run   []string `json:"run,omitempty"`   // commands for a shell
}

// A Flag is a setting in the syntax of the tool that reads it.
type Flag struct {
	Of   string `json:"of"` // "transformers", "lightning", "sbatch", "docker run"
	Text string `json:"text"`
}

// Launch reports whether a remedy is a flag of launch itself, which no rung of a ladder covers.
func (m Remedy) Launch() bool {
	return slices.ContainsFunc(m.Flags, func(f Flag) bool { return f.Of == "launch" })
}

// The costs of remedies, those of ladders, mildest first.
var remedyCosts = []string{"none", "speed", "numerics", "metrics", "recipe", "model"}

// Remedies lists what would have helped, the mildest cost first. It names a setting only if every program has it, or if the
// text shows a framework that has it and no version that lacks it.
func Remedies(r oom.Report, c Clues) []Remedy {
	a := &remedies{r: r, c: c}
	switch {
	case !r.OOM && !r.Possible && !r.Fatal:
	case !r.OOM && !r.Possible:
		a.notMemory()
	case r.Possible:
		a.unexplained()
	case r.Kind == oom.SharedMemory:
		a.sharedMemory()
	case r.Kind == oom.HostOOM:
		a.hostMemory()
	case r.Kind == oom.CPUAlloc:
		a.hostRefused()
	default:
		a.gpu()
	}
	if own := c.own(); c.Device != "" || c.Unified {
		for i, m := range a.out {
			a.out[i] = own.named(m)
		}
	}
	slices.SortStableFunc(a.out, func(x, y Remedy) int {
		return cmp.Compare(slices.Index(remedyCosts, x.Cost), slices.Index(remedyCosts, y.Cost))
	})
	return a.out
}

// remedies gathers them for one report.
type remedies struct {
	r   oom.Report
	c   Clues
	out []Remedy
}

// A with adds the exact setting or command to a remedy, if the clues allow it.
type with func(*Remedy, Clues)

// A proposal is a remedy before the clues of the program are known.
type proposal struct {
	cost, what string
	exact      []with
}

func give(cost, what string, exact ...with) proposal { return proposal{cost, what, exact} }

func (a *remedies) offer(cost, what string, exact ...with) {
	m := Remedy{What: what, Cost: cost}
	for _, w := range exact {
		w(&m, a.c)
	}
	a.out = append(a.out, m)
}

func env(set string) with {
	return func(m *Remedy, _ Clues) { m.Env = append(m.Env, set) }
}

func ask(line string) with {
	return func(m *Remedy, _ Clues) { m.Run = append(m.Run, line) }
}

// flag names a setting of a tool that is there whatever the program is.
func flag(of, text string) with {
	return func(m *Remedy, _ Clues) { m.Flags = append(m.Flags, Flag{of, text}) }
}

// scheduled names a setting of the scheduler that the text shows, by its manual (bsub, qsub), or else of Slurm.
func scheduled(slurm string, others map[string]string) with {
	return func(m *Remedy, c Clues) {
		of, text := "sbatch", slurm
		for _, s := range schedulers {
			if other, ok := others[s.name]; ok && s.name == c.Scheduler && c.Slurm == "" {
				of, text = s.of, other
			}
		}
		if text != "" {
			m.Flags = append(m.Flags, Flag{of, text})
		}
	}
}

// ofRanks names a setting of torch's launcher, if several processes share the work.
func ofRanks(of, text string) with {
	return func(m *Remedy, c Clues) {
		if c.Ranks || c.use(ofTorch) || c.use(ofAccelerate) || c.use(ofDeepSpeed) {
			m.Flags = append(m.Flags, Flag{of, text})
		}
	}
}

// inFramework names a framework's setting if the text shows that framework.
func inFramework(framework, text string) with {
	return func(m *Remedy, c Clues) {
		if c.use(framework) && !(framework == ofAccelerate && (c.use(ofTransformers) || c.use(ofDeepSpeed))) {
			m.Flags = append(m.Flags, Flag{framework, text})
		}
	}
}

// plainTorch names a change to code that uses torch directly, if no framework has a setting for it and torch is not
// older than since.
func plainTorch(since int, text string) with {
	return func(m *Remedy, c Clues) {
		if c.use(ofTorch) && len(m.Flags) == 0 && !c.Torch.olderThan(since) {
			m.Flags = append(m.Flags, Flag{ofTorch, text})
		}
	}
}

// gpu adds what helps where a card ran out of memory.
func (a *remedies) gpu() {
	if a.aroundCard() || a.served() {
		return
	}
	r := a.r
	if strings.Contains(r.What, "NCCL") {
		a.offer("none", "fewer and smaller buffers of NCCL's own, which lie outside PyTorch's memory",
			// docs/userguide/source/env.rst: by default 4 MiB; MAX_CTAS is the newer name (2.17) and the older one still read
			settings("NCCL_MAX_NCHANNELS=4", "NCCL_BUFFSIZE=1048576"))
		a.step()
		return
	}
	if a.c.Device == "mps" || r.Capacity == nil && r.Allowed != nil {
		defer a.watermark()
	}
	if a.c.Device == "tpu" { // a step is compiled as a whole, and fails before it runs
		a.step()
		return
	}
	switch a.workPhase() {
	case oom.Validation:
		a.validation()
	case oom.Optimizer:
		a.optimizer()
	case oom.Build:
		a.build()
	case oom.Checkpoint:
		a.checkpoint()
	case oom.Data:
		a.offer("none", "batches moved to the card one at a time, without prefetching onto it")
	case oom.Unknown:
		if r.Allocated == nil || *r.Allocated > emptyCard { // else nothing of a step is there yet
			a.step()
		}
	default:
		a.step()
	}
}

// aroundCard adds what helps beside the program's own work; whether that is all.
func (a *remedies) aroundCard() bool {
	r := a.r
	siblings := r.Numbers.Siblings() > 0 && !r.Numbers.Roomy()
	// siblings are of the same job; and what is unified is no card of its own, see below
	if r.Kind == oom.GPUContention && !siblings && (a.c.Device != "" || !a.c.Unified) {
		a.contended()
	}
	if a.c.Notebook {
		a.offer("none", "the kernel restarted: after an error a notebook keeps the tensors of the step that failed")
	}
	a.atStart()
	if siblings || r.Requested == nil && r.Phase == oom.Build && a.c.Ranks {
		a.offer("none", "one card for each rank, chosen before anything is put onto a card: without it all ranks begin "+
			"on the first",
			plainTorch(0, `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`))
	}
	if r.Numbers.Roomy() && strings.Contains(a.c.NoExpandable, "on Windows") {
		a.offer("none", "a larger paging file: Windows sets aside memory of the host for all that a program holds of the "+
			"card, and refuses where that is used up")
		return true
	}
	if r.Numbers.Roomy() {
		a.offer("none", "a look at the other limits of the process: address space, locked memory, the number of maps",
			ask("ulimit -a; sysctl vm.max_map_count vm.overcommit_memory"))
		return true
	}
	a.allocator()
	if a.c.Unified {
		a.offer("none", "less else in memory: here the card takes its memory from the host's, so that other programs and "+
			"loader workers hold it too", ask("free -h"),
			plainTorch(0, "DataLoader(num_workers=1, prefetch_factor=2, pin_memory=False)"))
	}
	if a.c.use(ofJulia) { // docs/src/usage/memory.md of CUDA.jl, which collects and reclaims by itself before it gives up
		a.offer("none", "arrays of the card that are not used any more, freed at once; batches that are freed after use",
			flag(ofJulia, "CUDA.unsafe_free!(x); for batch in CUDA.CuIterator(batches)"))
	}
	if strings.Contains(a.seen(), "cuInit") {
		a.offer("none", "a look at the card and at the process's own limits: the driver itself could not start, so that no "+
			"size of the program's is at fault", ask("nvidia-smi; ulimit -a; free -h"))
		return true
	}
	return false
}

// seen is the line that shows it; "" if there is none.
func (a *remedies) seen() string {
	if len(a.r.Evidence) == 0 {
		return ""
	}
	return a.r.Evidence[0].Text
}

// atStart adds what helps where it may be no fault of the program's size.
func (a *remedies) atStart() {
	r := a.r
	if r.Requested == nil && r.Kind != oom.GPUContention && (r.Phase == oom.Build ||
		a.c.Device != "" && (!a.c.Unified || r.Phase == oom.Unknown)) {
		a.offer("none", "a look at the card as it starts: where nothing at all can be taken, others mostly hold it",
			ask(a.c.own().tool))
	}
	if a.c.Device == "xpu" && r.Requested != nil && *r.Requested >= 4*unit.GiB && r.Kind != oom.GPUContention {
		// ze_relaxed_allocation_limits_ext_flags_t of Level Zero's specification; intel-extension-for-pytorch issue 629
		a.offer("none", "smaller requests: many of Intel's drivers refuse 4 GiB in one, unless their limits are relaxed",
			env("UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1"))
	}
}

// checkpoint adds what helps while a state is loaded or saved.
func (a *remedies) checkpoint() {
	if a.r.Part != oom.Save {
		a.offer("none", "the state loaded to the CPU first: loaded onto the card it is there twice",
			plainTorch(0, `torch.load(path, map_location="cpu")`))
	}
	if a.r.Part == oom.Save || a.r.Part == "" {
		a.offer("none", "the state saved from a copy on the CPU",
			inFramework(ofFSDP, "FullStateDictConfig(offload_to_cpu=True, "+
				"rank0_only=True)"))
	}
}

// contended adds what helps on a card that others hold.
func (a *remedies) contended() {
	what := "the card to itself: others hold what it needs"
	if fits, known := FitsAlone(a.r); known && !fits {
		what = "the card to itself, or one with more memory: what the others hold would not have been enough"
	}
	card := a.c.own()
	a.offer("none", what, ask(card.tool), a.holders(), func(m *Remedy, _ Clues) {
		if card.visible != "" {
			m.Env = append(m.Env, card.visible+"=N")
		}
	})
	if a.c.use(ofJAX) { // docs.jax.dev, GPU memory allocation
		a.offer("none",
			"no memory taken ahead by the JAX programs on it: each takes three quarters of the card as it starts",
			env("XLA_PYTHON_CLIENT_PREALLOCATE=false"))
	}
}

// holders asks the machine whose the processes are that a message lists.
func (a *remedies) holders() with {
	pids := []string{}
	for _, p := range a.r.Others {
		pids = append(pids, fmt.Sprint(p.PID))
	}
	return func(m *Remedy, _ Clues) {
		if len(pids) > 0 && len(a.r.HeldBy) == 0 {
			m.Run = append(m.Run, "ps -o pid,user,etime,args -p "+strings.Join(pids[:min(maxHolders, len(pids))], ","))
		}
	}
}

// emptyCard: a process that has allocated less of a card has no step on it. Our choice, below the smallest training.
const emptyCard = 32 * unit.MiB

// ofData is a frame in a data set: by the usual names of its file, or by the methods that torch calls
// (torch/utils/data/_utils/fetch.py).
var ofData = rx(`(?i)^[^ ]*data_?sets?[^ ]*(?::\d+)? in |\bin (?:\w*dataset\w*|__getitems?__|collate\w*)\b`)

// workPhase is that of the report; but a data set's work while the program is built is the data phase.
func (a *remedies) workPhase() oom.Phase {
	if a.r.Phase == oom.Build && ofData.MatchString(a.r.Frame) {
		return oom.Data
	}
	return a.r.Phase
}

// allocator adds allocator settings, which cost nothing. It names expandable segments only where they are known to be safe:
// natively on Linux, from torch 2.2 on, and not where processes share tensors (pytorch#165685).
func (a *remedies) allocator() {
	r := a.r
	gap := r.Reserved != nil && r.Allocated != nil && r.Requested != nil && *r.Reserved-*r.Allocated >= *r.Requested
	pieces := r.Kind == oom.GPUFragmentation || gap && !r.Limit
	if r.Limit && r.Allowed != nil && r.Capacity != nil {
		a.offer("none", "a higher memory fraction: the card has room that this process may not take",
			plainTorch(108, "torch.cuda.set_per_process_memory_fraction(1.0)"))
	}
	switch {
	case a.c.Device == "tpu":
	case a.c.use(ofJAX) && r.Kind == oom.GPUContention:
	case a.c.use(ofJAX):
		// docs.jax.dev, GPU memory allocation
		a.offer("none", "the whole card for JAX, which takes three quarters of it unless told otherwise",
			env("XLA_PYTHON_CLIENT_MEM_FRACTION=.95"))
	case a.c.oldTF:
	case a.c.use(ofTensorFlow) && (r.Kind == oom.GPUFragmentation || r.Kind == oom.GPUUnspecified):
		// tsl/framework/bfc_allocator.cc
		a.offer("none", "another allocator, where memory is in pieces", env("TF_GPU_ALLOCATOR=cuda_malloc_async"))
	case a.c.Device == "mps" || r.Capacity == nil && r.Allowed != nil:
	case !pieces || !a.c.use(ofTorch):
	case a.c.NoExpandable == "" && !a.c.Torch.olderThan(202):
		a.expandable()
	case r.Kind == oom.GPUFragmentation && !a.c.Torch.olderThan(110):
		a.unsplit()
	}
}

// watermark adds the end of MPS's own limit (aten/src/ATen/mps/MPSAllocator.mm), which is no first thing to try.
func (a *remedies) watermark() {
	a.offer("speed", "no limit, as a last resort: the system then swaps, and may come to a halt",
		env("PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0"))
}

// expandable adds expandable segments, with what they can win.
func (a *remedies) expandable() {
	r := a.r
	what := "segments that grow: they are for memory in pieces"
	if r.Kind != oom.GPUFragmentation {
		slack := *r.Reserved - *r.Allocated
		what = fmt.Sprintf("segments that grow: %v are reserved and not allocated, which is more than it asked for, and "+
			"lie in pieces", slack)
		if r.Capacity != nil && slack < *r.Capacity/little {
			what = fmt.Sprintf("segments that grow: they may buy a little, of the %v that are reserved and not allocated", slack)
		}
	}
	unless := "not on WSL or Jetson, nor where processes share CUDA tensors"
	switch {
	case a.c.Device == "npu":
		unless = "torch_npu 2.1 or later"
	case a.c.Torch.From < 202:
		unless = "torch 2.2 or later, " + unless
	}
	a.offer("none", what+" ("+unless+")", env(a.c.own().conf+"=expandable_segments:True"))
}

// unsplit adds the setting against fragmentation where expandable segments cannot be used.
func (a *remedies) unsplit() {
	why, name := a.c.NoExpandable, a.c.own().conf
	if why == "" {
		why = "torch is too old for them"
	}
	a.offer("none",
		"large blocks never split; it may itself raise the usage (segments that grow would be better: "+why+")",
		env(name+"=max_split_size_mb:128"))
}

// little: below 1/20 of the card, the gain of expandable segments is called little. It is our choice: the next larger
// request would use it up.
const little = 20

// step adds what helps a training step: the same for its three parts.
func (a *remedies) step() {
	a.smaller()
	a.checkpointing()
	if a.c.use(ofDeepSpeed) {
		what, text := "gradients and optimizer states sharded over the ranks, or kept on the CPU",
			`"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}`
		if a.c.zero3 {
			what, text = "optimizer states and weights kept on the CPU, and smaller buckets",
				`"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}, `+
					`"reduce_bucket_size": 5e7}`
		}
		a.offer("speed", what, flag(ofDeepSpeed, text))
	}
	a.bf16()
	a.offer("recipe", smallerInput)
}

const smallerInput = "a smaller crop, sequence or resolution: another experiment"

func (a *remedies) checkpointing() {
	a.offer("speed", "activation checkpointing: the same mathematics, about a third more time",
		inFramework(ofTransformers, "--gradient_checkpointing True"),
		inFramework(ofJAX, "jax.checkpoint(f)"), func(m *Remedy, c Clues) {
			if c.Device == "mlx" {
				m.Flags = append(m.Flags, Flag{"mlx_lm.lora", "--grad-checkpoint"})
			}
		},
		plainTorch(111, "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)"))
}

func (a *remedies) bf16() {
	if a.c.Device == "mlx" {
		a.offer("numerics", "a model of fewer bits, of which only adapters are trained")
		return
	}
	a.offer("numerics", "bf16 (or fp16) autocast, where it is off: other rounding",
		inFramework(ofTransformers, "--bf16 True"),
		inFramework(ofLightning, `Trainer(precision="bf16-mixed"), before 2.0 "bf16"`),
		inFramework(ofAccelerate, "accelerate launch --mixed_precision bf16"),
		inFramework(ofDeepSpeed, `"bf16": {"enabled": true}`),
		func(m *Remedy, c Clues) {
			if c.use(ofTensorFlow) && !c.oldTF { // it is there from 2.4 on
				m.Flags = append(m.Flags, Flag{ofTensorFlow, `tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")`})
			}
		},
		plainTorch(110, fmt.Sprintf("torch.autocast(%q, dtype=torch.bfloat16)", a.device())))
}

// device is torch's name for the kind of device.
func (a *remedies) device() string {
	switch {
	case a.r.Kind == oom.CPUAlloc:
		return "cpu"
	case a.c.Device == "" || a.c.Device == "hip":
		return "cuda"
	}
	return a.c.Device
}

// smaller adds a smaller micro-batch. A request larger than the card shows how much smaller it has to be.
func (a *remedies) smaller() {
	part, of := "half", int64(2)
	if r := a.r; r.Requested != nil && r.Capacity != nil && *r.Capacity > 0 {
		for unit.Bytes(of)**r.Capacity < *r.Requested && of < 1<<20 {
			of *= 2
		}
	}
	times := "twice"
	if of > 2 {
		part, times = fmt.Sprintf("1/%d of", of), fmt.Sprintf("%d times", of)
	}
	// as a rung: whether layers see the batch is not known here, but for language models, which have no such layers
	cost, what := "numerics", fmt.Sprintf("%s the micro-batch, %s the accumulation: the same global batch, more time; "+
		"batch norm, if there is any, sees smaller batches", part, times)
	if a.c.use(ofTransformers) {
		cost, what = "speed", fmt.Sprintf("%s the micro-batch, %s the accumulation: the same global batch, more time",
			part, times)
	}
	if of > 2 {
		what += "; even so only if that one request grows with the batch"
	}
	a.offer(cost, what,
		inFramework(ofTransformers, a.trainer(part, of)),
		inFramework(ofLightning,
			fmt.Sprintf("Trainer(accumulate_grad_batches=%d) and a DataLoader of %s the batch_size", of, part)),
		inFramework(ofDeepSpeed,
			fmt.Sprintf(`"train_micro_batch_size_per_gpu": %s, "gradient_accumulation_steps": %s`, part, times)),
		inFramework(ofAccelerate,
			fmt.Sprintf("Accelerator(gradient_accumulation_steps=%d) and a DataLoader of %s the batch_size", of, part)))
}

// trainer writes the micro-batch as flags of the Trainer of transformers, with the numbers that it printed, if it did.
func (a *remedies) trainer(part string, of int64) string {
	const micro, accum = "--per_device_train_batch_size", "--gradient_accumulation_steps"
	if a.c.MicroBatch >= of && a.c.MicroBatch%of == 0 && a.c.Accumulation > 0 {
		return fmt.Sprintf("%s %d %s %d", micro, a.c.MicroBatch/of, accum, a.c.Accumulation*of)
	}
	return fmt.Sprintf("%s (%s of it, at least 1) %s (%d times)", micro, strings.TrimSuffix(part, " of"), accum, of)
}

func (a *remedies) validation() {
	a.offer("none", "validation without gradients, if it keeps them", plainTorch(0, "with torch.no_grad():"))
	a.offer("speed", "a validation batch of 1; the training batch has no part in it",
		inFramework(ofTransformers, "--per_device_eval_batch_size 1"),
		inFramework(ofLightning, "a val_dataloader of batch_size=1"))
	if a.c.use(ofTransformers) {
		// by default all predictions stay on the card until the end: transformers/trainer.py, evaluation_loop
		a.offer("speed", "predictions moved to the host as they come, not at the end",
			flag(ofTransformers, "--eval_accumulation_steps 1"))
	}
	a.offer("metrics", "validation in tiles or on smaller pieces: the same model, other validation figures")
}

func (a *remedies) optimizer() {
	if !a.c.Torch.olderThan(200) && !a.c.use(ofJAX) && !a.c.use(ofTensorFlow) && a.c.Device != "mps" {
		// foreach is torch's default on CUDA since 2.0: torch/optim/optimizer.py, _default_to_fused_or_foreach
		// Where the version is not known, the remedy names the version that it needs.
		since := ""
		if a.c.Torch.From < 200 {
			since = " (torch 2.0 or later)"
		}
		// fused is for CUDA's optimizers from 2.0 on; elsewhere it came later, for some of them
		text, trainer := "foreach=False for the optimizer", with(func(*Remedy, Clues) {})
		if a.c.Device == "" || a.c.Device == "hip" {
			text = "foreach=False, or fused=True, for the optimizer"
			trainer = inFramework(ofTransformers, "--optim adamw_torch_fused")
		}
		a.offer("speed", "an optimizer that works on one tensor after the other, without a copy of them all"+since,
			trainer, plainTorch(200, text))
	}
	a.offer("speed",
		"optimizer states sharded over the ranks, or kept on the CPU: the first step makes them, so a smaller batch "+
			"helps little",
		inFramework(ofTransformers,
			"--deepspeed ds.json, with \"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\"}}"),
		inFramework(ofLightning, `Trainer(strategy="deepspeed_stage_2_offload")`),
		inFramework(ofDeepSpeed, `"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}`),
		inFramework(ofAccelerate, "accelerate launch --use_deepspeed --zero_stage 2 --offload_optimizer_device cpu"))
	a.offer("numerics", "optimizer states of 8 bits", inFramework(ofTransformers, "--optim adamw_bnb_8bit"))
}

func (a *remedies) build() {
	a.offer("none", "weights read to the CPU first: read onto the card they are there twice",
		plainTorch(0, `torch.load(path, map_location="cpu")`))
	a.offer("speed",
		"a model that is sharded over cards or kept in part on the CPU; there is no batch yet, so its size is no remedy")
	a.offer("numerics", "weights in bf16 from the start")
}

func (a *remedies) sharedMemory() {
	a.offer("none", "more shared memory for the container; in Kubernetes an emptyDir with medium: Memory on /dev/shm",
		flag("docker run", "--shm-size=8g, or --ipc=host"))
	if text := a.seen(); strings.Contains(text, "NCCL") || strings.Contains(text, "nccl-") {
		a.offer("speed", "NCCL without shared memory, by the network", env("NCCL_SHM_DISABLE=1")) // env.rst of its guide
		return
	}
	a.offer("none", "fewer loader workers, a smaller prefetch factor",
		inFramework(ofTransformers, "--dataloader_num_workers 1"),
		plainTorch(0, "DataLoader(num_workers=1, prefetch_factor=2)"))
	// not the sharing strategy file_system: its files lie on /dev/shm too (aten/src/ATen/MapAllocator.cpp, shm_open)
}

func (a *remedies) hostMemory() {
	limited := a.limited()
	if a.c.Scheduler == "spark" || a.served() {
		if !limited {
			a.moreHostMemory()
		}
		return
	}
	a.offer("none", "fewer loader workers, a smaller prefetch factor, no pinned memory",
		inFramework(ofTransformers, "--dataloader_num_workers 1 --dataloader_pin_memory False"),
		plainTorch(0, "DataLoader(num_workers=1, prefetch_factor=2, pin_memory=False)"))
	a.offer("none",
		"data that is read and not held (memory-mapped files); persistent_workers off, if memory grows from epoch to epoch")
	if a.workPhase() == oom.Build || a.workPhase() == oom.Checkpoint && a.r.Part != oom.Save {
		a.mapped("weights that are memory-mapped as they are read")
	}
	if !limited {
		a.moreHostMemory()
	}
}

// moreHostMemory adds a higher limit on host memory, for each tool that can set one.
func (a *remedies) moreHostMemory() {
	if a.c.Slurm != "" {
		a.offer("none", "more memory for the job; what it used is on record",
			flag("sbatch", "--mem, above what sacct says it was given (ReqMem)"), ask(a.sacct()))
		return
	}
	if a.moreOf() {
		return
	}
	a.offer("none", "more memory for the job: the scheduler's, or the container's limit",
		flag("sbatch", "--mem"), flag("docker run", "--memory"))
}

func (a *remedies) sacct() string {
	return "sacct -j " + a.c.Slurm + " --format=JobID,State,ExitCode,MaxRSS,ReqMem,Elapsed,Timelimit"
}

// hostRefused adds what helps after a refused request for host memory: a limit was reached, or none was left. Moving things
// to the CPU does not help: that is the memory that ran out.
func (a *remedies) hostRefused() {
	switch {
	case a.limited():
	case a.windows():
		a.offer("none", "a larger paging file, or one that Windows manages: there each process reserves all that it may use")
	case strings.Contains(a.seen(), "requires more system memory"): // Ollama's own sum, of a model that it has not loaded
		a.offer("none", "less else in memory: the server loads no model that needs more than is free", ask("free -h"))
	case a.c.use(ofJAX) && strings.Contains(a.seen(), "RESOURCE_EXHAUSTED"):
		a.offer("none", "a look at what JAX runs on: these are the words of its CPU device, which it takes where it finds "+
			"no card", ask(`python -c "import jax; print(jax.devices())"`))
	default:
		a.offer("none", "a higher limit, if one is set (here, or the container's)", ask("ulimit -v; ulimit -d"))
	}
	if a.oneArray() || a.served() {
		return
	}
	phase := a.workPhase()
	if phase == oom.Unknown && a.c.use(ofTensorFlow) {
		a.offer("none", "fewer elements held by the input pipeline",
			flag(ofTensorFlow, "tf.data: shuffle(1000), cache(filename), num_parallel_calls=2, prefetch(1)"))
		a.smaller()
		return
	}
	if phase == oom.Unknown && len(a.c.Uses) == 0 { // nothing shows a training
		phase = oom.Data
	}
	switch phase {
	case oom.Data:
		a.offer("none", "arrays that are memory-mapped or read in parts, or of a smaller type")
		a.offer("none", "fewer loader workers, each of which holds its own copy", plainTorch(0, "DataLoader(num_workers=1)"))
	case oom.Validation:
		a.validation()
	case oom.Optimizer:
		a.offer("recipe", "an optimizer with a smaller state: SGD with momentum keeps one number a weight, Adam two",
			plainTorch(0, "torch.optim.SGD(parameters, lr, momentum=0.9)"))
		a.offer("none", "fewer loader workers, each of which holds its own copy", plainTorch(0, "DataLoader(num_workers=1)"))
	case oom.Build:
		a.mapped("weights that are memory-mapped as they are read")
		a.offer("numerics", "weights in bf16 from the start")
		a.offer("model", "a smaller model; there is no batch yet, so its size is no remedy")
	case oom.Checkpoint:
		if a.r.Part == oom.Save {
			a.offer("none",
				"a state that is written in parts, or only what is needed of it: what gathers it holds a second copy")
		} else {
			a.mapped("a state that is memory-mapped as it is read")
		}
	default:
		a.hostStep()
	}
}

// windows reports whether Windows refused the memory, for want of its paging file.
func (a *remedies) windows() bool {
	return pagingFile.MatchString(a.seen())
}

var pagingFile = rx(`(?:WinError|os error) 1455|[Pp]aging file`)

// mapped adds memory-mapped reading of a state (torch/serialization.py: mmap, from 2.1 on).
func (a *remedies) mapped(what string) {
	if a.c.use(ofTorch) && a.c.Torch.From < 201 && !a.c.Torch.olderThan(201) {
		what += " (torch 2.1 or later)"
	}
	if a.c.Torch.olderThan(201) {
		a.offer("none", "one state read at a time, and let go of before the next: torch 2.1 or later could memory-map it")
		return
	}
	a.offer("none", what, plainTorch(201, "torch.load(path, mmap=True)"))
}

// hostStep adds what helps a training step on the CPU: as on a card, without moving things to the CPU.
func (a *remedies) hostStep() {
	a.smaller()
	a.checkpointing()
	a.bf16()
	a.offer("recipe", smallerInput)
}

// limited reports whether launch itself set the limit that was reached, and adds the flag that raises it.
func (a *remedies) limited() bool {
	limit := a.c.Limit
	if limit <= 0 {
		return false
	}
	// Half as much again is a first try if only the limit is known. A known request is the least that helps.
	more := limit + limit/2
	if r := a.r.Requested; r != nil {
		more = max(more, limit+*r)
	}
	const step = 100 * unit.MiB
	more = (more + step - 1) / step * step
	a.offer("none", fmt.Sprintf("more than the %v that launch was told to allow each process", limit),
		flag("launch", fmt.Sprintf("--memory %dMiB", more/unit.MiB)))
	return true
}

// unexplained adds how to find out who sent an unexplained kill.
func (a *remedies) unexplained() {
	if a.c.Slurm != "" {
		a.offer("none", "who killed it: the scheduler knows", ask(a.sacct()))
	}
	a.offer("none", "who killed it: the kernel's log names the process, if it was the kernel",
		ask(`journalctl -k -g "out of memory|oom-kill"`))
	a.hostMemory()
}

// notMemory adds what helps a program that ended for another reason than memory.
func (a *remedies) notMemory() {
	name := a.r.NotMemory
	switch {
	case name != "worker_died":
	case a.c.Scheduler == "ray":
		name = "ray_worker_died"
	case strings.Contains(a.seen(), "DataLoader worker"):
		name = "loader_worker_died"
	}
	if name == oom.NoWorkspace && a.c.use(ofJAX) {
		a.offer("none", "no memory taken ahead by JAX, which leaves the library too little",
			env("XLA_PYTHON_CLIENT_PREALLOCATE=false"))
	}
	if strings.Contains(a.seen(), "ephemeral-storage") {
		a.offer("none", "room for what is written outside volumes: a request of it, or the files on a volume",
			flag("kubernetes", "resources.requests.ephemeral-storage"))
		return
	}
	for _, p := range otherRemedies[name] {
		a.offer(p.cost, p.what, p.exact...)
	}
	if a.r.NotMemory == "exception" {
		a.excepted()
	}
	for _, step := range printed.FaultNamed(a.r.NotMemory).Do {
		a.do(step)
	}
	if a.r.NotMemory == "cancelled" && a.c.Slurm != "" {
		a.offer("none", "who did, and when", ask(a.sacct()))
	}
}

// do adds a step of a fault.
func (a *remedies) do(s printed.Step) {
	m := Remedy{What: s.What, Cost: "none"}
	if s.Env != "" {
		m.Env = strings.Fields(s.Env)
	}
	if s.Run != "" {
		m.Run = []string{s.Run}
	}
	a.out = append(a.out, m)
}

const fromState = "a resume from the last saved state"

// otherRemedies are what helps, by what ended the program instead of memory.
var otherRemedies = map[string][]proposal{
	"open_files": {
		give("none", "a higher limit of open files", ask("ulimit -n 65536")),
		give("none", "fewer loader workers, or tensors shared by files",
			flag(ofTorch, `torch.multiprocessing.set_sharing_strategy("file_system")`)),
	},
	"map_count": {
		give("none", "a higher limit of maps", ask("sudo sysctl vm.max_map_count=1048576")),
		give("none", "fewer tensors shared between processes: batches of a few large tensors, fewer loader workers",
			plainTorch(0, "DataLoader(num_workers=1, prefetch_factor=2)")),
	},
	"cut_off": {give("none", "the rest of the output: its last line is missing here")},
	"disk_full": {
		give("none", "room on the disk, in its inodes or in the quota; older saved states may go",
			ask("df -h .; df -i .; quota -s")),
		give("none", "a look at the newest saved state before a resume: it may be torn"),
	},
	"kernel_resources": {
		give("speed",
			"smaller blocks or fewer stages of that kernel, or the plain implementation; a smaller batch does nothing"),
	},
	"time_limit": {
		give("none", fromState+", with more time", scheduled("--time", map[string]string{"lsf": "-W HH:MM",
			"pbs": "-l walltime=HH:MM:SS", "sge": "-l h_rt=HH:MM:SS", "htcondor": ""})),
		give("none", "a signal before the end, for a program that saves its state on it",
			scheduled("--signal=B:USR1@300", map[string]string{"lsf": "-wa USR2 -wt 5", "sge": "-notify", "pbs": "",
				"htcondor": ""})),
	},
	"preempted": {give("none", fromState+"; put back into the queue by itself", scheduled("--requeue",
		map[string]string{"lsf": "-r", "pbs": "-r y", "sge": "-r y", "htcondor": ""}))},
	"process_limit": {give("none", "fewer processes and threads (loader workers, OMP_NUM_THREADS), or a higher limit",
		flag("bsub", "-T, -p"))},
	"cancelled":   {give("none", fromState+": a person or the scheduler cancelled it")},
	"interrupted": {give("none", fromState)},
	"terminated":  {give("none", fromState)},
	"nvml": {
		give("none", "a driver and a library that agree again: a reboot, or the module loaded anew", ask("nvidia-smi")),
		give("none", "expandable segments off until then", env("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False")),
	},
	"nccl": {
		give("none", "the first rank that failed: its own log says why (several logs at once: launch explain rank*.log)",
			env("NCCL_DEBUG=INFO")),
	},
	"ray_worker_died": {
		give("none", "the log of the worker that ended, by its process number: this text only says that it did",
			ask("ls -t /tmp/ray/session_latest/logs/ | head; tail -50 /tmp/ray/session_latest/logs/raylet.out")),
		give("none", "whether the kernel ended it for lack of host memory",
			ask(`journalctl -k -g "out of memory|oom-kill"`)),
	},
	"loader_worker_died": {
		give("none", "the error itself, with the loader's work in the main process",
			flag(ofTorch, "DataLoader(num_workers=0)")),
		give("none", "whether the kernel ended it for lack of host memory",
			ask(`journalctl -k -g "out of memory|oom-kill"`)),
	},
	"worker_died": {
		give("none", "the log of the process that ended: this text only says that it did",
			ofRanks("torchrun", "--tee 3 --log_dir logs"),
			ofRanks(ofTorch, "@torch.distributed.elastic.multiprocessing.errors.record on main")),
	},
	"nan": {
		give("recipe", "a smaller learning rate, or gradient clipping",
			inFramework(ofTransformers, "--learning_rate, --max_grad_norm"),
			inFramework(ofLightning, "Trainer(gradient_clip_val=1.0)"),
			plainTorch(0, "torch.nn.utils.clip_grad_norm_(parameters, 1.0)")),
		give("numerics", "bf16 in place of fp16, whose largest number is 65,504"),
		give("speed", "the operation that made it", plainTorch(0, "torch.autograd.set_detect_anomaly(True)")),
	},
	oom.NoWorkspace: {
		give("none", "a look at the card as it starts: full, and it is memory", ask("nvidia-smi")),
		give("none", "a driver, CUDA and cuDNN that belong together, and one copy of each",
			ask("python -m torch.utils.collect_env")),
	},
	"device_fault": {
		give("none", "the call that is at fault, shown by a run in step with the card", env("CUDA_LAUNCH_BLOCKING=1")),
		give("none", "the card's own errors", ask("nvidia-smi -q -d ECC; journalctl -k -g Xid")),
	},
}

// Apart warns of the remedies that people try first but that free another memory than the one that ran out; "" if there is
// nothing to warn of.
func Apart(r oom.Report, c Clues) string {
	switch {
	case !r.OOM && !r.Possible:
		return ""
	case c.Unified, c.Device == "mps": // one memory for both
		return ""
	case r.Kind == oom.HostOOM || r.Kind == oom.SharedMemory:
		return "settings of the card (activation checkpointing, mixed precision, tiles) give back nothing of the host's " +
			"memory"
	case r.OfCard():
		return "loader workers, prefetch and pinned memory are host memory: fewer of them give back nothing of the card"
	}
	return ""
}

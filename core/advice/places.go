package advice

import (
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/oom/printed"
	"github.com/launch-ml/launch/core/unit"
)

// A device is a kind of card that is not CUDA's: how it is known, and the names of its own for what every card has.
type device struct {
	name    string
	re      *lazy.Regexp
	conf    string // the variable with its allocator's settings
	tool    string // shows who holds the card
	visible string // the variable with the cards that a process may use
	sync    string // the setting that runs the program in step with the card
	health  string // shows the card's own errors
}

// devices are tried in order on each line. Their names are those of torch_npu's and torch_musa's documentation, and of
// each driver's tools.
var devices = []device{
	{"npu", rx(`\bNPU out of memory|\bNPU function error|\bNPU \d+;|[/\\]torch_npu[/\\]|ACL_ERROR_RT_MEMORY_ALLOCATION|` +
		`error code is 207001|\bEL0004\b|\baclrt[A-Z]\w+`), "PYTORCH_NPU_ALLOC_CONF", "npu-smi info",
		"ASCEND_RT_VISIBLE_DEVICES", "ASCEND_LAUNCH_BLOCKING=1", "npu-smi info"},
	{"musa", rx(`\bMUSA out of memory|[/\\]torch_musa[/\\]`), "PYTORCH_MUSA_ALLOC_CONF", "mthreads-gmi",
		"MUSA_VISIBLE_DEVICES", "MUSA_LAUNCH_BLOCKING=1", "mthreads-gmi"},
	{"hip", rx(`\bHIP out of memory|\bhipError\w+|\bHIP error\b|\b(?:Memory access fault|HW Exception) by GPU|` +
		`\bROCm (?:error|backend)\b|\bROCm\d+ buffer|[/\\]rocm[/\\-]|\brocm\w*\.py\b|\bgfx\d{3,4}[a-f]?\b|` +
		`\bAMD (?:Instinct|Radeon)\b`), "PYTORCH_HIP_ALLOC_CONF", "rocm-smi --showpids", "HIP_VISIBLE_DEVICES",
		"AMD_SERIALIZE_KERNEL=3", "rocm-smi; journalctl -k -g amdgpu"},
	{"xpu", rx(`\bXPU out of memory|\bUR_RESULT_ERROR_\w+|\b(?:PI|ZE)_(?:RESULT_)?ERROR_\w+|\blevel_zero backend|` +
		`\bNative API failed|\btorch\.xpu\b|\bmemory block with size larger than \d+ ?GB`), "PYTORCH_ALLOC_CONF",
		"xpu-smi ps", "ZE_AFFINITY_MASK", "UR_L0_SERIALIZE=2", "xpu-smi health -l; journalctl -k -g 'i915|xe'"},
	{"mps", rx(`\bMPS backend out of memory`), "", "top -o mem", "", "", ""},
	{"mlx", rx(`\[metal::malloc\]|\[METAL\] Command buffer|kIOGPUCommandBuffer`), "", "top -o mem", "", "", ""},
	{"tpu", rx(`\bXLA:TPU\b|memory space (?:hbm|vmem|smem)`), "", "tpu-info", "TPU_VISIBLE_CHIPS", "", "tpu-info"},
}

// unified are words for a machine on which the card takes its memory from the host's: Apple's, NVIDIA's GB10, Jetson
// and Thor, AMD's large APUs.
var unified = rx(`\bMPS backend out of memory|\[metal::malloc\]|kIOGPUCommandBuffer|\bGB10\b|\bDGX Spark\b|` +
	`\bJetson\b|(?i:\btegra)|\b(?:Orin|Xavier)\b|` +
	`\bNvMapMem\w+|\(nvgpu\)|\bNVIDIA Thor\b|\bgfx115[01]\b|Radeon 80[56]0S|Strix Halo`)

// own returns what is known of the kind of card; CUDA's names where it is none of the others.
func (c Clues) own() device {
	for _, d := range devices {
		if d.name == c.Device {
			return d
		}
	}
	d := device{conf: "PYTORCH_CUDA_ALLOC_CONF", tool: "nvidia-smi", visible: "CUDA_VISIBLE_DEVICES",
		sync: "CUDA_LAUNCH_BLOCKING=1", health: "nvidia-smi -q -d ECC; journalctl -k -g Xid"}
	if c.Unified { // the driver of a Jetson, and of a GB10, does not tell its memory, and it is the only card
		d.tool, d.visible, d.health = "free -h", "", "journalctl -k -g 'NVRM|nvgpu|tegra'"
	}
	if c.Torch.From >= 209 { // CUDA's name is read until then, and said to be old
		d.conf = "PYTORCH_ALLOC_CONF"
	}
	return d
}

// named returns a remedy with this device's names in place of CUDA's; what it has no name for is left out.
func (d device) named(m Remedy) Remedy {
	var env, run []string
	for _, set := range m.Env {
		name, value, _ := strings.Cut(set, "=")
		switch {
		case name == "CUDA_LAUNCH_BLOCKING":
			set = d.sync
		case name == "CUDA_VISIBLE_DEVICES" && d.visible == "", name == "PYTORCH_CUDA_ALLOC_CONF" && d.conf == "":
			set = ""
		case name == "CUDA_VISIBLE_DEVICES":
			set = d.visible + "=" + value
		case name == "PYTORCH_CUDA_ALLOC_CONF":
			set = d.conf + "=" + value
		}
		if set != "" {
			env = append(env, set)
		}
	}
	for _, line := range m.Run {
		switch {
		case strings.Contains(line, "nvidia-smi"):
			line = d.health
		case strings.Contains(line, "compute-sanitizer") && d.name != "":
			line = ""
		}
		if line != "" {
			run = append(run, line)
		}
	}
	if d.name == "hip" { // whose torch has CUDA's names
		m.What = rocm.Replace(m.What)
	} else if d.name != "" {
		m.What = strings.ReplaceAll(m.What, "CUDA graphs", "captured graphs")
		for i, f := range m.Flags {
			m.Flags[i].Text = strings.ReplaceAll(f.Text, "torch.cuda.", "torch."+d.name+".")
		}
	}
	m.Env, m.Run = env, run
	return m
}

// rocm has ROCm's words for CUDA's.
var rocm = strings.NewReplacer("TORCH_CUDA_ARCH_LIST", "PYTORCH_ROCM_ARCH", "a CUDA ", "a ROCm ", "CUDA graphs",
	"HIP graphs")

// An engine is a program that serves or computes without a training step: what would help it is a setting of its own.
type engine struct {
	name   string
	re     *lazy.Regexp
	offers []proposal
	// weights are for those that did not fit; host for host memory. none: offers, and what helps any program.
	weights, host []proposal
}

// ggml is an engine that computes with it: each has names of its own for the same settings.
func ggml(name string, re *lazy.Regexp, layers, batch, cache, context with) engine {
	bits := give("numerics", "a model of fewer bits")
	return engine{name, re, []proposal{
		give("speed", "fewer layers on the card, or less at a time", layers, batch),
		give("numerics", "a cache in 8 bits, or a model of fewer bits", cache),
		give("recipe", "a shorter context", context)},
		[]proposal{give("speed", "fewer layers on the card", layers), bits},
		[]proposal{bits, give("recipe", "a shorter context", context)}}
}

// settings are several variables of the environment.
func settings(sets ...string) with {
	return func(m *Remedy, _ Clues) { m.Env = append(m.Env, sets...) }
}

// engines are known by their frames, and by the settings that their messages name.
var engines = []engine{
	{"vllm", rx(`[/\\]vllm_(?:ascend|omni)[/\\]|[/\\]vllm[/\\](?:v1|worker|engine|executor|model_executor)\b|` +
		`^\((?:NPU)?RayWorkerWrapper pid=|^\((?:EngineCore|VllmWorker)\w* (?:pid|rank)=|` +
		`(?i:\bgpu[_ ]memory[_ ]utilization\b)|` +
		`\bmax_num_seqs\b|` +
		`\bmax_model_len\b|larger than the available KV cache memory|No available memory for the cache blocks`), []proposal{
		// docs/configuration/conserving_memory.md and engine_args.md
		give("speed", "fewer sequences and tokens at a time", flag("vllm", "--max-num-seqs (half), --max-num-batched-tokens "+
			"(half)")),
		give("speed", "no CUDA graphs, which hold memory of their own", flag("vllm", "--enforce-eager")),
		give("speed", "the model over several cards", flag("vllm", "--tensor-parallel-size 2")),
		give("recipe", "a shorter context", flag("vllm", "--max-model-len (as long as the longest request)"))}, nil, nil},
	// docs/advanced_features/server_arguments.md
	{"sglang", rx(`[/\\]sglang[/\\]srt[/\\]|mem[-_]fraction[-_]static|(?:Prefill|Decode) out of memory`), []proposal{
		give("speed", "smaller pieces of a prompt, and fewer requests at a time",
			flag("sglang", "--chunked-prefill-size 2048 --max-running-requests (half) --cuda-graph-max-bs (half)")),
		give("speed", "the model over several cards", flag("sglang", "--tp 2")),
		give("recipe", "a shorter context", flag("sglang", "--context-length"))}, nil, nil},
	// docs/faq.mdx, of the variables; docs/modelfile.mdx and api/types.go, of the parameters
	ggml("ollama", rx(`\bollama\b|\bllama runner process|model requires more system memory`),
		flag("ollama", "PARAMETER num_gpu (fewer)"), settings("OLLAMA_NUM_PARALLEL=1"),
		settings("OLLAMA_FLASH_ATTENTION=1", "OLLAMA_KV_CACHE_TYPE=q8_0"),
		flag("ollama", "PARAMETER num_ctx 8192")),
	// llama_cpp/llama.py; 8 is GGML_TYPE_Q8_0 of llama_cpp/llama_cpp.py
	ggml("llama-cpp-python", rx(`[/\\]llama_cpp[/\\]|\bLlamaCpp\b`), flag("llama_cpp", "n_gpu_layers (fewer)"),
		flag("llama_cpp", "n_ubatch=256"), flag("llama_cpp", "flash_attn=True, type_k=8, type_v=8"),
		flag("llama_cpp", "n_ctx=8192")),
	// tools/server/README.md, of common/arg.cpp
	ggml("llama.cpp", rx(`\bggml_\w+|\balloc_tensor_range\b|`+
		`\bllama_(?:model_load\w*|(?:init|new|kv|context)_\w+|context:)`),
		flag("llama.cpp", "-ngl (fewer)"), flag("llama.cpp", "-ub 256"), flag("llama.cpp", "-fa on -ctk q8_0 -ctv q8_0"),
		flag("llama.cpp", "-c 8192")),
	// python-package/lightgbm, and the words of its library; docs/Parameters.rst
	{"lightgbm", rx(`\bLightGBMError\b|\[LightGBM\]|[/\\]lightgbm[/\\]|\bboost::compute\b`), []proposal{
		give("numerics", "fewer bins", flag("lightgbm", "max_bin=63")),
		give("recipe", "fewer rows or columns")}, nil, boosted("lightgbm")},
	// python-package/xgboost/core.py; doc/parameter.rst
	{"xgboost", rx(`\bXGBoostError\b|[/\\]xgboost[/\\]|^\[\d+\]\s+\w+-[a-z]+:\d`), []proposal{
		give("none", "data that is made into bins as it is read", flag("xgboost", "QuantileDMatrix(data_iterator)")),
		give("speed", "data that stays on the host (3.0 or later)", flag("xgboost", "ExtMemQuantileDMatrix")),
		give("speed", "fewer histograms kept, of deep trees (on a card from 3.0 on)", flag("xgboost",
			"max_cached_hist_node=1024")),
		give("numerics", "fewer bins", flag("xgboost", "max_bin=128")),
		give("recipe", "shallower trees, or fewer rows or columns", flag("xgboost", "max_depth (less)"))}, nil,
		boosted("xgboost")},
	// launcher/src/main.rs
	{"tgi", rx(`\btext_generation_(?:launcher|client|server)\b|--max-batch-prefill-tokens`), []proposal{
		give("speed", "smaller pieces of prompts at a time", flag("tgi", "--max-batch-prefill-tokens (half)")),
		give("speed", "the model over several cards", flag("tgi", "--num-shard 2")),
		give("numerics", "weights of fewer bits", flag("tgi", "--quantize eetq")),
		give("recipe", "a shorter context", flag("tgi", "--max-total-tokens (half)"))}, nil, nil},
	{"cupy", rx(`[/\\]cupy[/\\]|\bcupy\.`), []proposal{
		// not free_all_blocks: its pool does that itself before it gives up (cupy/cuda/memory.pyx)
		give("none", "arrays of the card that are not used any more, let go of (del) before new ones"),
		give("speed", "memory that may be larger than the card's", // docs/source/user_guide/memory.rst
			flag("cupy", "cupy.cuda.set_allocator(cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc)")),
		give("speed", "data in smaller parts"), give("numerics", "float32 in place of float64")}, nil, nil},
	{"rapids", rx(`\bRMM failure\b|\brmm::|\bRMM_ERROR|[/\\](?:cudf|cuml|rmm|dask_cuda)[/\\]`), []proposal{
		// rmm's docs/user_guide/guide.md; dask-cuda's dask_cuda/cli.py
		give("speed", "memory that may be larger than the card's", flag("rmm", "rmm.reinitialize(managed_memory=True)")),
		give("speed", "data that is spilled to the host", flag("dask_cuda", "--device-memory-limit 0.6 --enable-cudf-spill")),
		give("speed", "data in smaller parts")}, nil, nil},
	{"numba", rx(`[/\\]numba[/\\]cuda[/\\]|\bnumba\.cuda\b`), []proposal{
		// not deallocations.clear(): it does that itself before it gives up (numba/cuda/cudadrv/driver.py)
		give("none", "arrays of the card that are not used any more, let go of (del) before new ones"),
		give("speed", "data in smaller parts"), give("numerics", "float32 in place of float64")}, nil, nil},
	// docs/source/en/optimization/memory.md
	{"diffusers", rx(`[/\\]diffusers[/\\]pipelines[/\\]`), []proposal{
		give("speed", "parts of the pipeline on the card only while they work", flag("diffusers",
			"pipe.enable_model_cpu_offload()")),
		give("speed", "fewer pictures at a time", flag("diffusers", "num_images_per_prompt=1")),
		give("numerics", inTiles, flag("diffusers", "pipe.vae.enable_tiling()")),
		give("numerics", fewerBits),
		give("recipe", smallerPictures)}, nil, nil},
	// comfy/cli_args.py
	{"comfyui", rx(`[/\\]comfy[/\\]\w|^!!! Exception during processing`), []proposal{
		give("speed", "parts of the models on the card only while they work", flag("comfyui", "--lowvram")),
		give("numerics", inTiles, flag("comfyui", "VAE Decode (Tiled)")),
		give("numerics", "weights of fewer bits", flag("comfyui", "--fp8_e4m3fn-unet")),
		give("recipe", smallerPictures)}, nil, nil},
	// modules/cmd_args.py
	{"webui", rx(`[/\\]stable-diffusion-webui\S*[/\\]modules[/\\]`), []proposal{
		give("speed", "parts of the model on the card only while they work", flag("webui", "--medvram")),
		give("recipe", smallerPictures)}, nil, nil},
	// docs/source/en/kv_cache.md of transformers; others have a generate of their own, and no settings that are known
	{"generate", rx(`[/\\]transformers[/\\]generation[/\\]|^\s+\S.*\._?(?:\w+_)?generate\(`), []proposal{
		give("speed", "fewer prompts at a time"),
		give("speed", "the weights over several cards and the host", inHub(`device_map="auto"`)),
		give("speed", "a cache of keys and values on the host", inHub(`cache_implementation="offloaded"`)),
		give("numerics", fewerBits, inHub("quantization_config=BitsAndBytesConfig(load_in_4bit=True)")),
		give("recipe", "shorter prompts, or fewer new tokens", inHub("max_new_tokens (less)"))}, nil, nil},
	{"inference", rx(`[/\\](?:whisper|whisperx|sentence_transformers|lm_eval|insightface|easyocr|segment_anything|sam2)` +
		`[/\\]\w|[/\\]ultralytics[/\\]engine[/\\]predictor|[/\\]transformers[/\\]pipelines[/\\]|` +
		`^\s+\S.*\.(?:predict|transcribe|encode|embed|infer|inference|upscale)\w*\(`), []proposal{
		give("none", "nothing kept for a backward pass, if it runs with gradients",
			plainTorch(109, "torch.inference_mode()")),
		give("speed", "fewer inputs at a time"),
		give("numerics", fewerBits),
		give("recipe", "smaller or shorter inputs, or a smaller model")}, nil, nil},
}

// made are the engines of what makes something with a model, and trains one elsewhere in the same program or not at
// all.
var made = []string{"diffusers", "comfyui", "webui", "generate", "inference"}

const (
	fewerBits       = "weights in bf16, or of fewer bits"
	inTiles         = "pictures decoded in tiles, whose tones may differ a little"
	smallerPictures = "smaller pictures, or fewer frames"
)

// inHub names a setting of transformers' models, if the text shows one.
func inHub(text string) with {
	return func(m *Remedy, c Clues) {
		if c.hub {
			m.Flags = append(m.Flags, Flag{ofTransformers, text})
		}
	}
}

// boosted is what helps a boosting of trees whose data does not fit in memory: each library's own names.
func boosted(of string) []proposal {
	read, bins := flag("xgboost", "QuantileDMatrix(data_iterator)"), flag("xgboost", "max_bin=128")
	if of == "lightgbm" { // two_round is of text files alone; Sequence: python-package/lightgbm/basic.py
		read = flag("lightgbm", "two_round=true of a text file, lightgbm.Sequence of arrays; histogram_pool_size=2048")
		bins = flag("lightgbm", "max_bin=63")
	}
	return []proposal{give("none", "data that is made into bins as it is read, and not held twice", read),
		give("numerics", "fewer bins", bins), give("recipe", "fewer rows or columns")}
}

// untrained reports whether nothing shows a training. XLA fails as it compiles, whatever that is.
func (a *remedies) untrained() bool {
	return a.r.Phase == oom.Unknown || a.r.Phase == oom.Build && a.c.use(ofJAX)
}

// served adds what helps an engine, if the text shows one and no training; whether it does.
func (a *remedies) served() bool {
	if a.r.Phase == oom.TrainBackward || a.r.Phase == oom.Optimizer { // an engine beside a training, of reinforcement
		return false
	}
	for _, of := range []string{ofTransformers, ofDeepSpeed, ofFSDP, ofLightning, ofAccelerate} {
		if a.c.use(of) {
			return false
		}
	}
	for _, e := range engines {
		if !a.c.use(e.name) || slices.Contains(made, e.name) && !a.untrained() {
			continue
		}
		if e.name == "vllm" && a.share() {
			return true
		}
		if e.name == "sglang" {
			a.fraction()
		}
		if e.name == "lightgbm" && a.r.OfCard() && !strings.Contains(a.seen(), "CUDA") {
			// LightGBM's issue 3899; CL_DEVICE_MAX_MEM_ALLOC_SIZE
			a.offer("none", "its CUDA learner, in a build that has it: OpenCL's drivers bound each buffer, NVIDIA's to a "+
				"quarter of the card", flag("lightgbm", "device_type=cuda"))
		}
		offers := e.offers
		switch {
		case !a.r.OfCard() && e.host == nil:
			continue
		case !a.r.OfCard():
			offers = e.host
		case a.r.Part == oom.Load && e.weights != nil:
			offers = e.weights
		}
		for _, p := range offers {
			a.offer(p.cost, p.what, p.exact...)
		}
		a.longest()
		return true
	}
	return false
}

// smallerCache helps where the cache is what does not fit: elsewhere it only holds more tokens in the same share.
const smallerCache = "a smaller cache, in 8 bits"

// fraction adds SGLang's share of the card, which is for weights and cache.
func (a *remedies) fraction() {
	if strings.Contains(a.r.Cause, "for the cache of keys") {
		a.offer("none", "a larger share for weights and cache", flag("sglang", "--mem-fraction-static 0.9"))
		a.offer("numerics", smallerCache, flag("sglang", "--kv-cache-dtype fp8_e4m3"))
		return
	}
	a.offer("none", "a smaller share for weights and cache: steps and graphs need room beside it",
		flag("sglang", "--mem-fraction-static 0.75"))
}

// longest puts the length for which vLLM says that its cache has room in the place of one to be chosen.
func (a *remedies) longest() {
	m := estimated.FindStringSubmatch(a.seen())
	for i := range a.out {
		for j, f := range a.out[i].Flags {
			if m != nil && strings.HasPrefix(f.Text, "--max-model-len") {
				a.out[i].Flags[j].Text = "--max-model-len " + m[1]
			}
		}
	}
}

// vllm/v1/core/kv_cache_utils.py
var estimated = rx(`the estimated maximum model length is (\d+)`)

// share adds vLLM's share of the card: more of it for a cache that is too small, less for what is beside it. It
// reports whether nothing else would help: where less is free than vLLM was told to take.
func (a *remedies) share() bool {
	r, own := a.r, "a smaller share of the card for weights and cache: what lies outside it needs room"
	switch {
	case strings.Contains(r.Cause, "for the cache of keys"):
		a.offer("none", "a larger share of the card, if nothing else is on it", flag("vllm", "--gpu-memory-utilization 0.95"))
		// docs/features/quantization/quantized_kvcache.md
		a.offer("numerics", smallerCache, flag("vllm", "--kv-cache-dtype fp8"))
	case strings.Contains(r.Cause, "was free at the start") && r.Free != nil && unit.Value(r.Capacity) > 0:
		percent := 100 * *r.Free / *r.Capacity // rounded down: the share has to be less than what is free
		if 0 < percent && percent < 100 {      // else there is no share to ask for
			a.offer("none", "a share that is free now: other programs hold the rest of the card",
				flag("vllm", fmt.Sprintf("--gpu-memory-utilization 0.%02d", percent)))
		}
		return true
	default:
		a.offer("none", own, flag("vllm", "--gpu-memory-utilization 0.8"))
	}
	return false
}

// A scheduler is what gave a job its memory and ended it: how it is known, with the amount in the group if it is
// printed, and how more is asked for.
type scheduler struct {
	name string
	re   *lazy.Regexp
	of   string                  // the tool
	more func(unit.Bytes) string // its setting for so much
}

func inUnits(format string, size unit.Bytes) func(unit.Bytes) string {
	return func(b unit.Bytes) string {
		if b == 0 {
			return format // N is for the user to choose
		}
		return strings.ReplaceAll(format, "N", fmt.Sprint(int64((b+size-1)/size)))
	}
}

// schedulers: LSF's bsub and its mail of a job's end, PBS's and Torque's server, Grid Engine's execd, Ray's raylet, the
// kubelet, HTCondor's starter, YARN's node manager.
var schedulers = []scheduler{
	{"lsf", rx(`TERM_(?:MEMLIMIT|RUNLIMIT|PREEMPT)\b|Total Requested Memory :\s+(\d[\d.]* ?[KMGT]B)|` +
		`\bLSF memory usage limit|#BSUB\b|\.lsbatch\b`),
		"bsub", inUnits(`-M NMB -R "rusage[mem=NMB]"`, unit.MiB)},
	{"sge", rx(`exceed\w* (?:job )?hard limit "?\w*(?:vmem|rss|_data)"?.*?limit: ?(\d+)|#\$ -l h_vmem|\bh_(?:vmem|rss)\b`),
		"qsub", inUnits("-l h_vmem=NG", unit.GiB)},
	{"pbs", rx(`\b(?:mem|vmem|pmem|pvmem) (?:job total )?\d+ ?\w* exceed\w* (?:resource )?limit (\d+ ?\w*)|#PBS\b|` +
		`job violates resource usage limits|^Job exceeded a memory resource limit|` +
		`^req_information\.total_memory\.\d+=(\d+\w+)|` +
		`\bPBS(?:_Server\b| Job Id\b|: job killed: (?:walltime|cput|ncpus)\b)`), "qsub",
		inUnits("-l select=1:mem=Ngb", unit.GiB)},
	{"ray", rx(`memory usage threshold|killed due to (?:the node running low on )?memory|` +
		`\bray\.exceptions\.OutOfMemoryError|\bRayOutOfMemoryError\b|` +
		`workers? killed by the Ray|\(raylet\)`), "ray", nil},
	{"kubernetes", rx(`\bOOMKilled\b|\bkubelet\b|\bkubepods\b|low on resource: |` +
		`exceeds its request of ([1-9]\d*[KMGT]i)|^\s+memory: +(\d+[KMGT]i)\s*$`), "kubernetes",
		inUnits("resources.limits.memory: NGi", unit.GiB)},
	{"htcondor", rx(`gone over (?:cgroup )?memory limit of (\d+ ?\w+)|\bcondor_\w+|Job was held.*memory|` +
		`\bRequestMemory\b`),
		"condor_submit", inUnits("request_memory = NM", unit.MiB)},
	// docs/configuration.md of Spark; spark.yarn.executor.memoryOverhead before 2.3
	{"yarn", rx(`running beyond \w+ memory limits|exceeding (?:YARN |\w+ )?memory limits`), "spark-submit",
		inUnits("--conf spark.executor.memoryOverhead=Ng", unit.GiB)},
	{"spark", rx(`\bLost executor \d|\bExecutorLostFailure\b|\bspark-kubernetes-executor\b`), "spark-submit",
		inUnits("--conf spark.executor.memoryOverhead=Ng", unit.GiB)},
	{"oomd", rx(`\bsystemd-oomd\b|\bearlyoom\b`), "", nil},
	{"notebook", rx(`tried to allocate more memory than is available|after using all available RAM|\bKernelRestarter\b`),
		"", nil},
	// mm/oom_kill.c, where it was no group's limit that was reached
	{"machine", rx(`\bCONSTRAINT_NONE\b|\bglobal_oom\b|\bOut of memory: Kill(?:ed)? process`), "", nil},
}

// amountUsed is what the kubelet, Torque and Grid Engine print of a job that used too much.
var amountUsed = rx(`\bwas using (\d+[KMG]i)\b|^resources_used\.vmem=(\d+\w+)|^\s*Max vmem\s+= ([\d.]+[KMGT])\b`)

// readScheduler takes the scheduler of a line, and the amount that it gave.
func (c *Clues) readScheduler(text string) {
	if m := amountUsed.FindStringSubmatch(text); m != nil && c.used == "" {
		c.used = m[1] + m[2] + m[3]
	}
	for _, s := range schedulers {
		if c.Scheduler != "" && c.Scheduler != s.name {
			continue
		}
		m := s.re.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		c.Scheduler = s.name
		for _, g := range m[1:] {
			if g != "" && c.Granted == "" {
				c.Granted = g
			}
		}
		return
	}
}

// amount reads what a scheduler printed, of what it gave or of what was used; 0 if it did not.
func amount(s string) unit.Bytes {
	s = strings.ToUpper(strings.ReplaceAll(s, " ", ""))
	if v, ok := printed.ParseSize(s); ok {
		return *printed.Rounded(v)
	}
	return 0
}

// moreOf adds more memory from the scheduler that the text shows; false where it shows none.
func (a *remedies) moreOf() bool {
	switch a.c.Scheduler {
	case "ray":
		a.offer("none", "fewer tasks at a time on a machine: more CPUs for each, or the memory that each needs",
			flag("ray", "@ray.remote(num_cpus=2, memory=8 * 2**30)"))
		if strings.Contains(a.seen(), "RayOutOfMemoryError") {
			return true // of a monitor before Ray 2.0, which had no such threshold
		}
		a.offer("none", "a later end: Ray kills workers before the machine's memory is used up (0.95 of it, unless told "+
			"otherwise)", env("RAY_memory_usage_threshold=0.98"))
		return true
	case "notebook":
		a.offer("none", "a runtime with more memory (Colab's high-RAM, another accelerator of Kaggle's), or less held in "+
			"it: the cells' old variables, deleted", ask("free -h"))
		return true
	case "machine":
		a.offer("none", "a machine with more memory, or fewer programs at a time on this one: its own was used up, and no "+
			"limit of a job", ask("free -h; ps aux --sort=-rss | head"))
		return true
	case "oomd":
		a.offer("none", "who ended it, and at what pressure: a daemon that watches memory, before the kernel does",
			ask("journalctl -u systemd-oomd -u earlyoom"))
		return true
	}
	for _, s := range schedulers {
		if s.name != a.c.Scheduler || s.more == nil {
			continue
		}
		what, more := "more memory for the job than it was given now", unit.Bytes(0)
		had, used := amount(a.c.Granted), amount(a.c.used)
		if had > 0 {
			what, more = fmt.Sprintf("more memory for the job than the %v that it was given", had), had+had/2
		}
		if used > had {
			what, more = what+fmt.Sprintf(": it used %v", used), max(more, used+used/4)
		}
		text := s.more(more)
		if s.name == "pbs" && virtual.MatchString(a.seen()) {
			text = strings.Replace(text, "select=1:mem=", "vmem=", 1)
		}
		a.offer("none", what, flag(s.of, text))
		return true
	}
	return false
}

// virtual is PBS's name for the limit that was reached, where it is that of virtual memory.
var virtual = rx(`\bp?vmem\b`)

// array matches NumPy's message for one array (numpy/_core/_exceptions.py).
var array = rx(`Unable to allocate .{0,24}\ban array with shape|Unable to allocate array with shape`)

// oneArray adds what helps where one array did not fit in host memory; false where it is none.
func (a *remedies) oneArray() bool {
	if !array.MatchString(a.seen()) {
		return false
	}
	a.offer("none", "that array in parts, or memory-mapped: no part of the program needs all of it at once",
		flag("numpy", `numpy.memmap, numpy.load(path, mmap_mode="r")`))
	a.offer("numerics", "a smaller type of its elements: float64 is NumPy's own, float32 half of it, uint8 an eighth")
	return true
}

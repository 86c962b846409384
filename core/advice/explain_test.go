package advice

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// told is all that is said of a report, remedies and what is exact about them in lines of their own.
func told(r oom.Report, c Clues) string {
	lines := Explain(r)
	for _, m := range Remedies(r, c) {
		lines = append(lines, m.Cost+": "+m.What)
		for _, e := range m.Env {
			lines = append(lines, "env "+e)
		}
		for _, f := range m.Flags {
			lines = append(lines, f.Of+" "+f.Text)
		}
		for _, s := range m.Run {
			lines = append(lines, "$ "+s)
		}
	}
	return strings.Join(append(lines, Apart(r, c)), "\n")
}

func TestExplain(t *testing.T) {
	for _, tt := range []struct {
		fixture string
		want    []string // each must be said
		not     string   // must not be
	}{
		{"written/torch26", []string{"out of GPU memory in a forward pass", "] 23.7 GiB",
			"it asked for 512 MiB more, 300 MiB beyond",
			"asked by  unet.py:77 in forward", "seen      output, line 10:", "numerics: half the micro-batch", "use_reentrant"},
			"expandable"},
		{"written/fragmented", []string{"in pieces too small", "env PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
			"(torch 2.2 or later)"},
		{"written/limit", []string{"the limit of 4.00 GiB", "a higher memory fraction", "metrics: validation in tiles"},
			"micro-batch"},
		{"written/torch112", []string{"other processes hold about", "env CUDA_VISIBLE_DEVICES",
			"without the others it would have been met", "o about 8.50 GiB others"}, ""},
		{"written/shm_enospc", []string{"/dev/shm", "docker run --shm-size"}, "file_system"},
		{"written/slurm_oom", []string{"killed for lack of host memory", "sbatch --mem", "$ sacct -j 424242 "},
			"micro-batch"},
		{"written/torchrun_killed", []string{"nothing here confirms it", "weak:", "$ journalctl -k"}, "micro-batch"},
		{"written/slurm_time", []string{"time limit", "sbatch --time"}, "memory"},
		{"written/open_files", []string{"not memory", "$ ulimit -n", `set_sharing_strategy("file_system")`}, ""},
		{"written/goes_on_after_traceback", []string{"the program went on"}, ""},
		{"written/help_text", []string{"nothing in this text"}, "none:"},
		{"written/mps", []string{"] 18.1 GiB allowed", "env PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0",
			"loader workers hold it too"}, "nothing of the card"},
		{"written/npu_one_line", []string{"env PYTORCH_NPU_ALLOC_CONF=expandable_segments:True", `autocast("npu"`}, "CUDA"},
		{"written/fragmented_new_name", []string{"env PYTORCH_ALLOC_CONF=expandable_segments:True"}, "PYTORCH_CUDA"},
		{"written/unified", []string{"loader workers hold it too"}, "nothing of the card"},
		{"written/others_listed", []string{"held by   process 41877 with 30.2 GiB", "one of them may be this program",
			"$ ps -o pid,user,etime,args -p 41877,52310", "other processes hold about"}, ""},
		{"written/warm_up", []string{"vllm --max-num-seqs", "vllm --gpu-memory-utilization 0.8"}, "micro-batch"},
		{"written/in_a_repr", []string{"asked for 12.0 GiB", "QuantileDMatrix"}, "micro-batch"},
		{"written/tpu", []string{"it needs 49.3 GiB in all"}, "asked for"},
		{"written/numpy_shape", []string{"one array of shape (3, 700, 1024, 272) of float32", "asked for 2.18 GiB",
			"numpy.memmap"}, "micro-batch"},
		{"written/lsf_asked", []string{`bsub -M 24576MB -R "rusage[mem=24576MB]"`,
			"the 16.0 GiB that it was given"}, "sbatch"},
		{"written/sge_vmem", []string{"qsub -l h_vmem=12G", "the 8.00 GiB that it was given"}, "sbatch"},
		{"written/pbs_mem", []string{"qsub -l select=1:mem=24gb", "the 16.0 GiB"}, "sbatch"},
		{"written/ray_threshold", []string{"env RAY_memory_usage_threshold", "num_cpus=2"}, "sbatch"},
		{"written/condor_limit", []string{"condor_submit request_memory = 6144M"}, "sbatch"},
		{"written/pod_killed", []string{"kubernetes resources.limits.memory: 24Gi", "the 16.0 GiB"}, "sbatch"},
		{"written/no_kernel_image", []string{"this build has no code for this GPU", "get_arch_list"}, "ECC"},
		{"written/card_lost", []string{"fallen off the bus", "nvidia-smi -q"}, "CUDA_LAUNCH_BLOCKING"},
		{"written/hip", []string{"out of GPU memory"}, "nvidia-smi"},
		{"written/jax", []string{"env XLA_PYTHON_CLIENT_MEM_FRACTION", "jax jax.checkpoint"}, "torch"},
		{"written/ipython", []string{"none: the kernel restarted"}, ""},
		{"written/wsl_bogus", []string{"out of GPU memory"}, "expandable_segments:True"},
		{"written/expandable", []string{"out of GPU memory"}, "expandable_segments:True"},
		{"real/optimizer", []string{"SGD"}, "foreach"},
		{"real/rich_piped", []string{"more than the whole card", "once and went on"}, ""},
		{"real/nan", []string{"no longer a finite number", "speed: the operation"}, ""},
	} {
		t.Run(tt.fixture, func(t *testing.T) {
			d := reading(t, string(kept(t, tt.fixture)))
			r := d.Report(oom.Exit{})
			text := told(r, CluesIn(d.Kept()))
			for _, w := range tt.want {
				if !strings.Contains(text, w) {
					t.Errorf("it does not say %q:\n%s", w, text)
				}
			}
			if tt.not != "" && strings.Contains(text, tt.not) {
				t.Errorf("it says %q:\n%s", tt.not, text)
			}
			for _, l := range Explain(r) {
				if strings.ContainsAny(l, "\n\x1b") {
					t.Errorf("not a line of plain text: %q", l)
				}
			}
		})
	}
}

// kept is a log that core/oom is tested with.
func kept(t *testing.T, name string) []byte {
	t.Helper()
	log, err := os.ReadFile(filepath.Join("..", "oom", "testdata", name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// reading is a detector that has read a text.
func reading(t *testing.T, text string) *oom.Detector {
	t.Helper()
	d, err := oom.NewDetector(job.Signs{})
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(d, text)
	return d
}

// A kill that nobody explains is called weak, and has remedies.
func TestWeakIsExplained(t *testing.T) {
	r := oom.Report{Possible: true, Fatal: true, Kind: oom.HostOOM, Confidence: oom.Weak}
	if got := Explain(r); !strings.Contains(strings.Join(got, " "), "weak") || len(Remedies(r, Clues{})) == 0 {
		t.Errorf("it is not explained: %q", got)
	}
}

func TestExplainNothing(t *testing.T) {
	r := reading(t, "").Report(oom.Exit{})
	if got := Explain(r); len(got) != 1 || len(Remedies(r, Clues{})) != 0 {
		t.Errorf("an empty text is explained as %q, %v", got, Remedies(r, Clues{}))
	}
}

// clued is a failure of torch's allocator that prints more beside it.
const clued = `%s
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    main()
%s
%s: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total %s of 23.69 GiB of which 1.00 GiB is free. Of the allocated memory 15.00 GiB is allocated by PyTorch, and 7.00 GiB is reserved by PyTorch but unallocated.
`

func TestClues(t *testing.T) {
	trainer := `  File "/v/site-packages/transformers/trainer.py", line 2052, in train` + "\n    x()\n" +
		`  File "/v/site-packages/accelerate/accelerator.py", line 2134, in backward` + "\n    y()"
	module := func(line int) string {
		return fmt.Sprintf("  File \"/v/site-packages/torch/nn/modules/module.py\", line %d, in _call_impl\n    return forward_call(*args)", line)
	}
	const refusal, capacity = "torch.OutOfMemoryError", "capacity"
	for name, tt := range map[string]struct {
		text  string
		torch string
		want  []string
		not   []string
	}{
		"the Trainer's own numbers": {fmt.Sprintf(clued,
			"  Instantaneous batch size per device = 8\n  Gradient Accumulation steps = 4", trainer, refusal, capacity),
			"2.5 or later",
			[]string{"transformers --per_device_train_batch_size 4 --gradient_accumulation_steps 8",
				"--gradient_checkpointing", "--bf16"}, []string{"accelerate ", "torch.autocast"}},
		"the Trainer without numbers": {fmt.Sprintf(clued, "", trainer, refusal, capacity), "2.5 or later",
			[]string{"--per_device_train_batch_size (half of it"}, nil},
		"a batch that cannot be halved": {fmt.Sprintf(clued,
			"  Instantaneous batch size per device = 1\n  Gradient Accumulation steps = 4", trainer, refusal, capacity),
			"2.5 or later",
			[]string{"(half of it"}, []string{"batch_size 0"}},
		"lightning": {fmt.Sprintf(clued, "",
			`  File "/v/site-packages/lightning/pytorch/trainer/trainer.py", line 5, in fit`, refusal, capacity),
			"2.5 or later", []string{"accumulate_grad_batches=2", `precision="bf16-mixed"`}, []string{"--bf16"}},
		"deepspeed": {fmt.Sprintf(clued, "",
			`  File "/v/site-packages/deepspeed/runtime/engine.py", line 5, in forward`, refusal, capacity), "2.5 or later",
			[]string{`"zero_optimization"`, "train_micro_batch_size_per_gpu"}, nil},
		"2.1 by its misspelling": {fmt.Sprintf(clued, "", "", "torch.cuda.OutOfMemoryError", "capacty"), "2.1",
			[]string{"max_split_size_mb:128"}, []string{"expandable_segments:True"}},
		"2.4 by a line": {fmt.Sprintf(clued, "", module(1553), "torch.cuda.OutOfMemoryError", capacity), "2.4",
			[]string{"expandable_segments:True"}, []string{"torch 2.2 or later"}},
		"witnesses that contradict": {fmt.Sprintf(clued, "", module(1194), refusal, capacity), "",
			[]string{"expandable_segments:True", "torch 2.2 or later"}, nil},
		"1.7 to nothing newer": {`Traceback (most recent call last):
` + module(727) + `
RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 11.00 GiB total capacity; 5.00 GiB already allocated; 1.00 GiB free; 9.00 GiB reserved in total by PyTorch)`,
			"1.7", []string{"half the micro-batch"}, []string{"expandable", "max_split", "autocast(", "use_reentrant"}},
		"a device that is not CUDA's": {strings.ReplaceAll(fmt.Sprintf(clued, "", "", refusal, capacity), "CUDA out",
			"HIP out"), "2.5 or later", []string{"PYTORCH_HIP_ALLOC_CONF=max_split_size_mb"},
			[]string{"expandable_segments:True"}},
		"a memory error of XLA's": {"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: " +
			"Out of memory while trying to allocate 7406166528 bytes.\n", "",
			[]string{"XLA_PYTHON_CLIENT_MEM_FRACTION"}, []string{"PYTORCH_"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := reading(t, tt.text)
			c := CluesIn(d.Kept())
			if got := c.Torch.String(); got != tt.torch {
				t.Errorf("torch %q, want %q", got, tt.torch)
			}
			text := told(d.Report(oom.Exit{}), c)
			for _, w := range tt.want {
				if !strings.Contains(text, w) {
					t.Errorf("it does not say %q:\n%s", w, text)
				}
			}
			for _, n := range tt.not {
				if strings.Contains(text, n) {
					t.Errorf("it says %q:\n%s", n, text)
				}
			}
		})
	}
}

// A setting of torch's is named where torch is shown to be what failed.
func TestNoTorchNoSetting(t *testing.T) {
	if text := told(oom.Report{OOM: true, Fatal: true, Kind: oom.GPUFragmentation, Phase: oom.TrainForward},
		Clues{}); strings.Contains(text, "PYTORCH") || strings.Contains(text, "torch.") {
		t.Errorf("nothing shows torch:\n%s", text)
	}
}

func TestSlurmClues(t *testing.T) {
	for text, want := range map[string][2]string{
		"slurmstepd: error: Detected 1 oom_kill event in StepId=424242.0. Some of the step tasks have been OOM Killed.": {"424242", "0"},
		"slurmstepd: error: Detected 1 oom-kill event(s) in step 77.batch cgroup.":                                      {"77", "batch"},
		"slurmstepd: error: *** JOB 4711 ON gpu-3 CANCELLED AT 2024-05-01T10:00:00 DUE TO TIME LIMIT ***":               {"4711", ""},
		"slurmstepd: error: *** STEP 4711.3 ON gpu-3 CANCELLED AT 2024-05-01T10:00:00 DUE TO PREEMPTION ***":            {"4711", "3"},
	} {
		d := reading(t, text+"\n")
		if c := CluesIn(d.Kept()); c.Slurm != want[0] || c.Step != want[1] {
			t.Errorf("%s: job %q step %q", text, c.Slurm, c.Step)
		}
	}
}

// Who saw it stands beside what was seen, and what speaks against it says so; whose memory it is that others hold.
func TestExplainWitnesses(t *testing.T) {
	b := func(n unit.Bytes) *unit.Bytes { return &n }
	r := oom.Report{OOM: true, Fatal: true, Kind: oom.GPUContention, Phase: oom.TrainForward, Cause: "out of GPU memory",
		Confidence: oom.Certain,
		Numbers: oom.Numbers{Requested: b(2 * unit.GiB), Capacity: b(24 * unit.GiB), Allocated: b(4 * unit.GiB),
			Reserved: b(5 * unit.GiB), Free: b(unit.GiB)},
		HeldBy: []oom.Holder{{PID: 31, Bytes: 17 * unit.GiB, Name: "python", User: "ada"}},
		Evidence: []oom.Evidence{{From: oom.Output, Line: oom.Line{Stream: oom.Terminal, Number: 7,
			Text: "CUDA out of memory"}, For: oom.GPUUnspecified}, {From: oom.OnCard,
			Line: oom.Line{Text: "others held 17.0 GiB"}, For: oom.GPUContention},
			{From: oom.Kernel, Line: oom.Line{Text: "1 killed"}, For: oom.HostOOM}, {From: oom.OnHost,
				Line: oom.Line{Text: "plenty left"}, For: oom.NoMemory}, {From: oom.Witness, Line: oom.Line{Text: "refused"}}}}
	text := strings.Join(Explain(r), "\n")
	for _, w := range []string{"held by   python (pid 31, ada) with 17.0 GiB", "output, line 7: CUDA",
		"the card: others", "the kernel: 1 killed",
		"host memory, against it: plenty", "inside the program: refused", "o about 17.0 GiB others",
		"without the others it would have been met"} {
		if !strings.Contains(text, w) {
			t.Errorf("it does not say %q:\n%s", w, text)
		}
	}
	if fits, known := FitsAlone(r); !fits || !known {
		t.Error("2 GiB would not fit beside 6 of 24")
	}
	r.Requested = b(20 * unit.GiB)
	if fits, known := FitsAlone(r); fits || !known {
		t.Error("20 GiB would fit beside 6 of 24")
	}
	if text := told(r, Clues{}); !strings.Contains(text, "would not have been enough") {
		t.Errorf("it does not say that the card alone is too small:\n%s", text)
	}
}

// A request beyond the whole card bounds the micro-batch.
func TestSmallerThanTheCard(t *testing.T) {
	b := func(n unit.Bytes) *unit.Bytes { return &n }
	r := oom.Report{OOM: true, Fatal: true, Kind: oom.GPUCapacity, Phase: oom.TrainForward,
		Numbers: oom.Numbers{Requested: b(50 * unit.GiB), Capacity: b(12 * unit.GiB)}}
	if text := told(r, Clues{Uses: []string{ofTransformers}, MicroBatch: 16, Accumulation: 1}); !strings.Contains(text,
		"1/8 of the micro-batch, 8 times the accumulation") ||
		!strings.Contains(text, "--per_device_train_batch_size 2 --gradient_accumulation_steps 8") {
		t.Errorf("50 GiB of 12:\n%s", text)
	}
}

const (
	began   = "Traceback (most recent call last):\n"
	refused = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 10.76 GiB total capacity; 8.90 " +
		"GiB already allocated; " +
		"1.11 GiB free; 9.10 GiB reserved in total by PyTorch)\n"
	inMain  = "  File \"/home/u/prog.py\", line 9, in main\n    work()\n"
	library = "/home/u/v/lib/python3.11/site-packages/"
)

// call is a frame of a traceback with its source line.
func call(path, name, source string) string {
	return "  File \"" + path + "\", line 7, in " + name + "\n    " + source + "\n"
}

// TestOtherLimits: limits that are not of memory, or not of the card's.
func TestOtherLimits(t *testing.T) {
	advised := func(text string) (r oom.Report, all string) {
		d := reading(t, text)
		r = d.Report(oom.Exit{})
		b, _ := json.Marshal(Remedies(r, CluesIn(d.Kept())))
		return r, string(b)
	}
	for _, tt := range []struct {
		name, text  string
		kind        oom.Kind
		has, hasnot string
	}{
		{"much is free", began + inMain + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB. " +
			"GPU 0 has a total capacity of 268.58 GiB of which 203.25 GiB is free. " +
			"Of the allocated memory 60.00 GiB is allocated by PyTorch, and 20.00 MiB is reserved by PyTorch but " +
			"unallocated.\n", oom.GPUUnspecified, "vm.max_map_count", "micro-batch"},
		{"much is free on Windows", "[2026-03-04] [INFO] " + began +
			"[2026-03-04] [INFO] File \"D:\\u\\fit.py\", line 7, in " +
			"<module>\n[2026-03-04] [INFO] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB. " +
			"GPU 0 has a total capacity of 24.00 GiB of which 9.25 GiB is free. " +
			"Of the allocated memory 12.00 GiB is allocated by PyTorch, and 20.00 MiB is reserved by PyTorch but " +
			"unallocated.\n", oom.GPUUnspecified, "larger paging file", "ulimit"},
		{"maps", began + inMain + "RuntimeError: unable to mmap 1024 bytes from file </torch_123_456_789>: Cannot " +
			"allocate memory (12)\n", oom.NoMemory, "sudo sysctl vm.max_map_count", "ulimit"},
		{"a large map", began + inMain + "RuntimeError: unable to mmap 3000000000 bytes from file " +
			"</torch_123_456_789>: Cannot allocate memory (12)\n", oom.CPUAlloc, "ulimit", "max_map_count"},
		{"Windows", began + inMain + "OSError: [WinError 1455] The paging file is too small for this operation to " +
			"complete.\n", oom.CPUAlloc, "larger paging file", "ulimit"},
		{"a barrier", began + call(library+"torch/distributed/distributed_c10d.py", "barrier",
			"work = default_pg.barrier(opts=opts)") + "RuntimeError: CUDA error: out of memory\n",
			oom.GPUUnspecified, "set_device", "micro-batch"},
		{"ranks on one card", began + inMain + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 " +
			"GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free. " +
			"Process 11 has 500.00 MiB memory in use. Process 12 has 500.00 MiB memory in use. Process 13 has 502.00 MiB " +
			"memory in use. Including non-PyTorch memory, this process has 76.00 GiB memory in use. " +
			"Of the allocated memory 74.00 GiB is allocated by PyTorch, and 20.00 MiB is reserved by PyTorch but " +
			"unallocated.\n", oom.GPUCapacity, "set_device", "nothing at all can be taken"},
		{"nothing allocated", began + inMain + "RuntimeError: CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; " +
			"10.76 GiB total capacity; 0 bytes already allocated; 1.00 MiB free; 0 bytes reserved in total by PyTorch)\n",
			oom.GPUContention, "nvidia-smi", "micro-batch"},
		{"a gathered state", began + call("/home/u/prog.py", "safe_save_model_for_hf_trainer", "state = model.state_dict()") +
			call(library+"torch/distributed/fsdp/_state_dict_utils.py", "_full_post_state_dict_hook", "x.clone()") +
			refused, oom.GPUCapacity, "offload_to_cpu", "micro-batch"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, all := advised(tt.text)
			if r.Kind != tt.kind || !r.Fatal || !strings.Contains(all, tt.has) || strings.Contains(all, tt.hasnot) {
				t.Errorf("%s, fatal %v, %s; remedies %s; want %q, not %q", r.Kind, r.Fatal, r.Cause, all, tt.has, tt.hasnot)
			}
		})
	}
	if r, _ := advised(began + inMain + "RuntimeError: unable to mmap 1024 bytes from file </torch_1>: Cannot " +
		"allocate memory (12)\n"); r.NotMemory != "map_count" || r.OOM {
		t.Errorf("maps: %+v", r)
	}
}

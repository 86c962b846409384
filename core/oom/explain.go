package oom

import (
	"fmt"
	"strings"

	"github.com/launch-ml/launch/core/unit"
)

// barWidth is the width of the bar, in columns.
const barWidth = 50

// Explain says a report to a person, in lines of plain text: the cause, the numbers as a bar, who asked, and what would
// have helped, the cheapest first.
func (r Report) Explain() []string {
	if !r.OOM && !r.Fatal {
		return []string{"nothing in this text says that a program failed"}
	}
	out := []string{r.Cause}
	out = append(out, r.bar()...)
	if r.Frame != "" {
		out = append(out, "", "at       "+r.Frame)
	} else {
		out = append(out, "")
	}
	for i, e := range r.Evidence {
		word := "evidence"
		if i > 0 {
			word = "        "
		}
		where := fmt.Sprintf("line %d", e.Number)
		if e.Stream != "" && e.Stream != Terminal {
			where = e.Stream + " " + where
		}
		out = append(out, fmt.Sprintf("%s %s: %s", word, where, shorten(e.Text, 160)))
	}
	switch r.Confidence {
	case Likely:
		out = append(out, "         the usual meaning of these words, though they have others")
	case Weak:
		out = append(out, "         weak: the kernel's log (dmesg, journalctl -k) or the scheduler's would say who killed it")
	}
	if r.Survived > 0 && r.Fatal {
		out = append(out, fmt.Sprintf("         before that it ran out of memory %s and went on", times(r.Survived)))
	}
	help := r.help()
	if len(help) > 0 {
		out = append(out, "", "what would have helped, the cheapest first:")
		for i, h := range help {
			out = append(out, fmt.Sprintf("  %d. %s", i+1, h))
		}
	}
	if apart := r.apart(); apart != "" {
		out = append(out, "", apart)
	}
	return out
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// bar draws what the card held: allocated, reserved beyond that, others, free.
func (r Report) bar() []string {
	if r.Capacity == nil || *r.Capacity <= 0 {
		return nil
	}
	total := *r.Capacity
	allocated := min(value(r.Allocated), total)
	slack := min(max(0, value(r.Reserved)-allocated), total-allocated)
	free := min(value(r.Free), total-allocated-slack)
	rest := total - allocated - slack - free
	parts := []struct {
		mark string
		n    unit.Bytes
		what string
	}{
		{"#", allocated, "allocated"},
		{"+", slack, "reserved, not allocated"},
		{"o", rest, "others, and what is outside PyTorch"},
		{".", free, "free"},
	}
	var bar, legend strings.Builder
	drawn, sum := 0, unit.Bytes(0)
	for _, p := range parts {
		sum += p.n
		end := int(float64(sum)/float64(total)*barWidth + 0.5)
		bar.WriteString(strings.Repeat(p.mark, max(0, end-drawn)))
		drawn = max(drawn, end)
		if p.n > 0 {
			fmt.Fprintf(&legend, "  %s %s %v", p.mark, p.what, p.n)
		}
	}
	out := []string{"", fmt.Sprintf("  [%s] %v", bar.String(), total), " " + legend.String()}
	if r.Requested != nil {
		short := ""
		if r.Free != nil && *r.Requested > *r.Free {
			short = fmt.Sprintf("; short of it by at least %v", *r.Requested-*r.Free)
		}
		out = append(out, fmt.Sprintf("  asked for %v more%s", *r.Requested, short))
	}
	if r.Allowed != nil {
		out = append(out, fmt.Sprintf("  of which this process may take %v", *r.Allowed))
	}
	return out
}

// help lists remedies. A flag is named only where it is the same in every program.
func (r Report) help() []string {
	if !r.OOM {
		return otherHelp[r.NotMemory]
	}
	switch r.Kind {
	case SharedMemory:
		return []string{
			"more shared memory for the container: docker run --shm-size=8g, or --ipc=host; in Kubernetes an emptyDir with " +
				"medium: Memory on /dev/shm",
			"fewer loader workers, a smaller prefetch factor (num_workers, prefetch_factor)",
			`torch.multiprocessing.set_sharing_strategy("file_system"), which needs no /dev/shm but leaves files if killed`,
		}
	case HostOOM:
		return []string{
			"fewer loader workers, a smaller prefetch factor, no pinned memory (num_workers, prefetch_factor, pin_memory)",
			"persistent_workers off, if memory grows from epoch to epoch; data that is read, not held (memory-mapped files)",
			"more memory for the job: --mem of the scheduler, the container's limit",
		}
	case CPUAlloc:
		help := []string{"a higher limit, if one is set (ulimit -d, ulimit -v, the container's)"}
		if r.Phase == Data {
			return append(help, "arrays that are read in parts or memory-mapped, or of a smaller type",
				"fewer loader workers, each of which holds its own copy")
		}
		return append(r.smaller(help), "a machine with more memory")
	case GPUContention:
		return append(r.smaller([]string{
			"the card to itself: nvidia-smi shows who else is on it; another card by CUDA_VISIBLE_DEVICES",
		}), "a fixed share of the card for each program, so that neither surprises the other")
	}
	return r.smaller(r.allocator())
}

// apart says which remedies are none, because they are of another room: what people try first against either.
func (r Report) apart() string {
	switch {
	case !r.OOM:
		return ""
	case r.Kind == HostOOM || r.Kind == SharedMemory:
		return "settings of the card (activation checkpointing, mixed precision, tiles) give back nothing of the host's memory"
	case strings.HasPrefix(string(r.Kind), "gpu_"):
		return "loader workers, prefetch and pinned memory are host memory: fewer of them give back nothing of the card"
	}
	return ""
}

// allocator is the rung that costs nothing. Expandable segments are named only as far as is known to be safe: on Linux,
// natively, from torch 2.2 on, and not where tensors are shared between processes (pytorch#165685).
func (r Report) allocator() []string {
	const setting = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (torch 2.2 or later on native Linux; not on WSL or " +
		"Jetson, " +
		"not where CUDA tensors are shared between processes)"
	switch {
	case r.Limit && r.Allowed != nil:
		return []string{"a higher memory fraction: the card has room that this process may not take"}
	case r.Kind == GPUFragmentation:
		return []string{setting + ": this is what it is for",
			"PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128 where that is not possible; it may itself raise the usage"}
	case r.Reserved != nil && r.Allocated != nil && r.Requested != nil && *r.Reserved-*r.Allocated >= *r.Requested:
		return []string{setting + "; it may buy a little: what is reserved would just have served"}
	}
	return nil
}

// smaller adds what makes a phase need less, in the order of DESIGN's costs: time, rounding, metrics, the recipe.
func (r Report) smaller(help []string) []string {
	switch r.Phase {
	case Validation:
		return append(help, "validation without gradients (torch.no_grad or inference_mode), if it keeps them",
			"a validation batch of 1; the training batch has no part in it",
			"validation in tiles or on smaller pieces: the model is the same, its validation figures are not comparable")
	case Optimizer:
		return append(help, "the optimizer with foreach=False or fused=True: the same mathematics, less working memory",
			"states that are sharded or offloaded (ZeRO, FSDP), or of 8 bits: the first step makes them, so a smaller batch "+
				"helps only as far as its gradients' activations are still held")
	case Build:
		return append(help, "weights loaded in the precision they are used in, and on the CPU first (map_location)",
			"a model that is sharded over cards or offloaded; no batch is in play yet, so its size is no remedy")
	case Checkpoint:
		return append(help, `torch.load(…, map_location="cpu"): a state that is loaded onto the card is there twice`,
			"the state saved from a copy on the CPU")
	case Data:
		return append(help, "batches moved to the GPU one at a time, no prefetching onto it")
	}
	return append(help, "a micro-batch of half the size with twice the accumulation: the same global batch, more time",
		"activation checkpointing: the same mathematics, about a third more time",
		"bf16 or fp16 autocast, where it is off: other rounding",
		"a smaller crop, sequence or resolution: another experiment")
}

// otherHelp is for what only looks like an out-of-memory.
var otherHelp = map[string][]string{
	"device_assert": {"CUDA_LAUNCH_BLOCKING=1, or a run on the CPU, shows the line: an index or a label is out of range"},
	"open_files": {"ulimit -n 65536",
		`torch.multiprocessing.set_sharing_strategy("file_system"), or fewer loader workers`},
	"disk_full":        {"room on the disk or in the quota: df -h, df -i, quota; older saved states may go"},
	"kernel_resources": {"smaller blocks or fewer stages of that kernel, or the plain implementation; not a smaller batch"},
	"time_limit":       {"a longer --time, or a resume from the last saved state"},
	"preempted":        {"a resume from the last saved state"},
	"nvml":             {"the driver and its library agree again (nvidia-smi works), or expandable_segments off"},
	"nccl":             {"the first rank that failed says why: its own log, or NCCL_DEBUG=INFO"},
	"nan":              {"a smaller learning rate, gradient clipping, bf16 in place of fp16"},
}

package oom

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/oom/printed"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/unit"
)

const (
	cublas  = "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`\n"
	engine  = "RuntimeError: Unable to find a valid cuDNN algorithm to run convolution\n"
	byShell = "bash: line 1: 77 Killed python\n"
)

// TestWeigh: what was seen beside the text decides where words have several meanings, and only there.
func TestWeigh(t *testing.T) {
	gib := unit.GiB
	card := func(free, others unit.Bytes) *Card {
		return &Card{Capacity: 24 * gib, Free: free, Others: others, Peak: 24*gib - free - others, Looks: 10,
			Who: []Holder{{PID: 77, Bytes: others, Name: "python3", User: "ada"}}}
	}
	lost := func(looks int) *Card {
		return &Card{Capacity: 24 * gib, Free: gib / 8, Looks: looks, Fault: "GPU is lost", Mend: "a reboot"}
	}
	stack := []Frame{{"train.py", 9, "main"}, {"/usr/lib/python3/dist-packages/torch/_tensor.py", 488, "backward"},
		{"/usr/lib/python3/dist-packages/torch/autograd/__init__.py", 204, "backward"}}
	refusal := Refusal{PID: 5, Before: time.Second, Frames: stack,
		Numbers: printed.Numbers{Requested: new(gib), Capacity: new(24 * gib), Allocated: new(22 * gib),
			Reserved: new(23 * gib), Free: new(gib / 2)}}
	inside := func(failure *Failure, before time.Duration) *Inside {
		r := refusal
		r.Before = before
		return &Inside{Refused: []Refusal{r}, Count: 3, Failure: failure}
	}
	for _, tt := range []struct {
		name   string
		output string
		seen   Seen
		want   Ending
		kind   Kind
		sure   Confidence
		has    string // the cause, or the last evidence
	}{
		{"cuBLAS, nobody looked", traceback + cublas, Seen{Exit: Exited(1)}, OutOfMemory, GPUUnspecified, Likely, ""},
		{"cuBLAS on a full card", traceback + cublas, Seen{Exit: Exited(1), Card: card(gib/8, 0)}, OutOfMemory, GPUCapacity, Certain, ""},
		{"cuBLAS on a card with room", traceback + cublas, Seen{Exit: Exited(1), Card: card(12*gib, 0)}, Failed, NoMemory, Likely, "a card with room"},
		{"cuBLAS, between the two", traceback + cublas, Seen{Exit: Exited(1), Card: card(11*gib/2, 0)}, OutOfMemory, GPUCapacity, Likely, ""},
		{"cuBLAS, too few looks for room", traceback + cublas, Seen{Exit: Exited(1), Card: &Card{Capacity: 24 * gib, Free: 20 * gib, Looks: 2}}, OutOfMemory, GPUCapacity, Likely, ""},
		{"cuDNN's engine, nobody looked", traceback + engine, Seen{Exit: Exited(1)}, Failed, NoMemory, Likely, "the usual face of a full card"},
		{"cuDNN's engine on a full card", traceback + engine, Seen{Exit: Exited(1), Card: card(gib/8, 0)}, OutOfMemory, GPUCapacity, Likely, "workspace"},
		{"cuDNN's engine on a card with room", traceback + engine, Seen{Exit: Exited(1), Card: card(9*gib, 0)}, Failed, NoMemory, Likely, ""},
		{"the allocator's words on a card with room", traceback + message, Seen{Exit: Exited(1), Card: card(12*gib, 0)}, OutOfMemory, GPUCapacity, Certain, ""},
		{"the allocator's words, and others on the card", traceback + message, Seen{Exit: Exited(1), Card: card(0, 9*gib)}, OutOfMemory, GPUContention, Certain,
			"others hold the card: python3 (pid 77, ada) with 9.00 GiB"},
		{"others on the card, and nobody can tell who", traceback + message, Seen{Exit: Exited(1), Card: &Card{Capacity: 24 * gib, Others: 9 * gib, Looks: 10}}, OutOfMemory, GPUContention,
			Certain, "others held 9.00 GiB of 24.0 GiB before the job began"},
		{"more than the card, and others on it", traceback + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 128.00 GiB. GPU 0 has a total capacity of " +
			"24.00 GiB of which 10.00 GiB is free.\n", Seen{Exit: Exited(1), Card: card(gib, 9*gib)}, OutOfMemory, GPUCapacity, Certain, "more than the whole card"},
		{"a success, whatever was seen", cublas, Seen{Exit: Exited(0), Card: card(0, 9*gib), Inside: inside(nil, time.Second)}, Succeeded, GPUUnspecified, Likely, ""},

		{"the card is gone, and its library has no workspace", traceback + cublas, Seen{Exit: Exited(1), Card: lost(10)},
			Failed, NoMemory, Certain, "(GPU is lost): a reboot"},
		{"the card was gone before the first look", traceback + "RuntimeError: CUDA error: out of memory\n",
			Seen{Exit: Exited(1), Card: lost(0)}, Failed, NoMemory, Certain, "GPU is lost"},
		{"the card is gone, and nothing was said", "step 1\n", Seen{Exit: Killed(6), Card: lost(10)}, Failed, NoMemory,
			Certain, "GPU is lost"},
		{"the card is gone after the allocator's own numbers", traceback + message, Seen{Exit: Exited(1), Card: lost(10)},
			OutOfMemory, GPUCapacity, Certain, ""},
		{"the card is gone, and the program's own error stands there", traceback + "KeyError: 'x'\n",
			Seen{Exit: Exited(1), Card: lost(10)}, Failed, NoMemory, Likely, "KeyError"},
		{"the card is gone at the end of a success", "done\n", Seen{Exit: Exited(0), Card: lost(10)}, Succeeded, NoMemory,
			"", ""},

		{"kill -9, an empty host", "step 1\n", Seen{Exit: Killed(9), Host: &Host{Room: 16 * gib, Least: gib / 8, Looks: 9, By: "the memory limit of cgroup /job"}},
			OutOfMemory, HostOOM, Likely, "cgroup /job"},
		{"kill -9, a host with room", "step 1\n", Seen{Exit: Killed(9), Host: &Host{Room: 16 * gib, Least: gib, Looks: 9}}, Failed, NoMemory, "", "sender unknown"},
		{"a worker killed, by its shell", "step 1\n" + byShell, Seen{Exit: Exited(137), Host: &Host{Room: 16 * gib, Least: 0, Looks: 9}}, OutOfMemory, HostOOM, Likely, "used up"},
		{"an exception on an empty host", traceback + "KeyError: 'x'\n", Seen{Exit: Exited(1), Host: &Host{Room: 16 * gib, Least: 0, Looks: 9}}, Failed, NoMemory, Likely, "KeyError"},
		{"the kernel counts, and an exception stands there", traceback + "KeyError: 'x'\n", Seen{Exit: Exit{Known: true, Code: 1, OOMKills: 1}}, Failed, NoMemory, Likely, "KeyError"},
		{"the kernel counts, and nothing was said", "step 1\n", Seen{Exit: Exit{Known: true, Code: 1, OOMKills: 1}}, OutOfMemory, HostOOM, Certain, "by its own count"},

		{"a fault near the limit", "step 1\n", Seen{Exit: Killed(11), Limit: gib, Resident: gib * 9 / 10},
			OutOfMemory, CPUAlloc, Likely, "code that does not check or report"},
		{"C code that says nothing, near the limit", traceback + "SystemError: error return without exception set\n", Seen{Exit: Exited(1), Limit: gib, Resident: gib * 9 / 10},
			OutOfMemory, CPUAlloc, Likely, "under a limit of 1.00 GiB"},
		{"C code that says nothing, far from it", traceback + "SystemError: error return without exception set\n", Seen{Exit: Exited(1), Limit: gib, Resident: gib / 2},
			Failed, NoMemory, Likely, "SystemError"},
		{"oneDNN near the limit", traceback + "RuntimeError: could not create a primitive\n",
			Seen{Exit: Exited(1), Limit: gib, Resident: gib / 2, Data: gib * 19 / 20}, OutOfMemory, CPUAlloc, Likely,
			"973 MiB in use"},
		{"oneDNN far from it", traceback + "RuntimeError: could not create a primitive\n",
			Seen{Exit: Exited(1), Limit: gib, Resident: gib / 2, Data: gib / 2}, Failed, NoMemory, Likely, "could not create"},
		{"a fault far from the limit", "step 1\n", Seen{Exit: Killed(11), Limit: gib, Resident: gib / 2}, Failed, NoMemory, "", "killed by signal 11"},
		{"a fault without a limit", "step 1\n", Seen{Exit: Killed(11), Resident: gib}, Failed, NoMemory, "", "killed by signal 11"},
		{"an order near the limit", "step 1\n", Seen{Exit: Killed(15), Limit: gib, Resident: gib}, Failed, NoMemory, "", "SIGTERM"},
		{"bad_alloc near the limit", "terminate called after throwing an instance of 'std::bad_alloc'\n", Seen{Exit: Killed(6), Limit: gib, Resident: gib}, OutOfMemory, CPUAlloc, Certain, "out of host memory"},

		{"the program hid it", "something went wrong\n", Seen{Exit: Exited(1), Inside: inside(nil, time.Second)}, OutOfMemory, GPUCapacity, Certain, "in the backward pass: asked for 1.00 GiB"},
		{"it died of it, by its own exception", "", Seen{Exit: Exited(1), Inside: inside(&Failure{PID: 5, Before: time.Second, Type: "torch.OutOfMemoryError"}, time.Second)}, OutOfMemory, GPUCapacity, Certain, ""},
		{"it died of something else", traceback + "KeyError: 'x'\n", Seen{Exit: Exited(1), Inside: inside(&Failure{PID: 5, Before: time.Second, Type: "KeyError"}, 2*time.Second)}, Failed, NoMemory, Likely, "KeyError"},
		{"another process died", traceback + "KeyError: 'x'\n", Seen{Exit: Exited(1), Inside: inside(&Failure{PID: 6, Before: time.Second, Type: "RuntimeError"}, 2*time.Second)}, Failed, NoMemory, Likely, "KeyError"},
		{"a rank died of it, and its parent says so", "", Seen{Exit: Exited(1), Inside: inside(&Failure{PID: 6, Type: "torch.multiprocessing.spawn.ProcessRaisedException"}, time.Second)}, OutOfMemory, GPUCapacity, Certain, ""},
		{"it was met long ago", traceback + "KeyError: 'x'\n", Seen{Exit: Exited(1), Inside: inside(nil, time.Hour)}, Failed, NoMemory, Likely, "KeyError"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDetector(t, job.Signs{})
			write(t, d, Terminal, tt.output)
			v := d.Judge(tt.seen, job.Signs{})
			if v.Ending != tt.want || v.Report.Kind != tt.kind || v.Report.Confidence != tt.sure {
				t.Errorf("judged %q, %s, %s; want %q, %s, %s\ncause: %s", v.Ending, v.Report.Kind, v.Report.Confidence, tt.want, tt.kind, tt.sure, v.Cause)
			}
			said := v.Cause
			for _, e := range v.Report.Evidence {
				said += "\n" + e.Text
			}
			if !strings.Contains(said, tt.has) {
				t.Errorf("it says %q, not %q", said, tt.has)
			}
			if v.Retry != (tt.want == OutOfMemory) {
				t.Errorf("retry is %v: %s", v.Retry, v.Why)
			}
			var again Report
			if b, err := json.Marshal(v.Report); err != nil || json.Unmarshal(b, &again) != nil || len(again.HeldBy) != len(v.Report.HeldBy) || again.Evidence == nil && v.Report.Evidence != nil {
				t.Errorf("the report does not survive JSON: %s", b)
			}
		})
	}
}

// TestInside: what the hook saw is believed over the text about where and how much, and counts what was survived.
func TestInside(t *testing.T) {
	frames := []Frame{{"train.py", 9, "main"}, {"validate.py", 3, "validate"}, {"/usr/lib/python3/dist-packages/torch/nn/modules/conv.py", 460, "forward"}}
	in := &Inside{Count: 4, Refused: []Refusal{{PID: 1, Before: time.Second, Frames: frames,
		Numbers: printed.Numbers{Requested: new(unit.GiB), Allocated: new(3 * unit.GiB)}}}}
	v := Report{Kind: NoMemory, Phase: Unknown, Stage: "training"}.Judge(Seen{Exit: Exited(1), Inside: in}, job.Signs{}, State{})
	r := v.Report
	if r.Phase != Validation || r.Stage != "validation" || r.Frame != "validate.py:3 in validate" || r.Survived != 3 || r.Needs != 4*unit.GiB {
		t.Errorf("phase %s, stage %s, frame %q, survived %d, needs %v", r.Phase, r.Stage, r.Frame, r.Survived, r.Needs)
	}
	if v := (Report{Kind: NoMemory}).Judge(Seen{Exit: Exited(0), Inside: in}, job.Signs{}, State{}); v.Report.Survived != 4 || v.Ending != Succeeded {
		t.Errorf("a success survived %d: %s", v.Report.Survived, v.Ending)
	}
}

package oom

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
)

const message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 11.63 GiB of which " +
	"1.00 GiB is free. Including non-PyTorch memory, this process has 10.51 GiB memory in use. Of the allocated memory 9.90 GiB is " +
	"allocated by PyTorch, and 240.00 MiB is reserved by PyTorch but unallocated.\n"

const validationTrace = "Traceback (most recent call last):\n  File \"train.py\", line 441, in train_pipeline\n" +
	"  File \"models/sr_model.py\", line 907, in nondist_validation\n  File \"models/arch.py\", line 436, in forward\n"

func TestJudge(t *testing.T) {
	none := job.Signs{}
	counted := job.Signs{MustSucceed: true, Lines: []job.Sign{{Kind: job.Progress, Pattern: `step (?P<iteration>\d+)/(?P<total>\d+)`}, {Kind: job.Succeeded, Pattern: `Training completed`}}}
	const meter = `Epoch \[\d+\]\[(?P<iteration>\d+)/`
	meters := job.Signs{MustSucceed: true, Lines: []job.Sign{{Kind: job.Progress, Pattern: meter}, {Kind: job.Succeeded, Pattern: meter}}}
	interruptedCode := job.Signs{Codes: map[int]string{42: "interrupted"}}
	for _, tt := range []struct {
		name   string
		signs  job.Signs
		output string
		exit   Exit
		want   Ending
		retry  bool
		kind   Kind
		stage  string
	}{
		{"success", none, "step 1 loss 1\n", Exited(0), Succeeded, false, NoMemory, "unknown"},
		{"it prints the message and succeeds", none, message, Exited(0), Succeeded, false, GPUCapacity, "unknown"},
		{"it logs a traceback and succeeds", none, traceback + message, Exited(0), Succeeded, false, GPUCapacity, "training"},
		{"out of memory", none, traceback + message, Exited(1), OutOfMemory, true, GPUCapacity, "training"},
		{"caught, and then exit 1", none, "error: " + message, Exited(1), OutOfMemory, true, GPUCapacity, "unknown"},
		{"another exception", none, traceback + "KeyError: 'x'\n", Exited(1), Failed, false, NoMemory, "training"},
		{"no word", none, "", Exited(3), Failed, false, NoMemory, "unknown"},
		{"Ctrl-C", none, traceback + "KeyboardInterrupt\n", Killed(2), Interrupted, false, NoMemory, "training"},
		{"Ctrl-C, exit 130", none, "", Exited(130), Interrupted, false, NoMemory, "unknown"},
		{"asked, and exit 0", none, "", Exit{Known: true, Asked: true}, Interrupted, false, NoMemory, "unknown"},
		{"a plugin's code", interruptedCode, "", Exited(42), Interrupted, false, NoMemory, "unknown"},
		{"SIGTERM", none, "", Killed(15), Failed, false, NoMemory, "unknown"},
		{"kill -9 by anybody", none, "step 1 loss 1\n", Killed(9), Failed, false, NoMemory, "unknown"},
		{"kill -9, bash says so", none, "bash: line 1: 77 Killed python\n", Exited(137), Failed, false, HostOOM, "unknown"},
		{"kill -9 by the kernel", none, "", Exit{Known: true, Signal: 9, OOMKills: 1}, OutOfMemory, true, HostOOM, "unknown"},
		{"DDP: the launcher dies of it", none, traceback + message, Killed(9), OutOfMemory, true, GPUCapacity, "training"},
		{"full disk", none, traceback + "OSError: [Errno 28] No space left on device\n", Exited(1), Failed, false, NoMemory, "training"},

		{"an out-of-memory swallowed before the first step", counted, traceback + message + "Training completed\n", Exited(0), OutOfMemory, true, GPUCapacity, "training"},
		{"the same with a bar at 0", counted, "step 0/9\n" + traceback + message + "Training completed\n", Exited(0), OutOfMemory, true, GPUCapacity, "training"},
		{"survived, and then it trained", counted, traceback + message + "step 1/9\nTraining completed\n", Exited(0), Succeeded, false, GPUCapacity, "training"},
		{"no step was reported, and nothing went wrong", counted, "Training completed\n", Exited(0), Succeeded, false, NoMemory, "unknown"},
		{"success is a report of progress", meters, "caught: " + message + "Epoch [0][0/9]\n", Exited(0), Succeeded, false, GPUCapacity, "unknown"},

		{"it exits 0 after a replaced message", trainer, trainingLog + "ERROR: Ran out of VRAM during training.\nINFO: Training stopped.\n",
			Exited(0), OutOfMemory, true, GPUUnspecified, "training"},
		{"it exits 0 after a raw one in validation", trainer, trainingLog + validationTrace + message + "INFO: Training stopped.\n",
			Exited(0), OutOfMemory, true, GPUCapacity, "validation"},
		{"it exits 0 and never says that it succeeded", trainer, trainingLog, Exited(0), Failed, false, NoMemory, "training"},
		{"it exits 0 and succeeded", trainer, trainingLog + "INFO: End of training. Time consumed: 1\n", Exited(0), Succeeded, false, NoMemory, "unknown"},
		{"it recovered by itself, and succeeded", trainer, trainingLog + "ERROR: Ran out of VRAM during training.\nINFO: OOM Recovery successful.\n" +
			"INFO: End of training.\n", Exited(0), Succeeded, false, GPUUnspecified, ""},
		{"the final validation fails", trainer, trainingLog + "INFO: End of training.\n" + validationTrace + message, Exited(1), OutOfMemory, true,
			GPUCapacity, "validation"},
		{"the user stops it, and it exits 0", trainer, trainingLog + "INFO: User interrupted. Preparing to save state...\nINFO: Training stopped.\n",
			Exited(0), Interrupted, false, NoMemory, "training"},
		{"NaN, and exit 0", trainer, trainingLog + "ValueError: NaN/Inf found in loss\nINFO: Training stopped.\n", Exited(0), Failed, false, NoMemory, "training"},
		{"a file that ends well", trainer, trainingLog + "INFO: End of training.\n", Exit{}, Succeeded, false, NoMemory, "unknown"},
		{"a file that ends badly", none, traceback + message, Exit{}, OutOfMemory, true, GPUCapacity, "training"},
		{"a file that ends in the middle", none, "step 1 loss 1\n", Exit{}, Succeeded, false, NoMemory, "unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDetector(t, tt.signs)
			write(t, d, Terminal, tt.output)
			v := d.Judge(Seen{Exit: tt.exit}, tt.signs)
			if v.Ending != tt.want || v.Retry != tt.retry || v.Report.Kind != tt.kind || tt.stage != "" && v.Report.Stage != tt.stage {
				t.Errorf("judged %q, retry %v, %s in %q; want %q, %v, %s in %q\ncause: %s; why: %s", v.Ending, v.Retry, v.Report.Kind,
					v.Report.Stage, tt.want, tt.retry, tt.kind, tt.stage, v.Cause, v.Why)
			}
			if v.Ending != Succeeded && (v.Cause == "" || v.Why == "") {
				t.Errorf("no cause %q or no reason %q", v.Cause, v.Why)
			}
			if tt.exit.Known && v.Ending == Succeeded && v.Report.Fatal {
				t.Error("it succeeded, and the report is fatal")
			}
			if v.Ending == OutOfMemory && !v.Report.OOM {
				t.Error("out of memory, says the ending, and not the report")
			}
		})
	}
}

// TestLateEcho: what a dying program's buffer holds does not make it alive, whichever stream it comes on.
func TestLateEcho(t *testing.T) {
	d := newDetector(t, job.Signs{})
	write(t, d, Stderr, traceback+message)
	for i := range 50 {
		write(t, d, Stdout, "step "+string(rune('0'+i%10))+" loss 0.5\n")
	}
	if v := d.Judge(Seen{Exit: Exited(1)}, job.Signs{}); v.Ending != OutOfMemory {
		t.Errorf("judged %v: %s", v.Ending, v.Cause)
	}
}

// TestOutlived: one failure that is logged, raised and written to a log file is one; what a program met before is another.
func TestOutlived(t *testing.T) {
	refused := "[enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 829440000 bytes. " +
		"Error code 12 (Cannot allocate memory)\n"
	logged, message := "2025-11-21 10:00:00,000 ERROR: "+refused, "RuntimeError: "+refused
	skipped := "2025-11-21 10:00:00,000 WARNING: CUDA out of memory, skipping batch\n" + strings.Repeat("and so on\n", 20)
	died := logged + traceback + message
	for name, tt := range map[string]struct {
		streams map[string]string
		want    int
	}{
		"it is logged and raised":       {map[string]string{Terminal: died}, 0},
		"the same in a log":             {map[string]string{Terminal: died, Stderr: traceback + message, Log: logged}, 0},
		"it met two before":             {map[string]string{Terminal: skipped + skipped + died}, 2},
		"it met two before, in streams": {map[string]string{Terminal: skipped + skipped + died, Log: skipped + skipped + logged}, 2},
	} {
		d := newDetector(t, job.Signs{})
		for s, text := range tt.streams {
			write(t, d, s, text)
		}
		if r := d.Report(Exited(1)); r.Survived != tt.want || !r.Fatal || !r.OOM {
			t.Errorf("%s: outlived %d, want %d (fatal %v)", name, r.Survived, tt.want, r.Fatal)
		}
	}
}

// TestWhatEndedIt: an out-of-memory that was met and outlived is not what a program died of later, and the last lines count.
func TestWhatEndedIt(t *testing.T) {
	caught := traceback + message
	bug := "Traceback (most recent call last):\n  File \"train.py\", line 9, in <module>\n    d['lr']\n"
	for name, tt := range map[string]struct {
		text  string
		exit  Exit
		want  Ending
		cause string
		sure  Confidence
	}{
		"it trained on, and died of a bug":      {caught + steps(1, 20, "step %d loss 0.5\n") + bug + "KeyError: 'lr'\n", Exited(1), Failed, "KeyError: 'lr'", Likely},
		"it died of a bug at once":              {caught + bug + "KeyError: 'lr'\n", Exited(1), OutOfMemory, "out of GPU memory", Likely},
		"it died of it":                         {steps(1, 20, "step %d loss 0.5\n") + caught, Exited(1), OutOfMemory, "out of GPU memory", Certain},
		"a buffer is written after it":          {caught + steps(1, 20, "step %d loss 0.5\n"), Exited(1), OutOfMemory, "out of GPU memory", Certain},
		"it says that training failed":          {"Training failed: CUDA out of memory. Tried to allocate 2.00 GiB\n", Exit{}, OutOfMemory, "out of GPU memory", Certain},
		"it says that it exits":                 {"2025-11-21 10:00:00 ERROR CUDA out of memory. Exiting with status 1\n", Exit{}, OutOfMemory, "out of GPU memory", Certain},
		"it says so, and goes on":               {"2025-11-21 10:00:00 ERROR CUDA out of memory, skipping batch\n" + steps(1, 9, "step %d loss 0.5\n"), Exit{}, Succeeded, "", Certain},
		"it prints of an interrupt nobody sent": {"KeyboardInterrupt\nrestarting\n" + bug + "ValueError: bad\n", Exited(1), Failed, "ValueError: bad", Likely},
		"it was interrupted":                    {"KeyboardInterrupt\n", Exited(130), Interrupted, "interrupted by the user", Certain},
		"an interrupt, in a log":                {bug + "KeyboardInterrupt\n", Exit{}, Interrupted, "interrupted by the user", Certain},
		"an exception of any name":              {bug + "zipfile.BadZipFile: File is not a zip file\n", Exited(1), Failed, "zipfile.BadZipFile: File is not a zip file", Likely},
		"an exception without a word":           {bug + "queue.Empty\n", Exit{}, Failed, "queue.Empty", Likely},
		"prose below a traceback's blank line":  {bug + "\nEverything: is fine\n", Exit{}, Succeeded, "", ""},
		"a path that quotes the words":          {bug + "FileNotFoundError: [Errno 2] No such file or directory: '/data/CUDA out of memory. Tried/x'\n", Exited(1), Failed, "FileNotFoundError", Likely},
		"an assertion that quotes them":         {bug + "AssertionError: expected RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB\n", Exited(1), Failed, "AssertionError", Likely},
		"its last words":                        {"loading\nNo GPU found, please use one\n\n", Exited(1), Failed, "it exited 1; its last line: No GPU found, please use one", ""},
		"a shell says 137 of its own kill":      {"step 1\n", Exit{Known: true, Code: 137, Counted: true}, Failed, "killed by SIGKILL, and the kernel of this machine killed nothing", Likely},
	} {
		d := newDetector(t, job.Signs{})
		write(t, d, Terminal, tt.text)
		v := d.Judge(Seen{Exit: tt.exit}, job.Signs{})
		if v.Ending != tt.want || !strings.HasPrefix(v.Cause, tt.cause) || v.Report.Confidence != tt.sure {
			t.Errorf("%s: %q, %s, %s; want %q, %s, %s", name, v.Ending, v.Cause, v.Report.Confidence, tt.want, tt.cause, tt.sure)
		}
	}
}

// TestSilent: no word of success is not a word of failure.
func TestSilent(t *testing.T) {
	for text, want := range map[string]bool{
		trainingLog: true,
		trainingLog + "INFO: Training stopped.\n":                       false,
		trainingLog + "ERROR: Ran out of VRAM during training.\n":       false,
		trainingLog + traceback + "KeyError: 'x'\n":                     false,
		trainingLog + "INFO: End of training. Time consumed: 1\n":       false,
		trainingLog + traceback + message + "INFO: Training stopped.\n": false,
	} {
		d := newDetector(t, trainer)
		write(t, d, Terminal, text)
		if v := d.Judge(Seen{Exit: Exited(0)}, trainer); v.Silent != want || want && v.Cause != "it exited 0 but never printed its success line" {
			t.Errorf("%.40q…: silent %v, %s", text[len(trainingLog):], v.Silent, v.Cause)
		}
	}
}

// TestDoubt: an exit of 0 is believed, and what speaks against it is said.
func TestDoubt(t *testing.T) {
	for text, want := range map[string]bool{
		traceback + message: true,
		traceback + message + steps(1, 900, "step %d loss 0.5\n"): false,
		message: true, "2025-11-21 10:00:00 WARNING CUDA out of memory, skipping batch\n": false, "step 1 loss 1\n": false,
	} {
		d := newDetector(t, job.Signs{})
		write(t, d, Terminal, text)
		if v := d.Judge(Seen{Exit: Exited(0)}, job.Signs{}); v.Ending != Succeeded || (v.Doubt != "") != want {
			t.Errorf("%.60q: %s, doubt %q", text, v.Ending, v.Doubt)
		}
	}
}

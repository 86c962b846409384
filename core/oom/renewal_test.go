package oom

import (
	"fmt"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
)

// Runs that were appended to one log: of the last nothing says that it failed.
func TestAppendedRuns(t *testing.T) {
	head := func(day int) string {
		return fmt.Sprintf("2024-03-0%d 10:00:00 INFO Namespace(batch_size=%d, data='images')\n2024-03-0%d 10:00:01 INFO loading the data set from images\n"+
			"2024-03-0%d 10:00:09 INFO 5994 training images\nbuilding the model\nstarting to train\n", day, 16/day, day, day)
	}
	steps := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, "epoch 1 step %d loss 0.%d lr 0.01\n", i, 900-i)
		}
		return b.String()
	}
	const died = "Traceback (most recent call last):\n  File \"/home/u/train.py\", line 9, in <module>\n    main()\n  File \"/home/u/train.py\", line 5, in main\n    loss.backward()\n" +
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which 1.00 GiB is free. " +
		"Of the allocated memory 15.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.\n"
	const elastic = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \ntrain.py FAILED\n"
	epoch := func(n, from int) string {
		return fmt.Sprintf("this is epoch %d of many\nshuffling the data set\nsetting the learning rate\n", n) + steps(from, from+5)
	}
	for name, tt := range map[string]struct {
		text  string
		fatal bool
	}{
		"a run that went well after it":     {head(1) + steps(1, 40) + died + head(2) + steps(1, 40), false},
		"with what follows from the death":  {head(1) + steps(1, 40) + died + elastic + head(2) + steps(1, 40), false},
		"after two of them":                 {head(1) + steps(1, 9) + died + head(2) + steps(1, 9) + died + head(3) + steps(1, 9), false},
		"a long one":                        {head(1) + steps(1, 4000) + died + head(2) + steps(1, 4000), false},
		"another rank is stopped":           {head(1) + steps(1, 40) + died + head(2) + steps(1, 20) + elastic, true},
		"it has done nothing yet":           {head(1) + steps(1, 40) + died + head(2), true},
		"the last run":                      {head(1) + steps(1, 40) + head(2) + steps(1, 40) + died, true},
		"a buffer, written late":            {died + head(1) + steps(1, 40), true},
		"the rest of a buffer":              {head(1) + steps(1, 20) + died + steps(21, 40), true},
		"another rank's buffer, of two":     {head(1) + head(1) + steps(1, 20) + died + steps(15, 20), true},
		"a third rank's buffer":             {head(1) + head(1) + steps(1, 20) + died + head(1) + steps(1, 20), true},
		"two ranks' buffers":                {died + head(1) + steps(1, 40) + head(1) + steps(1, 40), true},
		"what it says of every epoch":       {"building the model\n" + epoch(1, 1) + epoch(2, 7) + died + epoch(3, 3), true},
		"what it says of every epoch alone": {epoch(1, 1) + epoch(2, 7) + died + epoch(3, 3), true},
	} {
		r := reported(t, tt.text)
		if !r.OOM || r.Fatal != tt.fatal && !(tt.fatal && r.WentOn) {
			t.Errorf("%s: fatal %v, want %v: %s", name, r.Fatal, tt.fatal, r.Cause)
		}
		if !tt.fatal && (r.WentOn && !strings.Contains(name, "long") || !r.LaterRun && !r.WentOn || r.Survived > 0 && !r.WentOn) {
			t.Errorf("%s: it did not go on, another run did: %+v", name, r)
		}
	}
}

// Runs that were appended to one log, of which the last failed as well: it is judged as if it stood alone.
func TestAppendedFailures(t *testing.T) {
	const head = "reading the options of the job\nmaking a net of 24 layers\nreading the list of pictures\n"
	const steps = "step 1 loss 0.9\nstep 2 loss 0.8\nstep 3 loss 0.7\nstep 4 loss 0.6\n"
	trace := func(calls, end string) string {
		return "Traceback (most recent call last):\n  File \"/home/ann/fit.py\", line 31, in <module>\n    " + calls + "\n" + end + "\n"
	}
	memory := func(asked string) string {
		return trace("net.train_epoch()\n  File \"/home/ann/fit.py\", line 12, in train_epoch\n    out = net(x)", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "+asked+
			" GiB. GPU 0 has a total capacity of 23.69 GiB of which 1.00 GiB is free. Of the allocated memory 15.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.")
	}
	key := trace("score = table['acc']", "KeyError: 'acc'")
	first := head + steps + memory("2.00")
	for name, tt := range map[string]struct{ text, what, cause string }{
		"another exception":      {first + head + steps + key, "exception", "KeyError"},
		"a crash":                {first + head + steps + "fit.sh: line 4: 811 Segmentation fault      python fit.py\n", "crash", "crashed"},
		"the time limit":         {first + head + steps + "slurmstepd: error: *** JOB 77 ON n3 CANCELLED AT 2026-02-03T04:05:06 DUE TO TIME LIMIT ***\n", "time_limit", "time limit"},
		"Ctrl-C":                 {first + head + steps + "KeyboardInterrupt\n", "interrupted", "interrupted by the user"},
		"a kill":                 {first + head + steps + "Killed\n", "", "killed by SIGKILL"},
		"a smaller request":      {first + head + steps + memory("1.50"), "", "asked for 1.50 GiB"},
		"after another failure":  {head + steps + key + head + steps + trace("n = rows / files", "ZeroDivisionError: division by zero"), "exception", "ZeroDivisionError"},
		"of three, the last":     {first + head + steps + memory("1.50") + head + steps + key, "exception", "KeyError"},
		"of three, the second":   {first + head + steps + key + head, "exception", "KeyError"},
		"memory after an error":  {head + steps + key + head + steps + memory("1.50"), "", "asked for 1.50 GiB"},
		"a long run between":     {first + head + strings.Repeat(steps, 900) + key, "exception", "KeyError"},
		"and what torchrun says": {first + head + steps + key + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \nfit.py FAILED\n", "exception", "KeyError"},
	} {
		r := reported(t, tt.text)
		if !r.Fatal || r.NotMemory != tt.what || (r.OOM || r.Possible) != (tt.what == "") ||
			!strings.Contains(r.Cause, tt.cause) || r.LaterRun || r.Survived > 0 {
			t.Errorf("%s: %q, %+v", name, r.Cause, r)
		}
		alone := reported(t, tt.text[strings.LastIndex(strings.TrimSuffix(tt.text, head), head):])
		if r.Cause != alone.Cause || r.Phase != alone.Phase || r.Frame != alone.Frame {
			t.Errorf("%s: %q %s %s; alone: %q %s %s", name, r.Cause, r.Phase, r.Frame, alone.Cause, alone.Phase, alone.Frame)
		}
	}
	d := newDetector(t, job.Signs{})
	d.Write([]byte(first + head + steps + memory("1.50")))
	if r := d.Report(Exited(1)); !strings.Contains(r.Cause, "asked for 2.00 GiB") {
		t.Errorf("one program that exited 1: %+v", r)
	}
}

// Of a program that is known to have failed, the buffer of a rank that says all that another said is no other run.
func TestAppendedAndFailed(t *testing.T) {
	const head = "loading the data set\nbuilding the model\nstarting to train\n"
	const steps = "step 1 loss 0.9\nstep 2 loss 0.8\nstep 3 loss 0.7\n"
	d := newDetector(t, job.Signs{})
	d.Write([]byte(head + steps + "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 7.79 GiB total capacity; 5.47 GiB already allocated; 1.02 GiB free; 5.63 GiB reserved in total by PyTorch)\n" + head + steps))
	if r := d.Report(Exited(1)); !r.Fatal || r.LaterRun {
		t.Errorf("it exited 1: %+v", r)
	}
	if r := d.Report(Exit{}); r.Fatal || !r.LaterRun || r.Survived > 0 {
		t.Errorf("nobody saw it end: %+v", r)
	}
}

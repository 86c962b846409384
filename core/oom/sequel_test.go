package oom

import (
	"fmt"
	"strings"
	"testing"
)

var (
	asked2 = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total " +
		"capacity of 23.69 GiB " +
		"of which 1.00 GiB is free. Of the allocated memory 15.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by " +
		"PyTorch but unallocated.\n"
	inFold = began + call("/home/u/folds.py", "one_fold", "fit(net, rows)")
)

// TestSequel: what follows a failure shows that it ended nothing, or does not.
func TestSequel(t *testing.T) {
	at := func(hour int, words string) string {
		return fmt.Sprintf("03/02/2026 %02d:10:00 PM INFO folds: %s\n", hour, words)
	}
	failed := strings.Replace(at(1, "fold 1 did not work"), "INFO", "ERROR", 1) + inFold
	folds := at(2, "fold 2: {'val_loss': 0.41}") + at(3, "fold 3: {'val_loss': 0.39}")
	spawned := began + call("<string>", "<module>",
		"") + call("/usr/lib/python3.12/multiprocessing/spawn.py", "spawn_main",
		"exitcode = _main(fd, parent_sentinel)") + call("/home/u/segment.py", "<module>", "import masks") +
		"OSError: [Errno 12] Cannot allocate memory: '/data/masks'\n"
	ray := "(raylet) [2026-01-02 03:04:05,678 E 23 23] (raylet) node_manager.cc:3313: 1 Workers (tasks / " +
		"actors) killed due " +
		"to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: 0a, IP: 10.0.0.2)\n"
	for _, c := range []class{
		{name: "the logger goes on", oom: true, text: at(1, "start") + failed + asked2 + folds},
		{name: "after another exception that it logged", oom: true, kind: GPUContention,
			text: at(1, "start") + failed + "KeyError: 'rows'\n" + at(1, "again") + failed + asked2 + folds},
		{name: "another logger's records", oom: true, fatal: true, text: at(1, "start") + failed + asked2 +
			"2026-02-03 18:00:00 fold 2: loss 0.41\n2026-02-03 18:00:01 fold 3: loss 0.39\n"},
		{name: "it reports no figures", oom: true, fatal: true, text: at(1, "start") + failed + asked2 + at(2, "closing") +
			at(2, "uploading")},
		{name: "a traceback that no logger wrote", oom: true, fatal: true, text: at(1,
			"start") + "stopped:\n" + inFold + asked2 +
			folds},
		{name: "it stops in the end", oom: true, fatal: true, text: at(1, "start") + failed + asked2 + folds +
			at(4, "giving up")},
		{name: "and dies of it later", oom: true, fatal: true, text: at(1,
			"start") + failed + asked2 + folds + failed + asked2},
		{name: "a spawned process dies, its parent concludes", oom: true, text: "predicting case 7\n" + spawned +
			"2026-01-02 03:04:05: Validation complete\n"},
		{name: "it concludes nothing", oom: true, fatal: true, text: "predicting case 7\n" + spawned + "predicting case 8\n"},
		{name: "a process of its own", oom: true, fatal: true, text: strings.Replace(spawned, "spawn_main", "main", 1) +
			"Validation complete\n"},
		{name: "a notebook's result", oom: true, text: ray + inFold + "RuntimeError: no device\n\n" +
			"<tables.fits.Predictor at 0x7f3a0c2b1d90>\n"},
		{name: "no result", oom: true, fatal: true, text: ray + inFold + "RuntimeError: no " +
			"device\n\n<tables.fits.Predictor>\n"},
	} {
		c.check(t)
	}
}

// TestLastRun: of several runs in one log, the last decides, also where its head is long, repeats
// itself, or came before
// any failure as well.
func TestLastRun(t *testing.T) {
	var head strings.Builder
	for _, word := range strings.Fields("random batches placeholders weights recurrent dense lookup saving " +
		"options profile " +
		"variables devices sessions placement") {
		fmt.Fprintf(&head, "WARNING: the name of the function for %s is an old one\n", word)
	}
	start := head.String() + "WARNING: a cell is not transformed. Cause: AssertionError: an old node\nthe " +
		"graph has 814 nodes\n"
	figures := "round one\ntrain_accuracy: 0.12\ntrain_loss: 4.1\ntest_accuracy: 0.11\n"
	died := inFold + asked2
	agent := func(id string) string {
		return "wandb: Agent Starting Run: " + id + " with config:\nwandb: \tdepth: 4\n"
	}
	building := began + call("/home/u/net.py", "build_model", "net = Net(depth)") + asked2
	noted := "some.py:9: FutureWarning: an old option\n  warnings.warn(\n"
	short := "reading the words of the task\nthe list has 459 rows\n" + noted
	noted = strings.Replace(noted, "some.py:9: FutureWarning", "other.py:7: UserWarning", 1)
	steps := " 1/90 [00:14<3:40:07, 14.37s/it]\n 2/90 [00:28<3:40:07, 14.37s/it]\n 3/90 [00:42<3:40:07, 14.37s/it]\n"
	for _, c := range []class{
		{name: "the third of three, its head was printed twice before", oom: true,
			text: start + start + died + start + figures + "used time = 521.2 s\n"},
		{name: "the third has not ended", oom: true, fatal: true, text: start + start + died + start + figures},
		{name: "a sweep's agent, another failure", oom: true, fatal: true, phase: Build,
			text: agent("a1") + began + call("/home/u/fit.py", "train_epoch", "y = net(x)") + asked2 + agent("b2") + building},
		{name: "a sweep's agent, a run that works", oom: true, text: agent("a1") + died + agent("b2") + steps},
		{name: "a sweep's agent, a run that has just begun", oom: true, fatal: true, text: agent("a1") + died + agent("b2")},
		{name: "a warning's source comes again and again", oom: true,
			text: short + "making the net of the task\n" + steps + noted + steps + died + short +
				"making the net of the task\n" + steps + noted},
	} {
		c.check(t)
	}
}

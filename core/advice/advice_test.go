package advice

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/unit"
)

// logs are, for each sign, an output that gives the advice, what the advice then has in it, and an output that is
// nearly the same and gives none.
var logs = map[string]struct{ is, has, near string }{
	job.NotFinite: {
		"iter 10 loss: 0.5\niter 20 loss: nan\niter 30 loss: nan\niter 40 loss: nan\n",
		"(lines: 3)",
		// an initial best value, one step of a gradient scaler, a word
		strings.Repeat("best_loss: inf\n",
			9) + "Gradient overflow. Skipping step, loss scale inf\nl_pix: nan\nl_pix: 1.5e-02\nloss: info\n" +
			strings.Repeat("iter loss: 0.1\n", 300) + "loss: inf\n" + strings.Repeat("iter loss: 0.1\n", 300) + "loss: nan\n",
	},
	"workers": {
		"/x/torch/utils/data/dataloader.py:558: UserWarning: This DataLoader will create 16 worker processes in total. Our " +
			"suggested max number of worker in current system is 4, which is smaller than what this " +
			"DataLoader is going to create.\n",
		"x.yml: train.workers to 4 or less",
		"Loader: This DataLoader will create 4 worker processes in total.\n",
	},
	"few-workers": {
		"/x/data_connector.py:424: The 'train_dataloader' does not have many workers which may be a bottleneck. Consider " +
			"increasing the value of the `num_workers` argument` to `num_workers=7` in the " +
			"`DataLoader` to improve performance.\n",
		"set x.yml: train.workers to 7",
		"The city does not have many workers\n",
	},
	"slow-loader": {
		lines(30, "[epoch: 0, iter: %d, lr:(1e-4,)] [eta: 1:00:00, time (data): 0.500 (0.150)] l_pix: 1e-2\n"),
		"waits for data 30 % of the time",
		// slow only while it begins, and then a tenth of the time
		lines(5, "[iter: %d] [time (data): 9.000 (8.900)]\n") + lines(30, "[iter: %d] [time (data): 0.500 (0.050)]\n"),
	},
	"small-shm": {
		"RuntimeError: DataLoader worker (pid 71) is killed by signal: Bus error. It is possible that dataloader's workers " +
			"are out of shared memory.\nERROR: Unexpected bus error encountered in worker. This might be caused by " +
			"insufficient shared memory (shm).\n",
		"--shm-size",
		"unable to open file </data/torch_1>: No such file; 8 GiB of shm\n",
	},
	"plan-failed": {
		"conv.py:456: UserWarning: Plan failed with a cudnnException: CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: " +
			"cudnnFinalizeDescriptor Failed cudnn_status: CUDNN_STATUS_NOT_SUPPORTED\n",
		"cudnnException",
		"the five-year Plan failed with a bang\n",
	},
	"unused-parameters": {
		"[W reducer.cpp:1389] Warning: find_unused_parameters=True was specified in DDP constructor, but did not find any " +
			"unused parameters in the forward pass.\n",
		"find_unused_parameters to false",
		"  find_unused_parameters=True\n",
	},
	"tf32": {
		"compile_fx.py:167: UserWarning: TensorFloat32 tensor cores for float32 matrix multiplication available but not " +
			"enabled. Consider setting `torch.set_float32_matmul_precision('high')` for better performance.\n",
		"TF32",
		"calling torch.set_float32_matmul_precision('high')\n",
	},
	"scheduler-order": {
		"lr_scheduler.py:138: UserWarning: Detected call of `lr_scheduler.step()` before " +
			"`optimizer.step()`. In PyTorch 1.1.0\n",
		"schedule skips its first value",
		"call lr_scheduler.step() after optimizer.step()\n",
	},
	"not-optimized": {
		"WARNING: Params bn1.weight will not be optimized.\nWARNING: Params bn1.bias will not be optimized.\n",
		"optimized (lines: 2; bn1.weight",
		"(these will not be optimized)\n",
	},
	"deprecated": {
		"/p/train.py:31: FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated. Please use " +
			"`torch.amp.autocast('cuda', args...)` instead.\n  with autocast():\n",
		"in use (lines: 1)",
		"warnings.filterwarnings('ignore', category=FutureWarning)\n/p/x.py:3: UserWarning: this is deprecated by nobody\n",
	},
}

func lines(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func given(t *testing.T, text string) []job.Advice {
	t.Helper()
	return Give(Seen{Text: read(text, len(text)), Workers: "x.yml: train.workers", Cores: 4})
}

// read writes an output in parts of a size.
func read(text string, size int) *Text {
	found := NewText()
	for part := range slices.Chunk([]byte(text), max(1, size)) {
		found.Write(part)
	}
	found.End()
	return found
}

func names(all []job.Advice) (out []string) {
	for _, a := range all {
		out = append(out, a.Name)
	}
	return out
}

// Every sign has a log that gives its advice and no other, and a near miss that gives none.
func TestSigns(t *testing.T) {
	for _, s := range signs {
		log, ok := logs[s.name]
		if !ok {
			t.Errorf("%s has no log", s.name)
			continue
		}
		for _, text := range []string{log.is, "\x1b[33m" + strings.ReplaceAll(log.is, "\n", "\x1b[0m\r\n\x1b[33m")} {
			got := given(t, text)
			if !slices.Equal(names(got), []string{s.name}) {
				t.Errorf("%s: its log gives %q", s.name, names(got))
				continue
			}
			a := got[0]
			if !strings.Contains(a.What+" "+a.Change, log.has) || strings.ContainsAny(a.What+a.Change, "${}\x1b") ||
				a.Change == "" {
				t.Errorf("%s: %q, %q; want %q in it", s.name, a.What, a.Change, log.has)
			}
			if len(a.Evidence) != 1 || a.Evidence[0] == "" || strings.Contains(a.Evidence[0], "\x1b") {
				t.Errorf("%s: its evidence is %q", s.name, a.Evidence)
			}
		}
		if got := given(t, log.near); len(got) != 0 {
			t.Errorf("%s: its near miss gives %q", s.name, names(got))
		}
	}
}

// The forms in which trainings print their meters are read, each as it is.
func TestMeters(t *testing.T) {
	for _, form := range []string{
		"Epoch: [0][%d/99]\tTime 0.500 (0.510)\tData 0.150 (0.160)\tLoss 1\n",
		"Epoch(train) [1][%d/99]  lr: 1e-2  eta: 0:01  time: 0.5000  data_time: 0.1500  loss: 1\n",
		"Epoch: [0] [%d/99] eta: 0:01 loss: 1.2 time: 0.5000 data: 0.1500 max mem: 1\n",
		"iter: %d  data_time: 0.1500  last_time: 3.0  time: 0.5000\n",
	} {
		got := given(t, lines(30, form))
		if len(got) != 1 || !strings.Contains(got[0].What, "30 %") {
			t.Errorf("%q: %+v", form, got)
		}
	}
	if got := given(t, lines(19, "[time (data): 0.500 (0.150)] %d\n")); len(got) != 0 {
		t.Errorf("fewer lines than the bound: %q", names(got))
	}
}

// A window counts lines that are near each other.
func TestWindow(t *testing.T) {
	far := strings.Repeat("x\n", 199)
	if got := given(t, "loss: nan\nloss: nan\n"+far+"loss: nan\n"); len(got) != 0 {
		t.Errorf("three lines in 202: %q", names(got))
	}
	if got := given(t, "loss: nan\n"+far+"loss: nan\nloss: nan\nloss: nan\n"); len(got) != 1 {
		t.Errorf("three lines in a row: %q", names(got))
	}
	if got := given(t, strings.Repeat("loss ", 10000)+": nan"); len(got) != 0 { // a line that is cut is no line of its own
		t.Errorf("one long line: %q", names(got))
	}
}

// An output arrives in parts. A line is found wherever a part ends in it, and the numbers of lines go on.
func TestParts(t *testing.T) {
	text := strings.Repeat("x\n", 50) + "loss: nan\r" + logs["workers"].is + strings.Repeat("y\r\n", 50)
	for size := range 300 {
		found := read(text, size+1)
		if got := names(Give(Seen{Text: found})); !slices.Equal(got, []string{"workers"}) || found.found[0].count != 1 {
			t.Fatalf("parts of %d: %q, %d lines with nan", size+1, got, found.found[0].count)
		}
	}
	if found := read(strings.Repeat("x\n", 1000)+"loss: nan\r"+strings.Repeat("y\n", 1000), 77); found.lines != 2001 {
		t.Errorf("%d lines were counted, want 2001", found.lines)
	}
	if got := names(Give(Seen{Text: read(strings.Repeat("x", 3*maxLine)+"\n"+logs["workers"].is, 100)})); len(got) != 1 {
		t.Errorf("after a long line: %q", got)
	}
	found := NewText()
	found.left = 100
	found.Write([]byte(strings.Repeat("x\n", 60) + logs["workers"].is))
	if got := Give(Seen{Text: found}); len(got) > 0 {
		t.Errorf("what is beyond the bound counts: %q", names(got))
	}
}

// A sign stops to count where more lines change nothing.
func TestEnough(t *testing.T) {
	got := given(t, strings.Repeat("loss: nan\n", 3*mostCounted))
	if len(got) != 1 || !strings.Contains(got[0].What, fmt.Sprintf("lines: %d)", mostCounted)) {
		t.Errorf("%+v", got)
	}
}

// The outputs of real failures hold nothing to advise, but for the one whose /dev/shm was too small.
func TestRealLogs(t *testing.T) {
	paths, err := filepath.Glob("../oom/testdata/real/*.log")
	if err != nil || len(paths) < 40 {
		t.Fatalf("%d logs, %v", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		if filepath.Base(path) == "shm.log" {
			want = []string{"small-shm"}
		}
		if got := names(given(t, string(text))); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// every is a curve of a point each minute.
func every(minutes int, room unit.Bytes, held func(minute int) unit.Bytes) Curve {
	c := Curve{Room: room}
	for i := range minutes {
		c.Points = append(c.Points, Point{time.Duration(i) * time.Minute, held(i)})
	}
	return c
}

// bounds are, for each advice from what was observed, what gives it, what it then has, and its near misses.
func TestBounds(t *testing.T) {
	mib := func(n float64) unit.Bytes { return unit.Bytes(n * float64(unit.MiB)) }
	climbing := func(i int) unit.Bytes { return mib(8000 + 10*float64(i)) }
	min := time.Minute
	for _, tt := range []struct {
		name, has string
		is        Seen
		near      map[string]Seen
	}{
		// 10 MiB a minute from 8,000 MiB: 20,000 MiB after 1,200 minutes
		{"leak", "600 MiB an hour: at this pace it reaches 19.5 GiB 20.0 h after the start",
			Seen{Card: every(240, mib(20000), climbing)}, map[string]Seen{
				"a pool that fills": {Card: every(240, mib(20000),
					func(i int) unit.Bytes { return mib(12000 - 4000*math.Exp(-float64(i)/20)) })},
				"a step": {Card: every(240, mib(20000),
					func(i int) unit.Bytes { return mib(8000 + 2000*float64(i/130)) })},
				"a saw": {Card: every(240, mib(20000),
					func(i int) unit.Bytes { return mib(8000 + 100*float64(i%20)) })},
				"a short time":       {Card: every(20, mib(20000), climbing)},
				"a little":           {Card: every(240, mib(20000), func(i int) unit.Bytes { return mib(8000 + 0.5*float64(i)) })},
				"one that falls":     {Card: every(240, mib(20000), func(i int) unit.Bytes { return mib(9000 - float64(i)) })},
				"nothing to look at": {},
				"two steps": {Card: every(240, mib(20000),
					func(i int) unit.Bytes { return mib(8000 + 1000*float64((i-40)/80)) })},
				"little in all": {Card: every(240, mib(20000), func(i int) unit.Bytes { return mib(1000 + 0.5*float64(i)) })},
				"one that gives back": {Card: every(240, mib(20000), func(i int) unit.Bytes {
					if i >= 160 {
						return climbing(i) - mib(300)
					}
					return climbing(i)
				})},
			}},
		{"host-leak", "the host memory in use climbs by 600 MiB an hour", Seen{Host: every(240, 0, climbing)},
			map[string]Seen{
				"a cache that is emptied": {Host: every(240, 0, func(i int) unit.Bytes { return mib(8000 + 50*float64(i%60)) })},
			}},
		{"validation-time", "validation takes 20 % of the time", Seen{Training: "training", Spent: map[string]time.Duration{
			"training": 16 * min, "validation": 4 * min, "": 9 * min}}, map[string]Seen{
			"a tenth": {Training: "training", Spent: map[string]time.Duration{"training": 90 * min,
				"validation": 10 * min}},
			"a short run":   {Training: "training", Spent: map[string]time.Duration{"training": 4 * min, "validation": 4 * min}},
			"no training":   {Training: "training", Spent: map[string]time.Duration{"validation": 40 * min}},
			"no validation": {Training: "training", Spent: map[string]time.Duration{"training": 40 * min, "": 40 * min}},
		}},
		{"idle-card", "idle 80 %", Seen{Busy: Busy{20, 120, 2 * min}}, map[string]Seen{
			"busy enough": {Busy: Busy{30, 120, 2 * min}}, "few looks": {Busy: Busy{20, 59, 2 * min}},
			"a short time": {Busy: Busy{20, 120, min}}, "unknown": {},
		}},
		{"full-card", "7 requests", Seen{Retries: 7, Short: unit.GiB}, map[string]Seen{"none": {Retries: 0,
			Short: unit.GiB}}},
		{"ahead", "validation has not run yet", Seen{Ahead: []Need{{"validation", 9 * unit.GiB, 8 * unit.GiB}}},
			map[string]Seen{
				"it fits":      {Ahead: []Need{{"validation", 8 * unit.GiB, 8 * unit.GiB}}},
				"unknown room": {Ahead: []Need{{"validation", 8 * unit.GiB, 0}}},
			}},
		{"unread", "remove them", Seen{Unread: []Setting{{"x.yml: a", "nothing reads it"}}}, map[string]Seen{"none": {}}},
		{job.NotFinite, "the last value of psnr", Seen{Diverged: []string{"psnr"}}, map[string]Seen{"none": {}}},
	} {
		got := Give(tt.is)
		if !slices.Equal(names(got), []string{tt.name}) {
			t.Errorf("%s: %q is given", tt.name, names(got))
			continue
		}
		if all := fmt.Sprint(got[0]); !strings.Contains(all, tt.has) {
			t.Errorf("%s: %q lacks %q", tt.name, all, tt.has)
		}
		if got[0].Change == "" || got[0].Evidence == nil {
			t.Errorf("%s has no change or no evidence: %+v", tt.name, got[0])
		}
		for name, near := range tt.near {
			if got := Give(near); len(got) != 0 {
				t.Errorf("%s: %s gives %+v", tt.name, name, got)
			}
		}
	}
}

// Advice is ranked, and is given once: also where two sources or two attempts have it.
func TestRanked(t *testing.T) {
	text := read(logs["deprecated"].is+logs["workers"].is+logs[job.NotFinite].is, 50)
	first := Give(Seen{Text: text, Diverged: []string{"loss"}, Unread: []Setting{{"x", "y"}}})
	if got, want := names(first), []string{job.NotFinite, "workers", "deprecated", "unread"}; !slices.Equal(got, want) {
		t.Errorf("ranked %q, want %q", got, want)
	}
	second := Give(Seen{Unread: []Setting{{"z", "y"}}, Retries: 1})
	both := Once(first, second)
	if got, want := names(both), []string{job.NotFinite, "full-card", "workers", "unread",
		"deprecated"}; !slices.Equal(got,
		want) {
		t.Errorf("of two attempts %q, want %q", got, want)
	}
	i := slices.IndexFunc(both, func(a job.Advice) bool { return a.Name == "unread" })
	if both[i].Evidence[0] != "z: y" {
		t.Errorf("the last attempt does not count: %q", both[i].Evidence)
	}
}

// What trainers print before the first validation or the second step is no loss. A loss that was no number and has been
// one for long is no news.
func TestFiniteLoss(t *testing.T) {
	for _, line := range []string{"step 1 loss: 0.5 val_loss: inf\n", "loss=0.5, prev_loss=inf\n",
		"loss 0.5 (validation loss inf)\n", "loss nan-safe mean: 0.5\n"} {
		if got := given(t, strings.Repeat(line, 50)); len(got) != 0 {
			t.Errorf("%q: %q", line, names(got))
		}
	}
	for _, line := range []string{"loss: nan val_loss: inf\n", "loss: nan - acc: 0.1\n", "loss: 0.5 val_loss: nan\n"} {
		if got := given(t, strings.Repeat(line, 3)); len(got) != 1 {
			t.Errorf("%q: %q", line, names(got))
		}
	}
	begin := strings.Repeat("loss: inf\n", 3)
	if got := given(t, begin+strings.Repeat("loss: 0.5\n", 300)); len(got) != 0 {
		t.Errorf("long ago: %q", names(got))
	}
	for _, end := range []string{strings.Repeat("loss: 0.5\n", 30), strings.Repeat("saved\n", 300)} {
		if got := given(t, begin+end); len(got) != 1 {
			t.Errorf("%.20q: %q", end, names(got))
		}
	}
}

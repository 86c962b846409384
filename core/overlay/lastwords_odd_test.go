package overlay

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Programs that do not simply die of the error: each ends as it does bare, by itself, and what it saves is whole.
func TestOddPrograms(t *testing.T) {
	const retry = "import gc\nwhile True:\n    try: trainer.train(10); break\n    except RuntimeError as e:\n" +
		"        print('again', str(e)[:9], flush=True)\n        trainer.optimizer.zero_grad()\n        gc.collect()\n"
	bare := func(t *testing.T, env ...string) string {
		t.Helper()
		dir := t.TempDir()
		witnessWrite(t, dir, wordsProgram)
		out := warmStart(t, dir, append(env, "OUT="+filepath.Join(dir, "out")))
		return strings.ReplaceAll(out.stdout, filepath.Join(dir, "out"), "DIR")
	}
	plain := bare(t, "FAIL=forward:7")
	const thread = "import threading\nt = threading.Thread(target=trainer.train, args=(10,))\nt.start(); t.join()\n"
	for name, c := range map[string]struct {
		env, more string
		code      int
		saved     int64  // by the last words; 0: none
		why       string // why not; "": nothing is reported
		// what it prints after the steps before the failure; "..." is what it prints bare
		prints string
	}{
		"catches it, and ends well": {env: "FAIL=forward:7",
			more: "try: trainer.train(10)\nexcept RuntimeError: print('caught'); sys.exit(0)", prints: "caught\n"},
		"catches it, and exits": {env: "FAIL=forward:7",
			more: "try: trainer.train(10)\nexcept RuntimeError: print('caught'); sys.exit(1)", code: 1, prints: "caught\n"},
		"catches it, and raises it again": {env: "FAIL=forward:7",
			more: "try: trainer.train(10)\nexcept RuntimeError as e: print('caught'); raise", code: 1, saved: 6,
			prints: "caught\n"},
		"catches it, and raises another": {env: "FAIL=forward:7",
			more: "try: trainer.train(10)\nexcept RuntimeError as e: raise ValueError('no memory') from e", code: 1},
		"raises it again as one of its own": {env: "FAIL=forward:7", more: "try: trainer.train(10)\n" +
			"except RuntimeError as e: raise RuntimeError('CUDA out of memory in step 7') from None", code: 1,
			why: "cannot tell whether the last step was finished"},
		// once: the second try of the same step finds memory
		"retries, and succeeds": {env: "FAIL=forward:7",
			more:   strings.Replace(retry, "gc.collect()", "import transformers.trainer as m; m.FAIL = ['', '']", 1),
			prints: "..."},
		// the retry fails as well, in a later step, which nobody catches
		"retries, and fails later": {env: "FAIL=forward:7",
			more: "try: trainer.train(10)\nexcept RuntimeError:\n    import transformers.trainer as m\n" +
				"    m.FAIL = ['forward', '9']\n" +
				"    trainer.optimizer.zero_grad()\ntrainer.train(10)", code: 1, saved: 8, prints: "..."},
		"a thread raises it": {env: "FAIL=forward:7",
			more: thread + "os._exit(3)", code: 3},
		"a thread raises it, and the program goes on": {env: "FAIL=forward:7",
			more: thread + "sys.exit(0)"},
		"the main thread dies of it, and another one lives on": {env: "FAIL=forward:7", more: "import threading, time\n" +
			"threading.Thread(target=lambda: (time.sleep(2), print('done', flush=True))).start()", code: 1, saved: 6,
			prints: "done\n"},
		"a pool of threads hands it on": {env: "FAIL=forward:7", more: "from concurrent.futures import ThreadPoolExecutor\n" +
			"with ThreadPoolExecutor(1) as p: p.submit(trainer.train, 10).result()", code: 1, saved: 6},
		"an excepthook of its own": {env: "FAIL=forward:7",
			more: "sys.excepthook = lambda *a: print('mine', flush=True)", code: 1, saved: 6, prints: "mine\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, said, dir := runWords(t, c.env, "MORE="+c.more)
			want := plain + c.prints
			if c.prints == "..." {
				want = bare(t, c.env, "MORE="+c.more)
			}
			if want = strings.ReplaceAll(want, "DIR", dir); out.code != c.code || out.stdout != want {
				t.Errorf("it ends with %d:\n%s%s\nand should print\n%s", out.code, out.stdout, out.stderr, want)
			}
			switch {
			case c.saved > 0:
				want := filepath.Join(dir, fmt.Sprint("checkpoint-", c.saved))
				if said == nil || said.Step != c.saved || said.Path != want {
					t.Fatalf("it reports %+v; want step %d", said, c.saved)
				}
				if _, err := os.Stat(filepath.Join(want, "trainer_state.json")); err != nil {
					t.Error(err)
				}
			case c.why == "" && said != nil:
				t.Errorf("it reports %+v", said)
			case c.why != "" && (said == nil || said.Path != "" || !strings.Contains(said.Why, c.why)):
				t.Errorf("it reports %+v; want %q", said, c.why)
			}
		})
	}
}

// Of two ranks under DDP one runs out of memory, and the other waits for it in a collective: the one ends as it does
// bare, and saves nothing; the other one ends when its peer is gone. Asked to save, the ranks go on, and say why there
// is no state.
func TestRanksOfOne(t *testing.T) {
	const ranks = "import torch.distributed as d, datetime\n" +
		"d.init_process_group('gloo', timeout=datetime.timedelta(seconds=60))\n" +
		"trainer.plain, trainer.model = model, torch.nn.parallel.DistributedDataParallel(model)\n"
	for name, c := range map[string]struct{ fail, more, why string }{
		"one fails": {fail: "forward:7", why: "several processes train together"},
		"asked":     {more: strings.Replace(asks, "STEP", "6", 1), why: "several processes train together"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			_, port, _ := net.SplitHostPort(l.Addr().String())
			l.Close()
			type end struct {
				out  witnessOutcome
				said *LastWords
			}
			ends := [2]chan end{make(chan end, 1), make(chan end, 1)}
			for rank := range ends {
				env := []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port, "WORLD_SIZE=2", fmt.Sprint("RANK=", rank),
					"MORE=" + ranks + c.more}
				if rank == 0 && c.fail != "" {
					env = append(env, "FAIL="+c.fail)
				}
				dir := t.TempDir()
				go func() {
					witnessWrite(t, dir, wordsProgram)
					part, _ := LastWordsPart("transformers", 20*time.Second)
					o, err := Install(filepath.Join(dir, "attempt"), nil, nil, part)
					if err != nil {
						t.Error(err)
					}
					out := warmStart(t, dir, append(append(o.Env, "OUT="+filepath.Join(dir, "out")), env...))
					r := o.Report()
					said := r.LastWords()
					if c.fail == "" {
						said = r.Answer()
					}
					ends[rank] <- end{out, said}
				}()
			}
			for rank := range ends {
				e := <-ends[rank]
				failed := c.fail != ""
				if e.out.signal != 0 || (e.out.code != 0) != failed {
					t.Errorf("rank %d ends with %d %d\n%s%s", rank, e.out.code, e.out.signal, e.out.stdout, e.out.stderr)
				}
				if failed && rank == 1 { // its own error is none of memory
					if e.said != nil {
						t.Errorf("rank 1 reports %+v", e.said)
					}
				} else if e.said == nil || e.said.Path != "" || !strings.Contains(e.said.Why, c.why) {
					t.Errorf("rank %d reports %+v", rank, e.said)
				}
			}
		})
	}
}

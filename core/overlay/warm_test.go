package overlay

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// warm is the process that has torch imported, and forks programs (testdata/warm/sitecustomize.py).
var warm struct {
	sync.Mutex
	start    sync.Once
	requests io.Writer
	replies  map[int]chan warmReply
	failed   error
}

const warmFolder = "/proc/self/cwd" // where a program believes its main.py to be

type warmReply struct {
	ID, PID, Status int
	Ended           bool
}

func warmUp(python string) error {
	front, err := filepath.Abs("testdata/warm")
	if err != nil {
		return err
	}
	cmd := exec.Command(python, warmFolder+"/main.py") // Python makes another path absolute before it forks
	cmd.Env = environ("PYTHONPATH="+front, "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = os.Stderr
	in, _ := cmd.StdinPipe() // it is closed when this process ends, and then that one ends
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		return err
	}
	warm.requests, warm.replies = in, map[int]chan warmReply{}
	go func() {
		d := json.NewDecoder(out)
		for {
			var r warmReply
			err := d.Decode(&r)
			warm.Lock()
			if err != nil {
				warm.failed = err
				for _, c := range warm.replies {
					close(c)
				}
				warm.Unlock()
				return
			}
			warm.replies[r.ID] <- r
			warm.Unlock()
		}
	}()
	return nil
}

// warmStart is witnessStart for a program that imports torch, and of which nothing is tested that ends with that
// import. It takes a sixth of the time: TestWarm compares the two.
func warmStart(t testing.TB, dir string, env []string) witnessOutcome {
	t.Helper()
	warm.start.Do(func() { warm.failed = warmUp(python(t)) })
	into, replies := t.TempDir(), make(chan warmReply, 2)
	request := map[string]any{"dir": dir, "env": environ(env...)}
	for _, name := range []string{"stdout", "stderr"} {
		request[name] = filepath.Join(into, name)
		if err := os.WriteFile(filepath.Join(into, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	warm.Lock()
	err := warm.failed
	if err == nil {
		request["id"] = len(warm.replies)
		warm.replies[len(warm.replies)] = replies
		err = json.NewEncoder(warm.requests).Encode(request)
	}
	warm.Unlock()
	if err != nil {
		t.Fatal("the process that has torch: ", err)
	}
	var last warmReply
	for limit := time.After(5 * time.Minute); !last.Ended; {
		select {
		case r, open := <-replies:
			if !open {
				t.Fatal("the process that has torch has ended: ", warm.failed)
			}
			last = r
		case <-limit: // of a hang, as that of witnessStart
			_ = syscall.Kill(last.PID, syscall.SIGKILL)
			t.Fatalf("main.py did not end: %q", env)
		}
	}
	text := func(name string) string {
		data, err := os.ReadFile(filepath.Join(into, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(data), warmFolder, dir)
	}
	ws := syscall.WaitStatus(last.Status)
	o := witnessOutcome{stdout: text("stdout"), stderr: text("stderr"), code: ws.ExitStatus()}
	if ws.Signaled() {
		o.signal = ws.Signal()
	}
	return o
}

// A starter runs main.py in a folder, with that environment.
type starter func(t testing.TB, dir string, env []string) witnessOutcome

func coldStart(t testing.TB, dir string, env []string) witnessOutcome {
	return witnessStart(t, dir, env)
}

// A program that finds torch imported prints, ends and saves as one that imports it itself.
func TestWarm(t *testing.T) {
	for _, c := range []struct {
		family, fail string
		program      map[string]string
	}{
		{"transformers", "forward:7", wordsProgram},
		{"nanogpt", "forward:6", loopProgram},
		{"basicsr", "forward:13", neosrProgram},
		{"timm", "eval:2", epochsProgram},
		{"lightning", "eval:8", lightningProgram},
	} {
		t.Run(c.family, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			states := filepath.Join(dir, "out")
			var outs [2]witnessOutcome
			var said [2]*LastWords
			for i, start := range []starter{coldStart, warmStart} {
				if err := os.Mkdir(states, 0o755); err != nil {
					t.Fatal(err)
				}
				outs[i], said[i], _ = runWordsBy(t, start, c.family, c.program, dir, time.Minute, "FAIL="+c.fail)
				if said[i] == nil || said[i].Path == "" {
					t.Fatalf("start %d: %+v\n%s", i, said[i], outs[i].stderr)
				}
				said[i].Took = 0
				if err := os.Rename(states, states+strconv.Itoa(i)); err != nil {
					t.Fatal(err)
				}
			}
			if outs[0] != outs[1] || !reflect.DeepEqual(said[0], said[1]) || !strings.Contains(outs[0].stderr, "out of memory") {
				t.Errorf("cold:\n%+v %+v\nwarm:\n%+v %+v", outs[0], said[0], outs[1], said[1])
			}
		})
	}
}

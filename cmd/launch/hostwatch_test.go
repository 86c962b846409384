package main

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/unit"
)

// A job's largest process is found behind the one that was started, a peak between two looks is counted where nothing
// but data has changed, and one that hides behind a file that was mapped meanwhile is not made up.
func TestHostWatch(t *testing.T) {
	const story = `
import mmap, sys, time, tempfile
def say(word):
    print(word, flush=True)
    sys.stdin.readline()
def held(mib): # and not touched, which takes time
    return mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE)
say("started")
a = bytearray(200 << 20)
say("200 held")
b = held(100); b.close()                              # too short for any look
say("300 touched")
f = tempfile.TemporaryFile(); f.truncate(400 << 20)
m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)  # no data
say("mapped")
c = held(50); m.close(); c.close()                      # what is not data was less, then, than it seems now
say("unmapped")
`
	cmd := exec.Command("sh", "-c", testPython()+` -c "$0"; exit $?`, story)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	var mu sync.Mutex
	var held unit.Bytes
	var counted bool
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		hostWatch(ctx, func() int { return cmd.Process.Pid }, func(b unit.Bytes, exact bool) {
			mu.Lock()
			defer mu.Unlock()
			if b > held {
				held, counted = b, exact
			}
		})
	}()
	lines := bufio.NewScanner(out)
	var base unit.Bytes
	for _, want := range []struct {
		word  string
		least unit.Bytes // beyond the start, MiB
		exact bool
	}{{"started", 0, false}, {"200 held", 200, false}, {"300 touched", 300, true}, {"mapped", 300, true}, {"unmapped", 300, true}} {
		if !lines.Scan() || lines.Text() != want.word {
			t.Fatalf("it says %q, want %q", lines.Text(), want.word)
		}
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			mu.Lock()
			above, exact := held-base, counted
			mu.Unlock()
			ok := above >= want.least*unit.MiB && (!want.exact || exact)
			if ok && want.word == "started" {
				time.Sleep(500 * time.Millisecond) // its family is known by now
				mu.Lock()
				base = held
				mu.Unlock()
				ok = base > 0
			}
			if ok {
				time.Sleep(100 * time.Millisecond)
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("at %q: %v above the start, counted %v", want.word, above, exact)
			}
		}
		mu.Lock()
		if above := held - base; above > (want.least+2)*unit.MiB {
			t.Errorf("at %q: %v above the start, want %d MiB", want.word, above, want.least)
		}
		mu.Unlock()
		fmt.Fprintln(in)
	}
	cancel()
	<-done
	if err := cmd.Wait(); err != nil && !strings.Contains(err.Error(), "signal") {
		t.Error(err)
	}
}

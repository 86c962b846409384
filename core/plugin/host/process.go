package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/private"
)

// starter runs what starts processes on one thread that never ends: the parent-death signal is sent when the thread
// that started a process ends, not when its program does, and Go ends threads as it likes.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func onThread(f func() error) error {
	done := make(chan error, 1)
	starter() <- func() { done <- f() }
	return <-done
}

// keep is how many lines of a plugin's own words are kept for its obituary, of their beginning and of their end: a Go
// panic says first what happened, a Python traceback last.
const keep = 5

// tail keeps the first and the last lines of what a plugin's process says on its standard error.
type tail struct {
	mu          sync.Mutex
	first, last []string
	dropped     bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for line := range bytes.Lines(p) {
		s := "  " + strings.TrimSpace(string(line))
		switch {
		case len(s) == 2:
		case len(t.first) < keep:
			t.first = append(t.first, s)
		default:
			t.last = append(t.last, s)
		}
	}
	if n := len(t.last); n > keep {
		t.last, t.dropped = t.last[n-keep:], true
	}
	return len(p), nil
}

// String returns the kept lines, or "".
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := slices.Clone(t.first)
	if t.dropped {
		lines = append(lines, "  …")
	}
	return strings.Join(append(lines, t.last...), "\n")
}

// known is what the cache holds of a plugin's program.
type known struct {
	Size     int64           `json:"size"`
	Modified time.Time       `json:"modified"`
	Manifest plugin.Manifest `json:"manifest"`
}

// Asker returns a function that asks a plugin's program for its manifest, and remembers the answer in the file cache
// for as long as the program is the same. Nothing depends on the cache: a broken one is made anew.
func Asker(ctx context.Context, cache string) func(path string) (plugin.Manifest, error) {
	seen := map[string]known{}
	if b, err := private.ReadFile(cache); err == nil {
		json.Unmarshal(b, &seen)
	}
	return func(path string) (plugin.Manifest, error) {
		info, err := os.Stat(path)
		if err != nil {
			return plugin.Manifest{}, err
		}
		if k, ok := seen[path]; ok && k.Size == info.Size() && k.Modified.Equal(info.ModTime()) {
			return k.Manifest, nil
		}
		m, err := ask(ctx, path)
		if err != nil {
			return plugin.Manifest{}, err
		}
		seen[path] = known{info.Size(), info.ModTime(), m}
		if b, err := json.Marshal(seen); err == nil && private.MkdirAll(filepath.Dir(cache)) == nil {
			private.WriteFile(cache, b, 0o600)
		}
		return m, nil
	}
}

// ask starts the program once, for its manifest.
func ask(ctx context.Context, path string) (m plugin.Manifest, err error) {
	dir, err := private.Temp("launch-")
	if err != nil {
		return m, fmt.Errorf("making a folder for its socket: %w", err)
	}
	defer os.RemoveAll(dir)
	name := strings.TrimPrefix(filepath.Base(path), prefix)
	c, err := Start(ctx, Source{Manifest: plugin.Manifest{Name: name}, Path: path}, dir, nil)
	if err != nil {
		return m, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return m, c.call.Call(ctx, "Manifest", struct{}{}, &m)
}

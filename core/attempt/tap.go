package attempt

import (
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/launch-ml/launch/core/advice"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/record"
)

// tap passes what the program prints to the detector and keeps it in a file.
type tap struct {
	out, err io.Writer
	file     *record.Output
	text     *aside       // reads what the output advises; nil for a short run
	joined   bool         // standard output and standard error are the same file
	last     byte         // the last byte on the output that launch prints to
	first    atomic.Int64 // time of the first output, in Unix nanoseconds; 0 before
	latest   atomic.Int64 // and of the last one
}

func newTap(d *oom.Detector, dir string, text *advice.Text) *tap {
	t := &tap{out: d.Stream(oom.Terminal), err: d.Stream(oom.Stderr)}
	if text != nil {
		t.text = newAside(text)
	}
	if a, err := os.Stdout.Stat(); err == nil {
		b, err := os.Stderr.Stat()
		t.joined = err == nil && os.SameFile(a, b)
	}
	if dir != "" {
		// On an error the run continues without the file: a full disk must not stop a training.
		t.file, _ = record.CreateOutput(outputIn(dir))
	}
	return t
}

// outputIn is the path of an attempt's output file.
func outputIn(dir string) string { return filepath.Join(dir, record.OutputFile) }

func (t *tap) take(from proc.Stream, p []byte) {
	if len(p) > 0 {
		now := time.Now().UnixNano()
		t.first.CompareAndSwap(0, now)
		defer t.latest.Store(now)
	}
	if len(p) > 0 && (from == proc.Error || t.joined) {
		t.last = p[len(p)-1]
	}
	if from == proc.Error {
		_, _ = t.err.Write(p)
	} else {
		_, _ = t.out.Write(p)
	}
	if t.text != nil {
		t.text.write(p)
	}
	if t.file != nil {
		_, _ = t.file.Write(p) // a full disk costs the copy of the output, and not the run
	}
}

// since returns the time since the program's first output; 0 before that.
func (t *tap) since() time.Duration {
	if first := t.first.Load(); first != 0 {
		return time.Since(time.Unix(0, first))
	}
	return 0
}

// lastTime returns when the detector has last read output; the zero time before.
func (t *tap) lastTime() time.Time { return unixNano(t.latest.Load()) }

func (t *tap) midLine() bool { return t.last != 0 && t.last != '\n' }

// readAll waits until all of the output was read for advice.
func (t *tap) readAll() {
	if t.text != nil {
		t.text.close()
	}
}

func (t *tap) close() {
	t.readAll()
	if t.file != nil {
		t.file.Close()
		t.file = nil
	}
}

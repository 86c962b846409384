package oom

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
)

// trainingOutput is an hour of a trainer's lines, as they come: ten thousand of them.
func trainingOutput() []byte {
	var b bytes.Buffer
	for i := range 10000 {
		fmt.Fprintf(&b, "2025-11-21 10:00:01,000 INFO: [epoch:  0, iter: %7d, lr:(2.000e-04,)] [performance: 4.2 it/s] l_g_total: %.4e\n", i, 1/float64(i+1))
	}
	return b.Bytes()
}

// colouredOutput is the same on a terminal: colours in numbers, links, a progress bar.
func colouredOutput() []byte {
	var b bytes.Buffer
	for i := range 10000 {
		if i%2 == 0 {
			fmt.Fprintf(&b, "\r%3d%%|\x1b[32m######    \x1b[0m| %d/10000 [00:10<00:20, 4.2it/s]", i/100, i)
			continue
		}
		fmt.Fprintf(&b, "\x1b[2;36m[11/21/26 21:00:00]\x1b[0m \x1b[34mINFO    \x1b[0m [epoch:  0, iter: \x1b[1;36m%d\x1b[0m, lr:(\x1b[1;36m2.0e-04\x1b[0m,)] "+
			"\x1b]8;id=1;file:///home/user/train.py\x1b\\train.py\x1b]8;;\x1b\\:26\r\n", i)
	}
	return b.Bytes()
}

// floodOutput is what a program prints that prints nothing else, as fast as it can: lines of 64 bytes, and the carriage
// return that a terminal adds.
func floodOutput() []byte { return bytes.Repeat([]byte(strings.Repeat("x", 63)+"\r\n"), 10000) }

// BenchmarkCost reads ten thousand lines, a second of output of a program that prints as fast as it can:
// docs/measured.md has what it costs. Beside it stands what copying the bytes costs anyway.
func BenchmarkCost(b *testing.B) {
	for _, in := range []struct {
		name string
		text []byte
	}{{"plain", trainingOutput()}, {"coloured", colouredOutput()}, {"flood", floodOutput()}} {
		b.Run(in.name+"/copy", func(b *testing.B) {
			b.SetBytes(int64(len(in.text)))
			for b.Loop() {
				if _, err := io.CopyBuffer(struct{ io.Writer }{&sink}, struct{ io.Reader }{bytes.NewReader(in.text)}, make([]byte, 4096)); err != nil {
					b.Fatal(err)
				}
				sink.Reset()
			}
		})
		for name, signs := range map[string]job.Signs{"detector": {}, "detector with signs": trainer} {
			b.Run(in.name+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(in.text)))
				b.ReportAllocs()
				d := newDetector(b, signs)
				w := d.Stream(Terminal)
				for b.Loop() {
					for at := 0; at < len(in.text); at += 4096 {
						if _, err := w.Write(in.text[at:min(at+4096, len(in.text))]); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}

var sink bytes.Buffer

func BenchmarkReport(b *testing.B) {
	d := newDetector(b, job.Signs{})
	if _, err := d.Write(fixtureNamed(b, "real/rich_terminal").log); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		d.Report(Exit{})
	}
}

// BenchmarkNew: the Detector is made before the program starts, and must not hold it up.
func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		newDetector(b, trainer)
	}
}

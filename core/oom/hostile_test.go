package oom

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
)

// hostile are texts that would make a careless reader quadratic.
func hostile(n int) map[string]string {
	long := func(s string) string { return strings.Repeat(s, (16<<10-2)/len(s)) }
	many := func(s string) string { return strings.Repeat(s+"\n", n) }
	return map[string]string{
		"messages in long lines": many("RuntimeError: CUDA out of memory. Tried to allocate " + long("1.00 GiB ")),
		"words in long lines":    many(long("CUDA out of memory. Tried to allocate 1.00 GiB. ")),
		"names":                  many("error: " + long("a.b_c") + "Error"),
		"digits":                 many("Traceback error: " + long("9")),
		"commas":                 many("out of memory " + long("1,")),
		"shape":                  many("OOM when allocating tensor with shape[" + long("1,") + "] and type float on /job"),
		"spaces":                 many("error:" + long(" ") + "x"),
		"colons":                 many("out of memory" + long(":[(|")),
		"boxes":                  many("│ out of memory " + long("│ ")),
		"frames":                 many(long("  File \"a.py\", line 1, in f ") + "error:"),
		"processes":              many("out of memory. " + long("Process 1 has 1.00 GiB memory in use. ")),
		"numbers":                many("1" + long("000 MiB ") + "out of memory"),
		"short memory":           many("CUDA out of memory. Tried to allocate 1 GiB"),
		"bars":                   many("out of memory " + long("1/2 [00:00<")),
		"words of phases":        many("out of memory " + long("loading model weights ")),
		"dots":                   many("torch.OutOfMemoryError: " + long("a.")),
		"escapes in JSON":        many("error: " + long(`\u001b[0m`)),
		"prefixes":               many(long("[rank0]: ") + "error:"),
	}
}

// hostileLines is low for a test that is run often; LAUNCH_HOSTILE_LINES=1500 is what a stream may send in a second.
func hostileLines(t *testing.T) int {
	s := os.Getenv("LAUNCH_HOSTILE_LINES")
	if s == "" {
		return 12
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestHostile: a report on lines of 16 KiB that nearly match everything takes no time to speak of. The bound is a wide one,
// for slow machines: it was some milliseconds a line, and half a second a line before rows had a longest length.
func TestHostile(t *testing.T) {
	n := hostileLines(t)
	for name, text := range hostile(n) {
		t.Run(name, func(t *testing.T) {
			d := newDetector(t, job.Signs{})
			if _, err := d.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			d.Report(Exit{})
			took := time.Since(start)
			t.Logf("%d KiB: reported in %v", len(text)>>10, took)
			if most := 20*time.Second + time.Duration(n)*20*time.Millisecond; took > most {
				t.Errorf("the report took %v, more than %v", took, most)
			}
		})
	}
}

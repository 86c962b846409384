package oom

import (
	"io"
	"testing"

	"github.com/launch-ml/launch/core/job"
)

// An exit of 0 behind an error that is the last thing printed is no plain success. A notice of Python's at its end, or
// an error after which anything was printed, shows nothing.
func TestBroken(t *testing.T) {
	const trace = "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\n    g()\n    ^^^\n"
	for name, tt := range map[string]struct{ out, err, want string }{
		"an error":    {"", trace + "ValueError: boom\n", "ValueError: boom"},
		"of a logger": {"", "ERROR:root:failed\n" + trace + "torch.SomeError: x\n", "torch.SomeError: x"},
		"of another error": {"", trace + "KeyError: 1\n\nDuring handling of the above exception, another exception " +
			"occurred:\n\n" + trace + "ValueError: y\n", "ValueError: y"},
		"something after it":      {"", trace + "ValueError: boom\nsaved\n", ""},
		"in another thread":       {"", "Exception in thread Thread-1:\n" + trace + "ValueError: boom\n", ""},
		"at Python's end":         {"", "Exception ignored in: <function f>\n" + trace + "TypeError: x\n", ""},
		"a warning":               {"", "t.py:3: UserWarning: x\n  warn()\n", ""},
		"an output just before":   {"step 3\n", trace + "ValueError: boom\n", ""},
		"words of an error alone": {"", "ValueError: boom\n", ""},
	} {
		d, err := NewDetector(job.Signs{})
		if err != nil {
			t.Fatal(err)
		}
		if tt.out != "" {
			io.WriteString(d.Stream(Stdout), tt.out)
		}
		io.WriteString(d.Stream(Stderr), tt.err)
		d.End()
		if v := d.Judge(Seen{Exit: Exit{Known: true}}, job.Signs{}); v.Broken != tt.want {
			t.Errorf("%s: %q, want %q", name, v.Broken, tt.want)
		}
	}
}

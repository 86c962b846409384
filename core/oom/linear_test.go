package oom

import (
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
)

// What a text costs grows with its length alone, whatever is in it: also as one line.
func TestLinear(t *testing.T) {
	const oom = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
	for name, part := range map[string]string{
		"one line of words":      "CUDA out of memory ",
		"one line of errors":     "RuntimeError: CUDA out of memory. ",
		"one line of quotes":     "'CUDA out of memory' ",
		"one line of exceptions": "ValueError: ",
		"one line of bars":       "|",
		"lines":                  oom + "\n",
		"tracebacks":             "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    x()\n" + oom + "\n",
		"the kernel's lines":     "[1.1] Out of memory: Killed process 7 (python) total-vm:1kB\n",
		"JSON":                   `{"level":"error","msg":"CUDA out of memory. Tried to allocate 2.00 GiB"}` + "\n",
		"redrawn":                "CUDA out of memory\r",
	} {
		const size = 1 << 20
		d := newDetector(t, trainer)
		began := time.Now()
		write(t, d, Terminal, strings.Repeat(part, size/len(part))+"\n"+oom+"\n")
		d.Judge(Seen{Exit: Exited(1)}, job.Signs{})
		// a busy machine takes many times as long as an idle one; what is not linear takes minutes
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

package oom

import (
	"fmt"
	"testing"

	"github.com/launch-ml/launch/core/oom/printed"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/unit"
)

// reported is the report of a text whose program's exit nobody saw.
func reported(t *testing.T, text string) Report {
	t.Helper()
	d := newDetector(t, job.Signs{})
	d.Write([]byte(text))
	return d.Report(Exit{})
}

// What glibc says of a refused allocation in other languages is what it says in English.
func TestRefusedInOtherLanguages(t *testing.T) {
	for _, words := range printed.NotAllocated {
		for _, text := range []string{
			"run.sh: line 3: fork: " + words + "\n",
			"Traceback (most recent call last):\n  File \"/home/u/a.py\", line 12, in load\n    b = mmap.mmap(-1, n)\nOSError: [Errno 12] " + words + "\n",
			"step 3 loss 0.1\nmalloc: " + words + ".",
		} {
			if r := reported(t, text); !r.OOM || !r.Fatal || r.Kind != CPUAlloc {
				t.Errorf("%q: %+v", text, r)
			}
		}
		for _, text := range []string{
			"\"" + words + "\" steht in der Dokumentation\n", // talked about
			"# " + words + " (ENOMEM)\nprint('x')\n",
			"loss 0.1\n",
		} {
			if r := reported(t, text); r.OOM {
				t.Errorf("%q: %+v", text, r)
			}
		}
	}
}

// What bash says of a killed command in other languages is what it says in English.
func TestKilledInOtherLanguages(t *testing.T) {
	lines := []string{"fit.sh: línea 7: %s", "fit.sh : ligne 7 : %s", "fit.sh: 7. sor: %s", "fit.sh: linio 7ª: %s", "fit.sh: 7 行: %s", "fit.sh: 第 7 行：%s", "fit.sh：第 7 行： %s",
		"fit.sh: 줄 7: %s", "fit.sh, linha 7: %s", "fit.sh: γραμμή 7: %s", "fit.sh línia 7: %s", "fit.sh: rivi 7:%s"}
	for i, word := range append([]string{"Killed"}, printed.KilledAbroad...) {
		text := fmt.Sprintf("step 1 loss 0.5\n"+lines[i%len(lines)], fmt.Sprintf("%5d %-24s python fit.py\n", 811, word))
		if r := reported(t, text); !r.Possible || r.OOM || !r.Fatal || r.Kind != HostOOM || r.Confidence != Weak {
			t.Errorf("%q: %+v", text, r)
		}
	}
	for text, want := range map[string]bool{
		"[1]+  Matado                  python fit.py\n": true, "Tué\n": true, "已杀死\n": true, "Getötet\n": true,
		"Mort\n": false, "  Mort  \n": false, "le chat est Mort \n": false, "class 3: 811 Mortar and 12 more\n": false, "personaje: Matado por el tigre\n": false, "шаг 3: 811 Убитых\n": false,
	} {
		if r := reported(t, text); r.OOM || r.Possible != want || r.Fatal != want {
			t.Errorf("%q: %+v", text, r)
		}
	}
}

// DeepSpeed's launcher says how a rank ended in its own log; nothing more need be known of it.
func TestDeepSpeedKilled(t *testing.T) {
	const launcher = "[2024-03-01 10:00:00,123] [INFO] [launch.py:316:sigkill_handler] Killing subprocess 4711\n" +
		"[2024-03-01 10:00:00,500] [ERROR] [launch.py:322:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py', '--local_rank=1'] exits with return code = "
	if r := reported(t, launcher+"-9\n"); !r.Possible || r.OOM || !r.Fatal || r.Kind != HostOOM || r.Confidence != Weak {
		t.Errorf("killed: %+v", r)
	}
	if r := reported(t, launcher+"1\n"); r.OOM || r.Possible {
		t.Errorf("ended by itself: %+v", r)
	}
	if r := reported(t, "Traceback (most recent call last):\n  File \"/home/u/train.py\", line 9, in "+
		"<module>\nKeyError: 'x'\n"+launcher+"-9\n"); r.OOM || r.Possible || r.Cause != "KeyError: 'x'" {
		t.Errorf("of something else: %+v", r)
	}
}

// Arrow's name for it says which memory; its own frames, which Cython names as they were built, are nobody's.
func TestArrow(t *testing.T) {
	r := reported(t, `Traceback (most recent call last):
  File "/home/u/prep.py", line 12, in <module>
    t = pq.read_table("a.parquet")
  File "/x/site-packages/pyarrow/parquet/core.py", line 3, in read_table
    return dataset.read()
  File "pyarrow/error.pxi", line 115, in pyarrow.lib.check_status
pyarrow.lib.ArrowMemoryError: malloc of size 8589934592 failed
`)
	if !r.OOM || !r.Fatal || r.Kind != CPUAlloc || unit.Value(r.Requested) != 8*unit.GiB ||
		r.Frame != "prep.py:12 in <module>" {
		t.Errorf("%+v", r)
	}
}

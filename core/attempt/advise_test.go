package attempt

import (
	"fmt"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/unit"
)

// What has not begun is ahead: not what has, what training needs, and what nobody knows.
func TestNotYet(t *testing.T) {
	priced := map[string]unit.Bytes{"training": 5, "validation": 7, "test": 6, "sampling": 0, "encoding": 3}
	got := fmt.Sprint(notYet(priced, []string{"training", "encoding"}, 9))
	if want := "[{test 6 B 9 B} {validation 7 B 9 B}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A run prints each advice once, over all its attempts, and three at most. It names the signal that saves and stops
// where there is one, and only for what makes the training fail.
func TestTell(t *testing.T) {
	x := &Executor{}
	var told []string
	for _, name := range []string{"a", "b", "a", "c", "d", "b"} {
		if x.tell(job.Advice{Name: name}) {
			told = append(told, name)
		}
	}
	if strings.Join(told, "") != "abc" {
		t.Errorf("%q were printed", told)
	}
	fails := job.Advice{Weight: job.Fails, Change: "stop it"}
	if got := x.withStop(fails).Change; got != "stop it" {
		t.Errorf("without a record: %q", got)
	}
	x.Record, x.Job = &record.Record{ID: "r"}, &job.Job{}
	if got := x.withStop(fails).Change; got != "stop it" {
		t.Errorf("without saved states: %q", got)
	}
	x.Job.Signs.States = []string{"*.pt"}
	if got := x.withStop(fails).Change; got != "stop it; launch stop --save r stops it after it has saved its state" {
		t.Errorf("%q", got)
	}
	if got := x.withStop(job.Advice{Weight: job.Slow, Change: "x"}).Change; got != "x" {
		t.Errorf("for what is slow: %q", got)
	}
}

package attempt

import (
	"testing"
	"time"

	"github.com/launch-ml/launch/core/run"
)

// What a program makes at its very end is its attempt's, though launch took a while to start it.
func TestSpanOf(t *testing.T) {
	began := time.Now()
	started := began.Add(300 * time.Millisecond)
	s := SpanOf(&run.Outcome{Began: began, Took: 50 * time.Millisecond})
	if made := started.Add(50 * time.Millisecond); made.Before(s.Began) || made.After(s.Ended) {
		t.Errorf("%v does not lie within %v", made, s)
	}
}

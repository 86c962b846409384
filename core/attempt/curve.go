package attempt

import (
	"encoding/json"
	"path/filepath"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/observe"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/record"
)

// curveEvery is how often the memory over time is written while a program runs. A kill of launch loses no more than
// that.
const curveEvery = time.Minute

// keepCurve writes the memory over time into the attempt's folder, once a minute and at the end. stop stops the watch,
// and then writes all of it. Where it cannot be written, as on a full disk, only the curve is lost.
func keepCurve(dir string, watch *observe.Watch) (stop func()) {
	if dir == "" {
		return watch.Stop
	}
	write := func() {
		if c := watch.Curve(); c != nil {
			if text, err := json.Marshal(c); err == nil {
				_ = private.WriteFile(filepath.Join(dir, record.CurveFile), text, 0o600)
			}
		}
	}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(curveEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				write()
			}
		}
	}()
	return sync.OnceFunc(func() {
		watch.Stop()
		close(end)
		<-done
		write()
	})
}

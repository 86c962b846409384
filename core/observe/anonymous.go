package observe

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"time"

	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/unit"
)

// anonLook is the time between two looks at the anonymous memory: a leak that matters takes many minutes.
const anonLook = 15 * time.Second

// watchAnon reads the anonymous memory of the job until ctx is done.
func watchAnon(ctx context.Context, pid func() int, see func(time.Time, unit.Bytes)) {
	tick := time.NewTicker(anonLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if held := anonOf(pid()); held > 0 {
				see(now, held)
			}
		}
	}
}

// anonOf is the anonymous memory of a process and its descendants (proc_pid_status(5), RssAnon); 0 if it is unknown.
func anonOf(root int) (sum unit.Bytes) {
	if root <= 0 {
		return 0
	}
	for _, pid := range proc.Family(root) {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil {
			continue
		}
		if _, rest, ok := bytes.Cut(text, []byte("\nRssAnon:")); ok {
			if f := bytes.Fields(rest); len(f) > 0 {
				kib, _ := strconv.ParseInt(string(f[0]), 10, 64)
				sum += unit.Bytes(kib) * unit.KiB
			}
		}
	}
	return sum
}

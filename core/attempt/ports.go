package attempt

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/launch-ml/launch/core/job"
)

// portLimit is how long the next attempt waits for the port at which its ranks meet. A process that was killed gives
// its
// port back only after the driver has released its memory on the card.
const portLimit = 30 * time.Second

// waitForPort waits until a process of an earlier attempt has given back the port at which the ranks meet. The first
// attempt does not wait: who has the port then is none of ours.
func (x *Executor) waitForPort(ctx context.Context, c job.Command) {
	port := meetingPort(c)
	if port == "" || x.attempts == 0 || free(port) {
		return
	}
	x.BreakLine()
	x.Report.Line("waiting until port %s, where the ranks meet, is free", port)
	limit, stop := context.WithTimeout(ctx, portLimit)
	defer stop()
	for !free(port) {
		select {
		case <-limit.Done():
			x.Report.Warn("port %s is still in use", port)
			return
		case <-time.After(look):
		}
	}
}

// meetingPort returns the port that a command fixes for its ranks; "" for none.
func meetingPort(c job.Command) string {
	prog, err := c.Prog()
	if err != nil {
		return ""
	}
	if prog.Port != "" || len(prog.Launchers) > 0 {
		return prog.Port
	}
	for _, kv := range prog.Environ(c.Env) {
		if port, ok := strings.CutPrefix(kv, "MASTER_PORT="); ok {
			return port
		}
	}
	return ""
}

// free reports whether a port of this machine can be had. What cannot be found out does not keep an attempt.
func free(port string) bool {
	l, err := net.Listen("tcp", ":"+port)
	if err == nil {
		l.Close()
	}
	return !errors.Is(err, syscall.EADDRINUSE)
}

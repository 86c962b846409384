package attempt

import (
	"context"
	_ "embed"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/launch-ml/launch/core/overlay"
)

//go:embed shield.py
var shield []byte

// shieldOf returns the part of the hook that keeps notices from ending the program, and the variable that it reads.
// over is the file that allows the end. The program's way to save, and Ctrl-C, stay what they are.
func (x *Executor) shieldOf(dir string) (part overlay.Part, env, over string, ok bool) {
	var numbers []string
	for _, n := range x.Leave {
		if n.Signal != syscall.SIGINT && n.Signal != x.Job.Save.Number() {
			numbers = append(numbers, strconv.Itoa(int(n.Signal)))
		}
	}
	slices.Sort(numbers)
	over = filepath.Join(dir, "shield.over")
	env = "LAUNCH_SHIELD=" + strings.Join(slices.Compact(numbers), ",") + ":" + over
	return overlay.Part{Name: "shield.py", Text: shield}, env, over, len(numbers) > 0
}

// unshielded returns a context that is done when ctx is, but only after the program may end by a signal.
func unshielded(ctx context.Context, over string) context.Context {
	if over == "" {
		return ctx
	}
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		_ = os.WriteFile(over, nil, 0o600) // without it the program is killed after the grace
		cancel()
	})
	return out
}

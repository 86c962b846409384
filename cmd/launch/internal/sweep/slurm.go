package sweep

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/signal"
	"syscall"

	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/local"
	"github.com/launch-ml/launch/core/sweep/slurm"
	"github.com/launch-ml/launch/core/ui"
)

// runner returns what runs the trials of a sweep, and which of them run together.
func (d *driver) runner(
	ctx context.Context, spec sweep.Spec, dir string,
) (sweep.Executor, sweep.Admission, func(), error) {
	if spec.Engine == nil {
		return d.executor(spec, dir), sweep.Jobs(max(1, spec.Jobs)), func() {}, nil
	}
	x, err := d.tasks(ctx, spec, dir)
	if err != nil {
		return nil, nil, nil, err
	}
	// the tasks go on when the user leaves, and so does what collects their results
	signal.Ignore(syscall.SIGHUP)
	return x, sweep.Jobs(math.MaxInt), x.Close, nil // Slurm decides which run together
}

// leaveTasks returns after the tasks were submitted.
func leaveTasks(x sweep.Executor, h *sweep.History, say ui.Printer) error {
	if tasks, ok := x.(*slurm.Executor); ok {
		if err := tasks.Flush(); err != nil {
			return err
		}
	}
	name := h.Spec.Name
	say.Line("sweep %s is submitted and goes on by itself: launch sweep status %s; "+
		"launch sweep resume %s waits for its end", name, name, name)
	return nil
}

// tasks returns the executor of a sweep on Slurm.
func (d *driver) tasks(ctx context.Context, spec sweep.Spec, dir string) (*slurm.Executor, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding launch itself: %w", err)
	}
	e := spec.Engine
	o := slurm.Options{
		Launch: own, Dir: dir, Flags: append(withoutNotices(d.notices, spec.Flags), "--state-dir="+d.state),
		Folder: local.In(d.state).Folder(spec.Name), State: d.state, Sbatch: e.Options, Throttle: e.Throttle,
		Memory: e.Memory, GPUs: e.GPUs, Before: e.Before,
	}
	if spec.ID != "" {
		o.Mark = spec.Mark
	}
	return slurm.New(ctx, o)
}

// stopTasks asks the tasks of a sweep that no process drives to stop.
func (d *driver) stopTasks(ctx context.Context, h *sweep.History, now bool) error {
	x, err := d.tasks(ctx, h.Spec, h.Spec.Dir)
	if err != nil {
		return err
	}
	defer x.Close()
	found, err := x.Tasks(ctx)
	if err != nil {
		return err
	}
	for n := range found {
		x.End(n, now)
	}
	if len(found) == 0 {
		return fmt.Errorf("sweep %s is not running", h.Spec.Name)
	}
	ui.Printer{W: os.Stdout}.Line("no process drives sweep %s: asked its %s to stop", h.Spec.Name,
		ui.Count(len(found), "task"))
	return nil
}

package sweep

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/result"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/local"
	"github.com/launch-ml/launch/core/ui"
)

// drive drives a sweep whose journal this process holds, and sends its notice. It closes the journal. trials is
// the list of a new sweep.
func (d *driver) drive(
	ctx context.Context, j *local.Journal, h *sweep.History, trials []sweep.Trial, t sweep.Template, detach bool,
) error {
	why, err := d.toItsEnd(ctx, j, h, trials, t, detach)
	if why != sweep.Detached {
		result.Send(d.say, d.notices, sweepNotice(h, why, err))
	}
	return err
}

// closeJournal warns where the disk may not have all of the sweep.
func closeJournal(j *local.Journal, say ui.Printer) {
	if err := j.Close(); err != nil {
		say.Warn("recording the sweep: %v", err)
	}
}

// toItsEnd is drive without the notice. It returns why the sweep was stopped, "" if it was not.
func (d *driver) toItsEnd(
	ctx context.Context, j *local.Journal, h *sweep.History, trials []sweep.Trial, t sweep.Template, detach bool,
) (string, error) {
	say := d.say
	defer closeJournal(j, say)
	x, admission, leave, err := d.runner(ctx, h.Spec, t.Dir)
	if err != nil {
		return "", err
	}
	defer leave()
	searcher, end, err := searcherOf(h, t, trials)
	if err != nil {
		return "", err
	}
	stops := make(chan string, 1)
	p, err := d.packer(ctx, h, x, stops)
	if err != nil {
		return "", err
	}
	defer p.close()
	running := &sweep.Sweep{History: h, Searcher: searcher, Template: t, Executor: x,
		Admission: p.or(admission), Journal: j,
		Detach: detach, Stops: stops, Ticks: p.ticks(), Changed: func(r *sweep.Row) { say.Trial(h, r) },
		Same: func() string { return sameCode(d.state, h, t.Command, d.accept) }}
	signalled := 0
	ignore := passSignals(stops, func(c int) { signalled = c })
	why, err := running.Drive(ctx)
	end()
	ignore()
	if why == sweep.Detached && err == nil {
		return why, leaveTasks(x, h, say)
	}
	if _, asks := searcher.(sweep.Remote); err != nil && asks {
		return why, fmt.Errorf("%w; launch sweep resume %s starts it again and tells it what came of the "+
			"trials", err, h.Spec.Name)
	}
	if err != nil {
		return "", err
	}
	code := signalled
	switch {
	case why == "":
		code = h.Code()
	case signalled == 0 && running.Unlike:
		code = run.OwnTrouble
	case signalled == 0 && p.gaveUp():
		code = run.TryLater
	}
	if err := j.Write(sweep.Event{Version: sweep.Version, Time: time.Now(), Kind: sweep.Stopped, Why: why,
		Code: code}); err != nil {
		say.Warn("recording the sweep: %v", err)
	}
	say.SweepEnd(h, why, code)
	if err := d.write(h); err != nil {
		say.Warn("%v", err)
	}
	if code != 0 {
		return why, cli.ExitCode(code)
	}
	return why, nil
}

// passSignals sends the name of each signal that asks launch to stop to stops, until the function that it returns is
// called. Signals that launch was started with ignored have no effect. SIGINT is then taken all the same, so that it
// is not ignored in the trials: it is how they are asked to stop.
func passSignals(stops chan<- string, note func(code int)) (end func()) {
	signals, ended, over := make(chan os.Signal, 2), make(chan struct{}), make(chan struct{})
	ignored := map[os.Signal]bool{}
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if ignored[sig] = signal.Ignored(sig); !ignored[sig] || sig == syscall.SIGINT {
			signal.Notify(signals, sig)
		}
	}
	go func() {
		defer close(over)
		for {
			select {
			case sig := <-signals:
				if ignored[sig] {
					continue
				}
				note(128 + cli.Number(sig))
				select {
				case stops <- sig.String():
				case <-ended:
				}
			case <-ended:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(ended)
		<-over
	}
}

// write writes a sweep to --json-file.
func (d *driver) write(h *sweep.History) error {
	if d.result.File == "" {
		return nil
	}
	doc, err := cli.JSON(ui.SweepDocument(h, local.In(d.state).Folder(h.Spec.Name), 0))
	if err == nil {
		err = private.Save(d.result.File, doc)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", d.result.File, err)
	}
	return nil
}

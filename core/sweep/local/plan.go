package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/sweep"
)

// Plan prices trials, each by a `launch plan` of its own; several at the same time. The first error ends it. With
// probe, if no plugin recognises the first trial's command, the others are not priced.
func (x *Executor) Plan(ctx context.Context, t sweep.Template, trials []sweep.Trial, probe bool) ([]sweep.Quote,
	error) {
	quotes, errs := make([]sweep.Quote, len(trials)), make([]error, len(trials))
	if len(trials) == 0 {
		return nil, nil
	}
	if quotes[0], errs[0] = x.plan(ctx, t, trials[0]); errs[0] != nil || probe && quotes[0].Plugin == "" {
		return quotes[:1], errs[0]
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	next := make(chan int)
	for range min(runtime.NumCPU(), len(trials)) {
		all.Go(func() {
			for i := range next {
				if quotes[i], errs[i] = x.plan(ctx, t, trials[i]); errs[i] != nil {
					cancel()
				}
			}
		})
	}
	for i := 1; i < len(trials) && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	all.Wait()
	for _, err := range errs { // those that were cut short because of another are not the reason
		if err != nil && !errors.Is(err, context.Canceled) {
			return nil, err
		}
	}
	return quotes, ctx.Err()
}

// plan prices one trial.
func (x *Executor) plan(ctx context.Context, t sweep.Template, trial sweep.Trial) (sweep.Quote, error) {
	inv, err := t.Render(trial)
	if err != nil {
		return sweep.Quote{}, err
	}
	args := append([]string{"launch", "plan", "--json"}, slices.Concat(x.Pricing, x.Flags)...)
	for _, set := range inv.Set {
		args = append(args, "--set="+set)
	}
	cmd := exec.CommandContext(ctx, x.Launch)
	cmd.Args = slices.Concat(args, []string{"--"}, inv.Args)
	cmd.Dir, cmd.Env = x.Dir, append(os.Environ(), inv.Env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == run.CannotFit {
		err = nil
	}
	if ctx.Err() != nil {
		return sweep.Quote{}, ctx.Err()
	}
	if err != nil {
		why := strings.TrimPrefix(strings.TrimSpace(errOut.String()), "launch: ")
		if why == "" {
			why = err.Error()
		}
		return sweep.Quote{}, fmt.Errorf("trial %d: %s", trial.Number, why)
	}
	return sweep.ReadQuote(trial.Number, out.Bytes())
}

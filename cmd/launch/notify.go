package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/launch-ml/launch/core/report"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/ui"
)

// notify sends a notice to the places that the user has set; nil is none. What goes wrong is a warning. A signal ends
// the sending, and nothing else: the run has ended.
func (s settings) notify(say ui.Printer, n *report.Notice) {
	if n == nil || len(s.Notify) == 0 {
		return
	}
	if s.NotifyHost {
		n.Host, _ = os.Hostname()
	}
	ctx, end := context.Background(), func() {}
	if !signal.Ignored(syscall.SIGHUP) {
		ctx, end = signal.NotifyContext(ctx, syscall.SIGHUP)
	}
	defer end()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	for _, err := range s.sender().Send(ctx, s.Notify, n.Masked(masking())) {
		say.Warn("%v", err)
	}
}

// sender returns what sends notices.
func (s settings) sender() report.Sender { return report.Sender{Limit: noticeLimit} }

// noticeLimit is how long sending a notice may take, and so how much later launch exits at most.
var noticeLimit = report.NoticeLimit

// notice returns the notice of a result; nil if there is none to send: of one node of several, node 0 sends it, and a
// program that takes the place of launch is not to wait.
func (r result) notice(s settings) *report.Notice {
	if r.Ending == notWatched {
		return nil
	}
	n := &report.Notice{Kind: "run", Name: r.Run, Ending: string(r.Ending), Code: r.Code, Why: r.Error}
	if r.Job != nil {
		n.Job = ui.Title(r.Job)
		if at, err := s.place(r.Job.Command); err == nil && at.Node > 0 {
			return nil
		}
	}
	outs := []*run.Outcome{}
	for i := range r.Attempts {
		outs = append(outs, &r.Attempts[i].Outcome)
	}
	if r.Outcome != nil {
		outs = append(outs, r.Outcome)
	}
	for _, out := range outs {
		n.Took += out.Took.Seconds()
	}
	trial := func(a run.Attempt) bool { return a.Plan.Trial != "" }
	n.Attempts = len(outs) - len(r.Attempts) + len(slices.DeleteFunc(slices.Clone(r.Attempts), trial))
	if len(outs) > 0 {
		last := outs[len(outs)-1]
		n.Why, n.Peak, n.PeakIs = last.Cause, last.Peak, last.PeakIs
		if last.Doubtful != "" && r.Ending == run.Succeeded {
			n.Ending, n.Why = run.Doubtful, last.Doubtful
		}
		if last.Report.OOM {
			n.Verdict = string(last.Report.Kind)
		}
	}
	if r.Stop != nil && r.Stop.Why != n.Ending {
		n.Why = r.Stop.Why
	}
	return n
}

// sweepNotice returns the notice of a sweep that has ended or was stopped.
func sweepNotice(h *sweep.History, why string, err error) *report.Notice {
	n := &report.Notice{Kind: "sweep", Name: h.Spec.Name, Ending: string(sweep.Succeeded), Why: why,
		Trials: ui.Counts(h)}
	var code exitCode
	var own *ownExit
	switch {
	case errors.As(err, &code):
		n.Ending, n.Code = string(sweep.Failed), int(code)
	case errors.As(err, &own):
		n.Ending, n.Code, n.Why = string(sweep.Failed), own.code, err.Error()
	case err != nil:
		n.Ending, n.Code, n.Why = string(sweep.Failed), run.OwnTrouble, err.Error()
	}
	if why != "" {
		n.Ending = "stopped"
	}
	return n
}

// withoutNotices returns the flags of a sweep's trials: the sweep sends one notice, and its trials none, but those that
// flags in the sweep's file ask for.
func (s settings) withoutNotices(flags []string) []string {
	if len(s.Notify) == 0 {
		return slices.Clone(flags)
	}
	return slices.Concat([]string{"--notify=" + noNotice}, flags)
}

package result

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/launch-ml/launch/cmd/launch/internal/records"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/report"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

// Send sends a notice to the places that the user has set; nil is none. What goes wrong is a warning. A signal ends
// the sending, and nothing else: the run has ended.
func Send(say ui.Printer, to settings.Notices, n *report.Notice) {
	if n == nil || len(to.To) == 0 {
		return
	}
	if to.Host {
		n.Host, _ = os.Hostname()
	}
	ctx, end := context.Background(), func() {}
	if !signal.Ignored(syscall.SIGHUP) {
		ctx, end = signal.NotifyContext(ctx, syscall.SIGHUP)
	}
	defer end()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	for _, err := range (report.Sender{Limit: NoticeLimit}).Send(ctx, to.To, n.Masked(records.Masking())) {
		say.Warn("%v", err)
	}
}

// NoticeLimit is how long sending a notice may take, and so how much later launch exits at most.
var NoticeLimit = report.NoticeLimit

// noticeOf returns the notice of a result; nil if there is none to send: of one node of several, node 0 sends it, and a
// program that takes the place of launch is not to wait.
func noticeOf(nodes settings.Nodes, r Result) *report.Notice {
	if r.Ending == NotWatched {
		return nil
	}
	n := &report.Notice{Kind: "run", Name: r.Run, Ending: string(r.Ending), Code: r.Code, Why: r.Error}
	if r.Job != nil {
		n.Job = ui.Title(r.Job)
		if at, err := nodes.Place(r.Job.Command); err == nil && at.Node > 0 {
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

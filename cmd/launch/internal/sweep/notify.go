package sweep

import (
	"errors"
	"slices"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/report"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/ui"
)

// sweepNotice returns the notice of a sweep that has ended or was stopped.
func sweepNotice(h *sweep.History, why string, err error) *report.Notice {
	n := &report.Notice{Kind: "sweep", Name: h.Spec.Name, Ending: string(sweep.Succeeded), Why: why,
		Trials: ui.Counts(h)}
	var code cli.ExitCode
	var own *cli.OwnExit
	switch {
	case errors.As(err, &code):
		n.Ending, n.Code = string(sweep.Failed), int(code)
	case errors.As(err, &own):
		n.Ending, n.Code, n.Why = string(sweep.Failed), own.Code, err.Error()
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
func withoutNotices(to settings.Notices, flags []string) []string {
	if len(to.To) == 0 {
		return slices.Clone(flags)
	}
	return slices.Concat([]string{"--notify=" + settings.NoNotice}, flags)
}

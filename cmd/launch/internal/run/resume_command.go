package run

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/reading"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
)

// NewResume makes launch resume.
func NewResume(f *cli.Factory) *cobra.Command {
	var fromStart bool
	c := &cobra.Command{
		Use: "resume RUN [-- COMMAND ...]", Short: "continue a run that was interrupted, that stopped, or whose " +
			"launch was killed", Args: runAndCommand,
		Long: `resume continues a run from its newest saved state, on the rung that the run had reached. It takes a
run that was interrupted, that failed for a reason which is fixed now, that stopped because no allowed
rung was left, or whose launch was killed. The cost that the run was allowed when it began still holds,
unless --allow gives another one. The run goes on only as what it began: if its code, arguments, data,
environment, Python or packages have changed since, resume lists what and ends with 125; --accept goes
on all the same and marks the run as mixed. A changed recipe is no hindrance: the run keeps the one that
it began with. A run without a saved state, or whose program cannot resume, starts over only with
--from-start.

Secrets of a command are not recorded. To resume such a run, type the whole command again after --.`,
		Example: "  launch resume last\n  launch resume last --allow recipe\n  launch resume last --from-start\n  launch resume last -- python train.py --wandb-token \"$TOKEN\"",
		RunE: settings.With(func(c *cobra.Command, s settings.Values, args []string) error {
			if c.Flags().Changed(settings.SetFlag) {
				return fmt.Errorf("a run keeps the settings that it began with; `launch --%s` starts another run", settings.SetFlag)
			}
			again := &resumption{Carrier: carrier(f, c, s), row: s.Row.Mark, limits: s.Limits,
				allowTyped: c.Flags().Changed("allow"), // else the cost that the run began with holds
				foresee:    reading.New(f, s.State, s.Room, s.Limits, s.Reading).Foresight(nil)}
			if fromStart {
				again.over = always
			}
			err := again.resume(c.Context(), args[0], args[1:])
			again.Results.Failed(again.Say, err)
			return err
		}),
	}
	settings.AddSet(c.Flags())
	settings.AddAccept(c.Flags())
	c.Flags().Lookup(settings.SetFlag).Hidden = true // for its error only
	c.Flags().BoolVar(&fromStart, "from-start", false, "start the run over, even if it has a saved state")
	settings.Use(c, settings.RoomFlags, settings.AgainFlags, settings.StateFlags,
		settings.ResultFlags, settings.ProgramFlags, settings.TraceFlags)
	return cli.SameExits(c, cli.RunExits)
}

// runAndCommand checks the arguments of resume: a run, and after -- the run's command.
func runAndCommand(c *cobra.Command, args []string) error {
	before := args
	if dash := c.ArgsLenAtDash(); dash >= 0 {
		before = args[:dash]
	}
	return cli.Takes(1, 1, "one run, which launch runs lists, or the word last; a command goes after --")(c, before)
}

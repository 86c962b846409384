package sweep

import (
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/sweep/local"
	"github.com/launch-ml/launch/core/ui"
)

func newStop() *cobra.Command {
	var now bool
	c := &cobra.Command{
		Use: "stop [NAME]", Short: "ask the trials of a running sweep to save and stop", Args: cli.Takes(0, 1, oneSweep),
		RunE: func(c *cobra.Command, args []string) error {
			s, sweeps, name, err := openSweep(c, args)
			if err != nil {
				return err
			}
			h, err := sweeps.Read(name)
			if err != nil {
				return err
			}
			say := cli.Out()
			if pid := sweeps.Driver(name); pid > 0 {
				times := 1
				if now {
					times = 2
				}
				for i := range times {
					if i > 0 {
						time.Sleep(100 * time.Millisecond) // two equal signals at once are one
					}
					if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
						return fmt.Errorf("stopping process %d: %w", pid, err)
					}
				}
				say.Line("asked sweep %s (process %d) to stop", name, pid)
				return nil
			}
			if e := h.Spec.Engine; e != nil {
				return newDriver(s, false).stopTasks(c.Context(), h, now)
			}
			if n := local.Signal(sweeps.Trials(name), now); n > 0 {
				say.Line("no process drives sweep %s: asked its %s to stop", name, ui.Count(n, "trial"))
				return nil
			}
			return fmt.Errorf("sweep %s is not running", name)
		},
	}
	c.Flags().BoolVar(&now, "now", false, "end the trials now")
	return settings.Use(c, settings.StateFlags)
}

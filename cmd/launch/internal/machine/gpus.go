// Package machine has the commands that show this machine: launch gpus and launch top.
package machine

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/core/gpu/drivers"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/ui"
)

// NewGPUs makes launch gpus.
func NewGPUs() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "gpus", Short: "list the GPUs, how much memory is in use or claimed, and by whom",
		Args: cli.Takes(0, 0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := proc.WithPatience(c.Context(), room.DriverDeadline)
			defer cancel()
			all, err := drivers.List(ctx)
			if err != nil && !errors.Is(err, drivers.ErrNoDriver) {
				return err
			}
			held := room.Claims()
			if asJSON {
				return cli.PrintJSON(ui.CardsOf(all, held))
			}
			say := cli.Tables()
			if err == nil && len(all) == 0 {
				say.Line("no GPU: NVIDIA's driver lists none that this account may use")
			}
			if err != nil {
				say.Line("no GPU: %v, and no card of AMD or Intel to train on", err)
				say.Line("to plan for a card: launch plan --vram 12GiB -- COMMAND; what is missing: launch doctor")
			} else {
				say.GPUs(ui.CardsOf(all, held))
			}
			if len(all) > 0 && all[0].Asked != "" {
				say.Line("launch asked %s, because it cannot load NVIDIA's library", all[0].Asked)
			}
			say.OtherClaims(all, held)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return c
}

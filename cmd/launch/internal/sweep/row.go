package sweep

import (
	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/core/sweep/slurm"
)

// newRow is what the job of one trial runs.
func newRow() *cobra.Command {
	return &cobra.Command{
		Use: "row FOLDER", Short: "run one trial inside its Slurm job", Hidden: true, Args: cli.Takes(1, 1,
			"the folder of a sweep"),
		RunE: func(c *cobra.Command, args []string) error {
			code, err := slurm.Row(c.Context(), args[0])
			if err == nil && code != 0 {
				err = cli.ExitCode(code)
			}
			return err
		},
	}
}

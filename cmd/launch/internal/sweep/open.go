package sweep

import (
	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/sweep/local"
)

const oneSweep = "one sweep, or none for the last one"

// openSweep finds a sweep by the argument of a command; the last one where there is none.
func openSweep(c *cobra.Command, args []string) (settings.Values, local.Folders, string, error) {
	s, err := settings.Here(c)
	if err != nil {
		return s, local.Folders{}, "", err
	}
	sweeps := local.In(s.State)
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	name, err = sweeps.Find(name)
	return s, sweeps, name, err
}

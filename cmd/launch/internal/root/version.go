package root

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
)

func newVersion(f *cli.Factory) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "print the version", Args: cli.Takes(0, 0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return cli.PrintJSON(f.Build())
			}
			fmt.Println(f.Build())
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the version as JSON")
	return c
}

// versionFlag is what people type first.
const versionFlag = "version"

// printVersion is launch --version, which takes no command.
func printVersion(f *cli.Factory, args []string) error {
	if len(args) > 0 {
		return errors.New("--version only prints the version: leave the command out")
	}
	fmt.Println(f.Build())
	return nil
}

package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/core/ui"
)

// newPlugins is the parent of the commands about plugins; without one of them it lists the plugins. Each command lies in
// a file of its own, plugins_NAME.go.
func newPlugins() *cobra.Command {
	var asJSON bool
	list := func(c *cobra.Command, _ []string) error { return listPlugins(c, asJSON) }
	c := &cobra.Command{
		Use: "plugins", Short: "list the plugins, and the networks that they know", Args: takes(0, 0, "no argument"),
		Long: `plugins lists the plugins: first the built-in ones, then programs named launch-plugin-NAME beside
launch, in your plugin folder ($XDG_DATA_HOME/launch/plugins) and on PATH. launch does not run a program
that others could have written, nor one from a relative entry of PATH. A plugin that has failed before
is asked again here.`,
		RunE: list,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	same := &cobra.Command{
		Use: "list", Short: "list the plugins, as launch plugins does", Args: takes(0, 0, "no argument"), RunE: list,
	}
	same.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	c.AddCommand(same)
	return c
}

func listPlugins(c *cobra.Command, asJSON bool) error {
	s, err := settingsHere(c)
	if err != nil {
		return err
	}
	sources, left := s.plugins().Find(c.Context(), true)
	if asJSON {
		return printJSON(sources)
	}
	say := ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}
	for _, src := range sources {
		where := "built in"
		if src.Path != "" {
			where = src.Path
		}
		say.Line("%-12s %s (%s)", src.Manifest.Name, src.Manifest.About, where)
		if len(src.Manifest.Archs) > 0 {
			say.Line("%-12s formulas: %s", "", strings.Join(src.Manifest.Archs, " "))
		}
	}
	for _, l := range left {
		say.Warn("%v", l)
	}
	return nil
}

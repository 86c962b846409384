// Package plugins is launch plugins: it lists, writes, tests, installs, trusts and removes them.
package plugins

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/reading"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/plugin"
)

// New makes launch plugins, the parent of the commands about plugins; without one of them it lists the plugins.
// Each command lies in a file of its own.
func New(f *cli.Factory) *cobra.Command {
	var asJSON bool
	list := func(c *cobra.Command, _ []string) error { return listPlugins(f, c, asJSON) }
	c := &cobra.Command{
		Use: "plugins", Short: "list the plugins; write, test, install, trust and remove your own",
		Args: cli.Takes(0, 0, "no argument; launch plugins --help lists its commands"),
		Long: `plugins lists the plugins: first the built-in ones, then those that you have installed or trusted.

launch runs a plugin of another author only after "launch plugins install" or "launch plugins trust", and
only while its files are the same as then, and nobody else can write them. Programs named
launch-plugin-NAME beside launch, in your plugin folder ($XDG_DATA_HOME/launch/plugins) or on PATH that
you have not trusted are listed, and not run.

"launch plugins new NAME" makes the folder of a plugin of your own, which works at once; docs/writing-a-plugin.md
of launch goes on from there. "launch plugins test" tests it.`,
		RunE: list,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	same := &cobra.Command{
		Use: "list", Short: "list the plugins, and the networks that they know", Args: cli.Takes(0, 0, "no argument"),
		RunE: list,
	}
	same.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	settings.Use(same, settings.StateFlags)
	c.AddCommand(same, newInfo(f), newInstall(f), newPluginTrust(f), newRemove(f), newPlugin(f), newTest(f))
	return settings.Use(c, settings.StateFlags)
}

// someOf names the first networks of a plugin. Some plugins have hundreds.
func someOf(m plugin.Manifest) string {
	const shown = 6
	if len(m.Archs) <= shown {
		return strings.Join(m.Archs, ", ")
	}
	return fmt.Sprintf("%s and %d more (launch plugins info %s)", strings.Join(m.Archs[:shown], ", "),
		len(m.Archs)-shown, m.Name)
}

func listPlugins(f *cli.Factory, c *cobra.Command, asJSON bool) error {
	s, err := settings.Here(c)
	if err != nil {
		return err
	}
	ps := reading.PluginsOf(f, s.State)
	sources, unread := ps.Sources()
	if asJSON {
		return errors.Join(cli.PrintJSON(sources), unread)
	}
	say := cli.Tables()
	for _, src := range sources {
		where := "built in"
		if src.Path != "" {
			where = src.Path
		}
		say.Beside(fmt.Sprintf("%-12s ", src.Manifest.Name), fmt.Sprintf("%s (%s)", src.Manifest.About, where))
		if len(src.Manifest.Archs) > 0 {
			say.Beside(fmt.Sprintf("%-12s ", ""), "formulas: "+someOf(src.Manifest))
		}
		if src.Verify != nil {
			if err := src.Verify(c.Context()); err != nil {
				say.Warn("%v", err)
			}
		}
	}
	for _, p := range ps.Others.Interrupted() {
		say.Warn("plugin %s: its %s was interrupted; `launch plugins remove %s` clears what it left", p.Name(),
			map[bool]string{true: "installation", false: "removal"}[p.Stage == "installing"], p.Name())
	}
	for _, p := range ps.Strangers() {
		say.Warn("%v", p)
	}
	say.Beside(fmt.Sprintf("%-12s ", "your own:"),
		"`launch plugins new NAME` makes one that works (docs/writing-a-plugin.md)")
	return unread
}

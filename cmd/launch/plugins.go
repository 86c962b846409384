package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/plugin/installed"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/ui"
)

// plugins are the built-in plugins and those of the user.
func (s settings) plugins() intake.Plugins {
	ps := intake.Plugins{Builtin: builtins, State: s.State}
	ps.Others = &installed.Store{Ask: host.Ask, MayRun: host.MayRun, Protocol: host.Protocol}
	ps.Others.Reserved = func() (names []string) {
		for _, m := range ps.Manifests() {
			names = append(names, m.Name)
		}
		return names
	}
	if dir := private.ConfigDir(); dir != "" { // beside the list of the settings files that the user has approved
		ps.Others.Index = filepath.Join(dir, "plugins.json")
	}
	if d := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
		ps.Others.Dir = filepath.Join(d, "launch", "plugins")
	} else if home, err := os.UserHomeDir(); err == nil {
		ps.Others.Dir = filepath.Join(home, ".local", "share", "launch", "plugins")
	}
	if s.State != "" {
		ps.Others.Cache = filepath.Join(s.State, "plugins.json")
	}
	return ps
}

// newPlugins is the parent of the commands about plugins; without one of them it lists the plugins. Each command lies
// in a file of its own, plugins_NAME.go.
func newPlugins() *cobra.Command {
	var asJSON bool
	list := func(c *cobra.Command, _ []string) error { return listPlugins(c, asJSON) }
	c := &cobra.Command{
		Use: "plugins", Short: "list the plugins; write, test, install, trust and remove your own",
		Args: takes(0, 0, "no argument; launch plugins --help lists its commands"),
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
		Use: "list", Short: "list the plugins, and the networks that they know", Args: takes(0, 0, "no argument"), RunE: list,
	}
	same.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	c.AddCommand(same, newPluginInfo(), newPluginInstall(), newPluginTrust(), newPluginRemove(),
		newPluginNew(), newPluginTest())
	return c
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

func listPlugins(c *cobra.Command, asJSON bool) error {
	s, err := settingsHere(c)
	if err != nil {
		return err
	}
	ps := s.plugins()
	sources, unread := ps.Sources()
	if asJSON {
		return errors.Join(printJSON(sources), unread)
	}
	say := ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}
	for _, src := range sources {
		where := "built in"
		if src.Path != "" {
			where = src.Path
		}
		say.Line("%-12s %s (%s)", src.Manifest.Name, src.Manifest.About, where)
		if len(src.Manifest.Archs) > 0 {
			say.Line("%-12s formulas: %s", "", someOf(src.Manifest))
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
	say.Line("%-12s `launch plugins new NAME` makes one that works (docs/writing-a-plugin.md)", "your own:")
	return unread
}

package plugins

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/reading"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/ui"
)

func newInstall(f *cli.Factory) *cobra.Command {
	var o host.InstallOptions
	c := &cobra.Command{
		Use: "install PATH | ARCHIVE", Short: "copy a plugin into your plugin folder, and pin its files",
		Args: cli.Takes(1, 1, "one program, folder, wheel or archive"),
		Long: `install copies a plugin into your plugin folder ($XDG_DATA_HOME/launch/plugins), starts it once to ask what it
is, and records the SHA-256 of every file. It takes

  a program named launch-plugin-NAME
  a folder with such a program at its top, and the files that it needs
  a Python project (a folder with a pyproject.toml) or a wheel, with a script launch-plugin-NAME:
  it gets a Python environment of its own, made by python3 -m venv and pip
  a .tar.gz, .tgz, .tar or .zip of one of these

A plugin of the same name that was installed before is replaced.`,
		Example: "  launch plugins install ./launch-plugin-mine\n" +
			"  launch plugins install --no-index --find-links wheels/ ./my-plugin",
		RunE: settings.With(func(c *cobra.Command, s settings.Values, args []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			notes := cli.Notes()
			o.Tell = func(line string) { notes.Line("%s …", line) }
			r, err := reading.PluginsOf(f, s.State).Others.Install(ctx, args[0], o)
			if err != nil {
				return err
			}
			printPinned(cli.Out(), "installed", r)
			return nil
		}),
	}
	flags := c.Flags()
	flags.StringVar(&o.Python, "python", "",
		"the interpreter for a Python plugin's environment (default: python3 of PATH)")
	flags.BoolVar(&o.NoIndex, "no-index", false, "Python: let pip use no network, only the folders of --find-links")
	flags.StringArrayVar(&o.FindLinks, "find-links", nil, "Python: a folder of wheels for pip; may be repeated")
	return settings.Use(c, settings.StateFlags)
}

func newPluginTrust(f *cli.Factory) *cobra.Command {
	return settings.Use(&cobra.Command{
		Use: "trust NAME | PATH", Short: "let launch run a plugin as it is now, and pin its files",
		Args: cli.Takes(1, 1, "one plugin: the name of one, or the path of its program"),
		Long: `trust pins a plugin as it is now, by SHA-256, and starts it once to ask what it is. launch refuses it as
soon as it changes, until you trust it again.

NAME is a plugin that was installed or trusted before, or that "launch plugins" lists as not trusted. PATH is
a program named launch-plugin-NAME, which stays where it is. Only that file is pinned, not what it loads:
install pins all files.`,
		Example: "  launch plugins trust mine\n  launch plugins trust ~/bin/launch-plugin-mine",
		RunE: settings.With(func(c *cobra.Command, s settings.Values, args []string) error {
			ps, what := reading.PluginsOf(f, s.State), args[0]
			if !strings.Contains(what, "/") {
				if _, err := ps.Others.Find(what); err != nil {
					if !errors.Is(err, host.ErrUnknown) {
						return err
					}
					path, ok := ps.Locate(what)
					if _, here := os.Stat(what); !ok && here != nil {
						return fmt.Errorf("%w, and no program launch-plugin-%s that could be trusted lies beside launch, in your plugin "+
							"folder or on PATH", err, what)
					}
					what = cmp.Or(path, what)
				}
			}
			r, err := ps.Others.Trust(c.Context(), what)
			if err != nil {
				return err
			}
			say := cli.Out()
			for _, change := range r.Changed {
				say.Line("%s %s", change.File, change.How)
			}
			printPinned(say, "trusted", r)
			return nil
		}),
	}, settings.StateFlags)
}

// printPinned prints what was pinned, by which act.
func printPinned(say ui.Printer, act string, r *host.InstallResult) {
	p := r.Plugin
	before := ""
	if r.Before != "" {
		before = fmt.Sprintf(", in place of version %s", r.Before)
	}
	say.Line("%s: plugin %s %s%s: %s", act, p.Name(), p.Manifest.Version, before, p.Manifest.About)
	if p.Folder != "" {
		say.Line("%d files in %s are pinned by SHA-256", r.Files, p.Folder)
	} else {
		say.Line("%s is pinned: SHA-256 %s", p.Path, p.SHA256)
	}
	for _, m := range p.Manifest.Marks {
		say.Line("it is asked about commands with: %s", markText(m))
	}
	for _, left := range r.Left {
		say.Warn("left %s", left)
	}
}

func newRemove(f *cli.Factory) *cobra.Command {
	return settings.Use(&cobra.Command{
		Use: "remove NAME", Short: "remove an installed plugin, or stop trusting one",
		Args: cli.Takes(1, 1, "the name of one plugin"),
		Long: `remove deletes the files that "launch plugins install" has installed. Files that were changed or added since
stay, and are named. A program that was trusted where it lies stays as well; launch does not run it any more.`,
		RunE: settings.With(func(_ *cobra.Command, s settings.Values, args []string) error {
			ps := reading.PluginsOf(f, s.State)
			for _, m := range ps.Manifests() {
				if m.Name == args[0] {
					return fmt.Errorf("plugin %s is built into launch; --plugin none runs a command without it", m.Name)
				}
			}
			r, err := ps.Others.Remove(args[0])
			if err != nil {
				return err
			}
			say := cli.Out()
			say.Line("removed: plugin %s", args[0])
			for _, left := range r.Left {
				say.Warn("left %s", left)
			}
			return nil
		}),
	}, settings.StateFlags)
}

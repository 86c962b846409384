package plugins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/reading"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin/declared"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/plugin/kit"
)

// kitFlags are the flags of launch plugins test.
type kitFlags struct {
	recipes     string
	asJSON      bool
	quick       bool
	deadline    time.Duration
	own         []string // the command after "--"
	declaration string   // the folder of the declaration that is tested
}

func newTest(factory *cli.Factory) *cobra.Command {
	f := &kitFlags{}
	c := &cobra.Command{
		Use:   "test PATH [--recipes DIR] [-- CMD]",
		Short: "test a plugin in any language, or a declaration, on your own recipes",
		Long: `test checks what launch relies on: that the plugin reads what the files say, prices each rung as the job
that the rung makes, answers the same each time, declines what is not its own, and survives broken files.
The report has what was expected, what was seen, and what to mend.

PATH is the plugin's program, a folder with a program named launch-plugin-NAME, a .launch-job.yaml, or the
name of a plugin that is built in, installed or trusted. Naming a program runs it.

A recipe is a folder in DIR (default: recipes, beside the program) with the files that the command reads,
and the command itself in a file "command" or, with what you expect, "case.yaml". A command after "--" is
one more recipe, in the declaration's folder or in this one. Nothing is run or changed there: the plugin
gets copies.`,
		Args: func(c *cobra.Command, args []string) error {
			if dash := c.ArgsLenAtDash(); dash >= 0 {
				f.own, args = args[dash:], args[:dash]
			}
			return cli.Takes(1, 1, "one plugin, and after -- a command")(c, args)
		},
		RunE: settings.With(func(c *cobra.Command, s settings.Values, args []string) error {
			return f.test(c.Context(), reading.PluginsOf(factory, s.State), args[0])
		}),
	}
	c.Flags().StringVar(&f.recipes, "recipes", "", "the folder of the recipes")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print the report as JSON")
	c.Flags().BoolVar(&f.quick, "quick", false, "leave out broken and huge files, which take most of the time")
	c.Flags().DurationVar(&f.deadline, "deadline", intake.Deadline, "how long one answer may take")
	settings.Use(c, settings.StateFlags)
	return cli.Exits(c, cli.Exit("0", "every check passed and a recipe was recognised"),
		cli.Exit("1", "a check failed, or no recipe was recognised"),
		cli.Exit("125", "the test could not be made"))
}

// test tests one plugin, and prints the report.
func (f *kitFlags) test(ctx context.Context, ps intake.Plugins, path string) error {
	source, err := f.source(ctx, ps, path)
	if err != nil {
		return err
	}
	cases, err := f.cases(source)
	if err != nil {
		return err
	}
	o := kit.Options{Cases: cases, Deadline: f.deadline, Quick: f.quick,
		Open: func(ctx context.Context) (kit.Opened, error) { return openForTest(ctx, source) }}
	if f.declaration != "" { // other projects have no declaration; ready ones may know them
		for _, script := range []string{"no_such_script.py", "-c"} {
			o.Foreign = append(o.Foreign, kit.Case{Name: "python3 " + script,
				Command: job.Command{Args: []string{"python3", script, "pass"}, Dir: f.declaration, Env: os.Environ()}})
		}
	}
	report, err := kit.Run(ctx, o)
	if err != nil {
		return err
	}
	if f.asJSON {
		err = cli.PrintJSON(report)
	} else {
		cli.Out().Kit(report)
	}
	if err == nil && !report.Passed() {
		return cli.ExitCode(1)
	}
	return err
}

// openForTest starts the plugin's process.
func openForTest(ctx context.Context, source host.Source) (kit.Opened, error) {
	client, err := host.StartForTest(ctx, source)
	if err != nil {
		return kit.Opened{}, err
	}
	return kit.Opened{Plugin: client, PID: client.PID(), Close: client.Close}, nil
}

// source finds the plugin that path names.
func (f *kitFlags) source(ctx context.Context, ps intake.Plugins, path string) (s host.Source, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !strings.ContainsRune(path, filepath.Separator):
		return named(ps, path)
	case err != nil:
		return s, err
	case info.IsDir():
		if path, err = pluginIn(path); err != nil {
			return s, err
		}
	}
	if path, err = filepath.Abs(path); err != nil {
		return s, err
	}
	if filepath.Base(path) == declared.File {
		f.declaration = filepath.Dir(path)
		return host.Source{Manifest: declared.New().Manifest()}, nil
	}
	if err := host.MayRun(path); err != nil {
		return s, fmt.Errorf("plugin %s is not run: %w", path, err)
	}
	if s.Manifest, err = host.Ask(ctx, path); err != nil {
		return s, err
	}
	s.Path = path
	if want := "launch-plugin-" + s.Manifest.Name; filepath.Base(path) != want {
		return s, fmt.Errorf("plugin %s has the name %q in its manifest: its file must be named %s", path,
			s.Manifest.Name, want)
	}
	return s, nil
}

// named is a plugin by its name.
func named(ps intake.Plugins, name string) (host.Source, error) {
	sources, err := ps.Sources()
	for _, s := range sources {
		if s.Manifest.Name == name {
			return s, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("there is no file %s, and no plugin of that name; run `launch plugins` for a list", name)
	}
	return host.Source{}, err
}

// pluginIn finds the one plugin of a folder.
func pluginIn(dir string) (string, error) {
	var found []string
	for _, pattern := range []string{"launch-plugin-*", "bin/launch-plugin-*"} {
		hits, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		for _, path := range hits {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				found = append(found, path)
			}
		}
	}
	declaration := filepath.Join(dir, declared.File)
	if _, err := os.Stat(declaration); err == nil && len(found) == 0 {
		return declaration, nil
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("%s has neither a program launch-plugin-NAME nor a %s; build a plugin in Go first "+
			"(go build -o launch-plugin-NAME)", dir, declared.File)
	}
	return "", fmt.Errorf("%s has several plugins; name one: %s", dir, strings.Join(found, " "))
}

// cases reads the recipes.
func (f *kitFlags) cases(source host.Source) ([]kit.Case, error) {
	var cases []kit.Case
	dir := f.recipes
	if dir == "" && source.Path != "" {
		beside := filepath.Join(filepath.Dir(source.Path), "recipes")
		if info, err := os.Stat(beside); err == nil && info.IsDir() {
			dir = beside
		}
	}
	if dir != "" {
		var err error
		if cases, err = kit.Read(dir, os.Environ()); err != nil {
			return nil, err
		}
	}
	if len(f.own) > 0 {
		here := f.declaration
		if here == "" {
			var err error
			if here, err = os.Getwd(); err != nil {
				return nil, err
			}
		}
		cases = append(cases, kit.Case{Name: "command", Command: job.Command{Args: f.own, Dir: here, Env: os.Environ()}})
	}
	if len(cases) == 0 {
		return nil, errors.New("no recipe: name their folder with --recipes, or give a command after --")
	}
	return cases, nil
}

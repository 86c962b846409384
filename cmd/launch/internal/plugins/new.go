package plugins

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/sdk/templates"
)

func newPlugin(f *cli.Factory) *cobra.Command {
	var asGo, asPython, asDeclared bool
	var checkout string
	c := &cobra.Command{
		Use:   "new NAME [--declared|--python|--go]",
		Short: "make the folder of a new plugin, which passes the kit and recognises a small training",
		Long: `new makes a folder with a plugin that works: it recognises a small training of its own and passes
"launch plugins test". Replace that training, step by step, with yours. docs/writing-a-plugin.md of launch
goes through the steps with a real family.

--declared (the default) makes the folder NAME with a training script and a .launch-job.yaml: no program, no
SDK, and enough for most projects. "launch init -- COMMAND" drafts the same file for a project that you have.

--python and --go make the folder launch-plugin-NAME with a program that answers launch's questions: for a
formula from your own network, for recipes that a declaration cannot describe, for a whole family of projects.

It never writes into a folder that has files. A program is built with the version of launch that runs, or with
the checkout that --sdk names.`,
		Example: "  launch plugins new my-trainer\n  launch plugins new my-family --python",
		Args:    cli.Takes(1, 1, "one name"),
		RunE: func(_ *cobra.Command, args []string) error {
			p := templates.Plugin{Name: args[0], Kind: templates.Declared}
			switch {
			case asGo:
				p.Kind = templates.Go
			case asPython:
				p.Kind = templates.Python
			}
			return makePlugin(f, p, checkout)
		},
	}
	c.Flags().BoolVar(&asDeclared, "declared", false, "a .launch-job.yaml beside a training script (the default)")
	c.Flags().BoolVar(&asPython, "python", false, "a program in Python")
	c.Flags().BoolVar(&asGo, "go", false, "a program in Go")
	c.Flags().StringVar(&checkout, "sdk", "", "a checkout of launch, whose SDK the program is built with")
	c.MarkFlagsMutuallyExclusive("declared", "python", "go")
	return c
}

// makePlugin makes the folder of a plugin below the current one, and prints what to do next.
func makePlugin(f *cli.Factory, p templates.Plugin, checkout string) error {
	for _, builtin := range f.Builtins {
		if builtin().Manifest().Name == p.Name && p.Kind != templates.Declared {
			return fmt.Errorf("%s is the name of a built-in plugin: choose another", p.Name)
		}
	}
	if p.Kind != templates.Declared {
		info, _ := debug.ReadBuildInfo()
		running := cli.BuildOf(cli.Build{Version: f.Linked.Version, Commit: f.Linked.Commit}, info)
		_, source, _, _ := runtime.Caller(0)
		if err := chooseSDK(&p, checkout, running, source); err != nil {
			return err
		}
	}
	files, err := p.Write(p.Folder())
	if err != nil {
		return err
	}
	say := cli.Out()
	say.Line("wrote %s: %s", p.Folder(), strings.Join(files, " "))
	say.Line("next:")
	for _, line := range nextSteps(p) {
		say.Line("  %s", line)
	}
	return nil
}

// nextSteps are the commands with which a new plugin is built and tested.
func nextSteps(p templates.Plugin) []string {
	switch p.Kind {
	case templates.Go:
		return []string{"cd " + p.Folder() + " && go get -t . && go build", "launch plugins test ."}
	case templates.Python:
		return []string{"cd " + p.Folder() + " && python3 -m venv .venv && .venv/bin/pip install -e .",
			"launch plugins test ."}
	}
	return []string{"cd " + p.Folder() + " && launch plugins test . -- python3 train.py",
		"launch plan -- python3 train.py"}
}

// published are versions of launch's module that a build can ask for: releases, and commits without local changes.
var published = lazy.MustCompile(`^v\d+\.\d+\.\d+[-.0-9A-Za-z]*$`)

// chooseSDK sets what a plugin is built with: the checkout that the user names, or the version that runs. A
// development build has no version that could be asked for; it uses the checkout that it was built from. source is the
// path of a source file of this package as the compiler recorded it.
func chooseSDK(p *templates.Plugin, checkout string, running cli.Build, source string) error {
	if published.MatchString(running.Version) && !strings.HasSuffix(running.Version, "-dev") && !running.Modified {
		p.Version = running.Version
	}
	if checkout != "" {
		abs, err := filepath.Abs(checkout)
		if err != nil {
			return err
		}
		if err := isCheckout(abs); err != nil {
			return fmt.Errorf("--sdk %s: %w", checkout, err)
		}
		p.Checkout = abs
		return nil
	}
	if p.Version != "" {
		return nil
	}
	root := filepath.Join(filepath.Dir(source), "..", "..", "..", "..")
	if filepath.IsAbs(source) && isCheckout(root) == nil {
		p.Checkout = root
		return nil
	}
	return errors.New("this launch is a development build, and the checkout that it was built from is not here: " +
		"name one with --sdk DIR")
}

// isCheckout returns an error if dir has no checkout of launch.
func isCheckout(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	first := "module github.com/launch-ml/launch"
	if !slices.Contains(strings.Split(string(text), "\n"), first) {
		return fmt.Errorf("%s is no checkout of launch: its go.mod has no line %q", dir, first)
	}
	return nil
}

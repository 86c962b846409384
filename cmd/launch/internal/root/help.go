package root

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/config"
)

// HelpOf describes a command and all below it.
func HelpOf(of *cobra.Command) HelpDocument {
	all := settings.Known()
	d := HelpDocument{Version: HelpVersion, Settings: flagDocs(all, all), Commands: []CommandDoc{}}
	var add func(*cobra.Command)
	add = func(c *cobra.Command) {
		d.Commands = append(d.Commands, commandOf(c, all))
		for _, sub := range c.Commands() {
			if !sub.Hidden && sub.Deprecated == "" {
				add(sub)
			}
		}
	}
	add(of)
	return d
}

func commandOf(c *cobra.Command, all *pflag.FlagSet) CommandDoc {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if c.HasParent() || all.Lookup(f.Name) == nil {
			own.AddFlag(f)
		}
	})
	name, args, _ := strings.Cut(c.Use, " ")
	args = strings.TrimSpace(strings.Replace(args, "[flags]", "", 1))
	d := CommandDoc{Command: c.CommandPath(), Use: strings.TrimSpace(c.CommandPath() + strings.TrimPrefix(c.Use, name)),
		Short: c.Short, Long: c.Long, Arguments: args, Examples: []string{}, Settings: takesSettings(c), Uses: usesOf(c),
		Flags: flagDocs(own, all), ExitCodes: cli.ExitsOf(c), Documents: documentsOf(c.CommandPath())}
	for line := range strings.SplitSeq(c.Example, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			d.Examples = append(d.Examples, line)
		}
	}
	return d
}

// usesOf lists the settings that a command uses.
func usesOf(c *cobra.Command) []string {
	names := []string{}
	settings.Used(c).VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// takesSettings reports whether a command uses settings beside the state folder.
func takesSettings(c *cobra.Command) bool { return len(usesOf(c)) > 1 }

func flagDocs(flags, all *pflag.FlagSet) []FlagDoc {
	out := []FlagDoc{}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" || f.Name == "help" {
			return
		}
		d := FlagDoc{Name: f.Name, Shorthand: f.Shorthand, Type: f.Value.Type(), Default: f.DefValue, Bare: f.NoOptDefVal,
			Usage: f.Usage}
		if d.Type == "stringArray" && d.Default == "[]" {
			d.Default = ""
		}
		if all.Lookup(f.Name) != nil {
			d.Variable = settings.Variable(f.Name)
		}
		out = append(out, d)
	})
	return out
}

// completions is how the script of each shell is installed.
var completions = map[string]string{
	"bash":       "launch completion bash > ~/.local/share/bash-completion/completions/launch",
	"zsh":        `launch completion zsh > "${fpath[1]}/_launch"`,
	"fish":       "launch completion fish > ~/.config/fish/completions/launch.fish",
	"powershell": "launch completion powershell | Out-String | Invoke-Expression",
}

// addCompletion adds cobra's command completion, with help of its own.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	c, _, _ := root.Find([]string{"completion"})
	c.Use, c.Short, c.Long = "completion SHELL", "print a completion script for a shell", ""
	for _, shell := range c.Commands() {
		shell.Short, shell.Long = "print the completion script for "+shell.Name(), ""
		shell.Example = "  " + completions[shell.Name()]
		shell.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = "complete without descriptions" })
	}
}

// addHelp makes cobra's command help print JSON as well.
func addHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	c, _, _ := root.Find([]string{"help"})
	asJSON := false
	c.Use = "help [COMMAND ... | commands | settings]"
	c.Short = "print the help of a command; --json: of all commands, for a script"
	c.Long = "help prints what launch COMMAND --help prints. \"launch help commands\" lists all commands, and\n" +
		"\"launch help settings\" all flags of a run, its exit codes, and where settings come from. With --json it\n" +
		"prints a document of the command and all below it: arguments, flags with their defaults and variables,\n" +
		"examples and exit codes."
	c.Example = "  launch help plan\n  launch help --json | jq -r '.commands[].command'"
	c.Run = nil
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 1 && topics[args[0]] != nil && !asJSON {
			topics[args[0]](onTerminal(os.Stdout), root)
			return nil
		}
		of, rest, err := root.Find(args)
		if err != nil || len(rest) > 0 {
			return fmt.Errorf("launch has no command %q%s; `launch help commands` lists them", strings.Join(args, " "),
				config.Meant(config.Near(args[0], append(settings.CommandsOf(root), "commands", "settings"))))
		}
		if !asJSON {
			onTerminal(os.Stdout).help(of)
			return nil
		}
		return cli.PrintJSON(HelpOf(of))
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the commands as JSON")
	c.SetOut(os.Stdout)
}

package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The help of the commands, `launch help --json`, the man pages and docs/reference.md have one source: the tree of
// commands. What cobra has no field for, the exit codes and the JSON documents, is here.

// An exitMeaning is what an exit code of launch means.
type exitMeaning struct {
	Code    string `json:"code"` // a number, or 128+N for signal N
	Meaning string `json:"meaning"`
}

// runExits are launch's own codes where it runs a command; every other code is the program's.
var runExits = []exitMeaning{
	{"1", "the program exited 0, but its output reports a failure, never reports success, or was lost"},
	{"75", "not enough free memory now, preempted, in use by another launch, or another node was lost (--wait waits " +
		"for memory instead)"},
	{"78", "it cannot fit at the allowed cost; nothing was started"},
	{"125", "launch itself failed, or the program did not take the settings that launch changed"},
	{"126", "the command cannot be run"},
	{"127", "the command was not found"},
	{"128+N", "signal N stopped launch while no program was running"},
}

// usualExits are those of a command that declares none.
var usualExits = []exitMeaning{{"0", "it did what was asked"}, {"125", "launch itself failed"}}

// helpWidth is the width of the help's text.
const helpWidth = 104

// exitTable is the list of codes in the help of launch.
func exitTable(all []exitMeaning) string {
	var b strings.Builder
	for _, e := range all {
		fmt.Fprintf(&b, "  %-6s %s\n", e.Code, filled(e.Meaning, helpWidth-10, "\n         "))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// filled breaks a text between words into lines of at most width bytes.
func filled(text string, width int, newline string) string {
	var b strings.Builder
	n := 0
	for _, word := range strings.Fields(text) {
		switch {
		case n > 0 && n+1+len(word) > width:
			b.WriteString(newline)
			n = 0
		case n > 0:
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += len(word)
	}
	return b.String()
}

// exitKey begins the keys under which the annotations of a command have its exit codes.
const exitKey = "exit "

// exits declares the exit codes of a command, and appends them to its help.
func exits(c *cobra.Command, all ...exitMeaning) *cobra.Command {
	var parts []string
	for _, e := range all {
		parts = append(parts, e.Code+" if "+e.Meaning)
	}
	text := filled("Exit code: "+strings.Join(parts, "; ")+".", helpWidth, "\n")
	c.Long = strings.TrimPrefix(c.Long+"\n\n"+text, "\n\n")
	return sameExits(c, all)
}

// sameExits declares the exit codes of a command whose help has them already, or refers to those of another.
func sameExits(c *cobra.Command, all []exitMeaning) *cobra.Command {
	c.Annotations = map[string]string{}
	for _, e := range all {
		c.Annotations[exitKey+e.Code] = e.Meaning
	}
	return c
}

// sweepExits are the codes of a sweep.
var sweepExits = []exitMeaning{{"0", "every row succeeded"}, {"1", "one failed, or is doubtful"},
	{"75", "rows did not run because there was no room, or launch gave way"},
	{"78", "rows did not run because they cannot fit"}, {"125", "launch itself failed"},
	{"128+N", "signal N stopped the sweep"}}

// exitsOf returns the exit codes of a command in their order.
func exitsOf(c *cobra.Command) (all []exitMeaning) {
	if !c.HasParent() {
		return runExits
	}
	for key, meaning := range c.Annotations {
		if code, is := strings.CutPrefix(key, exitKey); is {
			all = append(all, exitMeaning{code, meaning})
		}
	}
	slices.SortFunc(all, func(a, b exitMeaning) int {
		return cmp.Or(len(a.Code)-len(b.Code), strings.Compare(a.Code, b.Code))
	})
	if all == nil {
		return usualExits
	}
	return all
}

// HelpVersion is the version of [helpDocument]. Fields are added within a version and never change their meaning.
const helpVersion = 1

// helpDocument is the output of `launch help --json`.
type helpDocument struct {
	Version int `json:"version"`
	// Settings are the flags of launch itself. The commands that take them have "settings": true.
	Settings []flagDoc    `json:"settings"`
	Commands []commandDoc `json:"commands"`
}

// commandDoc is a command of launch.
type commandDoc struct {
	Command   string        `json:"command"` // "launch sweep plan"
	Use       string        `json:"use"`     // how it is typed
	Short     string        `json:"short"`
	Long      string        `json:"long"`
	Arguments string        `json:"arguments"` // of Use: what comes after its name; "" if it takes none
	Examples  []string      `json:"examples"`
	Settings  bool          `json:"settings"` // the settings of launch are flags of this command too
	Flags     []flagDoc     `json:"flags"`    // the command's own
	ExitCodes []exitMeaning `json:"exit_codes"`
	// Documents are the JSON documents that it prints or writes: docs/schema/NAME.schema.json.
	Documents []string `json:"documents"`
}

// flagDoc is a flag.
type flagDoc struct {
	Name      string `json:"name"`
	Shorthand string `json:"shorthand,omitempty"`
	Type      string `json:"type"`    // "bool", "string", "int", "duration", "stringArray" (it may be repeated) …
	Default   string `json:"default"` // as it would be typed; "" if there is none
	// Bare is the value of the flag without "="; absent if the flag needs a value.
	Bare  string `json:"bare,omitempty"`
	Usage string `json:"usage"`
	// Variable sets it in the environment; absent for a flag that is no setting of launch.
	Variable string `json:"variable,omitempty"`
}

// helpOf describes a command and all below it.
func helpOf(of *cobra.Command) helpDocument {
	settings := ownFlags()
	d := helpDocument{Version: helpVersion, Settings: flagDocs(settings, settings), Commands: []commandDoc{}}
	var add func(*cobra.Command)
	add = func(c *cobra.Command) {
		d.Commands = append(d.Commands, commandOf(c, settings))
		for _, sub := range c.Commands() {
			if !sub.Hidden && sub.Deprecated == "" {
				add(sub)
			}
		}
	}
	add(of)
	return d
}

func commandOf(c *cobra.Command, settings *pflag.FlagSet) commandDoc {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if c.HasParent() || settings.Lookup(f.Name) == nil {
			own.AddFlag(f)
		}
	})
	name, args, _ := strings.Cut(c.Use, " ")
	args = strings.TrimSpace(strings.Replace(args, "[flags]", "", 1))
	d := commandDoc{Command: c.CommandPath(), Use: strings.TrimSpace(c.CommandPath() + strings.TrimPrefix(c.Use, name)),
		Short: c.Short, Long: c.Long, Arguments: args, Examples: []string{}, Settings: takesSettings(c),
		Flags: flagDocs(own, settings), ExitCodes: exitsOf(c), Documents: documentsOf(c.CommandPath())}
	for line := range strings.SplitSeq(c.Example, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			d.Examples = append(d.Examples, line)
		}
	}
	return d
}

// takesSettings reports whether the help of a command lists the settings of launch.
func takesSettings(c *cobra.Command) bool {
	return !c.HasParent() || strings.Contains(c.UsageTemplate(), globalsBegin)
}

func flagDocs(flags, settings *pflag.FlagSet) []flagDoc {
	out := []flagDoc{}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" || f.Name == "help" {
			return
		}
		d := flagDoc{Name: f.Name, Shorthand: f.Shorthand, Type: f.Value.Type(), Default: f.DefValue, Bare: f.NoOptDefVal,
			Usage: f.Usage}
		if d.Type == "stringArray" && d.Default == "[]" {
			d.Default = ""
		}
		if settings.Lookup(f.Name) != nil {
			d.Variable = variable(f.Name)
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
	c.SetUsageTemplate(withoutGlobals(c.UsageTemplate()))
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
	asJSON, text := false, c.Run
	c.Use, c.Short = "help [COMMAND ...]", "print the help of a command; --json: of all commands, for a script"
	c.Long = "help prints what launch COMMAND --help prints. With --json it prints a document of the command and all\n" +
		"below it: arguments, flags with their defaults and variables, examples and exit codes."
	c.Example = "  launch help plan\n  launch help --json | jq -r '.commands[].command'"
	c.Run = nil
	c.RunE = func(c *cobra.Command, args []string) error {
		of, rest, err := root.Find(args)
		if err != nil || len(rest) > 0 {
			return fmt.Errorf("launch has no command %q; `launch --help` lists the commands", strings.Join(args, " "))
		}
		if !asJSON {
			text(c, args)
			return nil
		}
		return printJSON(helpOf(of))
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the commands as JSON")
	c.SetOut(os.Stdout)
	c.SetUsageTemplate(withoutGlobals(c.UsageTemplate()))
}

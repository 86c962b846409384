package root

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
)

// firstScreen is the help of launch itself: what a person needs first, on a terminal of 24 lines of 80 columns.
const firstScreen = `launch runs a training command so that it fits its GPU, and resumes it after an
out-of-memory. Put it before the command that you type already:

  launch -- python train.py -opt x.yml

Before a run   plan      print what launch would do, and start nothing
               check     check settings, data, disk, saved states and Python
               init      describe a training script that launch does not know
During it      top       show what runs here: progress, speed, memory, cards
               stop      stop a run, after it has saved its state if you wish
After it       resume    continue a run that was stopped or interrupted
               report    write a page about a run or a sweep
Many runs      sweep     run a command with many settings

launch help COMMAND     a command and its flags
launch help commands    all commands
launch help settings    flags, variables and files of settings; exit codes
`

// shelves are the commands as the list of all of them has them.
var shelves = []struct {
	title string
	names []string
}{
	{"Before a run", []string{"plan", "check", "init", "estimate", "sbatch-line"}},
	{"During it", []string{"top", "stop", "gpus"}},
	{"After it", []string{"resume", "runs", "show", "report", "explain", "diff", "receipts"}},
	{"Many runs", []string{"sweep"}},
	{"This machine", []string{"doctor", "plugins", "trust", "completion", "help", "version"}},
}

// topics are what help tells of beside commands.
var topics = map[string]func(*page, *cobra.Command){"commands": (*page).commands, "settings": (*page).settings}

// A page is help for a terminal of some columns.
type page struct {
	w     io.Writer
	width int
}

// columns are at least least and at most most: longer lines are hard to read.
const leastColumns, usualColumns, mostColumns = 40, 80, 100

// onTerminal is a page as wide as the terminal.
func onTerminal(w io.Writer) *page {
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || width <= 0 {
		width, _ = strconv.Atoi(os.Getenv("COLUMNS"))
	}
	return &page{w, min(max(cmp.Or(width, usualColumns), leastColumns), mostColumns)}
}

// below is where a meaning begins that has no room beside its name.
const below = 8

func (p *page) line(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }

// help prints the help of a command.
func (p *page) help(c *cobra.Command) {
	if !c.HasParent() {
		fmt.Fprint(p.w, firstScreen)
		return
	}
	p.text(cmp.Or(c.Long, c.Short+"."))
	p.line("\nUsage:")
	if c.Runnable() {
		p.line("  %s", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		p.line("  %s COMMAND", c.CommandPath())
	}
	if c.Example != "" {
		p.line("\nExamples:")
		p.examples(c.Example)
	}
	if c.HasAvailableSubCommands() {
		p.line("\nCommands:")
		p.list(c.Commands())
	}
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if titleOf(f.Name) == "" {
			own.AddFlag(f)
		}
	})
	p.flags("Flags", own)
	p.grouped(c.NonInheritedFlags(), settings.Used(c))
}

// titleOf is the title of the group that a flag belongs to in every command; "" for a flag of one command.
func titleOf(name string) string {
	for _, g := range settings.HelpGroups {
		if slices.Contains(g.Flags, name) {
			return g.Title
		}
	}
	return ""
}

// grouped prints the flags that commands share, by what they are for.
func (p *page) grouped(of ...*pflag.FlagSet) {
	for _, g := range settings.HelpGroups {
		group := pflag.NewFlagSet("", pflag.ContinueOnError)
		for _, set := range of {
			set.VisitAll(func(f *pflag.Flag) {
				if slices.Contains(g.Flags, f.Name) && group.Lookup(f.Name) == nil {
					group.AddFlag(f)
				}
			})
		}
		p.flags(g.Title, group)
	}
}

// flags prints flags. Where a terminal is narrow what they do stands below their names.
func (p *page) flags(title string, set *pflag.FlagSet) {
	var rows [][2]string
	set.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Deprecated == "" && f.Name != "help" {
			rows = append(rows, [2]string{typed(f), f.Usage + byDefault(f)})
		}
	})
	if len(rows) > 0 {
		p.line("\n%s:", title)
		p.columns(rows)
	}
}

// values are what a flag's value is called, by its type.
var values = map[string]string{"bool": "", "int": " N", "uint": " N", "duration": " TIME"}

// typed is how a flag is typed.
func typed(f *pflag.Flag) string {
	short, value := "    ", " VALUE"
	if f.Shorthand != "" {
		short = "-" + f.Shorthand + ", "
	}
	if v, known := values[f.Value.Type()]; known {
		value = v
	}
	if f.NoOptDefVal != "" && value != "" {
		value = "[=" + value[1:] + "]"
	}
	return short + "--" + f.Name + value
}

// byDefault tells a flag's default, unless it is nothing.
func byDefault(f *pflag.Flag) string {
	if slices.Contains([]string{"", "0", "0s", "false", "[]"}, f.DefValue) {
		return ""
	}
	return fmt.Sprintf(" (default %s)", f.DefValue)
}

// columns prints names, and beside them or below them what they mean.
func (p *page) columns(rows [][2]string) {
	widest := 0
	for _, r := range rows {
		widest = max(widest, len(r[0]))
	}
	hang := 2 + widest + 2
	if hang > p.width/2 {
		hang = below
	}
	for _, r := range rows {
		if next := "\n" + strings.Repeat(" ", hang); 2+len(r[0])+2 > hang {
			p.line("  %s%s%s", r[0], next, cli.Filled(r[1], p.width-hang, next))
		} else {
			p.line("  %-*s%s", hang-2, r[0], cli.Filled(r[1], p.width-hang, next))
		}
	}
}

// commands prints all commands.
func (p *page) commands(root *cobra.Command) {
	for i, s := range shelves {
		if i > 0 {
			p.line("")
		}
		p.line("%s:", s.title)
		var all []*cobra.Command
		for _, name := range s.names {
			if c, _, err := root.Find([]string{name}); err == nil {
				all = append(all, c)
			}
		}
		p.list(all)
	}
}

// settings prints the text of launch, with its exit codes, and all flags.
func (p *page) settings(root *cobra.Command) {
	p.text(root.Long)
	p.line("\nUsage:\n  %s\n\nExamples:", root.Use)
	p.examples(root.Example)
	p.grouped(root.NonInheritedFlags(), root.PersistentFlags())
}

// list prints the names of commands with what they do.
func (p *page) list(all []*cobra.Command) {
	var rows [][2]string
	for _, c := range all {
		if !c.Hidden {
			rows = append(rows, [2]string{c.Name(), c.Short})
		}
	}
	p.columns(rows)
}

// examples prints examples; a note behind one stands above it where there is no room beside it.
func (p *page) examples(text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		command, note, noted := strings.Cut(strings.TrimPrefix(line, "  "), "   ")
		if noted && len([]rune(line)) > p.width {
			p.text("  # " + strings.TrimSpace(note))
			line = "  " + command
		}
		p.line("%s", line)
	}
}

// text prints paragraphs anew for the page's width. A line that is indented is one of a list, of one column or two, and
// a line that stands below the second column goes on with it.
func (p *page) text(text string) {
	body, first, hang := "", "", 0
	flush := func() {
		at := hang
		if at > p.width/2 {
			p.line("  %s", cli.Filled(first, p.width-2, "\n  "))
			at, first = below, strings.Repeat(" ", below)
		}
		if body != "" {
			p.line("%s%s", first, cli.Filled(body, p.width-at, "\n"+strings.Repeat(" ", at)))
		}
		body, first, hang = "", "", 0
	}
	for line := range strings.SplitSeq(text, "\n") {
		rest := strings.TrimLeft(line, " ")
		switch indent := len(line) - len(rest); {
		case rest == "":
			flush()
			p.line("")
		case indent == hang && body != "":
			body += " " + rest
		case indent == 0:
			flush()
			body = rest
		default:
			flush()
			body, first, hang = rest, line[:indent], indent
			if term, meaning, two := strings.Cut(rest, "  "); two {
				body = strings.TrimLeft(meaning, " ")
				hang = len(line) - len(body)
				first = fmt.Sprintf("%-*s", hang, line[:indent]+term)
			}
		}
	}
	flush()
}

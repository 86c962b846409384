package root

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
)

// The help of launch is one screen, and its commands are there.
func TestFirstScreen(t *testing.T) {
	tree := Tree(&cli.Factory{})
	lines := strings.Split(strings.TrimRight(firstScreen, "\n"), "\n")
	if len(lines) > 23 { // the prompt is the last of 24
		t.Errorf("%d lines", len(lines))
	}
	commands := 0
	for _, l := range lines {
		if utf8.RuneCountInString(l) > 80 {
			t.Errorf("%d columns: %s", utf8.RuneCountInString(l), l)
		}
		if !strings.Contains(l, "    ") || strings.HasPrefix(l, "launch") {
			continue
		}
		name := strings.Fields(l[min(15, len(l)):])[0]
		if c, _, err := tree.Find([]string{name}); err != nil || c.Name() != name {
			t.Errorf("there is no command %s: %s", name, l)
		}
		commands++
	}
	if commands != 8 {
		t.Errorf("%d commands", commands)
	}
}

// Each command stands in one place of the list of all, and each flag that commands share in one group.
func TestShelves(t *testing.T) {
	seen := map[string]int{}
	for _, s := range shelves {
		for _, n := range s.names {
			seen[n]++
		}
	}
	for _, c := range Tree(&cli.Factory{}).Commands() {
		if !c.Hidden && seen[c.Name()] != 1 {
			t.Errorf("%s stands in %d places", c.Name(), seen[c.Name()])
		}
		delete(seen, c.Name())
	}
	if len(seen) > 0 {
		t.Errorf("there are no commands %v", seen)
	}
	settings.Known().VisitAll(func(f *pflag.Flag) {
		n := 0
		for _, g := range settings.HelpGroups {
			if slices.Contains(g.Flags, f.Name) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("--%s is in %d groups of settings.HelpGroups", f.Name, n)
		}
	})
}

// No help is wider than the terminal but for examples and how a command is typed, and nothing of it is lost.
func TestHelpFits(t *testing.T) {
	for _, width := range []int{leastColumns, usualColumns, mostColumns} {
		var each func(c *cobra.Command)
		each = func(c *cobra.Command) {
			if c.HasParent() {
				fits(t, c, width)
			}
			for _, sub := range c.Commands() {
				each(sub)
			}
		}
		each(Tree(&cli.Factory{}))
	}
}

func fits(t *testing.T, c *cobra.Command, width int) {
	t.Helper()
	var b bytes.Buffer
	(&page{&b, width}).help(c)
	for line := range strings.Lines(b.String()) {
		line = strings.TrimRight(line, "\n")
		if utf8.RuneCountInString(line) > width && len(strings.Fields(line)) > 1 &&
			!strings.Contains(c.Example, strings.TrimSpace(line)) && !strings.Contains(line, c.UseLine()) &&
			!strings.HasPrefix(line, "  #") && !strings.HasPrefix(line, "  launch") {
			t.Errorf("%s at %d columns: %s", c.CommandPath(), width, line)
		}
	}
	words := strings.Fields(b.String())
	for _, of := range []string{c.Long, c.Example} {
		for _, w := range strings.Fields(of) {
			if !slices.Contains(words, w) {
				t.Errorf("%s at %d columns: %q is not there", c.CommandPath(), width, w)
			}
		}
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		own := c.NonInheritedFlags().Lookup(f.Name) != nil && !f.Hidden && f.Name != "help"
		if own && !strings.Contains(b.String(), "--"+f.Name) {
			t.Errorf("%s at %d columns: --%s is not there", c.CommandPath(), width, f.Name)
		}
	})
}

func TestText(t *testing.T) {
	const text = "One paragraph of\ntwo lines.\n\n" +
		"  key      what it means, at some\n           length\n  another  b\nBehind it."
	var b bytes.Buffer
	(&page{&b, 40}).text(text)
	const want = "One paragraph of two lines.\n\n  key      what it means, at some length\n  another  b\nBehind it.\n"
	if b.String() != want {
		t.Errorf("%q", b.String())
	}
	b.Reset()
	(&page{&b, 30}).text("  key  what it means, at some length")
	if b.String() != "  key  what it means, at some\n       length\n" {
		t.Errorf("%q", b.String())
	}
}

package root

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
)

// Of all commands those are made that the words may ask for, and all where the help of launch is.
func TestAsked(t *testing.T) {
	for words, want := range map[string]string{
		"":                              "",
		"-- plan":                       "",
		"-q -- plan":                    "",
		"plan -- show":                  "plan",
		"sweep show x":                  "sweep",
		"-q plan -- x":                  "plan",
		"--allow speed plan -- x":       "plan",
		"--state-dir show runs":         "runs show", // which of them, cobra decides
		"nosuch plan":                   "",
		"help plan":                     "all",
		"-q help":                       "all",
		"completion bash":               "all",
		cobra.ShellCompRequestCmd + " ": "all",
	} {
		wanted, got := asked(strings.Fields(words)), "all"
		if wanted != nil {
			var names []string
			for _, m := range makers {
				if wanted(m.name) {
					names = append(names, m.name)
				}
			}
			slices.Sort(names)
			got = strings.Join(names, " ")
		}
		if got != want {
			t.Errorf("%q asks for %q, want %q", words, got, want)
		}
	}
}

// A command that is made alone is the one that the whole tree has.
func TestAlone(t *testing.T) {
	f, seen := &cli.Factory{}, 0
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		seen++
		path := strings.Fields(c.CommandPath())[1:]
		alone, rest, err := newTree(f, asked(path)).Find(path)
		if err != nil || len(rest) > 0 || alone.CommandPath() != c.CommandPath() {
			t.Errorf("%s alone is %s, %q, %v", c.CommandPath(), alone.CommandPath(), rest, err)
		} else if c.HasParent() && alone.UsageString() != c.UsageString() {
			t.Errorf("%s alone has another usage:\n%s\n%s", c.CommandPath(), alone.UsageString(), c.UsageString())
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each(Tree(f))
	if seen < 40 {
		t.Errorf("%d commands: are they all seen?", seen)
	}
}

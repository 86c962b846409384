package settings

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Each setting is in a group, so that the help of some command has it, and each group names settings.
func TestGroups(t *testing.T) {
	var names []string
	Known().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	all := slices.Sorted(slices.Values(All))
	if slices.Sort(names); !slices.Equal(names, all) {
		t.Errorf("the groups have %q, the settings are %q", all, names)
	}
	for _, name := range AgainFlags {
		if !slices.Contains(LimitFlags, name) {
			t.Errorf("a run that goes on takes %s, which is no limit", name)
		}
	}
}

// A command uses the settings that it has declared.
func TestUse(t *testing.T) {
	c := Use(&cobra.Command{}, StateFlags, Group{"quiet"})
	var names []string
	Used(c).VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if want := []string{"quiet", "state-dir"}; !slices.Equal(names, want) {
		t.Errorf("it uses %q, want %q", names, want)
	}
	if Used(&cobra.Command{}).HasFlags() {
		t.Error("a command that declared nothing uses settings")
	}
}

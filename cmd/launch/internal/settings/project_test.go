package settings

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// Every setting is classified, and the page lists them as they are.
func TestProjectRules(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| setting | a project's file may set | reason |\n|---|---|---|\n")
	known := map[string]bool{}
	ownFlags().VisitAll(func(f *pflag.Flag) {
		known[f.Name] = true
		rule, ok := projectRules[f.Name]
		if !ok || rule.why == "" || (rule.may == nil) != (rule.which == "") {
			t.Errorf("%s is not classified: %+v", f.Name, rule)
		}
		if !f.Hidden {
			fmt.Fprintf(&table, "| `%s` | %s | %s |\n", f.Name, cmp.Or(rule.which, "any value"), rule.why)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(projectRules)) {
		if !known[name] {
			t.Errorf("%s is no setting", name)
		}
	}
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("docs/settings.md does not have this table:\n%s", table.String())
	}
}

func TestUsersAlone(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		want        bool
	}{
		{"save-on", "INT=100h", true}, {"save-on", "USR2=100s,sigterm", true}, {"save-on", "HUP", true},
		{"save-on", "USR2=100s", false}, {"save-on", "sigusr1, USR2", false},
		{"save-on", "USR2=11m", true}, {"save-on", "", false},
		{"sample", "1ns", true}, {"sample", "2h", true}, {"sample", "1s", false},
		{"formula-time", "1h", true}, {"formula-time", "0", false}, {"formula-time", "5s", false},
		{"grace", "1s", true}, {"yield", "false", true}, {"allow", "model", true}, {"allow", "speed", false},
		{"anyway", "yes", true}, {"anyway", "no", false}, {"plugin", "mine", true}, {"plugin", "none", false},
		{"notify", "bell,https://a/b", true}, {"notify", "bell", false}, {"reserve", "900TiB", false},
		{"trace", "always", true}, {"trace", "yes", true}, {"trace", "auto", false}, {"trace", "never", false},
		{"trace-time", "1h", true}, {"trace-time", "5s", false},
		{"of the future", "1", true},
	} {
		if got := usersAlone(tt.name, tt.value); got != tt.want {
			t.Errorf("%s: %s: %v", tt.name, tt.value, got)
		}
	}
}

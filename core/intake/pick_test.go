package intake

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/declared"
	"github.com/launch-ml/launch/core/plugin/host"
)

// declaring takes the place of the plugin of declarations. Its file is about a script, and "mikro-batch" is a mistake.
type declaring struct{}

func (declaring) Manifest() plugin.Manifest {
	return plugin.Manifest{Name: declared.Name, Version: "1", Marks: []plugin.Mark{{Beside: []string{declared.File}}}}
}

func (declaring) Recognize(_ context.Context, c job.Command) (plugin.Recognized, error) {
	text, err := os.ReadFile(declared.File)
	switch {
	case err != nil || !strings.Contains(string(text), "script: train.py"):
		return nil, plugin.ErrNotMine
	case strings.Contains(string(text), "mikro-batch"):
		return nil, errors.New("there is no key mikro-batch")
	}
	return priced{&job.Job{Dialect: "declared in x/" + declared.File,
		Batch: job.Batch{Micro: 4, Accumulation: 1, Ranks: 1}, Resume: job.Resume{None: "no"}}}, nil
}

// opened notes which plugins were asked, and how many were open at once.
type opened struct {
	names []string
	now   int
	most  int
}

type counted struct {
	Client
	o *opened
}

func (c counted) Close() { c.o.now--; c.Client.Close() }

// The built-in families are asked first, then the declaration, one at a time, and each only if the one before has
// declined.
func TestWhoAnswers(t *testing.T) {
	const about, prefers, wrong = "script: train.py\nmicro-batch: --batch\n", "prefer: true\n", "mikro-batch: 1\n"
	for name, tt := range map[string]struct {
		declaration string // "" for none
		args        string
		plugin      string // --plugin
		asked       []string
		answers     string // the plugin, or what is said instead
		warning     string // "" for none
	}{
		"nothing is declared": {"", "python train.py --batch 4 x", "auto", []string{"family"}, "family", ""},
		"both know it": {about, "python train.py --batch 4 x", "auto", []string{"family"}, "family",
			".launch-job.yaml is not used, because plugin family knows this command; `prefer: true` in"},
		"the declaration is preferred": {about + prefers, "python train.py --batch 4 x", "auto", []string{"declared"},
			"declared", ""},
		"the family declines": {about, "python train.py --batch 4 foreign", "auto",
			[]string{"family", "declared"}, "declared", ""},
		"both decline": {"script: other.py\nmicro-batch: --batch\n", "python train.py foreign",
			"auto", []string{"family", "declared"}, "no plugin knows it", ""},
		"it is about another script": {"script: other.py\nmicro-batch: --batch\n" + prefers, "python train.py x",
			"auto", []string{"family"}, "family", ""},
		"a mistake beside a family": {about + prefers + wrong, "python train.py --batch 4 x", "auto",
			[]string{"declared", "family"}, "family", "mikro-batch"},
		"a mistake and no family": {about + prefers + wrong, "python train.py --batch 4 foreign", "auto",
			[]string{"declared", "family"}, "error: ", ""},
		"a mistake that is asked": {about + wrong, "python train.py --batch 4 foreign", "auto",
			[]string{"family", "declared"}, "error: ", ""},
		"a plugin that is named": {about, "python train.py --batch 4 x", "declared", []string{"declared"},
			"declared", ""},
		"a named plugin declines": {about, "python train.py --batch 4 foreign", "family", []string{"family"},
			"error: plugin family does not know", ""},
		"no text at all": {"\t: [", "python train.py --batch 4 x", "auto", []string{"family"}, "family", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv("HOME", t.TempDir())
			t.Setenv("PATH", "/bin")
			if err := os.WriteFile("train.py", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if tt.declaration != "" {
				if err := os.WriteFile(declared.File, []byte(tt.declaration), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			o := options(t)
			o.Builtin, o.Plugin = append(o.Builtin, func() plugin.Plugin { return declaring{} }), tt.plugin
			var seen opened
			o.Ask = func(ctx context.Context, s host.Source, first *job.Command) (Client, error) {
				seen.names = append(seen.names, s.Manifest.Name)
				seen.now++
				seen.most = max(seen.most, seen.now)
				c, err := o.Here(ctx, s, first)
				return counted{c, &seen}, err
			}
			r, err := Read(t.Context(), o, strings.Split(tt.args, " "))
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
			got := r.Why()
			if r.Err != nil {
				got = "error: " + r.Err.Error()
			} else if r.Job != nil {
				got = cmpOr(r.Job.Plugin, "family")
			}
			if !strings.HasPrefix(got, tt.answers) || !slices.Equal(seen.names, tt.asked) || seen.most != 1 || seen.now != 0 {
				t.Errorf("%q after %q was asked, %d at once, %d left open", got, seen.names, seen.most, seen.now)
			}
			if all := strings.Join(r.Warnings, "; "); !strings.Contains(all, tt.warning) || tt.warning == "" && all != "" {
				t.Errorf("warnings %q", r.Warnings)
			}
			if declared := r.Job != nil && got == "declared"; declared != (r.Declaration == ".launch-job.yaml") {
				t.Errorf("declared in %q", r.Declaration)
			}
		})
	}
}

func cmpOr(name, other string) string {
	if name == "" {
		return other
	}
	return name
}

// A plugin of somebody else's is asked after all built-in ones, and the next of them only if it declines.
func TestOthersAnswerLast(t *testing.T) {
	q := &queue{waiting: []host.Source{{Manifest: plugin.Manifest{Name: "a"}}}, searched: true}
	first, ok := q.next(&Reading{}, Options{})
	if _, more := q.next(&Reading{}, Options{}); !ok || first.Manifest.Name != "a" || more {
		t.Errorf("%v %v %v", first, ok, more)
	}
}

package job

import (
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
)

// What no job can be is refused before anything is made of it.
func TestCheck(t *testing.T) {
	many := func(n int, s string) []string { return slices.Repeat([]string{s}, n) }
	sign := func(pattern string) Signs { return Signs{Lines: []Sign{{Kind: Progress, Pattern: pattern}}} }
	edit := func(doc, path, to string) []config.Edit {
		return []config.Edit{{Knob: "k", At: config.Address{Doc: doc, Path: path}, To: to}}
	}
	for name, tt := range map[string]struct {
		job  Job
		says string
	}{
		"an empty one":                {Job{}, ""},
		"a usual one":                 {Job{Batch: Batch{Micro: 32, Accumulation: 8, Ranks: 64}, Signs: sign(`step (?P<iteration>\d+(?:,\d{3})*)`), Files: []File{{Path: "../x.yml", Format: "yaml"}}, Resume: Resume{Edits: edit("../x.yml", "a", "2")}}, ""},
		"a negative batch":            {Job{Batch: Batch{Micro: -1}}, "micro-batch is -1"},
		"a huge batch":                {Job{Batch: Batch{Ranks: 1 << 62}}, "number of ranks"},
		"a huge product":              {Job{Batch: Batch{Micro: 1 << 20, Accumulation: 1 << 20, Ranks: 2}}, "global batch"},
		"many files":                  {Job{Files: make([]File, 20_000)}, "20000 files"},
		"many globs":                  {Job{Signs: Signs{States: many(1000, "*.pt")}}, "1000 globs"},
		"a long glob":                 {Job{Resume: Resume{Aside: []string{strings.Repeat("x", 5000)}}}, "5000 bytes"},
		"many signs":                  {Job{Signs: Signs{Lines: make([]Sign, 1000)}}, "1000 signs"},
		"no pattern":                  {Job{Signs: sign(`(`)}, "reading the progress sign"},
		"a pattern that repeats":      {Job{Signs: sign(`(abcdefgh){1000}(abcdefgh){1000}(abcdefgh){1000}(abcdefgh){1000}(abcdefgh){1000}(abcdefgh){1000}(abcdefgh){1000}(abcdefgh){1000}(abcdefgh){1000}`)}, "too large"},
		"no pattern of states":        {Job{Signs: Signs{StateIteration: `[`}}, "pattern of states"},
		"a file that is a folder":     {Job{Files: []File{{Path: "a/.."}}}, "reads a file"},
		"a file that is the root":     {Job{Files: []File{{Path: "/"}}}, "reads a file"},
		"Python without a source":     {Job{Files: []File{{Path: "/w/a.py", Format: Python}}}, "does not give the contents"},
		"a zero byte":                 {Job{Resume: Resume{Always: edit(config.ArgvDoc, "-b", "1\x00")}}, "zero byte"},
		"no variable":                 {Job{Rehearsal: Rehearsal{Edits: edit(config.EnvDoc, "A=B", "1")}}, "no variable"},
		"an edit of an unknown file":  {Job{Resume: Resume{Edits: edit("/home/me/.bashrc", "a", "2")}}, "does not read"},
		"a rehearsal of minus steps":  {Job{Rehearsal: Rehearsal{Steps: -4}}, "-4 steps"},
		"many things to put":          {Job{Rehearsal: Rehearsal{Puts: make([]Put, 20_000)}}, "20000 things to put"},
		"a long pattern of states":    {Job{Signs: Signs{StateIteration: strings.Repeat("x", 5000)}}, "5000 bytes"},
		"a sign of five thousand":     {Job{Signs: sign(strings.Repeat("x", 5000))}, "5000 bytes"},
		"a file of five thousand":     {Job{Files: []File{{Path: strings.Repeat("x", 5000)}}}, "reads a file"},
		"a file with a zero byte":     {Job{Files: []File{{Path: "a\x00b"}}}, "reads a file"},
		"an edit of the command":      {Job{Resume: Resume{Edits: edit(config.ArgvDoc, "--resume", SavedPath)}}, ""},
		"an edit of the environment":  {Job{Resume: Resume{Always: edit(config.EnvDoc, "PORT", FreePort)}}, ""},
		"states that wait for nobody": {Job{Signs: Signs{StateAfter: -1}}, "-1 steps"},
	} {
		err := tt.job.Check()
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}

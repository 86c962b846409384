package root

import (
	"strings"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/plugins"
	"github.com/launch-ml/launch/cmd/launch/internal/result"
	"github.com/launch-ml/launch/cmd/launch/internal/runs"
	"github.com/launch-ml/launch/cmd/launch/internal/sbatch"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/plugin/kit"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/ui/top"
)

// A Document is a kind of JSON that launch prints or writes. docs/schema has its schema, made of the type by a test.
type Document struct {
	Name    string // of its schema: docs/schema/NAME.schema.json
	Version int    // 0: it has no version of its own, and is never changed but by adding fields
	By      string // the commands that print or write it, by ", "
	Type    any
	// Whole: every field is there; one that is not known is null.
	Whole bool
}

// Documents are all kinds of JSON that launch prints or writes.
var Documents = []Document{
	{"plan", ui.PlanVersion, "launch plan --json", ui.PlanDocument{}, false},
	{"compare", ui.PlanVersion, "launch plan --compare --json", ui.CompareDoc{}, false},
	{"check", ui.CheckVersion, "launch check --json", ui.CheckDocument{}, false},
	{"top", top.Version, "launch top --json", top.Snapshot{}, false},
	{"estimate", ui.PlanVersion, "launch estimate --json", ui.EstimateDocument{}, false},
	{"result", result.Version, "launch --json-file, launch resume --json-file", result.Result{}, false},
	{"explain", ui.ExplanationVersion, "launch explain --json", Explained{}, true},
	{"runs", 0, "launch runs --json", []ui.RunRow{}, false},
	{"show", record.Version, "launch show --json", runs.ShowDocument{}, false},
	{"prune", 0, "launch runs prune --json", []record.Pruned{}, false},
	{"receipts", 0, "launch receipts --json", []record.Receipt{}, false},
	{"receipt", record.ReceiptVersion, "launch receipts export (a line)", record.Receipt{}, false},
	{"sweep", ui.SweepVersion, "launch sweep status --json, launch sweep export --json, launch sweep --json-file",
		ui.SweepDoc{}, false},
	{"sweep-row", ui.SweepVersion, "launch sweep export --lines (a line), launch sweep export --follow (a line)",
		ui.SweepRow{}, false},
	{"sweep-plan", ui.SweepVersion, "launch sweep plan --json", ui.SweepPlanDoc{}, false},
	{"sbatch-line", sbatch.SbatchVersion, "launch sbatch-line --json", sbatch.SbatchDocument{}, false},
	{"diff", record.DiffVersion, "launch diff --json", record.Diff{}, false},
	{"doctor", ui.DoctorVersion, "launch doctor --json", ui.DoctorDocument{}, false},
	{"gpus", 0, "launch gpus --json", []ui.Card{}, false},
	{"plugins", 0, "launch plugins --json, launch plugins list --json", []host.Source{}, false},
	{"plugins-info", 0, "launch plugins info --json", plugins.PluginInfo{}, false},
	{"plugins-test", 0, "launch plugins test --json", kit.Report{}, false},
	{"version", 0, "launch version --json", cli.Build{}, false},
	{"help", HelpVersion, "launch help --json", HelpDocument{}, false},
}

// documentsOf returns the names of the documents that a command prints or writes.
func documentsOf(command string) []string {
	names := []string{}
	for _, d := range Documents {
		for by := range strings.SplitSeq(d.By, ", ") {
			if at, _, _ := strings.Cut(by, " --"); strings.TrimSuffix(at, " (a line)") == command {
				names = append(names, d.Name)
				break
			}
		}
	}
	return names
}

// Explained has the fields of a [ui.Explanation] as its JSON has them: those of the report stand beside the others.
type Explained struct {
	oom.Report
	explanation
}

type explanation ui.Explanation

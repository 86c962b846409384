package main

import (
	"strings"

	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/plugin/kit"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/top"
	"github.com/launch-ml/launch/core/ui"
)

// A document is a kind of JSON that launch prints or writes. docs/schema has its schema, made of the type by a test.
type document struct {
	Name    string // of its schema: docs/schema/NAME.schema.json
	Version int    // 0: it has no version of its own, and is never changed but by adding fields
	By      string // the commands that print or write it, by ", "
	Type    any
	// Whole: every field is there; one that is not known is null.
	Whole bool
}

// documents are all kinds of JSON that launch prints or writes.
var documents = []document{
	{"plan", ui.PlanVersion, "launch plan --json", ui.PlanDocument{}, false},
	{"compare", ui.PlanVersion, "launch plan --compare --json", ui.CompareDoc{}, false},
	{"check", ui.CheckVersion, "launch check --json", ui.CheckDocument{}, false},
	{"top", top.Version, "launch top --json", top.Snapshot{}, false},
	{"estimate", ui.PlanVersion, "launch estimate --json", ui.EstimateDocument{}, false},
	{"result", resultVersion, "launch --json-file, launch resume --json-file", result{}, false},
	{"explain", ui.ExplanationVersion, "launch explain --json", explained{}, true},
	{"runs", 0, "launch runs --json", []ui.RunRow{}, false},
	{"show", record.Version, "launch show --json", showDocument{}, false},
	{"prune", 0, "launch runs prune --json", []record.Pruned{}, false},
	{"receipts", 0, "launch receipts --json", []record.Receipt{}, false},
	{"receipt", record.ReceiptVersion, "launch receipts export (a line)", record.Receipt{}, false},
	{"sweep", ui.SweepVersion, "launch sweep status --json, launch sweep export --json, launch sweep --json-file",
		ui.SweepDoc{}, false},
	{"sweep-row", ui.SweepVersion, "launch sweep export --lines (a line), launch sweep export --follow (a line)",
		ui.SweepRow{}, false},
	{"sweep-plan", ui.SweepVersion, "launch sweep plan --json", ui.SweepPlanDoc{}, false},
	{"sbatch-line", sbatchVersion, "launch sbatch-line --json", sbatchDocument{}, false},
	{"diff", record.DiffVersion, "launch diff --json", record.Diff{}, false},
	{"doctor", ui.DoctorVersion, "launch doctor --json", ui.DoctorDocument{}, false},
	{"gpus", 0, "launch gpus --json", []ui.Card{}, false},
	{"plugins", 0, "launch plugins --json, launch plugins list --json", []host.Source{}, false},
	{"plugins-info", 0, "launch plugins info --json", pluginInfo{}, false},
	{"plugins-test", 0, "launch plugins test --json", kit.Report{}, false},
	{"version", 0, "launch version --json", build{}, false},
	{"help", helpVersion, "launch help --json", helpDocument{}, false},
}

// documentsOf returns the names of the documents that a command prints or writes.
func documentsOf(command string) []string {
	names := []string{}
	for _, d := range documents {
		for by := range strings.SplitSeq(d.By, ", ") {
			if at, _, _ := strings.Cut(by, " --"); strings.TrimSuffix(at, " (a line)") == command {
				names = append(names, d.Name)
				break
			}
		}
	}
	return names
}

// explained has the fields of a [ui.Explanation] as its JSON has them: those of the report stand beside the others.
type explained struct {
	oom.Report
	explanation
}

type explanation ui.Explanation

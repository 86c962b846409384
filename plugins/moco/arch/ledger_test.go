package arch

import (
	"slices"
	"testing"

	"github.com/launch-ml/launch/core/mem"
)

// A script finds the same parts under the same names in every project's ledger; the paths of requests are the project's.
func TestOneLedger(t *testing.T) {
	for project, name := range []string{V2: "v2 R50 --mlp", V3: "v3 R50", Solar: "solar R50", SolarK2: "solar R50", SolarExp: "solar R50"} {
		s := step(t, name)
		s.Project, s.Batch = Project(project), 2
		e := Training(s)
		if !e.Known() {
			t.Fatal(e.Unknown)
		}
		found := map[mem.Kind][]string{}
		for _, it := range e.Items {
			if err := it.Check(); err != nil {
				t.Errorf("project %d: %v", project, err)
			}
			if !slices.Contains([]string{partQuery, partKey, partQueue, partBatch, lossPart, "DDP buckets"}, it.What) {
				t.Errorf("project %d: a part called %q", project, it.What)
			}
			found[it.Kind] = append(found[it.Kind], it.What)
		}
		for kind, parts := range map[mem.Kind][]string{
			mem.Parameters: {partQuery, partKey}, mem.Optimizer: {partQuery}, mem.Gradients: {partQuery}, mem.Inputs: {partBatch}, mem.Buffers: {partQuery, partKey},
		} {
			for _, part := range parts {
				if !slices.Contains(found[kind], part) {
					t.Errorf("project %d has no %s of %s: %v", project, kind, part, found[kind])
				}
			}
		}
	}
}

package declared

import (
	"strings"
	"testing"
)

// The first ordering that the command's packages have is taken, in a rehearsal alone; without one there is a reason.
func TestLargestFirst(t *testing.T) {
	const two = `largest-first: [{needs: {transformers: '5.2'}, set: {--strategy: length}}, ` +
		`{needs: {transformers: '4.57'}, set: {--by-length: true}}]`
	for name, tt := range map[string]struct{ rehearse, version, largest, unordered string }{
		"a new version":      {two, "5.23.0", "--strategy length", ""},
		"the first version":  {two, "5.2.0", "--strategy length", ""},
		"an older version":   {two, "5.1.0", "--by-length true", ""},
		"too old a version":  {two, "4.56.2", "", "transformers 4.56.2 has no setting for that; 4.57 has"},
		"an unknown version": {two, "", "", "the version of transformers is not known"},
		"without needs":      {"largest-first: {set: {--sort: desc}}", "", "--sort desc", ""},
		"as it is":           {"largest-first: {set: {--b: 2}}", "", "", ""},
		"none":               {"", "", "", "names no setting that puts the largest batch first"},
		"none, and a reason": {"no-order: the buckets are shuffled", "", "", "the buckets are shuffled"},
		"alike":              {"alike: true", "", "", ""},
		"a place that is not there": {"largest-first: {set: {'--config:sort': desc}}", "", "",
			"launch cannot change --config:sort"},
	} {
		files := map[string]string{"venv/pyvenv.cfg": "version = 3.12.1\n", "venv/bin/python": ""}
		if tt.version != "" {
			files["venv/lib/python3.12/site-packages/transformers-"+tt.version+".dist-info/METADATA"] = ""
		}
		c := try{files, "venv/bin/python train.py --b 2 --out o", 0}.in(t, "script: train.py\nmicro-batch: --b\nrehearse:\n"+
			"  steps: 5\n  set: {--out: '{scratch}'}\n  "+tt.rehearse+"\n")
		r, err := recognized(t, c)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		j, largest := r.Job(), ""
		if len(j.Rehearsal.Largest) > 0 {
			largest = strings.TrimPrefix(made(t, j, j.Rehearsal.Largest), "--b 2 --out o ")
		}
		if largest != tt.largest || !strings.Contains(j.Rehearsal.Unordered, tt.unordered) ||
			(tt.unordered == "") != (j.Rehearsal.Unordered == "") || len(j.Rehearsal.Edits) != 1 {
			t.Errorf("%s: %q, %+v", name, largest, j.Rehearsal)
		}
	}
}

package attempt

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/overlay"
	"github.com/launch-ml/launch/core/run"
)

// edited lists the paths that edits change in a document.
func edited(edits []config.Edit, doc string) (paths []string) {
	for _, e := range edits {
		if e.At.Doc == doc {
			paths = append(paths, e.At.Path)
		}
	}
	return paths
}

// asSaved adds to an outcome the settings that the program has saved itself: the values that it really runs with. If a
// glob matches the copies of several runs, asSaved takes the copy that has the planned values as this run's. If none
// has them, the copies count only if all agree.
func asSaved(out *run.Outcome, in file.Finder, j *job.Job, edits []config.Edit) {
	for _, g := range j.Signs.Recipes {
		var all []map[string]string // for each copy: the value of each edited knob
		planned := -1
		for _, path := range file.WrittenSince(in, g, out.Began) {
			text, err := file.Read(path, maxRead)
			if err != nil {
				continue
			}
			doc, err := config.Parse(path, text)
			if err != nil {
				continue
			}
			said, same := map[string]string{}, true
			for _, e := range edits {
				value, ok := spelled(doc, e.At.Path)
				if ok && !strings.HasPrefix(e.At.Path, "-") && !slices.Contains(out.Confirmed, e.At.Doc) {
					said[e.Knob], same = value, same && value == e.To
				}
			}
			if same && len(said) > 0 && planned < 0 {
				planned = len(all)
			}
			all = append(all, said)
		}
		switch {
		case planned >= 0:
			all = all[planned:]
		case len(all) == 0 || slices.ContainsFunc(all, func(said map[string]string) bool { return !maps.Equal(said, all[0]) }):
			continue
		}
		for knob, value := range all[0] {
			settle(out, knob, value)
		}
	}
}

// spelled returns a setting of a document. Lists have one spelling, because programs save them over several lines.
func spelled(doc config.Tree, path string) (string, bool) {
	text, ok := doc.Get(path)
	list := doc.Root().At(path)
	if !ok || list.Kind() != config.Seq || !strings.Contains(text, "\n") {
		return text, ok
	}
	items := make([]string, list.Len())
	for i := range items {
		items[i] = list.Index(i).Text()
	}
	return "[" + strings.Join(items, ", ") + "]", true
}

// settle adds a setting as the program uses it, unless the program has printed that setting.
func settle(out *run.Outcome, knob, value string) {
	if out.Settings == nil {
		out.Settings = map[string]string{}
	}
	if _, said := out.Settings[knob]; !said {
		out.Settings[knob] = value
	}
}

// asBuilt adds to an outcome what the hook reported of the edited source: the values that the program built from it, or
// else only that the program has read it.
func asBuilt(out *run.Outcome, r overlay.Report, edits []config.Edit) {
	for _, e := range edits {
		if value, ok := r.Value(e.At.Doc, e.At.Path); ok {
			settle(out, e.Knob, value)
		} else if r.Applied[e.At.Doc] > 0 && !slices.Contains(out.Confirmed, e.At.Doc) {
			out.Confirmed = append(out.Confirmed, e.At.Doc)
		}
	}
}

// maxRead bounds, in bytes, how much is read of a file in which the program saved its settings.
const maxRead = 16 << 20

// confirmed lists the edited documents whose text the program has saved, so that it has certainly read them.
func confirmed(in file.Finder, j *job.Job, made *job.Rewritten, began time.Time) (docs []string) {
	for _, path := range newest(in, j.Signs.Recipes, began) {
		text, err := file.Read(path, maxRead)
		if err != nil {
			continue
		}
		for _, f := range made.Files {
			if f.From != "" && bytes.Contains(text, bytes.TrimSpace(f.Text)) {
				docs = append(docs, f.From)
			}
		}
	}
	return docs
}

// untaken marks an outcome if the program never loaded the edited source. It looks only at programs that succeeded or
// ran out of memory: one that failed for another reason may not have reached its settings.
func untaken(out *run.Outcome, o *overlay.Overlay) {
	if out.Untaken != "" || out.Ending != run.OutOfMemory && out.Ending != run.Succeeded {
		return
	}
	if said, why := o.Verdict(true, out.Took); said == overlay.NotTaken {
		withoutSettings(out, why)
	}
}

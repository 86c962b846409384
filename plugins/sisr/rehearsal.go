package sisr

import (
	"path/filepath"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
)

// rehearsal shortens a training to three iterations with a validation and a saved state after the second. Its experiment
// lies in the project under a name of its own: a name that is a path would be part of the log's file name (train.py of
// every dialect). The validation itself cannot be shortened: it takes every image.
func rehearsal(r *recipe, argv *config.Argv, root string) job.Rehearsal {
	switch {
	case r.at("path.resume_state").Kind() == config.String:
		return job.Rehearsal{None: "the recipe goes on from path.resume_state, so a shorter training would end before it begins"}
	case argv.Has("--resume") || argv.Has("--start-iter"):
		return job.Rehearsal{None: "the command goes on from a saved state, so a shorter training would end before it begins"}
	}
	type short struct {
		knob, path string
		value      any
	}
	set := []short{
		{"iterations", r.totalIter, 3},
		{"progress interval", "logger.print_freq", 1},
		{"saved state interval", "logger.save_checkpoint_freq", 2},
		{"experiment", "name", job.ScratchName},
	}
	if r.valOn {
		set = append(set, short{knobValFreq, r.valFreq, 2})
	}
	out := job.Rehearsal{Leaves: []string{filepath.Join(root, r.folder, job.ScratchName), filepath.Join(root, "tb_logger", job.ScratchName)}}
	for _, s := range set {
		if s.path == "name" && argv.Has("--name") {
			from, _ := argv.Get("--name")
			out.Edits = append(out.Edits, config.Edit{Knob: s.knob, At: config.Address{Doc: config.ArgvDoc, Path: "--name"}, From: from, To: job.ScratchName, Cost: "none"})
			continue
		}
		if !r.settable(s.path) {
			return job.Rehearsal{None: "the recipe shares " + s.path + " with other settings, so it cannot be shortened"}
		}
		text, err := r.tree.Text(s.value)
		if err != nil {
			return job.Rehearsal{None: err.Error()}
		}
		from, ok := r.tree.Get(s.path)
		out.Edits = append(out.Edits, config.Edit{Knob: s.knob, At: config.Address{Doc: r.path, Path: s.path}, From: from, To: text, Add: !ok, Cost: "none", Why: "a short run"})
	}
	return out
}

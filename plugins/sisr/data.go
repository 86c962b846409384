package sisr

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
)

// data are the folders and files that the recipe reads: images of each data set, and weights to begin with. The program
// runs in the folder dir, the command in another one if a shell changes it.
func (r *recipe) data(commands, dir string) (out []job.Data) {
	add := func(path, what string, all ...string) {
		for _, p := range expand(all) {
			if p == "" || strings.Contains(p, "://") {
				continue
			}
			if p = filepath.Clean(p); dir != commands {
				p = file.In(dir, p)
			}
			out = append(out, job.Data{At: config.Address{Doc: r.path, Path: path}, Path: p, What: what})
		}
	}
	for _, set := range r.at("datasets").Keys() {
		what := "validation images"
		switch {
		case strings.HasPrefix(set, "train"):
			what = "training images"
		case !r.valOn:
			continue // it is not read
		}
		for _, root := range []string{"dataroot_gt", "dataroot_lq"} {
			path := "datasets." + set + "." + root
			add(path, what, r.roots(path)...)
		}
	}
	for _, path := range []string{"path.pretrain_network_g", "path.pretrain_network_d", "path.resume_state"} {
		if s, ok := r.at(path).Str(); ok {
			add(path, "weights to begin with", s)
		}
	}
	return out
}

// states is how many saved states the training leaves: no trainer of the family removes one (save_training_state of
// base_model.py at 68629319).
func (r *recipe) states() int64 {
	every := r.int("logger.save_checkpoint_freq", 0)
	if every < 1 {
		return 0
	}
	return r.int(r.totalIter, 0) / every
}

// stops are parts of the warnings at which the trainer stops, in the words of this package.
var stops = []string{"the trainer will stop at", "will stop at it", "or the loader stops", "which the trainer asserts",
	"crashes the trainer", "no version of the trainer has this key", "the trainer reads no recipe",
	"the trainer will say so",
	"takes exactly one", "says how large the training crop is"}

// faults are those of the warnings at which the trainer stops.
func faults(warnings []string) (out []string) {
	for _, w := range warnings {
		if slices.ContainsFunc(stops, func(s string) bool { return strings.Contains(w, s) }) {
			out = append(out, w)
		}
	}
	return out
}

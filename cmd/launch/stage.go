package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/launch-ml/launch/core/job"
)

// stage lays into a trial's folder what the plugin wants there. Nothing is put elsewhere: what a link leads to is only read,
// and outlives the folder.
func stage(scratch string, puts []job.Put) error {
	for _, p := range puts {
		if !filepath.IsLocal(p.Path) || p.Link != "" && !filepath.IsAbs(p.Link) {
			return fmt.Errorf("preparing the trial: the plugin puts %q outside its folder, or links it to no absolute path", p.Path)
		}
		path := filepath.Join(scratch, p.Path)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		switch {
		case err != nil:
		case p.Link != "":
			err = os.Symlink(p.Link, path)
		default:
			err = os.WriteFile(path, p.Text, 0o600)
		}
		if err != nil {
			return fmt.Errorf("preparing the trial: %w", err)
		}
	}
	return nil
}

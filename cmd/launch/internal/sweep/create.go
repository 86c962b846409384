package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/local"
)

// create records a new sweep with the code that it runs and, for a snapshot, copies the code.
func (d *driver) create(
	ctx context.Context, sweeps local.Folders, spec *sweep.Spec, snapshot bool,
) (*local.Journal, error) {
	code, diff, err := local.ReadTree(ctx, spec.Dir)
	if err != nil {
		d.say.Warn("%v", err)
	}
	if snapshot && code == nil {
		return nil, errors.New("--snapshot copies the code by git, and there is no git repository here")
	}
	if snapshot {
		if path := local.PastTree(code, spec.Command); path != "" {
			return nil, fmt.Errorf("--snapshot runs a copy of the code, and the command names %s, which is not of the copy: "+
				"give its path from the folder of the command", path)
		}
	}
	spec.Tree = code
	copied := filepath.Join(sweeps.Folder(spec.Name), "code")
	if snapshot {
		if spec.Snapshot, err = local.InsideTree(code, spec.Dir, copied); err != nil {
			return nil, err
		}
	}
	if !snapshot {
		spec.Identity = ofSweep(d.state, spec, spec.Command)
	}
	j, err := sweeps.Create(*spec)
	if err != nil {
		return nil, err
	}
	if len(diff) > 0 {
		err = private.WriteFile(filepath.Join(sweeps.Folder(spec.Name), "tree.diff"), diff, 0o600)
	}
	if err == nil && snapshot {
		if _, err = local.CopyTree(ctx, spec.Dir, copied); err == nil {
			err = keepSettings(spec, copied)
		}
		if err == nil { // only now is there what its rows run
			for _, path := range besides(spec.Command, code.Root, copied) {
				d.say.Warn("%s stands in the command by its absolute path: rows read that file, and not the copy", path)
			}
			err = j.Write(sweep.Event{Version: sweep.Version, Time: time.Now(), Kind: sweep.Taken,
				Identity: ofSweep(d.state, spec, spec.Command), PID: os.Getpid()})
		}
	}
	if err != nil {
		j.Close()
		os.RemoveAll(sweeps.Folder(spec.Name))
		return nil, err
	}
	return j, nil
}

// warnChanged warns if the code is not that with which the sweep began.
func (d *driver) warnChanged(ctx context.Context, h *sweep.History) {
	was := h.Spec.Tree
	if was == nil || h.Spec.Snapshot != "" {
		return
	}
	now, _, err := local.ReadTree(ctx, h.Spec.Dir)
	if err != nil || now == nil || now.Commit == was.Commit && now.Changes == was.Changes {
		return
	}
	d.say.Warn("the code has changed since sweep %s began (commit %.12s): rows that run now run other code; "+
		"--snapshot keeps a copy", h.Spec.Name, was.Commit)
}

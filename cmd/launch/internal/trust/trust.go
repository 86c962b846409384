// Package trust is launch trust, which approves the settings files of a project.
package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/plugin/declared"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/ui"
)

// New makes launch trust.
func New() *cobra.Command {
	var list, remove bool
	c := &cobra.Command{
		Use: "trust [FOLDER | FILE]", Short: "approve the settings file of a project, as it is now", Args: cli.Takes(0, 1,
			"one folder or file, or none for the current folder"),
		Long: `trust prints what the .launch.yaml and the .launch-job.yaml of a project hold, and records that you
approve of them. The approval ends when the file changes.

launch takes settings only from files that you or root own and nobody else can write. From such a file
of a project it takes what describes the project or makes launch do less. It takes the rest only after
"launch trust": json-file, state-dir, memory, grace, nodes-at, this-node, the name of a plugin, anyway,
notify-command, notify-host, an address in notify, an allow above metrics, a save-on that is not USR1 or
USR2, a sample beyond 100ms to 10s, a long formula-time, and yield. From a file that others can write it
takes nothing; after "launch trust" it takes everything but those.`,
		Example: "  launch trust\n  launch trust --list\n  launch trust --remove ~/project/.launch.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			say := cli.Out()
			approved := private.Approved()
			if list {
				return listTrusted(say, approved)
			}
			path := strings.Join(args, "")
			if remove {
				return removeTrusted(say, approved, path)
			}
			return approve(say, approved, path)
		},
	}
	c.Flags().BoolVar(&list, "list", false, "list the approved files")
	c.Flags().BoolVar(&remove, "remove", false, "withdraw the approval of a file, or of a folder's files")
	c.MarkFlagsMutuallyExclusive("list", "remove")
	return c
}

// settingsOf lists the settings files of a path: the file itself, or those that launch reads in that folder. "" is the
// current folder.
func settingsOf(path string) ([]string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		home, _ := os.UserHomeDir()
		var paths []string
		for _, p := range []string{private.Nearest(path, settings.ProjectFile, home), filepath.Join(path, declared.File)} {
			if _, err := os.Lstat(p); p != "" && err == nil {
				paths = append(paths, p)
			}
		}
		if len(paths) == 0 {
			return nil, fmt.Errorf("no %s and no %s for %s", settings.ProjectFile, declared.File, path)
		}
		return paths, nil
	}
	if name := filepath.Base(path); name != settings.ProjectFile && name != declared.File {
		return nil, fmt.Errorf("%s is not a settings file of a project: such a file is named %s or %s", path,
			settings.ProjectFile, declared.File)
	}
	return []string{path}, nil
}

// approve prints the settings files of a path, and records them as approved.
func approve(say ui.Printer, approved private.Approvals, path string) error {
	paths, err := settingsOf(path)
	if err != nil {
		return err
	}
	for _, p := range paths {
		f, err := private.ReadSettings(p)
		if err != nil {
			return fmt.Errorf("reading %s: %w", p, err)
		}
		if err := approved.Add(f); err != nil {
			return err
		}
		say.Line("trusted: %s", f.Path)
		for line := range strings.Lines(string(f.Text)) {
			say.Line("    %s", strings.TrimRight(line, "\r\n"))
		}
		if f.Foreign != nil {
			say.Warn("%v: if they change it, the approval ends. launch still ignores settings that name paths or "+
				"weaken limits", f.Foreign)
		}
	}
	return nil
}

func listTrusted(say ui.Printer, approved private.Approvals) error {
	entries, err := approved.Entries()
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		say.Line("no file is trusted")
	}
	for _, e := range entries {
		state := "trusted"
		switch f, err := private.ReadSettings(e.Path); {
		case errors.Is(err, fs.ErrNotExist):
			state = "gone"
		case err != nil:
			state = "unreadable"
		case f.Sum() != e.SHA256:
			state = "changed"
		}
		say.Line("%-11s %s", state, e.Path)
	}
	return nil
}

// removeTrusted removes a file from the list, even if the file no longer exists, or the files of a folder.
func removeTrusted(say ui.Printer, approved private.Approvals, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	paths := []string{path}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if paths, err = settingsOf(path); err != nil {
			return err
		}
	}
	for _, p := range paths {
		if dir, err := filepath.EvalSymlinks(filepath.Dir(p)); err == nil { // as it was recorded
			p = filepath.Join(dir, filepath.Base(p))
		}
		if err := approved.Remove(p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		say.Line("no longer trusted: %s", p)
	}
	return nil
}

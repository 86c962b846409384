// Package tree records which code a sweep runs, and makes a copy of it, where the code is under git.
//
// It changes neither the files nor the index. A copy adds objects and an entry of a worktree to the repository.
package tree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/sweep"
)

// deadline is for one command of git: a repository on a slow disk must not hold up a sweep for long.
const deadline = 30 * time.Second

// mostSource is the largest file that is read as source.
const mostSource = 1 << 20

// Read identifies the code in a folder. It returns nil where there is no git or no repository. diff is what differs from
// the commit in files that git tracks, followed by Python files that it does not track. Other files that git does not
// track are the data and the results of trials.
func Read(ctx context.Context, dir string) (t *sweep.Tree, diff []byte, err error) {
	root, err := git(ctx, dir, nil, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, nil, nil
	}
	t = &sweep.Tree{Root: line(root)}
	against := emptyTree
	if commit, err := git(ctx, dir, nil, "rev-parse", "--verify", "--quiet", "HEAD"); err == nil {
		t.Commit = line(commit)
		against = t.Commit
	}
	diff, err = git(ctx, t.Root, nil, "diff", "--binary", "--no-ext-diff", "--no-textconv", against)
	if err != nil {
		return nil, nil, fmt.Errorf("recording the code: %w", err)
	}
	names, err := untracked(ctx, t.Root)
	if err != nil {
		return nil, nil, fmt.Errorf("recording the code: %w", err)
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(t.Root, name))
		if err == nil {
			diff = fmt.Appendf(diff, "\n=== not tracked: %s ===\n%s", name, text)
		}
	}
	if len(diff) > 0 {
		sum := sha256.Sum256(diff)
		t.Changes = hex.EncodeToString(sum[:8])
	}
	return t, diff, nil
}

// emptyTree is git's name of the tree without files, which every repository knows.
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

// untracked lists the Python files that git neither tracks nor ignores.
func untracked(ctx context.Context, root string) (names []string, err error) {
	out, err := git(ctx, root, nil, "ls-files", "-z", "--others", "--exclude-standard", "--", "*.py")
	for name := range strings.SplitSeq(string(out), "\x00") {
		info, err := os.Lstat(filepath.Join(root, name))
		if name != "" && err == nil && info.Mode().IsRegular() && info.Size() <= mostSource {
			names = append(names, name)
		}
	}
	return names, err
}

// Copy makes a worktree in the folder to with the code of dir as it is now, and returns the folder in it that
// corresponds to dir. Files that git does not track, but for Python files, are not in the copy.
func Copy(ctx context.Context, dir, to string) (string, error) {
	t, _, err := Read(ctx, dir)
	if err == nil && t == nil {
		err = errors.New("there is no git repository here")
	}
	if err != nil {
		return "", fmt.Errorf("copying the code: %w", err)
	}
	index, err := os.MkdirTemp("", "launch-index-")
	if err != nil {
		return "", fmt.Errorf("copying the code: %w", err)
	}
	defer os.RemoveAll(index)
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(index, "index"), "GIT_AUTHOR_NAME=launch", "GIT_AUTHOR_EMAIL=launch@localhost",
		"GIT_COMMITTER_NAME=launch", "GIT_COMMITTER_EMAIL=launch@localhost"}
	var steps [][]string
	commit := []string{"commit-tree", "-m", "launch sweep: the code as it was"}
	if t.Commit != "" {
		steps = append(steps, []string{"read-tree", t.Commit})
		commit = append(commit, "-p", t.Commit)
	}
	steps = append(steps, []string{"add", "--update", "--", "."})
	names, err := untracked(ctx, t.Root)
	if len(names) > 0 {
		steps = append(steps, append([]string{"add", "--"}, names...))
	}
	for _, args := range steps {
		if err == nil {
			_, err = git(ctx, t.Root, env, args...)
		}
	}
	var made []byte
	if err == nil {
		made, err = git(ctx, t.Root, env, "write-tree")
	}
	if err == nil {
		made, err = git(ctx, t.Root, env, append(commit, line(made))...)
	}
	if err == nil {
		_, err = git(ctx, t.Root, nil, "worktree", "add", "--detach", to, line(made))
	}
	if err != nil {
		return "", fmt.Errorf("copying the code: %w", err)
	}
	return Inside(t, dir, to)
}

// Inside returns the folder of a copy in the folder to that corresponds to dir.
func Inside(t *sweep.Tree, dir, to string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	below, err := filepath.Rel(t.Root, real)
	if err != nil {
		return "", err
	}
	return filepath.Join(to, below), nil
}

func line(text []byte) string { return strings.TrimSpace(string(text)) }

// git runs git and returns what it prints. It takes no locks that another git would have to wait for, and runs no program
// that the repository's configuration names.
func git(ctx context.Context, dir string, env []string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C"), env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, line(errOut.Bytes()))
	}
	return out.Bytes(), nil
}

package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/sweep"
)

// Which code a sweep runs is recorded, and a copy of it made, where the code is under git. This changes neither the
// files nor the index. A copy adds objects and an entry of a worktree to the repository.

// mostSource is the largest file that is read as source.
const mostSource = 1 << 20

// ReadTree identifies the code in a folder. It returns nil where there is no git or no repository. diff is what differs
// from the commit in files that git tracks, followed by Python files that it does not track. Other files that git
// does not track are the data and the results of trials.
func ReadTree(ctx context.Context, dir string) (t *sweep.Tree, diff []byte, err error) {
	g, err := openGit(ctx, dir)
	if err != nil {
		return nil, nil, fmt.Errorf("recording the code: %w", err)
	}
	if g == nil {
		return nil, nil, nil
	}
	return read(ctx, g)
}

// DiffTree is what differs from the commit in some files, given by their absolute paths: git's diff, followed by
// those that git does not track. Of a file that is too large, or lies outside the work tree, it has the name. It is
// empty only where all of them are as the commit has them, and nil where there is no commit.
func DiffTree(ctx context.Context, dir string, paths []string) ([]byte, error) {
	g, err := openGit(ctx, dir)
	if err != nil || g == nil {
		return nil, err
	}
	commit, err := g.run(ctx, nil, "rev-parse", "--verify", "--quiet", "HEAD")
	if err != nil {
		return nil, nil
	}
	diff := []byte{}
	names, outside := g.below(paths)
	for _, path := range outside {
		diff = fmt.Appendf(diff, "=== outside of the commit's work tree, and not kept: %s ===\n", path)
	}
	for some := range slices.Chunk(names, mostPaths) {
		text, err := g.run(ctx, nil, append(diffFrom(line(commit)), append([]string{"--"}, some...)...)...)
		if err != nil {
			return nil, fmt.Errorf("recording the code: %w", err)
		}
		diff = append(diff, text...)
		tracked, err := g.run(ctx, nil, append([]string{"ls-files", "-z", "--cached", "--"}, literal(some)...)...)
		if err != nil {
			return nil, fmt.Errorf("recording the code: %w", err)
		}
		known := strings.Split(string(tracked), "\x00")
		diff = g.append(diff, slices.DeleteFunc(slices.Clone(some), func(name string) bool {
			return slices.Contains(known, name)
		}))
		if len(diff) > mostOutput {
			return nil, fmt.Errorf("recording the code: its changes have more than %d MiB", mostOutput>>20)
		}
	}
	return diff, nil
}

// mostPaths is how many paths one command of git gets: a command line has an end.
const mostPaths = 500

// below are the paths in the work tree, relative to it, and those outside of it.
func (g *git) below(paths []string) (names, outside []string) {
	for _, path := range paths {
		name := ""
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err == nil {
			name, err = filepath.Rel(g.root, filepath.Join(dir, filepath.Base(path)))
		}
		if err == nil && filepath.IsLocal(name) {
			names = append(names, name)
		} else {
			outside = append(outside, path)
		}
	}
	return names, outside
}

// literal are the pathspecs of names, for a command that takes patterns.
func literal(names []string) (specs []string) {
	for _, name := range names {
		specs = append(specs, ":(literal)"+name)
	}
	return specs
}

// append adds the text of files that git does not track; of one that is too large, or cannot be read, its name.
func (g *git) append(diff []byte, names []string) []byte {
	for _, name := range names {
		if text, err := file.Read(filepath.Join(g.root, name), mostSource); err == nil {
			diff = fmt.Appendf(diff, "\n=== not tracked: %s ===\n%s", name, text)
		} else {
			diff = fmt.Appendf(diff, "\n=== not tracked, and not kept: %s ===\n", name)
		}
	}
	return diff
}

func diffFrom(commit string) []string {
	return []string{"diff", "--binary", "--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/",
		"--dst-prefix=b/", "--ignore-submodules=dirty", commit}
}

func read(ctx context.Context, g *git) (t *sweep.Tree, diff []byte, err error) {
	t = &sweep.Tree{Root: g.root}
	against := emptyTree
	if commit, err := g.run(ctx, nil, "rev-parse", "--verify", "--quiet", "HEAD"); err == nil {
		t.Commit = line(commit)
		against = t.Commit
	}
	diff, err = g.run(ctx, nil, diffFrom(against)...)
	if err != nil {
		return nil, nil, fmt.Errorf("recording the code: %w", err)
	}
	names, err := untracked(ctx, g)
	if err != nil {
		return nil, nil, fmt.Errorf("recording the code: %w", err)
	}
	diff = g.append(diff, names)
	if len(diff) > 0 {
		sum := sha256.Sum256(diff)
		t.Changes = hex.EncodeToString(sum[:8])
	}
	return t, diff, nil
}

// emptyTree is git's name of the tree without files, which every repository knows.
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

// untracked lists the Python files that git neither tracks nor ignores.
func untracked(ctx context.Context, g *git) (names []string, err error) {
	out, err := g.run(ctx, nil, "ls-files", "-z", "--others", "--exclude-standard", "--", "*.py")
	for name := range strings.SplitSeq(string(out), "\x00") {
		info, err := os.Lstat(filepath.Join(g.root, name))
		if name != "" && err == nil && info.Mode().IsRegular() && info.Size() <= mostSource {
			names = append(names, name)
		}
	}
	return names, err
}

// CopyTree makes a worktree in the folder to with the code of dir as it is now, and returns the folder in it that
// corresponds to dir. Files that git does not track, but for Python files, are not in the copy.
func CopyTree(ctx context.Context, dir, to string) (string, error) {
	g, err := openGit(ctx, dir)
	if err == nil && g == nil {
		err = errors.New("there is no git repository here")
	}
	if err != nil {
		return "", fmt.Errorf("copying the code: %w", err)
	}
	t, _, err := read(ctx, g)
	if err != nil {
		return "", fmt.Errorf("copying the code: %w", err)
	}
	index, err := os.MkdirTemp("", "launch-index-")
	if err != nil {
		return "", fmt.Errorf("copying the code: %w", err)
	}
	defer os.RemoveAll(index)
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(index, "index"), "GIT_AUTHOR_NAME=launch",
		"GIT_AUTHOR_EMAIL=launch@localhost",
		"GIT_COMMITTER_NAME=launch", "GIT_COMMITTER_EMAIL=launch@localhost"}
	commit := []string{"commit-tree", "-m", "launch sweep: the code as it was"}
	if t.Commit != "" {
		_, err = g.run(ctx, env, "read-tree", t.Commit)
		commit = append(commit, "-p", t.Commit)
	}
	var changed []byte // with what was removed; git add would look into submodules
	if err == nil {
		changed, err = g.run(ctx, env, "diff-files", "--name-only", "-z", "--ignore-submodules=all")
	}
	var names []string
	if err == nil {
		names, err = untracked(ctx, g)
	}
	for _, name := range names {
		changed = append(append(changed, name...), 0)
	}
	if err == nil {
		_, err = g.feed(ctx, env, changed, "update-index", "--add", "--remove", "--replace", "-z", "--stdin")
	}
	var made []byte
	if err == nil {
		made, err = g.run(ctx, env, "write-tree")
	}
	if err == nil {
		made, err = g.run(ctx, env, append(commit, line(made))...)
	}
	if err == nil {
		_, err = g.run(ctx, nil, "worktree", "add", "--detach", to, line(made))
	}
	if err == nil {
		err = g.unfilter(ctx, to)
	}
	if err != nil {
		return "", fmt.Errorf("copying the code: %w", err)
	}
	return InsideTree(t, dir, to)
}

// InsideTree returns the folder of a copy in the folder to that corresponds to dir.
func InsideTree(t *sweep.Tree, dir, to string) (string, error) {
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

// PastTree is an argument by which a command would run or read a file of the work tree itself, not that of a copy: an
// absolute path of code or of a recipe. It is "" where there is none.
func PastTree(t *sweep.Tree, args []string) string {
	for _, arg := range args {
		_, value, assigned := strings.Cut(arg, "=")
		if !assigned {
			value = arg
		}
		switch filepath.Ext(value) {
		case ".py", ".sh", ".bash", ".yaml", ".yml", ".toml", ".json", ".cfg", ".ini":
		default:
			continue
		}
		real, err := filepath.EvalSymlinks(value)
		if err != nil || !filepath.IsAbs(value) {
			continue
		}
		if below, err := filepath.Rel(t.Root, real); err == nil && filepath.IsLocal(below) {
			return value
		}
	}
	return ""
}

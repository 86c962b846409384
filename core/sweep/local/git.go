package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/private"
)

const (
	// deadline is for one command of git: a repository on a slow disk must not hold up a sweep for long.
	deadline = 30 * time.Second
	// mostOutput bounds what is read of one command of git.
	mostOutput = 64 << 20
	// mostFilters bounds the filter drivers of a configuration; people have one or two.
	mostFilters = 100
)

// git runs git in a work tree that somebody else may have made, with its configuration and attributes. Nothing that
// these name is run: no hook, filter, diff driver, monitor, transport, pager or helper. This is the only place that
// starts git.
type git struct {
	root     string
	ground   private.Ground
	switches []string // what is set above the configuration, as NAME=VALUE
}

// off are the settings of git by which a repository could have a program run, write elsewhere, or look into other
// repositories. Filters are switched off by name; see [git.filters].
var off = []string{
	"core.fsmonitor=false", "core.hooksPath=/dev/null", "core.untrackedCache=false", "core.pager=cat",
	"core.editor=false", "sequence.editor=false", "core.askPass=", "credential.helper=", "core.sshCommand=false",
	"core.gitProxy=", "core.alternateRefsCommand=false", "core.attributesFile=/dev/null", "protocol.allow=never",
	"commit.gpgSign=false", "gpg.program=false", "gpg.ssh.program=false", "gpg.x509.program=false", "gc.auto=0",
	"maintenance.auto=false", "submodule.recurse=false", "diff.external=", "diff.submodule=short",
	"interactive.diffFilter=",
	"fetch.recurseSubmodules=false", "worktree.guessRemote=false", "checkout.workers=1",
}

// openGit finds the work tree that holds a folder. It returns nil where there is no git or no repository.
func openGit(ctx context.Context, dir string) (*git, error) {
	g := &git{root: dir, ground: private.GroundOf(dir), switches: off}
	root, err := g.run(ctx, nil, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, nil
	}
	// core.worktree may name any folder
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, nil
	}
	at := line(root)
	if below, err := filepath.Rel(at, real); err != nil || !filepath.IsLocal(below) {
		return nil, fmt.Errorf("git takes %s for its work tree, which does not hold %s", at, dir)
	}
	if _, err := os.Lstat(filepath.Join(at, ".git")); err != nil {
		return nil, fmt.Errorf("git takes %s for its work tree, which has no .git", at)
	}
	g.root = at
	return g, g.filters(ctx)
}

// filters switches off the filter drivers that the configuration names: git has no option for that.
func (g *git) filters(ctx context.Context) error {
	out, err := g.run(ctx, nil, "config", "--null", "--name-only", "--includes", "--list")
	if err != nil {
		return err
	}
	drivers := map[string]bool{}
	for name := range strings.SplitSeq(string(out), "\x00") {
		first, rest := strings.IndexByte(name, '.'), strings.LastIndexByte(name, '.')
		if first < 0 || rest <= first || !strings.EqualFold(name[:first], "filter") {
			continue
		}
		driver := name[first+1 : rest]
		if strings.ContainsAny(driver, "=\n") { // no option could name it
			return fmt.Errorf("git's configuration has a filter of the name %.100q", driver)
		}
		drivers[driver] = true
	}
	if len(drivers) > mostFilters {
		return fmt.Errorf("git's configuration has %d filters", len(drivers))
	}
	g.switches = slices.Clone(off)
	for d := range drivers {
		d = "filter." + d
		g.switches = append(g.switches, d+".clean=", d+".smudge=", d+".process=", d+".required=false")
	}
	return nil
}

// run returns what a command of git prints. env is added to its environment. It takes no locks that another git would
// have to wait for.
func (g *git) run(ctx context.Context, env []string, args ...string) ([]byte, error) {
	return g.feed(ctx, env, nil, args...)
}

// feed is run with a standard input.
func (g *git) feed(ctx context.Context, env []string, input []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	options := []string{"--no-pager", "--literal-pathspecs"}
	if args[0] == "ls-files" { // the only one with a pattern
		options = options[:1]
	}
	for _, s := range g.switches {
		options = append(options, "-c", s)
	}
	cmd := g.ground.Command(ctx, "git", append(options, args...)...)
	cmd.Dir = g.root
	cmd.Env = append(append(environ(cmd.Env), "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1",
		"GIT_ALLOW_PROTOCOL=none", "GIT_EDITOR=false", "GIT_PAGER=cat", "LC_ALL=C"), env...)
	out, complaint := &bounded{most: mostOutput}, &bounded{most: 4 << 10}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), out, complaint
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, line(complaint.text.Bytes()))
	}
	if out.over {
		return nil, fmt.Errorf("git %s prints more than %d MiB", args[0], mostOutput>>20)
	}
	return out.text.Bytes(), nil
}

// environ is an environment without the variables by which git is configured: another repository, programs, traces.
func environ(env []string) []string {
	return slices.DeleteFunc(env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		stays := name == "GIT_CEILING_DIRECTORIES" || name == "GIT_DISCOVERY_ACROSS_FILESYSTEM"
		return strings.HasPrefix(name, "GIT_") && !stays || name == "SSH_ASKPASS" || name == "GPG_TTY"
	})
}

// bounded keeps the beginning of what is written.
type bounded struct {
	text bytes.Buffer
	most int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.most-b.text.Len())
	b.text.Write(p[:n])
	b.over = b.over || n < len(p)
	return len(p), nil
}

// unfilter replaces in a copy the files that git keeps in another form, such as those of Git LFS, by those of the work
// tree: the filters that would restore them are not run.
func (g *git) unfilter(ctx context.Context, to string) error {
	names, err := g.run(ctx, nil, "ls-files", "-z")
	if err != nil {
		return err
	}
	out, err := g.feed(ctx, nil, names, "check-attr", "-z", "--stdin", "filter")
	if err != nil {
		return err
	}
	from, err := os.OpenRoot(g.root)
	if err != nil {
		return err
	}
	defer from.Close()
	into, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer into.Close()
	fields := strings.Split(string(out), "\x00")
	for i := 0; i+2 < len(fields); i += 3 { // path, attribute, value
		if value := fields[i+2]; value == "unspecified" || value == "unset" {
			continue
		}
		if err := replace(from, into, fields[i]); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// replace copies a file over one of the same name. A name that is no file on both sides stays as it is.
func replace(from, into *os.Root, name string) error {
	for _, root := range []*os.Root{from, into} {
		if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
			return nil
		}
	}
	src, err := from.Open(name)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := into.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}

func line(text []byte) string { return strings.TrimSpace(string(text)) }

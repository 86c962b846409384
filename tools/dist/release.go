package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A release is what a build is of.
type release struct {
	version string // v1.2.3, or v1.2.3-0.20261123152538-0123456789ab where the commit has no tag
	commit  string
	date    time.Time // of the commit
}

// versions are those that a release may have.
var versions = regexp.MustCompile(`^v\d+\.\d+\.\d+(-rc\.\d+)?$`)

// releaseHere is the release of the commit that is checked out. It is an error if the files differ from the commit.
func releaseHere(ctx context.Context, version string) (release, error) {
	changed, err := output(ctx, "git", "status", "--porcelain")
	switch {
	case err != nil:
		return release{}, err
	case changed != "":
		return release{}, fmt.Errorf("the files differ from the commit; commit or remove first:\n%s", changed)
	}
	var r release
	if r.commit, err = output(ctx, "git", "rev-parse", "HEAD"); err != nil {
		return r, err
	}
	date, err := output(ctx, "git", "log", "-1", "--format=%cI")
	if err != nil {
		return r, err
	}
	if r.date, err = time.Parse(time.RFC3339, date); err != nil {
		return r, err
	}
	r.date = r.date.UTC()
	next, err := codeVersion(".")
	if err != nil {
		return r, err
	}
	if r.version = version; version == "" {
		tag, err := output(ctx, "git", "describe", "--tags", "--exact-match", "--match=v*")
		if r.version = tag; err != nil { // no tag: Go's pseudo-version before the next release
			r.version = fmt.Sprintf("%s-0.%s-%.12s", next, r.date.Format("20060102150405"), r.commit)
			return r, nil
		}
	}
	return r, r.is(next)
}

// is reports why the release is not that of the code: its version is another, or none.
func (r release) is(next string) error {
	switch base, _, _ := strings.Cut(r.version, "-rc."); {
	case !versions.MatchString(r.version):
		return fmt.Errorf("%q is no version such as v1.2.3 or v1.2.3-rc.1", r.version)
	case base != next:
		return fmt.Errorf("the version is %s, and the code is %s (%s): change one of the two (RELEASE.md)", r.version,
			next, versionFile)
	}
	return nil
}

const versionFile = "cmd/launch/internal/cli/build.go"

// codeVersion is the version that the code is or becomes. It is an error if the changelog does not begin with it.
func codeVersion(root string) (string, error) {
	code, err := os.ReadFile(filepath.Join(root, versionFile))
	if err != nil {
		return "", err
	}
	changes, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	own := regexp.MustCompile(`(?m)^const Version = "(v[\d.]+)"$`).FindSubmatch(code)
	newest := regexp.MustCompile(`(?m)^## (v[\d.]+)$`).FindSubmatch(changes)
	switch {
	case own == nil:
		return "", fmt.Errorf("%s has no Version", versionFile)
	case newest == nil || !bytes.Equal(newest[1], own[1]):
		return "", fmt.Errorf("the code is %s (%s), and CHANGELOG.md does not begin with it", own[1], versionFile)
	}
	return string(own[1]), nil
}

// number is the version as file names have it.
func (r release) number() string { return strings.TrimPrefix(r.version, "v") }

// base is the version without what makes it an earlier one.
func (r release) base() string {
	base, _, _ := strings.Cut(r.number(), "-")
	return base
}

// isTagged is whether the version is of a release, not of any commit.
func (r release) isTagged() bool { return versions.MatchString(r.version) }

// python is the version as PEP 440 writes it: 1.2.3rc1, and 1.2.3.dev20261123152538 for a commit without a tag.
func (r release) python() string {
	if !r.isTagged() {
		return r.base() + ".dev" + r.date.Format("20060102150405")
	}
	return strings.Replace(r.number(), "-rc.", "rc", 1)
}

// debian is the version as Debian orders it: what follows ~ is older than nothing.
func (r release) debian() string {
	if !r.isTagged() {
		return r.base() + "~" + r.date.Format("20060102150405")
	}
	return strings.Replace(r.number(), "-rc.", "~rc", 1)
}

// stamp is what the linker writes into the program, for `launch version`.
func (r release) stamp() string {
	return fmt.Sprintf("-X main.version=%s -X main.commit=%s -X main.date=%s", r.version, r.commit,
		r.date.Format(time.RFC3339))
}

func output(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		err = fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(exit.Stderr))
	}
	return strings.TrimSpace(string(out)), err
}

// run runs a command in the folder, and shows what it prints where it fails.
func run(ctx context.Context, dir string, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func shell(ctx context.Context, dir string, env []string, line string) error {
	return run(ctx, dir, env, "sh", "-c", line)
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// An end is what came of a fault.
type end int

const (
	killed end = iota
	timedOut
	survived
	notCompiled
	leftOut // the time was over
	ends
)

func (e end) String() string {
	return [...]string{"killed", "timed out", "survived", "not compiled", "left out"}[e]
}

// An outcome is what came of one run of the tests.
type outcome struct {
	end  end
	text []byte // of the compiler or of the tests
	took time.Duration
}

// A score counts the ends of faults.
type score [ends]int

func (s *score) add(other score) {
	for i, n := range other {
		s[i] += n
	}
}

// String has the share of the faults that the tests saw, of those that could be tested.
func (s score) String() string {
	share := "nothing tested"
	if tested := s[killed] + s[timedOut] + s[survived]; tested > 0 {
		share = fmt.Sprintf("%3d %% killed", 100*(s[killed]+s[timedOut])/tested)
	}
	var parts []string
	for e, n := range s {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %v", n, end(e)))
		}
	}
	return share + ": " + strings.Join(parts, ", ")
}

// tests runs the tests of a package with a fault made; without one, where it has no file.
func (m mutation) tests(ctx context.Context, dir string, f fault, limit time.Duration) (o outcome, err error) {
	overlay, err := m.overlay(f)
	if err != nil {
		return o, err
	}
	program := filepath.Join(m.dir, "tests")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", program, "./"+dir)
	if text, err := build.CombinedOutput(); ctx.Err() != nil {
		return o, ctx.Err()
	} else if err != nil {
		return outcome{end: notCompiled, text: text}, nil
	}
	if err := m.refresh(dir); err != nil {
		return o, err
	}
	started := time.Now()
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	run := exec.CommandContext(timed, program, "-test.short", "-test.failfast", "-test.timeout=0")
	run.Dir = filepath.Join(m.tree(), dir)
	// The tests are a group of processes, which ends as one.
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	run.Cancel = func() error { return syscall.Kill(-run.Process.Pid, syscall.SIGKILL) }
	run.WaitDelay = 5 * time.Second
	if run.Env, err = m.environment(); err != nil {
		return o, err
	}
	var out bytes.Buffer
	run.Stdout, run.Stderr = &out, &out
	err = run.Run()
	if run.Process != nil {
		_ = syscall.Kill(-run.Process.Pid, syscall.SIGKILL) // what a failed test left running; often nothing
	}
	o.text, o.took = out.Bytes(), time.Since(started)
	exit := (*exec.ExitError)(nil)
	switch {
	case ctx.Err() != nil:
		return o, ctx.Err()
	case timed.Err() != nil:
		o.end = timedOut
	case errors.As(err, &exit):
		o.end = killed
	default:
		o.end = survived
		return o, err
	}
	return o, nil
}

// overlay writes the changed file, and the file by which the compiler finds it.
func (m mutation) overlay(f fault) (string, error) {
	replace := map[string]string{}
	if f.file != "" {
		real, err := filepath.Abs(f.file)
		if err != nil {
			return "", err
		}
		text, err := os.ReadFile(real)
		if err != nil {
			return "", err
		}
		changed := filepath.Join(m.dir, "changed.go")
		if err := os.WriteFile(changed, f.apply(text), 0o600); err != nil {
			return "", err
		}
		replace[real] = changed
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(m.dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// tree is the copy in which the tests run.
func (m mutation) tree() string { return filepath.Join(m.dir, "tree") }

// copyTree copies what git knows of the tree, and what it would add.
func (m *mutation) copyTree() error {
	list, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	m.files = strings.Split(strings.TrimRight(string(list), "\x00"), "\x00")
	return m.copy(m.files)
}

// refresh copies a package's folder again: a test that failed may have left something that lets the next one fail.
func (m mutation) refresh(dir string) error {
	if err := os.RemoveAll(filepath.Join(m.tree(), dir)); err != nil {
		return err
	}
	return m.copy(slices.DeleteFunc(slices.Clone(m.files), func(name string) bool {
		return !strings.HasPrefix(name, dir+"/")
	}))
}

func (m mutation) copy(files []string) error {
	for _, name := range files {
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) { // removed, and not yet for git
			continue
		}
		if err != nil {
			return err
		}
		to := filepath.Join(m.tree(), name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(name)
			if err = errors.Join(err, os.Symlink(target, to)); err != nil {
				return err
			}
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, text, info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}

// environment is that of this program, with folders of its own: a fault may delete or write what it should not.
func (m mutation) environment() ([]string, error) {
	home := filepath.Join(m.dir, "home")
	if err := errors.Join(os.RemoveAll(home), os.MkdirAll(home, 0o700)); err != nil {
		return nil, err
	}
	env := append(os.Environ(), "TMPDIR="+home, "HOME="+home, "XDG_STATE_HOME=", "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=")
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
		value, err := exec.Command("go", "env", name).Output()
		if err != nil {
			return nil, fmt.Errorf("go env %s: %w", name, err)
		}
		env = append(env, name+"="+strings.TrimSpace(string(value)))
	}
	return env, nil
}

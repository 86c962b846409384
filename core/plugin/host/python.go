package host

import (
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// environment reports whether a folder is a virtual environment. The plugin's author may have one in the project: it is
// no part of it, and it links to an interpreter elsewhere.
func environment(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "pyvenv.cfg"))
	return err == nil && info.Mode().IsRegular()
}

// project is a Python plugin of a folder with a pyproject.toml: a wheel is built of it.
func (s *Installed) project(ctx context.Context, dir, work string, o InstallOptions) (source, error) {
	// A build writes into the folder that it builds, so it gets a copy.
	src := filepath.Join(work, "source")
	if err := copyTree(ctx, dir, src, environment); err != nil {
		return source{}, err
	}
	pip, err := makePip(ctx, work, o)
	if err != nil {
		return source{}, err
	}
	o.tell("building a wheel of %s", filepath.Base(dir))
	wheels := filepath.Join(work, "wheel")
	if err := pip.run(ctx, pip.python, "wheel", "--no-deps", "--wheel-dir", wheels, src); err != nil {
		return source{}, fmt.Errorf("building a wheel: %w", err)
	}
	built, _ := filepath.Glob(filepath.Join(wheels, "*.whl"))
	if len(built) != 1 {
		return source{}, fmt.Errorf("pip built %d wheels, where one is needed", len(built))
	}
	return s.wheelBy(built[0], pip)
}

// wheel is a Python plugin of a wheel.
func (s *Installed) wheel(ctx context.Context, path, work string, o InstallOptions) (source, error) {
	if _, err := s.script(path); err != nil { // before an environment is made for it
		return source{}, err
	}
	pip, err := makePip(ctx, work, o)
	if err != nil {
		return source{}, err
	}
	return s.wheelBy(path, pip)
}

func (s *Installed) wheelBy(wheel string, pip *pip) (source, error) {
	name, err := s.script(wheel)
	if err != nil {
		return source{}, err
	}
	src := source{name: name, program: filepath.Join("venv", "bin", Prefix+name)}
	src.fill = func(ctx context.Context, to string) error {
		venv := filepath.Join(to, "venv")
		if err := pip.venv(ctx, venv, "--without-pip"); err != nil {
			return err
		}
		pip.o.tell("installing %s and what it needs into an environment of its own", filepath.Base(wheel))
		// What lies in pip's own environment does not count as installed.
		err := pip.run(ctx, filepath.Join(venv, "bin", "python"), "install", "--ignore-installed", wheel)
		if err != nil {
			return fmt.Errorf("installing its wheel: %w", err)
		}
		return nil
	}
	return src, nil
}

// script returns the name of the plugin whose program a wheel installs.
func (s *Installed) script(wheel string) (string, error) {
	z, err := zip.OpenReader(wheel)
	if err != nil {
		return "", fmt.Errorf("reading the wheel %s: %w", wheel, err)
	}
	defer z.Close()
	var found []string
	for _, f := range z.File {
		if dir, base := path.Split(f.Name); base != "entry_points.txt" || !strings.HasSuffix(dir, ".dist-info/") {
			continue
		}
		in, err := f.Open()
		if err != nil {
			return "", err
		}
		defer in.Close()
		section := ""
		for lines := bufio.NewScanner(io.LimitReader(in, 1<<20)); lines.Scan(); {
			line := strings.TrimSpace(lines.Text())
			script, _, ok := strings.Cut(line, "=")
			switch script = strings.TrimSpace(script); {
			case strings.HasPrefix(line, "["):
				section = line
			case ok && section == "[console_scripts]" && strings.HasPrefix(script, Prefix):
				found = append(found, script)
			}
		}
	}
	if len(found) != 1 {
		return "",
			fmt.Errorf("the wheel %s has %d scripts named %sNAME, where one is needed: name it in [project.scripts] of "+
				"pyproject.toml", filepath.Base(wheel), len(found), Prefix)
	}
	return s.nameOf(found[0])
}

// A pip builds and installs wheels. It lies in an environment that lasts as long as the installation, so that the
// plugin's own has none.
type pip struct {
	o      InstallOptions
	work   string
	python string // its environment's
	module string // its folder, which runs with another environment's Python, too
}

func makePip(ctx context.Context, work string, o InstallOptions) (*pip, error) {
	p := &pip{o: o, work: work}
	p.o.Python = cmp.Or(o.Python, "python3")
	found, err := exec.LookPath(p.o.Python)
	if err != nil {
		return nil, fmt.Errorf("a Python plugin needs Python: %w", err)
	}
	if p.o.Python, err = filepath.Abs(found); err != nil {
		return nil, err
	}
	p.o.FindLinks = slices.Clone(o.FindLinks)
	for i, at := range o.FindLinks {
		if !strings.Contains(at, "://") {
			if p.o.FindLinks[i], err = filepath.Abs(at); err != nil {
				return nil, err
			}
		}
	}
	o.tell("making a Python environment with pip (%s)", p.o.Python)
	dir := filepath.Join(work, "pip")
	if err := p.venv(ctx, dir); err != nil {
		return nil, err
	}
	p.python = filepath.Join(dir, "bin", "python")
	modules, _ := filepath.Glob(filepath.Join(dir, "lib", "python3*", "site-packages", "pip"))
	if len(modules) != 1 {
		return nil, fmt.Errorf("%s -m venv made no pip", p.o.Python)
	}
	p.module = modules[0]
	return p, nil
}

// venv makes a Python environment.
func (p *pip) venv(ctx context.Context, dir string, flags ...string) error {
	err := p.start(ctx, p.o.Python, append([]string{"-I", "-m", "venv", dir}, flags...)...)
	if err != nil {
		return fmt.Errorf("making a Python environment (on Debian and Ubuntu it takes the package python3-venv): %w", err)
	}
	return nil
}

// run runs pip with the Python of an environment, which it works on.
func (p *pip) run(ctx context.Context, python, command string, args ...string) error {
	line := []string{p.module, command, "--no-input", "--disable-pip-version-check", "--no-warn-script-location"}
	if command != "install" {
		line = line[:len(line)-1]
	}
	if p.o.NoIndex {
		line = append(line, "--no-index")
	}
	for _, at := range p.o.FindLinks {
		line = append(line, "--find-links", at)
	}
	return p.start(ctx, python, append(line, args...)...)
}

// start runs a program to its end. Its last lines are in the error.
func (p *pip) start(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	var out bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.work, &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		const last = 12
		return errors.New(err.Error() + "\n  " + strings.Join(lines[max(0, len(lines)-last):], "\n  "))
	}
	return nil
}

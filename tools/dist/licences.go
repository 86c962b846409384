package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// licences are the texts of all that is linked into launch: modules, Go itself, and the C library.
func (d *dist) licences(ctx context.Context) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-f",
		"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}",
		"./cmd/launch", "./cmd/nvml-child")
	cmd.Dir = d.src
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "GOOS=linux", "GOFLAGS=", "GOWORK=off")
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the modules: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(list)), "\n")
	slices.Sort(lines)
	root, err := output(ctx, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	lib := filepath.Join(filepath.Dir(d.zig), "lib")
	lines = append([]string{"Go's library and runtime\t" + root, "musl\t" + filepath.Join(lib, "libc/musl"),
		"zig's compiler runtime\t" + filepath.Dir(d.zig)}, slices.Compact(lines)...)
	var out bytes.Buffer
	fmt.Fprintf(&out, "launch is linked to the following. Its own licence is in the file LICENSE.\n")
	for _, line := range lines {
		what, dir, _ := strings.Cut(line, "\t")
		if err := addLicence(&out, what, dir); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// licenceFiles are the names of such files, in any case.
var licenceFiles = []string{"license", "licence", "copying", "copyright", "notice", "patents"}

func addLicence(out *bytes.Buffer, what, dir string) error {
	all, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("the licence of %s: %w", what, err)
	}
	found := false
	for _, e := range all {
		base, _, _ := strings.Cut(strings.ToLower(e.Name()), ".")
		if !slices.Contains(licenceFiles, base) || !e.Type().IsRegular() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("-", 80), what, e.Name(), bytes.TrimSpace(text))
		found = true
	}
	if !found {
		return errors.New(what + " has no licence file in " + dir)
	}
	return nil
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// build builds launch, static and with musl, and before it the program that launch carries: linked to glibc, it loads
// NVIDIA's library.
func (d *dist) build(ctx context.Context, a architecture) ([]byte, error) {
	carried := filepath.Join(d.src, "core/gpu/drivers/carried.bin")
	if err := d.compile(ctx, a, "linux-gnu.2.17", carried, "./cmd/nvml-child", "-s -w -buildid="); err != nil {
		return nil, err
	}
	if err := startsSince(carried, oldest); err != nil {
		return nil, err
	}
	to := filepath.Join(d.src, "bin", "launch-"+a.goarch)
	err := d.compile(ctx, a, "linux-musl", to, "./cmd/launch",
		"-s -w -buildid= -linkmode=external -extldflags=-static "+d.release.stamp(), "-tags=carried,netgo,osusergo",
		"-gcflags=github.com/launch-ml/launch/plugins/...=-l") // as in the Makefile
	if err == nil {
		err = startsAnywhere(to)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(to)
}

func (d *dist) compile(ctx context.Context, a architecture, target, to, pkg, ldflags string, more ...string) error {
	env := []string{"CC=sh " + d.cc, "ZIG=" + d.zig, "ZIG_TARGET=" + a.cpu + "-" + target,
		"CGO_ENABLED=1", "GOOS=linux", "GOARCH=" + a.goarch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOWORK=off",
		"CGO_CFLAGS=-O2 -Wno-deprecated-declarations", "CGO_LDFLAGS=-s"} // an empty one would be Go's -g, and name folders
	args := append([]string{"go", "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", to}, more...)
	return run(ctx, d.src, env, append(args, pkg)...)
}

// shared are the files that all architectures have: completions, man pages, licences, documents.
func (d *dist) shared(ctx context.Context) ([]file, error) {
	program := filepath.Join(d.src, "bin", "launch-"+runtime.GOARCH)
	var all []file
	for shell, path := range map[string]string{
		"bash": "share/bash-completion/completions/launch",
		"zsh":  "share/zsh/site-functions/_launch",
		"fish": "share/fish/vendor_completions.d/launch.fish",
	} {
		text, err := output(ctx, program, "completion", shell)
		if err != nil {
			return nil, err
		}
		all = append(all, file{path: path, mode: 0o644, data: []byte(text + "\n")})
	}
	pages, err := d.man(ctx)
	if err != nil {
		return nil, err
	}
	all = append(all, pages...)
	licences, err := d.licences(ctx)
	if err != nil {
		return nil, err
	}
	doc := "share/doc/" + name + "/"
	all = append(all, file{path: doc + "THIRD_PARTY_LICENSES", mode: 0o644, data: licences})
	for _, f := range []string{"LICENSE", "README.md", "CHANGELOG.md", "SKILL.md"} {
		data, err := os.ReadFile(filepath.Join(d.src, f))
		if err != nil {
			return nil, err
		}
		all = append(all, file{path: doc + f, mode: 0o644, data: data})
	}
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// man makes the man pages, which a test of cmd/launch writes.
func (d *dist) man(ctx context.Context) ([]file, error) {
	source, err := os.ReadFile(filepath.Join(d.src, "cmd/launch/reference_test.go"))
	if err != nil || !bytes.Contains(source, []byte("func TestMan(")) {
		return nil, nil
	}
	dir := filepath.Join(d.src, "bin/man")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	err = run(ctx, d.src, []string{"CGO_ENABLED=0", fmt.Sprintf("SOURCE_DATE_EPOCH=%d", d.release.date.Unix())},
		"go", "test", "-count=1", "-run", "^TestMan$", "./cmd/launch", "-args", "-man", dir)
	if err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) == 0 {
		return nil, fmt.Errorf("no man page was made: %v", err)
	}
	var all []file
	for _, p := range pages {
		data, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		all = append(all, file{path: "share/man/man1/" + filepath.Base(p), mode: 0o644, data: data})
	}
	return all, nil
}

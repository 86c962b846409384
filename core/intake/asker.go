package intake

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/private"
)

// Plugins are the plugins that launch may ask about a command.
type Plugins struct {
	Builtin []func() plugin.Plugin // linked into this program
	State   string                 // the state folder
	Others  *host.Installed        // the plugins by other authors; nil: there are none
}

// Manifests returns the manifests of the built-in plugins.
func (ps Plugins) Manifests() (out []plugin.Manifest) {
	for _, b := range ps.Builtin {
		out = append(out, b().Manifest())
	}
	return out
}

// Sources lists the plugins that launch may start: the built-in ones, then those that the user has installed or
// trusted. It starts none, and reads one file. The error is about that file; the built-in ones are listed all the
// same.
func (ps Plugins) Sources() ([]host.Source, error) {
	sources := host.Builtin(ps.Manifests())
	if ps.Others == nil {
		return sources, nil
	}
	others, err := ps.Others.List()
	for _, p := range others {
		if slices.ContainsFunc(sources, func(s host.Source) bool { return s.Manifest.Name == p.Name() }) {
			continue // a plugin of that name was built in since
		}
		verify := func(ctx context.Context) error { return ps.Others.Verify(ctx, p) }
		sources = append(sources, host.Source{Manifest: p.Manifest, Path: p.Path, Verify: verify})
	}
	return sources, err
}

// Strangers lists the programs that are named as plugins, beside this program, in the plugin folder or on PATH, and
// that the user has not trusted: launch does not start them.
func (ps Plugins) Strangers() []host.InstalledProgram {
	if ps.Others == nil {
		return nil
	}
	return ps.Others.Programs(ps.dirs())
}

// dirs are the folders in which programs named as plugins are looked for.
func (ps Plugins) dirs() (dirs []string) {
	if exe, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Dir(exe))
	}
	dirs = append(dirs, ps.Others.Dir)
	return append(dirs, filepath.SplitList(os.Getenv("PATH"))...)
}

// Locate returns the path of the program of a plugin by its name: the first that is found where [Plugins.Strangers]
// looks.
func (ps Plugins) Locate(name string) (path string, ok bool) {
	for _, p := range ps.Strangers() {
		if p.Name() == name && p.MayBeTrusted {
			return p.Path, true
		}
	}
	return "", false
}

// newcomers returns a warning about the programs that the user could trust and was not told of before; "" if there
// are none.
func (ps Plugins) newcomers() string {
	if ps.Others == nil {
		return ""
	}
	untold := ps.Others.Untold(ps.Strangers())
	var names []string
	for _, p := range untold {
		names = append(names, p.Name())
	}
	switch len(untold) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("%v (this is reported once)", untold[0])
	}
	return fmt.Sprintf("plugins %s are left out: they are not trusted; `launch plugins` lists them, and "+
		"`launch plugins trust NAME` "+
		"lets launch run one, as it is now (this is reported once)", strings.Join(names, ", "))
}

// A Client is a plugin that can be asked until it is closed.
type Client interface {
	plugin.Plugin
	plugin.Estimator
	Close()
}

// An Asker opens a plugin. first is the command that it will be asked to recognise; nil if there is none.
type Asker func(ctx context.Context, source host.Source, first *job.Command) (Client, error)

// Elsewhere asks a plugin in a process of its own, so that a plugin that fails cannot harm a training.
//
// If no process can be started for a built-in plugin (no space for its socket, too many processes), it is asked in this
// process: a training without a plan would be worse.
func (ps Plugins) Elsewhere(ctx context.Context, source host.Source, first *job.Command) (Client, error) {
	client, err := start(ctx, source, first)
	if err != nil {
		if b := ps.builtin(source); b != nil {
			return host.NewHere(b), nil
		}
		return nil, err
	}
	return client, nil
}

// Here asks a built-in plugin in this process, which must not run a training. A plugin that is another program gets its
// own process.
func (ps Plugins) Here(ctx context.Context, source host.Source, first *job.Command) (Client, error) {
	if b := ps.builtin(source); b != nil {
		return host.NewHere(b), nil
	}
	return ps.Elsewhere(ctx, source, first)
}

func (ps Plugins) builtin(source host.Source) plugin.Plugin {
	if source.Path == "" {
		for _, b := range ps.Builtin {
			if p := b(); p.Manifest().Name == source.Manifest.Name {
				return p
			}
		}
	}
	return nil
}

// process is the client of a plugin's process, with the folder of its socket.
type process struct {
	*host.Client
	socket string
}

func start(ctx context.Context, source host.Source, first *job.Command) (Client, error) {
	socket, err := private.Temp("launch-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the plugin's socket: %w", err)
	}
	c, err := host.Start(ctx, source, socket, first)
	if err != nil {
		os.RemoveAll(socket)
		return nil, err
	}
	return process{c, socket}, nil
}

func (p process) Close() {
	p.Client.Close()
	os.RemoveAll(p.socket)
}

package intake

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/private"
)

// Plugins are the plugins that launch may ask about a command.
type Plugins struct {
	Builtin []func() plugin.Plugin // linked into this program
	State   string                 // the state folder; it caches the manifests of plugins that are other programs
}

// Manifests returns the manifests of the built-in plugins.
func (ps Plugins) Manifests() (out []plugin.Manifest) {
	for _, b := range ps.Builtin {
		out = append(out, b().Manifest())
	}
	return out
}

// Find lists the plugins (built in, beside this program, in the user's folder, on PATH), and the programs that it
// leaves out. With again it also asks those that failed before.
func (ps Plugins) Find(ctx context.Context, again bool) ([]host.Source, []host.Left) {
	var dirs []string
	if exe, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Dir(exe))
	}
	if d := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
		dirs = append(dirs, filepath.Join(d, "launch", "plugins"))
	} else if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, filepath.Join(home, ".local", "share", "launch", "plugins"))
	}
	dirs = append(dirs, filepath.SplitList(os.Getenv("PATH"))...)
	return host.Find(ps.Manifests(), dirs, host.Asker(ctx, filepath.Join(ps.State, "plugins.json"), again))
}

// FailedNow warns about plugins that were asked just now and failed. launch does not ask them again at every start.
func FailedNow(left []host.Left) (warnings []string) {
	for _, l := range left {
		if l.Fresh {
			warnings = append(warnings, fmt.Sprintf("%v\nlaunch asks it again in a day, after its file changes, or "+
				"on `launch plugins`", l))
		}
	}
	return warnings
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

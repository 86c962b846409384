package main

import (
	"context"
	"fmt"
	"os"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/private"
)

// A client is a plugin that can be asked until it is closed.
type client interface {
	plugin.Plugin
	plugin.Estimator
	Close()
}

// asking is a way to ask a plugin. first is the command that it will be asked to recognise, nil where it will not.
type asking func(ctx context.Context, source host.Source, first *job.Command) (client, error)

// elsewhere asks a plugin in a process of its own: whatever becomes of it, a training that launch carries goes on.
func elsewhere(ctx context.Context, source host.Source, first *job.Command) (client, error) {
	socket, err := private.Temp("launch-")
	if err != nil {
		return insteadHere(source, fmt.Errorf("making a folder for the plugin's socket: %w", err))
	}
	c, err := host.Start(ctx, source, socket, first)
	if err != nil {
		os.RemoveAll(socket)
		return insteadHere(source, err)
	}
	return process{c, socket}, nil
}

// insteadHere asks a built-in plugin in this process where no other could be had for it (no room for its socket, no more
// processes): a training without a plan is the worse loss. Of others the error stands.
func insteadHere(source host.Source, err error) (client, error) {
	if b := builtin(source); b != nil {
		return host.NewHere(b), nil
	}
	return nil, err
}

func builtin(source host.Source) plugin.Plugin {
	if source.Path == "" {
		for _, b := range builtins {
			if p := b(); p.Manifest().Name == source.Manifest.Name {
				return p
			}
		}
	}
	return nil
}

type process struct {
	*host.Client
	socket string
}

func (p process) Close() {
	p.Client.Close()
	os.RemoveAll(p.socket)
}

// here asks a built-in plugin in this process, which carries no training and ends with the answer; another's program still has
// one of its own.
func here(ctx context.Context, source host.Source, first *job.Command) (client, error) {
	if b := builtin(source); b != nil {
		return host.NewHere(b), nil
	}
	return elsewhere(ctx, source, first)
}

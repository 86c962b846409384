package plan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/reading"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/ui"
)

// shorthands are the settings of a bare network that have a flag of their own: name and usage.
var shorthands = [][2]string{
	{"micro-batch", "samples in one forward pass"},
	{"accumulation", "forward passes for each optimizer step"},
	{"amp", "off, bf16 or fp16"},
	{"optimizer", "by the family's name for it"},
	{"scale", "factor of super-resolution"},
	{"lq", "side of the low-resolution crop"},
	{"image", "size of an image: 512 or, where it need not be square, height x width: 512x384"},
	{"tile", "side of a validation tile"},
	{"queue", "length of the queue"},
	{"project", "which project of the family"},
}

// NewEstimate makes launch estimate.
func NewEstimate(f *cli.Factory) *cobra.Command {
	var arch string
	var set []string
	var asJSON, list bool
	c := &cobra.Command{
		Use:   "estimate --arch NAME [flags]",
		Short: "price a network from flags, without a recipe",
		Long: `estimate prices a network from flags, so that every formula can be checked without a recipe. --set
NAME=VALUE sets what has no flag of its own: settings of the family's training step, and arguments of
the network. An unknown setting is an error. (For the settings of a whole job there is launch --set.)
Without --vram, --device cpu or a card in this machine, estimate counts the tensors only.`,
		Example: "  launch estimate --list\n  launch estimate --arch span --scale 2 --micro-batch 1 --lq 64 --amp bf16 --json\n" +
			"  launch estimate --arch swinir_m --scale 2 --lq 48 --set use_checkpoint=true --vram 12GiB",
		Args: cli.Takes(0, 0, "no argument: --arch names the network, --set sets the rest"),
		RunE: settings.With(func(c *cobra.Command, s settings.Values, _ []string) error {
			o := estimateOptions{plugins: reading.PluginsOf(f, s.State), plugin: s.Reading.Plugin, room: s.Room}
			sources, unread := o.plugins.Sources()
			say := cli.Out()
			if list {
				return listArchs(say, sources, asJSON)
			}
			q, err := bare(c.Flags(), arch, set)
			if err != nil {
				return err
			}
			d, err := estimate(c.Context(), o, sources, q)
			if err != nil {
				return err
			}
			if unread != nil {
				d.Warnings = append(d.Warnings, unread.Error())
			}
			return cli.Show(asJSON, d, say.Estimate)
		}),
	}
	flags := c.Flags()
	flags.StringVar(&arch, "arch", "", "the network: --list names them")
	flags.StringArrayVar(&set, "set", nil,
		"any other setting or argument as NAME=VALUE, a list as [8,16]; may be repeated")
	flags.BoolVar(&asJSON, "json", false, "print the estimate as JSON")
	flags.BoolVar(&list, "list", false, "list the networks that have a formula")
	for _, h := range shorthands {
		flags.String(h[0], "", h[1])
	}
	return settings.Use(c, settings.RoomFlags, settings.Group{"plugin"}, settings.StateFlags)
}

// bare returns the network that the flags describe.
func bare(f *pflag.FlagSet, arch string, set []string) (*plugin.Bare, error) {
	if arch == "" {
		return nil, errors.New("which network? --arch NAME; launch estimate --list names those with a formula")
	}
	q := &plugin.Bare{Arch: arch, Settings: map[string]string{}}
	for _, h := range shorthands {
		if f.Changed(h[0]) {
			q.Settings[h[0]] = f.Lookup(h[0]).Value.String()
		}
	}
	for _, kv := range set {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--set %s: write NAME=VALUE", kv)
		}
		if old, twice := q.Settings[name]; twice {
			return nil, fmt.Errorf("%s is set twice, to %q and to %q", name, old, value)
		}
		q.Settings[name] = value
	}
	return q, nil
}

// estimateOptions are what launch estimate takes of the settings.
type estimateOptions struct {
	plugins intake.Plugins
	plugin  string // "auto", "none" or a name
	room    settings.Room
}

// estimate asks the plugin that has the network's formula.
func estimate(
	ctx context.Context, o estimateOptions, sources []host.Source, q *plugin.Bare,
) (d ui.EstimateDocument, err error) {
	source, arch, err := intake.Formula(sources, q.Arch, o.plugin)
	if err != nil {
		return d, err
	}
	q.Arch = arch
	found, err := room.Find(ctx, o.room.Wish, os.Environ())
	if err != nil {
		return d, o.room.DeviceError(err)
	}
	device := gpu.Device{}
	if found.Device != nil {
		device = *found.Device
	}
	ctx, cancel := context.WithTimeout(ctx, intake.Deadline)
	defer cancel()
	client, err := o.plugins.Here(ctx, source, nil)
	if err != nil {
		return d, err
	}
	defer client.Close()
	phases, err := client.Estimate(ctx, q, device)
	if err != nil {
		return d, err
	}
	if err := intake.Countable(phases); err != nil {
		return d, err
	}
	return ui.EstimateOf(source.Manifest.Name, q.Arch, q.Settings, found.Device, phases, found.Warnings), nil
}

// listArchs prints the networks of every plugin.
func listArchs(say ui.Printer, sources []host.Source, asJSON bool) error {
	names := map[string][]string{}
	for _, src := range sources {
		if len(src.Manifest.Archs) > 0 {
			names[src.Manifest.Name] = src.Manifest.Archs
		}
	}
	if asJSON {
		return cli.PrintJSON(names)
	}
	for _, src := range sources {
		for _, arch := range src.Manifest.Archs {
			say.Line("%s", strings.TrimRight(fmt.Sprintf("%-12s %-26s %s", src.Manifest.Name, arch,
				src.Manifest.Projects[arch]), " "))
		}
	}
	return nil
}

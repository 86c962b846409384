package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

// shorthands are settings of a bare network that have a flag of their own, with what they say in its help.
var shorthands = [][2]string{
	{"micro-batch", "samples in one forward pass"},
	{"accumulation", "forward passes before an optimizer step"},
	{"amp", "off, bf16 or fp16"},
	{"optimizer", "as the family names it"},
	{"scale", "of super-resolution"},
	{"lq", "side of the low-resolution crop"},
	{"image", "size of an image: 512, or where it need not be square 512x384 as height and width"},
	{"tile", "side of a validation's tiles"},
	{"queue", "length of a queue"},
	{"project", "which of the family's projects"},
}

func newEstimate() *cobra.Command {
	var arch string
	var set []string
	var asJSON, list bool
	c := &cobra.Command{
		Use:   "estimate --arch NAME [flags]",
		Short: "price a network by itself, without a recipe",
		Long: `estimate prices a network from flags, so that any formula can be checked without a recipe. What has no flag of its own is
said with --set NAME=VALUE: settings of the family's step, and the network's own arguments. A setting that does not exist
is an error. Without --vram, --device cpu or a card here it gives the tensors alone.`,
		Example: "  launch estimate --list\n  launch estimate --arch span --scale 2 --micro-batch 1 --lq 64 --amp bf16 --json\n" +
			"  launch estimate --arch swinir_m --scale 2 --lq 48 --set use_checkpoint=true --vram 12GiB",
		Args: takes(0, 0, "no argument: --arch names the network, and --set what else it has"),
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := settingsHere(c)
			if err != nil {
				return err
			}
			sources, left := s.plugins().Find(c.Context(), false)
			say := ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}
			if list {
				return listArchs(say, sources, asJSON)
			}
			q, err := bare(c.Flags(), arch, set)
			if err != nil {
				return err
			}
			d, err := estimate(c.Context(), s, sources, q)
			if err != nil {
				return err
			}
			d.Warnings = append(d.Warnings, intake.FailedNow(left)...)
			if asJSON {
				return printJSON(d)
			}
			say.Estimate(d)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&arch, "arch", "", "the network: --list names them")
	f.StringArrayVar(&set, "set", nil, "NAME=VALUE of any other setting or argument, lists as [8,16]; may be repeated")
	f.BoolVar(&asJSON, "json", false, "print the estimate as JSON")
	f.BoolVar(&list, "list", false, "list the networks that have a formula")
	for _, h := range shorthands {
		f.String(h[0], "", h[1])
	}
	return c
}

// bare is the network that was asked for.
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
			return nil, fmt.Errorf("--set %s: it takes NAME=VALUE", kv)
		}
		if old, twice := q.Settings[name]; twice {
			return nil, fmt.Errorf("%s is set to %q and to %q", name, old, value)
		}
		q.Settings[name] = value
	}
	return q, nil
}

// estimate asks the plugin that knows the network.
func estimate(ctx context.Context, s settings, sources []host.Source, q *plugin.Bare) (d ui.EstimateDocument, err error) {
	i := slices.IndexFunc(sources, func(src host.Source) bool {
		return (s.Plugin == "auto" || s.Plugin == src.Manifest.Name) &&
			slices.ContainsFunc(src.Manifest.Archs, func(a string) bool { return strings.EqualFold(a, q.Arch) })
	})
	if i < 0 {
		return d, unknownArch(q.Arch, s.Plugin, sources)
	}
	source := sources[i]
	q.Arch = source.Manifest.Archs[slices.IndexFunc(source.Manifest.Archs, func(a string) bool { return strings.EqualFold(a, q.Arch) })]
	found, err := room.Find(ctx, s.Wish, os.Environ())
	if err != nil {
		return d, s.deviceError(err)
	}
	device := gpu.Device{}
	if found.Device != nil {
		device = *found.Device
	}
	ctx, cancel := context.WithTimeout(ctx, intake.Deadline)
	defer cancel()
	client, err := s.plugins().Here(ctx, source, nil)
	if err != nil {
		return d, err
	}
	defer client.Close()
	phases, err := client.Estimate(ctx, q, device)
	if err != nil {
		return d, err
	}
	if err := countable(phases); err != nil {
		return d, err
	}
	return ui.EstimateOf(source.Manifest.Name, q.Arch, q.Settings, found.Device, phases, found.Warnings), nil
}

// unknownArch says that no formula bears the name, with those that bear one like it.
func unknownArch(name, only string, sources []host.Source) error {
	if only != "auto" && !slices.ContainsFunc(sources, func(src host.Source) bool { return src.Manifest.Name == only }) {
		return fmt.Errorf("no plugin %q; run `launch plugins` for a list", only)
	}
	var like []string
	for _, src := range sources {
		for _, a := range src.Manifest.Archs {
			switch {
			case strings.EqualFold(a, name): // then the plugin that was asked for is another one
				return fmt.Errorf("the formula for %q is of plugin %s, and --plugin is %s", a, src.Manifest.Name, only)
			case alike(letters(a), letters(name)):
				like = append(like, a)
			}
		}
	}
	const shown = 8
	switch n := len(like); {
	case n == 0:
		return fmt.Errorf("no plugin has a formula for %q; `launch estimate --list` names those that there are", name)
	case n > shown:
		like = append(like[:shown], fmt.Sprintf("%d more", n-shown))
	}
	return fmt.Errorf("no plugin has a formula for %q; names like it are %s; `launch estimate --list` names all", name, strings.Join(like, ", "))
}

// alike reports whether one of two names may have been meant by the other: one is in the other, or they begin the same.
func alike(a, b string) bool {
	const least = 3 // letters: fewer are in every name
	return len(b) >= least && (strings.Contains(a, b) || len(a) >= least && (strings.Contains(b, a) || a[:least] == b[:least]))
}

// letters is a name without what people leave out or write otherwise: case, and what is no letter or digit.
func letters(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// mostBytes is more than all cards that were ever built into one machine: who comes to it has mistyped a size, and numbers
// beyond it no longer fit into the 64 bits that they are counted in.
const mostBytes = unit.Bytes(1) << 50

// countable refuses an estimate of which the numbers cannot be right.
func countable(phases []plugin.Phase) error {
	for _, p := range phases {
		for _, it := range p.Estimate.Items {
			if it.Bytes < 0 || it.Bytes > mostBytes || it.Count < 0 {
				return fmt.Errorf("%s: %s %s come to more than %v, or to less than nothing: a size is too large, or an argument below zero", p.Phase, it.What, it.Kind, mostBytes)
			}
		}
	}
	return nil
}

// listArchs names the networks of every plugin.
func listArchs(say ui.Printer, sources []host.Source, asJSON bool) error {
	names := map[string][]string{}
	for _, src := range sources {
		if len(src.Manifest.Archs) > 0 {
			names[src.Manifest.Name] = src.Manifest.Archs
		}
	}
	if asJSON {
		return printJSON(names)
	}
	for _, src := range sources {
		for _, arch := range src.Manifest.Archs {
			say.Line("%-12s %s", src.Manifest.Name, arch)
		}
	}
	return nil
}

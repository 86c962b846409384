package plugins

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/reading"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/ui"
)

func newInfo(f *cli.Factory) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "info NAME", Short: "print a plugin's version, origin and marks, and whether its files are unchanged",
		Args: cli.Takes(1, 1, "the name of one plugin"),
		RunE: settings.With(func(c *cobra.Command, s settings.Values, args []string) error {
			d, err := about(c.Context(), reading.PluginsOf(f, s.State), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(d)
			}
			d.print(cli.Tables())
			return nil
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return settings.Use(c, settings.StateFlags)
}

// PluginInfo is what is known of a plugin.
type PluginInfo struct {
	Manifest plugin.Manifest `json:"manifest"`
	BuiltIn  bool            `json:"built_in"`
	Protocol int             `json:"protocol"`
	Path     string          `json:"path,omitempty"`
	Folder   string          `json:"folder,omitempty"` // of its installed files
	SHA256   string          `json:"sha256,omitempty"` // of its program, or of the list of its files
	Files    int             `json:"files,omitempty"`  // that are pinned
	From     string          `json:"from,omitempty"`
	At       *time.Time      `json:"at,omitempty"`      // when it was installed or trusted
	State    string          `json:"state,omitempty"`   // "unchanged", "changed" or "refused"
	Changes  []string        `json:"changes,omitempty"` // of its files, or why it is refused
}

func about(ctx context.Context, ps intake.Plugins, name string) (d PluginInfo, err error) {
	for _, m := range ps.Manifests() {
		if m.Name == name {
			return PluginInfo{Manifest: m, BuiltIn: true, Protocol: host.Protocol}, nil
		}
	}
	p, err := ps.Others.Find(name)
	if err != nil {
		return d, err
	}
	d = PluginInfo{Manifest: p.Manifest, Protocol: p.Protocol, Path: p.Path, Folder: p.Folder, SHA256: p.SHA256,
		From: p.From, At: &p.At,
		State: "unchanged"}
	d.Files, _ = ps.Others.Files(p) // without them it has changed
	refused := ps.Others.Verify(ctx, p)
	if refused == nil {
		return d, nil
	}
	d.State, d.Changes = "refused", []string{refused.Error()}
	if changes, err := ps.Others.Changes(ctx, p); err == nil && len(changes) > 0 {
		d.State, d.Changes = "changed", nil
		for _, c := range changes {
			d.Changes = append(d.Changes, c.File+" "+c.How)
		}
	}
	return d, nil
}

func (d PluginInfo) print(say ui.Printer) {
	line := func(label, format string, args ...any) {
		say.Beside(fmt.Sprintf("%-10s ", label+":"), fmt.Sprintf(format, args...))
	}
	say.Line("%s %s", d.Manifest.Name, d.Manifest.Version)
	line("about", "%s", d.Manifest.About)
	line("protocol", "%d", d.Protocol)
	switch {
	case d.BuiltIn:
		line("program", "built in")
	case d.Folder != "":
		line("program", "%s", d.Path)
		line("installed", "%s from %s", d.At.Local().Format("2006-01-02 15:04"), d.From)
		line("files", "%d, pinned by SHA-256", d.Files)
	default:
		line("program", "%s", d.Path)
		line("trusted", "%s", d.At.Local().Format("2006-01-02 15:04"))
		line("sha256", "%s", d.SHA256)
	}
	for _, m := range d.Manifest.Marks {
		line("marks", "%s", markText(m))
	}
	if len(d.Manifest.Archs) > 0 {
		line("formulas", "%s", strings.Join(d.Manifest.Archs, " "))
	}
	if d.State == "" {
		return
	}
	line("state", "%s", d.State)
	const most = 20
	for _, c := range d.Changes[:min(len(d.Changes), most)] {
		say.Warn("%s", c)
	}
	if n := len(d.Changes) - most; n > 0 {
		say.Warn("and %d more", n)
	}
	if d.State == "changed" {
		say.Line("`launch plugins trust %s` pins the files as they are now", d.Manifest.Name)
	}
}

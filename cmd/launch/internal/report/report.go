// Package report is launch report, which writes a page about a run or a sweep.
package report

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/records"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/report"
	"github.com/launch-ml/launch/core/sweep/local"
	"github.com/launch-ml/launch/core/ui"
)

// reportFlags are the flags of `launch report`.
type reportFlags struct {
	format, output string
	markdown, open bool
}

// reportFormats are the formats, with the endings of their files.
var reportFormats = []string{"html", "markdown", "svg", "png"}

// New makes launch report.
func New(factory *cli.Factory) *cobra.Command {
	var f reportFlags
	c := &cobra.Command{
		Use:   "report [RUN | SWEEP | last]",
		Short: "write a page about a run or a sweep, to look at or to share",
		Long: `report writes one HTML file about a run or a sweep, and prints its path. The file loads nothing from
the network. Of a run it has the memory over time, what was predicted beside what was measured, the
ladder, the changes of the recipe, why it ended, and the environment; of a sweep the table, which can
be sorted, and plots of settings and results.

Secrets and home folders are masked. Look at the file before you share it all the same: names of
experiments, settings and the program's last lines are in it.

--format markdown prints text for an issue. --format svg and --format png write one file for each plot.
A file that launch report did not write is never overwritten.`,
		Example: "  launch report\n  launch report lrs --open\n  launch report last --markdown | gh issue create -F -\n" +
			"  launch report last --format png --output plots/",
		Args: cli.Takes(0, 1, "one run or sweep, or no argument for the last run"),
		RunE: settings.With(func(c *cobra.Command, s settings.Values, args []string) error {
			return writeReport(c.Context(), source{s.State, onPage(factory.Build())}, f, strings.Join(args, ""))
		}),
	}
	c.Flags().StringVar(&f.format, "format", "html", "what to write: "+strings.Join(reportFormats, ", "))
	c.Flags().BoolVar(&f.markdown, "markdown", false, "the same as --format markdown")
	c.Flags().StringVarP(&f.output, "output", "o", "",
		"the file, or the folder (default: this folder; Markdown is printed); - for standard output")
	c.Flags().BoolVar(&f.open, "open", false, "open the page in a browser")
	return settings.Use(c, settings.StateFlags)
}

func writeReport(ctx context.Context, from source, f reportFlags, name string) error {
	if f.markdown {
		f.format = "markdown"
	}
	if !slices.Contains(reportFormats, f.format) {
		return fmt.Errorf("--format: %q is not one of %s", f.format, strings.Join(reportFormats, ", "))
	}
	if f.open && (f.format != "html" || f.output == "-") {
		return errors.New("--open opens a page: it does not go with --format " + f.format + " or with --output -")
	}
	r, err := from.report(name)
	if err != nil {
		return err
	}
	paths, err := f.write(r)
	for _, path := range paths {
		fmt.Println(ui.OneLine(path))
	}
	if err != nil || !f.open {
		return err
	}
	if why := openPage(ctx, paths[0]); why != "" { // the page is there all the same
		cli.Notes().Warn("%s; the page is %s: open it where a browser is", why, paths[0])
	}
	return nil
}

// A source is where reports come from.
type source struct {
	state   string // the state folder
	version string // of launch
}

// report makes the report of a run or a sweep. A sweep of exactly that name comes first.
func (s source) report(name string) (report.Report, error) {
	sweeps, runs := local.In(s.state), record.In(s.state)
	if names, err := sweeps.List(); err == nil && slices.Contains(names, name) {
		return s.ofSweep(sweeps, name)
	}
	id, err := runs.Find(name)
	if err != nil {
		if names, _ := sweeps.List(); len(names) > 0 {
			return report.Report{}, fmt.Errorf("%w; the sweeps are %s", err, strings.Join(names, ", "))
		}
		return report.Report{}, err
	}
	learned, _, err := records.Receipts(s.state).Read()
	if err != nil {
		learned = nil // only the version of torch is from there, and the report then has "not known"
	}
	in, err := report.Gather(runs, id, learned)
	if err != nil {
		return report.Report{}, err
	}
	in.Mask, in.Version = records.Masking(), s.version
	return report.OfRun(in), nil
}

func (s source) ofSweep(sweeps local.Folders, name string) (report.Report, error) {
	h, err := records.Collected(sweeps, name)
	if err != nil {
		return report.Report{}, err
	}
	return report.OfSweep(report.SweepInput{Doc: ui.SweepDocument(h, sweeps.Folder(name), sweeps.Driver(name)),
		Mask: records.Masking(), Version: s.version, Now: time.Now()}), nil
}

// write writes the report, and returns the paths of the files.
func (f reportFlags) write(r report.Report) (paths []string, err error) {
	switch f.format {
	case "svg", "png":
		return f.writePlots(r)
	case "markdown":
		f.output = cmp.Or(f.output, "-")
		return f.writeOne(r.Name+".md", report.Markdown(r))
	}
	page, err := report.HTML(r)
	if err != nil {
		return nil, err
	}
	return f.writeOne(r.Name+".html", page)
}

func (f reportFlags) writePlots(r report.Report) (paths []string, err error) {
	if f.output == "-" && len(r.Plots) != 1 {
		return nil, fmt.Errorf("--output -: there are %d plots; name a folder", len(r.Plots))
	}
	for _, d := range r.Plots {
		made, err := report.Picture(d, f.format)
		if err != nil {
			return paths, err
		}
		one := f
		if info, err := os.Stat(f.output); f.output != "" && f.output != "-" && (err != nil || !info.IsDir()) {
			if err := os.MkdirAll(f.output, 0o755); err != nil {
				return paths, fmt.Errorf("--output names the folder of the plots: %w", err)
			}
		}
		more, err := one.writeOne(fmt.Sprintf("%s-%s.%s", r.Name, d.Name, f.format), made)
		if paths = append(paths, more...); err != nil {
			return paths, err
		}
	}
	return paths, nil
}

// writeOne writes one file: to --output, into the folder that it names, or into this one.
func (f reportFlags) writeOne(name string, text []byte) ([]string, error) {
	if f.output == "-" {
		_, err := os.Stdout.Write(text)
		return nil, err
	}
	path := "launch-report-" + name
	if f.output != "" {
		if info, err := os.Stat(f.output); err == nil && info.IsDir() || strings.HasSuffix(f.output, "/") {
			path = filepath.Join(f.output, path)
		} else {
			path = f.output
		}
	}
	if err := save(path, text); err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	return []string{abs}, nil
}

// save writes a file that does not exist, or replaces one that launch report has written.
func save(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = file.Write(text)
		if err = errors.Join(err, file.Close()); err != nil {
			os.Remove(path) // half a page is none
		}
	}
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrExist):
		return fmt.Errorf("writing the report: %w", err)
	}
	before, err := private.Open(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("%s exists, and launch report may not replace it: %w", path, err)
	}
	head, err := io.ReadAll(io.LimitReader(before, 512))
	before.Close()
	if err != nil || !bytes.Contains(head, []byte(report.Mark)) {
		return fmt.Errorf("%s exists, and launch report has not written it: remove it, or name another file with --output",
			path)
	}
	if err := private.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// openWithin is how long an opener may take to fail. One that is itself the browser takes as long as that is open.
const openWithin = 3 * time.Second

// openPage opens a page in the user's browser. It returns why it did not, "" if it did.
func openPage(ctx context.Context, path string) string {
	opener := "xdg-open"
	if runtime.GOOS == "darwin" {
		opener = "open"
	} else if _, err := private.Find("wslview"); err == nil {
		opener = "wslview"
	} else if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" && os.Getenv("BROWSER") == "" {
		return "no browser was found on this machine"
	}
	c := private.Command(context.WithoutCancel(ctx), opener, path)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the browser outlives launch and its terminal
	if err := c.Start(); err != nil {
		return "no browser was started: " + err.Error()
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Sprintf("no browser was started: %s: %v", opener, err)
		}
	case <-ctx.Done():
	case <-time.After(openWithin):
	}
	return ""
}

// onPage names this program on a page.
func onPage(b cli.Build) string {
	if b.Commit == "" {
		return b.Version
	}
	return fmt.Sprintf("%s (commit %.12s)", b.Version, b.Commit)
}

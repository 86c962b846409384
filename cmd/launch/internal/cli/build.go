package cli

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/plugin"
)

// A Factory has what only the main program knows, for the commands that need it.
type Factory struct {
	// Builtins are the plugins that are linked into this program.
	Builtins []func() plugin.Plugin
	// Linked is what the linker has set of the build.
	Linked Build
}

// Version is the release that this code is, or becomes: the newest of CHANGELOG.md. `make dist` refuses another.
const Version = "v0.1.0"

// Build identifies this program, by what the linker has set and what Go has recorded.
func (f *Factory) Build() Build {
	info, _ := debug.ReadBuildInfo()
	return BuildOf(f.Linked, info)
}

// A Build identifies this program in a bug report.
type Build struct {
	Arch     string `json:"arch"`
	Commit   string `json:"commit,omitempty"` // in full; "" if unknown, and then Date and Modified are empty too
	Date     string `json:"date,omitempty"`   // of the commit, RFC 3339 in UTC
	Go       string `json:"go"`
	Modified bool   `json:"modified"` // built from files that differ from the commit
	OS       string `json:"os"`
	Version  string `json:"version"`
}

// BuildOf adds to b what Go has recorded. info may be nil.
func BuildOf(b Build, info *debug.BuildInfo) Build {
	b.OS, b.Arch, b.Go = runtime.GOOS, runtime.GOARCH, runtime.Version()
	if b.Commit == "" {
		b.Date, b.Modified = "", false
	}
	if info != nil {
		checkout := slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "vcs" })
		if v := info.Main.Version; v != "(devel)" && !(checkout && strings.HasPrefix(v, "v0.0.0-")) {
			b.Version = cmp.Or(b.Version, v)
		}
		if b.Commit == "" {
			b.recorded(info.Settings)
		}
	}
	b.Version = cmp.Or(b.Version, Version+"-dev")
	return b
}

// recorded sets the commit from Go's own record.
func (b *Build) recorded(settings []debug.BuildSetting) {
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
}

// String is the line that a person reads.
func (b Build) String() string {
	line := fmt.Sprintf("launch %s %s/%s %s", b.Version, b.OS, b.Arch, b.Go)
	if b.Commit == "" {
		return line
	}
	line += fmt.Sprintf(" commit %.12s", b.Commit)
	if b.Date != "" {
		line += " of " + b.Date
	}
	if b.Modified {
		line += ", modified"
	}
	return line
}

// Off is whether the user has switched launch off: it becomes the command.
func Off() bool { return os.Getenv("LAUNCH") == "0" }

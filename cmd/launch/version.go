package main

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// The linker sets these: version for a release, the others in `make build`. Go itself records the commit only with
// -buildvcs (`go help build`).
var version, commit, date, modified string

func newVersion() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "print the version", Args: takes(0, 0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return printJSON(thisBuild())
			}
			fmt.Println(thisBuild())
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the version as JSON")
	return c
}

// versionFlag is what people type first.
const versionFlag = "version"

// printVersion is launch --version, which takes no command.
func printVersion(args []string) error {
	if len(args) > 0 {
		return errors.New("--version only prints the version: leave the command out")
	}
	fmt.Println(thisBuild())
	return nil
}

// A build identifies this program in a bug report.
type build struct {
	Arch     string `json:"arch"`
	Commit   string `json:"commit,omitempty"` // in full; "" if unknown, and then Date and Modified are empty too
	Date     string `json:"date,omitempty"`   // of the commit, RFC 3339 in UTC
	Go       string `json:"go"`
	Modified bool   `json:"modified"` // built from files that differ from the commit
	OS       string `json:"os"`
	Version  string `json:"version"`
}

// thisBuild is the build of this program.
func thisBuild() build {
	info, _ := debug.ReadBuildInfo()
	return buildOf(build{Version: version, Commit: commit, Date: date, Modified: modified == "true"}, info)
}

// buildOf adds to b what Go has recorded. info may be nil.
func buildOf(b build, info *debug.BuildInfo) build {
	b.OS, b.Arch, b.Go = runtime.GOOS, runtime.GOARCH, runtime.Version()
	if b.Commit == "" {
		b.Date, b.Modified = "", false
	}
	if info != nil {
		b.Version = cmp.Or(b.Version, info.Main.Version)
		if b.Commit == "" {
			b.recorded(info.Settings)
		}
	}
	b.Version = cmp.Or(b.Version, "(development)")
	return b
}

// recorded sets the commit from Go's own record.
func (b *build) recorded(settings []debug.BuildSetting) {
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
func (b build) String() string {
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

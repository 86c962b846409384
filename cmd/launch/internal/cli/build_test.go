package cli

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// What the linker has set goes before what Go has recorded; where neither knows the commit, the line ends before it.
func TestVersion(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef01234567"
	const day, next = "2026-11-23T00:00:00Z", "2026-11-24T00:00:00Z"
	here := " " + runtime.GOOS + "/" + runtime.GOARCH + " " + runtime.Version()
	plain := &debug.BuildInfo{Main: debug.Module{Version: "v0.4.0"}}
	stamped := &debug.BuildInfo{Main: plain.Main, Settings: []debug.BuildSetting{
		{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: hash},
		{Key: "vcs.time", Value: day}, {Key: "vcs.modified", Value: "true"},
	}}
	of := func(version string) *debug.BuildInfo { return &debug.BuildInfo{Main: debug.Module{Version: version}} }
	release, dev := "launch v0.4.0"+here, "launch "+Version+"-dev"+here
	stampedDev := debug.BuildInfo{Main: of("v0.0.0-20261123152538-0123456789ab+dirty").Main, Settings: stamped.Settings}
	recorded := release + " commit 0123456789ab of " + day + ", modified"
	for name, c := range map[string]struct {
		linked Build
		info   *debug.BuildInfo
		want   string
	}{
		"nothing known":     {Build{}, nil, dev},
		"not stamped":       {Build{}, plain, release},
		"a checkout":        {Build{}, of("(devel)"), dev},
		"its commit":        {Build{Commit: "fed"}, &stampedDev, dev + " commit fed"},
		"by install":        {Build{}, of("v0.0.0-2026-01"), "launch v0.0.0-2026-01" + here},
		"Go's":              {Build{}, stamped, recorded},
		"the linker's":      {Build{Commit: "fed", Date: next}, stamped, release + " commit fed of " + next},
		"a release":         {Build{Version: "v1.0.0", Commit: "fedcba"}, nil, "launch v1.0.0" + here + " commit fedcba"},
		"a date alone":      {Build{Date: next, Modified: true}, nil, dev},
		"a date, and Go's":  {Build{Date: next}, stamped, recorded},
		"modified, by link": {Build{Commit: "fed", Modified: true}, plain, release + " commit fed, modified"},
	} {
		got := BuildOf(c.linked, c.info)
		if got.String() != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if got.Commit == "" && (got.Date != "" || got.Modified) {
			t.Errorf("%s: %+v has no commit, and yet its date or its changes", name, got)
		}
	}
}

package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// What the linker has set goes before what Go has recorded; where neither knows the commit, the line ends before it.
func TestVersion(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef01234567"
	here := " " + runtime.GOOS + "/" + runtime.GOARCH + " " + runtime.Version()
	stamped := &debug.BuildInfo{Main: debug.Module{Version: "v0.4.0"}, Settings: []debug.BuildSetting{
		{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: hash}, {Key: "vcs.time", Value: "2026-11-23T00:00:00Z"}, {Key: "vcs.modified", Value: "true"},
	}}
	for name, c := range map[string]struct {
		linked build
		info   *debug.BuildInfo
		want   string
	}{
		"nothing known":     {build{}, nil, "launch (development)" + here},
		"not stamped":       {build{}, &debug.BuildInfo{Main: debug.Module{Version: "v0.4.0"}}, "launch v0.4.0" + here},
		"Go's":              {build{}, stamped, "launch v0.4.0" + here + " commit 0123456789ab of 2026-11-23T00:00:00Z, modified"},
		"the linker's":      {build{Commit: "fedcba", Date: "2026-11-24T00:00:00Z"}, stamped, "launch v0.4.0" + here + " commit fedcba of 2026-11-24T00:00:00Z"},
		"a release":         {build{Version: "v1.0.0", Commit: "fedcba"}, nil, "launch v1.0.0" + here + " commit fedcba"},
		"a date alone":      {build{Date: "2026-11-24T00:00:00Z", Modified: true}, nil, "launch (development)" + here},
		"a date, and Go's":  {build{Date: "2026-11-24T00:00:00Z"}, stamped, "launch v0.4.0" + here + " commit 0123456789ab of 2026-11-23T00:00:00Z, modified"},
		"modified, by link": {build{Commit: "fedcba", Modified: true}, nil, "launch (development)" + here + " commit fedcba, modified"},
	} {
		got := buildOf(c.linked, c.info)
		if got.String() != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if got.Commit == "" && (got.Date != "" || got.Modified) {
			t.Errorf("%s: %+v has no commit, and yet its date or its changes", name, got)
		}
	}
}

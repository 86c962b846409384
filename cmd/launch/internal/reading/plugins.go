package reading

import (
	"os"
	"path/filepath"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/private"
)

// PluginsOf are the built-in plugins and those of the user. state is launch's state folder.
func PluginsOf(f *cli.Factory, state string) intake.Plugins {
	ps := intake.Plugins{Builtin: f.Builtins, State: state}
	ps.Others = &host.Installed{Ask: host.Ask, MayRun: host.MayRun, Protocol: host.Protocol}
	ps.Others.Reserved = func() (names []string) {
		for _, m := range ps.Manifests() {
			names = append(names, m.Name)
		}
		return names
	}
	if dir := private.ConfigDir(); dir != "" { // beside the list of the settings files that the user has approved
		ps.Others.Index = filepath.Join(dir, "plugins.json")
	}
	if d := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
		ps.Others.Dir = filepath.Join(d, "launch", "plugins")
	} else if home, err := os.UserHomeDir(); err == nil {
		ps.Others.Dir = filepath.Join(home, ".local", "share", "launch", "plugins")
	}
	if state != "" {
		ps.Others.Cache = filepath.Join(state, "plugins.json")
	}
	return ps
}

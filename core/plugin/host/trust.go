package host

import (
	"errors"
	"path/filepath"

	"github.com/launch-ml/launch/core/plugin/internal/wire"
	"github.com/launch-ml/launch/core/private"
)

// MayRun returns why a file must not be run as a plugin, or nil. It is the only place that decides this: a file runs where it, and
// every folder and link on the way to it, belongs to the user or to root and nobody else can write there.
func MayRun(path string) error {
	if !filepath.IsAbs(path) {
		return errors.New("it was found by a relative entry of PATH")
	}
	return private.CheckFile(path)
}

// Protocol is the version of the protocol that this launch speaks with plugins.
const Protocol = wire.Version

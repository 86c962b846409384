// Command launch-plugin-dualattn serves the dualattn plugin as a program of its own, as any plugin of somebody else's is
// served.
package main

import (
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/plugins/dualattn"
)

func main() { plugin.Serve(dualattn.New()) }

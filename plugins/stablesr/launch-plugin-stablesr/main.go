// Command launch-plugin-stablesr serves the stablesr plugin as a program of its own, as any plugin of somebody else's is
// served.
package main

import (
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/plugins/stablesr"
)

func main() { plugin.Serve(stablesr.New()) }

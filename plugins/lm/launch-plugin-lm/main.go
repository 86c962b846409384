// Command launch-plugin-lm serves the lm plugin as a program of its own, as any plugin of somebody else's is served.
package main

import (
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/plugins/lm"
)

func main() { plugin.Serve(lm.New()) }

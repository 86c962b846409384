// Command launch-plugin-sisr serves the sisr plugin as a program of its own, as any plugin of somebody else's is served.
package main

import (
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/plugins/sisr"
)

func main() { plugin.Serve(sisr.New()) }

// Command launch-plugin-moco serves the moco plugin as a program of its own, as any plugin of somebody else's is served.
package main

import (
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/plugins/moco"
)

func main() { plugin.Serve(moco.New()) }

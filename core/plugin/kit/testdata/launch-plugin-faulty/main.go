// Command launch-plugin-faulty has the fault that LAUNCH_TEST_FAULT names.
package main

import (
	"os"

	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/kit/testdata/faulty"
)

func main() { plugin.Serve(faulty.New(os.Getenv("LAUNCH_TEST_FAULT"))) }

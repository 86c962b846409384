// Command nvml-child loads NVIDIA's library and prints what it reports of the cards. The released launch is static and
// cannot load it: it carries this program, linked to glibc.
package main

import "github.com/launch-ml/launch/core/gpu/drivers"

func main() { drivers.ChildMain() }

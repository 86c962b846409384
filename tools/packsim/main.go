// Packsim prints how much packing shortens a sweep: the tables of docs/large-sweeps.md.
//
//	go run ./tools/packsim
package main

import (
	"fmt"

	"github.com/launch-ml/launch/core/sweep/pack/packtest"
)

func main() {
	for _, t := range packtest.Tables(10_000) {
		fmt.Printf("%s:\n\n%s\n", t.Name, t.Text)
	}
}

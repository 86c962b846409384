package plugintest

import (
	"flag"
	"os"
	"testing"
)

// Main is the TestMain of a package with fuzz targets whose seeds have a thousand bytes or more. By default go test spends up
// to a minute on making each new input smaller, a number of tries that grows with the square of its size, and tries nothing new
// meanwhile; here it makes a thousand tries. The flag on the command line (-fuzzminimizetime) counts.
func Main(m *testing.M) {
	const name = "test.fuzzminimizetime"
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if !given {
		_ = flag.Set(name, "1000x")
	}
	os.Exit(m.Run())
}

// Mutation measures how well the tests of the deciding packages test. It makes one small fault at a time, and looks
// whether the package's tests fail. `make mutation` runs it.
//
//	go run ./tools/mutation [-n 20] [-seed 1] [-time 10m] [-list] [PACKAGE[:FILE-PATTERN,...] ...]
//
// A package gets -n faults, drawn from all that [faults] finds in it. The same seed draws the same ones from the same
// code. The tests run with -short, one package at a time, for at most ten times as long as without a fault.
//
// The tree stays as it is. The changed file lies in a temporary folder, and the compiler reads it in place of the real
// one (-overlay); the tests run in a copy of the tree, as they may write beside themselves.
//
// Each fault ends as one of these:
//
//	killed        a test failed
//	timed out     the tests did not end: that counts as killed, as an endless loop cannot pass
//	survived      all tests passed: a test is missing, or the fault changes nothing that can be seen
//	not compiled  the compiler refused it: it counts for nothing
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// deciding are the packages whose answers decide what happens to a run.
var deciding = []string{
	"core/run", "core/ladder", "core/room", "core/mem", "core/oom:judge*.go,weigh.go,verdict*.go",
	"core/states", "core/record", "core/sweep", "core/config",
}

func main() {
	n := flag.Int("n", 20, "faults per package")
	seed := flag.Uint64("seed", 1, "draws the faults")
	limit := flag.Duration("time", 10*time.Minute, "for all packages together; the rest is left out then")
	list := flag.Bool("list", false, "print all faults, and test none")
	flag.Parse()
	packages := flag.Args()
	if len(packages) == 0 {
		packages = deciding
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	m := mutation{n: *n, seed: *seed, until: time.Now().Add(*limit), least: 20 * time.Second, out: os.Stdout}
	if *list {
		m.n = 0
	}
	if err := m.run(ctx, packages, *list); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

// A mutation is a run of this program.
type mutation struct {
	n     int
	seed  uint64
	until time.Time
	out   io.Writer
	least time.Duration // what tests get beside ten times as long as without a fault
	dir   string        // for changed files, the programs of the tests, and the copy of the tree
	files []string      // of the tree
}

func (m mutation) run(ctx context.Context, packages []string, list bool) (err error) {
	if m.dir, err = os.MkdirTemp("", "mutation-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(m.dir)) }()
	if !list {
		if err := m.copyTree(); err != nil {
			return err
		}
	}
	var all score
	for _, p := range packages {
		dir, patterns, _ := strings.Cut(p, ":")
		found, err := packageFaults(filepath.Clean(dir), patterns)
		if err != nil {
			return err
		}
		if list {
			for _, f := range found {
				fmt.Fprintln(m.out, f)
			}
			continue
		}
		drawn := draw(found, m.n, m.seed)
		one, err := m.test(ctx, filepath.Clean(dir), drawn)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		fmt.Fprintf(m.out, "%-14s %v, of %d faults\n", dir, one, len(found))
		all.add(one)
	}
	if !list {
		fmt.Fprintf(m.out, "%-14s %v\n", "together", all)
	}
	return nil
}

// test makes the faults of a package one after the other. It prints what is worth a look: the survivors.
func (m mutation) test(ctx context.Context, dir string, drawn []fault) (one score, err error) {
	whole, err := m.tests(ctx, dir, fault{}, 10*time.Minute)
	switch {
	case err != nil:
		return one, err
	case whole.end != survived:
		return one, fmt.Errorf("the tests fail without a fault: %v\n%s", whole.end, whole.text)
	}
	limit := 10*whole.took + m.least
	for i, f := range drawn {
		if time.Now().After(m.until) {
			one[leftOut] += len(drawn) - i
			break
		}
		o, err := m.tests(ctx, dir, f, limit)
		if err != nil {
			return one, err
		}
		one[o.end]++
		if o.end == survived || o.end == timedOut {
			fmt.Fprintf(m.out, "%-12v %v\n", o.end, f)
		}
	}
	return one, nil
}

// packageFaults finds the faults of a package's files, without its tests. patterns are of files' names, with commas
// between them; "" is all.
func packageFaults(dir, patterns string) (all []fault, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || !wanted(filepath.Base(name), patterns) {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		found, err := faults(name, text)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no fault can be made in %s", dir, patterns)
	}
	return all, nil
}

func wanted(name, patterns string) bool {
	return patterns == "" || slices.ContainsFunc(strings.Split(patterns, ","), func(p string) bool {
		is, err := filepath.Match(p, name)
		return err == nil && is
	})
}

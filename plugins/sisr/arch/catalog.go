package arch

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// A Project is a trainer. The same name may stand for another class in each project, so a part of a recipe is priced as
// the class of its own project, or is unknown.
type Project string

// The projects. The zero value is traiNNer-redux, with its forks.
const (
	Redux   Project = ""
	BasicSR Project = "BasicSR"
	Neosr   Project = "neosr"

	// Projects that are built on BasicSR: what a recipe names is theirs, or BasicSR's.
	ATD       Project = "ATD"
	DRCT      Project = "DRCT"
	HAT       Project = "HAT"
	DAT       Project = "DAT"
	NAFNet    Project = "NAFNet"
	Restormer Project = "Restormer"
	RGT       Project = "RGT"
	SRFormer  Project = "SRFormer"
)

// Projects are all of them, as they are listed.
var Projects = []Project{Redux, BasicSR, Neosr, ATD, DAT, DRCT, HAT, NAFNet, Restormer, RGT, SRFormer}

// bases are the projects on which others are built.
var bases = map[Project]Project{
	ATD: BasicSR, DRCT: BasicSR, HAT: BasicSR, DAT: BasicSR, NAFNet: BasicSR, Restormer: BasicSR, RGT: BasicSR,
	SRFormer: BasicSR,
}

// Base is the project on which p is built, or p itself.
func (p Project) Base() Project {
	if base, ok := bases[p]; ok {
		return base
	}
	return p
}

// Owner is the project whose network a recipe for p names: p itself, or one built on it that has a network of that
// name and p has none. Their recipes are spelled alike, and no two of them share a name.
func Owner(p Project, network string) Project {
	if _, ok := networks.find(p, network); ok {
		return p
	}
	for built, base := range bases {
		if _, ok := networks.own[built][strings.ToLower(network)]; ok && base == p {
			return built
		}
	}
	return p
}

func (p Project) String() string {
	if p == Redux {
		return "traiNNer-redux"
	}
	return string(p)
}

// entries are what fills the catalogs, a function for each file that has several architectures. They run when a catalog
// is first asked.
var entries []func()

// entry adds one. Such a file calls it as the package is prepared: var _ = entry(func() { register(…); register(…) }).
// One with a single architecture has var _ = register(…).
func entry(f func()) struct{} {
	entries = append(entries, f)
	return struct{}{}
}

var fill = sync.OnceFunc(func() {
	for _, f := range entries {
		f()
	}
})

// A catalog has the formulas of one kind of part, by project and by name in lower case.
type catalog[T any] struct {
	own    map[Project]map[string]T
	shared map[Project]map[string]bool
	added  []func() // what add has still to enter
	once   sync.Once
}

// add enters the formula of a project's own class, when the catalog is first asked.
func (c *catalog[T]) add(p Project, v T, names ...string) struct{} {
	c.added = append(c.added, func() {
		if c.own[p] == nil {
			c.own[p] = map[string]T{}
		}
		for _, n := range names {
			c.own[p][n] = v
		}
	})
	return struct{}{}
}

// fill enters all.
func (c *catalog[T]) fill() {
	fill()
	c.once.Do(func() {
		c.own = map[Project]map[string]T{}
		for _, f := range c.added {
			f()
		}
	})
}

// share enters names whose class in a project computes the same, with the same defaults, as that of traiNNer-redux.
func (c *catalog[T]) share(p Project, names ...string) {
	if c.shared == nil {
		c.shared = map[Project]map[string]bool{}
	}
	if c.shared[p] == nil {
		c.shared[p] = map[string]bool{}
	}
	for _, n := range names {
		c.shared[p][n] = true
	}
}

// find is the formula that a project's name stands for, in upper or lower case.
func (c *catalog[T]) find(p Project, name string) (T, bool) {
	c.fill()
	name = strings.ToLower(name)
	if v, ok := c.own[p][name]; ok {
		return v, true
	}
	if base, ok := bases[p]; ok {
		return c.find(base, name)
	}
	if p != Redux && !c.shared[p][name] {
		var none T
		return none, false
	}
	v, ok := c.own[Redux][name]
	return v, ok
}

// all lists the names that have a formula in any project.
func (c *catalog[T]) all() []string {
	c.fill()
	all := map[string]bool{}
	for p := range c.own {
		for _, n := range c.names(p) {
			all[n] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// holders are the projects that list a name, for a class of their own or for traiNNer-redux's.
func (c *catalog[T]) holders(name string) (ps []Project) {
	c.fill()
	name = strings.ToLower(name)
	for _, p := range Projects {
		if _, own := c.own[p][name]; own || c.shared[p][name] {
			ps = append(ps, p)
		}
	}
	return ps
}

// names lists a project's names that have a formula.
func (c *catalog[T]) names(p Project) []string {
	c.fill()
	all := maps.Clone(c.shared[p])
	if all == nil {
		all = map[string]bool{}
	}
	if base, ok := bases[p]; ok {
		for _, n := range c.names(base) {
			all[n] = true
		}
	}
	for n := range c.own[p] {
		all[n] = true
	}
	return slices.Sorted(maps.Keys(all))
}

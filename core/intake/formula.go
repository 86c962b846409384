package intake

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/unit"
)

// Formula finds the plugin that has a formula for a network, and the network's name as the plugin writes it. only is
// the plugin to use, or "auto". The error lists networks with similar names.
func Formula(sources []host.Source, name, only string) (source host.Source, arch string, err error) {
	if only != "auto" && !slices.ContainsFunc(sources, func(src host.Source) bool { return src.Manifest.Name == only }) {
		return source, "", fmt.Errorf("no plugin %q; run `launch plugins` for a list", only)
	}
	var elsewhere error
	var like []string
	for _, src := range sources {
		for _, a := range src.Manifest.Archs {
			switch same := strings.EqualFold(a, name); {
			case same && (only == "auto" || only == src.Manifest.Name):
				return src, a, nil
			case same && elsewhere == nil:
				elsewhere = fmt.Errorf("plugin %s has the formula for %q, but --plugin is %s", src.Manifest.Name, a,
					only)
			case alike(letters(a), letters(name)):
				like = append(like, a)
			}
		}
	}
	const shown = 8
	switch n := len(like); {
	case elsewhere != nil:
		return source, "", elsewhere
	case n == 0:
		return source, "", fmt.Errorf("no plugin has a formula for %q; `launch estimate --list` lists all", name)
	case n > shown:
		like = append(like[:shown], fmt.Sprintf("%d more", n-shown))
	}
	return source, "", fmt.Errorf("no plugin has a formula for %q; similar names are %s; `launch estimate --list` lists all", name, strings.Join(like, ", "))
}

// alike reports whether two names may mean the same: one is part of the other, or they begin alike.
func alike(a, b string) bool {
	const least = 3 // letters; fewer occur in every name
	return len(b) >= least && (strings.Contains(a, b) || len(a) >= least && (strings.Contains(b, a) || a[:least] == b[:least]))
}

// letters returns the letters and digits of a name, in lower case.
func letters(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// mostBytes is more than all cards of any machine hold. A larger size was mistyped, and sums might overflow 64 bits.
const mostBytes = unit.Bytes(1) << 50

// Countable returns an error if an estimate's numbers cannot be right.
func Countable(phases []plugin.Phase) error {
	for _, p := range phases {
		for _, it := range p.Estimate.Items {
			if it.Bytes < 0 || it.Bytes > mostBytes || it.Count < 0 {
				return fmt.Errorf("%s: %s %s come to more than %v, or are negative: a size is too large, or an "+
					"argument is negative", p.Phase, it.What, it.Kind, mostBytes)
			}
		}
	}
	return nil
}

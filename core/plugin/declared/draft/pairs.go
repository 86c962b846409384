package draft

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

var (
	// pairKey matches the key of a pair: SOLVER.IMS_PER_BATCH.
	pairKey = lazy.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$`)
	// node matches an assignment to a configuration's node: _C.SOLVER.IMS_PER_BATCH = 16.
	node = lazy.MustCompile(`^(?:_C|_CN|cfg|config|cn|C|__C)\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)$`)
)

// takesPairs reports whether the program reads pairs KEY VALUE after its options, as yacs and detectron2 do. end: they
// may stand at the end of any command; else they follow an option of their own.
func (d *drafting) takesPairs() (yes, end bool) {
	merges := slices.ContainsFunc(d.files, func(f *file) bool {
		return strings.Contains(f.Code, ".merge_from_list(") ||
			strings.Contains(f.Code, "default_argument_parser")
	})
	rest := slices.ContainsFunc(d.list.Options, func(o python.Option) bool {
		return len(o.Names) == 0 && o.Takes == config.Any
	})
	return merges || rest && slices.ContainsFunc(d.files, func(f *file) bool {
			return strings.Contains(f.Code, "CfgNode") ||
				strings.Contains(f.Code, "yacs")
		}), rest || !slices.ContainsFunc(d.list.Options, func(o python.Option) bool {
			return o.Dest == "opts"
		})
}

// pairs makes pairs of the settings of a program that takes them: those in its files of settings and in its code, and
// those that the command has. A pair outranks the file.
func (d *drafting) pairs(recipe []setting) []setting {
	yes, end := d.takesPairs()
	if !yes && !d.hasPairs(recipe) {
		return recipe
	}
	out := slices.Clone(recipe)
	index := func(key string) int {
		return slices.IndexFunc(out, func(s setting) bool { return s.Dest == key })
	}
	for i, s := range out {
		if end && pairKey.MatchString(s.Dest) {
			out[i].place = "{any: [" + pairPlace(s.Dest) + ", " + s.place + "]}"
			out[i].key = quoted("pair:" + s.Dest)
		}
	}
	for _, f := range d.files {
		for _, s := range f.Statements {
			a, ok := f.Assigns(s)
			if !ok || !end {
				continue
			}
			m := node.FindStringSubmatch(a.Name)
			if n, err := strconv.Atoi(f.Of(a.Value)); m == nil || err != nil || n < 1 || !pairKey.MatchString(m[1]) ||
				index(m[1]) >= 0 {
				continue
			}
			value := f.Of(a.Value)
			out = append(out, setting{Option: python.Option{Names: []string{m[1]}, Dest: m[1], Default: value, Known: true,
				Path: f.Path, Line: f.LineOf(s.First), How: "pairs"},
				place: fmt.Sprintf("{at: %s, default: %s}", pairPlace(m[1]), value), key: quoted("pair:" + m[1])})
		}
	}
	for i := 0; i+1 < len(d.prog.Args); i++ {
		key, value := d.prog.Args[i], d.prog.Args[i+1]
		if !pairKey.MatchString(key) || strings.HasPrefix(value, "-") || i > 0 && strings.HasPrefix(d.prog.Args[i-1], "--") &&
			!strings.HasSuffix(d.prog.Args[i-1], "opts") {
			continue
		}
		if k := index(key); k >= 0 {
			out[k].Default, out[k].Known, out[k].typed = value, true, true
			if !strings.Contains(out[k].place, "pair:") { // after an option of its own: the pair is there, and outranks the file
				out[k].place = "{any: [" + pairPlace(key) + ", " + out[k].place + "]}"
				out[k].key = quoted("pair:" + key)
			}
		} else {
			out = append(out, setting{Option: python.Option{Names: []string{key}, Dest: key, Default: value, Known: true,
				How: "pairs"}, place: pairPlace(key), key: quoted("pair:" + key), typed: true})
		}
		i++
	}
	return out
}

// hasPairs reports whether the command has a pair whose key its file of settings has, too: then a library reads them.
func (d *drafting) hasPairs(recipe []setting) bool {
	for i, a := range d.prog.Args {
		if i == 0 || i+1 == len(d.prog.Args) || !pairKey.MatchString(a) || strings.HasPrefix(d.prog.Args[i+1], "-") ||
			strings.HasPrefix(d.prog.Args[i-1], "-") && !strings.HasSuffix(d.prog.Args[i-1], "opts") {
			continue
		}
		if slices.ContainsFunc(recipe, func(s setting) bool { return s.Dest == a }) {
			return true
		}
	}
	return false
}

func pairPlace(key string) string { return "{pair: " + key + "}" }

package python

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

//go:embed library.txt
var libraryText string

// library is the recorded fields of libraries' dataclasses, by the class's full name.
var library = sync.OnceValue(func() map[string][]field {
	out := map[string][]field{}
	class := ""
	for line := range strings.Lines(libraryText) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if name, base, _ := strings.Cut(line, " "); !strings.HasPrefix(line, "\t") {
			class = name
			out[class] = slices.Clone(out[base])
			continue
		}
		part := strings.Split(line, "\t")
		f := field{flat: part[1]}
		f.Type, f.Default, f.Known = part[2], part[3], part[3] != "?"
		if !f.Known {
			f.Default = ""
		}
		if i := slices.IndexFunc(out[class], func(o field) bool { return o.flat == f.flat }); i >= 0 {
			out[class][i] = f
		} else {
			out[class] = append(out[class], f)
		}
	}
	return out
})

// recorded are the fields of a library's class, or nil. Libraries export a class by several names.
func recorded(ext string) []field {
	top, _, _ := strings.Cut(ext, ".")
	_, name := cutLast(ext)
	return library()[top+"."+name]
}

package identity

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The kinds of difference, in the order in which they are listed.
const (
	Code        = "code"
	Recipe      = "recipe"
	Arguments   = "arguments"
	Environment = "environment"
	Python      = "python"
	Packages    = "packages"
	Data        = "data"
	Ranks       = "ranks"
)

// A Difference is one thing that is not the same. A value is nil where there is none.
type Difference struct {
	Kind string  `json:"kind"`
	Name string  `json:"name"`
	Was  *string `json:"was"`
	Now  *string `json:"now"`
}

// String describes the difference in a few words: "train.py has changed".
func (d Difference) String() string {
	hashed := d.Kind == Code || d.Kind == Recipe || d.Kind == Data
	switch {
	case d.Was == nil && hashed:
		return d.Name + " is new"
	case d.Now == nil && hashed:
		return d.Name + " is no longer there"
	case hashed:
		return d.Name + " has changed"
	case d.Was == nil:
		return fmt.Sprintf("%s is now %s and was not set", d.Name, *d.Now)
	case d.Now == nil:
		return fmt.Sprintf("%s was %s and is not set now", d.Name, *d.Was)
	}
	return fmt.Sprintf("%s was %s and is now %s", d.Name, *d.Was, *d.Now)
}

// A Past is what is known of a run's data since its identity was taken.
type Past struct {
	// Left are the data as the last attempt left them; nil if it left no listing, because launch was killed.
	Left []Tree
	// Until is when the last attempt wrote its last output: what was written until then may be its own. Zero: unknown.
	Until time.Time
}

// Unread lists what is not known of one of two identities, and is therefore not compared.
func Unread(was, now *Identity) []string {
	all := slices.Concat(was.Unknown, now.Unknown)
	slices.Sort(all)
	return slices.Compact(all)
}

// Compare lists what differs between a run's identity and the present one. What is unknown in one of them is not
// compared.
func Compare(was, now *Identity, past Past) (out []Difference) {
	if was == nil || now == nil {
		return nil
	}
	unknown := func(what string) bool { return slices.Contains(Unread(was, now), what) }
	if !unknown("code") {
		out = append(out, ofCode(was.Code, now.Code)...)
	}
	out = append(out, slices.DeleteFunc(differ(Recipe, files(was.Recipes), files(now.Recipes)), func(d Difference) bool {
		return d.Was == nil && past.made(now, d.Name)
	})...)
	out = append(out, arguments(was.Args, now.Args)...)
	moved := elsewhere(was, now)
	for _, d := range differ(Environment, variables(was, now), variables(now, was)) {
		if d.Was == nil || d.Now == nil || moved[*d.Was] == "" || moved[*d.Was] != *d.Now {
			out = append(out, d)
		}
	}
	if !unknown("python") {
		out = append(out, differ(Python, single("interpreter", was.Python), single("interpreter", now.Python))...)
		out = append(out, differ(Python, single("version", was.Release), single("version", now.Release))...)
	}
	if !unknown("packages") {
		what := differ(Packages, packages(was.Packages), packages(now.Packages))
		out = append(out, slices.DeleteFunc(what, now.apart)...)
	}
	for _, t := range was.Data {
		if moved[t.Path] != "" {
			continue
		}
		for _, d := range t.differ(past, now) { // one file may lie in two folders that are named
			if !slices.ContainsFunc(out, func(o Difference) bool { return o.Kind == Data && o.Name == d.Name }) {
				out = append(out, d)
			}
		}
	}
	if was.Ranks > 0 && now.Ranks > 0 {
		out = append(out, differ(Ranks, single("ranks", fmt.Sprint(was.Ranks)), single("ranks", fmt.Sprint(now.Ranks)))...)
	}
	return out
}

// differ lists the names whose values are not the same, sorted.
func differ(kind string, was, now map[string]string) (out []Difference) {
	Unlike(was, now, func(name string, a, b *string) {
		out = append(out, Difference{Kind: kind, Name: name, Was: a, Now: b})
	})
	return out
}

// Unlike calls found for each name whose values are not the same, in their order; nil where one has no value.
func Unlike(was, now map[string]string, found func(name string, was, now *string)) {
	all := maps.Clone(was)
	maps.Copy(all, now)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		a, had := was[name]
		b, has := now[name]
		switch {
		case had && has && a != b:
			found(name, &a, &b)
		case had && !has:
			found(name, &a, nil)
		case has && !had:
			found(name, nil, &b)
		}
	}
}

// ofCode compares code, without what a run makes of it: a copy in a folder of its own, in which nothing but a search
// finds it, and what is compiled beside its source.
func ofCode(was, now []File) []Difference {
	sought, held, sources := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, f := range now {
		sought[f.Path] = f.Sought
		if ext := filepath.Ext(f.Path); slices.Contains(compiled, ext) {
			sources[filepath.Dir(f.Path)] = true
		} else if ext == ".pyx" {
			sources[strings.TrimSuffix(f.Path, ext)] = true
		}
	}
	for _, f := range was {
		held[filepath.Dir(f.Path)] = true
	}
	return slices.DeleteFunc(differ(Code, files(was), files(now)), func(d Difference) bool {
		switch ext := filepath.Ext(d.Name); ext {
		case ".so":
			return sources[filepath.Dir(d.Name)]
		case ".c", ".cpp":
			if sources[strings.TrimSuffix(d.Name, ext)] {
				return true
			}
		}
		return d.Was == nil && sought[d.Name] && !held[filepath.Dir(d.Name)]
	})
}

// compiled are the endings of sources of which an extension is made.
var compiled = []string{".cu", ".cpp", ".cc", ".c", ".pyx"}

// made reports whether an attempt has made a recipe that was not there when the run began.
func (p Past) made(now *Identity, path string) bool {
	if p.Left != nil {
		return slices.ContainsFunc(p.Left, func(t Tree) bool { return t.Path == path })
	}
	return slices.ContainsFunc(now.Recipes, func(f File) bool {
		return f.Path == path && f.written > 0 && f.written <= p.Until.UnixNano()
	})
}

func single(name, value string) map[string]string { return map[string]string{name: value} }

func files(of []File) map[string]string {
	out := map[string]string{}
	for _, f := range of {
		out[f.Path] = f.Hash
	}
	return out
}

// variables are those of an identity. One that only the other's files read is missing here, though it may be set: it
// then differs because the code does.
func variables(of, other *Identity) map[string]string {
	out := map[string]string{}
	for _, kv := range of.Env {
		name, value, _ := strings.Cut(kv, "=")
		if other.reads(name) || numeric.MatchString(name) {
			out[name] = value
		}
	}
	return out
}

// packages are versions by name; of a name that is installed twice, all of them.
func packages(of []string) map[string]string {
	out := map[string]string{}
	for _, p := range of {
		name, version, _ := strings.Cut(p, " ")
		if before := out[name]; before != "" {
			version = before + ", " + version
		}
		out[name] = version
	}
	return out
}

// arguments compares two commands word by word.
func arguments(was, now []string) (out []Difference) {
	if slices.Equal(was, now) {
		return nil
	}
	for i := 0; i < len(was) && len(was) == len(now); i++ {
		if was[i] == now[i] {
			continue
		}
		name := fmt.Sprintf("argument %d", i)
		if i > 0 && strings.HasPrefix(was[i-1], "-") && was[i-1] == now[i-1] {
			name = was[i-1]
		}
		out = append(out, Difference{Kind: Arguments, Name: name, Was: &was[i], Now: &now[i]})
	}
	if out != nil {
		return out
	}
	a, b := strings.Join(was, " "), strings.Join(now, " ")
	return []Difference{{Kind: Arguments, Name: "the command", Was: &a, Now: &b}}
}

// differ compares a tree with what is there now. What the run itself has written is no difference.
func (t Tree) differ(past Past, now *Identity) []Difference {
	at := slices.IndexFunc(now.Data, func(n Tree) bool { return n.Path == t.Path })
	if at < 0 {
		if slices.Contains(now.Unknown, "data "+t.Path) {
			return nil
		}
		one := fmt.Sprintf("%d files", t.Files)
		return []Difference{{Kind: Data, Name: t.Path, Was: &one}}
	}
	if t.again(now.Data[at]) {
		return nil
	}
	start, end := marks(t.Parts), marks(now.Data[at].Parts)
	expected, own := start, map[string]bool{}
	if i := slices.IndexFunc(past.Left, func(l Tree) bool { return l.Path == t.Path }); i >= 0 {
		expected = marks(past.Left[i].Parts)
		for _, d := range differ(Data, start, expected) {
			own[d.Name] = true
		}
	} else if past.Left == nil && !past.Until.IsZero() {
		for _, p := range now.Data[at].Parts {
			if start[p.Path] != p.Mark && p.Modified <= past.Until.UnixNano() {
				own[p.Path] = true
			}
		}
	}
	if len(own) > 0 && !t.Declared {
		return nil // the run writes here
	}
	out := differ(Data, expected, end)
	out = slices.DeleteFunc(out, func(d Difference) bool { return own[d.Name] || t.Code && d.Was == nil })
	for i := range out {
		out[i].Name = strings.TrimSuffix(t.Path+"/"+out[i].Name, "/")
	}
	return out
}

func marks(parts []Entry) map[string]string {
	out := map[string]string{}
	for _, p := range parts {
		out[p.Path] = p.Mark
	}
	return out
}

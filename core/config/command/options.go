package command

import (
	"strconv"
	"strings"
)

// options are what was found before a wrapped command, by each option's last name.
type options map[string][]string

func (o options) has(name string) bool { _, ok := o[name]; return ok }

func (o options) last(name string) (string, bool) {
	v := o[name]
	if len(v) == 0 {
		return "", false
	}
	return v[len(v)-1], true
}

// loose lets names be written with underscores for dashes.
const loose = "loose"

// readOptions reads the options of words[0] up to the first argument that is none, or behind "--". spec lists what the
// program declares: names of one option joined by "|", with ":" behind those that take a value, and with "?" behind
// those that take one only after "=". Long names may be cut short as getopt_long and argparse allow. An option that is
// not listed is not understood, for whether the next word is its value cannot be known.
func readOptions(words []word, spec string, how ...string) (options, []word, error) {
	type option struct {
		name  string
		takes byte
	}
	norm := func(s string) string {
		if len(how) > 0 && strings.HasPrefix(s, "--") {
			return strings.ReplaceAll(s, "_", "-")
		}
		return s
	}
	known := map[string]option{}
	for _, f := range strings.Fields(spec) {
		takes := f[len(f)-1]
		if takes == ':' || takes == '?' {
			f = f[:len(f)-1]
		}
		names := strings.Split(f, "|")
		for _, n := range names {
			known[n] = option{names[len(names)-1], takes}
		}
	}
	find := func(s string) (option, bool) {
		if o, ok := known[s]; ok {
			return o, true
		}
		found, all := option{}, map[string]bool{}
		if strings.HasPrefix(s, "--") && len(s) > 2 {
			for n, o := range known {
				if strings.HasPrefix(n, s) {
					found = o
					all[o.name] = true
				}
			}
		}
		return found, len(all) == 1
	}

	program := words[0].text
	got := options{}
	rest := words[1:]
	for len(rest) > 0 {
		w := rest[0].text
		if w == "--" {
			return got, rest[1:], nil
		}
		if len(w) < 2 || w[0] != '-' {
			return got, rest, nil
		}
		rest = rest[1:]
		value := func(o option) error {
			if len(rest) == 0 {
				return notUnderstood("%s: option %s without a value", program, w)
			}
			got[o.name] = append(got[o.name], rest[0].text)
			rest = rest[1:]
			return nil
		}
		name, joined, isJoined := strings.Cut(w, "=")
		o, ok := find(norm(name))
		switch {
		case ok && isJoined && o.takes != ':' && o.takes != '?':
			return nil, nil, notUnderstood("%s: option %s takes no value", program, w)
		case ok && isJoined:
			got[o.name] = append(got[o.name], joined)
			continue
		case ok && o.takes == ':':
			if err := value(o); err != nil {
				return nil, nil, err
			}
			continue
		case ok:
			got[o.name] = append(got[o.name], "")
			continue
		case strings.HasPrefix(w, "--"):
			return nil, nil, notUnderstood("%s: option %s", program, w)
		}
		for i := 1; i < len(w); i++ { // -xn5: letters, of which the last may have its value joined
			o, ok := known["-"+w[i:i+1]]
			if !ok {
				return nil, nil, notUnderstood("%s: option %s", program, w)
			}
			if o.takes != ':' {
				got[o.name] = append(got[o.name], "")
				continue
			}
			if i+1 < len(w) {
				got[o.name] = append(got[o.name], w[i+1:])
			} else if err := value(o); err != nil {
				return nil, nil, err
			}
			break
		}
	}
	return got, rest, nil
}

// number reads a count, or returns 0 for what is none: "gpu", "auto", "1:4".
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

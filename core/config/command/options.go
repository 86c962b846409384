package command

import (
	"strconv"
	"strings"
)

// options are the values found before a wrapped command, by each option's last name.
type options map[string][]string

func (o options) has(name string) bool { _, ok := o[name]; return ok }

func (o options) last(name string) (string, bool) {
	v := o[name]
	if len(v) == 0 {
		return "", false
	}
	return v[len(v)-1], true
}

// loose accepts names that are written with underscores instead of dashes.
const loose = "loose"

// An option is one that a program declares: the last of its names, and whether it takes a value: ':' always, '?' only
// after "=", else never.
type option struct {
	name  string
	takes byte
}

// declared are a program's options, by each of their names.
type declared map[string]option

// declare reads a list of options: names of one option joined by "|", followed by ":" or "?" for those that take a value.
func declare(spec string) declared {
	out := declared{}
	for _, f := range strings.Fields(spec) {
		takes := f[len(f)-1]
		if takes == ':' || takes == '?' {
			f = f[:len(f)-1]
		}
		names := strings.Split(f, "|")
		for _, n := range names {
			out[n] = option{names[len(names)-1], takes}
		}
	}
	return out
}

// find returns the option of that name. A long name may be cut short where it is still unique.
func (d declared) find(name string) (option, bool) {
	if o, ok := d[name]; ok {
		return o, true
	}
	found, all := option{}, map[string]bool{}
	if strings.HasPrefix(name, "--") && len(name) > 2 {
		for n, o := range d {
			if strings.HasPrefix(n, name) {
				found = o
				all[o.name] = true
			}
		}
	}
	return found, len(all) == 1
}

// readOptions reads the options of words[0] up to the first argument that is no option, or to "--", and returns the words
// after them. spec lists what the program declares, as [declare] reads it. Long names may be shortened as getopt_long and
// argparse allow. An option that is not listed is not understood: nothing shows whether the next word is its value.
func readOptions(words []word, spec string, how ...string) (options, []word, error) {
	r := &optionReader{program: words[0].text, known: declare(spec), got: options{}, rest: words[1:]}
	for len(r.rest) > 0 {
		w := r.rest[0].text
		if w == "--" {
			return r.got, r.rest[1:], nil
		}
		if len(w) < 2 || w[0] != '-' {
			return r.got, r.rest, nil
		}
		r.rest = r.rest[1:]
		name, _, _ := strings.Cut(w, "=")
		if len(how) > 0 && strings.HasPrefix(name, "--") {
			name = strings.ReplaceAll(name, "_", "-")
		}
		o, ok := r.known.find(name)
		var err error
		switch {
		case ok:
			err = r.whole(o, w)
		case strings.HasPrefix(w, "--"):
			err = notUnderstood("%s: option %s", r.program, w)
		default:
			err = r.letters(w)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return r.got, r.rest, nil
}

type optionReader struct {
	program string
	known   declared
	got     options
	rest    []word // the words that were not read yet
}

func (r *optionReader) add(o option, value string) { r.got[o.name] = append(r.got[o.name], value) }

// value takes the next word as the value of the option that w has.
func (r *optionReader) value(o option, w string) error {
	if len(r.rest) == 0 {
		return notUnderstood("%s: option %s without a value", r.program, w)
	}
	r.add(o, r.rest[0].text)
	r.rest = r.rest[1:]
	return nil
}

// whole reads a word that is one option, and its value where it takes one.
func (r *optionReader) whole(o option, w string) error {
	_, joined, isJoined := strings.Cut(w, "=")
	switch {
	case isJoined && o.takes != ':' && o.takes != '?':
		return notUnderstood("%s: option %s takes no value", r.program, w)
	case isJoined:
		r.add(o, joined)
	case o.takes == ':':
		return r.value(o, w)
	default:
		r.add(o, "")
	}
	return nil
}

// letters reads a word of several options with names of one letter. The last may have its value joined: -xn5.
func (r *optionReader) letters(w string) error {
	for i := 1; i < len(w); i++ {
		o, ok := r.known["-"+w[i:i+1]]
		switch {
		case !ok:
			return notUnderstood("%s: option %s", r.program, w)
		case o.takes != ':':
			r.add(o, "")
		case i+1 < len(w):
			r.add(o, w[i+1:])
			return nil
		default:
			return r.value(o, w)
		}
	}
	return nil
}

// number reads a count. It returns 0 for anything else: "gpu", "auto", "1:4".
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

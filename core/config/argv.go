package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
)

// Takes says how many arguments an option takes: argparse's nargs and actions.
type Takes uint8

const (
	One   Takes = iota // exactly one
	None               // a flag: store_true, store_const, count
	Maybe              // nargs="?"
	Any                // nargs="*"
	Some               // nargs="+"
)

// An Option is one option that a program declares: all its names, and what it takes.
type Option struct {
	Names []string `json:"names"`
	Takes Takes    `json:"takes,omitempty"`
	// Joined: the program reads a value only where "=" joins it to the option.
	Joined bool `json:"joined,omitempty"`
}

// Argv is the arguments of a program that reads them with argparse. Its paths are the declared names of options and,
// for programs that take OmegaConf's overrides, dotted keys.
//
// What is not declared is left alone: an unknown option takes nothing, and what stands behind it is a positional
// argument, as to parse_known_args.
type Argv struct {
	args    []string
	options []Option
	tokens  []token
}

// A token is one use of an option, or one override, or one positional argument.
type token struct {
	opt   int // in options; -1 for a positional argument or an override, -2 for an unknown option
	name  string
	at    int // the option's own argument
	from  int // where in it a value begins that is joined to it, or 0
	first int // its values that are arguments of their own
	n     int
}

// ErrArgs says that argparse would refuse the arguments, or that its versions read them differently.
var ErrArgs = errors.New("the program would refuse these arguments")

// ParseArgv reads the arguments that stand behind a script's name. -h and --help are declared by every argparse parser
// and need not be listed.
func ParseArgv(args []string, options []Option) (*Argv, error) {
	a := &Argv{args: slices.Clone(args), options: slices.Clone(options)}
	if i, _ := a.declared("-h"); i < 0 {
		a.options = append(a.options, Option{Names: []string{"-h", "--help"}, Takes: None})
	}
	return a, a.scan()
}

func (a *Argv) declared(name string) (int, bool) {
	for i, o := range a.options {
		if slices.Contains(o.Names, name) {
			return i, true
		}
	}
	return -1, false
}

// override matches KEY=VALUE, and not a path that has a "=".
var override = lazy.MustCompile(`^[+~]*[A-Za-z_][\w.@-]*=`)

var reNegative = lazy.MustCompile(`^-\d+$|^-\d*\.\d+$`)

// isOption reports whether argparse takes arg for an option (_parse_optional of Python 3.8 to 3.14).
func (a *Argv) isOption(arg string) bool {
	if pair, ok := a.declared(arg); ok && arg != "" && arg[0] != '-' {
		return a.options[pair].Takes == One // the key of a pair KEY VALUE
	}
	if len(arg) < 2 || arg[0] != '-' || arg == "--" {
		return false
	}
	if i, _, _, err := a.match(arg); i >= 0 || err != nil {
		return true
	}
	return !reNegative.MatchString(arg) && !strings.Contains(arg, " ")
}

// match finds the option that arg names, by full name or unique prefix. from is where a value begins that is joined
// to the name, or 0.
func (a *Argv) match(arg string) (opt int, name string, from int, err error) {
	if i, ok := a.declared(arg); ok {
		return i, arg, 0, nil
	}
	prefix, _, joined := strings.Cut(arg, "=")
	if joined {
		from = len(prefix) + 1
		if i, ok := a.declared(prefix); ok {
			return i, prefix, from, nil
		}
	}
	type hit struct {
		opt  int
		name string
		from int
	}
	var hits []hit
	for i, o := range a.options {
		for _, n := range o.Names {
			switch {
			case strings.HasPrefix(n, prefix):
				hits = append(hits, hit{i, n, from})
			case !strings.HasPrefix(arg, "--") && len(n) == 2 && strings.HasPrefix(arg, n):
				hits = append(hits, hit{i, n, 2})
			}
		}
	}
	switch {
	case len(hits) == 0:
		return -1, "", 0, nil
	case len(hits) > 1: // also for two names of one option: Python before 3.12 refuses that
		return -1, "", 0, fmt.Errorf("%w: %s could be %s or %s", ErrArgs, arg, hits[0].name, hits[1].name)
	}
	if joined && hits[0].from == from && !strings.HasPrefix(arg, "--") {
		return -1, "", 0, fmt.Errorf("%w: Python before 3.12 does not read %s as %s", ErrArgs, arg, hits[0].name)
	}
	return hits[0].opt, hits[0].name, hits[0].from, nil
}

func (a *Argv) scan() error {
	a.tokens = nil
	for i := 0; i < len(a.args); i++ {
		arg := a.args[i]
		if arg == "--" {
			for i++; i < len(a.args); i++ {
				a.tokens = append(a.tokens, token{opt: -1, at: i})
			}
			break
		}
		if !a.isOption(arg) {
			a.tokens = append(a.tokens, token{opt: -1, at: i})
			continue
		}
		opt, name, from, err := a.match(arg)
		if err != nil {
			return err
		}
		if opt < 0 {
			a.tokens = append(a.tokens, token{opt: -2, at: i})
			continue
		}
		if a.options[opt].Takes == None && from == 2 && len(name) == 2 {
			if err := a.cluster(i); err != nil {
				return err
			}
			continue
		}
		t := token{opt: opt, name: name, at: i, from: from, first: i + 1}
		if t.n, err = a.take(t); err != nil {
			return err
		}
		i += t.n
		a.tokens = append(a.tokens, t)
	}
	return nil
}

// take counts the arguments behind an option that belong to it.
func (a *Argv) take(t token) (int, error) {
	takes := a.options[t.opt].Takes
	if t.from == 0 && a.options[t.opt].Joined {
		return 0, nil
	}
	if t.from > 0 {
		if takes == None {
			return 0, fmt.Errorf("%w: %s takes no value", ErrArgs, t.name)
		}
		return 0, nil
	}
	n := 0
	for limit := map[Takes]int{One: 1, Maybe: 1, Any: len(a.args), Some: len(a.args)}[takes]; n < limit; n++ {
		i := t.first + n
		if i >= len(a.args) || a.isOption(a.args[i]) || a.args[i] == "--" {
			break
		}
	}
	if n == 0 && (takes == One || takes == Some) {
		return 0, fmt.Errorf("%w: %s wants a value", ErrArgs, t.name)
	}
	return n, nil
}

// cluster reads -abc as flags of one letter. A cluster that ends in an option with a value is too rare to be edited.
func (a *Argv) cluster(i int) error {
	for _, c := range a.args[i][1:] {
		opt, ok := a.declared("-" + string(c))
		if !ok || a.options[opt].Takes != None {
			return fmt.Errorf("%w: %s is not a row of flags", ErrArgs, a.args[i])
		}
		a.tokens = append(a.tokens, token{opt: opt, name: "-" + string(c), at: i, from: -1})
	}
	return nil
}

// find returns the last use of an option or an override, which is the one that counts.
func (a *Argv) find(path string) (token, bool) {
	opt, isOpt := a.declared(path)
	for _, t := range slices.Backward(a.tokens) {
		switch {
		case isOpt && t.opt == opt:
			return t, true
		case !isOpt && t.opt == -1 && !strings.HasPrefix(path, "-") && strings.HasPrefix(a.args[t.at], path+"="):
			t.from = len(path) + 1
			return t, true
		}
	}
	return token{}, false
}

// Has reports whether an option or an override is given.
func (a *Argv) Has(path string) bool { _, ok := a.find(path); return ok }

// Get implements [Document]. The value of a flag is empty; an option with several values has no text of its own, see
// [Argv.Values].
func (a *Argv) Get(path string) (string, bool) {
	t, ok := a.find(path)
	if !ok || t.n > 1 {
		return "", false
	}
	v := a.values(t)
	if len(v) == 0 {
		return "", true
	}
	return v[0], true
}

// Values returns what the last use of an option gives it.
func (a *Argv) Values(path string) []string {
	t, ok := a.find(path)
	if !ok {
		return nil
	}
	return a.values(t)
}

func (a *Argv) values(t token) []string {
	if t.from > 0 {
		return []string{a.args[t.at][t.from:]}
	}
	return slices.Clone(a.args[t.first : t.first+t.n])
}

// Positionals returns the positional arguments, overrides included, in order.
func (a *Argv) Positionals() []string {
	var all []string
	for _, t := range a.tokens {
		if t.opt == -1 {
			all = append(all, a.args[t.at])
		}
	}
	return all
}

// Unknown returns the arguments that look like options and are not declared.
func (a *Argv) Unknown() []string {
	var all []string
	for _, t := range a.tokens {
		if t.opt == -2 {
			all = append(all, a.args[t.at])
		}
	}
	return all
}

// Set implements [Document]. It replaces the one argument that holds the value, or adds the option behind everything
// else; a flag is added by [Argv.Add].
func (a *Argv) Set(path, text string) error {
	t, ok := a.find(path)
	if !ok {
		return a.Add(path, text)
	}
	args := slices.Clone(a.args)
	switch {
	case t.from > 0:
		args[t.at] = args[t.at][:t.from] + text
	case t.n == 1:
		args[t.first] = text
	default:
		return fmt.Errorf("%s: it has %d values, not one", path, t.n)
	}
	return a.accept(args, path, []string{text})
}

// Add adds an option with its values, or an override, that is not there yet.
func (a *Argv) Add(path string, values ...string) error {
	if a.Has(path) {
		return fmt.Errorf("%s is there already", path)
	}
	opt, isOpt := a.declared(path)
	var add []string
	at := slices.Index(a.args, "--")
	if at < 0 {
		at = len(a.args)
	}
	switch {
	case isOpt && !strings.HasPrefix(path, "-"): // a pair stands after the options, with the others
		if len(values) != 1 {
			return fmt.Errorf("%s does not take %d values", path, len(values))
		}
		add = []string{path, values[0]}
		at = len(a.args)
	case isOpt:
		if pair := a.firstPair(); pair >= 0 && pair < at {
			at = pair // what stands among the pairs is no option any more
		}
		if n := len(values); a.options[opt].Takes == None && n > 0 || a.options[opt].Takes == One && n != 1 {
			return fmt.Errorf("%s does not take %d values", path, n)
		}
		if add = append([]string{path}, values...); len(values) == 1 && strings.HasPrefix(path, "--") &&
			(a.options[opt].Joined || a.joins()) {
			add = []string{path + "=" + values[0]}
		}
	case strings.HasPrefix(path, "-"):
		return fmt.Errorf("the program has no option %s", path)
	case len(values) != 1 || path == "":
		return fmt.Errorf("%s: an override has one value", path)
	default:
		add = []string{path + "=" + values[0]}
		end := at
		for _, t := range a.tokens { // with the others: all may belong to one option that is not declared, --cfg-options
			if t.opt == -1 && t.at < end && override.MatchString(a.args[t.at]) {
				at = t.at + 1
			}
		}
		for _, t := range a.tokens { // behind an option that takes all it gets, the override would be its value
			if t.opt >= 0 && a.options[t.opt].Takes > None && t.from == 0 && t.first+t.n == at {
				at = 0
			}
		}
	}
	return a.accept(slices.Insert(slices.Clone(a.args), at, add...), path, values)
}

// firstPair is where the first pair KEY VALUE stands: of those that are declared, or the first of the positional
// arguments before it; -1 where there is none.
func (a *Argv) firstPair() int {
	if !slices.ContainsFunc(a.options, func(o Option) bool {
		return len(o.Names) > 0 && !strings.HasPrefix(o.Names[0], "-")
	}) {
		return -1
	}
	for _, t := range a.tokens {
		if t.opt == -1 || t.opt >= 0 && !strings.HasPrefix(t.name, "-") {
			return t.at
		}
	}
	return -1
}

// joins reports whether long options are given their values by "=" here and never by an argument of its own: argparse takes
// both, and programs that read their arguments themselves may take this one only (karpathy/nanoGPT, configurator.py).
func (a *Argv) joins() (yes bool) {
	for i, arg := range a.args {
		switch {
		case !strings.HasPrefix(arg, "--") || arg == "--":
		case strings.Contains(arg, "="):
			yes = true
		case i+1 < len(a.args) && !strings.HasPrefix(a.args[i+1], "-"):
			return false
		}
	}
	return yes
}

// Extend gives an option one more value, behind those that its last use has; it adds an option that is not there.
func (a *Argv) Extend(path, value string) error {
	t, ok := a.find(path)
	if !ok {
		return a.Add(path, value)
	}
	if t.opt < 0 || a.options[t.opt].Takes < Any {
		return fmt.Errorf("%s takes no further value", path)
	}
	args, values := slices.Clone(a.args), append(a.values(t), value)
	if t.from > 0 { // --base=a.yaml takes no value behind it, and --base a.yaml does
		args = slices.Replace(args, t.at, t.at+1, t.name, args[t.at][t.from:], value)
	} else {
		args = slices.Insert(args, t.first+t.n, value)
	}
	return a.accept(args, path, values)
}

// Replace replaces a positional argument. It fails unless exactly one is equal to old.
func (a *Argv) Replace(old, text string) error {
	at := -1
	for _, t := range a.tokens {
		switch {
		case t.opt != -1 || a.args[t.at] != old:
		case at >= 0:
			return fmt.Errorf("the argument %s is given twice", old)
		default:
			at = t.at
		}
	}
	if at < 0 {
		return fmt.Errorf("there is no argument %s", old)
	}
	args := slices.Clone(a.args)
	args[at] = text
	b := &Argv{args: args, options: a.options}
	if err := b.scan(); err != nil {
		return fmt.Errorf("replacing the argument %s: %w", old, err)
	}
	same := func(x, y token) bool { return x.opt == y.opt && x.at == y.at && x.n == y.n && x.from == y.from }
	if !slices.EqualFunc(a.tokens, b.tokens, same) {
		return fmt.Errorf("%s cannot become %q without changing what another argument means", old, text)
	}
	a.args, a.tokens = b.args, b.tokens
	return nil
}

// Remove removes every use of an option or an override.
func (a *Argv) Remove(path string) error {
	args := slices.Clone(a.args)
	for b := (&Argv{args: args, options: a.options}); ; {
		if err := b.scan(); err != nil {
			return err
		}
		t, ok := b.find(path)
		switch {
		case !ok && len(b.args) == len(a.args):
			return fmt.Errorf("%s is not there", path)
		case !ok:
			a.args, a.tokens = b.args, b.tokens
			return nil
		case t.from < 0:
			return fmt.Errorf("%s stands in a row of flags %s", path, b.args[t.at])
		}
		b.args = slices.Delete(b.args, t.at, t.at+1+t.n)
	}
}

// accept takes args if path then has these values and everything else reads as before.
func (a *Argv) accept(args []string, path string, values []string) error {
	b := &Argv{args: args, options: a.options}
	if err := b.scan(); err != nil {
		return fmt.Errorf("setting %s to %q: %w", path, values, err)
	}
	if !slices.Equal(b.Values(path), values) || !slices.Equal(a.others(path), b.others(path)) {
		return fmt.Errorf("%s cannot be set to %q without changing what another argument means", path, values)
	}
	a.args, a.tokens = b.args, b.tokens
	return nil
}

// others spells everything but the last use of path.
func (a *Argv) others(path string) []string {
	skip, _ := a.find(path)
	skipped := a.Has(path)
	var all []string
	for _, t := range a.tokens {
		if skipped && t.at == skip.at && t.name == skip.name {
			continue
		}
		all = append(all, fmt.Sprintf("%d %s %s %q", t.opt, t.name, a.args[t.at], a.args[t.first:t.first+t.n]))
	}
	slices.Sort(all)
	return all
}

// Args returns the arguments.
func (a *Argv) Args() []string { return slices.Clone(a.args) }

// Bytes implements [Document]: each argument and a zero byte, as in /proc/PID/cmdline.
func (a *Argv) Bytes() []byte {
	var b []byte
	for _, s := range a.args {
		b = append(append(b, s...), 0)
	}
	return b
}

var _ Document = (*Argv)(nil)

package sweep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

// withOption gives an option of a command's program, which runs in dir, a value. What stands before the script, such as
// Python's own options or a launcher's, is not the program's.
func withOption(dir string, args []string, key, value string) ([]string, error) {
	prog, err := command.Program(args, os.Environ(), dir)
	if err != nil && shellText(args) >= 0 {
		return nil, fmt.Errorf("put {%s} into the shell's command: launch does not know where the program's arguments end",
			key)
	}
	if err != nil || prog.First > len(args) { // no Python: everything after the program's name is its arguments
		own, err := setOption(args[1:], key, value, python.Options{})
		return slices.Concat(args[:1], own), err
	}
	own, err := setOption(prog.Args, key, value, declared(prog))
	if err != nil {
		return nil, err
	}
	return prog.WithArgs(own)
}

// declarations are the options of scripts that were read, by path: a sweep may have ten thousand rows.
var declarations sync.Map

// declared lists the options that the program of a command declares, as far as its source tells.
func declared(prog command.Prog) python.Options {
	path := prog.Path()
	if prog.Kind == command.Module {
		path = filepath.Join(prog.Dir, filepath.FromSlash(strings.ReplaceAll(prog.Script, ".", "/")))
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			path = filepath.Join(path, "__main__")
		}
		path += ".py"
	}
	if known, ok := declarations.Load(path); ok {
		return known.(python.Options)
	}
	var list python.Options
	if info, err := os.Stat(path); path != "" && err == nil && info.Mode().IsRegular() {
		list = python.ReadOptions(path, prog.Dir)
	}
	declarations.Store(path, list)
	return list
}

var shells = []string{"sh", "bash", "dash", "zsh", "ksh"}

// shellText is where in a command the text of a shell's -c stands; -1: nowhere.
func shellText(args []string) int {
	for i := 0; i+2 < len(args); i++ {
		if slices.Contains(shells, base(args[i:])) && strings.HasPrefix(args[i+1], "-") &&
			strings.HasSuffix(args[i+1], "c") {
			return i + 2
		}
	}
	return -1
}

// base is the name of the program of a command.
func base(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return filepath.Base(args[0])
}

var (
	pythonName = lazy.MustCompile(`^-?(?:python|pypy)[0-9.]*$`)
	setsName   = lazy.MustCompile(`(?:^|[\s;&|(])([A-Za-z_][A-Za-z0-9_]*)=["']?$`)
)

// setOption sets an option in a program's arguments, as argparse reads them. Where it stands already, all its values
// are replaced; of several, the last one stays. Otherwise it is added where the program reads it: not behind "--", and
// not behind what takes all that follows.
func setOption(args []string, key, value string, known python.Options) ([]string, error) {
	found, ok := known.Lookup(key)
	end := len(args)
	is := func(arg string) bool { return names(arg, key) }
	if i := slices.Index(args, "--"); i >= 0 {
		switch {
		case !slices.ContainsFunc(args[i:], is):
			end = i
		case slices.ContainsFunc(args[:i], is): // of two programs, or no option behind it
			return nil, fmt.Errorf("it stands before and behind -- in the command: put {%s} where the value goes", key)
		}
	}
	var at []int
	for i, a := range args[:end] {
		if names(a, key) {
			at = append(at, i)
		}
	}
	given := []string{key, value}
	if strings.HasPrefix(value, "-") && strings.HasPrefix(key, "--") { // "--lr -1" may be read as two options
		given = []string{key + "=" + value}
	}
	if len(at) == 0 {
		if strings.HasPrefix(key, "--") && joins(args[:end], known) {
			given = []string{key + "=" + value}
		}
		if takesRest(known) {
			if strings.HasPrefix(key, "--") { // what follows is no value of it
				given = []string{key + "=" + value}
			}
			return slices.Concat(given, args), nil
		}
		return slices.Concat(args[:end], given, args[end:]), nil
	}
	out := slices.Clone(args)
	for n, i := range slices.Backward(at) {
		if strings.HasPrefix(out[i], key+"=") {
			if n < len(at)-1 && strings.Contains(out[i][len(key)+1:], "=") {
				return nil, fmt.Errorf("it stands several times in the command: put {%s} where the value goes", key)
			}
			out = slices.Replace(out, i, i+1, key+"="+value)
		} else {
			count, err := taken(out[i+1:], found.Takes, ok)
			if err != nil {
				return nil, fmt.Errorf("%w: put {%s} where the value goes, or --option=VALUE", err, key)
			}
			if n < len(at)-1 && count > 0 && strings.Contains(out[i+1], "=") {
				return nil, fmt.Errorf("it stands several times in the command: put {%s} where the value goes", key)
			}
			out = slices.Replace(out, i, i+1+count, given...)
		}
		if n < len(at)-1 { // a later one has the value
			width := len(given)
			if strings.HasPrefix(out[i], key+"=") {
				width = 1
			}
			out = slices.Delete(out, i, i+width)
		}
	}
	return out, nil
}

// joins reports whether a program's options have their values behind "=": because it reads none else, or because all
// that the command has are typed so.
func joins(args []string, known python.Options) bool {
	if slices.ContainsFunc(known.Options, func(o python.Option) bool { return o.How == python.ByGlobals }) {
		return true
	}
	joined := false
	for i, a := range args {
		switch {
		case !strings.HasPrefix(a, "--"):
		case strings.Contains(a, "="):
			joined = true
		case i+1 < len(args) && isValue(args[i+1]):
			return false
		}
	}
	return joined
}

func names(arg, key string) bool { return arg == key || strings.HasPrefix(arg, key+"=") }

// taken is how many of the arguments after an option are its values.
func taken(after []string, takes config.Takes, known bool) (int, error) {
	n := 0
	for n < len(after) && isValue(after[n]) {
		n++
	}
	switch {
	case known && (takes == config.Some || takes == config.Any):
		return n, nil
	case known || n < 2:
		return min(n, 1), nil
	}
	// Without its declaration, two values that are alike may both be its own; a word after a number is the program's.
	_, first := strconv.ParseFloat(after[0], 64)
	_, second := strconv.ParseFloat(after[1], 64)
	if first == nil && second != nil {
		return 1, nil
	}
	return 0, errors.New("several values follow it in the command, and launch does not know how many of them are its own")
}

// takesRest reports whether a positional argument of the program takes all that follows it.
func takesRest(known python.Options) bool {
	return slices.ContainsFunc(known.Options, func(o python.Option) bool {
		return len(o.Names) == 0 && o.How == python.Argparse && o.Takes == config.Any
	})
}

// isValue reports whether an argument can be an option's value rather than the next option.
func isValue(arg string) bool {
	_, err := strconv.ParseFloat(arg, 64)
	return !strings.HasPrefix(arg, "-") || arg == "-" || err == nil
}

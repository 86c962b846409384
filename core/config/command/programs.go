package command

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/unit"
)

// A Shebang is the first line of a script: "#!/usr/bin/env python3".
type Shebang struct {
	Line []string // the program that the system starts for the script, and its argument
	// Name is the interpreter: a path, or a name that is looked up on PATH.
	Name string
}

// ReadShebang reads the first line of an executable script. ok is false for a program of another kind.
func ReadShebang(path string) (s Shebang, ok bool) {
	f, err := file.Open(path)
	if err != nil {
		return s, false
	}
	defer f.Close()
	start := make([]byte, 2)
	if _, err := io.ReadFull(f, start); err != nil || string(start) != "#!" {
		return s, false
	}
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return s, false
	}
	line, rest, _ := strings.Cut(string(text), "\n")
	program, argument, _ := strings.Cut(strings.TrimSpace(line), " ")
	if argument = strings.TrimSpace(argument); argument == "" {
		s.Line = []string{program}
	} else {
		s.Line = []string{program, argument}
	}
	s.Name = program
	switch words := strings.Fields(argument); {
	case program == "":
		return s, false
	case filepath.Base(program) == "env":
		if len(words) > 1 && words[0] == "-S" {
			words = words[1:]
		}
		if len(words) == 0 || strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=") {
			return s, false
		}
		s.Name = words[0]
	case filepath.Base(program) == "sh":
		// pip and uv write `'''exec' '/a long path/python' "$0" "$@"` where the path is too long for a first line, or has
		// blanks.
		if exec, found := strings.CutPrefix(rest, "'''exec' "); found {
			python, _, _ := strings.Cut(exec, ` "$0"`)
			s.Name = strings.Trim(python, `'"`)
		}
	}
	return s, true
}

// Python reports whether the script is Python's.
func (s Shebang) Python() bool { return rePython.MatchString(filepath.Base(s.Name)) }

// trainers are programs of Python packages that are read where they are not installed, too: a plan for another machine
// needs nothing of them.
var trainers = []string{"llamafactory-cli", "lmf", "trl", "axolotl"}

// executable reads a command by the program's file: a Python script, or a shell script that was typed with its path.
func (r *reader) executable(words []word) error {
	typed := words[0].text
	unknown := notUnderstood("%s does not start a Python script in a known way", oneLine(typed))
	path := r.lookup(typed)
	if path == "" && slices.Contains(trainers, typed) {
		return r.run(Installed, words)
	}
	if path == "" {
		return r.absent(typed)
	}
	first, ok := ReadShebang(path)
	if ok && filepath.Base(filepath.Dir(path)) == "shims" && !first.Python() {
		path, first, ok = behindShim(path)
	}
	switch {
	case !ok:
		return unknown
	case first.Python() && strings.Contains(typed, "/") && filepath.Base(filepath.Dir(path)) != "bin":
		return r.run(Script, words)
	case first.Python():
		r.prog.File = path
		return r.run(Installed, words)
	case !strings.Contains(typed, "/"): // found on PATH: $0 would be another name
		return unknown
	}
	name, at, begin := filepath.Base(first.Name), words[0].arg, slices.Clone(first.Line)
	if len(begin) == 2 && filepath.Base(begin[0]) == "env" && begin[1] != first.Name { // env -S
		return unknown
	}
	c := shellCall{rest: words}
	if len(begin) == 2 && filepath.Base(begin[0]) != "env" { // the options of the first line
		var err error
		if c, err = shellCommand(name, []word{{text: begin[1]}, words[0]}); err != nil || !c.file {
			return unknown
		}
		c.rest = words
	}
	return r.shellFile(name, c, func(text string) (argv []string, textAt int) {
		begin = append(begin, "-c", text)
		return slices.Insert(slices.Clone(r.prog.Argv), at, begin...), at + len(begin) - 1
	})
}

// absent says that there is no such program, and how a project in the command's folder that declares it installs it.
func (r *reader) absent(name string) error {
	declares := regexp.MustCompile(`(?m)(?:^|["'])\s*(?:scripts\.)?` + regexp.QuoteMeta(name) +
		`["']?\s*=\s*["']?[\w.]+\s*:\s*\w+`)
	for _, f := range []string{"pyproject.toml", "setup.cfg", "setup.py"} {
		text, err := file.Read(resolve(r.prog.Dir, f), maxConfig)
		if err == nil && declares.Match(text) {
			return notUnderstood("%s is not installed: %s declares it, and `pip install -e .` in that folder installs it",
				oneLine(name), f)
		}
	}
	return notUnderstood("there is no program %s", oneLine(name))
}

// behindShim finds the program for which pyenv made a shim, where only one version of Python has it.
func behindShim(shim string) (path string, first Shebang, ok bool) {
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(shim)), "versions", "*", "bin", filepath.Base(shim)))
	if len(found) != 1 {
		return "", first, false
	}
	first, ok = ReadShebang(found[0])
	return found[0], first, ok && first.Python()
}

// lookup returns the path of a program as execvp finds it, or "".
func (r *reader) lookup(name string) string {
	if strings.Contains(name, "/") {
		if r.prog.Dir == "" && !filepath.IsAbs(name) {
			return ""
		}
		return resolve(r.prog.Dir, name)
	}
	path, _ := r.getenv("PATH")
	return Lookup(name, r.prog.Bins, path)
}

// Lookup returns the path of a program that is in one of the folders or on PATH, or "".
func Lookup(name string, folders []string, path string) string {
	what := strings.Join(append(slices.Clone(folders), path, name), "\x00")
	lately.Lock()
	defer lately.Unlock()
	if lately.what == what && time.Since(lately.when) < time.Second && executable(lately.at) {
		return lately.at
	}
	for _, dir := range slices.Concat(folders, filepath.SplitList(path)) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if at := filepath.Join(dir, name); executable(at) {
			lately.what, lately.at, lately.when = what, at, time.Now()
			return at
		}
	}
	return ""
}

// lately is the last program that was found: while launch starts, its parts ask for the same one half a dozen times,
// and all are to speak of one.
var lately struct {
	sync.Mutex
	what, at string
	when     time.Time
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// oneLine shortens a word for a message.
func oneLine(word string) string {
	if strings.ContainsAny(word, "\n\t") || len(word) > 200 {
		return strconv.Quote(unit.Clip(word, 200))
	}
	return word
}

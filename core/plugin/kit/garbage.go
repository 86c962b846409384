package kit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/plugin"
)

// A spoiler makes a broken text of a good one.
type spoiler struct {
	name  string
	spoil func(good string) string
}

// number is a number that stands by itself.
var number = lazy.MustCompile(`(^|[\s:=\[,(])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?\b`)

// numbers replaces each number of a text.
func numbers(by string) func(string) string {
	return func(good string) string { return number.ReplaceAllString(good, "${1}"+by) }
}

func constant(text string) func(string) string { return func(string) string { return text } }

// spoilers are what the files of a command are replaced by.
var spoilers = []spoiler{
	{"an empty file", constant("")},
	{"10 MiB more of comments", func(good string) string {
		return good + "\n" + strings.Repeat("# "+strings.Repeat("x", 1021)+"\n", 10<<10)
	}},
	{"invalid UTF-8", func(good string) string { return "\xff\xfe" + good + "\xc3\x28\n" }},
	{"the first half of the file", func(good string) string { return good[:len(good)/2] }},
	{"numbers that are nan", numbers("nan")},
	{"numbers that are negative", numbers("-3")},
	{"numbers that are 10^20", numbers("100000000000000000000")},
}

// dataSpoilers are for files that are no Python source: that, an interpreter would read each time.
var dataSpoilers = []spoiler{
	{"10 MiB in one line", func(good string) string { return good + "\n# " + strings.Repeat("x", 10<<20) }},
	{"100,000 open brackets", func(string) string { return strings.Repeat("[", 100_000) }},
	{"YAML nested 50,000 deep", func(good string) string {
		return good + "\nnested: " + strings.Repeat("{a: ", 50_000) + "1" + strings.Repeat("}", 50_000) + "\n"
	}},
	{"YAML aliases that multiply", multiplied},
	{"a binary file", func(string) string { return "\x00\x01\x02PK\x03\x04" + strings.Repeat("\x00\xff", 4096) }},
	{"escape sequences in every word", func(good string) string { return strings.ReplaceAll(good, ": ", ": \x1b[31m") }},
	{"numbers that are NaN", numbers(".nan")},
	{"numbers that are infinite", numbers(".inf")},
	{"numbers that are 0", numbers("0")},
	{"numbers that are 10^15", numbers("1000000000000000")},
	{"numbers that are words", numbers("many")},
}

// multiplied adds a few lines that stand for 9^12 values.
func multiplied(good string) string {
	text := good + "\nb0: &b0 [x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 12; i++ {
		text += fmt.Sprintf("b%d: &b%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*b%d, ", i-1), 9), ", "))
	}
	return text
}

// maxHung is how many answers may be missing before a test gives up on garbage: each takes the whole deadline.
const maxHung = 3

// maxSpoiled is how many files of a command are spoiled.
const maxSpoiled = 4

// garbage asks about the command with broken files and broken arguments. No answer is wrong, but there has to be one,
// and a job has to be one that launch accepts.
func (t *trial) garbage() error {
	t.held(garbageCheck)
	for _, path := range t.files() {
		good, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		name, _ := filepath.Rel(t.command.Dir, path)
		list := spoilers
		if !strings.HasSuffix(path, ".py") {
			list = slices.Concat(spoilers, dataSpoilers)
		}
		for _, s := range list {
			restore, err := replace(path, []byte(s.spoil(string(good))))
			if err == nil {
				t.survive(name+": "+s.name, t.command.Args)
			}
			if err = errors.Join(err, restore()); err != nil {
				return fmt.Errorf("spoiling %s: %w", name, err)
			}
		}
		if err := t.odd(path, name, good); err != nil {
			return fmt.Errorf("spoiling %s: %w", name, err)
		}
	}
	t.arguments()
	loop := filepath.Join(t.command.Dir, "loop")
	if os.Symlink(".", loop) == nil {
		t.survive("a link to its own folder", t.command.Args)
		os.Remove(loop)
	}
	return nil
}

// odd puts something in a file's place that is no file.
func (t *trial) odd(path, name string, good []byte) error {
	for what, make := range map[string]func() error{
		"a missing file":          func() error { return nil },
		"a link to itself":        func() error { return os.Symlink(filepath.Base(path), path) },
		"a link to nothing":       func() error { return os.Symlink("no such file", path) },
		"a folder":                func() error { return os.Mkdir(path, 0o755) },
		"a pipe without a writer": func() error { return unix.Mkfifo(path, 0o644) },
	} {
		if err := os.Remove(path); err != nil {
			return err
		}
		if make() == nil {
			t.survive(name+": "+what, t.command.Args)
		}
		os.Remove(path)
		if err := os.WriteFile(path, good, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// files are those that the plugin has read of the command, as far as launch knows: the recipe's, Python source that
// it asked for, the script, and a declaration. All lie in the case's folder.
func (t *trial) files() (paths []string) {
	add := func(path string) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(t.command.Dir, path)
		}
		info, err := os.Stat(path)
		if rel, rerr := filepath.Rel(t.command.Dir, path); rerr != nil || !filepath.IsLocal(rel) || err != nil ||
			!info.Mode().IsRegular() {
			return
		}
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	for _, f := range t.job.Files {
		add(f.Path)
	}
	for _, s := range t.command.Sources {
		add(s.Path)
	}
	if prog, err := command.Program(t.command.Args, t.command.Env, t.command.Dir); err == nil && prog.Path() != "" {
		add(prog.Path())
		add(filepath.Join(filepath.Dir(prog.Path()), ".launch-job.yaml"))
	}
	return paths[:min(len(paths), maxSpoiled)]
}

// arguments asks about the command with broken arguments.
func (t *trial) arguments() {
	args := t.command.Args
	for _, by := range []string{"nan", "-3", "0", "100000000000000000000", "1000000000000000", "many", ""} {
		broken := slices.Clone(args)
		for i, a := range broken[1:] {
			broken[i+1] = numbers(by)(a)
		}
		if !slices.Equal(broken, args) {
			t.survive(fmt.Sprintf("arguments: numbers that are %q", by), broken)
		}
	}
	t.survive("arguments: the last one is missing", args[:len(args)-1])
	t.survive("arguments: one that no program has", append(slices.Clone(args), "--no-such-option=1"))
	t.survive("arguments: an option without a value", append(slices.Clone(args), "--"))
	t.survive("arguments: 5,000 more", append(slices.Clone(args), slices.Repeat([]string{"--x=1"}, 5000)...))
}

// survive asks about a broken command, and prices what is recognised.
func (t *trial) survive(where string, args []string) {
	if t.hung >= maxHung {
		return
	}
	c := t.command
	c.Args, c.Sources, c.Formulas = args, nil, nil
	r, j, err := t.recognize(&c)
	if err == nil {
		err = t.sensible(r, j)
	}
	switch {
	case errors.Is(err, errHung):
		t.found(deadlineCheck, where, "an answer", "%v", err)
	case errors.Is(err, errNonsense):
		t.found(garbageCheck, where, "an error, or an answer that launch accepts", "%v", err)
	case broken(err):
		t.found(garbageCheck, where, "an error, or a job", "%s", short(err))
	case err != nil:
		t.sentence("error: "+where, err.Error())
	}
}

// errNonsense is the error of ladders that launch would refuse.
var errNonsense = errors.New("launch refuses its answer")

// sensible prices a job that launch would accept, and holds the ladders against what launch accepts.
func (t *trial) sensible(r plugin.Recognized, j *job.Job) error {
	if j.Check() != nil { // it repeats what the file has, and launch asks no further
		return nil
	}
	set, err := t.price(r, t.Device)
	if err != nil {
		return err
	}
	if err := set.Check(); err != nil {
		return fmt.Errorf("%w: %w", errNonsense, err)
	}
	return nil
}

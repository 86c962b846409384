package overlay

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/unit"
)

//go:embed read.py
var readScript []byte

// maxSource is the size above which a file is taken for data: the largest module of PyTorch has a tenth of it.
const maxSource = 4 * unit.MiB

// Read reads Python files by an interpreter's own parser. Nothing of them is run: the interpreter is given their text,
// starts isolated (no site, no environment, no current folder) and imports nothing but its own ast and json.
//
// python is the interpreter that the command would use, or "" where that is not known; where it is none, or older than
// 3.8, python3 on env's PATH is asked instead. env and dir are those of the command. There is one source for each path, in
// order; one that could not be read says why in its Problem.
func Read(ctx context.Context, python string, env []string, dir string, paths []string) []config.PythonSource {
	return sources(ctx, "", python, env, dir, paths, nil)
}

func sources(
	ctx context.Context, cache Cache, python string, env []string, dir string, paths []string, may May,
) []config.PythonSource {
	out := make([]config.PythonSource, len(paths))
	var open []*config.PythonSource
	for i, path := range paths {
		out[i] = load(path)
		if out[i].Problem == "" && !cache.get(&out[i]) {
			open = append(open, &out[i])
		}
	}
	unread := slices.Clone(open)
	defer func() {
		for _, s := range unread {
			cache.put(*s)
		}
		if len(unread) > 0 && cache != "" {
			cache.prune()
		}
	}()
	var unfit []string
	for _, found := range interpreters(python, env) {
		if len(open) == 0 {
			return out
		}
		python := found
		if may != nil {
			if python = may(found); python == "" {
				unfit = append(unfit, found+" may be the project's own, which launch starts with the program only")
				continue
			}
		}
		var err error
		if open, err = ask(ctx, python, env, dir, open); err != nil {
			unfit = append(unfit, err.Error())
		}
	}
	for _, s := range open {
		s.Problem = "no Python 3.8 or later was found to read it"
		if ctx.Err() != nil {
			s.Problem = "Python took too long to read it"
		} else if len(unfit) > 0 {
			s.Problem += ": " + strings.Join(unfit, "; ")
		}
	}
	return out
}

// reCookie is PEP 263's declaration of an encoding, which stands in one of the first two lines.
var reCookie = lazy.MustCompile(`^(?:[ \t\f]*(?:#[^\n]*)?\r?\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*([-_.a-zA-Z0-9]+)`)

// load reads a file's text, once: what is parsed, hashed and edited is the same.
func load(path string) config.PythonSource {
	s := config.PythonSource{Path: path}
	text, err := readFile(path)
	if err != nil {
		s.Problem = problem(err)
		return s
	}
	ascii := bytes.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
	switch m := reCookie.FindSubmatch(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))); {
	case !utf8.Valid(text):
		s.Problem = "it is not UTF-8"
	case m != nil && !encodedAlike(strings.ToLower(string(m[1])), ascii):
		s.Problem = fmt.Sprintf("it is declared to be %s, not UTF-8", m[1])
	case bytes.IndexByte(text, 0) >= 0:
		s.Problem = "it holds a zero byte, which no Python source does"
	}
	if s.Problem == "" {
		sum := sha256.Sum256(text)
		s.Text, s.SHA256 = text, hex.EncodeToString(sum[:])
	}
	return s
}

// encodedAlike reports whether a declared encoding reads the text as UTF-8 does.
func encodedAlike(name string, ascii bool) bool {
	name = strings.ReplaceAll(name, "_", "-")
	if name == "utf8" || name == "utf-8" || strings.HasPrefix(name, "utf-8-") {
		return true
	}
	for _, single := range []string{"ascii", "us-ascii", "latin", "iso-8859", "iso8859", "cp125", "windows-125"} {
		if ascii && strings.HasPrefix(name, single) {
			return true
		}
	}
	return false
}

func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a fifo must not hang
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no file")
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(maxSource)+1))
	if err == nil && len(text) > int(maxSource) {
		err = fmt.Errorf("it is larger than %v", maxSource)
	}
	return text, err
}

func problem(err error) string {
	var perr *os.PathError
	if errors.As(err, &perr) {
		return perr.Err.Error()
	}
	return err.Error()
}

// interpreters are those to be asked, in order.
func interpreters(python string, env []string) (out []string) {
	if python != "" {
		out = append(out, python)
	}
	for _, kv := range env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			for _, dir := range filepath.SplitList(path) {
				found := filepath.Join(dir, "python3")
				if info, err := os.Stat(found); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 && filepath.IsAbs(dir) && found != python {
					out = append(out, found)
				}
			}
		}
	}
	return out
}

// grace is how long an interpreter that was told to die may hold its pipes open.
const grace = 500 * time.Millisecond

// ask lets an interpreter read the sources and returns those that it left. err says why it is of no use.
func ask(ctx context.Context, python string, env []string, dir string, open []*config.PythonSource) ([]*config.PythonSource, error) {
	for len(open) > 0 {
		n, err := batch(ctx, python, env, dir, open)
		if ctx.Err() != nil {
			return open, ctx.Err()
		}
		if n < 0 {
			return open, err
		}
		open = open[n:]
		if len(open) > 0 { // it died of this one: the others may do better
			open[0].Problem = fmt.Sprintf("%s ended while reading it: %v", python, err)
			open = open[1:]
		}
	}
	return nil, nil
}

// batch starts the interpreter once. n is how many sources it answered for before it ended, or -1 if it is unusable.
func batch(ctx context.Context, python string, env []string, dir string, open []*config.PythonSource) (n int, err error) {
	texts := make([]string, len(open))
	for i, s := range open {
		texts[i] = string(s.Text)
	}
	input, err := json.Marshal(texts)
	if err != nil {
		return -1, err
	}
	// The script comes on standard input, before the texts: wrappers such as conda run break an argument of several lines.
	cmd := exec.CommandContext(ctx, python, "-I", "-S", "-B", "-X", "utf8", "-c",
		"import sys; exec(sys.stdin.buffer.read(int(sys.argv[1])))", strconv.Itoa(len(readScript)))
	cmd.Env, cmd.Dir = env, dir
	cmd.Stdin = io.MultiReader(bytes.NewReader(readScript), bytes.NewReader(input))
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = grace
	err = cmd.Run()

	lines := bufio.NewReader(&out)
	var hello struct{ Python string }
	if line, _ := lines.ReadBytes('\n'); json.Unmarshal(line, &hello) != nil || hello.Python == "" {
		if err == nil {
			err = errors.New("it is no Python 3")
		}
		if last := lastLine(complaint.String()); last != "" {
			err = fmt.Errorf("%w: %s", err, last)
		}
		return -1, fmt.Errorf("%s: %w", python, err)
	}
	if old(hello.Python) {
		return -1, fmt.Errorf("%s is Python %s", python, hello.Python)
	}
	for i, s := range open {
		line, rerr := lines.ReadBytes('\n')
		answer := *s
		if rerr != nil || json.Unmarshal(line, &answer) != nil {
			if err == nil {
				err = errors.New("it gave no answer")
			}
			return i, err
		}
		*s = answer
		if s.Problem != "" {
			s.SHA256, s.Text = "", nil
		}
	}
	return len(open), nil
}

// old reports whether a version is before 3.8, of which the parser does not say where a value ends.
func old(version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return true
	}
	return major < 3 || major == 3 && minor < 8
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

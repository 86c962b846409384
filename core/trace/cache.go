package trace

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/unit"
)

const (
	kept     = 500           // answers in a folder, at the most
	mostKept = 64 * unit.MiB // of all of them
	maxFiles = 2000          // that one answer may be made from
	maxFile  = 4 << 20       // bytes of each that are read; of a larger one its size and time count
)

// answers is a folder with answers to questions, from one launch to the next. "" keeps nothing.
type answers string

// An entry is an answer, and what it was made from. It counts as long as all of that is the same.
type entry struct {
	Files  map[string]string `json:"files"` // their marks, by path
	Answer json.RawMessage   `json:"answer"`
}

// path is where the answer to a question lies.
func (a answers) path(question ...any) string {
	text, _ := json.Marshal(question)
	key := sha256.Sum256(text)
	return filepath.Join(string(a), hex.EncodeToString(key[:16])+".json")
}

// get fills in an answer that was kept.
func (a answers) get(path string, answer any) bool {
	if a == "" {
		return false
	}
	text, err := private.ReadFile(path)
	var e entry
	if err != nil || json.Unmarshal(text, &e) != nil || len(e.Files) == 0 {
		return false
	}
	for p, was := range e.Files {
		if mark(p) != was {
			return false
		}
	}
	if json.Unmarshal(e.Answer, answer) != nil {
		return false
	}
	now := time.Now()
	os.Chtimes(path, now, now) // what is used stays
	return true
}

// put keeps an answer. A folder that cannot be written keeps none, and so does one that was made from what has no mark:
// nothing could tell that it has changed.
func (a answers) put(path string, files []string, answer any) {
	text, err := json.Marshal(answer)
	if a == "" || err != nil || len(files) == 0 || len(files) > maxFiles || private.MkdirAll(string(a)) != nil {
		return
	}
	e := entry{Files: map[string]string{}, Answer: text}
	for _, p := range files {
		if e.Files[p] = mark(p); e.Files[p] == "" {
			return
		}
	}
	if text, err = json.Marshal(e); err == nil {
		_ = private.WriteFile(path, text, 0o600) // it is asked again
		a.prune()
	}
}

// gone is the mark of what is not there.
const gone = "-"

// mark is the same as long as a path has the same content: a file's bytes or, where they are many, its size and time; a
// folder's names. "" if that cannot be told.
func mark(path string) string {
	info, err := os.Stat(path)
	var text []byte
	switch {
	case strings.ContainsRune(path, utf8.RuneError):
		return ""
	case os.IsNotExist(err):
		return gone
	case err != nil:
		return ""
	case info.IsDir():
		entries, err := os.ReadDir(path)
		if err != nil {
			return ""
		}
		for _, e := range entries {
			text = append(text, e.Name()+"\x00"...)
		}
	case !info.Mode().IsRegular():
		return ""
	case info.Size() > maxFile:
		return fmt.Sprintf("%d bytes of %d", info.Size(), info.ModTime().UnixNano())
	default:
		if text, err = file.Read(path, maxFile); err != nil {
			return ""
		}
	}
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

// prune removes what was not used for longest.
func (a answers) prune() {
	entries, err := os.ReadDir(string(a))
	if err != nil {
		return
	}
	var all []os.FileInfo
	bytes := unit.Bytes(0)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".json") {
			all, bytes = append(all, info), bytes+unit.Bytes(info.Size())
		}
	}
	if len(all) <= kept && bytes <= mostKept {
		return
	}
	slices.SortFunc(all, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	left := len(all)
	for _, info := range all {
		if left <= kept/2 && bytes <= mostKept/2 {
			return
		}
		left, bytes = left-1, bytes-unit.Bytes(info.Size())
		os.Remove(filepath.Join(string(a), info.Name()))
	}
}

// alone waits until no other launch of this user is tracing: each takes a core and gigabytes.
func (a answers) alone(ctx context.Context) (done func()) {
	if a == "" || private.MkdirAll(string(a)) != nil {
		return func() {}
	}
	f, err := private.Open(filepath.Join(string(a), "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return func() {}
	}
	for ctx.Err() == nil && unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == syscall.EWOULDBLOCK {
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return func() { f.Close() }
}

// pythonVariables are those that decide what Python imports.
func pythonVariables(env []string) (out []string) {
	for _, kv := range env {
		if strings.HasPrefix(kv, "PYTHON") || strings.HasPrefix(kv, "VIRTUAL_ENV=") ||
			strings.HasPrefix(kv, "CONDA_PREFIX=") {
			out = append(out, kv)
		}
	}
	slices.Sort(out)
	return out
}

// followed is a path, and where it leads.
func followed(path string) [2]string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path
	}
	return [2]string{path, real}
}

// path is where the answer to a formula lies.
func (r Formulas) path(f job.Formula) string {
	return answers(r.Cache).path(string(script), f.File, f.Function, string(job.Canonical(f.Config)),
		followed(r.Interpreter), r.Dir, r.Script, pythonVariables(r.Env))
}

// get fills in what was counted before.
func (r Formulas) get(c *job.Counted) bool {
	if r.Interpreter == "" || r.Deadline <= 0 {
		return false
	}
	var was job.Counted // not into c: its formula's text is the caller's, and would be written over
	if !answers(r.Cache).get(r.path(c.Formula), &was) {
		return false
	}
	was.Formula = c.Formula
	*c = was
	return true
}

// put keeps an answer, but no problem: a package may be installed by the next time. Torch's version is one of its
// files.
func (r Formulas) put(a answer) {
	if a.Counted.Problem == "" && !slices.ContainsFunc(a.Files, func(p string) bool { return mark(p) == gone }) {
		answers(r.Cache).put(r.path(a.Counted.Formula), a.Files, a.Counted)
	}
}

// A session is what a Tracer has traced so far, so that nothing is traced twice.
type session struct {
	traces map[string]*Trace // by the edits
	used   []*Trace          // by the present question
	failed bool              // a trace of it
}

// ask answers a question about a job by traces, or as it was answered before with the same script, files, arguments,
// variables, packages and card. took is how long it took; 0: nothing was run.
func ask[A any](ctx context.Context, t Tracer, j *job.Job, made func(Tracer) (A, error), question ...any) (a A,
	took time.Duration, err error) {
	cache := answers(t.Cache)
	if len(t.Packages) == 0 || version() == "" { // what it is made from is not known
		cache = ""
	}
	of := *j
	of.Command.Env = lasting(j.Command.Env)
	path := cache.path(version(), followed(t.Interpreter), t.Packages, t.Card.Name, t.Card.Total, t.Card.Capability,
		t.Ranks, t.Deadline, of, question)
	if cache.get(path, &a) {
		return a, 0, nil
	}
	defer cache.alone(ctx)()
	if cache.get(path, &a) { // another launch has asked the same
		return a, 0, nil
	}
	begun := time.Now()
	t.session.used, t.session.failed = nil, false
	a, err = made(t)
	if files, ok := t.session.files(begun); ok && err == nil {
		cache.put(path, append(files, t.Interpreter), a)
	}
	return a, max(1, time.Since(begun)), err
}

// files are those that the traces of the present question have read. ok is false where its answer is not to be kept: a
// trace that failed or was cut short may see more another time, and a file that changes may have been read before.
func (s *session) files(begun time.Time) (files []string, ok bool) {
	ok = !s.failed
	for _, t := range s.used {
		files = append(files, t.Read...)
		ok = ok && (t.End.Steps >= wanted || t.End.Whole)
	}
	slices.Sort(files)
	files = slices.Compact(files)
	return files, ok && !slices.ContainsFunc(files, func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.ModTime().After(begun)
	})
}

// version is that of the tracer, and of all that makes an estimate of what it reports: this program's hash.
var version = sync.OnceValue(func() string {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return ""
	}
	defer self.Close()
	h := sha256.New()
	if _, err := io.Copy(h, self); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
})

// passing are variables of a terminal or a session, and those that a trace sets itself.
var passing = []string{"_", "SHLVL", "PWD", "OLDPWD", "COLUMNS", "LINES", "WINDOWID", "DISPLAY", "CUDA_VISIBLE_DEVICES",
	"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
	"TERM", "TERM_", "SSH_", "XDG_SESSION_", "DBUS_", "TMUX", "VTE_", "GPG_", "LAUNCH_"}

// lasting are the variables that count, the last value of each name.
func lasting(env []string) (out []string) {
	last := map[string]string{}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		last[name] = kv
	}
	for name, kv := range last {
		if !slices.ContainsFunc(passing, func(p string) bool {
			return name == p || strings.HasSuffix(p, "_") && len(p) > 1 && strings.HasPrefix(name, p)
		}) {
			out = append(out, kv)
		}
	}
	slices.SortFunc(out, cmp.Compare[string])
	return out
}

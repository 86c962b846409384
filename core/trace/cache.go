package trace

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/private"
)

const (
	kept     = 500     // answers in the cache, at the most
	maxFiles = 2000    // that one answer may be made from
	maxFile  = 4 << 20 // bytes of each
)

// An entry is an answer in the cache, and what it was made from. It counts as long as those files are the same: torch's
// version is one of them.
type entry struct {
	Files   map[string]string `json:"files"` // SHA-256 by path
	Counted job.Counted       `json:"counted"`
}

// path is where the answer to a formula lies.
func (r Formulas) path(f job.Formula) string {
	real, err := filepath.EvalSymlinks(r.Interpreter)
	if err != nil {
		real = r.Interpreter
	}
	key := sha256.New()
	question := []any{f.File, f.Function, string(job.Canonical(f.Config)), r.Interpreter, real, r.Dir, r.Script,
		pythonVariables(r.Env)}
	text, _ := json.Marshal(question)
	key.Write(script)
	key.Write(text)
	return filepath.Join(r.Cache, hex.EncodeToString(key.Sum(nil)[:16])+".json")
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

// get fills in what was counted before.
func (r Formulas) get(c *job.Counted) bool {
	if r.Cache == "" || r.Interpreter == "" || r.Deadline <= 0 {
		return false
	}
	path := r.path(c.Formula)
	text, err := private.ReadFile(path)
	var e entry
	if err != nil || json.Unmarshal(text, &e) != nil || len(e.Files) == 0 {
		return false
	}
	for p, was := range e.Files {
		if sum(p) != was {
			return false
		}
	}
	f := c.Formula
	*c = e.Counted
	c.Formula = f
	now := time.Now()
	os.Chtimes(path, now, now) // what is used stays
	return true
}

// put keeps an answer, but no problem: a package may be installed by the next time. A cache that cannot be written
// is none.
func (r Formulas) put(a answer) {
	if r.Cache == "" || a.Counted.Problem != "" || len(a.Files) == 0 || len(a.Files) > maxFiles ||
		private.MkdirAll(r.Cache) != nil {
		return
	}
	e := entry{Files: map[string]string{}, Counted: a.Counted}
	for _, p := range a.Files {
		if e.Files[p] = sum(p); e.Files[p] == "" {
			return // it is gone, or no file: nothing could tell that it has changed
		}
	}
	if text, err := json.Marshal(e); err == nil {
		_ = private.WriteFile(r.path(a.Counted.Formula), text, 0o600) // only a cache
		r.prune()
	}
}

func sum(path string) string {
	text, err := file.Read(path, maxFile)
	if err != nil {
		return ""
	}
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

// prune removes what was not used for longest.
func (r Formulas) prune() {
	entries, err := os.ReadDir(r.Cache)
	if err != nil || len(entries) <= kept {
		return
	}
	used := map[string]time.Time{}
	var names []string
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			used[e.Name()] = info.ModTime()
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return used[a].Compare(used[b]) })
	for _, name := range names[:max(0, len(names)-kept/2)] {
		os.Remove(filepath.Join(r.Cache, name))
	}
}

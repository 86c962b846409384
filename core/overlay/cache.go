package overlay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/private"
)

// A Cache is a folder in which what was read is kept, by its content: most launches read the files that the one before
// has read, and an interpreter takes longer to start than all the rest. "" keeps nothing.
type Cache string

// kept is how many files a cache holds at the most.
const kept = 500

// A May returns the program that may be started in place of an interpreter, or "". nil: any may.
type May func(python string) string

// Read is [Read] for what is not in the cache, by an interpreter that may be started.
func (c Cache) Read(
	ctx context.Context, python string, env []string, dir string, paths []string, may May,
) []config.PythonSource {
	return sources(ctx, c, python, env, dir, paths, may)
}

// reader tells apart what different versions of read.py have answered.
var reader = func() string {
	sum := sha256.Sum256(readScript)
	return hex.EncodeToString(sum[:4])
}()

func (c Cache) file(s *config.PythonSource) string {
	return filepath.Join(string(c), s.SHA256+"-"+reader+".json")
}

// get fills in what was read of the same text before.
func (c Cache) get(s *config.PythonSource) bool {
	if c == "" {
		return false
	}
	text, err := private.ReadFile(c.file(s))
	if err != nil {
		return false
	}
	known := config.PythonSource{}
	if json.Unmarshal(text, &known) != nil || known.SHA256 != s.SHA256 {
		return false
	}
	known.Path, known.Text = s.Path, s.Text
	*s = known
	now := time.Now()
	os.Chtimes(c.file(s), now, now) // what is used stays
	return true
}

// put keeps what was read. A cache that cannot be written is none.
func (c Cache) put(s config.PythonSource) {
	if c == "" || s.Problem != "" || private.MkdirAll(string(c)) != nil {
		return
	}
	s.Path, s.Text = "", nil
	if text, err := json.Marshal(s); err == nil {
		_ = private.WriteFile(c.file(&s), text, 0o600) // only a cache
	}
}

// prune removes what was not used for longest.
func (c Cache) prune() {
	entries, err := os.ReadDir(string(c))
	if err != nil || len(entries) <= kept {
		return
	}
	type file struct {
		path string
		at   time.Time
	}
	var files []file
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			files = append(files, file{filepath.Join(string(c), e.Name()), info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b file) int { return a.at.Compare(b.at) })
	for _, f := range files[:len(files)-kept/2] {
		os.Remove(f.path)
	}
}

package record

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/private"
)

// Unsaid returns the truths of a job that no earlier run has printed, and remembers them: a run prints each once.
func (s Store) Unsaid(j *job.Job) (fresh []string) {
	path := filepath.Join(filepath.Dir(s.Dir), "said")
	known, _ := private.ReadFile(path)
	var add []byte
	for _, t := range j.Truths {
		sum := fmt.Sprintf("%x\n", sha256.Sum256([]byte(j.Command.Dir+"\x00"+t)))
		if bytes.Contains(known, []byte(sum)) {
			continue
		}
		fresh, add = append(fresh, t), append(add, sum...)
	}
	if len(add) > 0 && private.MkdirAll(filepath.Dir(path)) == nil {
		if f, err := private.Open(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
			_, _ = f.Write(add) // what is not remembered is printed again
			f.Close()
		}
	}
	return fresh
}

package arch_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/launch-ml/launch/tools/truth/rows"
)

func TestZZ(t *testing.T) {
	fs, _ := filepath.Glob(os.Getenv("ZZ"))
	for _, f := range fs {
		t.Run(filepath.Base(f), func(t *testing.T) { t.Log(rows.Check(t, f)) })
	}
}

package result

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/private"
)

// CheckFile returns an error if --json-file cannot be written. It runs before the program starts.
func CheckFile(to settings.ResultFile) error {
	path := to.File
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder", to.Names.Value("json-file", path))
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return fmt.Errorf("%s: no folder %s", to.Names.Value("json-file", path), filepath.Dir(path))
	}
	if !HoldsJSON(path) {
		return fmt.Errorf("%s exists, and is no JSON: name another file, or remove it", to.Names.Value("json-file", path))
	}
	return nil
}

// HoldsJSON reports whether a file that launch is to replace may be one of its own: the user's script is not, which a
// mistyped flag names. A file that is called so, is empty or is not there may be written, and a pipe and a device.
func HoldsJSON(path string) bool {
	if strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/") {
		return true
	}
	path, err := private.Follow(path)
	if err != nil {
		return true // another account's link or file: it is not written, which stops no program
	}
	if strings.HasSuffix(path, ".json") || strings.HasSuffix(path, ".jsonl") { // perhaps cut short, as by a full disk
		return true
	}
	f, err := file.Open(path)
	if err != nil {
		return true
	}
	defer f.Close()
	head := make([]byte, 512)
	n, _ := io.ReadFull(f, head)
	head = bytes.TrimSpace(bytes.TrimPrefix(head[:n], []byte("\ufeff")))
	return n == 0 || bytes.HasPrefix(head, []byte("{")) || bytes.HasPrefix(head, []byte("["))
}

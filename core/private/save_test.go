package private

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A descriptor is written to where it stands: what was printed there before stays.
func TestSaveToDescriptor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.WriteString("printed\n")
	for _, folder := range []string{"/dev/fd", "/proc/self/fd"} {
		if err := Save(fmt.Sprintf("%s/%d", folder, f.Fd()), []byte("{}\n")); err != nil {
			t.Fatal(err)
		}
	}
	f.WriteString("more\n")
	if text, _ := os.ReadFile(path); string(text) != "printed\n{}\n{}\nmore\n" {
		t.Errorf("%q", text)
	}
	if err := Save("/dev/fd/65000", nil); err == nil {
		t.Error("no such descriptor")
	}
}

package states

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/launch-ml/launch/core/job"
)

// A trial's folder holds what was put there, and removing it takes nothing from where a link leads.
func TestStage(t *testing.T) {
	theirs, scratch := t.TempDir(), filepath.Join(t.TempDir(), "scratch")
	image := filepath.Join(theirs, "images", "1.jpg")
	if err := os.MkdirAll(filepath.Dir(image), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(image, []byte("an image"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := Stage(scratch, []job.Put{{Path: "data/images", Link: filepath.Dir(image)}, {Path: "data/images.txt", Text: []byte("1 1.jpg\n")}})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"data/images/1.jpg": "an image", "data/images.txt": "1 1.jpg\n"} {
		if got, err := os.ReadFile(filepath.Join(scratch, path)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if err := os.RemoveAll(scratch); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(image); err != nil {
		t.Errorf("the user's image: %v", err)
	}
	for _, p := range []job.Put{{Path: "../x", Text: []byte("x")}, {Path: "/x", Link: theirs}, {Path: "x", Link: "images"}} {
		if err := Stage(scratch, []job.Put{p}); err == nil {
			t.Errorf("%+v is put", p)
		}
	}
}

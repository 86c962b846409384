package result

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/sameness"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

// A run that is no longer what it began as is named in the document, with what differs.
func TestUnlike(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.json")
	unlike := &sameness.UnlikeError{Run: "7", What: []string{"train.py has changed"}}
	w := Writer{To: settings.ResultFile{File: path}}
	w.Failed(ui.Printer{W: os.Stderr}, cli.NewExit(unlike, run.OwnTrouble))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got Result
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Run != "7" || !slices.Equal(got.Unlike, unlike.What) || got.Code != run.OwnTrouble || got.Ending != NotRun {
		t.Errorf("the document is %s", text)
	}
}

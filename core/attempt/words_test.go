package attempt

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/launch-ml/launch/core/overlay"
	"github.com/launch-ml/launch/core/run"
)

// What a program that saves by itself has saved is told of as last words where an out-of-memory has ended it, or launch
// had asked for it. After another failure it is a state like any.
func TestWordsOfAnotherFailure(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ending      run.Ending
		asked, told bool
	}{{run.OutOfMemory, false, true}, {run.Failed, false, false}, {run.Failed, true, true}} {
		dir := t.TempDir()
		o, err := overlay.Install(dir, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		state := filepath.Join(dir, "7.state")
		asked := 0
		if tt.asked {
			asked = 1
		}
		line := fmt.Sprintf(`{"event": "words", "step": 7, "path": %q, "asked": %d}`+"\n", state, asked)
		for path, text := range map[string]string{state: "x", filepath.Join(dir, "report.jsonl"): line} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		a := &attempt{words: true, overlay: o}
		out := &run.Outcome{Ending: tt.ending, Saved: &run.State{Path: state}}
		a.lastWords(out, nil)
		if told := out.LastWords != nil; told != tt.told {
			t.Errorf("%v, asked %t: told %t, want %t", tt.ending, tt.asked, told, tt.told)
		}
	}
}

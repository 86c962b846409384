package oom

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/unit"
)

// A logger that writes JSON has the traceback in a field of its own: it is read as if it stood in the text.
func TestTracebackInJSON(t *testing.T) {
	const trace = "Traceback (most recent call last):\n  File \"/home/u/train.py\", line 9, in <module>\n    main()\n  File \"/home/u/train.py\", line 5, in main\n    loss.backward()\n" +
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which 1.00 GiB is free."
	frames := []any{map[string]any{"filename": "/home/u/train.py", "lineno": 9, "name": "<module>"}, map[string]any{"filename": "/home/u/train.py", "lineno": 5, "name": "main"}}
	type fields = map[string]any
	inner, _ := json.Marshal(fields{"message": "training failed", "exc_info": trace})
	for name, record := range map[string]fields{
		"python-json-logger":  {"asctime": "2024-03-01 10:00:00", "levelname": "ERROR", "message": "training failed", "exc_info": trace},
		"structlog":           {"event": "training failed", "level": "error", "exception": trace},
		"structlog's entries": {"event": "training failed", "exception": []any{fields{"exc_type": "OutOfMemoryError", "exc_value": "CUDA out of memory. Tried to allocate 2.00 GiB", "frames": frames}}},
		"ecs-logging":         {"message": "training failed", "error": fields{"type": "OutOfMemoryError", "stack_trace": trace}},
		"its dotted form":     {"message": "training failed", "error.stack_trace": trace},
		"loguru":              {"text": "2024 | ERROR | training failed\n" + trace + "\n", "record": fields{"message": "training failed"}},
		"of a container":      {"log": string(inner) + "\n", "stream": "stderr"},
		"a cloud's":           {"severity": "ERROR", "jsonPayload": fields{"message": "training failed", "exc_info": trace}},
		"no message":          {"exc_info": trace},
		"another type":        {"event": 5, "exc_info": trace},
	} {
		b, _ := json.Marshal(record)
		r := reported(t, `{"message": "step 1"}`+"\n"+string(b)+"\n")
		if !r.OOM || !r.Fatal || r.Frame != "train.py:5 in main" || unit.Value(r.Requested) == 0 {
			t.Errorf("%s: fatal %v, frame %q, %s", name, r.Fatal, r.Frame, r.Cause)
		}
	}
	// What was raised on account of another is what the program ended with.
	b, _ := json.Marshal(fields{"event": "x", "exception": []any{fields{"exc_type": "KeyError", "exc_value": "'loss'", "frames": frames}, fields{"exc_type": "ValueError", "exc_value": "y", "frames": frames[:1]}}})
	if r := reported(t, string(b)+"\n"); r.Cause != "KeyError: 'loss'" || r.Frame != "train.py:5 in main" {
		t.Errorf("two exceptions: %q at %s", r.Cause, r.Frame)
	}
	// A data set of texts is no log.
	for _, record := range []fields{{"text": "how to mend it?\n" + trace}, {"exc_info": true, "message": "fine"}, {"exc_info": "see CUDA out of memory", "message": "fine"}} {
		b, _ := json.Marshal(record)
		if r := reported(t, string(b)+"\n"); r.OOM && r.Fatal && strings.Contains(string(b), "fine") {
			t.Errorf("%s: %+v", b, r)
		}
	}
}

package printed

import (
	"encoding/json"
	"fmt"
	"strings"
)

// rawEscape is an SGR sequence within JSON, as in a saved notebook, and once that is decoded.
var rawEscape = rx(`(?:\\u001b|\x1b)\[[0-9;]*m`)

// rankField is a rank in a record of JSON
var rankField = rx(`"(?:global_)?rank": ?"?(\d{1,6})"?[,}\s]`)

// A jsonRecord is a line of a log that is JSON: a container's, as docker's json-file driver, Kubernetes and the clouds' loggers
// write it, in which one field has the line that the program wrote; or a program's own logger's, which has a traceback in
// a field of its own.
type jsonRecord struct {
	LogText string `json:"log"`     // docker: daemon/logger/jsonfilelog
	Message string `json:"message"` // journalctl -o json (its MESSAGE), structlog, python-json-logger
	Msg     string `json:"msg"`
	Payload string `json:"textPayload"` // Google's Cloud Logging

	EventText string `json:"event"` // structlog: structlog/_base.py
	// python-json-logger: jsonlogger.py, add_fields; logging's own name for it
	Exc json.RawMessage `json:"exc_info"`
	// structlog: processors.py, ExceptionRenderer; a text, or one entry for each exception
	Raise json.RawMessage `json:"exception"`
	Trace json.RawMessage `json:"traceback"`   // who writes their own formatter
	Stack json.RawMessage `json:"stack_trace"` // Logstash's and Google's Error Reporting
	Dots  json.RawMessage `json:"error.stack_trace"`
	Error json.RawMessage `json:"error"`  // Elastic's ecs-logging: {"stack_trace": …}
	Text  string          `json:"text"`   // loguru/_handler.py, with serialize=True: the line as it would be without
	Rec   json.RawMessage `json:"record"` // and the record, of which that is made
	Cloud json.RawMessage `json:"jsonPayload"`
}

// recorded returns the lines that a JSON record holds, the message's and the traceback's; nil where it is none that is known.
func recorded(text string, depth int) []string {
	var c jsonRecord
	if depth > 2 || !json.Valid([]byte(text)) {
		return nil
	}
	_ = json.Unmarshal([]byte(text), &c) // a field of another type than these loggers' is left out
	if len(c.Cloud) > 0 && c.Cloud[0] == '{' {
		return recorded(string(c.Cloud), depth+1)
	}
	message := ""
	for _, m := range []string{c.LogText, c.Message, c.Msg, c.Payload} {
		if m != "" {
			message = m
			break
		}
	}
	traces := []json.RawMessage{c.Exc, c.Raise, c.Trace, c.Stack, c.Dots}
	var nested struct {
		Stack json.RawMessage `json:"stack_trace"`
	}
	if len(c.Error) > 0 && json.Unmarshal(c.Error, &nested) == nil {
		traces = append(traces, nested.Stack)
	}
	trace := ""
	for _, raw := range traces {
		if trace = traceOf(raw); trace != "" {
			break
		}
	}
	switch {
	case len(c.Rec) > 0 && c.Rec[0] == '{' && c.Text != "":
		message = c.Text
	case message == "" && trace != "":
		message = c.EventText
	}
	if message == "" && trace == "" {
		return nil
	}
	var out []string
	for _, part := range []string{message, trace} {
		if part = strings.TrimRight(rawEscape.ReplaceAllString(part, ""), "\r\n"); part == "" {
			continue
		}
		if s := strings.TrimSpace(part); strings.HasPrefix(s, `{"`) && strings.HasSuffix(s, "}") { // a logger's, in a container's
			if lines := recorded(s, depth+1); lines != nil {
				out = append(out, lines...)
				continue
			}
		}
		out = append(out, strings.Split(part, "\n")...)
	}
	return out
}

// traceOf returns a traceback as Python prints it, of a text that holds one or of structlog's entries
// (structlog/tracebacks.py, ExceptionDictTransformer); "" of anything else.
func traceOf(raw json.RawMessage) string {
	var text string
	var entries []struct {
		Type   string `json:"exc_type"`
		Value  string `json:"exc_value"`
		Frames []struct {
			File string `json:"filename"`
			Line int    `json:"lineno"`
			Name string `json:"name"`
		} `json:"frames"`
	}
	switch {
	case len(raw) == 0:
	case json.Unmarshal(raw, &text) == nil:
		if !strings.Contains(text, "Traceback (most recent call last)") {
			return ""
		}
	case json.Unmarshal(raw, &entries) == nil:
		var b strings.Builder
		for i := len(entries) - 1; i >= 0; i-- { // the newest stands first, and Python prints it last
			e := entries[i]
			if e.Type == "" {
				return ""
			}
			b.WriteString("Traceback (most recent call last):\n")
			for _, f := range e.Frames {
				fmt.Fprintf(&b, "  File \"%s\", line %d, in %s\n", f.File, f.Line, f.Name)
			}
			b.WriteString(e.Type + ": " + e.Value + "\n")
			if i > 0 {
				b.WriteString("\nDuring handling of the above exception, another exception occurred:\n\n")
			}
		}
		return b.String()
	}
	return text
}

// mildRecord reports whether a line of JSON is a logger's record of a level at which a program goes on (the names that Python's
// logging, structlog, loguru, ECS and Google's Cloud Logging give the field), or a container's of such a record.
func mildRecord(text string, depth int) bool {
	var r struct {
		Level    string `json:"level"`
		Name     string `json:"levelname"`
		Severity string `json:"severity"`
		Dots     string `json:"log.level"`
		LogText  string `json:"log"`
		Message  string `json:"message"`
		Record   struct {
			Level struct {
				Name string `json:"name"`
			} `json:"level"`
		} `json:"record"`
	}
	if depth > 2 {
		return false
	}
	_ = json.Unmarshal([]byte(text), &r) // a field of another type is left out
	for _, s := range []string{r.Level, r.Name, r.Severity, r.Dots, r.Record.Level.Name} {
		switch strings.ToLower(s) {
		case "warning", "warn", "info", "notice", "debug":
			return true
		}
	}
	for _, inner := range []string{r.LogText, r.Message} {
		if s := strings.TrimSpace(inner); strings.HasPrefix(s, `{"`) && mildRecord(s, depth+1) {
			return true
		}
	}
	return false
}

// NotebookError returns the name of the exception whose message begins here in the JSON that VS Code shows below a
// notebook's cell: {"name": …, "message": …, "stack": …}; "" if there is none.
func NotebookError(rs []Row, i int, before string) string {
	if !notebookMessage.MatchString(before) {
		return ""
	}
	if i > 0 {
		before = rs[i-1].Body + before
	}
	if m := notebookName.FindStringSubmatch(before); m != nil {
		return m[1]
	}
	return ""
}

var (
	notebookMessage = rx(`"message": ?"[^"]{0,40}$`)
	notebookName    = rx(`"name": ?"(\w+)",\s*"message"`)
)

// Debugged is what VS Code's debugger shows above the message of an exception that stopped the program; its frames are
// below, the innermost first.
var Debugged = rx(`^Exception has occurred: (\w+)`)

// Repr matches what stands before the message of an exception that is printed as Python's repr shows it, in a report of
// a failure: `Exception: "XGBoostError('…`, `failed with RuntimeError("…` (distributed/worker.py, of Dask).
var Repr = rx(`(?i:\b(?:exception|error|failed|failure|raised|cause|traceback)\b)[^'"]{0,60}["']?` +
	`\b([A-Z]\w*(?:Error|Exception|Exhausted))\(\\?['"][^'"]*$`)

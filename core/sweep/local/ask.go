package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/unit"
)

// A program of the user's may choose the trials of a sweep: launch asks and tells in lines of JSON on a pipe. The
// decisions are the program's. What it is told comes from the history alone, so a program that is started again, as
// after launch was killed, is told everything from the beginning.

// AskVersion of the protocol. Fields are added within a version and never change their meaning.
const AskVersion = 1

// hello is the first line that the program reads.
type hello struct {
	Launch int    `json:"launch"` // Version
	Sweep  string `json:"sweep"`
	Metric string `json:"metric,omitempty"`
	Jobs   int    `json:"jobs"`
}

// question asks for trials. The first one of the answer gets the number Trial, the next the number after it.
type question struct {
	Ask   int `json:"ask"` // how many can start now
	Trial int `json:"trial"`
}

// told is what the program is told of a trial. Of Value, Failed, Infeasible and Running it has one.
type told struct {
	Trial      int              `json:"trial"`
	Assignment settings         `json:"assignment"`
	Value      *float64         `json:"value,omitempty"`
	Direction  metric.Direction `json:"direction,omitempty"`
	Metrics    metric.Set       `json:"metrics,omitempty"`
	Failed     string           `json:"failed,omitempty"`
	Infeasible *infeasible      `json:"infeasible,omitempty"`
	Running    bool             `json:"running,omitempty"` // after the program was started again
	// Of a trial with a value: what it took and what there was, and what its changes cost if it did not run as asked.
	Peak *unit.Bytes `json:"peak_bytes,omitempty"`
	Room *unit.Bytes `json:"room_bytes,omitempty"`
	Cost string      `json:"cost,omitempty"`
}

// infeasible is a trial that needs more memory than there is. An amount that is not known is null.
type infeasible struct {
	Peak *unit.Bytes `json:"peak_bytes"` // at least
	Room *unit.Bytes `json:"room_bytes"`
	Why  string      `json:"why"`
}

// settings are an assignment as an object of JSON, in order.
type settings sweep.Assignment

// MarshalJSON implements [json.Marshaler].
func (s settings) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, x := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(x.Key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(x.Value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON implements [json.Unmarshaler]. A number keeps the text in which it is written; a list or an object is a
// value, too.
func (s *settings) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("an assignment is an object: {\"KEY\": value}")
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		key := t.(string) // the decoder takes no other key
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err
		}
		if err := sweep.CheckKey(key); err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("%s has two values", key)
		}
		if len(seen) == mostKeys {
			return fmt.Errorf("an assignment has more than %d keys", mostKeys)
		}
		if len(key)+len(raw) > longestSetting {
			return fmt.Errorf("the value of %.100s is longer than %d KiB", key, longestSetting>>10)
		}
		seen[key] = true
		value := string(raw)
		if raw[0] == '"' {
			if err := json.Unmarshal(raw, &value); err != nil {
				return err
			}
			meant := bytes.Count(raw, []byte("\ufffd")) + bytes.Count(bytes.ToLower(raw), []byte(`\ufffd`))
			if strings.Count(value, "\ufffd") > meant {
				return fmt.Errorf("the value of %.100s has a half of a surrogate pair, which is no text", key)
			}
		}
		*s = append(*s, sweep.Setting{Key: key, Value: value})
	}
	return nil
}

// tell is what the program is told of a row now; false: nothing yet.
func tell(r *sweep.Row, name string) (told, bool) {
	score := r.Score(name)
	t := told{Trial: r.Number, Assignment: settings(r.Assignment)}
	switch score.Verdict {
	case sweep.Open:
		return t, false
	case sweep.Infeasible:
		t.Infeasible = &infeasible{unit.Known(score.Peak), unit.Known(score.Room), score.Why}
		return t, true
	case sweep.Bad:
		t.Failed = score.Why
	case sweep.Scored:
		t.Value, t.Direction, t.Peak, t.Room = &score.Value, score.Direction, unit.Known(score.Peak), unit.Known(score.Room)
	}
	if r.Result != nil {
		t.Metrics = r.Result.Metrics
		if r.Result.Down() && r.Result.Cost != nil {
			t.Cost = r.Result.Cost.String()
		}
	}
	return t, true
}

// answer is what the program prints after a question.
type answer struct {
	Assignment  *settings  `json:"assignment"`
	Assignments []settings `json:"assignments"`
	Done        bool       `json:"done"`
	Wait        bool       `json:"wait"` // ask again when a trial has ended
}

// Bounds of one answer: a program that prints more is in error, and would take this process's time and memory. A value
// becomes an argument, of which Linux takes 128 KiB (MAX_ARG_STRLEN).
const (
	mostKeys       = 1000 // of one assignment
	mostTrials     = 10_000
	longestSetting = 100 << 10
)

// parse reads an answer and returns its trials, numbered from first on.
func parse(line []byte, first int) (a answer, trials []sweep.Trial, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	err = d.Decode(&a)
	if rest := line[min(d.InputOffset(), int64(len(line))):]; err == nil && len(bytes.TrimSpace(rest)) > 0 {
		err = errors.New("more than one document stands on the line")
	}
	if err == nil && !utf8.Valid(line) {
		err = errors.New("it is not UTF-8")
	}
	all := a.Assignments
	if a.Assignment != nil {
		all = append([]settings{*a.Assignment}, all...)
	}
	if err == nil && len(all) == 0 && !a.Done && !a.Wait {
		err = errors.New("an answer has an assignment, assignments, done or wait")
	}
	if err == nil && len(all) > mostTrials {
		err = fmt.Errorf("it has more than %d assignments", mostTrials)
	}
	if err == nil && len(all) > 0 && a.Wait {
		err = errors.New("it has an assignment, and wants to wait")
	}
	if err != nil {
		return a, nil, fmt.Errorf("the searcher printed %.200q, which is no answer: %w (anything else goes to standard "+
			"error)",
			strings.TrimSpace(string(line)), err)
	}
	trials = make([]sweep.Trial, len(all))
	for i, s := range all {
		trials[i] = sweep.Trial{Number: first + i, Assignment: sweep.Assignment(s)}
	}
	return a, trials, nil
}

package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/sweep"
)

// machine runs trials in no time.
type machine struct {
	ends  chan sweep.End
	trial func(sweep.Start) sweep.Result
}

func (m machine) Ends() <-chan sweep.End { return m.ends }
func (m machine) Stop(int, bool)         {}

func (m machine) Start(s sweep.Start) error {
	m.ends <- sweep.End{Trial: s.Trial, Start: s.Number, Result: m.trial(s)}
	return nil
}

type journal struct{ events []sweep.Event }

func (j *journal) Write(e sweep.Event) error { j.events = append(j.events, e); return nil }

// script writes a searcher in sh; it notes what it reads in the file that it returns.
func script(t *testing.T, body string) (command []string, notes string) {
	t.Helper()
	dir := t.TempDir()
	notes = filepath.Join(dir, "notes")
	path := filepath.Join(dir, "searcher")
	text := "#!/bin/sh\nn=0\nwhile read -r line; do\necho \"$line\" >> " + notes + "\ncase $line in\n" + body +
		"\nesac\ndone\n"
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{"sh", path}, notes
}

// drive drives a search to its end.
func drive(t *testing.T, h *sweep.History, o AskOptions, trial func(sweep.Start) sweep.Result) (*journal, error) {
	t.Helper()
	if o.Check == nil {
		o.Check = func(sweep.Trial) error { return nil }
	}
	o.Stderr = os.Stderr
	s, err := StartSearcher(o)
	if err != nil {
		t.Fatal(err)
	}
	j := &journal{}
	d := &sweep.Sweep{History: h, Searcher: s, Template: h.Spec.Template(), Executor: machine{make(chan sweep.End, 100),
		trial},
		Admission: sweep.Jobs(h.Spec.Jobs), Journal: j}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = d.Drive(ctx)
	s.Close(h)
	if ctx.Err() != nil {
		t.Fatal("the sweep hangs")
	}
	return j, err
}

func history(jobs int) *sweep.History {
	return &sweep.History{Spec: sweep.Spec{Name: "s", Command: []string{"x"}, Dir: "/", Jobs: jobs,
		Search: &sweep.Search{Ask: []string{"x"}}}}
}

func fate(s sweep.Start) sweep.Result {
	p := &metric.Point{Value: float64(s.Trial), Step: 7}
	switch s.Trial {
	case 2:
		return sweep.Result{Ending: sweep.Refused, Code: run.CannotFit, Need: 20, Room: 10, Why: "too large"}
	case 3:
		return sweep.Result{Ending: run.Failed, Code: 1, Why: "a bug"}
	case 4:
		return sweep.Result{Ending: run.OutOfMemory, Code: 1, Why: "out of memory"}
	}
	return sweep.Result{Ending: run.Succeeded, Known: true, Peak: 5, Room: 10,
		Metrics: metric.Set{"loss": {Name: "loss", Direction: metric.Minimise, Last: p, Best: p}}}
}

// askRead returns what a searcher read, without the numbers of time.
func askRead(t *testing.T, notes string) []string {
	t.Helper()
	text, err := os.ReadFile(notes)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

const fourTrials = `*'"ask"'*) n=$((n+1))
if [ $n -gt 4 ]; then echo '{"done": true}'
else echo "{\"assignment\": {\"--lr\": 1e-$n, \"b\": [1, 2], \"c\": \"x y\"}}"; fi ;;`

// Each of the three answers, and what is not known, is told as it is.
func TestTold(t *testing.T) {
	command, notes := script(t, fourTrials)
	h := history(1)
	if _, err := drive(t, h, AskOptions{Command: command}, fate); err != nil {
		t.Fatal(err)
	}
	with := func(n int) string { return fmt.Sprintf(`"assignment":{"--lr":"1e-%d","b":"[1, 2]","c":"x y"}`, n) }
	want := []string{
		`{"launch":1,"sweep":"s","jobs":1}`, `{"ask":1,"trial":1}`,
		`{"trial":1,` + with(1) + `,"value":1,"direction":"minimise",` +
			`"metrics":{"loss":{"name":"loss","direction":"minimise",` +
			`"last":{"value":1,"step":7},"best":{"value":1,"step":7}}},"peak_bytes":5,"room_bytes":10}`,
		`{"ask":1,"trial":2}`, `{"trial":2,` + with(2) + `,"infeasible":{"peak_bytes":20,"room_bytes":10,"why":"too large"}}`,
		`{"ask":1,"trial":3}`, `{"trial":3,` + with(3) + `,"failed":"a bug"}`,
		`{"ask":1,"trial":4}`, `{"trial":4,` + with(4) +
			`,"infeasible":{"peak_bytes":null,"room_bytes":null,"why":"out of memory"}}`,
		`{"ask":1,"trial":5}`,
	}
	if diff := cmp.Diff(want, askRead(t, notes)); diff != "" {
		t.Error(diff)
	}
	if len(h.Rows) != 4 || !h.Done {
		t.Errorf("%d trials, done %v", len(h.Rows), h.Done)
	}
}

// After a kill the searcher is started again and told everything; no trial runs twice.
func TestToldAgain(t *testing.T) {
	command, _ := script(t, fourTrials)
	j, err := drive(t, history(1), AskOptions{Command: command}, fate)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(j.events) {
		h := history(1)
		for _, e := range j.events[:cut] {
			h.Apply(e)
		}
		if h.Done {
			break
		}
		had, running := len(h.Rows), len(h.Running())
		command, notes := script(t, `*'"ask"'*) echo '{"done": true}' ;;`)
		started := 0
		if _, err := drive(t, h, AskOptions{Command: command}, func(s sweep.Start) sweep.Result {
			started++
			return fate(s)
		}); err != nil {
			t.Fatalf("after %d events: %v", cut, err)
		}
		text := strings.Join(askRead(t, notes), "\n")
		for n := 1; n <= had; n++ {
			if !strings.Contains(text, fmt.Sprintf(`{"trial":%d,`, n)) {
				t.Errorf("after %d events the searcher does not know of trial %d:\n%s", cut, n, text)
			}
		}
		if got := strings.Count(text, `"running":true`); got < running || len(h.Rows) != had {
			t.Errorf("after %d events: %d of %d running trials are told, %d rows of %d", cut, got, running, len(h.Rows), had)
		}
	}
}

// Several trials at the same time: the searcher is asked until all places are taken, and may answer several at once.
func TestSeveral(t *testing.T) {
	command, notes := script(t, `*'"ask":3'*) m=$((m+1))
	if [ $m = 1 ]; then echo '{"assignments": [{"a": 1}, {"a": 2}]}'; else echo '{"done": true}'; fi ;;
*'"ask":1'*) n=$((n+1)); if [ $n = 1 ]; then echo '{"assignment": {"a": 3}}'; else echo '{"wait": true}'; fi ;;
*'"ask"'*) echo '{"done": true}' ;;`)
	h := history(3)
	if _, err := drive(t, h, AskOptions{Command: command}, fate); err != nil {
		t.Fatal(err)
	}
	if len(h.Rows) != 3 {
		t.Errorf("%d trials; it read\n%s", len(h.Rows), strings.Join(askRead(t, notes), "\n"))
	}
}

// A result that is told while the searcher answers "wait" has ended that wait: it is asked again.
func TestWaitCrossesAResult(t *testing.T) {
	command, notes := script(t, `*'"ask"'*) n=$((n+1)); case $n in
1) echo '{"assignment": {"a": 1}}' ;;
2) sleep 0.5; echo '{"wait": true}' ;;
*) echo '{"done": true}' ;;
esac ;;`)
	h := history(2)
	if _, err := drive(t, h, AskOptions{Command: command}, fate); err != nil {
		t.Fatal(err)
	}
	if len(h.Rows) != 1 || !h.Done {
		t.Errorf("%d trials, done %v; it read\n%s", len(h.Rows), h.Done, strings.Join(askRead(t, notes), "\n"))
	}
}

// What is wrong with a searcher is an error that names it; the trials that run are finished first.
func TestTroubles(t *testing.T) {
	for name, tt := range map[string]struct {
		body, says string
		patience   time.Duration
		rows       int
	}{
		"it dies": {`*'"ask"'*) n=$((n+1)); if [ $n = 2 ]; then exit 3; fi; echo '{"assignment": {"a": 1}}' ;;`,
			"exit status 3", 0, 1},
		"it ends":            {`*'"ask"'*) exit 0 ;;`, "ended before it had answered", 0, 0},
		"it is silent":       {`*'"launch"'*) ;;`, "--ask-timeout", 300 * time.Millisecond, 0},
		"it prints words":    {`*'"ask"'*) echo thinking ;;`, `"thinking", which is no answer`, 0, 0},
		"an unknown field":   {`*'"ask"'*) echo '{"asignment": {"a": 1}}' ;;`, "asignment", 0, 0},
		"an empty answer":    {`*'"ask"'*) echo '{}' ;;`, "done or wait", 0, 0},
		"no key":             {`*'"ask"'*) echo '{"assignment": {"a b": 1}}' ;;`, "cannot be a key", 0, 0},
		"a key twice":        {`*'"ask"'*) echo '{"assignment": {"a": 1, "a": 2}}' ;;`, "two values", 0, 0},
		"it waits for none":  {`*'"ask"'*) echo '{"wait": true}' ;;`, "no trial runs", 0, 0},
		"it was not asked":   {`*'"launch"'*) echo '{"done": true}'; echo '{"done": true}' ;;`, "", 0, 0},
		"a trial cannot run": {`*'"ask"'*) echo '{"assignment": {"bad": 1}}' ;;`, "trial 1: no such key", 0, 0},
		"many keys": {`*'"ask"'*) printf '{"assignment": {"a": 1'; for i in $(seq 20000); do printf ',"k%d": 1' $i; done
echo '}}' ;;`, "more than 1000 keys", 0, 0},
		"many trials": {`*'"ask"'*) printf '{"assignments": [{"a": 1}'; for i in $(seq 20000); do printf ',{"a": 1}'; done
echo ']}' ;;`, "more than 10000 assignments", 0, 0},
		"a long value": {`*'"ask"'*) printf '{"assignment": {"a": "'; head -c 200000 /dev/zero | tr '\0' x; echo '"}}' ;;`,
			"longer than 100 KiB", 0, 0},
		"a deep value": {`*'"ask"'*) printf '{"assignment": {"a": '; head -c 50000 /dev/zero | tr '\0' '['; echo '}}' ;;`,
			"no answer", 0, 0},
		"a line of 2 MiB": {`*'"ask"'*) head -c 2097152 /dev/zero | tr '\0' x; echo ;;`, "too long", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			command, _ := script(t, tt.body)
			h := history(1)
			_, err := drive(t, h, AskOptions{Command: command, Patience: tt.patience, Check: func(trial sweep.Trial) error {
				if _, ok := trial.Assignment.Get("bad"); ok {
					return errors.New("no such key")
				}
				return nil
			}}, fate)
			if err == nil && tt.says != "" || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %q", err, tt.says)
			}
			if ended := h.Count()[sweep.Succeeded]; ended != tt.rows {
				t.Errorf("%d trials ended, want %d", ended, tt.rows)
			}
		})
	}
	if _, err := StartSearcher(AskOptions{Command: []string{"/no/such/searcher"}}); err == nil {
		t.Error("a searcher that is not there was started")
	}
}

// A searcher that does not read holds nothing up, and one that ignores the end of its input is stopped with its
// children.
func TestStubborn(t *testing.T) {
	defer func(d time.Duration) { farewell = d }(farewell)
	farewell = 100 * time.Millisecond
	s, err := StartSearcher(AskOptions{Command: []string{"sh", "-c",
		"trap '' TERM; sleep 1000 & echo $!; wait; wait; sleep 1000"},
		Check: nil})
	if err != nil {
		t.Fatal(err)
	}
	h := history(1)
	h.Spec.Name = strings.Repeat("x", 1<<20)
	s.Next(h) // more than a pipe holds
	s.Close(h)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, _ := os.ReadFile(path)
		_, rest, _ := strings.Cut(string(text), ") ") // state, parent, group
		if f := strings.Fields(rest); len(f) > 2 && f[2] == fmt.Sprint(s.cmd.Process.Pid) && f[0] != "Z" {
			t.Errorf("a process of the searcher's group lives: %s", text)
		}
	}
}

func TestSettingsInOrder(t *testing.T) {
	var s settings
	text := `{"z":"1e-4","a":"[1, 2]","b":"\u003c"}`
	if err := json.Unmarshal([]byte(`{"z": 1e-4, "a": [1, 2], "b": "<"}`), &s); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(s)
	if err != nil || !bytes.Equal(got, []byte(text)) {
		t.Errorf("%s, %v", got, err)
	}
}

// What a searcher prints is run as it stands, or not at all: U+FFFD is put nowhere.
func TestNoText(t *testing.T) {
	for line, good := range map[string]bool{
		`{"assignment":{"--lr":"é �"}}`:          true,
		`{"assignment":{"--lr":"\ufffd"}}`:       true,
		`{"assignment":{"--lr":"\ud83d\ude00"}}`: true,
		`{"assignment":{"--lr":"\ud83d"}}`:       false,
		"{\"assignment\":{\"--lr\":\"\xff\"}}":   false,
		`{"done":true} {"done":true}`:            false,
	} {
		if _, trials, err := parse([]byte(line+"\n"), 1); (err == nil) != good {
			t.Errorf("%s: %v, %v", line, trials, err)
		}
	}
}

package oom

import (
	"encoding/json"
	"slices"
	"strings"
)

// A program that logs the traceback of an out-of-memory and goes on looks like one that died of it: what follows may be the
// buffer of a dying program. Two signs together exclude that: the traceback is logged as a warning, or the line above it says
// that it was caught; and what follows is progress or the end of training. For a program that is known to have failed, they
// do not count.

var (
	// catches are a program's words, right above a traceback, for what it has caught.
	catches = rx(`\bWARN(?:ING)?\b.*(?i:\bcaught\b|\bskip(?:s|ped|ping)?\b|\bretr(?:y|ies|ying)\b|out of memory|\bOOM\b)|(?i:\bcaught\b.{0,60}\b(?:skip|retry|continu|ignor)\w*)`)
	// finished are those for the end of a training that went well.
	finished = rx(`(?i)\b(?:(?:fine-?)?tuning|training) (?:(?:run|job|loop) )?(?:(?:has|is|was) )?(?:now )?(?:finished|completed?|done|over)\b|` +
		`\b(?:finished|completed|done|end of) (?:the )?(?:(?:fine-?)?tuning|training)\b`)
	// unfinished are words in such a line for a part of the training, or for an end before the planned one.
	unfinished = rx(`(?i)\bepoch\b|\bstage\b|\bnot\b|error|fail|abort|crash|memory|exception|interrupt`)
)

// caught reports whether the traceback that ends in this finding is one that the program logged when it had caught it.
func (f *finding) caught() bool {
	if !f.traced || !f.memory() {
		return false
	}
	if f.rows[f.at].mild {
		return true
	}
	for i := f.at - 1; i > max(0, f.at-maxTrace); i-- {
		if r := f.rows[i]; r.rank != f.rows[f.at].rank || !strings.HasPrefix(r.body, "Traceback (most recent call last)") {
			continue
		}
		above := f.rows[i-1]
		text := above.text // with its level, which a body lacks
		return above.rank == f.rows[f.at].rank && len(text) < 300 && !lastWords.MatchString(text) &&
			(catches.MatchString(text) || recovered.MatchString(text))
	}
	return false
}

// resumed reports whether a program that caught this went on: it prints that training is over, or its counters rose.
func (f *finding) resumed(counts []counted) bool {
	if !f.caught() {
		return false
	}
	for _, r := range f.rows[f.at+1:] {
		if r.rank == f.rows[f.at].rank && len(r.body) < 300 && finished.MatchString(r.body) && !unfinished.MatchString(r.body) {
			return true
		}
	}
	known := false
	highest, moved := map[bool]int64{}, 0
	for _, c := range counts {
		switch {
		case c.row < f.at:
			known = true
			highest[c.bar] = max(highest[c.bar], c.n)
		case c.row > f.at && c.n > highest[c.bar] && (known || f.rows[f.at].mild):
			highest[c.bar] = c.n
			moved++
		}
	}
	return moved >= 2
}

// closed reports whether a program logged a failure in one line and then, with a stamp of the same kind, that it is
// done.
func (f *finding) closed() bool {
	head := stampedLine.FindString(f.rows[f.at].text)
	if f.traced || head == "" || lastWords.MatchString(f.rows[f.at].body) {
		return false
	}
	for _, r := range near(f.rows, f.at, 0, closedRows)[1:] {
		if m := stampedLine.FindString(r.text); len(m) == len(head) && r.rank == f.rows[f.at].rank &&
			done.MatchString(r.text[len(m):]) {
			return true
		}
	}
	return false
}

const closedRows = 30

var (
	stampedLine = rx(`^\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?\]? `)
	done        = rx(`(?i)^(?:- )?(?:\w+ - )?(?:all )?done[.! ]*$`)
)

// reduced reports whether a traceback that has lost its end belongs to an out-of-memory that the program named right
// above it, with what it does next.
func (f *finding) reduced(all []finding) bool {
	from := f.at
	for from > 0 && f.at-from < maxTrace && !beganTrace.MatchString(strings.TrimSpace(f.rows[from].body)) {
		from--
	}
	return slices.ContainsFunc(all, func(g finding) bool {
		return g.rule.nature == survived && g.at < from && g.at >= from-2 && recovered.MatchString(g.rows[g.at].body)
	})
}

// goesOn reports whether a logged message itself ends in what the program does next (fairseq's trainer.py: "…; skipping batch").
func (f *finding) goesOn() bool {
	body := f.rows[f.at].body
	return !f.traced && f.memory() && logged.MatchString(body) && !lastWords.MatchString(body) && goesOn.MatchString(body)
}

var goesOn = rx(`(?i)[;,:).] *(?:skipping|ignoring)(?: (?:this|the))?(?: (?:batch|step|sample|iteration|update))?[.! ]*$`)

var (
	// leaving are the functions in which Python and its libraries end their workers: torch/utils/data/dataloader.py,
	// multiprocessing/util.py, concurrent/futures/process.py.
	leaving = rx(`^(?:__del__|_shutdown_workers|_run_finalizers|_exit_function|_python_exit|_clean_up_worker|atexit\w*)$`)
	// ofWorkers are words for a process that works for another.
	ofWorkers = rx(`(?i)\bworkers?\b|pt_data_worker`)
)

// shutDown marks a worker's kill that ended nothing: one that came while the program ended its workers, or after it had
// printed that its training is over and no other failure.
func (f *finding) shutDown() {
	if f.rule.kind != HostOOM || !f.fatal || !ofWorkers.MatchString(f.rows[f.at].body) {
		return
	}
	over := false
	for i := f.at - 1; i >= max(0, f.at-maxTrace) && !over; i-- {
		r := f.rows[i]
		if _, counts := progressOf(r.body); counts && i < f.at-headLines {
			break
		}
		over = len(r.body) < 300 && finished.MatchString(r.body) && !unfinished.MatchString(r.body)
	}
	if over && f.traced {
		calls, _ := f.calls()
		over = slices.ContainsFunc(calls, func(c frame) bool { return leaving.MatchString(c.name) })
	}
	f.fatal, f.alive = !over, over
}

// mildRecord reports whether a line of JSON is a logger's record of a level at which a program goes on (the names that Python's
// logging, structlog, loguru, ECS and Google's Cloud Logging give the field), or a container's of such a record.
func mildRecord(text string, depth int) bool {
	var r struct {
		Level    string `json:"level"`
		Name     string `json:"levelname"`
		Severity string `json:"severity"`
		Dots     string `json:"log.level"`
		Log      string `json:"log"`
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
	for _, inner := range []string{r.Log, r.Message} {
		if s := strings.TrimSpace(inner); strings.HasPrefix(s, `{"`) && mildRecord(s, depth+1) {
			return true
		}
	}
	return false
}

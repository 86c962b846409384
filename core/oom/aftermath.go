package oom

import (
	"slices"

	"github.com/launch-ml/launch/core/oom/printed"
)

// A counted is a progress, its row, and the number of bytes up to the end of that row.
type counted struct {
	printed.Progress
	row, bytes int
}

// countProgress reads the progress in the rows, once for all findings.
func countProgress(rs []printed.Row, words *printed.Words) []counted {
	var out []counted
	bytes := 0
	for i, r := range rs {
		bytes += len(r.Text) + 1
		if printed.MayCount(words.Scan([]byte(r.Body))) {
			if p, ok := printed.ProgressOf(r.Body); ok {
				out = append(out, counted{p, i, bytes})
			}
		}
	}
	return out
}

// counters are the highest values that were seen of a bar's counter and of a log's.
type counters map[bool]int64

// rises reports whether a counter is higher than ever, and keeps it.
func (c counters) rises(p printed.Progress) bool {
	if p.N <= c[p.Bar] {
		return false
	}
	c[p.Bar] = p.N
	return true
}

// A program that logs the traceback of an out-of-memory and goes on looks like one that died of it: what follows may be the
// buffer of a dying program. Two signs together exclude that: the traceback is logged as a warning, or the line above it says
// that it was caught; and what follows is progress or the end of training. For a program that is known to have failed, they
// do not count.

var (
	// catches are a program's words, right above a traceback, for what it has caught.
	catches = rx(`\bWARN(?:ING)?\b.*(?i:\bcaught\b|\bskip(?:s|ped|ping)?\b|\bretr(?:y|ies|ying)\b|out of memory|\bOOM\b)|(?i:\bcaught\b.{0,60}\b(?:skip|retry|continu|ignor)\w*)`)
)

// caught reports whether the traceback that ends in this finding is one that the program logged when it had caught it.
func (f *finding) caught() bool {
	if !f.traced || !f.ofMemory() {
		return false
	}
	if f.rows[f.at].Mild {
		return true
	}
	i := f.traceback()
	if i < 1 {
		return false
	}
	above := f.rows[i-1]
	text := above.Text // with its level, which a body lacks
	return above.Rank == f.rows[f.at].Rank && len(text) < 300 && !lastWords.MatchString(text) &&
		(catches.MatchString(text) || printed.Recovered.MatchString(text))
}

// resumed reports whether a program that caught this went on: it prints that training is over, or its counters rose.
func (f *finding) resumed(counts []counted) bool {
	if !f.caught() {
		return false
	}
	for _, r := range f.rows[f.at+1:] {
		if r.Rank == f.rows[f.at].Rank && printed.TrainedUp(r.Body) {
			return true
		}
	}
	known, highest, moved := f.rows[f.at].Mild, counters{}, 0
	for _, c := range counts {
		switch {
		case c.row < f.at:
			known = true
			highest.rises(c.Progress)
		case c.row > f.at && known && highest.rises(c.Progress):
			moved++
		}
	}
	return moved >= 2
}

// closed reports whether a program logged a failure in one line and then, with a stamp of the same kind, that it is
// done.
func (f *finding) closed() bool {
	head := stampedLine.FindString(f.rows[f.at].Text)
	if f.traced || head == "" || lastWords.MatchString(f.rows[f.at].Body) {
		return false
	}
	for _, r := range printed.Near(f.rows, f.at, 0, closedRows)[1:] {
		if m := stampedLine.FindString(r.Text); len(m) == len(head) && r.Rank == f.rows[f.at].Rank &&
			allDone.MatchString(r.Text[len(m):]) {
			return true
		}
	}
	return false
}

const closedRows = 30

var (
	stampedLine = rx(`^\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?\]? `)
	allDone     = rx(`(?i)^(?:- )?(?:\w+ - )?(?:all )?done[.! ]*$`)
)

// reduced reports whether a traceback that has lost its end belongs to an out-of-memory that the program named right
// above it, with what it does next.
func (f *finding) reduced(all []finding) bool {
	from := f.tracebackHead()
	return slices.ContainsFunc(all, func(g finding) bool {
		return g.rule.nature == survived && g.at < from && g.at >= from-2 && printed.Recovered.MatchString(g.rows[g.at].Body)
	})
}

// goesOn reports whether a logged message itself ends in what the program does next (fairseq's trainer.py: "…; skipping batch").
func (f *finding) goesOn() bool {
	body := f.rows[f.at].Body
	return !f.traced && f.ofMemory() && logged.MatchString(body) && !lastWords.MatchString(body) &&
		goesOn.MatchString(body)
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
	if f.rule.kind != HostOOM || !f.fatal || !ofWorkers.MatchString(f.rows[f.at].Body) {
		return
	}
	over := false
	for i := f.at - 1; i >= max(0, f.at-maxTrace) && !over; i-- {
		r := f.rows[i]
		if _, counts := printed.ProgressOf(r.Body); counts && i < f.at-headLines {
			break
		}
		over = printed.TrainedUp(r.Body)
	}
	if over && f.traced {
		calls, _ := f.calls()
		over = inAny(calls, leaving)
	}
	f.fatal, f.alive = !over, over
}

// survivedAfter reports whether the program went on after this finding.
func (f *finding) survivedAfter(later []finding, counts []counted) bool {
	if f.rule.nature == survived || f.goesOn() {
		return true
	}
	if f.rule.kind == HostOOM || f.rule.kind == SharedMemory {
		return false // another process printed it than the one that died
	}
	for i := max(f.at-2, 0); i < min(f.at+9, len(f.rows)); i++ {
		if i > f.at && printed.Pasted.MatchString(f.rows[i].Body) {
			break
		}
		if i != f.at && f.rows[i].Rank == f.rows[f.at].Rank && printed.Recovers(f.rows[i].Body) ||
			i > f.at && printed.ServerLines.MatchString(printed.Clip(f.rows[i].Body)) {
			return true
		}
	}
	for _, g := range later {
		if g.rule.nature == survived && g.at > f.at && g.at < f.at+40 {
			return true
		}
	}
	return f.progressed(counts)
}

// stdoutBlock is the size of CPython's buffer for an output that is no terminal (io.DEFAULT_BUFFER_SIZE): when a program
// dies, up to that many bytes that it printed earlier are written after its traceback.
const stdoutBlock = 8 << 10

// progressed reports whether training went on: counters rose above their values before the finding. After a traceback, lines
// that may come from the buffer of a dying program do not count.
func (f *finding) progressed(counts []counted) bool {
	highest := map[bool]int64{}
	for _, c := range counts {
		if c.row < f.at {
			highest[c.Bar] = max(highest[c.Bar], c.N)
		}
	}
	moved, rising := 0, 0
	last := map[bool]int64{}
	look := func(p printed.Progress, bytes int) {
		if f.traced && !p.Live && bytes < stdoutBlock {
			return // it may have waited in the buffer
		}
		h, known := highest[p.Bar]
		if known && p.N > max(h, last[p.Bar]) || !known && !f.traced && p.N > last[p.Bar] {
			moved++
		}
		if p.N > last[p.Bar] && bytes >= stdoutBlock {
			rising++
		}
		last[p.Bar] = max(last[p.Bar], p.N)
	}
	here := 0
	for _, r := range f.rows[:f.at+1] {
		here += len(r.Text) + 1
	}
	for _, c := range counts {
		if c.row > f.at {
			look(c.Progress, c.bytes-here)
		}
	}
	for _, p := range f.x.after {
		look(p, stdoutBlock)
	}
	return moved >= 2 || rising >= 5
}

// diedLater reports whether the program trained on and later died of something else: a counter rose between the message and
// a later exception with a traceback of its own. The buffer of a dying program is written after its last traceback.
func (f *finding) diedLater(later []finding, counts []counted) bool {
	for i := range later {
		g := &later[i]
		if g.at <= f.at || g.rule.name != "exception" || !g.fatal || !g.traced || g.rows[g.at].Rank != f.rows[f.at].Rank {
			continue
		}
		rises, last := 0, counters{}
		for _, c := range counts {
			if c.row > f.at && c.row < g.at && last.rises(c.Progress) {
				rises++
			}
		}
		return rises >= 2 || rises > 0 && f.caught()
	}
	return false
}

// What follows a failure may show that it ended nothing: records of the logger that reported it, the end of what the
// parent of a dead process was doing, a notebook's result. For one that is known to have failed, none of this counts.

// outlasted reports whether what follows shows that a failure ended nothing; later are the findings after it.
func (f *finding) outlasted(later []finding) bool {
	noted := f.ofMemory() || warning.MatchString(f.rows[max(f.traceback()-1, 0)].Text) // else it is what ended another
	if !f.traced || f.rule.nature == consequence || slices.ContainsFunc(later, func(g finding) bool {
		return g.fatal && !g.alive && !g.done && (g.rule.nature != consequence || !noted)
	}) {
		return false
	}
	return f.loggedOn() || f.ofMemory() && f.parentConcluded()
}

// loggedOn reports whether the logger that wrote a traceback went on to report figures, in later records, or one
// figure among many. A logger writes each of its records at once, so that these are no buffer of a dying program.
func (f *finding) loggedOn() bool {
	begin := f.traceback()
	if begin < 1 {
		return false
	}
	above := f.rows[begin-1]
	head := printed.LoggedAt(above.Text)
	if head == "" || lastWords.MatchString(above.Text) {
		return false
	}
	figures, stamps := 0, map[string]bool{}
	for _, r := range f.rows[f.at+1:] {
		stamp := printed.LoggedAt(r.Text)
		switch {
		case stamp == "" || printed.StampShape(stamp) != printed.StampShape(head):
		case lastWords.MatchString(r.Text):
			return false
		case stamp != head && printed.Measured.MatchString(printed.Clip(r.Text)):
			figures++
		}
		stamps[stamp] = true
	}
	return figures >= 2 || figures == 1 && len(stamps) > 10
}

// parentConcluded reports whether a process died that multiprocessing had spawned, and its parent then printed the
// end of what it was doing. The parent's buffer is not written at a child's death.
func (f *finding) parentConcluded() bool {
	calls, _ := f.calls()
	if len(calls) < 2 || calls[0].path != "<string>" || calls[1].name != "spawn_main" {
		return false
	}
	return slices.ContainsFunc(f.rows[f.at+1:], func(r printed.Row) bool {
		return len(r.Body) < 300 && printed.Concluded.MatchString(r.Body) && !printed.Unfinished.MatchString(r.Body)
	})
}

// returns reports whether the output ends with a notebook's result, so that its cell has come to its end.
func (d *Detector) returns() bool {
	if len(d.streams) != 1 {
		return false
	}
	return printed.Returned.MatchString(printed.Clip(d.streams[0].lastLine()))
}

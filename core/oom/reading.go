package oom

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/oom/printed"
)

// Words about what may have been prove nothing: lists of causes, hints, and documentation name an out-of-memory as
// well. Ray's raylet lists three causes of any lost worker; Slurm's and clusters' banners tell what to do "if" a job
// was killed.

var (
	// hedged are words of a sentence, and no part of a path, before it names an out-of-memory: it is about a possibility.
	hedged = rx(`(?i)(?:^|[^\w/\\.])(?:may|might|maybe|perhaps|probably|possibl[ey]|possibility|usual(?:ly)?|often|` +
		`typically|sometimes|common(?:ly)?|potential(?:ly)?|if|when(?:ever)? (?:you|your)|whether|in case|unless|` +
		`could (?:have|be|lead|cause|also|result)|can (?:be|cause|lead|happen|occur|result|also|run)|` +
		`would (?:be|cause|lead|have)|to (?:avoid|prevent|fix|solve|reduce)|avoid\w*|prevent\w*|e\.g|such as|causes|` +
		`reasons|consider|make sure|risks?|suggests?|tip|hint|symptoms?)\b`)
	// listed are the marks of a list within a line: "(1) ", "2) "
	listed = rx(`(?:^|[\s:])\(?[1-9]\) [^()]{0,80}$`)
	// listHead is the line above a list of what may have been.
	listHead = rx(`(?i)\b(?:causes?|reasons?|possibilit(?:y|ies)|may|might|could|check|common|typical|potential|` +
		`troubleshooting|hints?|tips?|suggestions?|solutions?)\b[^.]*:\s*$`)
	listItem = rx(`^\s*(?:[-*•·] |\(?\d+[.)] )`)
	// certainly are sentences with such words that a program prints of what did happen: slurmstepd's
	// (src/plugins/task/cgroup/task_cgroup_memory.c).
	certainly = rx(`Some of (?:your|the) (?:processes|step tasks) `)
)

// advises reports whether words for an out-of-memory, which begin at a byte of a text, name only a possibility.
func advises(rs []printed.Row, i int, text string, at int) bool {
	before := text[:at]
	sentence := before
	for _, end := range []string{". ", "; ", "! ", "? ", " -- "} {
		if n := strings.LastIndex(sentence, end); n >= 0 {
			sentence = sentence[n+len(end):]
		}
	}
	switch {
	case certainly.MatchString(text):
		return false
	case hedged.MatchString(sentence), listed.MatchString(before) && hedged.MatchString(before):
		return true
	}
	if !listItem.MatchString(rs[i].Body) {
		return false
	}
	for n := i - 1; n >= max(0, i-8); n-- {
		switch body := rs[n].Body; {
		case listHead.MatchString(body):
			return true
		case strings.TrimSpace(body) != "" && !listItem.MatchString(body):
			return false
		}
	}
	return false
}

var (
	// exceptionHead finds an exception's name before a message: "RuntimeError: ", "torch.OutOfMemoryError: ".
	exceptionHead = rx(`(?:^|[\s:|(\[>"\x60*])((?:[A-Za-z_]\w*\.)*(?:_?[A-Z]\w*(?:Error|Exception|Exhausted|` +
		`Interrupt|Failure)|OutOfResources|Exception))(?:\([^)]{0,80}\))?:(?:\s|$)`)
	// quotes matches the text before a quoted message: a value in a dictionary, an argument or a literal.
	quotes = rx(`(?:[:=(\[{,]\s*|\b[bfr])["'](?:[^"']{0,60})$`)
	field  = rx(`(?i)\b(?:err(?:or)?|msg)="[^"]*$|^\s*message: '[^']*$|^Error: \w+\([^"]{0,40}"$`) // of a record, of Rust
	// logged is a logger's line. A program that logs a message goes on.
	logged = rx(`(?i)^(?:[\[(|<]?\s*[\d/:.,TZ -]{8,40}[\])|>]?\W{0,4}.{0,60}?)?[\[(|<* ]{0,3}\b(?:debug|info|` +
		`warn(?:ing)?|error)\b\s?[\])|>:*]|^\s*Warning:|^\|? ?WARNING|\bskipp(?:ed|ing)\b`)
	// harness is a test runner's summary: the test suite went on.
	harness = rx(`(?i)\b\d+ (?:asserts in )?\d* ?tests?\b.*(?:failures?|errors?|failed)|=+ .*\d+ (?:failed|passed)`)
	// testSummary is pytest's line of a test that failed (_pytest/terminal.py).
	testSummary = rx(`^(?:FAILED|ERROR) (?:\[[\d.]+s\] )?\S+\.py::\S+ - `)
)

// raisedHere reports whether a line is the last one of a traceback.
func raisedHere(rs []printed.Row, i int) bool {
	if i == 0 || rs[i].Boxed || wraps(rs, i) || !raisedLine.MatchString(rs[i].Body) {
		return false
	}
	above := rs[i-1].Body
	return above != "" && (above[0] == ' ' || above[0] == '\t') && tracedAbove(rs, i)
}

// raisedLine is an exception of any name, where a traceback has just ended: "zipfile.BadZipFile: File is not a zip file".
var raisedLine = rx(`^(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?:: \S.*|:?\s*)$`)

// readRow applies the rules to one line. If a line break splits the words of a rule, joining the next line, with a
// space and without, finds them.
func readRow(rs []printed.Row, i int) (finding, bool) {
	body := strings.TrimSpace(rs[i].Body)
	f, _, ok := readText(rs, i, body)
	if !ok && raisedHere(rs, i) && !setAside(rs, i) && !printed.Warned(rs, i) {
		f, ok = finding{rule: anyException, at: i, name: raisedLine.FindStringSubmatch(body)[1], traced: true, fatal: !ignored(rs, i) && !harnessAbove(rs, i)}, true
	}
	if i+1 >= len(rs) || ok && f.rule.name != "exception" && f.rule.name != "aborted" {
		return f, ok
	}
	next := strings.TrimSpace(rs[i+1].Body)
	if ok && f.rule.name == "aborted" { // libstdc++ prints what it was below
		if g, _, told := readText(rs, i+1, next); told && g.fatal && strings.HasPrefix(next, "what():") {
			g.rule.weight = max(g.rule.weight, exception)
			return g, true
		}
		return f, ok
	}
	for _, joined := range []string{body + " " + next, body + next} {
		g, start, found := readText(rs, i, joined)
		if found && g.ofMemory() && g.rule.nature != survived && start < len(body) {
			return g, true
		}
	}
	return f, ok
}

// pythonLine is a line of Python, as a traceback or a listing shows it.
var pythonLine = rx(`^(?:except|raise|if|elif|assert|return|with|print)\b[ (]`)

// mention is a message in quotation marks without the numbers of a real one.
var mention = rx("[\"'\x60][\\w ]{0,24}(?:out of memory|OutOfMemoryError|ALLOC_FAILED)\\.?[\"'\x60]")

// Python's semaphores and shared arrays are files in /dev/shm (Modules/_multiprocessing/semaphore.c, by sem_open(3);
// Lib/multiprocessing/heap.py). Their ENOSPC message does not name /dev/shm, but the frames above it do.
var (
	shmFull   = rule{kind: SharedMemory, weight: sure, nature: spoken, cause: "shared memory (/dev/shm) is full"}
	shmFrames = rx(`multiprocessing/(?:synchronize|heap|shared_memory)\.py`)
)

func inShm(rs []printed.Row, at int) bool {
	return slices.ContainsFunc(rs[max(0, at-5):at], func(r printed.Row) bool { return shmFrames.MatchString(r.Body) })
}

// wrapper begins the text of an exception that contains another process's: torch/multiprocessing/spawn.py, which until
// 1.5 raised a bare Exception; Ray's function_manager.py, of a class that a worker could not import.
var wrapper = rx(`^-- Process \d+ terminated with the following error:|\w failed to import on the worker\. .*:$`)

// wraps reports whether a wrapper begins at a row or right after it.
func wraps(rs []printed.Row, i int) bool {
	return slices.ContainsFunc(printed.Near(rs, i, 0, 3), func(r printed.Row) bool {
		return wrapper.MatchString(strings.TrimSpace(r.Body))
	})
}

// readText applies the rules to the text that begins at a row, and returns where the match begins.
func readText(rs []printed.Row, i int, text string) (f finding, start int, ok bool) {
	if n := len(text); n > 2 && text[0] == '`' && text[n-1] == '`' && tracedAbove(rs, i) {
		text = text[1 : n-1] // Markdown, below its traceback
	}
	if pythonLine.MatchString(text) {
		return finding{}, 0, false
	}
	for n, r := range rules {
		at := r.re.FindStringIndex(text)
		if at == nil {
			continue
		}
		switch {
		case r.name == "exception" && wraps(rs, i):
			return finding{}, 0, false // the other process's exception follows
		case r.name == "disk_full" && inShm(rs, i):
			r = shmFull
		}
		m := matched(r, rs, i, text, at[0])
		switch {
		case m.explained(), m.ofFault() && (printed.Warned(rs, i) || warning.MatchString(text) || setAside(rs, i)):
			return finding{}, 0, false
		case m.advised(at[0]):
			continue
		case m.ofMemory() && r.nature != survived && r.nature != retried &&
			(slices.Contains(otherErrors, m.name) || earlierFault.MatchString(text)):
			continue // its path or key only happens to contain the words; or an allocator met a kernel's fault
		case r.nature == survived:
			m.specify(rules[n+1:])
		}
		m.fatal = m.endsProgram()
		if !m.holds(rs, i) {
			return finding{}, 0, false
		}
		return m.finding, at[0], true
	}
	return finding{}, 0, false
}

// holds reports whether a match proves anything where it stands, and notes where it ended nothing.
func (m *ruleMatch) holds(rs []printed.Row, i int) bool {
	unheeded := ignored(rs, i)
	r := m.finding.rule
	if unheeded && r.weight < probable || r.nature == raised && !m.fatal && (r.loose || !m.printed()) {
		return false
	}
	m.fatal = m.fatal && !unheeded && !testSummary.MatchString(m.text) && (m.traced || !harnessAbove(rs, i))
	return true
}

// A match is a text that a rule matches, and how the rule's words stand in it.
type ruleMatch struct {
	finding
	text   string
	before string // the text before the exception's name or, without one, before the rule's words
	quoted bool   // the words are in quotation marks
}

// matched looks at the text that begins at a row, where a rule matches from a byte on.
func matched(r rule, rs []printed.Row, i int, text string, start int) *ruleMatch {
	m := &ruleMatch{finding: finding{rule: r, rows: rs, at: i, name: head1(text), traced: tracedAbove(rs, i)}, text: text,
		before: text[:start]}
	if h := exceptionHead.FindStringIndex(text); h != nil && h[0] < start {
		m.before = text[:h[0]]
	}
	m.quoted = quotes.MatchString(m.before) && !field.MatchString(m.before)
	if name := printed.NotebookError(rs, i, text[:start]); name != "" {
		m.name, m.before, m.quoted = name, "", false
	}
	if name := printed.Debugged.FindStringSubmatch(rs[max(0, i-1)].Body); name != nil && i > 0 {
		m.name, m.traced = name[1], true
	}
	if name := printed.Repr.FindStringSubmatch(text[:start]); name != nil {
		m.name, m.before, m.quoted = name[1], "", false
	}
	if m.ofMemory() {
		m.Numbers = printed.ReadNumbers(messageAt(rs, i))
	}
	return m
}

// ofFault reports whether it is about a fault of a device, a library or the code.
func (m *ruleMatch) ofFault() bool { return m.rule.kind == NoMemory && m.rule.weight <= broken }

// explained reports whether the text is source, configuration or documentation that mentions the words: no program
// printed them as its own message.
func (m *ruleMatch) explained() bool {
	ownQuotes := strings.Contains(m.text, "Cuda failure") || strings.Contains(m.text, "(-4:Insufficient") // NCCL's and OpenCV's
	if strings.HasPrefix(m.text, "|") && strings.Count(m.before, "`")%2 == 1 {
		return true // in a table of a page
	}
	if m.ofMemory() && (mention.MatchString(m.text) && !ownQuotes || !m.traced && printed.Fenced(m.rows, m.at)) {
		return true
	}
	return m.quoted && (m.Count() == 0 || strings.Contains(m.before, "raise "))
}

// advised reports whether the words only name a possibility. A message with numbers is no advice, and that of a full
// /dev/shm is itself a guess in the libraries that print it.
func (m *ruleMatch) advised(start int) bool {
	return m.ofMemory() && m.rule.nature != survived && m.rule.nature != retried && m.rule.kind != SharedMemory &&
		(m.Count() < 2 || strings.HasSuffix(m.before, "`") || strings.HasPrefix(m.text[len(m.before):], "`")) &&
		advises(m.rows, m.at, m.text, start)
}

// specify takes the memory from another rule: the words of a program that went on need not name it.
func (m *ruleMatch) specify(others []rule) {
	for _, r := range others {
		if r.kind != NoMemory && r.nature != survived && r.re.MatchString(m.text) {
			m.rule.kind, m.rule.cause = r.kind, r.cause
			return
		}
	}
}

// endsProgram reports whether the program, or a step of it, ended with these words.
func (m *ruleMatch) endsProgram() bool {
	switch m.rule.nature {
	case decreed:
		return !m.quoted
	case spoken, consequence:
		if m.rule.alone && !m.endsText() {
			return false
		}
		return m.sticks() || m.rule.weight == sure && m.rule.kind != GPUUnspecified || !m.reported() || m.givesUp()
	case raised:
		return !m.quoted && (m.name != "" || m.traced || m.Count() > 1 && failed.MatchString(m.before)) || m.givesUp()
	}
	return false // survived, retried
}

// endsText reports whether nothing but more of the same, or what belongs to it, follows.
func (m *ruleMatch) endsText() bool {
	for _, r := range m.rows[m.at+1:] {
		if b := r.Body; strings.TrimSpace(b) != "" && !strings.ContainsRune(" \t\"", rune(b[0])) &&
			!m.rule.re.MatchString(b) {
			return false
		}
	}
	return m.name == "" && !m.quoted && !logged.MatchString(m.text)
}

// sticks reports whether a device's fault was logged as an error, and nothing shows that work went on: after such a
// fault the device does no more of it for this process.
func (m *ruleMatch) sticks() bool {
	return m.rule.late && !m.quoted && asError.MatchString(m.text[:min(len(m.text), 160)]) &&
		!slices.ContainsFunc(m.rows[m.at+1:], func(r printed.Row) bool {
			_, counts := printed.ProgressOf(r.Body)
			return counts
		})
}

// asError is the level of a record that is no warning.
var asError = rx(`\b(?:ERROR|CRITICAL|FATAL|[Ee]rror|[Cc]ritical|[Ff]atal)\b`)

// reported reports whether the words are quoted or logged, as by a program that goes on.
func (m *ruleMatch) reported() bool {
	return m.quoted || m.name == "" && !m.traced && logged.MatchString(m.text) && !strings.HasPrefix(m.text,
		"Error: ") && !(m.ofMemory() && strings.HasPrefix(m.text, "error: ")) && !closing.MatchString(m.text)
}

// closing are a launcher's log lines for the end of what it started.
var closing = rx(`failed \(exitcode: -?\d+\) local_rank|death signal, shutting down|Exited with exit code|` +
	`memory pressure \(OOM\)|!!! Exception during processing|Shard process was signaled|UserScriptError|` +
	`runner (?:process has )?terminated`)

// givesUp reports whether the same line says that the program gives up.
func (m *ruleMatch) givesUp() bool { return m.ofMemory() && !m.quoted && lastWords.MatchString(m.text) }

// printed tells a message that a program printed from one that a text mentions: it has numbers, or it fills its line.
func (m *ruleMatch) printed() bool {
	if m.Count() > 0 {
		return true
	}
	before := strings.TrimSpace(m.before)
	return m.ofMemory() && len(m.text) < 120 &&
		(before == "" || strings.ContainsRune(":]|>-!", rune(before[len(before)-1])))
}

// earlierFault is what a call on a card, such as for memory, reports of a kernel that ran before it.
var earlierFault = rx(`(?:Illegal|Misaligned)Address|illegal memory access|LAUNCH_FAILED|ErrorLaunchFailure`)

// otherErrors are exceptions of Python that are never raised for lack of memory.
var otherErrors = strings.Fields(`FileNotFoundError FileExistsError PermissionError NotADirectoryError
	IsADirectoryError AssertionError KeyError IndexError TypeError NameError ImportError ModuleNotFoundError
	SyntaxError IndentationError UnicodeDecodeError ZeroDivisionError`)

// lastWords are a program's words for its own end or its failure.
var lastWords = rx(`(?i)\b(?:exiting|aborting|terminating|giving up|cannot continue|(?:training|run|job) (?:has )?(?:failed|stopped|aborted|crashed))\b`)

// ignored reports whether Python itself ignored an exception: one that no code can catch, as in __del__ (CPython's
// Python/errors.c, PyErr_WriteUnraisable), is printed, and the program goes on.
func ignored(rs []printed.Row, at int) bool {
	for i := at - 1; i >= max(0, at-maxUnraisable); i-- {
		body := rs[i].Body
		switch {
		case rs[i].Rank != rs[at].Rank && rs[i].Rank != "":
		case strings.HasPrefix(body, "Exception ignored in"), strings.HasPrefix(body, "Exception ignored while"):
			return true
		case body != "" && body[0] != ' ' && body[0] != '\t' && !strings.HasPrefix(body, "Traceback (most"):
			return false
		}
	}
	return false
}

// maxUnraisable bounds the lines of an ignored exception's traceback.
const maxUnraisable = 60

// head1 returns the last name of an exception before a message.
func head1(text string) string {
	if m := exceptionLine.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	all := exceptionHead.FindAllStringSubmatch(text, 4)
	if len(all) == 0 {
		return ""
	}
	return all[0][1]
}

// tracedAbove reports whether the lines right above a line are a traceback's frames, of the same rank if ranks are known.
func tracedAbove(rs []printed.Row, at int) bool {
	for i, seen := at-1, 0; i >= 0 && seen < 5 && i > at-40; i-- {
		r := rs[i]
		if strings.TrimSpace(r.Body) == "" || r.Rank != rs[at].Rank && r.Rank != "" {
			continue
		}
		if seen++; r.Boxed || len(frames(rs, i, i+1, "")) > 0 {
			return true
		}
	}
	return false
}

// failed is what programs print before a message when they, or a step of theirs, failed.
var failed = rx(`(?:\b(?:ERROR|FATAL|CRITICAL|Error|Failed|FAILED|failed)\b)[\])]?\s?[:|-]+\s*$`)

func harnessAbove(rs []printed.Row, at int) bool {
	return slices.ContainsFunc(rs[max(0, at-8):at], func(r printed.Row) bool { return harness.MatchString(r.Body) })
}

var (
	// warning is a warning of a fault; torch and TensorFlow look for a card as they start, and go on without.
	warning = rx(`(?:^|[\s(])[A-Z]\w*Warning: |failed call to cuInit|^.{0,50}\bWARNING\b|^(?:.{0,50}[^L])?[ |[]WARN\b`)
	// dropped are Inductor's words for one way to compute something that it tried and does without
	// (torch/_inductor/select_algorithm.py).
	dropped = rx(`Ignoring this choice|for benchmark choice|[Ee]rror during autotuning|(?i:skipping (?:this )?config)`)
)

// setAside reports whether a failure is one of Inductor's or Triton's attempts, which ends nothing.
func setAside(rs []printed.Row, at int) bool {
	near := func(i, before, after int) bool {
		return slices.ContainsFunc(printed.Near(rs, i, before, after), func(r printed.Row) bool {
			return dropped.MatchString(r.Body)
		})
	}
	if near(at, 2, 3) {
		return true
	}
	head := (&finding{rows: rs, at: at}).tracebackHead()
	return beganTrace.MatchString(strings.TrimSpace(rs[head].Body)) && near(head, 2, 0)
}

var anotherMessage = rx(`out of memory\. ?Tried|OutOfMemoryError: |OOM when allocating|MemoryError: Unable to`)

// messageAt returns the squeezed text of the message that begins at a row: its own rank's lines, up to the next message.
func messageAt(rs []printed.Row, at int) string {
	own, length := []printed.Row{rs[at]}, len(rs[at].Body)
	for i := at + 1; i < len(rs) && len(own) < printed.MessageLines && length < printed.MessageBytes; i++ {
		r := rs[i]
		if r.Rank != rs[at].Rank && r.Rank != "" {
			continue
		}
		another := anotherMessage.MatchString(r.Body) && (len(own) > 2 || printed.StartsAnew.MatchString(r.Body))
		if another || strings.Contains(r.Body, "Traceback (most") {
			break
		}
		own, length = append(own, r), length+len(r.Body)
	}
	s := printed.Squeeze(own)
	// ranks may interleave two messages in one text: take the one with more numbers
	parts := strings.SplitN(s, "outofmemory.", printed.MessageParts)
	best, most := s, -1
	for i, p := range parts {
		if n := printed.ReadNumbers(p); (i > 0 || len(parts) == 1) && n.Count() > most {
			best, most = p, n.Count()
		}
	}
	return best
}

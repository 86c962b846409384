package oom

import "strconv"

// recovered are the words of a program that goes on. They count only near a message.
var recovered = rx(`(?i)attempting to recover|skipping (?:this |the )?(?:update|batch|step|sample|iteration)|` +
	`\bretry(?:ing)?\b.{0,40}\b(?:batch|iteration|step|with)|recover(?:y|ed) success|` +
	`trying (?:a )?(?:smaller )?batch size|` +
	`(?:reducing|decreasing|halving|lowering|decreased) .{0,30}(?:batch|crop|size|tile)|(?:falling back|fall back|` +
	`switching) to\b.{0,40}(?:\bCPU\b|\bhost\b|smaller|lower|small|tile|tiling|chunk|slow|split)|using CPU\b|continuing\b`)

// served are lines of a server at the end or the beginning of a request: ComfyUI's main.py, text-generation-webui's
// modules/text_generation.py, and an access log (Werkzeug's, uvicorn's).
var served = rx(`\bPrompt executed in \d|\bgot prompt$|^Output generated in \d|` +
	`\d:\d+ - "(?:POST|GET) \S+ HTTP/\d|\] "(?:POST|GET) \S+ HTTP/\d`)

// remarks are lines near a message that are not about it: warnings of other code, a logger's own trouble, and what a
// person writes below a pasted text.
var remarks = rx(`\b\w*Warning\b|^wandb: |^\s*warnings\.warn|(?i:\b(?:I'm|I've|I'd|we|my|you|your|please|try|` +
	`tried|thanks?|hello|anyone|` +
	`would|could|should|how|helps?|helped|works?|worked|solved?|fix(?:ed|es)?)\b|\bn[o']t help)|\bI (?:[a-z]+)\b`)

// pasted is a line at which a pasted text ends: a fence of Markdown, or the head of the next comment.
var pasted = rx("^\\s*(?:```|~~~)|^\\S+ · \\w+ · \\d{4}-\\d\\d-\\d\\d")

// recovers reports whether a line says that the program goes on.
func recovers(line string) bool {
	return len(line) < 300 && recovered.MatchString(line) && !remarks.MatchString(line)
}

// counts reads the progress in the rows, once for all findings.
func counts(rs []row, words *words) []counted {
	var out []counted
	bytes := 0
	for i, r := range rs {
		bytes += len(r.text) + 1
		if mayCount(words.scan([]byte(r.body))) {
			if p, ok := progressOf(r.body); ok {
				out = append(out, counted{p, i, bytes})
			}
		}
	}
	return out
}

// A counted is a progress, its row, and the number of bytes up to the end of that row.
type counted struct {
	progress
	row, bytes int
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
		if i > f.at && pasted.MatchString(f.rows[i].body) {
			break
		}
		if i != f.at && f.rows[i].rank == f.rows[f.at].rank && recovers(f.rows[i].body) ||
			i > f.at && served.MatchString(clip(f.rows[i].body)) {
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
			highest[c.bar] = max(highest[c.bar], c.n)
		}
	}
	moved, rising := 0, 0
	last := map[bool]int64{}
	look := func(p progress, bytes int) {
		waiting := f.traced && !p.live && bytes < stdoutBlock
		if waiting {
			return
		}
		h, known := highest[p.bar]
		if known && p.n > max(h, last[p.bar]) || !known && !f.traced && p.n > last[p.bar] {
			moved++
		}
		if p.n > last[p.bar] && bytes >= stdoutBlock {
			rising++
		}
		last[p.bar] = max(last[p.bar], p.n)
	}
	here := 0
	for _, r := range f.rows[:f.at+1] {
		here += len(r.text) + 1
	}
	for _, c := range counts {
		if c.row > f.at {
			look(c.progress, c.bytes-here)
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
		if g.at <= f.at || g.rule.name != "exception" || !g.fatal || !g.traced || g.rows[g.at].rank != f.rows[f.at].rank {
			continue
		}
		rises, last := 0, map[bool]int64{}
		for _, c := range counts {
			if c.row > f.at && c.row < g.at && c.n > last[c.bar] {
				last[c.bar] = c.n
				rises++
			}
		}
		return rises >= 2 || rises > 0 && f.caught()
	}
	return false
}

// A progress is a counter that a training loop printed.
type progress struct {
	bar  bool // of a progress bar, which is written to standard error at once
	live bool // not held in a buffer
	n    int64
}

var (
	// tqdm/std.py, format_meter; lightning/pytorch/callbacks/progress/rich_progress.py
	barCount = rx(`\b([\d,]+)/[\d,]+ (?:\[\d+:\d\d|\d+:\d\d:\d\d •)`)
	logCount = rx(`(?i)\b(?:epoch|iter|iteration|step|global_step|batch|it|update)s?\b["']?[\s:=\[#(]{0,4}([\d,]+)`)
	logStats = rx(`(?i)loss|\blr\b|acc|psnr|it/s|s/it|\beta\b|ppl|reward|grad|samples/s|tokens/s`)
	stamped  = rx(`\b\d\d:\d\d:\d\d`)
)

// Words of barCount, logStats and logCount. Two letters fold to s and k, by which these words may be written as well.
var (
	barWords   = []string{" [", " •"}
	statWords  = []string{"loss", "lr", "acc", "psnr", "it/s", "s/it", "eta", "ppl", "reward", "grad", "samples/s", "tokens/s"}
	countWords = []string{"epoch", "iter", "step", "batch", "it", "update"}

	foldedLetters = []string{"ſ", "\u212a"}
)

// mayCount reports whether progressOf may find anything in a line with these marks: after a message about memory it is asked
// of every line until the program shows progress.
func mayCount(marks uint64) bool {
	return marks&markBar != 0 || marks&markStat != 0 && marks&markCount != 0
}

func progressOf(text string) (progress, bool) {
	if len(text) > 600 {
		text = text[:600]
	}
	if m := barCount.FindStringSubmatch(text); m != nil {
		n, err := strconv.ParseInt(digits(m[1]), 10, 64)
		return progress{true, true, n}, err == nil
	}
	if !logStats.MatchString(text) {
		return progress{}, false
	}
	m := logCount.FindStringSubmatch(text)
	if m == nil {
		return progress{}, false
	}
	n, err := strconv.ParseInt(digits(m[1]), 10, 64)
	return progress{false, stamped.MatchString(text), n}, err == nil
}

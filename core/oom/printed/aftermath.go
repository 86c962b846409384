package printed

import "strings"

// TrainedUp reports whether a line says that a training came to its end as planned.
func TrainedUp(line string) bool {
	return len(line) < 300 && finished.MatchString(line) && !Unfinished.MatchString(line)
}

var (
	// finished are those for the end of a training that went well.
	finished = rx(`(?i)\b(?:(?:fine-?)?tuning|training) (?:(?:run|job|loop) )?(?:(?:has|is|was) )?(?:now )?(?:finished|` +
		`completed?|done|over)\b|\b(?:finished|completed|done|end of) (?:the )?(?:(?:fine-?)?tuning|training)\b`)
	// Unfinished are words in such a line for a part of the training, or for an end before the planned one.
	Unfinished = rx(`(?i)\bepoch\b|\bstage\b|\bnot\b|error|fail|abort|crash|memory|exception|interrupt`)
)

var (
	// Recovered are the words of a program that goes on. They count only near a message.
	Recovered = rx(`(?i)attempting to recover|skipping (?:this |the )?(?:update|batch|step|sample|iteration)|` +
		`\bretry(?:ing)?\b.{0,40}\b(?:batch|iteration|step|with)|recover(?:y|ed) success|` +
		`trying (?:a )?(?:smaller )?batch size|(?:reducing|decreasing|halving|lowering|decreased) .{0,30}(?:batch|crop|` +
		`size|tile)|(?:falling back|fall back|switching) to\b.{0,40}(?:\bCPU\b|\bhost\b|smaller|lower|small|tile|tiling|` +
		`chunk|slow|split)|using CPU\b|continuing\b`)
	// ServerLines are lines of a server at the end or the beginning of a request: ComfyUI's main.py,
	// text-generation-webui's modules/text_generation.py, and an access log of it (Werkzeug's, uvicorn's). A page that
	// asks for the state of a job (GET) is answered whether that job has failed or not.
	ServerLines = rx(`\bPrompt executed in \d|\bgot prompt$|^Output generated in \d|` +
		`(?:\d:\d+ -|\]) "POST \S+ HTTP/\d`)
	// remarks are lines near a message that are not about it: warnings of other code, a logger's own trouble, and what a
	// person writes below a pasted text.
	remarks = rx(`\b\w*Warning\b|^wandb: |^\s*warnings\.warn|(?i:\b(?:I'm|I've|I'd|we|my|you|your|please|try|tried|` +
		`thanks?|hello|anyone|would|could|should|how|helps?|helped|works?|worked|solved?|fix(?:ed|es)?)\b|\bn[o']t help)|` +
		`\bI (?:[a-z]+)\b`)
	// Pasted is a line at which a pasted text ends: a fence of Markdown, or the head of the next comment.
	Pasted = rx("^\\s*(?:```|~~~)|^\\S+ · \\w+ · \\d{4}-\\d\\d-\\d\\d")
)

// Recovers reports whether a line says that the program goes on.
func Recovers(line string) bool {
	return len(line) < 300 && Recovered.MatchString(line) && !remarks.MatchString(line)
}

var (
	// loggedAt is the time at the head of a logger's record, in the formats that people configure, behind vLLM's or absl's
	// level.
	loggedAt = rx(`^(?:(?:\(\w+ pid=\d+\) )?(?:DEBUG|INFO|WARNING|ERROR) |[DIWE])?(\d\d-\d\d \d\d:\d\d:\d\d |` +
		`\d{4} \d\d:\d\d:\d\d\.\d+ |\[?(?:\d{4}[-/.]\d\d[-/.]\d\d|` +
		`\d\d[-/.]\d\d[-/.]\d{4})[ T,]+\d\d:\d\d:\d\d(?:[.,]\d+)?(?: [AP]M)?\]?:? )`)
	// Concluded are words for the end of a part of a program that went well.
	Concluded = rx(`(?i)\b(?:training|validation|evaluation|testing|inference|prediction|` +
		`export)\b(?: (?:is|was|has|run)){0,2} (?:finished|completed?|done)\b`)
	// Returned is what a notebook prints of a cell's last value, of which the class has no words of its own.
	Returned = rx(`^<(?:[a-z_]\w*\.)+[A-Z]\w* (?:object )?at 0x[0-9a-f]+>$`)
)

// LoggedAt is the time at the head of a logger's record, without its level.
func LoggedAt(line string) string {
	if m := loggedAt.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	return ""
}

// StampShape is a stamp with letters for its digits, so that stamps of one format are alike.
func StampShape(stamp string) string {
	return strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return 'd'
		}
		if c == 'A' || c == 'P' {
			return 'A' // of the hour's half
		}
		return c
	}, stamp)
}

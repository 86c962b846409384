package oom

import (
	"strconv"
	"strings"
)

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
	barWords  = []string{" [", " •"}
	statWords = []string{"loss", "lr", "acc", "psnr", "it/s", "s/it", "eta", "ppl", "reward", "grad", "samples/s",
		"tokens/s"}
	countWords = []string{"epoch", "iter", "step", "batch", "it", "update"}

	foldedLetters = []string{"ſ", "\u212a"}
)

// mayCount reports whether progressOf may find anything in a line with these marks: after a message about memory it is
// asked of every line until the program shows progress.
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

// digits strips what groups digits.
func digits(s string) string { return grouping.Replace(s) }

var (
	grouping = strings.NewReplacer(",", "", "_", "", " ", "")
	// barOf reads the bars of barCount, and of what they count to.
	barOf = rx(`(\d+)/(\d+) (?:\[\d+:\d\d|\d+:\d\d:\d\d •)`)
	// measured is a figure of merit that a training reports.
	measured = rx(`(?i)(?:loss|acc(?:uracy)?|psnr|ssim|dice|f1|auc|iou|score|perplexity|` +
		`ppl)["']?\s{0,2}[:=]?\s{0,2}\d+\.\d`)
)

package printed

import (
	"strconv"
	"strings"
)

// A progress is a counter that a training loop printed.
type Progress struct {
	Bar  bool // of a progress bar, which is written to standard error at once
	Live bool // not held in a buffer
	N    int64
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
	BarWords  = []string{" [", " •"}
	StatWords = []string{"loss", "lr", "acc", "psnr", "it/s", "s/it", "eta", "ppl", "reward", "grad", "samples/s",
		"tokens/s"}
	CountWords = []string{"epoch", "iter", "step", "batch", "it", "update"}

	FoldedLetters = []string{"ſ", "\u212a"}
)

// mayCount reports whether progressOf may find anything in a line with these marks: after a message about memory it is
// asked of every line until the program shows progress.
func MayCount(marks uint64) bool {
	return marks&MarkBar != 0 || marks&MarkStat != 0 && marks&MarkCount != 0
}

func ProgressOf(text string) (Progress, bool) {
	if len(text) > 600 {
		text = text[:600]
	}
	if m := barCount.FindStringSubmatch(text); m != nil {
		n, err := strconv.ParseInt(Digits(m[1]), 10, 64)
		return Progress{true, true, n}, err == nil
	}
	if !logStats.MatchString(text) {
		return Progress{}, false
	}
	m := logCount.FindStringSubmatch(text)
	if m == nil {
		return Progress{}, false
	}
	n, err := strconv.ParseInt(Digits(m[1]), 10, 64)
	return Progress{false, stamped.MatchString(text), n}, err == nil
}

// digits strips what groups digits.
func Digits(s string) string { return grouping.Replace(s) }

var (
	grouping = strings.NewReplacer(",", "", "_", "", " ", "")
	// barOf reads the bars of barCount, and of what they count to.
	BarOf = rx(`(\d+)/(\d+) (?:\[\d+:\d\d|\d+:\d\d:\d\d •)`)
	// measured is a figure of merit that a training reports.
	Measured = rx(`(?i)(?:loss|acc(?:uracy)?|psnr|ssim|dice|f1|auc|iou|score|perplexity|` +
		`ppl)["']?\s{0,2}[:=]?\s{0,2}\d+\.\d`)
)

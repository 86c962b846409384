package states

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
)

// A numbering is what the name of a state tells of its place among the others.
type numbering struct {
	known bool
	epoch int64 // 0 where the name has none beside the step
	step  int64
	shape string // the path without them, and without figures such as a loss
}

var (
	number = lazy.MustCompile(`\d+(?:\.\d+)*`)
	// wordBefore is the word that names a number: loss0.50, step=300, epoch_3.
	wordBefore = lazy.MustCompile(`([A-Za-z]+)[-_=: .]*-?$`)
	// ending is one with a number, which is no step: model.h5.
	ending = lazy.MustCompile(`\.[A-Za-z]{1,2}\d$`)

	steps  = lazy.MustCompile(`(?i)^(step|steps|globalstep|iter|iters|iteration|iterations|it|update|updates|kimg)$`)
	epochs = lazy.MustCompile(`(?i)^(epoch|epochs|ep|eph)$`)
	// figures are the words before a number that is a result, and no count of steps.
	figures = lazy.MustCompile(`(?i)^(loss|acc|accuracy|psnr|ssim|lpips|map|ap|auc|auroc|f|ppl|perplexity|bleu|rouge|wer` +
		`|cer|fid|iou|miou|score|metric|metrics|val|err|error|mae|mse|rmse|top|lr|dice|recall|precision|reward|return|nll` +
		`|kl|bpc|bpb|mrr|ndcg|elbo|best)$`)
)

// numberOf reads the numbers in a state's name. A decimal is a figure, as is a number with the name of one.
func numberOf(path string) (n numbering) {
	base := filepath.Base(path)
	end := len(base)
	if m := ending.FindStringIndex(base); m != nil {
		end = m[0]
	}
	var counts []count
	var shape strings.Builder
	last, figure := 0, false
	for _, at := range number.FindAllStringIndex(base[:end], -1) {
		text, word := base[at[0]:at[1]], ""
		if m := wordBefore.FindStringSubmatch(base[:at[0]]); m != nil {
			word = m[1]
		}
		if word != "" { // else it belongs to the number before it: top1-76
			figure = figures.MatchString(word)
		}
		v, err := strconv.ParseInt(text, 10, 64)
		c := count{value: v, epoch: epochs.MatchString(word), step: steps.MatchString(word)}
		switch {
		case err != nil || figure && !c.step && !c.epoch:
			shape.WriteString(base[last:at[0]] + "~")
		default:
			shape.WriteString(base[last:at[0]])
			c.from = shape.Len()
			shape.WriteString(text)
			c.to = shape.Len()
			counts = append(counts, c)
		}
		last = at[1]
	}
	shape.WriteString(base[last:])
	dir := filepath.Dir(path)
	return numbered(counts, filepath.Join(dir, shape.String()), len(filepath.Join(dir, "x"))-1)
}

// A count is a number in a name that is no figure.
type count struct {
	value       int64
	from, to    int // in the shape's base
	epoch, step bool
}

// numbered chooses which of the counts is the step: one that is named so, else the last. skip is where the base begins
// in the shape.
func numbered(counts []count, shape string, skip int) numbering {
	n := numbering{shape: shape}
	if len(counts) == 0 {
		return n
	}
	at := len(counts) - 1
	if i := slices.IndexFunc(counts, func(c count) bool { return c.step }); i >= 0 {
		at = i
	}
	n.known, n.step = true, counts[at].value
	for i, c := range slices.Backward(counts) {
		if i != at && !c.epoch {
			continue
		}
		if i != at && !counts[at].step {
			n.epoch = c.value
		}
		n.shape = n.shape[:skip+c.from] + "#" + n.shape[skip+c.to:]
	}
	return n
}

// chosen matches a name of a copy that a program keeps for its quality or its average: it is not the last that was
// written, or it lacks the optimizer.
var chosen = lazy.MustCompile(`(?i)(^|[^a-z])(best|ema|final|swa|averaged?|avg)([^a-z]|$)`)

// isChosen reports whether a state that a glob matches is such a copy, by the parts of its path that the glob leaves
// open.
func isChosen(path, glob string) bool {
	open, parts := strings.Split(filepath.Clean(glob), "/"), strings.Split(path, "/")
	parts = parts[max(0, len(parts)-len(open)):]
	for i, part := range parts {
		if strings.ContainsAny(open[i], `*?[`) && chosen.MatchString(part) {
			return true
		}
	}
	return false
}

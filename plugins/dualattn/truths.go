package dualattn

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/plugins/dualattn/arch"
)

// paper is the recipe that the project reproduces.
const paper = "DCAL (Zhu et al., CVPR 2022)"

// paperBatch is the paper's global batch for recognition; for re-identification it is 64.
func (x *checkout) paperBatch() int64 {
	if x.task == "reid" {
		return 64
	}
	return 16
}

// uses reports whether the script reads an argument: args.NAME.
func (x *checkout) uses(name string) bool {
	if x.train == nil {
		return true
	}
	_, _, ok := find(x.train, lazy.MustCompile(`\bargs\.`+name+`\b`))
	return ok
}

var (
	reScaled    = lazy.MustCompile(`self\.scaled_lr\s*=\s*([^\n]*)`)
	reLearning  = lazy.MustCompile(`config\.learning_rate\s*=\s*args\.lr`)
	reOptimizer = lazy.MustCompile(`lr\s*=\s*self\.config\.scaled_lr`)
	reNotYet    = lazy.MustCompile(`not implemented yet`)
	reHandled   = lazy.MustCompile(`self\.dataset_name\s*==\s*["'](\w+)["']`)
	reNoMAP     = lazy.MustCompile(`["']mAP["']\s*:\s*0\.0`)
	reWandb     = lazy.MustCompile(`(?m)^import wandb`)
	reBatchSet  = lazy.MustCompile(`config\.batch_size\s*=\s*args\.batch_size`)
)

// unjoined says that a launcher starts several processes of a trainer that makes no process group, or "".
func (x *checkout) unjoined() string {
	if slices.ContainsFunc(x.sources, func(s *config.PythonSource) bool { return bytes.Contains(s.Text, []byte("init_process_group")) }) {
		return ""
	}
	for _, l := range x.prog.Launchers {
		n, asks := l.PerNode(0)
		many := fmt.Sprintf("%d processes", n)
		if asks {
			many = "a process for each GPU"
		}
		if asks || n > 1 {
			return fmt.Sprintf("%s starts %s, and this trainer joins none: each trains everything by itself on the first GPU, which has to hold all of them, and all write the same saved states; one of them is what is planned", l.Name, many)
		}
	}
	return ""
}

// refuses is how a warning of a data set ends that the trainer refuses.
const refuses = "the trainer ends with code 1 before it trains"

// faults are those of the warnings at which the program will stop.
func (x *checkout) faults(warnings []string) (out []string) {
	for _, w := range warnings {
		if strings.HasSuffix(w, refuses) || x.unmapped && strings.HasPrefix(w, x.problem) {
			out = append(out, w)
		}
	}
	return out
}

// warnings are what the user should know before this run starts.
func (x *checkout) warnings() (out []string) {
	if why := x.prog.Refuses(); why != "" {
		out = append(out, why)
	}
	if why := x.unjoined(); why != "" {
		out = append(out, why)
	}
	if x.problem != "" {
		return append(out, x.problem+": nothing is changed, and what the job needs is not known")
	}
	warn := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if x.cut {
		warn("only the first %d files that the script imports were read", maxFiles)
	}
	on := x.class.bool("use_gradient_checkpointing")
	if w, _ := x.version.describe(on); w != "" {
		warn("%s", w)
	}
	if !x.version.known {
		warn("the model file %s (sha256 %.12s) is of a version that launch does not know: the step with three streams, which needs most, is taken for an upper bound, and refuses nothing", x.model.Path, x.model.SHA256)
	}
	x.warnBatch(warn)
	if !x.hasAccum && x.micro > 0 {
		warn("this version has no gradient_accumulation_steps: a smaller micro-batch would be another global batch, so none is offered")
	}
	if x.accum*x.micro > 0 && x.micro < 4 && x.task == "fgvc" {
		warn("as asked, at micro-batch %d: %s", x.micro, pairing(x.micro))
	}
	if x.argv.Has("--lr") && x.task == "fgvc" && has(x.train, reLearning) && has(x.train, reOptimizer) {
		at, _, _ := find(x.train, reLearning)
		warn("--lr does nothing for --task fgvc: it is set (%s) after the configuration derived scaled_lr, which the optimizer takes", at)
	}
	for _, flag := range []string{"resume", "debug", "num_workers"} {
		if x.argv.Has("--" + flag) {
			if !x.uses(flag) {
				warn("--%s is parsed and never read", flag)
			}
		}
	}
	if a, ok := x.argv.Get("--ablation"); ok && (a == "sa_only" || a == "sa_glca") && !x.reads("num_pwca_layers") {
		warn("--ablation %s still runs pair-wise cross-attention in every block: nothing reads num_pwca_layers", a)
	}
	x.warnPretrained(warn)
	if at, missing := x.notImplemented(); missing {
		warn("the data set %s is not implemented (%s): "+refuses, x.dataset, at)
	}
	if py := x.python(); py.Known() && !py.Has("wandb") {
		if at, _, ok := find(x.train, reWandb); ok {
			warn("the command's Python has no package wandb, which %s imports even without --wandb_project: pip install wandb, or the run ends at once", at)
		}
	}
	return out
}

var (
	rePretrained = lazy.MustCompile(`\bload_pretrained\w*\(`)
	reSavedState = lazy.MustCompile(`^checkpoint_\w+\.pth$`)
)

// warnPretrained says what becomes of weights that cannot be loaded: the trainer prints that they were not, and goes on
// from scratch, whatever require_pretrained says.
func (x *checkout) warnPretrained(warn func(string, ...any)) {
	path, given := x.argv.Get("--pretrained")
	if !given {
		path = x.class.text("pretrained_model")
	}
	if path == "" || !has(x.train, rePretrained) {
		return
	}
	at := path
	if !filepath.IsAbs(at) {
		at = filepath.Join(x.prog.Dir, at)
	}
	switch {
	case !exists(at):
		warn("the pretrained weights %s are not there: the trainer says so in one line and trains from scratch, whatever require_pretrained says", path)
	case reSavedState.MatchString(filepath.Base(path)):
		warn("--pretrained %s loads nothing: a state of this trainer keeps its weights under another key, and goes on from scratch", path)
	}
}

// warnBatch says what a global batch other than the paper's comes from.
func (x *checkout) warnBatch(warn func(string, ...any)) {
	global := x.micro * x.accum
	file := x.class.int("batch_size", 0)
	at, _, _ := find(x.train, reBatchSet)
	if unknown := x.argv.Unknown(); len(unknown) > 0 {
		warn("%s declares no option %s where launch could read it: argparse stops at what it does not know", x.prog.Script, strings.Join(unknown, ", "))
	}
	if v, ok := x.argv.Get("--batch_size"); ok && !x.batchFlag && v != "0" {
		warn("--batch_size %s is no whole number: argparse stops at it", v)
	} else if ok && !x.batchFlag {
		warn("--batch_size %s is ignored: the script tests it for truth, and the configuration's %d stands", v, x.micro)
	}
	switch {
	case global <= 0 || global == x.paperBatch():
	case x.batchFlag && x.micro != file:
		warn("--batch_size %d makes the global batch %d × %d = %d, not %d: it outranks the configuration's %d (%s), and there is no option for the accumulation, which stays %d. The learning rate stays that of %d",
			x.micro, x.micro, x.accum, global, x.paperBatch(), file, at, x.accum, file*x.accum)
	default:
		warn("the global batch is %d × %d = %d; %s trains at %d. It is kept as asked", x.micro, x.accum, global, paper, x.paperBatch())
	}
}

// pairing is how often the micro-batch's random pairing pairs an image with itself (train.py:475-486 at 6a4e6b6): the
// distractor of pair-wise cross-attention is then the image.
func pairing(micro int64) string {
	return fmt.Sprintf("in %d %% of micro-batches of %d an image is paired with itself, and pair-wise cross-attention then has no distractor; of 4 in 4 %%, from 8 on in none", selfPaired(micro), micro)
}

// selfPaired is the share of micro-batches in which an image is its own pair, in percent: a random permutation, of which
// each fixed point is swapped with its neighbour, one after the other. The larger ones are zero to the percent.
func selfPaired(n int64) int64 {
	if n < 1 || n >= 7 {
		return 0
	}
	total, paired := 0, 0
	perm := make([]int, n)
	for i := range perm {
		perm[i] = i
	}
	try := func() {
		p := append([]int(nil), perm...)
		for i, at := range perm {
			if i == at {
				j := (i + 1) % len(p)
				p[i], p[j] = p[j], p[i]
			}
		}
		total++
		for i, at := range p {
			if i == at {
				paired++
				return
			}
		}
	}
	var permute func(k int)
	permute = func(k int) {
		if k == len(perm) {
			try()
			return
		}
		for i := k; i < len(perm); i++ {
			perm[k], perm[i] = perm[i], perm[k]
			permute(k + 1)
			perm[k], perm[i] = perm[i], perm[k]
		}
	}
	permute(0)
	return int64(math.Round(100 * float64(paired) / float64(total)))
}

// notImplemented reports whether the project's loader refuses the data set, and where.
func (x *checkout) notImplemented() (at string, missing bool) {
	for _, s := range x.sources {
		c := code(s)
		loc := reNotYet.FindIndex(c)
		if loc == nil {
			continue
		}
		var handled []string
		for _, m := range reHandled.FindAllSubmatch(c, -1) {
			handled = append(handled, string(m[1]))
		}
		if strings.Contains(strings.ToLower(string(s.Text)), x.dataset) && len(handled) > 0 {
			missing = true
			at = place(s, loc[0])
			if slices.Contains(handled, x.dataset) {
				return "", false
			}
		}
	}
	return at, missing
}

// truths are where the project's guides, comments and flags are wrong, as far as this job is concerned.
func (x *checkout) truths() (out []string) {
	if x.problem != "" {
		return nil
	}
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	on := x.class.bool("use_gradient_checkpointing")
	_, hasFlag := x.class.field("use_gradient_checkpointing")
	if _, truth := x.version.describe(on); truth != "" && x.guided() && hasFlag {
		say("%s", truth)
	}
	if x.guided() {
		if x.task == "fgvc" {
			if x.class.computed(sizes...) == "" {
				x.sayTable(say)
			}
			x.sayRate(say)
		}
	}
	if it, ok := x.transformSize(); ok && x.resized(it) {
		say("input_size alone stops the training at an assertion: the transforms have sizes of their own (%s), so another input is two edits", place(x.transforms, it.Start))
	}
	if at, _, ok := find(x.train, reNoMAP); ok && x.task == "reid" {
		say("the validation of re-identification is a placeholder (%s): mAP is always 0, so no state is ever the best", at)
	}
	if x.version.loop == arch.LastPairs && x.version.known {
		say("each block overwrites the pair-wise cross-attention of the block before (%s): only the last block's reaches the loss, and the others are computed and thrown away", x.version.loopA)
	}
	return out
}

// resized reports whether the configuration asks for another input than the transforms write out.
func (x *checkout) resized(it config.PythonItem) bool {
	h, w, ok := x.class.pair("input_size")
	if !ok {
		return false
	}
	text := strings.Trim(string(it.Value), "[]() ")
	side, _, _ := strings.Cut(text, ",")
	n, err := strconv.ParseInt(strings.TrimSpace(side), 10, 64)
	return err == nil && (n != h || n != w)
}

// guided reports whether this is the project that the guides are of.
func (x *checkout) guided() bool {
	return filepath.Base(filepath.Dir(filepath.Dir(x.model.Path))) == upstream
}

// upstream is the package of clau_duaL_cross_attention_learning.
const upstream = "dual_cross_attention"

// The guide's table (MEMORY_OPTIMIZATION_GUIDE.md at 6d5161d): micro-batch, accumulation, gigabytes.
var guide = [...]struct {
	micro, accum int64
	says         string
}{{2, 8, "10-12"}, {4, 4, "14-15"}, {8, 2, "22-24"}, {16, 1, "40-45"}}

// sayTable puts the guide's table beside what this code needs at the paper's sizes: tensors, without the CUDA context
// and without what the allocator holds in reserve.
func (x *checkout) sayTable(say func(string, ...any)) {
	var rows []string
	vs := make([]variant, len(guide))
	for i, g := range guide {
		vs[i] = variant{micro: g.micro, accum: g.accum}
	}
	for i, e := range x.tensors(vs, true, func(s *arch.StepConfig) { s.LastVal = 0 }, mem.Tensors.Alone) {
		if !e.training.Known() || !e.validation.Known() {
			return
		}
		g := guide[i]
		rows = append(rows, fmt.Sprintf("%d × %d: %s GB, truly %.1f", g.micro, g.accum, g.says, float64(e.total())/1e9))
	}
	say("the table of MEMORY_OPTIMIZATION_GUIDE.md was never measured: with the flag on, its code of 6d5161d stops in the first backward. This code's tensors, without the CUDA context and the allocator's reserve: %s", strings.Join(rows, "; "))
}

// sayRate says which learning rate the code takes.
func (x *checkout) sayRate(say func(string, ...any)) {
	for _, s := range x.sources {
		if s.Class(x.class.name) == nil {
			continue
		}
		at, m, ok := find(s, reScaled)
		base := x.class.float("learning_rate", 0)
		batch := float64(x.class.int("batch_size", 0) * x.accum)
		switch {
		case !ok || base == 0 || batch == 0:
		case strings.Contains(m[1], "sqrt"):
			say("the learning rate is %.4g (%s: learning_rate × √(global batch / 16)), %.0f times the paper's %.4g = 5e-4 × 16 / 512", base*math.Sqrt(batch/16), at, base*math.Sqrt(batch/16)/1.5625e-5, 1.5625e-5)
		case strings.Contains(m[1], "512"):
			say("the learning rate is %.5g (%s: learning_rate × global batch / 512); OOM_FIX_SUMMARY.md's 1.5625e-4 is a slip", base*batch/512, at)
		}
		return
	}
}

// localShare is what the GLCA branch keeps of the training at micro-batch 4: saved tensors, and parameters with their
// gradients and optimizer states.
func (x *checkout) localShare() string {
	with := x.step(variant{micro: 4, accum: 4}, true)
	without := with
	with.LastVal, without.LastVal = 0, 0
	without.Net.Local = 0
	share := float64(arch.Kept(with)-arch.Kept(without)) / float64(max(arch.Training(with).Total(), 1))
	return fmt.Sprintf("%.1f %% at micro-batch 4", 100*share)
}

// generation names the version.
func (v version) generation() string {
	switch {
	case !v.known:
		return "unknown version"
	case v.loop == arch.LastPairs:
		return "the last block's pairs" + v.of()
	}
	return "three streams" + v.of()
}

func (v version) of() string {
	if v.name == "" {
		return ""
	}
	return " (" + v.name + ")"
}

// amp is the type that the training computes in.
func (x *checkout) amp(cpu bool) nn.DType {
	if x.class.bool("mixed_precision") && !cpu { // torch.cuda.amp is off where there is no CUDA
		return nn.F16
	}
	return nn.F32
}

package advice

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/unit"
)

// A sign is a kind of line: what it looks like, how many of them count, and within how many lines. Templates have
// "${N}" for the number of lines, and "${name}" for a group of the first one.
type sign struct {
	name   string
	weight job.Weight
	words  []string // one of these stands in every line that matches: found without the pattern
	also   []string // one of these, too; none: nothing more
	line   *lazy.Regexp
	unless *lazy.Regexp // a line that matches this as well does not count
	beside *lazy.Regexp // what a line may have besides; it is read without that
	heals  *lazy.Regexp // a line that matches this, and not line, shows the opposite; nil: none does
	least  int          // the bound
	window int          // the lines within which so many have to be; 0: the whole output
	// share, if not 0, is the bound on the sum of the group "part" over the sum of the group "whole". The first lines,
	// of a slow beginning, do not count.
	share  float64
	what   string
	change string
}

// Names of advice that more than one place knows.
const (
	FullCard     = "full-card"
	smallShm     = "small-shm"
	leakName     = "leak"
	hostLeakName = "host-leak"
	crowdedName  = "crowded"
	finite       = "stop it (Ctrl-C), and continue from an earlier saved state with a lower learning rate, " +
		"clipped gradients, or bf16 in place of fp16"
)

// warmUp is how many lines with a share are left out at the beginning: caches are cold, and kernels are chosen.
const warmUp = 5

// signs are those of Python, torch, and the forms in which most trainers print their meters.
var signs = []sign{
	{name: job.NotFinite, weight: job.Fails, words: []string{"nan", "NaN", "inf", "Inf"}, least: 3, window: 200,
		also: []string{"oss", "l_"},
		// "loss: nan", "l_g_pix=inf", "Loss nan (nan)", "'loss': nan"
		line: lazy.MustCompile(`(?i)(?:^|[^a-z])(?:[a-z0-9_./]*loss[a-z0-9_]*|l_[a-z0-9_]+)['"]?\s*[:=]?\s*(?:tensor\()?` +
			`[-+]?(?:nan|inf(?:inity)?)(?:$|[^a-z_-])`),
		unless: lazy.MustCompile(`(?i)best|lowest|minimum|min_|loss.?scal|overflow`),
		// what trainers print before the first validation, or before there is an earlier step
		beside: lazy.MustCompile(`(?i)(?:val|valid|validation|eval|evaluation|test|dev|prev|previous|last)[_./ ]?loss['"]?` +
			`\s*[:=]?\s*(?:tensor\()?\+?inf(?:inity)?`),
		heals: lazy.MustCompile(`(?i)(?:^|[^a-z])(?:[a-z0-9_./]*loss|l_[a-z0-9_]+)['"]?\s*[:=]?\s*(?:tensor\()?[-+]?\d`),
		what:  "the loss is no finite number (lines: ${N}): training goes on without a result", change: finite},
	{name: "workers", weight: job.Slow, words: []string{"This DataLoader will create"}, least: 1,
		// torch/utils/data/dataloader.py, _check_worker_number_rationality
		line: lazy.MustCompile(`This DataLoader will create (?P<asked>\d+) worker processes in total\. Our suggested max ` +
			`number of worker in current system is (?P<most>\d+)`),
		what:   "${asked} loader workers are more than the cores (${most}), and slow the training",
		change: "set {workers} to ${most} or less"},
	{name: "few-workers", weight: job.Slow, words: []string{"does not have many workers"}, least: 1,
		// lightning, trainer/connectors/data_connector.py
		line: lazy.MustCompile(`The '?(?P<loader>\w+)'? does not have many workers which may be a bottleneck.*num_workers=` +
			`(?P<most>\d+)`),
		what: "the loader ${loader} has too few workers", change: "set {workers} to ${most}"},
	{name: "slow-loader", weight: job.Slow, words: []string{"(data): ", "Data", "data_time: ", "data: "}, least: 20,
		share: 0.2,
		// "[time (data): 0.512 (0.204)]", "Time 0.51 (0.50) Data 0.20 (0.19)", "time: 0.51  data: 0.20", "data_time: 0.20
		// time: 0.51": each form has its own number at the names of its groups
		line: lazy.MustCompile(`time \(data\): (?P<whole1>\d+\.\d+) \((?P<part1>\d+\.\d+)\)|` +
			`\bTime\s+(?P<whole2>\d+\.\d+)\s*(?:\([^)]*\))?[\s,;|]*Data\s+(?P<part2>\d+\.\d+)|` +
			`\bdata_time: (?P<part3>\d+\.\d+).*?\btime: (?P<whole3>\d+\.\d+)|` +
			`\btime: (?P<whole4>\d+\.\d+).*?\bdata(?:_time)?: (?P<part4>\d+\.\d+)`),
		what: "the training waits for data ${share} % of the time", change: "raise {workers} (there are {cores}), or read " +
			"from a faster disk"},
	{name: smallShm, weight: job.Fails, words: []string{"shm"}, least: 1,
		// torch/utils/data/_utils/signal_handling.py; aten/src/ATen/MapAllocator.cpp
		line: lazy.MustCompile(`insufficient shared memory \(shm\)|unable to (?:write to|open|resize|allocate) (?:shared ` +
			`memory object|file) </torch_\w+>.*(?:No space left|ENOSPC|\(28\))|unable to write to file </torch_`),
		what:   "/dev/shm is too small for the batches of the loader workers",
		change: "docker run --shm-size 8g …, or fewer workers in {workers}; launch doctor has its size"},
	{name: "plan-failed", weight: job.Slow, words: []string{"Plan failed with"}, least: 1,
		// aten/src/ATen/native/cudnn/Conv_v8.cpp
		line:   lazy.MustCompile(`UserWarning: Plan failed with an? (?P<error>[\w:]+)`),
		what:   "cuDNN's best algorithm did not run (${error}), often for lack of memory: a slower one did",
		change: "leave the card more room: launch plan -- COMMAND lists milder changes"},
	{name: "unused-parameters", weight: job.Slow, words: []string{"find_unused_parameters"}, least: 1,
		// torch/csrc/distributed/c10d/reducer.cpp
		line: lazy.MustCompile(`find_unused_parameters=True was specified in DDP constructor, but did not find any unused ` +
			`parameters`),
		what:   "DistributedDataParallel searches the graph in every step, and finds nothing",
		change: "set find_unused_parameters to false"},
	{name: "tf32", weight: job.Slow, words: []string{"set_float32_matmul_precision"}, least: 1,
		line: lazy.MustCompile(`(?:tensor cores for float32 matrix multiplication available but not enabled|that has ` +
			`Tensor Cores\. To properly utilize them).*set_float32_matmul_precision\(`),
		what:   "float32 products do not use the card's tensor cores",
		change: "torch.set_float32_matmul_precision('high') before the training: it rounds the factors to TF32"},
	{name: "scheduler-order", weight: job.Tidy, words: []string{"lr_scheduler.step()"}, least: 1,
		line: lazy.MustCompile("Detected call of `lr_scheduler\\.step\\(\\)` before `optimizer\\.step\\(\\)`"),
		what: "the learning rate's schedule skips its first value",
		change: "call optimizer.step() before lr_scheduler.step(); after one skipped step of a gradient scaler it is " +
			"harmless"},
	{name: "not-optimized", weight: job.Tidy, words: []string{"will not be optimized"}, least: 1,
		line:   lazy.MustCompile(`(?i)\bparam(?:eter)?s?:? ['"]?(?P<first>[\w.]+)['"]? will not be optimized`),
		what:   "parameters will not be optimized (lines: ${N}; ${first} …): expected where they are frozen",
		change: "if they are not frozen on purpose: requires_grad_(True), and pass them to the optimizer"},
	{name: "deprecated", weight: job.Tidy, words: []string{"Warning: "}, least: 1,
		// as the module warnings prints them (Lib/warnings.py, formatwarning): "file.py:7: FutureWarning: text"
		line:   lazy.MustCompile(`\.pyx?:\d+: (?:\w*Deprecat\w*|Future|PendingDeprecation)Warning: (?P<text>.{8,})`),
		what:   "what a later version removes is in use (lines: ${N})",
		change: "follow the warning; PYTHONWARNINGS=error::FutureWarning stops at the line that causes it"},
}

// Text is what the signs have found in an output. It is written as the output arrives: a line ends with a line break or
// a carriage return, as of a progress bar. Its methods may be called from several goroutines.
type Text struct {
	mu    sync.Mutex
	lines int
	found []found // by sign
	part  []byte  // of a line that has not ended
	left  int     // how many bytes are still read
}

// mostRead bounds, in bytes, how much of an output is read: what is there to advise has been printed by then.
const mostRead = 64 << 20

// NewText returns the text of an output of which nothing was read.
func NewText() *Text { return &Text{found: make([]found, len(signs)), left: mostRead} }

// found are the lines that match one sign.
type found struct {
	count       int
	tried       int               // lines that were compared with the pattern
	first       string            // the line
	groups      map[string]string // of the first line
	recent      []int             // numbers of the last lines, as many as the bound
	reached     bool              // the bound, within the window
	row         int               // lines since one that shows the opposite
	part, whole float64
}

const (
	// maxLine bounds, in bytes, what is read of a line.
	maxLine = 8 << 10
	// mostCounted lines are enough for a sign: a mean does not change any more.
	mostCounted = 1000
	// mostTried lines are compared with one pattern, at 2 µs each.
	mostTried = 200_000
)

// Write reads the next part of the output. It never fails.
func (t *Text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	p = p[:min(len(p), t.left)]
	t.left -= len(p)
	end := max(bytes.LastIndexByte(p, '\n'), bytes.LastIndexByte(p, '\r')) + 1
	if len(t.part) > 0 && (end > 0 || len(t.part)+len(p) > maxLine) {
		first := bytes.IndexAny(p, "\r\n") + 1
		if first == 0 {
			first = len(p)
		}
		t.block(append(t.part, p[:first]...))
		t.part, p, end = t.part[:0], p[first:], max(0, end-first)
	}
	t.block(p[:end])
	t.part = append(t.part, p[end:]...)
	if len(t.part) > maxLine {
		t.block(t.part)
		t.part = nil
	}
	return n, nil
}

// End reads the last line, which has no line break.
func (t *Text) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.block(t.part)
	t.part = nil
}

// block takes whole lines. Most have none of the words of signs, and are not cut into lines. mu is held.
func (t *Text) block(text []byte) {
	if !t.may(text) && !t.healing() {
		t.lines += bytes.Count(text, []byte{'\n'}) + bytes.Count(text, []byte{'\r'})
		return
	}
	for len(text) > 0 {
		end := bytes.IndexAny(text[:min(len(text), maxLine)], "\r\n")
		switch {
		case end >= 0:
			t.line(text[:end])
			text = text[end+1:]
		default: // the last line, or a part of a long one
			n := min(len(text), maxLine)
			t.line(text[:n])
			text = text[n:]
		}
	}
}

// may reports whether a sign that still counts may be in a text.
func (t *Text) may(text []byte) bool {
	for i := range signs {
		if t.found[i].counts() && signs[i].may(text) {
			return true
		}
	}
	return false
}

// healing reports whether a line may show the opposite of a sign.
func (t *Text) healing() bool {
	return slices.ContainsFunc(t.found, func(f found) bool { return f.healing() })
}

func (f *found) healing() bool { return f.row > 0 && f.count < mostCounted }

// healed reports whether the output shows the opposite of a sign since long before its end.
func (f *found) healed(s sign, lines int) bool {
	return s.heals != nil && f.row == 0 && lines-f.recent[len(f.recent)-1] >= s.window
}

// counts reports whether a further line would matter.
func (f *found) counts() bool { return f.count < mostCounted && f.tried < mostTried }

func (s *sign) may(text []byte) bool {
	return holdsOne(text, s.words) && (len(s.also) == 0 || holdsOne(text, s.also))
}

func holdsOne(text []byte, words []string) bool {
	for _, w := range words {
		if bytes.Contains(text, []byte(w)) {
			return true
		}
	}
	return false
}

var coloured = lazy.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]`)

// line takes one line.
func (t *Text) line(raw []byte) {
	t.lines++
	t.heal(raw)
	if !t.may(raw) {
		return
	}
	text := string(raw)
	if strings.Contains(text, "\x1b") {
		text = coloured.ReplaceAllString(text, "")
	}
	for i := range signs {
		s := &signs[i]
		if !t.found[i].counts() || !s.may(raw) {
			continue
		}
		t.found[i].tried++
		text := text
		if s.beside != nil {
			text = s.beside.ReplaceAllString(text, "")
		}
		m := s.line.FindStringSubmatch(text)
		if m == nil || s.unless != nil && s.unless.MatchString(text) {
			continue
		}
		t.found[i].add(s, text, named(s.line, m), t.lines)
	}
}

// heal notes a line that shows the opposite of a sign which was seen. It costs nothing before a sign was seen.
func (t *Text) heal(raw []byte) {
	for i := range signs {
		s, f := &signs[i], &t.found[i]
		if !f.healing() || s.heals == nil || !s.heals.Match(raw) || s.in(raw) {
			continue
		}
		f.row = 0
	}
}

// in reports whether a line has the sign.
func (s *sign) in(line []byte) bool {
	if s.beside != nil {
		line = s.beside.ReplaceAll(line, nil)
	}
	return s.line.Match(line)
}

// named are the groups of a match that are not empty.
func named(re *lazy.Regexp, m []string) map[string]string {
	groups := map[string]string{}
	for i, name := range re.SubexpNames() {
		if name != "" && m[i] != "" {
			groups[strings.TrimRight(name, "0123456789")] = m[i]
		}
	}
	return groups
}

func (f *found) add(s *sign, text string, groups map[string]string, number int) {
	f.count++
	f.row++
	if f.count == 1 {
		f.first, f.groups = strings.TrimSpace(text), groups
	}
	if s.share > 0 && f.count > warmUp {
		part, bad := strconv.ParseFloat(groups["part"], 64)
		whole, worse := strconv.ParseFloat(groups["whole"], 64)
		if bad == nil && worse == nil && part <= whole {
			f.part, f.whole = f.part+part, f.whole+whole
		}
	}
	f.recent = append(f.recent[max(0, len(f.recent)-s.least+1):], number)
	if len(f.recent) == s.least && (s.window == 0 || number-f.recent[0] < s.window) {
		f.reached = true
	}
}

// unbroken reports whether a sign has been unbroken up to now: as many lines as its bound asks, with no line between
// that shows the opposite.
func (t *Text) unbroken(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(signs, func(s sign) bool { return s.name == name })
	return t.found[i].reached && t.found[i].row >= signs[i].least
}

// advice returns the advice of the signs that have reached their bound.
func (t *Text) advice() (out []job.Advice) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, s := range signs {
		f := t.found[i]
		if !f.reached || s.share > 0 && (f.whole == 0 || f.part < s.share*f.whole) || f.healed(s, t.lines) {
			continue
		}
		fill := func(template string) string {
			return os.Expand(template, func(name string) string {
				switch name {
				case "N":
					return strconv.Itoa(f.count)
				case "share":
					return fmt.Sprintf("%.0f", 100*f.part/f.whole)
				}
				return f.groups[name]
			})
		}
		out = append(out, job.Advice{Name: s.name, Weight: s.weight, What: fill(s.what), Change: fill(s.change),
			Evidence: []string{unit.Clip(f.first, 200)}})
	}
	return out
}

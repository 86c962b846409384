package moco

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/plugins/moco/arch"
)

// Lines of progress. facebookresearch's meters (ProgressMeter.display: main_moco.py:402 at 7397dfe, :387 at c349e6e);
// tqdm's bar under the names that solar-ssl gives it (train_moco.py:202 at d3649f9, :331 at 023a7ec), which is drawn
// once before anything was trained.
const (
	lineMeters = `Epoch: \[\d+\]\[\s*(?P<iteration>\d+)/\d+\]\s+Time`
	lineBar    = `Epoch \[\d+(?:/\d+)?\]:.*\|\s*(?P<iteration>[1-9]\d*)/\d+ \[`
	// The mean loss of the epoch so far, and the epoch: iterations begin again with each. Nothing else is measured while
	// they train: linear accuracy comes from programs of its own (main_lincls.py).
	lossMeters = `Epoch: \[(?P<step>\d+)\]\[.*\sLoss ` + metric.Number + ` \((?P<value>` + metric.Number + `)\)`
	lossBar    = `Epoch \[(?P<step>\d+)\]:.* loss=(?P<value>` + metric.Number + `), lr=`
	lossEpoch  = `^\[Epoch (?P<step>\d+)/\d+\]\s+avg_loss=(?P<value>` + metric.Number +
		`)` // at 023a7ec, whose bar has the step's
)

// searches is a line that turns cudnn.benchmark on (main_moco.py:254 at c349e6e, src/training/train_moco.py:183 at
// 023a7ec).
var searches = lazy.MustCompile(`cudnn\.benchmark\s*=\s*(?:True|not )`)

// signs are the words of the family's trainers.
//
// Zero visible GPUs and mp.spawn make a run that exits 0 and has trained nothing: a success needs a line of progress.
// None of them prints its batch, so there is nothing to confirm it by; the "VRAM ESTIMATE" of solar-ssl's settings are
// literals.
func (p *project) signs() job.Signs {
	progress, losses := lineMeters, []string{lossMeters}
	if p.solar != nil {
		progress, losses = lineBar, []string{lossBar, lossEpoch}
	}
	s := job.Signs{
		Lines: []job.Sign{
			{Kind: job.Progress, Pattern: progress},
			{Kind: job.Succeeded, Pattern: progress},
			{Kind: job.Resumed, Pattern: `=> loaded checkpoint '(?P<path>[^']*)' \(epoch (?P<iteration>\d+)`},
			{Kind: job.SavedState, Pattern: `=> saved new best checkpoint \(epoch (?P<iteration>\d+)`},
		},
		MustSucceed: true,
		TakesArgv:   p.solar == nil, // argparse, and nothing sets args afterwards but the division by the ranks (main_moco.py:182 at 7397dfe)
		CountsMicro: p.accumulation.live(),
		Codes:       map[int]string{0: "also where mp.spawn found no GPU and started nothing"},
	}
	for _, pattern := range losses {
		s.Lines = append(s.Lines, job.Sign{Kind: job.Metric, Name: "loss", Direction: metric.Minimise, Pattern: pattern})
	}
	s.Checks = p.checks()
	// facebookresearch's, solar-ssl's
	for _, rel := range []string{filepath.Base(p.script), "src/training/train_moco.py"} {
		s.Benchmark = s.Benchmark || readText(filepath.Join(p.root, rel)).Has(searches)
	}
	if states := p.states(); len(states) > 0 {
		s.States = states
	}
	if p.solar == nil {
		s.StateIteration = `^checkpoint_(?P<iteration>\d+)\.pth\.tar$`
	}
	return s
}

// checks is what the end of a run should show. The loss is a cross entropy, which is 0 or more; where nothing is
// learned it stays at the logarithm of the number of keys. The accuracies are those of the contrastive task, in percent
// (main_moco.py:402 at 7397dfe); v3 and solar-ssl print none.
func (p *project) checks() []job.Check {
	zero, hundred := 0.0, 100.0
	last := `Epoch: \[(?P<step>\d+)\]\[.*\sLoss (?P<value>` + metric.Number + `) \(`
	if p.solar != nil {
		last = `Epoch \[(?P<step>\d+)(?:/\d+)?\]:.* loss=(?P<value>` + metric.Number + `),`
	}
	all := []job.Check{
		{Name: "the loss is plausible", Pattern: last, Rule: job.Within, Min: &zero, Last: 1},
		{Name: "the loss moves", Pattern: last, Rule: job.Moving,
			Hint: "the learning rate and the mixed precision: a gradient scaler that skips every step leaves the loss as it " +
				"was"},
	}
	if p.solar == nil && p.step == arch.V2 {
		all = append(all, job.Check{Name: "the accuracy of the contrastive task is plausible", Rule: job.Within, Min: &zero,
			Max: &hundred, Last: 1, Pattern: `\sAcc@1\s+` + metric.Number + ` \(\s*(?P<value>` + metric.Number + `)\)`})
	}
	return all
}

// states are the files that a resume reads, as globs. facebookresearch's lie where the command runs.
func (p *project) states() []string {
	dir := file.EscapeGlob(p.prog.Dir)
	switch {
	case p.solar == nil:
		return []string{filepath.Join(dir, "checkpoint_*.pth.tar")}
	case !p.resume.found:
		return nil
	}
	folder, ok := p.checkpointDir()
	if !ok {
		return nil
	}
	folder = file.EscapeGlob(folder)
	return []string{filepath.Join(folder, "last.pth"), filepath.Join(folder, "best.pth")}
}

// resumes reports whether the command as typed goes on from a saved state.
func (p *project) resumes() bool { return p.resume.found && !p.resume.left && p.resume.value != "" }

// resumable reports whether a run of it can be gone on with.
func (p *project) resumable() bool { return p.resume.found }

// resumption is how the same command goes on after a failure.
func (p *project) resumption() job.Resume {
	if p.resume.found {
		e := config.Edit{Knob: "resume", At: p.resume.at, To: job.SavedPath, Add: true, Cost: ladder.None.String(), Why: "goes on from the last saved state"}
		if !p.resume.left {
			e.From, e.Add = p.resume.value, false
		}
		return job.Resume{Edits: []config.Edit{e}, Always: p.freshPort(), OnCard: p.solar == nil && !p.resumes()} // the price of a command that resumes as typed has it
	}
	r := job.Resume{Always: p.freshPort(), None: "this state of " + p.dialect + " has no --resume, and load_checkpoint is never called: a retry starts over at epoch 0, whatever its guides say"}
	if folder, ok := p.experiment(); ok {
		folder = file.EscapeGlob(folder)
		r.Aside = []string{filepath.Join(folder, "last.pth"), filepath.Join(folder, "best.pth")}
	}
	return r
}

// reLocal is an address on this machine with a port of its own.
var reLocal = lazy.MustCompile(`^(tcp://(?:localhost|127\.0\.0\.1|\[::1\]):)\d+$`)

// freshPort is the edit by which a retry on one machine meets at another port: what the attempt before has left behind may
// still listen on the old one (errno 98).
func (p *project) freshPort() []config.Edit {
	url := p.flag("rendezvous", "--dist-url")
	m := reLocal.FindStringSubmatch(url.value)
	if !p.spawns || p.nodes != 1 || m == nil {
		return nil
	}
	e := config.Edit{Knob: url.name, At: url.at, From: url.value, To: m[1] + job.FreePort, Cost: ladder.None.String(), Why: "a port that nothing of the attempt before can hold"}
	if url.left {
		e.From, e.Add = "", true
	}
	return []config.Edit{e}
}

// exclusive is the folder that two runs must not share.
func (p *project) exclusive() string {
	if p.solar == nil {
		return p.prog.Dir
	}
	if p.resume.found {
		dir, _ := p.checkpointDir()
		return dir
	}
	dir, _ := p.experiment()
	return dir
}

// checkpointDir is the settings' checkpoint_dir. An f-string of other fields is put together as Python would.
func (p *project) checkpointDir() (string, bool) {
	it, path, ok := p.field("checkpoint_dir")
	if !ok {
		return "", false
	}
	value := literal(it, p.source(path).Text)
	if !it.Literal {
		if value, ok = p.format(value); !ok {
			return "", false
		}
	}
	return file.In(p.prog.Dir, value), true
}

var (
	reFString = lazy.MustCompile(`^[fF](["'])(.*)["']$`)
	reBraces  = lazy.MustCompile(`\{(?:self\.)?(\w+)\}`)
	reTag     = lazy.MustCompile(`def\s+get_experiment_tag\([^\n]*\n((?:[ \t]+[^\n]*\n?|[ \t]*\n)*)`)
	reReturn  = lazy.MustCompile(`(?m)^\s*return\s+(f["'][^\n]*["'])\s*$`)
	reProduct = lazy.MustCompile(`(?m)^\s*(\w+)\s*=\s*((?:self\.\w+|\d+)(?:\s*\*\s*(?:self\.\w+|\d+))*)\s*(?:#[^\n]*)?$`)
	reShort   = lazy.MustCompile(`(?m)^\s*(\w+)\s*=\s*["']([^"']*)["']\s+if\s+["']([^"']*)["']\s+in\s+self\.backbone\s+else\s+self\.backbone\.replace\(\s*["']([^"']*)["']\s*,\s*["']([^"']*)["']\s*\)`)
)

// format puts an f-string together whose braces hold nothing but fields. ok is false for any other.
func (p *project) format(spelled string, more ...map[string]string) (string, bool) {
	m := reFString.FindStringSubmatch(strings.TrimSpace(spelled))
	if m == nil {
		return "", false
	}
	ok := true
	out := reBraces.ReplaceAllStringFunc(m[2], func(b string) string {
		name := reBraces.FindStringSubmatch(b)[1]
		for _, known := range more {
			if v, is := known[name]; is {
				return v
			}
		}
		it, path, found := p.field(name)
		if !found || !it.Literal {
			ok = false
			return ""
		}
		return pythonString(literal(it, p.source(path).Text))
	})
	return out, ok && !strings.ContainsAny(out, "{}")
}

// experiment is the folder that a run of solar-ssl's main saves into: checkpoint_dir and the tag, which is made after the
// worker has divided the batch. A split at the same global batch has the same tag, and so overwrites.
func (p *project) experiment() (string, bool) {
	dir, ok := p.checkpointDir()
	if !ok || p.micro == 0 || p.solar.unread != "" {
		return "", false
	}
	body := reTag.FindStringSubmatch(string(p.source(p.solar.config).Text))
	if body == nil {
		return "", false
	}
	known := map[string]string{}
	for _, m := range reShort.FindAllStringSubmatch(body[1], -1) {
		known[m[1]] = strings.ReplaceAll(p.named, m[4], m[5])
		if strings.Contains(p.named, m[3]) {
			known[m[1]] = m[2]
		}
	}
	for _, m := range reProduct.FindAllStringSubmatch(body[1], -1) {
		if v, ok := p.product(m[2]); ok {
			known[m[1]] = v
		}
	}
	known["batch_size"] = itoa(p.micro)
	ret := reReturn.FindStringSubmatch(body[1])
	if ret == nil {
		return "", false
	}
	tag, ok := p.format(ret[1], known)
	return filepath.Join(dir, tag), ok
}

// product is a product of fields and numbers, of the batch as the worker has divided it.
func (p *project) product(expression string) (string, bool) {
	n := int64(1)
	for _, factor := range strings.Split(expression, "*") {
		factor = strings.TrimSpace(factor)
		field, is := strings.CutPrefix(factor, "self.")
		switch {
		case !is:
			n *= knob{value: factor}.int()
		case field == "batch_size":
			n *= p.micro
		default:
			k := p.setting("", field)
			if !k.found || k.int() == 0 {
				return "", false
			}
			n *= k.int()
		}
	}
	return itoa(n), true
}

// rehearsal is how the command is shortened to some steps that leave nothing behind. A state is saved after an epoch, which
// nothing shortens; it takes nothing of a card. There is no validation.
func (p *project) rehearsal() job.Rehearsal {
	steps := 4*p.accumulate() + 2 // optimizer states come with the first step, later where the scaler skips some
	if p.solar == nil {
		return p.rehearseFacebook(steps)
	}
	if p.resumes() {
		return job.Rehearsal{None: "the command goes on from a saved state, so a shorter training would end before it begins"}
	}
	out := job.Rehearsal{}
	short := func(k knob, value any) {
		if out.None != "" {
			return
		}
		if e, err := p.edit(k, value, ladder.None.String(), "a short run"); err != nil {
			out.None = err.Error()
		} else {
			out.Edits = append(out.Edits, e)
		}
	}
	saves, data := p.setting("experiment", "checkpoint_dir"), p.setting("data", "dataset_path")
	dir, known := p.checkpointDir()
	switch {
	case saves.live():
		short(saves, job.Scratch)
	case !saves.found || !known:
		return job.Rehearsal{None: "where it saves is not a setting of its own (checkpoint_dir) that could be read"}
	case !p.relative("checkpoint_dir"):
		return job.Rehearsal{None: "it saves into " + dir + ", which no setting of its own changes"}
	case !data.live():
		return job.Rehearsal{None: "it saves where it is started, and elsewhere it would not find its images: the settings have no dataset_path of their own"}
	default:
		out = p.away()
		if !filepath.IsAbs(data.value) {
			short(data, file.In(p.prog.Dir, data.value))
		}
	}
	if epochs := p.setting("epochs", "epochs"); epochs.live() {
		short(epochs, int64(1))
	} else if out.None == "" {
		out.None = "the settings have no epochs of their own that could be set"
	}
	if k := p.flag("warm-up", "--warmup-epochs"); k.found { // must be less than the epochs (train_moco.py:118 at 023a7ec)
		short(k, int64(0))
	}
	if out.None != "" {
		return job.Rehearsal{None: out.None}
	}
	out.Steps = steps
	return out
}

// rehearseFacebook rehearses facebookresearch's programs, which save into the folder that they are started in, and moco-v3
// makes a new one in its runs/ at every start (main_moco.py:233 and :310 at c349e6e).
func (p *project) rehearseFacebook(steps int64) job.Rehearsal {
	every := p.flag("progress interval", "--print-freq")
	if !every.found {
		return job.Rehearsal{None: "its progress cannot be followed step by step: it has no --print-freq"}
	}
	dirs := p.argv.Positionals()
	if len(dirs) == 0 {
		return job.Rehearsal{None: "it saves where it is started, and its images are not named on the command line"}
	}
	if p.resumes() && !filepath.IsAbs(p.resume.value) {
		return job.Rehearsal{None: "it is rehearsed in another folder, where --resume " + p.resume.value + " would not be found: give it an absolute path"}
	}
	out := p.away(dirs[len(dirs)-1])
	if out.None != "" {
		return out
	}
	short := []knob{every}
	if epochs := p.flag("epochs", "--epochs"); epochs.found && !p.resumes() && !p.argv.Has("--start-epoch") {
		short = append(short, epochs)
	} else if its := p.iterations(p.micro); !p.cut && p.images > 0 && its <= steps {
		return job.Rehearsal{None: "it begins at a later epoch, and none is long enough to be ended within"}
	}
	for _, k := range short {
		e, err := p.edit(k, int64(1), ladder.None.String(), "a short run")
		if err != nil {
			return job.Rehearsal{None: err.Error()}
		}
		out.Edits = append(out.Edits, e)
	}
	out.Steps = steps
	return out
}

// away is a rehearsal in a folder of launch's own. read are arguments of the program that name what it reads.
func (p *project) away(read ...string) job.Rehearsal {
	c := &p.prog
	if c.Shell || c.Kind != command.Script || c.Dir != p.command.Dir || len(c.Launchers) > 0 || c.First < 1 || c.Argv[c.First-1] != c.Script ||
		slices.ContainsFunc(c.Through, func(name string) bool {
			return !strings.Contains(" env nice nohup time stdbuf taskset numactl ", " "+name+" ")
		}) ||
		slices.ContainsFunc(c.Env, func(kv string) bool { return strings.HasPrefix(kv, "PYTHONPATH=") }) {
		return job.Rehearsal{None: "it writes where it is started, and only a plain \"python " + filepath.Base(c.Script) + " …\" can be started elsewhere"}
	}
	out := job.Rehearsal{Away: true, Paths: []int{c.First - 1}}
	if i := c.InterpreterAt; i >= 0 && strings.Contains(c.Interpreter, "/") {
		out.Paths = append(out.Paths, i)
	}
	for _, name := range read {
		at := -1
		for i, arg := range c.Args {
			if arg == name && at >= 0 {
				return job.Rehearsal{None: "which of the arguments " + name + " is its data set is not certain"}
			}
			if arg == name {
				at = i
			}
		}
		if at < 0 {
			return job.Rehearsal{None: "where the command says " + name + " is not certain"}
		}
		out.Paths = append(out.Paths, c.First+at)
	}
	for _, kv := range p.command.Env {
		name, value, _ := strings.Cut(kv, "=")
		if name != "PYTHONPATH" || value == "" {
			continue
		}
		folders := filepath.SplitList(value)
		for i, f := range folders {
			folders[i] = file.In(c.Dir, f)
		}
		if to := strings.Join(folders, string(filepath.ListSeparator)); to != value {
			out.Edits = append(out.Edits, config.Edit{Knob: "module path", At: config.Address{Doc: config.EnvDoc, Path: name}, From: value, To: to, Cost: ladder.None.String(), Why: "it is started in another folder"})
		}
	}
	return out
}

// relative reports whether a field of the settings is certainly a relative path.
func (p *project) relative(field string) bool {
	it, path, ok := p.field(field)
	if !ok {
		return false
	}
	value := literal(it, p.source(path).Text)
	if !it.Literal {
		value, ok = p.format(value)
	}
	return ok && value != "" && !filepath.IsAbs(value)
}

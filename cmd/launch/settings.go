package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/formula"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/notice"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/screen"
	"github.com/launch-ml/launch/core/unit"
)

// settings are launch's own. A flag outranks LAUNCH_*, which outranks the project's .launch.yaml, which outranks the
// user's file. The recipe of a job is never read or written this way.
type settings struct {
	room.Wish

	claim *room.Claim // what this launch holds of host memory; nil: nothing
	hold  *room.Hold  // what it holds of its cards; nil: nothing

	Wait time.Duration // for room: 0 not at all, negative without a limit

	Allow    ladder.Cost
	Plugin   string // "auto", "none" or a name
	AsAsked  bool
	Fill     bool
	Fast     bool // with Fill: by trials of a few sizes
	Rehearse bool
	Inside   bool     // the program's Python processes report their memory
	Set      []string // KEY=VALUE: settings of the job that the user asks for beside its recipe
	GPUs     int      // how many cards the command would see; 0: this machine's, or one with VRAM
	Anyway   bool
	Accept   bool // go on with a run that is no longer what it began as
	// AllowTyped: Allow is what the user wants now, be it lower than before, and no default.
	AllowTyped bool
	Continue   bool // the last run of the same command, if it has not succeeded
	TTY        bool
	Quiet      bool
	Verbose    bool
	JSONFile   string
	Shows      screen.Shows   // what the terminal shows of the progress
	Notify     []notice.Place // where a notice is sent when the run ends or stops
	// NotifyHost: notices have the name of this machine.
	NotifyHost bool
	Cards      []plannedCard    // of --vram, if it names several; then VRAM is 0
	Bars       string           // of plans: "auto", "always" or "never"
	Nodes      string           // HOST:PORT, where the launches of several machines meet; "": there is one
	ThisNode   string           // "I/N": which machine this is; "": by the command or the environment
	State      string           // folder of the runs
	Grace      time.Duration    // 0: no limit
	Leave      []attempt.Notice // signals on which the program saves its state and stops
	// Row is the mark of the start of a sweep's row that this launch is, and RowEnv the variables that the row sets.
	Row    string
	RowEnv []string
	Yield  bool // a sweep runs this trial again if it runs out of memory beside another launch
	Sample time.Duration
	// FormulaTime is how long the formulas of a plugin may take; 0: none is run.
	FormulaTime time.Duration
	// Trace is how long a trace of the script may take; 0: none is made.
	Trace    time.Duration
	Receipts bool // correct estimates by earlier receipts
	Prune    bool // remove old records after a run
	Expects  bool // the user set something that has an effect only on a recognised job

	// Notes are warnings about the settings files, to be printed once.
	Notes []string
	// AsTyped is why launch changes nothing of the training: a settings file is not trusted, or cannot be read, and it
	// might hold "allow: none". "" if every file was taken.
	AsTyped string

	from    map[string]string // how errors name each setting that no flag set: its variable, or its line in a file
	project map[string]bool   // settings from a project's file
	runs    bool              // the command is run, and not only looked at
}

// Name is how errors name a setting: "--grace", "LAUNCH_GRACE", "grace in FILE".
func (s settings) Name(key string) string { return cmp.Or(s.from[key], "--"+key) }

// Value is Name with the setting's value.
func (s settings) Value(key, value string) string {
	if s.from[key] == "" {
		return "--" + key + " " + value
	}
	return fmt.Sprintf("%s (%s)", s.from[key], value)
}

// addFlags declares the settings and their defaults.
func addFlags(f *pflag.FlagSet) {
	f.String("allow", "metrics", "highest cost of a change: "+strings.Join(ladder.Costs(), ", "))
	f.String("vram", "", "plan for a card of this size, such as 12GiB, or of this name, such as \"RTX 3060\"; it does "+
		"not have to be in this machine")
	f.String("device", "auto", "auto, cpu, a GPU by index or UUID; any, or a list such as 0,2: launch chooses a card "+
		"with room")
	f.String("wait", "", "wait for room on the card, or for --memory, instead of exit 75; --wait=30m: at most so long")
	f.Lookup("wait").NoOptDefVal = "true"
	f.String("memory", "", "with --device cpu: memory limit for each process of the job, enforced by the kernel "+
		"(RLIMIT_DATA)")
	f.String("reserve", "0", "how much of the card to leave free")
	f.String("plugin", "auto", "auto, none, or the name of a plugin")
	f.Bool("as-asked", false, "ignore estimates: change a phase only after it has run out of memory")
	f.String("fill", "", "use more of the card, mostly by a larger micro-batch, as far as it fits; --fill=fast: as far as it is faster, found by short runs")
	f.Lookup("fill").NoOptDefVal = "most"
	f.Bool("rehearse", false, "go through every phase once before the run, in a short run that leaves nothing behind")
	f.Bool("inside", false, "let the program's Python processes report their memory, through a hook in PYTHONPATH; "+
		"what they print stays the same")
	f.Int("gpus", 0, "number of cards that the command would see, for a machine that launch cannot inspect (default "+
		"with --vram: one for each process that its launcher starts, else 1)")
	f.String("nodes-at", "",
		"HOST:PORT of node 0: the job runs on several machines, one launch on each, and that of node 0 decides for all")
	f.String("this-node", "", "I/N: this machine is node I of N (default: from the command's launcher or from Slurm)")
	f.Bool("anyway", false, "run even if it is certain not to fit (otherwise exit 78)")
	f.Bool("continue", false, "continue the last run of this command, if its recipe is the same and it has not "+
		"succeeded; otherwise start one")
	f.Bool("tty", false, "run in a pseudo-terminal even if the output is not a terminal")
	f.BoolP("quiet", "q", false, "print nothing unless something goes wrong")
	f.Bool("verbose", false, "print every line of the estimates and every rung, and the whole checklist at the end of a "+
		"run")
	f.String("json-file", "", "write what happened to this file, as JSON")
	f.String("notify", "", "when the run ends or stops, send a notice: bell, desktop, an address such as "+
		"https://HOST/PATH, or a list of these; none")
	f.String("notify-command", "", "when the run ends or stops, let /bin/sh run this command, with the notice as its "+
		"input")
	f.Bool("notify-host", false, "notices have the name of this machine")
	f.String("status", "", "show the progress: line (in the last row of the terminal), title, taskbar, or a list of these")
	f.Lookup("status").NoOptDefVal = "line"
	f.String("bars", "auto", "bars in plans: auto (on a terminal), always, never; the text has the same figures")
	f.String("state-dir", "", "folder for records and receipts (default $XDG_STATE_HOME/launch)")
	f.Bool("receipts", true, "correct estimates by what earlier runs measured; receipts are written in any case")
	f.Bool("prune", true, "after a run, remove records older than 90 days and the oldest beyond 4 GiB, but none "+
		"that can be resumed")
	f.Duration("grace", 0, "how long a program may take to stop after a signal before it is killed (default: no "+
		"limit; 30s if launch itself stops it)")
	f.String("save-on", "", "on these signals, let the program save its state, then stop it and exit with 75: "+
		"USR2=100s,TERM gives it 100 s after SIGUSR2 and "+attempt.NoticeTime.String()+" after SIGTERM")
	f.Bool("yield", false, "after an out-of-memory while others held a part of the card, exit with 75 instead of "+
		"running with other settings")
	f.Lookup("yield").Hidden = true // for the trials of a sweep
	f.Duration("sample", time.Second, "time between two readings of the GPU")
	f.Duration("formula-time", formula.Deadline, "how long a plugin may run its own PyTorch module in the command's "+
		"Python, to count its memory; 0: not at all")
}

// setFlag is the name of the flag that addSet declares.
const setFlag = "set"

// rowFlag is the name of the flag that addSet declares for the rows of sweeps.
const rowFlag = "sweep-row"

// addSet declares --set, for the commands that read a job. It is no setting of launch: it is part of one job, as its
// command is. So neither the environment nor a settings file has it; there it would change every training without being
// seen. launch resume keeps what its run has.
func addSet(f *pflag.FlagSet) {
	f.StringArray(setFlag, nil, "run the job as if its recipe had this value: KEY=VALUE, where KEY is an address in the "+
		"recipe (train.optim_g.lr), a knob (micro-batch) or an option of the program (--set=--lr=0.1); may be repeated")
	f.String(rowFlag, "", "a sweep starts this launch for the row with this mark, and looks for the variables after it")
	f.Lookup(rowFlag).Hidden = true
}

// readSettings joins flags, environment and files. dir is the folder that launch was started in.
//
// Viper decides which value counts, through BindPFlags, AutomaticEnv, MergeConfigMap and GetString. It does not read
// the files: it would follow any link, convert values as YAML does (010 becomes 8), and ignore unknown and repeated
// keys.
func readSettings(f *pflag.FlagSet, dir string) (settings, error) {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	v := viper.New()
	v.SetEnvPrefix("LAUNCH")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv() // an empty variable counts as unset
	if err := v.BindPFlags(f); err != nil {
		return settings{}, err
	}
	files := joined{v: v, from: map[string]string{}, project: map[string]bool{}}
	for _, path := range settingsFiles(dir) {
		if err := files.add(path); err != nil {
			return settings{}, err
		}
	}
	f.VisitAll(func(g *pflag.Flag) {
		switch env := variable(g.Name); {
		case g.Changed:
			delete(files.from, g.Name)
			delete(files.project, g.Name)
		case os.Getenv(env) != "":
			files.from[g.Name] = env
			delete(files.project, g.Name)
		}
	})
	s, err := decode(v, files.from)
	if len(s.Cards) > 0 && !f.Changed("compare") {
		err = errors.Join(err, fmt.Errorf("%s names several cards: only launch plan --compare takes more than one",
			s.Name("vram")))
	}
	s.Notes, s.AsTyped, s.project = files.notes, files.asTyped, files.project
	if !filepath.IsAbs(s.State) && s.State != "" { // now, before launch changes its folder
		s.State = filepath.Join(dir, s.State)
	}
	if err == nil {
		own, warning := record.OwnState(s.State)
		if s.State = own; warning != "" {
			reporter(settings{}).Warn("%s", warning)
		}
	}
	for _, name := range []string{"allow", "vram", "device", "memory", "reserve", "fill", "as-asked", "anyway", "rehearse", "gpus"} {
		s.Expects = s.Expects || f.Changed(name)
	}
	return s, err
}

// joined collects the settings of the files. A later file outranks an earlier one.
type joined struct {
	v       *viper.Viper
	from    map[string]string // where a setting comes from, as errors name it
	project map[string]bool   // settings from a project's file
	notes   []string
	asTyped string // why launch changes nothing of the training; ""
}

// add reads a file, which may be missing. It returns an error only for a mistake in a trusted file.
func (j *joined) add(path string) error {
	file, err := private.ReadSettings(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	approved := false
	if err == nil {
		approved = private.Approved().Has(file)
		if err = file.Foreign; err != nil && approved {
			err = nil
		}
	}
	if err != nil {
		j.notes = append(j.notes, notTaken(path, file, err))
		j.asTyped = cmp.Or(j.asTyped, "the settings in "+path+" are not trusted")
		return nil
	}
	whole := filepath.Base(path) != projectFile || approved && file.Foreign == nil
	left, err := merge(j.v, file, whole, j.from, j.project)
	if err == nil && len(left) > 0 {
		j.notes = append(j.notes, left.note(file, approved))
	}
	return err
}

// variable returns the name of a setting's environment variable.
func variable(key string) string {
	return "LAUNCH_" + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}

// projectFile is the name of a project's settings file.
const projectFile = ".launch.yaml"

// settingsFiles lists the settings files, the one that outranks the other last.
func settingsFiles(dir string) (files []string) {
	if user := private.ConfigDir(); user != "" {
		files = append(files, filepath.Join(user, "config.yaml"))
	}
	home, _ := os.UserHomeDir()
	if path := private.Nearest(dir, projectFile, home); path != "" {
		files = append(files, path)
	}
	return files
}

// merge adds a file's settings to v and from, and those of a project's file to project. Settings that only the user may
// make are taken if whole is set; otherwise merge returns them. It keeps each value as it is written (010, yes): decode
// knows each setting's type.
func merge(v *viper.Viper, file *private.Settings, whole bool, from map[string]string, project map[string]bool) (left leftOut, err error) {
	path := file.Path
	var values map[string]yaml.Node
	if err := yaml.Unmarshal(file.Text, &values); err != nil {
		return nil, fmt.Errorf("reading launch's settings in %s: %w", path, err)
	}
	settings := ownFlags()
	seen := map[string]bool{}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := values[key]
		if value.Kind == yaml.AliasNode {
			value = *value.Alias
		}
		where := key + " in " + path
		name := strings.ToLower(key)
		switch {
		case settings.Lookup(name) == nil:
			meant := ""
			if near := nearest(name, settings); near != "" {
				meant = fmt.Sprintf(" (did you mean %s?)", near)
			}
			errs = append(errs, fmt.Errorf("%s: launch has no setting %q%s; its settings are the flags of `launch --help`", path, key, meant))
		case seen[name]:
			errs = append(errs, fmt.Errorf("%s sets %s twice", path, name))
		case value.Kind != yaml.ScalarNode:
			kind := map[yaml.Kind]string{yaml.SequenceNode: "a list", yaml.MappingNode: "a mapping"}[value.Kind]
			errs = append(errs, fmt.Errorf("%s is %s: it takes one value", where, kind))
		case value.ShortTag() == "!!null":
			errs = append(errs, fmt.Errorf("%s has no value: give it one, or remove the line", where))
		case !whole && usersAlone(name, value.Value):
			left = append(left, name)
		default:
			text := value.Value
			// relative to the file, not to the current folder
			if name == "state-dir" && text != "" && !filepath.IsAbs(text) {
				text = filepath.Join(filepath.Dir(path), text)
			}
			from[name], project[name] = where, filepath.Base(path) == projectFile
			_ = v.MergeConfigMap(map[string]any{name: text}) // it never fails
		}
		seen[name] = true
	}
	return left, errors.Join(errs...)
}

// decoder reads the values of settings, and collects the errors.
type decoder struct {
	settings
	v    *viper.Viper
	errs []error
}

func (d *decoder) wrong(format string, args ...any) {
	d.errs = append(d.errs, fmt.Errorf(format, args...))
}

func (d *decoder) wrongValue(key, kind string) {
	d.errs = append(d.errs, wrongValue(d.Name(key), kind, d.v.GetString(key)))
}

func (d *decoder) bytes(key string) unit.Bytes { return d.bytesOf(key, d.v.GetString(key)) }

// bytesOf reads an amount of memory; key names it in errors.
func (d *decoder) bytesOf(key, text string) unit.Bytes {
	if text == "" {
		return 0
	}
	b, err := unit.Parse(text)
	switch {
	case err != nil && d.from[key] == "" && strings.HasPrefix(text, "--"): // the next flag, or the -- before the command
		d.wrong("--%s needs an amount of memory, such as --%s 8GiB", key, key)
	case err != nil:
		d.wrong("%s: %w", d.Name(key), err)
	case key != "reserve" && b < 64*unit.MiB: // CUDA's runtime alone takes more
		without := map[string]string{"vram": "to plan for this machine's card", "memory": "to set no limit"}[key]
		d.wrong("%s: %v is too small for a training; give an amount with its unit, such as 12GiB, or leave it out %s", d.Value(key, text), b, without)
	}
	return b
}

// A plannedCard is a card that need not be in this machine.
type plannedCard struct {
	name  string // "" if only its size is given
	bytes unit.Bytes
}

// cards reads --vram: the size or the name of a card, or several of these.
func (d *decoder) cards() {
	text := d.v.GetString("vram")
	var all []plannedCard
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if size, known := gpu.Named(part); known {
			all = append(all, plannedCard{part, size})
		} else if !strings.ContainsAny(part[:min(1, len(part))], "0123456789.-") && part != "" {
			d.wrong("%s: %q is not an amount of memory, such as 12GiB, and launch knows no card of that name",
				d.Name("vram"), part)
		} else if b := d.bytesOf("vram", part); b > 0 {
			all = append(all, plannedCard{"", b})
		}
	}
	switch {
	case len(all) == 1:
		d.VRAM, d.Card = all[0].bytes, all[0].name
	case len(all) > 1:
		d.Cards = all
	}
}

// boolean reads a boolean. viper's own GetBool takes a text that it cannot read as false.
func (d *decoder) boolean(key string) bool {
	on, err := truth(d.v.GetString(key))
	if err != nil {
		d.wrongValue(key, "bool")
	}
	return on
}

func (d *decoder) duration(key string) time.Duration {
	t, err := time.ParseDuration(d.v.GetString(key))
	if err != nil || t <= 0 {
		d.wrongValue(key, "duration")
	}
	return t
}

// notices reads --save-on: signals with a time for each.
func (d *decoder) notices(key string) (out []attempt.Notice) {
	for part := range strings.SplitSeq(d.v.GetString(key), ",") {
		name, within, given := strings.Cut(strings.TrimSpace(part), "=")
		if name == "" && !given {
			continue
		}
		sig := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG"))
		n := attempt.Notice{Name: unix.SignalName(sig), Signal: sig, Within: attempt.NoticeTime}
		var err error
		if given {
			n.Within, err = time.ParseDuration(within)
		}
		switch {
		case !slices.Contains([]syscall.Signal{unix.SIGUSR1, unix.SIGUSR2, unix.SIGTERM, unix.SIGHUP, unix.SIGINT}, sig):
			d.wrong("%s: %q is not one of USR1, USR2, TERM, HUP and INT", d.Name(key), name)
		case err != nil || n.Within <= 0:
			d.wrong("%s: %q is not a time, such as 100s", d.Name(key), within)
		default:
			out = append(out, n)
		}
	}
	return out
}

// places reads where notices are sent. An address and a command are secrets, so errors do not have them.
func (d *decoder) places() {
	list := d.v.GetString("notify")
	if d.NotifyHost = d.boolean("notify-host"); strings.TrimSpace(list) == noNotice {
		return
	}
	var err error
	if d.Notify, err = notice.Parse(list); err != nil {
		d.wrong("%s: %w", d.Name("notify"), err)
	}
	if text := d.v.GetString("notify-command"); text != "" {
		d.Notify = append(d.Notify, notice.Command(text))
	}
}

// shows reads --status: what the terminal shows of the progress.
func (d *decoder) shows() {
	for part := range strings.SplitSeq(strings.ToLower(d.v.GetString("status")), ",") {
		switch part = strings.TrimSpace(part); part {
		case "", "none":
		case "line":
			d.Shows.Line = true
		case "title":
			d.Shows.Title = true
		case "taskbar":
			d.Shows.Taskbar = true
		default:
			d.wrong("%s: %q is not one of line, title, taskbar and none", d.Name("status"), part)
		}
	}
}

// noNotice as --notify turns all notices off.
const noNotice = "none"

// fill reads --fill: a boolean, "most" or "fast".
func (d *decoder) fill() (on, fast bool) {
	switch text := strings.ToLower(d.v.GetString("fill")); text {
	case "":
		return false, false
	case "fast":
		return true, true
	case "most":
		return true, false
	default:
		on, err := truth(text)
		switch {
		case err != nil && d.from["fill"] == "":
			d.wrong("--fill=%s: write --fill or --fill=fast", d.v.GetString("fill"))
		case err != nil:
			d.wrong("%s: %q is neither fast nor true or false", d.from["fill"], d.v.GetString("fill"))
		}
		return on, false
	}
}

// wait reads --wait: a boolean or a time.
func (d *decoder) wait() time.Duration {
	text := d.v.GetString("wait")
	if t, err := time.ParseDuration(text); err == nil && t > 0 {
		return t
	}
	switch on, err := truth(cmp.Or(text, "false")); {
	case err != nil:
		d.wrong("%s: %q is neither a time, such as 30m, nor true or false", d.Name("wait"), text)
	case on:
		return forever
	}
	return 0
}

// decode reads the settings from v. from names those that no flag set, for errors.
func decode(v *viper.Viper, from map[string]string) (settings, error) {
	d := &decoder{settings: settings{from: from}, v: v}
	var err error
	if d.Allow, err = ladder.ParseCost(v.GetString("allow")); err != nil {
		d.wrong("%s: %w", d.Name("allow"), err)
	}
	d.Memory, d.Reserve = d.bytes("memory"), d.bytes("reserve")
	d.cards()
	d.Device, d.Plugin = v.GetString("device"), v.GetString("plugin")
	d.AsAsked, d.Anyway, d.Rehearse = d.boolean("as-asked"), d.boolean("anyway"), d.boolean("rehearse")
	if d.GPUs, err = strconv.Atoi(v.GetString("gpus")); err != nil || d.GPUs < 0 {
		d.wrongValue("gpus", "int")
	}
	d.Fill, d.Fast = d.fill()
	d.Wait = d.wait()
	d.Continue = d.boolean("continue")
	d.Verbose = d.boolean("verbose")
	d.TTY, d.Quiet, d.JSONFile = d.boolean("tty"), d.boolean("quiet"), v.GetString("json-file")
	d.Receipts, d.Inside, d.Prune = d.boolean("receipts"), d.boolean("inside"), d.boolean("prune")
	d.Sample, d.Yield = d.duration("sample"), d.boolean("yield")
	d.Leave = d.notices("save-on")
	d.places()
	d.shows()
	if d.Bars = v.GetString("bars"); !slices.Contains([]string{"auto", "always", "never"}, d.Bars) {
		d.wrong("%s: %q is not one of auto, always and never", d.Name("bars"), d.Bars)
	}
	d.Nodes, d.ThisNode = v.GetString("nodes-at"), v.GetString("this-node")
	if v.GetString("formula-time") != "0" {
		d.FormulaTime = d.duration("formula-time")
	}
	if v.IsSet("grace") {
		d.Grace = d.duration("grace")
	}
	d.contradictions()
	d.State = cmp.Or(v.GetString("state-dir"), record.StateDir())
	return d.settings, errors.Join(d.errs...)
}

// contradictions reports settings that exclude each other. A memory limit implies --device cpu.
func (d *decoder) contradictions() {
	switch {
	case (d.VRAM > 0 || len(d.Cards) > 0) && d.Memory > 0:
		d.wrong("%s plans for a card, %s for host memory: remove one of them", d.Name("vram"), d.Name("memory"))
	case d.Memory > 0 && d.Device == "auto":
		d.Device = "cpu"
	case d.Memory > 0 && d.Device != "cpu":
		d.wrong("%s limits host memory: it goes with --device cpu, not with %s. For a card use --vram",
			d.Name("memory"), d.Value("device", d.Device))
	case d.VRAM > 0 && d.Device == "cpu":
		d.wrong("%s is the size of a card: it does not go with %s. To limit host memory use --memory", d.Name("vram"),
			d.Value("device", "cpu"))
	case d.VRAM > 0 && d.Device != "auto": // launch would ignore the device
		d.wrong("%s plans for any card of that size, but %s names one in this machine: remove one of them, or set "+
			"--device auto", d.Name("vram"), d.Value("device", d.Device))
	}
	if d.Nodes != "" && (d.Fast || d.Rehearse) {
		d.wrong("%s does not go with --fill=fast or --rehearse: short runs are made on one machine", d.Name("nodes-at"))
	}
	if d.AsAsked && d.Fill {
		d.wrong("%s and %s contradict each other", d.Name("as-asked"), d.Name("fill"))
	}
}

// truth reads a boolean as strconv does, or as YAML 1.1 writes it (yaml.org/type/bool.html), in any case. The YAML
// parser follows YAML 1.2, where yes and on are texts.
func truth(text string) (bool, error) {
	switch text = strings.ToLower(text); text {
	case "yes", "y", "on":
		return true, nil
	case "no", "n", "off":
		return false, nil
	}
	return strconv.ParseBool(text)
}

// wrongValue returns the error of a value that does not match its flag's type.
func wrongValue(name, kind, value string) error {
	what := map[string]string{"bool": "true or false", "int": "a whole number of at least 0", "duration": "a time, such as 30s"}[kind]
	if what == "" {
		what = "a " + kind
	}
	return fmt.Errorf("%s: %q is not %s", name, value, what)
}

// deviceError adds the device's setting to an error.
func (s settings) deviceError(err error) error {
	return fmt.Errorf("%s: %w", s.Value("device", s.Device), err)
}

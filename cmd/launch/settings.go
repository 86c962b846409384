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
	"time"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"

	"github.com/launch-ml/launch/core/claim"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/trust"
	"github.com/launch-ml/launch/core/unit"
)

// settings are launch's own. A flag outranks LAUNCH_*, which outranks the project's .launch.yaml, which outranks the
// user's file. The recipe of a job is never read or written this way.
type settings struct {
	room.Wish

	claim *claim.Claim // what this launch holds of host memory; nil: nothing

	Allow    ladder.Cost
	Plugin   string // "auto", "none" or a name
	AsAsked  bool
	Fill     bool
	Fast     bool // with Fill: by trials of a few sizes
	Rehearse bool
	Inside   bool // have the program's own Python say what it knows of its memory
	GPUs     int  // how many cards the command would see; 0: those that are here, or one of VRAM
	Anyway   bool
	TTY      bool
	Quiet    bool
	JSONFile string
	State    string        // folder of the runs
	Grace    time.Duration // 0: as long as it takes
	Sample   time.Duration
	Receipts bool // learn from those there are
	Prune    bool // remove old records after a run
	Expects  bool // the user said something that only matters to a recognised job

	// Notes are what the user should know of the settings files, once.
	Notes []string
	// AsTyped is why launch changes nothing of the training: a settings file is not believed, or cannot be read, and it may
	// have held "allow: none". "" where all were taken.
	AsTyped string

	from map[string]string // of what no flag says: how a complaint calls it
	// project are the settings that a project's file made.
	project map[string]bool
}

// Name is how an error calls a setting, as the user can find it: "--grace", "LAUNCH_GRACE", "grace in FILE".
func (s settings) Name(key string) string { return cmp.Or(s.from[key], "--"+key) }

// Value is Name with what the setting is set to.
func (s settings) Value(key, value string) string {
	if s.from[key] == "" {
		return "--" + key + " " + value
	}
	return fmt.Sprintf("%s (%s)", s.from[key], value)
}

// addFlags declares the settings, with what they are when nobody says anything.
func addFlags(f *pflag.FlagSet) {
	f.String("allow", "metrics", "how far launch may go: "+strings.Join(ladder.Costs(), ", "))
	f.String("vram", "", "plan for a card of this size that is not here, such as 12GiB")
	f.String("device", "auto", "auto, cpu, or a GPU by index or UUID")
	f.String("memory", "", "with --device cpu: how much memory each process of the job may take; the kernel enforces it, per process (RLIMIT_DATA)")
	f.String("reserve", "0", "how much of the card to leave free")
	f.String("plugin", "auto", "auto, none, or the name of the plugin to ask")
	f.Bool("as-asked", false, "change a phase only after it ran out of memory, whatever is estimated")
	f.String("fill", "", "use more of the card where the ladder has rungs above the job as asked; fast: only as far as that is faster, by short trials")
	f.Lookup("fill").NoOptDefVal = "most"
	f.Bool("rehearse", false, "go through every phase once first, in a short run that leaves nothing behind")
	f.Bool("inside", false, "have the program's Python processes report their peaks, and what they were doing when memory ran out, by a hook through PYTHONPATH; what they print stays the same")
	f.Int("gpus", 0, "how many cards the command would see, where launch cannot look (default with --vram: as many as its launcher starts processes, else 1)")
	f.Bool("anyway", false, "run what would be refused")
	f.Bool("tty", false, "run in a pseudo-terminal even if the output is no terminal")
	f.BoolP("quiet", "q", false, "say nothing unless something went wrong")
	f.String("json-file", "", "write what happened to this file, as JSON")
	f.String("state-dir", "", "where runs are recorded (default $XDG_STATE_HOME/launch)")
	f.Bool("receipts", true, "let estimates learn from what earlier runs measured; they are written in any case")
	f.Bool("prune", true, "after a run, remove records that are over 90 days old or beyond 4 GiB in all; none that can be resumed")
	f.Duration("grace", 0, "how long a program that was asked to stop may take before it is killed (default: as long as it takes; 30s where launch itself stops it)")
	f.Duration("sample", time.Second, "how often to look at the GPU")
}

// readSettings joins flags, environment and files. dir is the folder that launch was started in.
//
// Viper decides which value counts: BindPFlags, AutomaticEnv, MergeConfigMap and GetString are all that is used of it. It does not
// read the files: it would follow any link, take what YAML makes of a value (010 is 8), and pass over unknown and double keys.
func readSettings(f *pflag.FlagSet, dir string) (settings, error) {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	v := viper.New()
	v.SetEnvPrefix("LAUNCH")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv() // an empty variable is none
	if err := v.BindPFlags(f); err != nil {
		return settings{}, err
	}
	from, project := map[string]string{}, map[string]bool{}
	var notes []string
	asTyped := ""
	for _, path := range settingsFiles(dir) {
		file, err := trust.Read(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		approved := false
		if err == nil {
			approved = trust.Approved().Has(file)
			if err = file.Foreign; err != nil && approved {
				err = nil
			}
		}
		if err != nil {
			notes = append(notes, notTaken(path, file, err))
			asTyped = cmp.Or(asTyped, "the settings in "+path+" are not believed")
			continue
		}
		whole := filepath.Base(path) != projectFile || approved && file.Foreign == nil
		left, err := merge(v, file, whole, from, project)
		if err != nil {
			return settings{}, err
		}
		if len(left) > 0 {
			notes = append(notes, left.note(file, approved))
		}
	}
	f.VisitAll(func(g *pflag.Flag) {
		switch env := variable(g.Name); {
		case g.Changed:
			delete(from, g.Name)
			delete(project, g.Name)
		case os.Getenv(env) != "":
			from[g.Name] = env
			delete(project, g.Name)
		}
	})
	s, err := decode(v, from)
	s.Notes, s.AsTyped, s.project = notes, asTyped, project
	if !filepath.IsAbs(s.State) && s.State != "" { // at once: launch may go to another folder
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

// variable is the name of a setting in the environment.
func variable(key string) string {
	return "LAUNCH_" + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}

// projectFile is the name of a project's settings file.
const projectFile = ".launch.yaml"

// settingsFiles lists the files that count, the weakest first.
func settingsFiles(dir string) (files []string) {
	if user := trust.ConfigDir(); user != "" {
		files = append(files, filepath.Join(user, "config.yaml"))
	}
	home, _ := os.UserHomeDir()
	if path := trust.Nearest(dir, projectFile, home); path != "" {
		files = append(files, path)
	}
	return files
}

// merge adds a file to those before it, to from what it sets, and to project where it is a project's. What only the user may
// set is taken where whole is set, and returned otherwise. A value is taken as it is written, 010 as well as yes: what it means is
// the setting's to say.
func merge(v *viper.Viper, file *trust.File, whole bool, from map[string]string, project map[string]bool) (left leftOut, err error) {
	path := file.Path
	var values map[string]yaml.Node
	if err := yaml.Unmarshal(file.Text, &values); err != nil {
		return nil, fmt.Errorf("reading launch's settings in %s: %w", path, err)
	}
	settings := own()
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
				meant = fmt.Sprintf(" (was %s meant?)", near)
			}
			errs = append(errs, fmt.Errorf("%s: launch has no setting %q%s; its settings are the flags of `launch --help`", path, key, meant))
		case seen[name]:
			errs = append(errs, fmt.Errorf("%s sets %s twice", path, name))
		case value.Kind != yaml.ScalarNode:
			kind := map[yaml.Kind]string{yaml.SequenceNode: "a list", yaml.MappingNode: "a mapping"}[value.Kind]
			errs = append(errs, fmt.Errorf("%s: %s where one value is wanted", where, kind))
		case value.ShortTag() == "!!null":
			errs = append(errs, fmt.Errorf("%s says nothing: give it a value, or leave it out", where))
		case !whole && usersAlone(name, value.Value):
			left = append(left, name)
		default:
			text := value.Value
			if name == "state-dir" && text != "" && !filepath.IsAbs(text) { // whichever folder launch is started in
				text = filepath.Join(filepath.Dir(path), text)
			}
			from[name], project[name] = where, filepath.Base(path) == projectFile
			v.MergeConfigMap(map[string]any{name: text}) // which fails on nothing
		}
		seen[name] = true
	}
	return left, errors.Join(errs...)
}

func decode(v *viper.Viper, from map[string]string) (s settings, err error) {
	s.from = from
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	bytes := func(key string) unit.Bytes {
		text := v.GetString(key)
		if text == "" {
			return 0
		}
		b, err := unit.Parse(text)
		switch {
		case err != nil && from[key] == "" && strings.HasPrefix(text, "--"): // the next flag, or what stands before the command
			wrong("--%s needs an amount of memory, such as --%s 8GiB", key, key)
		case err != nil:
			wrong("%s: %w", s.Name(key), err)
		case key != "reserve" && b < 64*unit.MiB: // a runtime alone takes more
			without := map[string]string{"vram": "to plan for the card that is here", "memory": "to set no limit"}[key]
			wrong("%s: %v holds no training; give an amount with its unit, such as 12GiB, or leave it out %s", s.Value(key, text), b, without)
		}
		return b
	}
	yes := func(key string) bool { // of a file or the environment it is a text, which viper takes for no where it cannot read it
		on, err := truth(v.GetString(key))
		if err != nil {
			errs = append(errs, wrongValue(s.Name(key), "bool", v.GetString(key)))
		}
		return on
	}
	duration := func(key string) time.Duration {
		d, err := time.ParseDuration(v.GetString(key))
		if err != nil || d <= 0 {
			errs = append(errs, wrongValue(s.Name(key), "duration", v.GetString(key)))
		}
		return d
	}
	if s.Allow, err = ladder.ParseCost(v.GetString("allow")); err != nil {
		wrong("%s: %w", s.Name("allow"), err)
	}
	s.VRAM, s.Memory, s.Reserve = bytes("vram"), bytes("memory"), bytes("reserve")
	s.Device, s.Plugin = v.GetString("device"), v.GetString("plugin")
	s.AsAsked, s.Anyway, s.Rehearse = yes("as-asked"), yes("anyway"), yes("rehearse")
	if s.GPUs, err = strconv.Atoi(v.GetString("gpus")); err != nil || s.GPUs < 0 {
		errs = append(errs, wrongValue(s.Name("gpus"), "int", v.GetString("gpus")))
	}
	switch fill := strings.ToLower(v.GetString("fill")); fill {
	case "":
	case "fast":
		s.Fill, s.Fast = true, true
	case "most":
		s.Fill = true
	default:
		switch s.Fill, err = truth(fill); {
		case err != nil && from["fill"] == "":
			wrong("--fill=%s: it is --fill, or --fill=fast", v.GetString("fill"))
		case err != nil:
			wrong("%s: %q is not fast, nor true or false", from["fill"], v.GetString("fill"))
		}
	}
	s.TTY, s.Quiet, s.JSONFile = yes("tty"), yes("quiet"), v.GetString("json-file")
	s.Receipts, s.Inside, s.Prune = yes("receipts"), yes("inside"), yes("prune")
	s.Sample = duration("sample")
	if v.IsSet("grace") {
		s.Grace = duration("grace")
	}
	switch {
	case s.VRAM > 0 && s.Memory > 0:
		wrong("%s plans for a card and %s for this machine's own memory: leave one of them out", s.Name("vram"), s.Name("memory"))
	case s.Memory > 0 && s.Device == "auto":
		s.Device = "cpu"
	case s.Memory > 0 && s.Device != "cpu":
		wrong("%s limits the host's memory and does not go with %s but with --device cpu; for a card it is --vram", s.Name("memory"), s.Value("device", s.Device))
	case s.VRAM > 0 && s.Device == "cpu":
		wrong("%s is a card's memory and does not go with %s; there it is --memory", s.Name("vram"), s.Value("device", "cpu"))
	case s.VRAM > 0 && s.Device != "auto": // which nobody would look at
		wrong("%s plans for a card that is not here, and %s is one that is: leave one of them out, or say --device auto", s.Name("vram"), s.Value("device", s.Device))
	}
	if s.AsAsked && s.Fill {
		wrong("%s and %s contradict each other", s.Name("as-asked"), s.Name("fill"))
	}
	s.State = v.GetString("state-dir")
	if s.State == "" {
		s.State = record.StateDir()
	}
	return s, errors.Join(errs...)
}

// truth reads a boolean as strconv does, and as YAML 1.1 writes it (yaml.org/type/bool.html), in any case. The parser reads YAML 1.2,
// to which yes and on are texts.
func truth(text string) (bool, error) {
	switch text = strings.ToLower(text); text {
	case "yes", "y", "on":
		return true, nil
	case "no", "n", "off":
		return false, nil
	}
	return strconv.ParseBool(text)
}

// wrongValue says what a setting takes, by the type of its flag.
func wrongValue(name, kind, value string) error {
	what := map[string]string{"bool": "true or false", "int": "a whole number of at least 0", "duration": "a time, such as 30s"}[kind]
	if what == "" {
		what = "what it takes (a " + kind + ")"
	}
	return fmt.Errorf("%s: %q is not %s", name, value, what)
}

// colour reports whether to paint what goes to f.
func colour(f *os.File) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(f)
}

// deviceError is the error of a device that is not here.
func (s settings) deviceError(err error) error {
	return fmt.Errorf("%s: %w", s.Value("device", s.Device), err)
}

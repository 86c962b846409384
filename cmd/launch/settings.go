package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/unit"
)

// settings are launch's own. A flag outranks LAUNCH_*, which outranks the project's .launch.yaml, which outranks the
// user's file. The recipe of a job is never read or written this way.
type settings struct {
	Allow    ladder.Cost
	VRAM     unit.Bytes // 0: the card that is here
	Device   string     // "auto", "cpu", an index or a UUID
	Memory   unit.Bytes // with Device "cpu": the limit that the kernel enforces
	Reserve  unit.Bytes // of the card, kept free
	Plugin   string     // "auto", "none" or a name
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
	State    string // folder of the runs
	Grace    time.Duration
	Sample   time.Duration
	Receipts bool // learn from those there are
	Expects  bool // the user said something that only matters to a recognised job
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
	f.Int("gpus", 0, "how many cards the command would see, where launch cannot look (default with --vram: 1)")
	f.Bool("anyway", false, "run what would be refused")
	f.Bool("tty", false, "run in a pseudo-terminal even if the output is no terminal")
	f.BoolP("quiet", "q", false, "say nothing unless something went wrong")
	f.String("json-file", "", "write what happened to this file, as JSON")
	f.String("state-dir", "", "where runs are recorded (default $XDG_STATE_HOME/launch)")
	f.Bool("receipts", true, "let estimates learn from what earlier runs measured; they are written in any case")
	f.Duration("grace", 30*time.Second, "how long a program that was asked to stop may take")
	f.Duration("sample", time.Second, "how often to look at the GPU")
}

// readSettings joins flags, environment and files. dir is the folder that launch was started in.
func readSettings(f *pflag.FlagSet, dir string) (settings, error) {
	v := viper.New()
	v.SetEnvPrefix("LAUNCH")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	if err := v.BindPFlags(f); err != nil {
		return settings{}, err
	}
	for _, path := range settingsFiles(dir) {
		if err := merge(v, path, f); err != nil {
			return settings{}, err
		}
	}
	s, err := decode(v)
	for _, name := range []string{"allow", "vram", "device", "memory", "reserve", "fill", "as-asked", "anyway", "rehearse", "gpus"} {
		s.Expects = s.Expects || f.Changed(name)
	}
	return s, err
}

// settingsFiles lists the files there are, the weakest first.
func settingsFiles(dir string) (files []string) {
	if home, err := os.UserConfigDir(); err == nil {
		files = append(files, filepath.Join(home, "launch", "config.yaml"))
	}
	for d := dir; ; d = filepath.Dir(d) { // the nearest one from here up, as git looks for its folder
		path := filepath.Join(d, ".launch.yaml")
		if _, err := os.Stat(path); err == nil {
			return append(files, path)
		}
		if d == filepath.Dir(d) {
			return files
		}
	}
}

func merge(v *viper.Viper, path string, f *pflag.FlagSet) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	one := viper.New()
	one.SetConfigFile(path)
	one.SetConfigType("yaml")
	if err := one.ReadInConfig(); err != nil {
		return fmt.Errorf("reading launch's settings in %s: %w", path, err)
	}
	for _, key := range one.AllKeys() {
		if f.Lookup(key) == nil {
			return fmt.Errorf("%s: launch has no setting %q; its settings are the flags of `launch --help`", path, key)
		}
	}
	return v.MergeConfigMap(one.AllSettings())
}

func decode(v *viper.Viper) (s settings, err error) {
	var errs []error
	bytes := func(key string) unit.Bytes {
		text := v.GetString(key)
		if text == "" {
			return 0
		}
		b, err := unit.Parse(text)
		switch {
		case err != nil && strings.HasPrefix(text, "--"): // the next flag, or what stands before the command
			errs = append(errs, fmt.Errorf("--%s needs an amount of memory, such as --%s 8GiB", key, key))
		case err != nil:
			errs = append(errs, fmt.Errorf("--%s: %w", key, err))
		case key != "reserve" && b < 64*unit.MiB: // a runtime alone takes more
			without := map[string]string{"vram": "to plan for the card that is here", "memory": "to set no limit"}[key]
			errs = append(errs, fmt.Errorf("--%s %s: %v holds no training; give an amount with its unit, such as 12GiB, or leave it out %s", key, text, b, without))
		}
		return b
	}
	yes := func(key string) bool { // of a file or the environment it is a text, which viper takes for no where it cannot read it
		on, err := strconv.ParseBool(v.GetString(key))
		if err != nil {
			errs = append(errs, wrongValue(key, "bool", v.GetString(key)))
		}
		return on
	}
	duration := func(key string) time.Duration {
		d, err := time.ParseDuration(v.GetString(key))
		if err != nil || d <= 0 {
			errs = append(errs, wrongValue(key, "duration", v.GetString(key)))
		}
		return d
	}
	if s.Allow, err = ladder.ParseCost(v.GetString("allow")); err != nil {
		errs = append(errs, fmt.Errorf("--allow: %w", err))
	}
	s.VRAM, s.Memory, s.Reserve = bytes("vram"), bytes("memory"), bytes("reserve")
	s.Device, s.Plugin = v.GetString("device"), v.GetString("plugin")
	s.AsAsked, s.Anyway, s.Rehearse = yes("as-asked"), yes("anyway"), yes("rehearse")
	if s.GPUs, err = strconv.Atoi(v.GetString("gpus")); err != nil || s.GPUs < 0 {
		errs = append(errs, wrongValue("gpus", "int", v.GetString("gpus")))
	}
	switch fill := v.GetString("fill"); fill {
	case "", "false", "0", "no":
	case "fast":
		s.Fill, s.Fast = true, true
	case "most", "true", "1", "yes":
		s.Fill = true
	default:
		errs = append(errs, fmt.Errorf("--fill=%s: it is --fill, or --fill=fast", fill))
	}
	s.TTY, s.Quiet, s.JSONFile = yes("tty"), yes("quiet"), v.GetString("json-file")
	s.Receipts, s.Inside = yes("receipts"), yes("inside")
	s.Grace, s.Sample = duration("grace"), duration("sample")
	switch {
	case s.VRAM > 0 && s.Memory > 0:
		errs = append(errs, fmt.Errorf("--vram plans for a card and --memory for this machine's own memory: leave one of them out"))
	case s.Memory > 0 && s.Device == "auto":
		s.Device = "cpu"
	case s.Memory > 0 && s.Device != "cpu":
		errs = append(errs, fmt.Errorf("--memory limits the host's memory and goes with --device cpu; for a card it is --vram"))
	case s.VRAM > 0 && s.Device == "cpu":
		errs = append(errs, fmt.Errorf("--vram is a card's memory and does not go with --device cpu; there it is --memory"))
	}
	if s.AsAsked && s.Fill {
		errs = append(errs, fmt.Errorf("--as-asked and --fill contradict each other"))
	}
	s.State = v.GetString("state-dir")
	if s.State == "" {
		s.State = stateDir()
	}
	return s, errors.Join(errs...)
}

// wrongValue says what a setting takes, by the type of its flag.
func wrongValue(name, kind, value string) error {
	what := map[string]string{"bool": "true or false", "int": "a whole number of at least 0", "duration": "a time, such as 30s"}[kind]
	if what == "" {
		what = "what it takes (a " + kind + ")"
	}
	return fmt.Errorf("--%s: %q is not %s", name, value, what)
}

// stateDir is where runs are kept: the XDG base directory for state, or, without a home, a folder among the
// temporary files that is this user's own.
func stateDir() string {
	if d := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "launch")
	}
	if home, err := os.UserHomeDir(); err == nil && home != "/" {
		return filepath.Join(home, ".local", "state", "launch")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("launch-%d", os.Getuid()))
}

// colour reports whether to paint what goes to f.
func colour(f *os.File) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(f)
}

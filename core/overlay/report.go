package overlay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Report is what the hook has said in all of a program's processes.
type Report struct {
	Booted    int               // Python processes that started with the hook
	Old       string            // the version, where all of them are too old for it: before 3.8
	Applied   map[string]int    // how often a file's copy was served, by File.Path
	Stale     map[string]int    // how often a file was found changed, and the file itself used
	Errors    map[string]string // by File.Path, why its copy could not be served the last time, and the file itself was used
	Instances []Instance        // in the order in which they were built
	words     []words
	retries   int64
}

// An Instance is what a process built of edited settings.
type Instance struct {
	Path  string // the file's
	Class string // of the instance; "" for what the module itself holds: constants, class attributes, defaults of parameters
	PID   int
	// Values are as Python spells them, cut short where they are long, by the paths of the items that declare them. Of an
	// instance they are all its fields that hold plain values, of a module those of the edited items.
	Values map[string]string
}

// ParseReport reads the hook's lines. One that is torn or unknown is passed over.
func ParseReport(text []byte) Report {
	r := Report{Applied: map[string]int{}, Stale: map[string]int{}, Errors: map[string]string{}}
	var fit int
	for line := range bytes.Lines(text) {
		var e struct {
			Event, Python, Path, Error, Class string
			PID                               int
			Retries                           int64
			Values                            map[string]string
			words
		}
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		switch e.Event {
		case "boot":
			r.Booted++
			if old(e.Python) {
				r.Old = e.Python
			} else {
				fit++
			}
		case "applied":
			r.Applied[e.Path]++
		case "stale":
			r.Stale[e.Path]++
		case "error":
			r.Errors[e.Path] = e.Error
		case "words":
			e.words.Path, e.words.Why = e.Path, e.Why
			r.words = append(r.words, e.words)
		case "retries":
			r.retries = max(r.retries, e.Retries)
		case "instance":
			r.Instances = append(r.Instances, Instance{Path: e.Path, Class: e.Class, PID: e.PID, Values: e.Values})
		}
	}
	if fit > 0 {
		r.Old = ""
	}
	return r
}

// Missing returns those of files of which no copy was served.
func (r Report) Missing(files []File) (paths []string) {
	for _, f := range files {
		if r.Applied[f.Path] == 0 {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// Value returns the value that the program built of an item: that of the first instance that has it, or else what the
// module holds.
func (r Report) Value(path, item string) (value string, ok bool) {
	for _, in := range r.Instances {
		if in.Path != path {
			continue
		}
		if v, found := in.Values[item]; found {
			if in.Class != "" {
				return v, true
			}
			value, ok = v, true
		}
	}
	return value, ok
}

// A State says whether a program has taken the edited settings.
type State uint8

const (
	NotYet   State = iota // it may still
	Taken                 // a copy of every file was served
	NotTaken              // it runs without them, or is about to
)

func (s State) String() string { return [...]string{"not yet", "taken", "not taken"}[s] }

// silence is how long after its first output a program is expected to have started Python. Shells that prepare something
// before say little; a Python that has the hook reports within 50 ms of its start.
const silence = 45 * time.Second

// Unread is why nothing was reported by a program of which no process has started with the hook.
const Unread = "no Python of the program has read launch's hook: it is started with -E, -I or -S, by something that clears the environment or sets PYTHONPATH " +
	"(env -i, sudo, a container, srun --export=NONE, a wrapper script), or on another machine"

// Verdict says whether the program has taken the settings of files. begun says that its training has begun, since how long
// ago it wrote something for the first time (0: it has not). If it has not taken them, why is a sentence for the user.
func Verdict(r Report, files []File, begun bool, since time.Duration) (state State, why string) {
	missing := r.Missing(files)
	for _, path := range missing {
		name := filepath.Base(path)
		switch {
		case r.Stale[path] > 0:
			return NotTaken, fmt.Sprintf("%s was changed after launch had read it, so the program runs the changed file with its own settings; start it again", name)
		case r.Errors[path] != "":
			return NotTaken, fmt.Sprintf("the edited copy of %s could not be loaded (%s), so the program runs the file itself", name, r.Errors[path])
		}
	}
	switch {
	case len(missing) == 0:
		return Taken, ""
	case !begun && (r.Booted > 0 || since < silence):
		return NotYet, ""
	case r.Booted == 0:
		return NotTaken, Unread + "; let it keep PYTHONPATH and LAUNCH_OVERLAY, or make the changes in the source yourself"
	case r.Old != "":
		return NotTaken, fmt.Sprintf("the program runs Python %s, and settings in Python source can be changed from 3.8 on", r.Old)
	}
	names := make([]string, len(missing))
	for i, path := range missing {
		names[i] = filepath.Base(path)
	}
	slices.Sort(names)
	return NotTaken, fmt.Sprintf("the program does not import %s from where launch read it, or reads it in a way of its own (exec, a copy), so it trains with other settings than planned",
		strings.Join(slices.Compact(names), ", "))
}

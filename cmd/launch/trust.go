package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/core/formula"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/plugin/declared"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/ui"
)

// settingsHere reads the settings for a subcommand that runs no program, and prints the warnings about their files.
func settingsHere(c *cobra.Command) (settings, error) {
	s, err := readSettings(c.Flags(), ".")
	s.ofRow(c.Flags())
	say := ui.Printer{W: os.Stderr, Prefix: "launch: ", Colour: colour(os.Stderr)}
	for _, note := range s.Notes {
		say.Warn("%s", note)
	}
	return s, err
}

// notTaken returns the warning about a file whose settings are ignored. file is nil if it could not be read.
func notTaken(path string, file *private.Settings, why error) string {
	note := fmt.Sprintf("launch ignores %s and changes nothing of the training: %v", path, why)
	if file != nil {
		note += fmt.Sprintf(" (read the file, then approve of it by `launch trust %s`)", ui.Quote([]string{path}))
	}
	return note
}

// A projectRule is what a project's file may set without `launch trust`. It may describe the project and make launch do
// less. What reaches beyond the training, removes a protection or keeps the user from stopping it belongs to the user
// alone.
type projectRule struct {
	may func(value string) bool // nil: any value
	// which are the values that may, or "none", for the page; "" for all.
	which string
	why   string
}

func no(string) bool { return false }

// projectRules has every setting. A value that cannot be read may be set: its error names the file.
var projectRules = map[string]projectRule{
	"allow": {func(v string) bool { c, err := ladder.ParseCost(v); return err != nil || c <= ladder.Metrics },
		"up to metrics", "a higher one lets launch change the experiment"},
	"anyway": {func(v string) bool { on, err := truth(v); return err == nil && !on }, "false",
		"runs what is certain not to fit"},
	"as-asked":     {why: "changes less"},
	"bars":         {why: "is only shown"},
	"continue":     {why: "goes on with a run of the same experiment only"},
	"device":       {why: "a card of this machine, or the CPU"},
	"fill":         {why: "changes no more than allow permits"},
	"formula-time": {shorter(formula.Deadline), "up to " + formula.Deadline.String(), "delays the start of the program"},
	"gpus":         {why: "what launch plans for"},
	"grace":        {no, "none", "kills a program that still saves its state"},
	"inside":       {why: "a hook of launch's own, which prints nothing"},
	"json-file":    {no, "none", "where launch writes"},
	"memory":       {no, "none", "a limit for which the kernel may end the program"},
	"nodes-at":     {no, "none", "with which machines launch talks"},
	"notify": {func(v string) bool { return !strings.Contains(v, "://") }, "bell, desktop, none",
		"an address would receive what the user runs"},
	"notify-command": {no, "none", "a command that launch runs"},
	"notify-host":    {no, "none", "gives an address the name of the machine"},
	"plugin": {func(v string) bool { return v == "none" || v == "auto" }, "none, auto",
		"chooses the program that reads the command"},
	"prune":    {why: "keeps more records or as many"},
	"quiet":    {why: "warnings are printed all the same"},
	"receipts": {why: "only estimates depend on it"},
	"rehearse": {why: "a short run of the same command"},
	"reserve":  {why: "plans for less of the card"},
	"sample":   {sampled, "100ms to 10s", "takes a core, or makes launch blind to the memory that is used"},
	"save-on": {savesOn, "USR1, USR2, up to " + mostSaving.String() + " each",
		"Ctrl-C and SIGTERM have to end a training"},
	"state-dir": {no, "none", "where launch writes"},
	"status":    {why: "is only shown"},
	"this-node": {no, "none", "with which machines launch talks"},
	"tty":       {why: "how the output is read"},
	"verbose":   {why: "is only shown"},
	"vram":      {why: "what launch plans for"},
	"wait":      {why: "waits before the program starts; a signal ends it"},
	"yield":     {no, "none", "for the trials of a sweep: stops instead of adjusting"},
}

// usersAlone reports whether a project's file may make a setting only after `launch trust`.
func usersAlone(name, value string) bool {
	rule, known := projectRules[name]
	return !known || rule.may != nil && !rule.may(value)
}

func shorter(most time.Duration) func(string) bool {
	return func(v string) bool { t, err := time.ParseDuration(v); return err != nil || t <= most }
}

func sampled(v string) bool {
	t, err := time.ParseDuration(v)
	return err != nil || t >= 100*time.Millisecond && t <= 10*time.Second
}

// mostSaving is how long a project's file may keep a program running after a signal.
const mostSaving = 10 * time.Minute

func savesOn(v string) bool {
	for part := range strings.SplitSeq(v, ",") {
		name, within, given := strings.Cut(strings.TrimSpace(part), "=")
		name = strings.TrimPrefix(strings.ToUpper(name), "SIG")
		t, err := time.ParseDuration(within)
		if name != "" && name != "USR1" && name != "USR2" || given && err == nil && t > mostSaving {
			return false
		}
	}
	return true
}

// leftOut names the settings of a project's file that launch ignores.
type leftOut []string

func (l leftOut) note(file *private.Settings, approved bool) string {
	note := fmt.Sprintf("%s sets %s; a project's file may do so only after `launch trust %s`", file.Path,
		strings.Join(l, ", "), ui.Quote([]string{file.Path}))
	if approved {
		note = fmt.Sprintf("%s sets %s; a file that others can write may not do so (%v)", file.Path, strings.Join(l,
			", "), file.Foreign)
	}
	if len(l) > 1 {
		return note + ". The settings are ignored"
	}
	return note + ". The setting is ignored"
}

func newTrust() *cobra.Command {
	var list, remove bool
	c := &cobra.Command{
		Use: "trust [FOLDER | FILE]", Short: "approve the settings file of a project, as it is now", Args: takes(0, 1,
			"one folder or file, or none for the current folder"),
		Long: `trust prints what the .launch.yaml and the .launch-job.yaml of a project hold, and records that you
approve of them. The approval ends when the file changes.

launch takes settings only from files that you or root own and nobody else can write. From such a file
of a project it takes what describes the project or makes launch do less. It takes the rest only after
"launch trust": json-file, state-dir, memory, grace, nodes-at, this-node, the name of a plugin, anyway,
notify-command, notify-host, an address in notify, an allow above metrics, a save-on that is not USR1 or
USR2, a sample beyond 100ms to 10s, a long formula-time, and yield. From a file that others can write it
takes nothing; after "launch trust" it takes everything but those.`,
		Example: "  launch trust\n  launch trust --list\n  launch trust --remove ~/project/.launch.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			say := ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}
			approved := private.Approved()
			if list {
				return listTrusted(say, approved)
			}
			path := strings.Join(args, "")
			if remove {
				return removeTrusted(say, approved, path)
			}
			return approve(say, approved, path)
		},
	}
	c.Flags().BoolVar(&list, "list", false, "list the approved files")
	c.Flags().BoolVar(&remove, "remove", false, "withdraw the approval of a file, or of a folder's files")
	c.MarkFlagsMutuallyExclusive("list", "remove")
	return c
}

// settingsOf lists the settings files of a path: the file itself, or those that launch reads in that folder. "" is the
// current folder.
func settingsOf(path string) ([]string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		home, _ := os.UserHomeDir()
		var paths []string
		for _, p := range []string{private.Nearest(path, projectFile, home), filepath.Join(path, declared.File)} {
			if _, err := os.Lstat(p); p != "" && err == nil {
				paths = append(paths, p)
			}
		}
		if len(paths) == 0 {
			return nil, fmt.Errorf("no %s and no %s for %s", projectFile, declared.File, path)
		}
		return paths, nil
	}
	if name := filepath.Base(path); name != projectFile && name != declared.File {
		return nil, fmt.Errorf("%s is not a settings file of a project: such a file is named %s or %s", path,
			projectFile, declared.File)
	}
	return []string{path}, nil
}

// approve prints the settings files of a path, and records them as approved.
func approve(say ui.Printer, approved private.Approvals, path string) error {
	paths, err := settingsOf(path)
	if err != nil {
		return err
	}
	for _, p := range paths {
		f, err := private.ReadSettings(p)
		if err != nil {
			return fmt.Errorf("reading %s: %w", p, err)
		}
		if err := approved.Add(f); err != nil {
			return err
		}
		say.Line("trusted: %s", f.Path)
		for line := range strings.Lines(string(f.Text)) {
			say.Line("    %s", strings.TrimRight(line, "\r\n"))
		}
		if f.Foreign != nil {
			say.Warn("%v: if they change it, the approval ends. launch still ignores settings that name paths or "+
				"weaken limits", f.Foreign)
		}
	}
	return nil
}

func listTrusted(say ui.Printer, approved private.Approvals) error {
	entries, err := approved.Entries()
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		say.Line("no file is trusted")
	}
	for _, e := range entries {
		state := "trusted"
		switch f, err := private.ReadSettings(e.Path); {
		case errors.Is(err, fs.ErrNotExist):
			state = "gone"
		case err != nil:
			state = "unreadable"
		case f.Sum() != e.SHA256:
			state = "changed"
		}
		say.Line("%-11s %s", state, e.Path)
	}
	return nil
}

// removeTrusted removes a file from the list, even if the file no longer exists, or the files of a folder.
func removeTrusted(say ui.Printer, approved private.Approvals, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	paths := []string{path}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if paths, err = settingsOf(path); err != nil {
			return err
		}
	}
	for _, p := range paths {
		if dir, err := filepath.EvalSymlinks(filepath.Dir(p)); err == nil { // as it was recorded
			p = filepath.Join(dir, filepath.Base(p))
		}
		if err := approved.Remove(p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		say.Line("no longer trusted: %s", p)
	}
	return nil
}

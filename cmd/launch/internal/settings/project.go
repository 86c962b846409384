package settings

import (
	"fmt"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/trace"
	"github.com/launch-ml/launch/core/ui"
)

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

func forbidden(string) bool { return false }

// projectRules has every setting. A value that cannot be read may be set: its error names the file.
var projectRules = map[string]projectRule{
	"allow": {func(v string) bool { c, err := ladder.ParseCost(v); return err != nil || c <= ladder.Metrics },
		"up to metrics", "a higher one lets launch change the experiment"},
	"anyway": {func(v string) bool { on, err := truth(v); return err == nil && !on }, "false",
		"runs what is certain not to fit"},
	"as-asked": {why: "changes less"},
	"bars":     {why: "is only shown"},
	"continue": {why: "goes on with a run of the same experiment only"},
	"device":   {why: "a card of this machine, or the CPU"},
	"fill":     {why: "changes no more than allow permits"},
	"formula-time": {shorter(trace.FormulaDeadline), "up to " + trace.FormulaDeadline.String(),
		"delays the start of the program"},
	"gpus":       {why: "what launch plans for"},
	"grace":      {forbidden, "none", "kills a program that still saves its state"},
	"inside":     {why: "a hook of launch's own, which prints nothing"},
	"last-words": {why: "saves what the program itself would save"},
	"json-file":  {forbidden, "none", "where launch writes"},
	"memory":     {forbidden, "none", "a limit for which the kernel may end the program"},
	"nodes-at":   {forbidden, "none", "with which machines launch talks"},
	"notify": {func(v string) bool { return !strings.Contains(v, "://") }, "bell, desktop, none",
		"an address would receive what the user runs"},
	"notify-command": {forbidden, "none", "a command that launch runs"},
	"notify-host":    {forbidden, "none", "gives an address the name of the machine"},
	"on-pressure":    {why: "changes no more than allow permits"},
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
	"state-dir": {forbidden, "none", "where launch writes"},
	"status":    {why: "is only shown"},
	"this-node": {forbidden, "none", "with which machines launch talks"},
	"trace": {func(v string) bool { return v == "auto" || v == "never" }, "auto, never",
		"runs the project's code for a plan"},
	"trace-time": {shorter(trace.Deadline), "up to " + trace.Deadline.String(), "delays the start of the program"},
	"tty":        {why: "how the output is read"},
	"verbose":    {why: "is only shown"},
	"vram":       {why: "what launch plans for"},
	"wait":       {why: "waits before the program starts; a signal ends it"},
	"yield":      {forbidden, "none", "for the trials of a sweep: stops instead of adjusting"},
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

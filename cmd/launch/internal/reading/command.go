package reading

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

// MissingScript is an error if the command names a script that is not there.
func MissingScript(c job.Command) error {
	prog, err := c.Prog()
	if err != nil || prog.Path() == "" || prog.Shell || len(prog.Texts) > 0 { // a shell may make the script first
		return nil
	}
	if _, err := os.Stat(prog.Path()); errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return fmt.Errorf("there is no script %s%s", prog.Path(), config.Meant(config.NearFile(prog.Path())))
	}
	return nil
}

// StopsAtOnce is an error if the program surely stops as it begins: its script is not there, or does not
// know an option.
func StopsAtOnce(c job.Command) error {
	if why := MissingScript(c); why != nil {
		return why
	}
	prog, err := c.Prog()
	if err != nil || prog.Path() == "" || prog.Shell || len(prog.Texts) > 0 {
		return nil
	}
	option, near := python.Refused(prog.Path(), prog.Args, prog.Dir)
	if option == "" {
		return nil
	}
	return fmt.Errorf("%s does not know the option %s%s", prog.Script, option, config.Meant(near))
}

// maxHint bounds the command that a hint repeats.
const maxHint = 300

// TraceHint is the line that ends a plan whose need is not known, where a trace could show it; "" elsewhere. flags are
// those of the plan.
func TraceHint(p *intake.Reading, d *gpu.Device, flags []string) string {
	if p.Run != nil {
		plan, _ := p.Run.First()
		if plan == nil || !slices.ContainsFunc(plan.Choices, func(c run.Choice) bool { return !c.Estimate.Known() }) {
			return ""
		}
	}
	helps, takes, has := p.TraceHelps(d)
	switch {
	case !helps:
		return ""
	case takes != "":
		return fmt.Sprintf("launch plan --trace would show what it needs, but takes %s: "+
			"this command's Python has torch %s", takes, has)
	}
	command := slices.Concat([]string{"launch", "plan", "--trace"}, flags, []string{"--"}, p.Command.Args)
	return "to see what it needs, without a card: " + ui.OneLine(ui.Quote(command))
}

// DeclareHint is the line after "launch does not recognise this command": how to declare it. It is "" where a
// declaration would not help, because launch finds no Python script in the command.
func DeclareHint(p *intake.Reading) string {
	if !p.Declarable() {
		return ""
	}
	command := []rune(ui.Quote(p.Command.Args))
	if len(command) > maxHint {
		command = append(command[:maxHint], []rune("…")...)
	}
	return "to declare its settings: launch init -- " + ui.OneLine(string(command))
}

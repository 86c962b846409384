package main

import (
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/ui"
)

// maxHint bounds the command that a hint repeats.
const maxHint = 300

// declareHint is the line after "launch does not recognise this command": how to declare it. It is "" where a
// declaration would not help, because launch finds no Python script in the command.
func declareHint(p *intake.Reading) string {
	if !p.Declarable() {
		return ""
	}
	command := []rune(ui.Quote(p.Command.Args))
	if len(command) > maxHint {
		command = append(command[:maxHint], []rune("…")...)
	}
	return "to declare its settings: launch init -- " + ui.OneLine(string(command))
}

package main

import (
	"os"
	"strconv"

	"golang.org/x/term"

	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/screen"
	"github.com/launch-ml/launch/core/ui"
)

// colour reports whether output to f may have colours.
func colour(f *os.File) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(f)
}

// screen fits a printer to where f leads: on a terminal a plan has its width, and bars. Elsewhere it has one line for
// each fact, however long, and no bars, so that what scripts search for stays as it is.
func (s settings) screen(say ui.Printer, f *os.File) ui.Printer {
	terminal := isTerminal(f)
	say.Bars = s.Bars == "always" || s.Bars == "auto" && terminal && os.Getenv("TERM") != "dumb"
	if terminal {
		say.Width, _, _ = term.GetSize(int(f.Fd()))
	} else if say.Bars {
		say.Width, _ = strconv.Atoi(os.Getenv("COLUMNS"))
	}
	if say.Width < 0 {
		say.Width = 0
	}
	return say
}

// share has a run share the terminal with launch: what launch prints goes between the program's own lines. It returns
// the printer for that.
func (s settings) share(say ui.Printer, setup *attempt.Setup) ui.Printer {
	scr := screen.New(say.W, s.Shows)
	say.W, setup.Screen = scr.Voice(), scr
	if !s.Quiet {
		setup.Tell = say.Advise
	}
	if s.Shows.Any() {
		setup.Live = func(now record.Status) { scr.Show(screen.Status(ui.Status(now))) }
	}
	return say
}

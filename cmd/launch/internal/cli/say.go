package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"

	"golang.org/x/term"

	"github.com/launch-ml/launch/core/ui"
)

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Colour reports whether output to f may have colours.
func Colour(f *os.File) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && IsTerminal(f)
}

// Out prints results, on the standard output.
func Out() ui.Printer { return ui.Printer{W: os.Stdout, Colour: Colour(os.Stdout)} }

// Notes prints what is no result, on the standard error.
func Notes() ui.Printer {
	return ui.Printer{W: os.Stderr, Prefix: "launch: ", Colour: Colour(os.Stderr)}
}

// Reporter prints launch's own lines while a command runs.
func Reporter(quiet, verbose bool) ui.Printer {
	say := Notes()
	say.Quiet, say.Verbose, say.Kept = quiet, verbose, &bytes.Buffer{}
	return say
}

// Fitted fits a printer to where f leads: on a terminal a plan has its width, and bars. Elsewhere it has one line for
// each fact, however long, and no bars, so that what scripts search for stays as it is. bars is what the user wants of
// them: "auto", "always" or "never".
func Fitted(say ui.Printer, f *os.File, bars string) ui.Printer {
	terminal := IsTerminal(f)
	say.Bars = bars == "always" || bars == "auto" && terminal && os.Getenv("TERM") != "dumb"
	if terminal {
		say.Width, say.Height, _ = term.GetSize(int(f.Fd()))
	} else if say.Bars {
		say.Width, _ = strconv.Atoi(os.Getenv("COLUMNS"))
	}
	if say.Width < 0 {
		say.Width = 0
	}
	return say
}

// Tables prints tables on the standard output, which are lists where its terminal is narrow.
func Tables() ui.Printer { return Fitted(Out(), os.Stdout, "never") }

// PrintJSON prints a document.
func PrintJSON(v any) error {
	doc, err := JSON(v)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(doc)
	return err
}

// Show prints a document, as JSON or as a person reads it.
func Show[D any](asJSON bool, d D, print func(D)) error {
	if asJSON {
		return PrintJSON(d)
	}
	print(d)
	return nil
}

// JSON is a document as text.
func JSON(v any) ([]byte, error) {
	var doc bytes.Buffer
	e := json.NewEncoder(&doc)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return ui.CleanJSON(doc.Bytes()), err
}

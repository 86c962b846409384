package sweep

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/launch-ml/launch/core/config/command"
)

// ReadCommands reads trials from lines, one command a line. Empty lines and lines that begin with # are skipped. A line
// that is more than words (a pipe, a variable, a redirection) is a script for sh -c.
func ReadCommands(in io.Reader) ([]Trial, error) {
	var trials []Trial
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if n == 1 {
			line = strings.TrimPrefix(line, "\ufeff") // of an editor
		}
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.Contains(line, "\x00") {
			return nil, fmt.Errorf("line %d has a zero byte, which no argument can hold", n)
		}
		args, err := command.Words(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if len(trials) == mostValues {
			return nil, fmt.Errorf("the sweep has more than %d trials", mostValues)
		}
		trials = append(trials, Trial{Number: len(trials) + 1, Command: args})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the commands: %w", err)
	}
	if len(trials) == 0 {
		return nil, errors.New("no commands: write one on each line")
	}
	return trials, nil
}

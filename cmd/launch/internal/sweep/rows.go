package sweep

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unicode/utf8"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/sameness"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/sweep"
)

// longestFile is how long a sweep's file may be, in bytes: a device has no end.
const longestFile = 64 << 20

// readSweepFile reads a sweep's file, which may be a pipe.
func readSweepFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, longestFile+1))
	if err == nil && len(text) > longestFile {
		err = fmt.Errorf("it has more than %d bytes", longestFile)
	}
	return text, err
}

// stdinRows reads commands from standard input.
func stdinRows() ([]sweep.Trial, error) {
	if cli.IsTerminal(os.Stdin) {
		return nil, errors.New("a sweep needs a command after --, or commands on standard input, one a line")
	}
	return sweep.ReadCommands(os.Stdin)
}

// checkTexts refuses a sweep that its journal, which is JSON, could not give back as it is: a row that starts again
// would be another one.
func checkTexts(a sweep.Asked, trials []sweep.Trial) error {
	texts := slices.Concat(a.Command, a.Flags)
	for _, d := range slices.Concat(a.Space.Dimensions, a.Space.Seeds) {
		for _, v := range d.Values {
			texts = append(texts, v.List...)
		}
	}
	for _, t := range trials {
		texts = append(texts, t.Command...)
		for _, s := range t.Assignment {
			texts = append(texts, s.Key, s.Value)
		}
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%.100q is not UTF-8, and what a sweep records is: name a file by a link, or by its folder", text)
		}
	}
	return sameness.NoPipes(job.Command{Args: texts})
}

// checkSecrets refuses rows with secrets: the journal of a sweep has all of them.
func checkSecrets(trials []sweep.Trial) error {
	for _, t := range trials {
		if record.HasMask(record.MaskArgs(t.Command)) {
			return fmt.Errorf("the command on row %d has a secret: put it into the environment", t.Number)
		}
		for _, s := range t.Assignment {
			if record.HasMask(record.MaskArgs([]string{s.Key, s.Value})) ||
				record.HasMask(record.MaskArgs([]string{s.String()})) {
				return fmt.Errorf("%s is a secret: put it into the environment", s.Key)
			}
		}
	}
	return nil
}

package run

import (
	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/carry"
	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/reading"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
)

// A launch runs one command.
type launch struct {
	*carry.Carrier
	reader    reading.Reader
	row       string // the mark of the sweep's row that it is; "": none
	bars      string // of plans
	continues bool   // the last run of the same command goes on, if it has not succeeded
	expects   bool   // the user set something that has an effect only on a recognised job
}

func newLaunch(f *cli.Factory, c *cobra.Command, s settings.Values) *launch {
	l := &launch{Carrier: carry.New(f, s, settings.Accepted(c)), reader: reading.New(f, s), row: s.Row.Mark,
		bars: s.Output.Bars, continues: s.Continue, expects: s.Expects}
	l.reader.Runs = true
	return l
}

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
	l := &launch{Carrier: carrier(f, c, s), row: s.Row.Mark, bars: s.Output.Bars,
		reader: reading.New(f, s.State, s.Room, s.Limits, s.Reading), continues: s.Continue, expects: s.Expects}
	l.reader.Runs, l.reader.Trace = true, reading.Before(s.Reading, s.Limits.Fill)
	return l
}

// carrier returns what carries the run of a command line.
func carrier(f *cli.Factory, c *cobra.Command, s settings.Values) *carry.Carrier {
	return carry.New(f.Linked, carry.Settings{State: s.State, Room: s.Room, Anyway: s.Limits.Anyway, Program: s.Program,
		Output: s.Output, Notices: s.Notices, Nodes: s.Nodes, Result: s.Result, Row: s.Row, Prune: s.Prune,
		Accept: settings.Accepted(c)})
}

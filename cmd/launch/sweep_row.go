package main

import (
	"errors"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/record"
)

// ofRow reads the mark of a sweep's row. Like --set it is part of one job: no environment and no settings file has it.
func (s *settings) ofRow(f *pflag.FlagSet) {
	text, err := f.GetString(rowFlag)
	if err != nil || text == "" {
		return
	}
	mark, names, _ := strings.Cut(text, ",")
	s.Row, s.RowEnv = mark, strings.FieldsFunc(names, func(r rune) bool { return r == ',' })
	// The sweep has started this launch as /proc/self/exe. Other launches know it by the name of its program.
	_ = os.WriteFile("/proc/self/comm", []byte("launch"), 0)
}

// newRecord makes the record of a run that this launch begins.
func (s settings) newRecord() (*record.Record, error) {
	rec, err := record.In(s.State).Create(time.Now())
	if err == nil {
		s.carryRow(rec)
	}
	return rec, err
}

// carryRow marks the record of a run that this launch carries for a sweep's row, and keeps room for the run's end: on a
// disk that is full by then, a row that succeeded would be trained again.
func (s settings) carryRow(rec *record.Record) {
	if rec.Row = s.Row; s.Row != "" {
		rec.Reserve()
	}
}

// trouble is what went wrong in launch while a program ran. Of a sweep's row the sweep keeps the output, which is no
// part of its result: what a full disk has cut off does not make it fail.
func (s settings) trouble(x *attempt.Executor) error {
	var lost *proc.OutputError
	if s.Row != "" && errors.As(x.Trouble, &lost) {
		return nil
	}
	return x.Trouble
}

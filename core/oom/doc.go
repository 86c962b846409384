// Package oom finds out, from what a program printed and how it ended, whether it really ran out of memory, and
// where.
//
// It has three floors, and what flows between them flows one way.
//
// Text to events. A [Detector] reads raw output as it comes (io.Writer), with what core/oom/printed has for it.
// detector.go keeps a bounded excerpt around each line that may matter. patterns.go reads a plugin's signs, state.go
// sums them up, stream.go does so for each stream. Nothing more is done, and nothing judged, while the program runs.
//
// Events to signs. When it has ended, printed.Rows takes the excerpts apart, and frames.go their tracebacks. rules.go
// is the table of every text that this package knows, with its source; what is not of memory is printed.Faults.
// reading.go applies it to a line, findings.go to an excerpt; cutoff.go finds a traceback that has lost its end.
//
// Signs to a verdict. aftermath.go decides what came after a failure, laterrun.go what another run did; rank.go finds
// whose it was. The phase is by frames (phase.go, work.go), by source (source.go) or by words (phasewords.go);
// part.go has the part of it. report.go finds what ended the program, kind.go why a card was full; judge.go and
// weigh.go hold that against what else was observed, which seen.go lists.
//
// What a person is told of a verdict, and what would have helped, is core/advice's.
//
// types.go has the answer, a [Report], and what it is made of.
package oom

// Package oom tells a real out-of-memory from everything else, and where it happened, from what a program printed and how
// it ended.
//
// A Detector reads raw output as it comes (io.Writer), cleans it, and keeps a bounded excerpt around each line that may
// matter. Nothing is judged while the program runs. Report then reads the excerpts in one order:
//
//	bytes ──clean──▶ lines ──trigger──▶ excerpts ──findings──▶ Report ──Judge──▶ Verdict
//	                   └──────signs────▶ State ───────────────────────────┘
//
// clean.go makes lines of bytes; literals.go finds the few that may matter, sieve.go passes over the others sooner;
// detector.go keeps excerpts, tail.go what came before them; signs.go and record.go read a plugin's words, thin.go passes
// over progress that comes in floods. rules.go lists every text that this package knows, with its source; reading.go
// applies them to a line; findings.go collects what an excerpt shows; message.go reads the numbers, trace.go the frames, progress.go
// the progress; renewal.go tells where another run began in the same text, caught.go what a program has caught and logged, rank.go
// which rank failed; locale.go has words of other languages;
// phase.go, part.go and kind.go say which phase, which part of it, and which memory; report.go finds what ended the program.
// evidence.go is what was seen beside the text; judge.go is the rule, weigh.go and killed.go weigh what was seen; explain.go
// says it to a person, remedy.go what would have helped, by clues.go.
package oom

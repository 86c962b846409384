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
// detector.go keeps excerpts, thin.go passes over progress that comes in floods, tail.go what came before them; signs.go and record.go read a plugin's words; rules.go lists
// every text that this package knows, with its source; findings.go applies them; message.go reads the numbers, trace.go
// the frames; phase.go, part.go and kind.go say which phase, what of it, and which memory; report.go finds what ended the program; judge.go
// weighs it with the exit; explain.go says it to a person, remedy.go what would have
// helped, clues.go in whose words.
package oom

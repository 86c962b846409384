// Package oom finds out, from what a program printed and how it ended, whether it really ran out of memory, and where.
//
// A Detector reads raw output as it comes (io.Writer), cleans it, and keeps a bounded excerpt around each line that may
// matter. It judges nothing while the program runs. Report then reads the excerpts in one order:
//
//	bytes ──clean──▶ lines ──trigger──▶ excerpts ──findings──▶ Report ──Judge──▶ Verdict
//	                   └──────signs────▶ State ───────────────────────────┘
//
// What the output holds: clean.go makes lines of bytes; words.go finds the few lines that may matter; detector.go keeps excerpts, tail.go the lines before them; signs.go and record.go read a plugin's signs.
//
// What it means: rules.go lists every text that this package knows, with its source, locale.go those in other
// languages; reading.go applies the rules to a line, and findings.go to an excerpt; advice.go leaves out words that
// only name a possibility; message.go reads the numbers, trace.go the frames, progress.go the progress, rank.go which
// rank failed; cutoff.go finds a traceback that has lost its end, and retries.go what an allocator prints of a full
// card; renewal.go finds where another run began in the same text, caught.go what a program caught and logged,
// sequel.go what it did after a failure. The phase is by its frames (phase.go, working.go), by what shows whose
// forward pass it is (forward.go), or by the words around it (phasewords.go); part.go and kind.go decide on the part of it
// and the memory; report.go finds what ended the program.
//
// The verdict: evidence.go has what was observed besides the text; judge.go decides, weigh.go and killed.go compare the text
// with those observations. explain.go describes the result to a person, remedy.go lists what would have helped, by clues.go.
package oom

// Package core is the tour of launch. It has no code of its own.
//
// A training command becomes a job, the job's ladders are priced, a plan is made, carried out, and what came of it is
// appended to the run, which then knows its next step:
//
//	command ──Recognize──▶ job ──Ladders──▶ ladders ──Next──▶ plan ──Execute──▶ outcome ─┐
//	                                           ▲                                         │ append
//	                                           └──────────────── run ◀───────────────────┘
//
// Ten stops, in the order in which a command passes through them. Each names its rooms, the folders of core; what lies
// deeper in a room belongs to it, and its own package comment says what it is.
//
//	read      intake, config, python: which program a command starts, and the settings that it takes, byte for byte
//	know      plugin, job: who knows the program's family, and what it is asked to do, as a value
//	foresee   nn, mem, ladder, trace: what the job needs, counted or traced without computing it, and the ways to run it
//	fit       gpu, room, check: what the machine has, what the job may take of it, and what speaks against a start
//	run       run, attempt, proc, overlay: the next step is decided, and carried out to the program's last byte
//	watch     observe: the memory that the program's processes hold, and those that wait for one that has ended
//	judge     oom, metric, advice: how the program ended, how good it was, and what its user should change
//	remember  record, identity, states: what came of a run, what makes it the same run, and where it may resume
//	repeat    sweep: one command as many trials, on this machine, on a cluster or by another engine
//	show      ui, report: what a person sees and scripts read, while it runs and afterwards
//
// Below all of them:
//
//	small     unit, lazy, file, private: amounts of memory, late expressions, files of any kind, files of one's own
//
// Decisions are pure functions of values (ladder.Fit, run.Next, attempt's outcome, oom's verdict). Packages that act on
// the world (proc, gpu/drivers, record, plugin/host, overlay) decide nothing. cmd/launch wires them: it reads the
// settings, which go no further, and has a folder for each command (cmd/launch/main.go lists them). A plugin (plugins/)
// imports what pluginMay lists, and no more.
//
// arch_test.go lists who may import whom, and how large the house may be: rooms, packages, floors, lines of a package.
package core

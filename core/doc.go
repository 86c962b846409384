// Package core is the tour of launch. It has no code of its own.
//
// A training command becomes a job, the job's ladders are priced, a plan is made, carried out, and what came of it is
// appended to the run, which then knows its next step:
//
//	command ──Recognize──▶ job ──Ladders──▶ ladders ──Next──▶ plan ──Execute──▶ outcome ─┐
//	                                           ▲                                         │ append
//	                                           └──────────────── run ◀───────────────────┘
//
// The rooms of the house, in the order in which a command passes through them:
//
//	config     the settings of a recipe where they lie: documents that are edited byte for byte
//	config/command  what stands before a Python script's arguments: interpreters, launchers, shells
//	python     the Python that a command would use, by its files: interpreter, packages, versions
//	job        what the user asked for, as a plugin has read it; rewriting its command
//	confine    the folders that a job's paths may lie in: what a plugin names is found, moved and removed there alone
//	overlay    settings in Python source: read by an interpreter that runs nothing, served in place of the file
//	plugin     what the author of a plugin writes against; hides go-plugin
//	plugin/host     finding plugins and asking them: in a process of their own or, where nothing is started, in this one
//	plugin/plugintest what holds a plugin to its word: is every rung priced as the job that it makes?
//	plugin/declared the plugin of projects that have none: a short file says where their settings lie
//	plugin/internal/wire  JSON documents between launch and a plugin's process
//	nn         what a PyTorch module costs without running it: the forward pass on a tape
//	mem        the ledger: lines of memory with a kind, a part and a source; the caching allocator, replayed
//	unit       amounts of memory
//	file       reading files that may be anything: no FIFO makes launch wait, none is without end
//	lazy       regular expressions, compiled when they are first used
//	gpu        devices and looks at them, as values
//	gpu/nvml   NVIDIA's driver, in a process of its own
//	hostmem    the rooms of the host: its memory and /dev/shm
//	claim      memory that a run holds for itself, so that no other launch promises it too
//	ladder     the ways to run a job, priced, and which of them fits
//	run        a job and its attempts; Next, which decides, and Carry, which does
//	private    files of launch's own, where no other account can change them; what a link in a shared folder may lead to
//	proc       a program in a pseudo-terminal or on copied pipes, to its last byte
//	oom        what a program's output says of how it ended
//	witness    what its own processes say of their memory, by a part of overlay's hook
//	states     the saved states that a resume reads: which are complete, and this run's own
//	record     runs on disk
//	receipt    what was predicted and what was measured: written, kept and learned from
//	trust      which settings files are believed: the user's own, and what the user has approved
//	ui         everything that a person sees, and the documents that scripts read
//
// Decisions are pure functions of values (ladder.Fit, run.Next, oom's verdict); what acts on the world (proc, nvml,
// record, plugin/host, overlay) decides nothing. arch_test.go says who may import whom.
//
// cmd/launch wires them: settings.go reads the settings (mistyped.go names those that are none), prepare.go reads the command and
// asks the plugin in the way that client.go has for it, for as long as patience.go says; root.go carries the run, early.go hears who interrupts it before it runs, execute.go carries out
// one attempt with the tap on its output (tap.go), the looks at card and host (watch.go, looks.go) and what may end it early
// (guard.go); states.go follows what it saves, cutshort.go what an attempt saved that was never seen to end,
// confirm.go which settings it took. estimate.go prices a network without a
// command, explain.go says what a log or a run died of. receipts.go lists receipts, and takes them to another machine and
// back; course.go splits its peaks by phase, hostwatch.go looks at what a limit on host memory counts, inside.go asks
// the program's own processes. trust.go and statedir.go keep what other accounts could change out of it, claims.go promises host
// memory once, handover.go runs the command where launch itself lacks something, prune.go removes old records, again.go takes a
// secret again, result.go writes --json-file.
//
// In a plugin one file reads the command, ladders.go lists the ways to run, and price.go asks arch, which has the
// formulas, what each needs; stablesr's ahead.go begins with that before it is asked ([plugin.Anticipator]).
package core

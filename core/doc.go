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
//	claim      memory that a run holds for itself, so that no other launch promises it too
//	room       the memory that a job may take: on its device, in host memory, in /dev/shm; the limit; what is promised of it
//	ladder     the ways to run a job, priced, and which of them fits
//	intake     a command becomes a run: its program, the plugin that knows it, what that needs to know, its room and ladders
//	run        a job and its attempts; Next, which decides, and Carry, which does
//	private    files of launch's own, where no other account can change them; what a link in a shared folder may lead to
//	proc       a program in a pseudo-terminal or on copied pipes, to its last byte
//	oom        what a program's output says of how it ended
//	witness    what its own processes say of their memory, by a part of overlay's hook
//	observe    the memory that a job holds while it runs, and which phase took it
//	states     the saved states that a resume reads: which are complete, and this run's own
//	attempt    one plan carried out on this machine: copies written, program run and observed, its end judged
//	record     runs on disk
//	receipt    what was predicted and what was measured: written, kept and learned from
//	trust      which settings files are believed: the user's own, and what the user has approved
//	ui         everything that a person sees, and the documents that scripts read
//	explain    what a text or a recorded run died of: logs, notebooks, standard input, records
//
// Decisions are pure functions of values (ladder.Fit, run.Next, oom's verdict); what acts on the world (proc, nvml,
// record, plugin/host, overlay) decides nothing. arch_test.go says who may import whom.
//
// cmd/launch wires them, a file a command: run.go runs one and resume.go goes on with one, plan.go and estimate.go price, explain.go
// explains; commands.go, receipts.go, prune.go and trust.go are the small ones. settings.go reads the settings, which end there
// (mistyped.go names those that are none), signals.go collects the signals that arrive while no
// program runs, claims.go claims host memory, result.go writes --json-file.
//
// In a plugin one file reads the command, ladders.go lists the ways to run, and price.go asks arch, which has the
// formulas, what each needs; stablesr's ahead.go begins with that as soon as it has read the recipe.
package core

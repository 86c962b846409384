// Package core is the tour of launch. It has no code of its own.
//
// A training command becomes a job, the job's ladders are priced, a plan is made, carried out, and what came of it is
// appended to the run, which then knows its next step:
//
//	command ──Recognize──▶ job ──Ladders──▶ ladders ──Next──▶ plan ──Execute──▶ outcome ─┐
//	                                           ▲                                         │ append
//	                                           └──────────────── run ◀───────────────────┘
//
// The packages, in the order in which a command passes through them:
//
//	trust      which settings files are believed: the user's own, and what the user has approved
//	intake     turns a command into a run: its program, the plugin that knows it, its job, its room and ladders
//	config/command  finds the Python script of a command: behind interpreters, launchers and shells
//	plugin/host     finds plugins and asks them: in a process of their own or, where nothing is started, in this one
//	plugin/installed  the plugins by other authors that the user has installed or trusted, pinned by checksum
//	plugin/internal/wire  carries JSON documents between launch and a plugin's process
//	plugin     what the author of a plugin writes against; hides go-plugin
//	plugin/kit tests a plugin's promises, and returns what it found: is every rung priced as the job that it makes?
//	plugin/plugintest makes the kit's tests in the Go tests of a plugin
//	plugin/declared the plugin of projects that have none: a short file names their settings
//	plugin/declared/draft  the first version of a declaration, from a command and its script
//	config     documents of settings, edited in place, byte for byte: YAML, TOML, arguments, Python
//	python     the Python that a command would use, by its files; reads Python source without running it
//	python/options  the settings that a Python program takes, and their defaults: argparse, dataclasses, constants
//	formula    runs a plugin's own PyTorch module on the meta device, in the command's Python: what it keeps and needs
//	trace      runs a script with tensors that are not there, and replays what its card would have held
//	overlay    settings in Python source: read by an interpreter that runs nothing, served in place of the file
//	job        what the user asked for, as a plugin has read it; rewriting its command
//	confine    the folders that a job's paths may lie in: launch finds, moves and removes files there only
//	nn         counts what a PyTorch module costs, without running it: the forward pass on a tape
//	mem        the ledger: lines of memory with a kind, a part and a source; replays the caching allocator
//	ladder     the ways to run a job, priced, and which of them fits
//	room       the memory that a job may take: on its device, in host memory, in /dev/shm; which card; the wait for room
//	gpu        devices, as values
//	gpu/nvml   NVIDIA's driver, in a process of its own: its library or, where that cannot be loaded, nvidia-smi
//	gpu/nvml/child  the program that loads the library for a launch that is static
//	claim      memory that a run holds for itself, on a card or of the host, so that no other launch promises it too
//	run        a job and its attempts; Next decides, Carry acts
//	nodes      carries a run on several machines: one launch decides, the others follow it
//	attempt    carries out one plan on this machine: writes copies, runs and observes the program, judges its end
//	proc       a program in a pseudo-terminal or on copied pipes, to its last byte
//	proc/internal/keep  the keeper of a program's processes: system calls alone, so that it starts before the rest
//	screen     shares the terminal with a program: launch's lines between its own, a status line, title, progress
//	ranks      finds the ranks of a program, and those that wait for one that has ended
//	observe    watches the memory that a job holds, and assigns the peaks to phases
//	oom        reads a program's output, and decides how the program ended
//	checklist  what a training should have reached at its end, by what it printed: met, not met, not checked
//	advice     what a program's output and its curves advise its user to change: patterns, bounds, windows
//	witness    what the program's own processes report of their memory, through a part of overlay's hook
//	identity   what makes a run the same run: code, recipes, arguments, environment, packages, data, ranks
//	states     the saved states that a resume reads: which are complete, and which are this run's own
//	record     runs on disk
//	live       what a running launch publishes of its run, for other processes to read
//	sweep/pack places a sweep's trials on mixed cards, several on one where that is safe and pays
//	sweep/packed     passes what is known of a sweep's trials and cards to pack, and its decisions back
//	sweep/pack/packtest  simulates sweeps on mixed cards, and prints how much packing shortens them
//	receipt    predicted beside measured: receipts are written, kept, and used to correct estimates
//	top        the runs of this machine, its cards and what others hold of them, now; and the screen that shows them
//	ui         everything that a person sees, and the documents that scripts read
//	notice     sends a notice when a run or a sweep ends: bell, desktop, command, web address
//	sweep      one command as many trials: their space, their history, and which of them run next
//	sweep/store     sweeps on disk: the journal, and a folder for each trial
//	sweep/tree      the code that a sweep runs: its commit, what differs from it, and a copy of it
//	sweep/ask       asks a program of the user's for trials, and tells it what came of them
//	sweep/slurm     runs trials as array jobs of Slurm, has them run again where Slurm took the machine, and resumes them
//	sweep/emit      writes a sweep as a file for another engine: SkyPilot, Kubernetes, GNU parallel
//	sweep/slurm/slurmtest  a real Slurm for tests
//	sweep/local     runs trials on this machine, each as a launch of its own, and finds those that outlived a kill
//	report      a page about a run or a sweep, to look at and to share: HTML, Markdown
//	report/plot     draws shapes as SVG and PNG
//	diff       compares two recorded runs: memory line by line, figures, and the settings and versions that differ
//	doctor     examines the machine and the Python that a command would use, and names what mends a fault
//	check      what speaks against a command before it starts: settings, data, memory, disk, saved states, Python
//	explain    why a text or a recorded run ended: logs, notebooks, standard input, records
//
// Below all of them:
//
//	unit       amounts of memory
//	metric     the figures by which trainings are compared: the last value and the best one
//	lazy       regular expressions, compiled when they are first used
//	file       reading files that may be anything: no FIFO makes launch wait, none is endless
//	private    launch's own files, where no other account can change them; what a link in a shared folder may lead to
//
// Decisions are pure functions of values (ladder.Fit, run.Next, attempt's outcome, oom's verdict). Packages that act on the
// world (proc, nvml, record, plugin/host, overlay) decide nothing. arch_test.go lists who may import whom.
//
// cmd/launch wires them, one file for each command: run.go and resume.go carry a run, plan.go and estimate.go price,
// compare.go compares configurations, explain.go explains, report.go writes pages, top.go shows what runs now,
// check.go checks a command before it runs, stop.go stops a run from beside,
// help.go has the help, sbatch.go prints scripts for Slurm, documents.go
// lists the JSON documents, screen.go fits a plan to its terminal; commands.go, receipts.go, prune.go and trust.go
// have the small ones. settings.go reads the settings, which go no further (mistyped.go finds misspelled ones);
// cards.go claims cards and waits for room, continue.go finds the run that --continue goes on with, identity.go
// compares what goes on with what began, sameness.go does so between nodes, sweep.go and its neighbours start, price,
// place, submit and print sweeps (sweep_copy.go for copies of the code), input.go keeps what attempts read, signals.go
// collects signals that arrive while no program is running, result.go writes --json-file, notify.go sends notices.
//
// In plugin/declared, passes.go reads from a program's source what another micro-batch changes, with rates.go for
// learning rates, schedules.go for schedules and numbers of steps, losses.go for losses, sums.go for sums,
// eachpass.go for what each pass does, engine.go for accelerate, position.go for states that count passes, and
// telling.go for which files are read at all. In identity, code.go follows imports, opens.go and constants.go find
// what the code names, sample.go samples large data. In oom, text.go, rich.go and json.go make lines of output,
// words.go, patterns.go, rules.go and numbers.go find signs in them, judge.go weighs them, remedy.go advises.
// In attempt, standing.go finds what has become of saved states, and resumed.go whether a resume was one.
//
// In a plugin one file reads the command, ladders.go lists the ways to run, and price.go asks arch, which has the
// formulas, what each needs; stablesr's ahead.go begins with that as soon as it has read the recipe.
// In plugins/lm one file reads each framework (read.go transformers, sft.go and dpo.go trl, factory.go, axolotl.go,
// own.go scripts of one's own, with own_names.go for what a name is, and own_trainer.go, own_rows.go, own_data.go and
// own_group.go for a plain Trainer), one each form (quant.go, packing.go, liger.go, cut.go, deepspeed.go, fsdp.go,
// experts.go), averaged.go where another micro-batch changes the loss, lengths.go the data set's longest row
// (lengths_factory.go, lengths_trl.go with lengths_chat.go, lengths_axolotl.go, lengths_tokenizer.go; package tokens
// counts), and assumed.go the versions.
package core

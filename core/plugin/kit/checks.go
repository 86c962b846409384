package kit

import "slices"

// A Check is one thing that is tested. docs/plugins.md has a section for each.
type Check struct {
	Name    string `json:"name"`
	Promise string `json:"promise"`
	Mend    string `json:"mend"`
}

// The names of the checks.
const (
	manifestCheck   = "manifest"
	marksCheck      = "marks"
	environCheck    = "environment"
	recognisedCheck = "recognised"
	valuesCheck     = "values"
	sameCheck       = "same-answer"
	documentCheck   = "document"
	jobCheck        = "job"
	knobsCheck      = "knobs"
	sentencesCheck  = "sentences"
	signsCheck      = "signs"
	resumeCheck     = "resume"
	rehearsalCheck  = "rehearsal"
	laddersCheck    = "ladders"
	fallsCheck      = "memory-falls"
	invariantsCheck = "invariants"
	unitsCheck      = "units"
	sourcesCheck    = "sources"
	runtimeCheck    = "runtime-line"
	editsCheck      = "edits"
	readBackCheck   = "read-back"
	pricedCheck     = "priced-as-made"
	growsCheck      = "grows"
	foreignCheck    = "foreign-commands"
	garbageCheck    = "garbage"
	deadlineCheck   = "deadline"
	writesCheck     = "writes-nothing"
	startsCheck     = "starts-nothing"
)

// Checks are all checks, in the order in which a report has them.
var Checks = []Check{
	{manifestCheck, "the manifest has a name, a version, a line about the plugin and marks that can match",
		"Complete the manifest. It is static: it does not depend on a command."},
	{marksCheck, "a command that the plugin recognises, leaves alone or refuses bears one of the manifest's marks",
		"Add a mark that the command bears, or loosen one: launch asks no plugin that has no matching mark."},
	{environCheck, "the manifest lists every variable that the plugin reads",
		"Add the variable to the manifest's env: the plugin receives no other one."},
	{recognisedCheck, "the plugin recognises, declines or leaves alone each case as its author expects",
		"Read the sentence that the plugin gave. If the plugin is right, correct what the case expects."},
	{valuesCheck, "micro-batch, accumulation, ranks and phases are what the author expects",
		"Compare how the plugin reads these settings with how the program reads them: defaults, launchers, environment."},
	{sameCheck, "the same question gets the same answer: again, from several threads, and from a new process",
		"Sort what comes out of maps and sets, keep no state between questions, and use no clock and no random numbers."},
	{documentCheck, "launch reads the same document that the plugin wrote",
		"Compare the document with its description (docs/writing-a-plugin.md); a value that JSON cannot hold is lost."},
	{jobCheck, "launch accepts the job: numbers in bounds, known documents, no knob twice, absolute folders",
		"The sentence names the value that launch refuses."},
	{knobsCheck, "the value of a knob is what the document has at the knob's address",
		"Give the knob the address from which the program reads it; for a setting that is absent, set default."},
	{sentencesCheck, "sentences have no escape sequences, no traces of a program and at most 2,000 characters",
		"Write one plain sentence; quote what comes from a file (Go: %q, Python: !r)."},
	{signsCheck,
		"patterns compile, have the groups that launch reads, match no empty line and name phases and knobs that exist",
		"Correct the pattern: RE2, over one line, with the groups (?P<iteration>…), (?P<value>…) or (?P<bytes>…)."},
	{resumeCheck,
		"the edits of a resume can be made and name the saved state, or the job has the reason why it starts over",
		"Put the placeholder {saved state} into the value of one edit; without a way to resume set resume.none."},
	{rehearsalCheck, "the edits of a rehearsal can be made and lead what the program writes into a folder of launch's",
		"Point the output folder to {scratch}, set away, or list what stays behind in leaves; else set rehearsal.none."},
	{laddersCheck, "launch accepts the ladders: the rungs as asked, costs in order, an estimate for each shared rung",
		"The sentence names the rung and what is wrong with it."},
	{fallsCheck, "each rung needs less memory than the rung above it",
		"Drop a rung that saves nothing (Go: ladder.Descend does), or correct its estimate."},
	{invariantsCheck, "each rung keeps the invariants, such as the global batch, that its cost does not give up",
		"Set the rung's values and edits so that the product stays, or give the rung a higher cost."},
	{unitsCheck, "amounts are bytes: none negative, plausible bytes for each element, no phase that is empty and known",
		"Amounts are in bytes. A phase without a formula has unknown set, never zero bytes."},
	{sourcesCheck, "each line of an estimate has a source",
		"Set from: the formula, the file or the measurement that the amount comes from."},
	{runtimeCheck, "a known estimate has what a process takes beside its tensors: the CUDA context, on a CPU the runtime",
		"Finish the estimate with plugin.OnDevice (Python: formula.process), or add the line yourself."},
	{editsCheck, "the edits of each rung can be made in the command's documents",
		"Use the address under which the document has the setting; set add where the setting is absent."},
	{readBackCheck, "after an edit the plugin reads the value that the edit set",
		"The plugin reads the setting from another place than it edits. Use one address for both."},
	{pricedCheck, "each rung is priced as the job that its edits make",
		"Compute the rung's estimate from the edited settings; the report lists the lines that differ."},
	{growsCheck, "estimates grow when the micro-batch is doubled",
		"The estimate does not depend on the micro-batch that the plugin read. Multiply what each sample takes."},
	{foreignCheck, "the plugin declines commands of other families",
		"Return ErrNotMine (Python: NotMine) unless the script or its recipe is certainly of this family."},
	{garbageCheck, "broken, huge and hostile files and commands neither crash the plugin nor make it answer nonsense",
		"Return an error for what cannot be read, and check numbers before use: NaN, negative and huge ones."},
	{deadlineCheck, "each answer comes before the deadline",
		"Bound what is read (launch gives a plugin 5 seconds in all), and stop when the question is cancelled."},
	{writesCheck, "the plugin changes nothing in the case's folder",
		"Keep what you need in memory. A plugin writes no file."},
	{startsCheck, "the plugin starts no process and loads neither torch nor a GPU driver",
		"Declare what takes a process as a need; launch finds it out."},
}

// Of returns the check of a name.
func Of(name string) Check {
	if i := slices.IndexFunc(Checks, func(c Check) bool { return c.Name == name }); i >= 0 {
		return Checks[i]
	}
	return Check{Name: name}
}

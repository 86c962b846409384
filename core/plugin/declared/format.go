package declared

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
)

// Version is the version of the format that this launch reads.
const Version = 1

// declaration is what a .launch-job.yaml or a ready declaration says.
type declaration struct {
	Version int64  `key:"version" doc:"the version of this format; 1 if it is left out"`
	About   string `key:"about" doc:"one line about the project"`

	Script    []string    `key:"script" need:"yes" doc:"which script, module or program the command runs; or a list"`
	Contains  []oneOfText `key:"contains" doc:"texts that the script's source must all hold; a list in it: one of them"`
	Beside    []string    `key:"beside" doc:"paths; one of them must exist beside the script or in the command's folder"`
	Arguments []string    `key:"arguments" doc:"words; one of them must be among the arguments, as a mode is"`
	Leave     []exception `key:"leave" doc:"commands that launch leaves alone, because the program adapts by itself"`
	Prefer    bool        `key:"prefer" doc:"use this declaration even if a built-in plugin knows the command, too"`

	Micro        *place  `key:"micro-batch" doc:"where the samples of one forward pass are set"`
	Accumulation *place  `key:"accumulation" doc:"where the forward passes of one optimizer step are set"`
	Ranks        *amount `key:"ranks" doc:"the processes that share a step: a number, a place, or cards"`
	Per          shares  `key:"per" doc:"which of these settings are for all ranks together"`
	Global       *amount `key:"global-batch" doc:"the samples of one optimizer step: a number or a place"`
	SampleTokens *amount `key:"sample-tokens" doc:"if global-batch counts tokens: how many a sample has"`
	Split        []split `key:"split" doc:"what another micro-batch costs, though the global batch stays"`
	Scaled       []place `key:"scaled" doc:"settings that count forward passes: they grow with the accumulation"`
	BatchNorm    bool    `key:"batch-norm" doc:"batch normalisation sees the micro-batch, so a split changes rounding"`

	Phases named[phase]  `key:"phases" doc:"other phases than the training, such as validation, by their names"`
	Rungs  []rung        `key:"rungs" doc:"what else launch may change, mildest first"`
	Values named[amount] `key:"values" doc:"names for numbers and settings, for memory and for paths ({NAME})"`
	Memory []line        `key:"memory" doc:"a formula of the memory of a phase, line by line"`
	Data   []place       `key:"data" doc:"settings that name a file or a folder of data, for launch check"`
	Ignore []place       `key:"ignore" doc:"settings that do not change the memory, such as --lr and --seed"`

	Started   pattern        `key:"started" doc:"what the program prints when its training loop begins"`
	Progress  pattern        `key:"progress" group:"iteration" doc:"what it prints at a step: (?P<iteration>…)"`
	Saved     pattern        `key:"saved" doc:"what it prints when it has saved a state: (?P<path>…)"`
	Succeeded pattern        `key:"succeeded" doc:"what it prints when it has done its work; without it, it has failed"`
	Metric    []figure       `key:"metric" doc:"figures by which trainings are compared"`
	Check     []expectation  `key:"check" doc:"what the end of a run should show: launch prints what it does not"`
	Confirm   named[pattern] `key:"confirm" doc:"how it prints a setting: (?P<value>…), by the name of the setting"`

	Save        *saving       `key:"save" doc:"the signal on which it saves its state"`
	LastWords   string        `key:"last-words" doc:"the library that saves after an out-of-memory, and on request"`
	Resume      *resume       `key:"resume" doc:"how it goes on from a saved state: {--OPTION: GLOB}, and other forms"`
	ResumeNeeds named[string] `key:"resume-needs" doc:"packages; older versions do not resume at another micro-batch"`
	ResumeSince named[string] `key:"resume-since" doc:"packages; older versions ignore the option, and start over"`
	ResumeValue string        `key:"resume-value" doc:"what the option of resume takes, if it is not the path"`
	InTheWay    []string      `key:"in-the-way" doc:"files that an attempt leaves and at which the next one would stop"`
	Clear       []string      `key:"clear" doc:"files that are put aside, not deleted, before an attempt that starts over"`
	Exclusive   string        `key:"exclusive" doc:"a folder that two runs must not use at the same time"`
	Rehearse    *rehearsal    `key:"rehearse" doc:"how the program is shortened for trials"`
}

// exception is a command that is left alone.
type exception struct {
	When settings[values] `key:"when" doc:"settings and their values; all must hold. Without it: every command"`
	Why  string           `key:"why" need:"yes" doc:"the reason, for the user"`
}

// shares are which settings are for all ranks together.
type shares struct {
	Micro        share `key:"micro-batch" doc:"rank, or all-ranks: the program divides it by the ranks"`
	Accumulation share `key:"accumulation" doc:"rank, or all-ranks: the program divides it by the ranks"`
}

// split is what another micro-batch costs.
type split struct {
	Cost cost   `key:"cost" need:"yes" doc:"what it gives up"`
	Why  string `key:"why" need:"yes" doc:"the reason, for the user"`

	Arguments []string `key:"arguments" doc:"words; it counts where one of them is among the arguments"`
}

// phase is a phase beside the training.
type phase struct {
	Micro   *place  `key:"micro-batch" doc:"where the samples of one of its forward passes are set"`
	Times   int64   `key:"times" doc:"where nothing sets that: so many times the training micro-batch"`
	Of      *amount `key:"multiple-of" doc:"its batch on all ranks stays a multiple of this, or the program refuses it"`
	Started pattern `key:"started" doc:"what the program prints when the phase begins"`
	Ended   pattern `key:"ended" doc:"what it prints when the phase ends"`
}

// rung is one more way to run the job.
type rung struct {
	Name     string           `key:"name" need:"yes" doc:"how launch names it"`
	At       *place           `key:"at" doc:"the setting that it changes"`
	To       scalar           `key:"to" doc:"the value that it gets"`
	Set      settings[scalar] `key:"set" doc:"several settings and their values, in place of at and to"`
	Cost     cost             `key:"cost" need:"yes" doc:"what it gives up"`
	Slowdown float64          `key:"slowdown" doc:"the expected time of a step, as asked: 1"`
	Phase    string           `key:"phase" doc:"its phase: training, shared (all of them), or one of phases"`
	NewState bool             `key:"new-state" doc:"states that were saved without it cannot be read, so it starts over"`
	Needs    []string         `key:"needs" doc:"Python packages; without them in the command's Python it is not there"`
	When     settings[values] `key:"when" doc:"it is there only if these settings have these values"`
	Unless   settings[values] `key:"unless" doc:"it is not there if one of these settings has one of these values"`
}

// line is one line of a formula.
type line struct {
	What  string     `key:"what" need:"yes" doc:"what the memory is for"`
	Phase string     `key:"phase" doc:"training if it is left out"`
	Bytes expression `key:"bytes" need:"yes" doc:"an expression of micro_batch, accumulation, ranks and values"`
}

// figure is a metric.
type figure struct {
	Name      string  `key:"name" need:"yes" doc:"how launch names it"`
	Pattern   pattern `key:"pattern" need:"yes" group:"value" doc:"what is printed: (?P<value>…), perhaps (?P<step>…)"`
	Direction string  `key:"direction" need:"yes" doc:"minimise or maximise"`
}

// expectation is a line of the checklist.
type expectation struct {
	Name    string  `key:"name" need:"yes" doc:"what is true if it is met: the loss moves"`
	Pattern pattern `key:"pattern" need:"yes" group:"value" doc:"(?P<value>…), perhaps (?P<step>…) and (?P<series>…)"`
	Rule    rule    `key:"rule" need:"yes" doc:"what the values are: finite numbers, within bounds, or moving"`
	Min     *bound  `key:"min" doc:"the least value of within"`
	Max     *bound  `key:"max" doc:"the largest value of within"`
	Last    int64   `key:"last" doc:"only the last so many values count; without it all"`
	After   int64   `key:"after" doc:"values of earlier steps do not count"`
	Least   int64   `key:"least" doc:"with fewer values it could not be checked: 1, and 2 of moving"`
	Hint    string  `key:"hint" doc:"what to look at if it is not met"`
}

// A rule is a [job.Rule].
type rule job.Rule

func (r *rule) read(v config.Value) error {
	*r = rule(v.Text())
	if !slices.Contains(job.Rules, job.Rule(*r)) {
		return fmt.Errorf("it is %s, %s or %s", job.Finite, job.Within, job.Moving)
	}
	return nil
}

func (*rule) schema(definitions) object {
	return choice(string(job.Finite), string(job.Within), string(job.Moving))
}

// A bound is a number.
type bound float64

func (b *bound) read(v config.Value) error {
	n, ok := v.Float()
	if !ok {
		return errors.New("it is a number")
	}
	*b = bound(n)
	return nil
}

func (*bound) schema(definitions) object { return object{"type": "number"} }

// check is the expectation as a job has it.
func (e expectation) check() job.Check {
	return job.Check{Name: e.Name, Pattern: string(e.Pattern), Rule: job.Rule(e.Rule), Min: (*float64)(e.Min),
		Max: (*float64)(e.Max), Last: int(e.Last), After: e.After, Least: int(e.Least), Hint: e.Hint}
}

// saving is how the program is asked to save its state.
type saving struct {
	Signal string `key:"signal" need:"yes" doc:"INT, TERM, HUP, USR1 or USR2"`
	Stops  bool   `key:"stops" doc:"the program ends after it has saved"`
}

// rehearsal is how the program is shortened.
type rehearsal struct {
	Steps int64            `key:"steps" doc:"launch ends the program after so many steps"`
	Set   settings[scalar] `key:"set" doc:"settings that shorten it; {scratch} is a folder of launch's own"`

	Largest []ordering `key:"largest-first" doc:"settings of rehearsals alone that put the largest batch first"`
	Alike   bool       `key:"alike" doc:"every batch has the same shape, so that there is nothing to order"`
	NoOrder string     `key:"no-order" doc:"why no setting puts the largest batch first"`
}

// ordering is one way to put the largest batch first. Of several the first that the packages have is taken.
type ordering struct {
	Set   settings[scalar] `key:"set" need:"yes" doc:"settings and their values"`
	Needs named[string]    `key:"needs" doc:"packages and their oldest versions that have these settings"`
}

// A share is whether a setting is for one rank or for all.
type share bool

func (s *share) read(v config.Value) error {
	*s = v.Text() == "all-ranks"
	if !*s && v.Text() != "rank" {
		return errors.New("it is rank or all-ranks")
	}
	return nil
}

func (*share) schema(definitions) object { return choice("rank", "all-ranks") }

// A cost is a [ladder.Cost] by its name.
type cost ladder.Cost

func (c *cost) read(v config.Value) error {
	parsed, err := ladder.ParseCost(v.Text())
	*c = cost(parsed)
	return err
}

func (*cost) schema(definitions) object { return choice(ladder.Costs()...) }

// A pattern is an RE2 expression.
type pattern string

func (p *pattern) read(v config.Value) error {
	s, ok := v.Str()
	if !ok {
		return fmt.Errorf("it is %v, not a pattern", v.Kind())
	}
	*p = pattern(s)
	_, err := regexp.Compile(s)
	return err
}

func (*pattern) schema(definitions) object {
	return object{"type": "string", "format": "regex"}
}

// has reports whether the pattern has a group of that name.
func (p pattern) has(group string) bool {
	re, err := regexp.Compile(string(p))
	return err == nil && re.SubexpIndex(group) >= 0
}

// An amount is a number, or where it is set; of ranks also the number of cards that the command sees.
type amount struct {
	number float64 // 0: not given
	place  *place
	cards  bool
}

func (a *amount) read(v config.Value) error {
	if n, ok := v.Float(); ok {
		if a.number = n; n <= 0 {
			return errors.New("it is a number above 0, or a place")
		}
		return nil
	}
	if a.cards = v.Text() == "cards"; a.cards {
		return nil
	}
	a.place = &place{}
	return a.place.read(v)
}

func (*amount) schema(d definitions) object {
	return oneOf(object{"type": "number", "exclusiveMinimum": 0}, object{"const": "cards"}, (*place)(nil).schema(d))
}

// whole is the amount as a whole number; 0 if it is none.
func (a *amount) whole() int64 {
	if a == nil || a.number != float64(int64(a.number)) {
		return 0
	}
	return int64(a.number)
}

// at is the place of the amount, or nil.
func (a *amount) at() *place {
	if a == nil {
		return nil
	}
	return a.place
}

// oneOfText is a text, or several of which one is enough.
type oneOfText []string

func (o *oneOfText) read(v config.Value) error {
	if s, ok := v.Str(); ok {
		*o = alternatives(s)
		return nil
	}
	for i := range v.Len() {
		s, ok := v.Index(i).Str()
		if !ok {
			return errors.New("it is a text, or a list of texts")
		}
		*o = append(*o, s)
	}
	if len(*o) == 0 {
		return errors.New("it is a text, or a list of texts")
	}
	return nil
}

func (*oneOfText) schema(definitions) object {
	one := object{"type": "string"}
	return oneOf(one, object{"type": "array", "items": one, "minItems": 1})
}

// String is the form of a mark.
func (o oneOfText) String() string { return strings.Join(o, "|") }

// values are those of which a setting may have one.
type values []scalar

// settings are places with what belongs to them; as keys, places are texts.
type settings[T any] []assigned[T]

type assigned[T any] struct {
	place place
	value T
}

func (s *settings[T]) read(v config.Value) error {
	if v.Kind() != config.Map {
		return fmt.Errorf("it is %v, not settings with values", v.Kind())
	}
	for _, key := range v.Keys() {
		a := assigned[T]{place: place{line: v.Get(key).Line()}}
		if err := a.place.keyed(key); err != nil {
			return below(key, v.Get(key), err)
		}
		if err := decode(v.Get(key), &a.value); err != nil {
			return below(key, v.Get(key), err)
		}
		*s = append(*s, a)
	}
	return nil
}

func (*settings[T]) schema(d definitions) object {
	return object{"type": "object", "additionalProperties": schemaFor[T](d), "minProperties": 1}
}

// A resume is how the program goes on from a saved state.
type resume struct {
	globs     []string         // of the states
	option    *place           // which takes the path, or what resume-value says
	set       settings[scalar] // several settings; {state} is the path
	automatic bool             // the program finds the state by itself
	none      bool             // it cannot
}

// from is the form of a resume with several settings.
type from struct {
	From []string         `key:"from" need:"yes" doc:"globs of the states"`
	Set  settings[scalar] `key:"set" need:"yes" doc:"settings and values; {state} is the path of the state"`
}

func (r *resume) read(v config.Value) error {
	switch {
	case v.Text() == "none":
		r.none = true
	case v.Text() == "automatic":
		r.automatic = true
	case v.Kind() != config.Map || v.Len() == 0:
		return errors.New("it is {--OPTION: GLOB}, {from: GLOB, set: {PLACE: VALUE}}, {automatic: GLOB}, automatic or none")
	case v.Get("from").Exists() || v.Get("set").Exists():
		var f from
		if err := decode(v, &f); err != nil {
			return err
		}
		r.globs, r.set = f.From, f.Set
	case v.Get("automatic").Exists():
		r.automatic = true
		if v.Len() > 1 {
			return errors.New("beside automatic there is no other key")
		}
		if err := decode(v.Get("automatic"), &r.globs); err != nil {
			return below("automatic", v, err)
		}
	default:
		return r.options(v)
	}
	return nil
}

func (r *resume) options(v config.Value) error {
	for _, key := range v.Keys() {
		r.option = &place{}
		if err := r.option.keyed(key); err != nil {
			return below(key, v.Get(key), err)
		}
		var globs []string
		if err := decode(v.Get(key), &globs); err != nil {
			return below(key, v.Get(key), err)
		}
		r.globs = append(r.globs, globs...)
	}
	return nil
}

func (*resume) schema(d definitions) object {
	globs := schemaFor[[]string](d)
	return oneOf(choice("none", "automatic"), schemaFor[from](d),
		object{"type": "object", "properties": object{"automatic": globs}, "required": []string{"automatic"},
			"additionalProperties": false},
		object{"type": "object", "patternProperties": object{`^-|=$|:`: globs}, "additionalProperties": false,
			"minProperties": 1})
}

// confirmed are the settings whose printed values launch understands, and the names of their knobs.
var confirmed = map[string]string{
	"micro-batch": job.MicroBatch, "accumulation": job.Accumulation, "global-batch": job.GlobalBatch,
}

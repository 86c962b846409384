package declared

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// schemaFile is where editors find the schema.
const schemaFile = "../../../docs/launch-job.schema.json"

// compiledSchema is the schema as an editor has it.
func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func bySchema(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	inJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(inJSON))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

// The schema and the reader agree: on the ready declarations, on examples of every key, and on mistakes.
func TestSchema(t *testing.T) {
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, schemaFile, text)
	s := compiledSchema(t)
	good := map[string]string{"the first example": declaration1}
	for _, name := range readyNames(t) {
		text, err := os.ReadFile(filepath.Join("ready", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		good[name] = string(text)
	}
	for name, text := range forms {
		good[name] = "script: train.py\nmicro-batch: --batch\n" + text
	}
	for name, text := range good {
		if err := bySchema(t, s, text); err != nil {
			t.Errorf("%s: the schema refuses it: %v", name, err)
		}
		if _, err := parse("x", []byte(text)); err != nil {
			t.Errorf("%s: the reader refuses it: %v", name, err)
		}
	}
	for name, text := range malformed {
		text = "script: train.py\nmicro-batch: --batch\n" + text
		if err := bySchema(t, s, text); err == nil {
			t.Errorf("%s: the schema takes it", name)
		}
		if _, err := parse("x", []byte(text)); err == nil {
			t.Errorf("%s: the reader takes it", name)
		}
	}
}

// forms are one declaration of each form of each key.
var forms = map[string]string{
	"version":          "version: 1\n",
	"scripts":          "arguments: [train]\ncontains: [a, [b, c]]\nbeside: model.py\n",
	"leave":            "leave: [{when: {--auto: true, mode=: [a, b]}, why: it adapts}]\nprefer: true\nabout: x\n",
	"names":            "accumulation: [--accum, -a]\n",
	"KEY=VALUE":        "accumulation: trainer.accum=\n",
	"joined":           "accumulation: --accum=\n",
	"source":           "accumulation: {a/b.py: Config.accum}\n",
	"fixed file":       "accumulation: {config.toml: train.accum}\n",
	"named file":       "accumulation: {--config: train.accum}\n",
	"argument's file":  "accumulation: {'*.py': accum}\n",
	"key's file":       "accumulation: {config=: accum}\n",
	"any":              "accumulation: {any: [--accum, {at: {--config: accum}, default: 2}]}\n",
	"default":          "accumulation: {at: --accum, default: 4, takes: value}\n",
	"ranks":            "ranks: 2\nper: {micro-batch: all-ranks, accumulation: rank}\n",
	"ranks of a place": "ranks: --gpus\n",
	"cards":            "ranks: cards\n",
	"global batch":     "global-batch: 512\nbatch-norm: true\n",
	"tokens":           "global-batch: --total\nsample-tokens: --length\n",
	"phases":           "phases: {validation: {micro-batch: --eval, times: 2, started: a, ended: b}, test: {times: 1}}\n",
	"rungs":            "rungs:\n  - {name: a, at: --a, to: 1, cost: speed, slowdown: 1.5, phase: shared}\n",
	"rungs of settings": "rungs:\n  - {name: a, set: {--a: 1, 'b=': x, 'c.yaml:d.e': 2.5}, cost: numerics, " +
		"new-state: true, unless: {--a: [2, 3]}, when: {--b: true}}\n",
	"memory": "values: {sequence: --seq, width: 768}\nmemory: [{what: a, bytes: 'micro_batch * width'}]\n",
	"ignore": "ignore: [--lr, seed=]\n",
	"signs": "started: a\nprogress: '(?P<iteration>.)'\nsaved: b\nsucceeded: c\nconfirm: {micro-batch: " +
		"'(?P<value>.)'}\n",
	"a metric": "metric: {name: loss, pattern: '(?P<value>.)', direction: minimise}\n",
	"metrics":  "metric: [{name: loss, pattern: '(?P<value>.)', direction: minimise}]\n",
	"save":     "save: {signal: USR1, stops: true}\n",
	"resume": "resume: {--resume: 'a/*.pt'}\nresume-value: resume\nin-the-way: a\nclear: [b, " +
		"c]\nexclusive: 'runs/{--name}'\n",
	"resume of several": "resume: {from: 'a/*.pt', set: {'model=': '{state}', 'resume=': true}}\n",
	"automatic":         "resume: automatic\n",
	"automatic, states": "resume: {automatic: [a, b]}\n",
	"no resume":         "resume: none\n",
	"rehearse":          "rehearse: {steps: 20, set: {--out: '{scratch}/out', --epochs: 1}}\n",
}

// malformed are mistakes that both the schema and the reader see.
var malformed = map[string]string{
	"an unknown key":          "accumulate: --accum\n",
	"an unknown key below":    "per: {micro: rank}\n",
	"a place":                 "accumulation: accum\n",
	"a place's file":          "accumulation: {config.ini: accum}\n",
	"a place of two":          "accumulation: {a.py: b, c.py: d}\n",
	"a wide place":            "accumulation: {at: --a, defalt: 1}\n",
	"a cost":                  "rungs: [{name: a, at: --a, to: 1, cost: cheap}]\n",
	"a rung's key":            "rungs: [{name: a, at: --a, to: 1, cost: speed, slow: 2}]\n",
	"no name":                 "rungs: [{at: --a, to: 1, cost: speed}]\n",
	"a number for a truth":    "batch-norm: 3\n",
	"ranks":                   "ranks: [1]\n",
	"a share":                 "per: {accumulation: all}\n",
	"a metric without a name": "metric: {pattern: '(?P<value>.)', direction: minimise}\n",
	"resume":                  "resume: maybe\n",
	"resume's keys":           "resume: {from: a, sets: {}}\n",
	"a version":               "version: new\n",
}

// An error names the file, the line and the key, and the key that may be meant.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"script: a.py\nmicro-batch: -b\nacumulation: -a\n": "x.yaml, line 3: acumulation: there is no such key; did " +
			"you mean accumulation?",
		"script: a.py\nmicro-batch: -b\nxyz: -a\n": "x.yaml, line 3: xyz: there is no such key; there are " +
			"version, about",
		"script: a.py\nmicro-batch: -b\nrungs:\n  - {name: a, at: -a, to: 1, cost: speed}\n  - {name: b, at: -b, too: " +
			"1, cost: speed}\n": "x.yaml, line 5: rungs[1].too: there is no such key; did you mean",
		"script: a.py\nmicro-batch: -b\nphases:\n  validation:\n    micro-batch: " +
			"3\n": "x.yaml, line 5: phases.validation.micro-batch: a place is",
		"script: a.py\nmicro-batch:\n  any:\n    - -b\n    - {at: -c, defalt: " +
			"1}\n": "x.yaml, line 5: micro-batch.any[1].defalt: there is no such key; did you mean default?",
		"script: a.py\nmicro-batch: -b\nrungs:\n  - {name: a, at: -a, to: 1, cost: speed, phase: shared}\n  - {name: " +
			"b, at: -a, to: 2, cost: speed}\n": "x.yaml, line 5: rungs[1]: it changes -a, as a rung of shared does",
		"version: 2\nscript: a.py\nnew: 1\n": "x.yaml, line 1: version: it is of " +
			"format 2, and this launch reads formats up to 1: it needs a newer launch",
		"script: a.py\nmicro-batch: -b\nprogress: 'step'\n": "x.yaml, line 3: progress: it has no " +
			"group (?P<iteration>…)",
		"script: a.py\nmicro-batch: -b\nconfirm: {micro-bach: '(?P<value>.)'}\n": "x.yaml, line 3: confirm.micro-bach: " +
			"there is no such key; did you mean micro-batch?",
		"script: a.py\nmicro-batch: -b\nexclusive: 'runs/{name}'\n": "x.yaml, line 3: exclusive: {name} " +
			"is neither an option nor the name of a place under values",
		"script: a.py\nmicro-batch: -b\nrehearse: {steps: 3}\n": "x.yaml, line 3: rehearse: a trial " +
			"must not write where the training does",
		"script: a.py\nmicro-batch: -b\nresume-value: x\n": "x.yaml, line 3: resume-value: it is " +
			"the value of the option",
		"script: a.py\naccumulation: -a\n": "x.yaml, line 1: micro-batch: it is " +
			"missing",
		"script: a.py\nmicro-batch: -b\nsample-tokens: 64\n": "x.yaml, line 3: sample-tokens: it is the unit of " +
			"global-batch, which is missing",
		"script: a.py\nmicro-batch: ~\n": "x.yaml, line 2: micro-batch: it has " +
			"no value",
		"script: a.py\nmicro-batch: -b\nrungs: [{name: a, at: -a, to: 1, cost: speed, phase: test}]\nphases: {val: " +
			"{times: 1}}\n": "x.yaml, line 3: rungs[0].phase: there is no phase \"test\"; there are training, shared, val",
	} {
		if _, err := parse("x.yaml", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q:\n%v\nwant\n%s", text, err, want)
		}
	}
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// The page explains every key, and its examples are declarations.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/launch-job.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keysOf(reflect.TypeFor[declaration]()) {
		if !strings.Contains(string(page), "`"+key) {
			t.Errorf("docs/launch-job.md does not have %s", key)
		}
	}
	s := compiledSchema(t)
	for _, m := range yamlBlock.FindAllStringSubmatch(string(page), -1) {
		text := m[1]
		if !strings.Contains(text, "script:") {
			text = "script: train.py\nmicro-batch: -b\n" + text
		}
		if err := bySchema(t, s, text); err != nil {
			t.Errorf("the schema refuses an example: %v\n%s", err, text)
		}
		if _, err := parse("x", []byte(text)); err != nil {
			t.Errorf("the reader refuses an example: %v\n%s", err, text)
		}
	}
}

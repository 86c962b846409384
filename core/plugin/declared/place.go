package declared

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
)

// A place is where a setting is: one of an option, a KEY=VALUE argument, a value in a file, and several of these.
type place struct {
	names    []string // of an option, or the key of a KEY=VALUE argument; with a path: which names the file
	file     string   // a file that no argument names
	glob     string   // of the positional argument that names the file
	path     string   // in the file; "" is the argument's own value
	takes    config.Takes
	pair     bool    // KEY VALUE after the options: names has the key
	joined   bool    // the option's value follows "=" and never stands alone: --batch=8
	optional bool    // one of several: its file need not exist
	any      []place // several places, the first outranks the next; everything else is then empty

	fallback scalar // the default, as its author gives it; nil: he does not
	line     int
}

// What an option takes, by its name in a declaration.
var takes = map[string]config.Takes{
	"value": config.One, "nothing": config.None, "optional": config.Maybe, "several": config.Any,
}

// wide is the long form of a place.
type wide struct {
	At      place  `key:"at" need:"yes" doc:"where the setting is"`
	Default scalar `key:"default" doc:"its value where nothing sets it; without it, the script's own default is read"`
	Takes   string `key:"takes" doc:"what the option takes: value, nothing (a flag), optional, or several"`
}

var endings = []string{".py", ".yaml", ".yml", ".json", ".toml"}

var errPlace = errors.New("a place is an option (--batch-size), a list of an option's names, an argument with " +
	"its value (batch=), " +
	"a value in a file ({file.py: Class.field}, {config.yaml: train.batch}), in the file that an option names " +
	"({--config: train.batch}) or that an argument names ({'*.py': batch}), the key of a pair KEY VALUE after the " +
	"options ({pair: SOLVER.IMS_PER_BATCH}), {any: [PLACE, …]}, or {at: PLACE, default: VALUE}")

func (p *place) read(v config.Value) error {
	err := p.form(v)
	p.line = v.Line()
	return err
}

func (p *place) form(v config.Value) error {
	switch v.Kind() {
	case config.String:
		return p.argument(v.Text())
	case config.Seq:
		for i := range v.Len() {
			one := place{}
			if s, ok := v.Index(i).Str(); !ok || one.argument(s) != nil || !strings.HasPrefix(s, "-") {
				return errPlace
			}
			p.names = append(p.names, one.names...)
		}
		if len(p.names) == 0 {
			return errPlace
		}
		return nil
	case config.Map:
		switch {
		case v.Get("at").Exists():
			return p.wide(v)
		case v.Len() != 1:
			return errPlace
		case v.Get("any").Kind() == config.Seq && v.Get("any").Len() > 0:
			if err := decode(v.Get("any"), &p.any); err != nil {
				return below("any", v.Get("any"), err)
			}
			return nil
		}
		key := v.Keys()[0]
		path, ok := v.Get(key).Str()
		if !ok {
			return errPlace
		}
		return p.inFile(key, path)
	}
	return errPlace
}

// argument reads an option or the key of a KEY=VALUE argument.
func (p *place) argument(s string) error {
	key, isKey := strings.CutSuffix(s, "=")
	if isKey && strings.HasPrefix(s, "-") {
		s, isKey, p.joined = key, false, true
	}
	switch {
	case strings.ContainsAny(s, " \t\n"):
		return errPlace
	case isKey && key != "" && !strings.ContainsRune(key, '='):
		p.names = []string{key}
	case !isKey && strings.HasPrefix(s, "-"):
		p.names = alternatives(s)
		for _, name := range p.names {
			if !strings.HasPrefix(name, "-") || strings.Trim(name, "-") == "" || strings.ContainsRune(name, '=') {
				return errPlace
			}
		}
	default:
		return errPlace
	}
	return nil
}

// inFile reads a place in a file: what names the file, and the path in it.
func (p *place) inFile(key, path string) error {
	if p.path = path; path == "" {
		return errPlace
	}
	switch {
	case key == "pair":
		if strings.HasPrefix(path, "-") || strings.ContainsAny(path, " \t\n=") {
			return errPlace
		}
		p.names, p.path, p.pair = []string{path}, "", true
		return nil
	case strings.HasPrefix(key, "-") || strings.HasSuffix(key, "="):
		return p.argument(key)
	case !slices.Contains(endings, filepath.Ext(key)):
		return fmt.Errorf("%q is no file that launch reads: those end with %s", key, strings.Join(endings, ", "))
	case strings.ContainsAny(key, "*?["):
		p.glob = key
		_, err := filepath.Match(key, "")
		return err
	}
	p.file = key
	return nil
}

func (p *place) wide(v config.Value) error {
	var w wide
	if err := decode(v, &w); err != nil {
		return err
	}
	*p = w.At
	p.fallback = w.Default
	if w.Takes != "" {
		t, ok := takes[w.Takes]
		if !ok {
			return wrong("takes", v.Get("takes"), "an option takes value, nothing, optional or several")
		}
		p.takes = t
	}
	return nil
}

// keyed reads a place that is the key of a mapping: an option, "batch=", or FILE:path.
func (p *place) keyed(s string) error {
	if file, path, ok := strings.Cut(s, ":"); ok {
		return p.inFile(file, strings.TrimSpace(path))
	}
	if err := p.argument(s); err != nil {
		return fmt.Errorf("%q is no place: as a key it is an option, an argument (batch=), or FILE:PATH.IN.IT", s)
	}
	return nil
}

// each lists the places of which this one consists, the first outranks the next.
func (p *place) each() []place {
	if p.any == nil {
		return []place{*p}
	}
	var all []place
	for i := range p.any {
		all = append(all, p.any[i].each()...)
	}
	for i := range all {
		all[i].optional = true
	}
	return all
}

// preset is the default that the author gives, or nil.
func (p *place) preset() any {
	for _, a := range append([]place{*p}, p.each()...) {
		if a.fallback.any != nil {
			return a.fallback.any
		}
	}
	return nil
}

// option reports whether the place, or what names its file, is an option; a pair is read as one.
func (p *place) option() bool {
	return p.pair || len(p.names) > 0 && strings.HasPrefix(p.names[0], "-")
}

// String is the place as a person knows it.
func (p *place) String() string {
	switch {
	case p.any != nil:
		return p.any[0].String()
	case p.path != "":
		return p.where() + ":" + p.path
	}
	return p.where()
}

func (p *place) where() string {
	switch {
	case p.option():
		return p.names[0]
	case len(p.names) > 0:
		return p.names[0] + "="
	}
	return p.file + p.glob
}

func (*place) schema(d definitions) object {
	return d.use("place", func() object {
		option, key := `^-[^=\s]+=?$`, `^[^-\s=][^\s=]*=$`
		self := object{"$ref": "#/$defs/place"}
		file := `^(pair|-[^=\s]+=?|[^-\s=][^\s=]*=|.*\.(py|ya?ml|json|toml))$`
		return object{"description": "where a setting is", "anyOf": []object{
			text(option), text(key),
			{"type": "array", "items": text(option), "minItems": 1},
			{"type": "object", "patternProperties": object{file: text(".")}, "additionalProperties": false,
				"minProperties": 1, "maxProperties": 1},
			{"type": "object", "properties": object{"any": object{"type": "array", "items": self, "minItems": 1}},
				"required": []string{"any"}, "additionalProperties": false},
			schemaOf(reflect.TypeFor[wide](), d),
		}}
	})
}

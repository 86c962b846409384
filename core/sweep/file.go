package sweep

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/launch-ml/launch/core/config/command"
)

// Asked is what the user asks of a sweep, in flags or in a file.
type Asked struct {
	Name     string
	Command  []string
	Space    Space
	Search   *Search  // nil: the space is a list
	Jobs     int      // 0: not given
	Flags    []string // launch's: "--allow=speed"
	SamePlan bool
	Snapshot bool
}

// ParseFile reads a sweep from YAML. Every key is one that [fileKeys] has; the values keep the text in which they are
// written, so 1e-4 stays 1e-4.
func ParseFile(text []byte) (a Asked, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return a, err
	}
	if len(doc.Content) == 0 {
		return a, errors.New("the file is empty")
	}
	err = pairs(doc.Content[0], func(key string, value *yaml.Node) error {
		read, ok := fileKeys[key]
		if !ok {
			return fmt.Errorf("line %d: a sweep has no key %q; its keys are %s", value.Line, key,
				strings.Join(FileKeys(), ", "))
		}
		if err := read(&a, value); err != nil {
			return fmt.Errorf("line %d: %s: %w", value.Line, key, err)
		}
		return nil
	})
	return a, err
}

var fileKeys = map[string]func(*Asked, *yaml.Node) error{
	"name":        func(a *Asked, n *yaml.Node) error { return scalar(n, &a.Name) },
	"command":     (*Asked).command,
	"grid":        func(a *Asked, n *yaml.Node) error { return dimensions(n, &a.Space.Dimensions) },
	"seeds":       func(a *Asked, n *yaml.Node) error { return dimensions(n, &a.Space.Seeds) },
	"zip":         (*Asked).zip,
	"where":       (*Asked).where,
	"only":        (*Asked).only,
	"random":      func(a *Asked, n *yaml.Node) error { return number(n, &a.Space.Random) },
	"jobs":        func(a *Asked, n *yaml.Node) error { return number(n, &a.Jobs) },
	"seed":        (*Asked).seed,
	"flags":       (*Asked).flags,
	"metric":      func(a *Asked, n *yaml.Node) error { return scalar(n, &a.search().Metric) },
	"halve":       (*Asked).halve,
	"ask":         (*Asked).ask,
	"ask-timeout": (*Asked).patience,
	"same-plan":   func(a *Asked, n *yaml.Node) error { return n.Decode(&a.SamePlan) },
	"snapshot":    func(a *Asked, n *yaml.Node) error { return n.Decode(&a.Snapshot) },
}

// FileKeys are the keys of a sweep's file.
func FileKeys() []string { return slices.Sorted(maps.Keys(fileKeys)) }

// pairs calls f for each key of a mapping, in order.
func pairs(n *yaml.Node, f func(key string, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: this is a mapping of keys to values", n.Line)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || seen[key.Value] {
			return fmt.Errorf("line %d: the key %q stands here twice, or is no text", key.Line, key.Value)
		}
		seen[key.Value] = true
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if err := f(key.Value, value); err != nil {
			return err
		}
	}
	return nil
}

func scalar(n *yaml.Node, to *string) error {
	if n.Kind != yaml.ScalarNode {
		return errors.New("this is one value")
	}
	*to = n.Value
	return nil
}

func number(n *yaml.Node, to *int) (err error) {
	if *to, err = strconv.Atoi(n.Value); err != nil || *to < 1 {
		return fmt.Errorf("%q is not a whole number of at least 1", n.Value)
	}
	return nil
}

func (a *Asked) seed(n *yaml.Node) (err error) {
	if a.Space.Seed, err = strconv.ParseUint(n.Value, 10, 64); err != nil {
		return fmt.Errorf("%q is not a whole number", n.Value)
	}
	return nil
}

// texts reads a list of scalars.
func texts(n *yaml.Node) (out []string, err error) {
	if n.Kind != yaml.SequenceNode {
		return nil, errors.New("this is a list")
	}
	for _, item := range n.Content {
		var text string
		if err := scalar(item, &text); err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

// command is a list of arguments, or one line as a shell splits it.
func (a *Asked) command(n *yaml.Node) (err error) {
	if n.Kind == yaml.ScalarNode {
		a.Command, err = command.Words(n.Value)
	} else {
		a.Command, err = texts(n)
	}
	if err == nil && len(a.Command) == 0 {
		err = errors.New("it is empty")
	}
	return err
}

// values reads the values of one key: a list, each item one value as it stands, or the text of a flag.
func values(n *yaml.Node) (Values, error) {
	if n.Kind == yaml.ScalarNode {
		return ParseValues(n.Value)
	}
	if n.Kind != yaml.SequenceNode {
		return Values{}, errors.New("the values are a list, or a range such as 1..5")
	}
	var v Values
	for _, item := range n.Content {
		text := item.Value
		if item.Kind != yaml.ScalarNode { // a list or a mapping is a value, too: [1, 2]
			item.Style = yaml.FlowStyle
			out, err := yaml.Marshal(item)
			if err != nil {
				return v, err
			}
			text = strings.TrimSpace(string(out))
		}
		v.List = append(v.List, text)
	}
	return v, nil
}

func dimensions(n *yaml.Node, to *[]Dimension) error {
	return pairs(n, func(key string, n *yaml.Node) error {
		v, err := values(n)
		*to = append(*to, Dimension{[]string{key}, []Values{v}})
		return err
	})
}

// zip is a list of mappings, each of keys that belong together, or one such mapping.
func (a *Asked) zip(n *yaml.Node) error {
	groups := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		groups = n.Content
	}
	for _, g := range groups {
		var d Dimension
		err := pairs(g, func(key string, n *yaml.Node) error {
			v, err := values(n)
			d.Keys, d.Values = append(d.Keys, key), append(d.Values, v)
			return err
		})
		if err != nil {
			return err
		}
		a.Space.Dimensions = append(a.Space.Dimensions, d)
	}
	return nil
}

func (a *Asked) where(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		a.Space.Where = append(a.Space.Where, Condition(n.Value))
		return nil
	}
	list, err := texts(n)
	for _, text := range list {
		a.Space.Where = append(a.Space.Where, Condition(text))
	}
	return err
}

func (a *Asked) only(n *yaml.Node) error {
	return pairs(n, func(key string, n *yaml.Node) error {
		a.Space.Only = append(a.Space.Only, Only{key, Condition(n.Value)})
		return nil
	})
}

func (a *Asked) flags(n *yaml.Node) error {
	return pairs(n, func(key string, n *yaml.Node) error {
		var value string
		if err := scalar(n, &value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		a.Flags = append(a.Flags, "--"+key+"="+value)
		return nil
	})
}

// search is the sweep's search, which it makes if there is none.
func (a *Asked) search() *Search {
	if a.Search == nil {
		a.Search = &Search{}
	}
	return a.Search
}

// halve is one key with its lengths.
func (a *Asked) halve(n *yaml.Node) error {
	if a.search().Halve != nil {
		return errors.New("it stands there already")
	}
	err := pairs(n, func(key string, n *yaml.Node) error {
		if a.Search.Halve != nil {
			return errors.New("one key sets the length")
		}
		v, err := values(n)
		a.Search.Halve = &Rungs{Key: key, Lengths: v.List}
		return err
	})
	if err == nil && a.Search.Halve == nil {
		err = errors.New("it is empty")
	}
	return err
}

func (a *Asked) ask(n *yaml.Node) (err error) {
	if n.Kind == yaml.ScalarNode {
		a.search().Ask, err = command.Words(n.Value)
	} else {
		a.search().Ask, err = texts(n)
	}
	return err
}

func (a *Asked) patience(n *yaml.Node) (err error) {
	a.search().Patience, err = time.ParseDuration(n.Value)
	return err
}

// Seek adds the flags of a search.
func (a *Asked) Seek(metric, halve, ask string, patience time.Duration) (err error) {
	if metric+halve+ask == "" && patience == 0 {
		return nil
	}
	s := a.search()
	if metric != "" {
		s.Metric = metric
	}
	if patience != 0 {
		s.Patience = patience
	}
	if halve != "" {
		if s.Halve, err = ParseRungs(halve); err != nil {
			return fmt.Errorf("--halve: %w", err)
		}
	}
	if ask != "" {
		if s.Ask, err = command.Words(ask); err != nil {
			return fmt.Errorf("--ask: %w", err)
		}
	}
	return nil
}

package kit

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/unit"
)

// The files that make a folder a case. CommandFile has the command on a line; CaseFile has it under "command", and
// what its author expects.
const (
	CommandFile = "command"
	CaseFile    = "case.yaml"
)

// maxCase bounds a case's own file.
const maxCase = 1 << 20

// Read reads the cases of a folder of recipes: each folder in it that has a command file or a case.yaml, with the
// environment env.
func Read(dir string, env []string) ([]Case, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the recipes: %w", err)
	}
	var cases []Case
	for _, e := range entries {
		folder := filepath.Join(dir, e.Name())
		if info, err := os.Stat(folder); err != nil || !info.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		c, ok, err := readCase(folder, env)
		if err != nil {
			return nil, err
		}
		if ok {
			cases = append(cases, c)
		}
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("%s has no recipe: a recipe is a folder with the command's files, "+
			"and the command in a file named %s or %s", dir, CommandFile, CaseFile)
	}
	return cases, nil
}

// readCase reads one case. ok is false where the folder is none.
func readCase(folder string, env []string) (c Case, ok bool, err error) {
	abs, err := filepath.Abs(folder)
	if err != nil {
		return c, false, err
	}
	c = Case{Name: filepath.Base(folder), Command: job.Command{Dir: abs, Env: env}}
	path := filepath.Join(folder, CaseFile)
	text, err := file.Read(path, maxCase)
	if os.IsNotExist(err) {
		path = filepath.Join(folder, CommandFile)
		if text, err = file.Read(path, maxCase); os.IsNotExist(err) {
			return c, false, nil
		}
		if err == nil {
			c.Command.Args, err = line(string(text))
		}
	} else if err == nil {
		err = c.read(text)
	}
	if err == nil && len(c.Command.Args) == 0 {
		err = fmt.Errorf("it has no command")
	}
	if err != nil {
		return c, false, fmt.Errorf("reading %s: %w", path, err)
	}
	return c, true, nil
}

// line is the command of the one line that is no comment.
func line(text string) (args []string, err error) {
	for l := range strings.Lines(text) {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		if args != nil {
			return nil, fmt.Errorf("it has more than one command: make a folder for each")
		}
		if args, err = command.Words(l); err != nil {
			return nil, err
		}
	}
	return args, nil
}

// keys checks that a map has no other keys than these.
func keys(v config.Value, where string, known ...string) error {
	if v.Exists() && v.Kind() != config.Map {
		return fmt.Errorf("line %d: %s is not a map of %s", v.Line(), where, strings.Join(known, ", "))
	}
	for _, k := range v.Keys() {
		if !slices.Contains(known, k) {
			return fmt.Errorf("line %d: %s has no key %q; there are %s", v.Get(k).Line(), where, k, strings.Join(known, ", "))
		}
	}
	return nil
}

// read reads a case.yaml.
func (c *Case) read(text []byte) error {
	doc, err := config.ParseYAML(text)
	if err != nil {
		return err
	}
	root := doc.Root()
	if err := keys(root, "the case", "command", "expects", "device", "env"); err != nil {
		return err
	}
	switch v := root.Get("command"); v.Kind() {
	case config.Seq:
		for i := range v.Len() {
			c.Command.Args = append(c.Command.Args, v.Index(i).Text())
		}
	default:
		text, _ := v.Str()
		if c.Command.Args, err = line(text); err != nil {
			return fmt.Errorf("command: %w", err)
		}
	}
	env := root.Get("env")
	for _, name := range env.Keys() {
		c.Sets = append(c.Sets, name)
		c.Command.Env = append(slices.DeleteFunc(slices.Clone(c.Command.Env),
			func(kv string) bool { return strings.HasPrefix(kv, name+"=") }),
			name+"="+env.Get(name).Text())
	}
	if err := c.readExpects(root.Get("expects")); err != nil {
		return err
	}
	return c.readDevice(root.Get("device"))
}

// readExpects reads what the author expects.
func (c *Case) readExpects(v config.Value) error {
	if word, ok := v.Str(); ok { // expects: declined
		switch word {
		case "recognised":
		case "declined":
			c.Expects.Declined = true
		case "caution":
			c.Expects.Caution = true
		default:
			return fmt.Errorf("line %d: expects: %q is not one of recognised, declined, caution, or a map", v.Line(), word)
		}
		return nil
	}
	if err := keys(v, "expects", "micro-batch", "accumulation", "ranks", "phases", "error"); err != nil {
		return err
	}
	for key, into := range map[string]*int64{"micro-batch": &c.Expects.Micro, "accumulation": &c.Expects.Accumulation,
		"ranks": &c.Expects.Ranks} {
		n, ok := v.Get(key).Int()
		if v.Get(key).Exists() && (!ok || n < 1) {
			return fmt.Errorf("line %d: expects: %s is %q, which is no whole number of at least 1", v.Get(key).Line(), key,
				v.Get(key).Text())
		}
		*into = n
	}
	for i := range v.Get("phases").Len() {
		c.Expects.Phases = append(c.Expects.Phases, v.Get("phases").Index(i).Text())
	}
	c.Expects.Wrong, _ = v.Get("error").Str()
	return nil
}

// readDevice reads the device that the case is priced on.
func (c *Case) readDevice(v config.Value) error {
	if err := keys(v, "device", "kind", "memory", "capability"); err != nil || !v.Exists() {
		return err
	}
	c.Device = Card
	if kind, ok := v.Get("kind").Str(); ok {
		if kind != gpu.CUDA && kind != gpu.CPU {
			return fmt.Errorf("line %d: device: kind is %q, which is neither cuda nor cpu", v.Line(), kind)
		}
		c.Device.Kind = kind
	}
	if c.Device.Kind == gpu.CPU {
		c.Device.Capability, c.Device.Name = "", "a CPU"
	}
	if v.Get("memory").Exists() {
		total, err := unit.Parse(v.Get("memory").Text())
		if err != nil {
			return fmt.Errorf("line %d: device: memory: %w", v.Get("memory").Line(), err)
		}
		c.Device.Total, c.Device.Name = total, fmt.Sprintf("a card of %v", total)
	}
	if v.Get("capability").Exists() {
		c.Device.Capability = v.Get("capability").Text()
	}
	return nil
}

package python

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
)

// hydra reads @hydra.main: the keys of the file that it names, and of those that this one composes.
func (r *reader) hydra(m *module) {
	if !strings.Contains(m.Code, "hydra") {
		return
	}
	for _, m := range r.order {
		r.each(m, func(c Call, at int) {
			_, name := cutLast(c.Name)
			if !m.Is(c.First-1, "@") || name != "main" && name != "hydra_main" || !strings.Contains(c.Name, "hydra") {
				return
			}
			args := m.Args(c.Open)
			path, file := "", "config"
			if a, ok := Keyword(args, "config_path"); ok {
				path, _ = r.value(m, a.Range, at)
			} else if len(args) > 0 && args[0].Name == "" {
				path, _ = r.value(m, args[0].Range, at)
			}
			if a, ok := Keyword(args, "config_name"); ok {
				file, _ = r.value(m, a.Range, at)
			}
			dir := path
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(filepath.Dir(m.Path), dir)
			}
			r.configs = dir
			r.compose(dir, strings.TrimSuffix(file, ".yaml"), "", 0)
		})
	}
}

// compose adds the keys of a file below a folder of configurations, and of those in its list of defaults.
func (r *reader) compose(dir, name, prefix string, depth int) {
	if depth > maxDepth || name == "" || !filepath.IsLocal(name) {
		return
	}
	path := filepath.Join(dir, name+".yaml")
	text := r.text(path)
	if text == "" {
		return
	}
	doc, err := config.ParseYAML([]byte(text))
	if err != nil {
		return
	}
	root := doc.Root()
	if strings.Contains(text, "@package _global_") {
		prefix = ""
	}
	defaults := root.Get("defaults")
	self := false
	for i := range defaults.Len() {
		entry := defaults.Index(i)
		if s, ok := entry.Str(); ok {
			if s == "_self_" {
				self = true
				r.keys(path, root, prefix, 0)
			} else {
				r.compose(filepath.Dir(path), s, prefix, depth+1)
			}
			continue
		}
		for _, key := range entry.Keys() {
			choice, ok := entry.Get(key).Str()
			group := strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(key, "optional "), "override "))
			group, pkg, placed := strings.Cut(group, "@")
			if !ok || strings.HasPrefix(strings.TrimSpace(key), "override hydra") {
				continue
			}
			below := prefix + strings.ReplaceAll(strings.Trim(group, "/"), "/", ".") + "."
			if placed {
				below = prefix + pkg + "."
			}
			at := filepath.Dir(path)
			if strings.HasPrefix(group, "/") {
				at = r.configs
			}
			r.compose(at, filepath.Join(strings.Trim(group, "/"), strings.TrimSuffix(choice, ".yaml")), below, depth+1)
		}
	}
	if !self {
		r.keys(path, root, prefix, 0)
	}
}

// targets are the files of the project that have what the keys _target_ name, by their order.
func (r *reader) targets(script string) (paths []string) {
	for _, o := range r.out {
		if _, key := cutLast(o.Dest); o.How != Hydra || key != "_target_" || !o.Known {
			continue
		}
		module, _ := cutLast(o.Default)
		if path := r.resolve(script, module); path != "" && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// keys adds the scalar keys of a mapping. One that is there already is replaced: what comes later counts.
func (r *reader) keys(path string, v config.Value, prefix string, depth int) {
	if depth > maxDepth {
		return
	}
	for _, key := range v.Keys() {
		item := v.Get(key)
		name := prefix + key
		if depth == 0 && prefix == "" && (key == "defaults" || key == "hydra") {
			continue
		}
		if item.Kind() == config.Map {
			r.keys(path, item, name+".", depth+1)
			continue
		}
		o := Option{Names: []string{name}, Dest: name, Path: path, Line: item.Line(), How: Hydra,
			Default: item.Text(), Known: true}
		if item.Kind() == config.Seq || strings.Contains(o.Default, "${") || o.Default == "???" {
			o.Default, o.Known = "", false
		}
		replaced := false
		for i := range r.out {
			if r.out[i].How == Hydra && r.out[i].Names[0] == name {
				r.out[i], replaced = o, true
			}
		}
		if !replaced {
			r.add(o)
		}
	}
}

// settingsFiles reads the files of settings whose paths stand in the code: OmegaConf.load("c.yaml"), and open("c.yaml")
// in a file that reads YAML, JSON or TOML. With OmegaConf.from_cli, an argument KEY=VALUE sets a key of them.
func (r *reader) settingsFiles() {
	how := ByFile
	for _, m := range r.order {
		r.each(m, func(c Call, _ int) {
			if c.Name == "OmegaConf.from_cli" {
				how = Hydra
			}
		})
	}
	for _, m := range r.order {
		r.each(m, func(c Call, at int) {
			loads := c.Name == "OmegaConf.load"
			if c.Name == "open" && len(m.Calls(m.Statements[at].Range)) > 0 {
				loads = strings.Contains(m.Code, "yaml") || strings.Contains(m.Code, "json") || strings.Contains(m.Code, "toml")
			}
			args := m.Args(c.Open)
			if !loads || len(args) == 0 || args[0].Name != "" {
				return
			}
			if len(args) > 1 {
				if mode, _ := m.Str(args[1].Range); strings.ContainsAny(mode, "wax") {
					return
				}
			}
			if name, ok := r.value(m, args[0].Range, at); ok {
				r.settingsFile(name, how)
			}
		})
	}
}

// maxSettings is the size of the largest file that may be one of settings. Larger ones hold data.
const maxSettings = 64 << 10

// settingsFile adds the keys of a file that is named as the program names it: from the folder that it runs in.
func (r *reader) settingsFile(name string, how How) {
	ext := filepath.Ext(name)
	if !slices.Contains([]string{".yaml", ".yml", ".json", ".toml"}, ext) {
		return
	}
	for _, dir := range r.folders {
		path := name
		if !filepath.IsAbs(name) {
			path = filepath.Join(dir, name)
		}
		text := r.text(path)
		if text == "" || len(text) > maxSettings {
			continue
		}
		doc, err := config.Parse(path, []byte(text))
		if err != nil {
			return
		}
		if tree, ok := doc.(interface{ Root() config.Value }); ok {
			first := len(r.out)
			r.keys(path, tree.Root(), "", 0)
			for i := range r.out[first:] {
				r.out[first+i].How = how
			}
		}
		return
	}
}

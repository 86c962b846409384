package identity

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

// opens are the files that Python source names as constants: settings that it reads, and scripts that it starts.
type opens struct {
	Settings []string
	Defaults [][2]string // an option, and the settings file that it names unless it is typed
	Scripts  []string
	Folders  []string   // of patterns, such as plugins/*.py
	Hydra    *[2]string // the folder and the name of Hydra's first file
}

var (
	// opened matches a call with the path of a settings file, and the mode in which it is opened.
	opened = lazy.MustCompile(`\b(\w+)\(\s*["']([^"'\s]+\.(?:ya?ml|toml|json5?|jsonc|cfg|ini|conf|gin|env)|` +
		`\.env)["']\s*` +
		`(?:,\s*(?:mode\s*=\s*)?["']([rwxabt+]{1,3})["'])?[^)\n]*\)?(\.write_)?`)
	// reading matches names of functions that read a file.
	reading = lazy.MustCompile(`^(open|Path|load\w*|safe_load|read\w*|from_(file|yaml|json|toml)|fromfile|` +
		`parse_file|merge_from_file|dotenv_values)$`)
	// writing matches source that writes a file of text.
	writing = lazy.MustCompile(`\bdump\(|\.write_text\(|\bopen\([^)\n]*["'][wxa]|\bmode\s*=\s*["'][wxa]`)
	// left matches names of files that programs leave for themselves.
	left = lazy.MustCompile(`(?i)state|status|progress|best|results?|metrics|history|cache|summary|\blogs?\b|output`)
	// recipes matches options whose default is a recipe.
	recipes = lazy.MustCompile(`(?i)^--?(c|cfg|conf|config|opt|opts|params|hparams|recipe|yaml|` +
		`settings)([-_]?(file|path|yaml|json))?$`)
	hydra   = lazy.MustCompile(`\bhydra\.main\(([^)]*)\)`)
	keyword = lazy.MustCompile(`\b(config_path|config_name)\s*=\s*["']([^"']+)["']`)
	starts  = lazy.MustCompile(`["']([^"'\n]*\.(?:py|sh|bash)\b[^"'\n]*)["']`)
)

// opensOf finds the files that source names. One that it also writes is no settings file.
func opensOf(s python.Source) (out opens) {
	if mentions(s.Code, ".yaml", ".yml", ".toml", ".json", ".cfg", ".ini", ".conf", ".gin", ".env") {
		reads := map[string]int{}
		for _, m := range opened.FindAllStringSubmatch(s.Code, -1) {
			if m[4] == "" && !strings.ContainsAny(m[3], "wxa+") && reading.MatchString(m[1]) {
				reads[m[2]]++
			}
		}
		writes := s.Has(writing)
		for _, name := range slices.Sorted(maps.Keys(reads)) {
			elsewhere := strings.Count(s.Code, `"`+name+`"`)+strings.Count(s.Code, "'"+name+"'") > reads[name]
			if !(writes && elsewhere) && !left.MatchString(filepath.Base(name)) {
				out.Settings = append(out.Settings, name)
			}
		}
		for _, o := range s.Options() {
			if ext := strings.ToLower(filepath.Ext(o.Default)); slices.Contains(settings, ext) {
				if slices.ContainsFunc(o.Names, recipes.MatchString) {
					out.Defaults = append(out.Defaults, [2]string{strings.Join(o.Names, " "), o.Default})
				}
			}
		}
	}
	if strings.Contains(s.Code, "load_dotenv(") {
		out.Settings = append(out.Settings, ".env")
	}
	if m := hydra.FindStringSubmatch(s.Code); m != nil {
		out.Hydra = &[2]string{}
		for _, k := range keyword.FindAllStringSubmatch(m[1], -1) {
			out.Hydra[slices.Index([]string{"config_path", "config_name"}, k[1])] = k[2]
		}
	}
	if mentions(s.Code, "subprocess", "os.system(", "Popen(", "os.exec", "os.spawn", "run_path(", "spec_from",
		"SourceFileLoader") {
		for _, m := range starts.FindAllStringSubmatch(s.Code, -1) {
			for word := range strings.FieldsSeq(m[1]) {
				switch folder, _, pattern := strings.Cut(word, "*"); {
				case pattern:
					out.Folders = append(out.Folders, filepath.Dir(folder+"x"))
				case slices.Contains(scripts, filepath.Ext(word)):
					out.Scripts = append(out.Scripts, word)
				}
			}
		}
	}
	return out
}

// readOpened takes the settings files that the code names.
func (id *Identity) readOpened(s Subject, code []part) {
	add := func(name string, dirs ...string) { id.addRecipe(s, found(name, dirs...)) }
	for _, f := range code {
		o, dir := f.facts.Opens, filepath.Dir(f.path)
		for _, name := range o.Settings {
			add(name, s.Command.Dir, dir)
		}
		for _, d := range o.Defaults {
			if !slices.ContainsFunc(strings.Fields(d[0]), s.typed) {
				add(d[1], s.Command.Dir, dir)
			}
		}
		if o.Hydra != nil && !f.sought {
			for _, path := range s.composed(filepath.Join(dir, o.Hydra[0]), o.Hydra[1]) {
				add(path, dir)
			}
		}
	}
	slices.SortFunc(id.Recipes, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
}

// addRecipe takes a recipe once, if it is there.
func (id *Identity) addRecipe(s Subject, path string) {
	if path == "" || slices.ContainsFunc(id.Recipes, func(f File) bool { return s.absolute(f.Path) == path }) {
		return
	}
	if text, err := file.Read(path, mostFile); err == nil && len(id.Recipes) < mostRecipes {
		id.Recipes = append(id.Recipes, File{Path: s.shown(path), Hash: digest(text)})
	}
}

// typed reports whether the command has an option.
func (s Subject) typed(name string) bool {
	return slices.ContainsFunc(s.Command.Args, func(a string) bool {
		return a == name || strings.HasPrefix(a,
			name+"=")
	})
}

// composed are the files that Hydra composes a configuration of: the first one, those of its list of defaults, and
// those that the arguments choose. Source: Hydra's documentation, "The Defaults List" and "Hydra's command line flags".
func (s Subject) composed(folder, name string) (paths []string) {
	chosen := map[string]string{}
	for _, w := range wordsOf(s.Command.Args) {
		switch w.name {
		case "config-name", "cn":
			name = w.value
		case "config-path", "cp":
			folder = found(w.value, folder, s.Command.Dir)
		default:
			if _, before := chosen[w.name]; !before {
				chosen[w.name] = w.value
			}
		}
	}
	fileOf := func(name string) string {
		return filepath.Join(folder, strings.TrimSuffix(name, ".yaml")+".yaml")
	}
	queue := []string{fileOf(name)}
	for group, option := range chosen {
		if group != "" && option != "" && !strings.ContainsAny(group+option, "{[(") {
			queue = append(queue, fileOf(filepath.Join(group, option)))
		}
	}
	slices.Sort(queue[1:])
	for i := 0; i < len(queue) && i < mostRecipes; i++ {
		text, err := file.Read(queue[i], mostText)
		if err != nil {
			continue
		}
		paths = append(paths, queue[i])
		at, _ := filepath.Rel(folder, filepath.Dir(queue[i]))
		for _, d := range defaultsOf(string(text)) {
			group := filepath.Join(at, d[0])
			if after, ok := strings.CutPrefix(d[0], "/"); ok {
				group = after
			}
			option := d[1]
			if other, set := chosen[group]; set && d[0] != "" {
				option = other
			}
			if path := fileOf(filepath.Join(group, option)); !slices.Contains(queue, path) {
				queue = append(queue, path)
			}
		}
	}
	return paths
}

// defaultsOf reads a list of defaults: pairs of a group, which may be "", and an option.
func defaultsOf(text string) (out [][2]string) {
	in := false
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		item, listed := strings.CutPrefix(strings.TrimSpace(line), "- ")
		switch {
		case strings.HasPrefix(line, "defaults:"):
			in = true
		case in && listed:
			for _, word := range []string{"override ", "optional "} {
				item = strings.TrimPrefix(strings.TrimSpace(item), word)
			}
			group, option, keyed := strings.Cut(item, ":")
			if !keyed {
				group, option = "", item
			}
			group, _, _ = strings.Cut(strings.TrimSpace(group), "@")
			out = append(out, [2]string{group, strings.Trim(strings.TrimSpace(option), `"'`)})
		case in && strings.TrimSpace(line) != "":
			in = false
		}
	}
	return out
}

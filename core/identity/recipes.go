package identity

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/lazy"
)

// settings are the endings of files that hold settings. Other files that a command names are data.
var settings = []string{".yaml", ".yml", ".toml", ".json", ".json5", ".jsonc",
	".cfg", ".ini", ".conf", ".gin", ".jsonnet",
	".hocon", ".env"}

// Bounds on what is looked for in one text.
const (
	mostText  = 1 << 20 // bytes
	mostWords = 4000    // paths that are looked up
)

// A word is a value that may be a path, and the name of the setting that has it; "" where that is not known.
type word struct{ name, value string }

// wordsOf are the arguments of a command that may name files.
func wordsOf(args []string) (out []word) {
	last := ""
	for _, a := range args {
		name, value, joined := strings.Cut(a, "=")
		switch {
		case joined:
			out = append(out, word{strings.TrimLeft(name, "-+~"), value})
			for v := range strings.SplitSeq(value, ",") {
				out = append(out, word{strings.TrimLeft(name, "-+~"), v})
			}
			last = ""
		case strings.HasPrefix(a, "-"):
			last = strings.TrimLeft(a, "-")
		default:
			out = append(out, word{last, strings.TrimPrefix(a, "@")}) // @FILE holds arguments
			if last != "" && (output.MatchString(last) || written.MatchString(last)) {
				last = "" // what follows an output is another argument
			}
		}
	}
	return out
}

// wordsIn are the words of a recipe that may name files: the value of each line, and all that stands between
// separators. It needs no parser, because a word that is no path is not there.
func wordsIn(text string) (out []word) {
	for line := range strings.Lines(text[:min(len(text), mostText)]) {
		if line, _, _ = strings.Cut(line, " #"); commented(line) {
			continue
		}
		key, value, keyed := strings.Cut(line, ":")
		if !keyed {
			key, value, keyed = strings.Cut(line, "=")
		}
		key = strings.Trim(key, " \t\r\n\"'-")
		if keyed {
			out = append(out, word{key, strings.Trim(value, " \t\r\n\"',")})
		}
		for _, w := range strings.FieldsFunc(line, separates) {
			if w = strings.TrimSuffix(w, ":"); strings.ContainsAny(w, "/.") {
				out = append(out, word{key, w})
			}
		}
		if len(out) > mostWords {
			break
		}
	}
	return out
}

// commented reports whether a line of a recipe is nothing but a comment, which names no input.
func commented(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "#") || strings.HasPrefix(line, "//") || strings.HasPrefix(line, ";")
}

func separates(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`,;()[]{}=|", r) }

// readRecipes takes the files of settings that the arguments name, and those that these name.
func (id *Identity) readRecipes(s Subject, prog *command.Prog) {
	seen := map[string]bool{}
	var queue []string
	add := func(path, text string) {
		if path == "" || seen[path] || len(seen) >= mostRecipes {
			return
		}
		seen[path] = true
		at, _ := stampOf(path)
		id.Recipes = append(id.Recipes, File{Path: s.shown(path), Hash: text, written: at.Modified})
		queue = append(queue, path)
	}
	if s.Job != nil && s.Job.Fixed == "" {
		for _, f := range s.Job.Files { // as launch has read them: a resumed run goes on with these
			if len(f.Text) > 0 && !f.Added {
				add(s.absolute(f.Path), digest(f.Text))
			}
		}
	}
	args := s.Command.Args
	if prog != nil {
		args = append(slices.Clone(args), prog.Args...)
	}
	look := func(words []word, dirs ...string) {
		for _, w := range words[:min(len(words), mostWords)] {
			ext := strings.ToLower(filepath.Ext(w.value))
			if ext != ".py" && !slices.Contains(settings, ext) || written.MatchString(w.name) {
				continue
			}
			path := found(w.value, dirs...)
			text, err := file.Read(path, mostFile)
			if path != "" && err == nil && (ext != ".py" || w.name == based || bytes.Contains(text, []byte(based))) {
				add(path, digest(text))
			}
		}
	}
	look(wordsOf(args), s.Command.Dir)
	for _, path := range s.byName(wordsOf(args), prog) {
		look([]word{{"", path}}, s.Command.Dir)
	}
	for i := 0; i < len(queue); i++ {
		text, err := file.Read(queue[i], mostText)
		switch {
		case err != nil:
		case filepath.Ext(queue[i]) == ".py":
			look(basesIn(string(text)), filepath.Dir(queue[i]))
		default:
			look(wordsIn(string(text)), s.Command.Dir, filepath.Dir(queue[i]))
			for _, d := range defaultsOf(string(text)) { // a list as Hydra's, which others read, too
				look([]word{{d[0], filepath.Join(d[0], strings.TrimSuffix(d[1], ".yaml")+".yaml")}}, filepath.Dir(queue[i]))
			}
		}
	}
	slices.SortFunc(id.Recipes, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
}

// based is the name that settings in Python give to those that they begin with: _base_ = ["../base.py"].
const based = "_base_"

var bases = lazy.MustCompile(`(?m:^_base_\s*=\s*(\[[^\]]*\]|\([^)]*\)|["'][^"'\n]+["']))`)

// basesIn are the files that settings in Python begin with.
func basesIn(text string) (out []word) {
	for _, m := range bases.FindAllStringSubmatch(text, -1) {
		for _, q := range quotedText.FindAllStringSubmatch(m[1], -1) {
			out = append(out, word{based, q[1]})
		}
	}
	return out
}

// recipeFolders matches folders in which a project keeps its recipes.
var recipeFolders = lazy.MustCompile(`^(configs?|conf|cfgs?|params|hparams|recipes|settings|options|presets?|` +
	`experiments)$`)

// byName finds recipes that a word of the command names without folder and ending: "--config big" for configs/big.yaml.
func (s Subject) byName(words []word, prog *command.Prog) (paths []string) {
	tops := []string{s.Command.Dir}
	if prog != nil && prog.Path() != "" && filepath.Dir(prog.Path()) != s.Command.Dir {
		tops = append(tops, filepath.Dir(prog.Path()))
	}
	for _, top := range tops {
		entries, err := os.ReadDir(top)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if !e.IsDir() || !recipeFolders.MatchString(e.Name()) {
				continue
			}
			for _, w := range words {
				if w.value == "" || strings.ContainsAny(w.value, "./ \n\x00") || len(w.value) > 100 {
					continue
				}
				for _, ext := range settings {
					path := filepath.Join(top, e.Name(), w.value+ext)
					if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
						paths = append(paths, path)
					}
				}
			}
		}
	}
	return paths
}

// newRecipes are the recipes that were not there when the identity was taken.
func (id *Identity) newRecipes(s Subject) (trees []Tree) {
	now := Identity{}
	prog, err := s.Command.Prog()
	if err != nil {
		now.readRecipes(s, nil)
	} else {
		now.readRecipes(s, &prog)
	}
	began := files(id.Recipes)
	for _, f := range now.Recipes {
		if _, was := began[f.Path]; !was {
			trees = append(trees, Tree{Path: f.Path, Files: 1, Parts: []Entry{{"", f.Hash, f.written}}})
		}
	}
	return trees
}

// found is the absolute path of a file or folder that a word names from one of the folders; "" if there is none.
func found(name string, dirs ...string) string {
	if name == "" || len(name) > 4096 || strings.ContainsAny(name, "\x00\n") {
		return ""
	}
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		name = filepath.Join(home, rest)
	}
	for _, dir := range dirs {
		path := file.In(dir, name)
		if _, err := os.Stat(path); err == nil {
			return filepath.Clean(path)
		}
	}
	return ""
}

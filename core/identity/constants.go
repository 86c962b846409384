package identity

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

// A dataPath is a path of data that source has as a text.
type dataPath struct {
	Path    string
	Name    string   `json:",omitempty"` // of what it is given to
	Options []string `json:",omitempty"` // it is the default of these
	Beside  bool     `json:",omitempty"` // it begins at the file's own folder
}

var (
	// readsPath matches a call with a path, and the mode in which it is opened.
	readsPath = lazy.MustCompile(`\b(\w+)\(\s*[fr]?["']([^"'\s{}<>|:]{2,200})["']\s*` +
		`(?:,\s*(?:mode\s*=\s*)?["']([rwxabt+]{1,3})["'])?`)
	readers = lazy.MustCompile(`^(open|load\w*|read\w*|genfromtxt|fromfile|(open_)?memmap|File|i?glob|rglob|listdir|` +
		`scandir|walk|\w*ImageFolder|DatasetFolder|imread|from_file|from_pretrained|\w*Dataset|iterdir)$`)
	// givenPath matches a name that is given a path: ROOT = "data/train", data_dir: str = "data".
	givenPath = lazy.MustCompile(`(?m:^[ \t]*(\w+)[ \t]*(?::[ \t]*[\w.\[\], |]+)?=[ \t]*(?:(?:pathlib\.)?Path\(\s*)?` +
		`["']([^"'\s{}<>|:*?]{2,200})["'])`)
	ofData = lazy.MustCompile(`(?i)data|train|val|test|corpus|ima?ge?s?|annot|label|root|dir|path|file|list|vocab|csv|` +
		`weights|pretrain|init`)
	// besideFile matches a path below the folder of the source itself.
	besideFile = lazy.MustCompile(`(?m:^[^\n#]*__file__[^\n]*$)`)
	quotedText = lazy.MustCompile(`["']([^"'\n]+)["']`)
	climbs     = lazy.MustCompile(`\bdirname\(|\.parent\b`)
	parents    = lazy.MustCompile(`\.parents\[(\d)\]`)
	// keywords matches an argument that is given a path of data by its name, or several in a list or by a split's name.
	keywords = lazy.MustCompile(`[(,]\s*(data_files|data_(?:dir|path|root)|dataset(?:_(?:dir|path|root))?|root(?:_dir)?|` +
		`(?:train|val|valid|test|eval)_(?:dir|path|root|file)|im(?:a)?ge?s?_(?:dir|folder|root)|ann(?:otations?)?_file|` +
		`annFile|(?:csv|split|vocab|label|index)s?_(?:file|path))\s*=\s*` +
		`(["'][^"'\n]+["']|[\[{][^\]}]*[\]}])`)
	// place matches a name that is given a folder, made of the source's own.
	place = lazy.MustCompile(`^\s*(\w+)\s*(?::[^=\n]+)?=[^=]`)
	// joinedPath matches a path that is put together of texts, in a line with a call.
	joinedPath = lazy.MustCompile(`(?m:^[^\n#]*\bpath\.join\(\s*((?:["'][^"'\n]+["'][\s,]*){2,})\)[^\n]*$)`)
	// makes matches source that writes files.
	makes = lazy.MustCompile(`\bsave\w*\(|\bto_(csv|parquet|pickle|json|hdf)\(|\bimwrite\(|\bdump\(|` +
		`\.write_(text|bytes)\(|\bopen\([^)\n]*["'][wxa]|\bmode\s*=\s*["'][wxa]|` +
		`\bmakedirs\(|\bmkdir\(|\bcopy\w*\(|\bmove\(|\brename\(`)
	// outputs matches folders that programs write to, by their names.
	outputs = lazy.MustCompile(`(?i)^(out|outputs?|logs?|runs?|ckpts?|checkpoints?|save[ds]?(_models?)?|results?|exps?|` +
		`experiments?|work_dirs?|wandb|mlruns|tensorboard|tb(_logs?)?|lightning_logs|(.*[_.-])?cache|te?mp|preds?|` +
		`predictions?|samples?|fig(ure)?s?|plots?|models?|trained(_models?)?|\..*)$`)
	// figures matches names of files that programs write figures to.
	figures = lazy.MustCompile(`(?i)log|loss|metric|score|pred|submi|leader|record|report|bench|timing|stats_out`)
	// goesOn matches names of what a program resumes from.
	goesOn = lazy.MustCompile(`(?i)resume|ckpt|checkpoint|restore`)
)

// constantsOf finds paths of data that source has as texts. A path that the source may also write is none.
func constantsOf(s python.Source) (out []dataPath) {
	count := func(path string) int {
		return strings.Count(s.Code, `"`+path+`"`) + strings.Count(s.Code, "'"+path+"'")
	}
	read, opened := map[string]int{}, []string{}
	for _, m := range readsPath.FindAllStringSubmatch(s.Code, -1) {
		if readers.MatchString(m[1]) && !strings.ContainsAny(m[3], "wxa+") {
			if read[m[2]]++; read[m[2]] == 1 {
				opened = append(opened, m[2])
			}
		}
	}
	// looking for a word is far cheaper than matching
	beside := strings.Contains(s.Code, "__file__")
	writes := (len(opened) > 0 || beside) && s.Has(makes)
	add := func(c dataPath) {
		if c.Path, _, _ = strings.Cut(c.Path, "*"); c.Path != "" && !isOutput(c.Path) {
			out = append(out, c)
		}
	}
	for _, path := range opened {
		if !writes || count(path) == read[path] {
			add(dataPath{Path: path})
		}
	}
	for _, m := range givenPath.FindAllStringSubmatch(s.Code, -1) {
		if ofData.MatchString(m[1]) && !goesOn.MatchString(m[1]) {
			dashed := strings.ReplaceAll(m[1], "_", "-")
			add(dataPath{Path: m[2], Name: m[1], Options: []string{"--" + m[1], "--" + dashed, m[1]}})
		}
	}
	var lines []string
	if beside {
		lines = besideFile.FindAllString(s.Code, -1)
	}
	for _, line := range lines {
		if path := besideOf(line); path != "" && (!writes || !makes.MatchString(line)) {
			add(dataPath{Path: path, Beside: true})
		}
	}
	for _, c := range keywordsIn(s.Code) {
		add(c)
	}
	for _, path := range placedIn(lines, s.Code, writes) {
		add(dataPath{Path: path, Beside: true})
	}
	for _, path := range joinedIn(s.Code) {
		add(dataPath{Path: path})
	}
	for _, o := range s.Options() {
		name := strings.TrimLeft(o.Names[0], "-")
		if len(o.Default) > 1 && len(o.Default) < 200 && !strings.ContainsAny(o.Default, "*?{}()\n ") &&
			(strings.Contains(o.Default, "/") || ofData.MatchString(name)) && !goesOn.MatchString(name) {
			add(dataPath{Path: o.Default, Name: name, Options: o.Names})
		}
	}
	return out
}

// joinedIn are the paths that lines put together of texts, and neither write nor begin at the source's own place.
func joinedIn(code string) (paths []string) {
	if !strings.Contains(code, "path.join(") {
		return nil
	}
	for _, m := range joinedPath.FindAllStringSubmatch(code, -1) {
		var parts []string
		for _, q := range quotedText.FindAllStringSubmatch(m[1], -1) {
			parts = append(parts, q[1])
		}
		if !makes.MatchString(m[0]) && !strings.Contains(m[0], "__file__") {
			paths = append(paths, filepath.Join(parts...))
		}
	}
	return paths
}

// keywordsIn are the paths of data that calls are given by name.
func keywordsIn(code string) (out []dataPath) {
	for _, m := range keywords.FindAllStringSubmatch(code, -1) {
		for _, q := range quotedText.FindAllStringSubmatch(m[2], -1) {
			if !strings.ContainsAny(q[1], "{}<>|: ") {
				out = append(out, dataPath{Path: q[1], Name: m[1]})
			}
		}
	}
	return out
}

// besideOf is the path below a file's folder that a line makes of __file__ and texts; "" if it makes none.
func besideOf(line string) string {
	_, after, _ := strings.Cut(line, "__file__")
	var parts []string
	for _, m := range quotedText.FindAllStringSubmatch(after, -1) {
		parts = append(parts, m[1])
	}
	if len(parts) == 0 || len(parts) > 6 {
		return ""
	}
	return filepath.Join(folderOf(line), filepath.Join(parts...))
}

// folderOf is the folder that a line makes of __file__, below or above that of the file.
func folderOf(line string) string {
	up := len(climbs.FindAllString(line, -1)) - 1
	if m := parents.FindStringSubmatch(line); m != nil {
		up += 1 + int(m[1][0]-'0')
	}
	return filepath.Join(slices.Repeat([]string{".."}, max(0, up))...)
}

// mostPlaces bounds how many names for folders one source may give.
const mostPlaces = 20

// placedIn are the paths that source makes of a name for its own folder, or for one above it:
// ROOT = Path(__file__).parents[1]; ROOT / "split.npy". writes: it writes files, so that such a line may.
func placedIn(lines []string, code string, writes bool) (paths []string) {
	places := 0
	for _, line := range lines {
		m := place.FindStringSubmatch(line)
		if m == nil || quotedText.MatchString(line) {
			continue
		}
		if places++; places > mostPlaces {
			break
		}
		name := regexp.QuoteMeta(m[1])
		uses := regexp.MustCompile(`(?m)^[^\n#]*(?:\bjoin\(\s*` + name + `\s*,|\b` + name + `\s*/)\s*(["'][^\n]*)$`)
		for _, u := range uses.FindAllStringSubmatch(code, -1) {
			if q := quotedText.FindStringSubmatch(u[1]); q != nil && (!writes || !makes.MatchString(u[0])) {
				paths = append(paths, filepath.Join(folderOf(line), q[1]))
			}
		}
	}
	return paths
}

// isOutput reports whether a path is what a program leaves, or belongs to the system.
func isOutput(path string) bool {
	for _, top := range []string{"/etc", "/usr", "/var", "/run", "/tmp", "/bin", "/lib", "/opt"} {
		if inside(top, path) {
			return true
		}
	}
	if strings.Contains(path, "://") || left.MatchString(filepath.Base(path)) ||
		figures.MatchString(filepath.Base(path)) {
		return true
	}
	parts := strings.Split(strings.TrimPrefix(filepath.Clean(path), "~/"), "/")
	return slices.ContainsFunc(parts, func(part string) bool { return part != ".." && outputs.MatchString(part) })
}

// paths matches a statement that adds a folder to those of modules.
var paths = lazy.MustCompile(`(?m:^[^\n#]*\bsys\.path\.(?:append|insert|extend)\([^\n]*$)`)

// rootsOf finds the folders that source adds to those in which modules are looked for.
func rootsOf(s python.Source) (out []dataPath) {
	if !strings.Contains(s.Code, "sys.path") {
		return nil
	}
	for _, line := range paths.FindAllString(s.Code, -1) {
		switch {
		case strings.Contains(line, "__file__"):
			path := besideOf(line)
			if path == "" { // its folder, or one above it
				path = strings.Repeat("../", max(0, len(climbs.FindAllString(line, -1))-1))
			}
			out = append(out, dataPath{Path: filepath.Clean("./" + path), Beside: true})
		default:
			for _, m := range quotedText.FindAllStringSubmatch(line, -1) {
				out = append(out, dataPath{Path: m[1]})
			}
		}
	}
	return out
}

// readConstants takes the data that the code names, where the command does not choose others.
func (id *Identity) readConstants(s Subject, seen map[string]bool) {
	most := mostWords
	for _, f := range id.parts {
		if f.sought { // it may well not be run
			continue
		}
		dir := filepath.Dir(f.path)
		for _, c := range f.facts.Constants {
			if most--; most < 0 {
				return
			}
			path := found(c.Path, s.Command.Dir, dir)
			if c.Beside {
				path = found(c.Path, dir)
			}
			if path == "" || slices.ContainsFunc(c.Options, s.typed) || !inside(s.Command.Dir, path) && !inside(dir, path) &&
				!filepath.IsAbs(c.Path) {
				continue
			}
			n := len(id.Data)
			if id.tree(s, word{c.Name, path}, false, seen); len(id.Data) > n {
				id.Data[n].Code = true
			}
		}
	}
}

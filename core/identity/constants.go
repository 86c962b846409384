package identity

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

// constants are the paths that Python source has as constants.
type constants struct {
	// Read are what it reads, or gives a name: the name of the variable, the keyword or the option, "" for none, and
	// the path.
	Read    [][2]string
	Written []string // what it writes; this is no data anywhere
	Roots   []root   // folders that it adds to Python's path
	Bases   []string // files that a recipe in Python builds on
	Folders []string // folders of which a part of the name is computed: "configs/" + name

	wrote []string // names in calls that write
}

// A root is a folder that source adds to Python's path: below the command's folder or, where Up is not 0, below that
// which is Up folders above the file.
type root struct {
	Up   int
	Path string
}

var (
	// reader matches a call that reads a file or a folder.
	reader = lazy.MustCompile(`\b(open|File|Dataset|load\w*|read\w*|imread|from_(?:file|csv|json|pretrained|pickle)|fromfile|` +
		`genfromtxt|memmap|i?glob|rglob|iterdir|listdir|scandir|walk|\w*Folder|files)\(`)
	// writer matches a call that writes, makes, moves or removes one.
	writer = lazy.MustCompile(`\b(save\w*|dump\w*|to_(?:csv|json|pickle|parquet|excel|hdf|feather)|write\w*|makedirs|mkdir|` +
		`savefig|SummaryWriter|\w*FileHandler|\w*Logger|rmtree|remove|unlink|copy\w*|move|rename|touch|imwrite|export)\(|` +
		`\bopen\([^)\n]*["'][rwxabt+]*[wxa+][rwxabt+]*["']|\bFile\([^)\n]*["'][wax]`)
	// given matches a constant that source gives a name: a variable, a keyword, a key.
	given = lazy.MustCompile(`["']?\b([A-Za-z_]\w*)["']?\s*[=:]\s*((?:[\w.]*\(\s*)*(?:[\w.()]+\s*[/,]\s*)*["'].*)`)
	// places matches names of what holds a path.
	places = lazy.MustCompile(`(?i)data|root|dir|path|file|folder|corpus|images?|labels?|weights|ckpt|checkpoint|pretrained|` +
		`vocab|tokenizer|csv|json|annot?|list|source|src|input|prompts?|stats`)
	// states matches names of what a run saves and may go on from.
	states = lazy.MustCompile(`(?i)(^|[-_.])(ckpt|checkpoint|last|latest|best|final|epoch|step|state|snapshot|log|logs|results?|` +
		`history|metrics|events?)([-_.\d]|$)`)
	onPath = lazy.MustCompile(`\bsys\.path\.(?:insert|append|extend)\(|\bsys\.path\s*(?:\+=|\[)|\baddsitedir\(`)
	base   = lazy.MustCompile(`(?m)^_base_\s*=\s*(\[[^\]]*\]|["'][^"'\n]+["'])`)
)

// constantsOf finds the paths in source, a line at a time: a call that is longer than a line gives what its lines have.
func constantsOf(s python.Source) (out constants) {
	if m := base.FindStringSubmatch(s.Code); m != nil {
		out.Bases = literals(m[1])
	}
	var bare []string // lines without a path
	for line := range strings.Lines(s.Code) {
		switch paths := quoted(line); {
		case len(line) > mostLine:
		case strings.Contains(line, "sys.path") && onPath.MatchString(line) || strings.Contains(line, "addsitedir("):
			out.Roots = append(out.Roots, rootOf(line))
		case !slices.ContainsFunc(paths, pathLike) && !(len(paths) > 0 && places.MatchString(line)):
			bare = append(bare, line)
		default:
			out.read(line)
		}
	}
	named := slices.ContainsFunc(out.Read, func(r [2]string) bool { return r[0] != "" })
	wrote := map[string]bool{} // names of variables in calls that write
	for _, line := range bare {
		if named && strings.Contains(line, "(") && writer.MatchString(line) {
			for _, name := range words.FindAllString(line, -1) {
				wrote[name] = true
			}
		}
	}
	for _, name := range out.wrote {
		wrote[name] = true
	}
	out.Read = slices.DeleteFunc(out.Read, func(r [2]string) bool {
		return wrote[r[0]] || states.MatchString(filepath.Base(r[1]))
	})
	if strings.Contains(s.Code, "add_argument") {
		for _, o := range s.Options() {
			names := strings.Join(o.Names, " ")
			if names != "" && o.Default != "" && (places.MatchString(names) || strings.ContainsAny(o.Default, "/.")) {
				out.Read = append(out.Read, [2]string{names, o.Default})
			}
		}
	}
	return out
}

// above matches what leads from a file to a folder above it.
var above = lazy.MustCompile(`\bdirname\(|\.parent\b|\.parents\[(\d)\]`)

// rootOf is the folder that a line adds to Python's path.
func rootOf(line string) (r root) {
	r.Path = filepath.Join(literals(line)...)
	if strings.Contains(line, "__file__") {
		for _, m := range above.FindAllStringSubmatch(line, -1) {
			n, _ := strconv.Atoi(m[1])
			r.Up += 1 + n
		}
	}
	return r
}

// of is the folder, as source in a file means it when the command runs in a folder; "" if it is not there.
func (r root) of(path, dir string) string {
	for range r.Up {
		path = filepath.Dir(path)
		dir = path
	}
	if r.Path == "" && r.Up == 0 {
		return ""
	}
	return found(filepath.Join(".", r.Path), dir)
}

// mostLine is the length of a line that is no data of its own.
const mostLine = 1000

// read takes a line that has what may be a path.
func (out *constants) read(line string) {
	if writer.MatchString(line) {
		out.Written = append(append(out.Written, literals(line)...), joins(line)...)
		out.wrote = append(out.wrote, words.FindAllString(line, -1)...)
		return
	}
	if m := given.FindStringSubmatch(line); m != nil && m[1] != "default" &&
		(places.MatchString(m[1]) || strings.ContainsAny(m[2], "/.")) {
		for _, path := range joins(m[2]) {
			out.Read = append(out.Read, [2]string{m[1], path})
		}
	}
	if reader.MatchString(line) {
		for _, path := range joins(line) {
			out.Read = append(out.Read, [2]string{"", path})
		}
	}
	out.Folders = append(out.Folders, computed(line)...)
}

func pathLike(text string) bool { return strings.ContainsAny(text, "/.") }

// words matches the names in source.
var words = lazy.MustCompile(`[A-Za-z_]\w*`)

// literals are the strings in a line that may be paths.
func literals(line string) (out []string) {
	for _, text := range quoted(line) {
		if !strings.ContainsAny(text, " \\<>|{}%") {
			out = append(out, text)
		}
	}
	return out
}

// quoted are the strings between quotes in a line.
func quoted(line string) (out []string) {
	for {
		from := strings.IndexAny(line, `"'`)
		if from < 0 {
			return out
		}
		length := strings.IndexByte(line[from+1:], line[from])
		if length < 0 {
			return out
		}
		if text := line[from+1 : from+1+length]; text != "" && length < 200 {
			out = append(out, text)
		}
		line = line[from+1+length+1:]
	}
}

// joins are the paths that the strings of a line are, alone and joined in their order: os.path.join(a, "b", "c"), Path("a") / "b". A path with a
// pattern stands for the folder that holds what matches.
func joins(line string) (out []string) {
	all := literals(line)
	for i, l := range all {
		out = append(out, l)
		if i > 0 && !filepath.IsAbs(l) {
			out = append(out, filepath.Join(all[:i+1]...))
		}
	}
	for i, path := range out {
		for strings.ContainsAny(path, "*?[") {
			path = filepath.Dir(path)
		}
		out[i] = path
	}
	return slices.DeleteFunc(out, func(path string) bool { return path == "." || path == "/" || path == "" })
}

// computed are the folders at the beginning of a path whose rest is computed.
func computed(line string) (out []string) {
	recipe := mentions(line, ".y", ".json", ".toml", ".py", ".cfg") // "configs", name + ".yaml"
	for _, text := range quoted(line) {
		dir, _, ok := strings.Cut(text, "{")
		if !ok {
			dir, _, ok = strings.Cut(text, "%s")
		}
		if i := strings.LastIndexByte(dir, '/'); ok && i > 0 {
			out = append(out, dir[:i])
		}
		if !ok && recipe && !strings.ContainsAny(text, " .:\\") {
			out = append(out, text)
		}
	}
	return out
}

// readConstants takes the paths that the code has as constants: those of data, and recipes of which the arguments say a
// part of the name.
func (id *Identity) readConstants(s Subject, code []part) {
	written := map[string]bool{}
	for _, f := range code {
		for _, path := range f.facts.Constants.Written {
			written[filepath.Clean(path)] = true
		}
	}
	looked := map[[2]string]bool{}
	for _, f := range code {
		dir := filepath.Dir(f.path)
		for _, r := range f.facts.Constants.Read {
			key := [2]string{dir, r[1]}
			first, _, _ := strings.Cut(filepath.Clean(r[1]), "/")
			if written[filepath.Clean(r[1])] || looked[key] || output.MatchString(first) || len(looked) > mostWords {
				continue
			}
			if looked[key] = true; slices.ContainsFunc(strings.Fields(r[0]), s.typed) {
				continue
			}
			name, _, _ := strings.Cut(r[0], " ")
			if path := found(r[1], s.Command.Dir, dir); path != "" {
				id.constants = append(id.constants, word{strings.TrimLeft(name, "-"), path})
			}
		}
		for _, folder := range f.facts.Constants.Folders {
			key := [2]string{dir, folder + "/"}
			if looked[key] {
				continue
			}
			looked[key] = true
			if path := found(folder, s.Command.Dir, dir); path != "" {
				id.chosen(s, path)
			}
		}
	}
}

// chosen takes the recipes in a folder whose names are arguments, without their ending.
func (id *Identity) chosen(s Subject, folder string) {
	for _, w := range wordsOf(s.Command.Args) {
		if w.value == "" || len(w.value) > 100 || strings.ContainsAny(w.value, "/ ") {
			continue
		}
		for _, ending := range append([]string{".py"}, settings...) {
			id.addRecipe(s, filepath.Join(folder, w.value+ending))
		}
	}
}

package declared

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/lazy"
)

// namesFolder are the options by which programs are told where to write.
var namesFolder = lazy.MustCompile(`(?i)^-*([a-z0-9_.-]*[_.-])?` +
	`(out|outdir|output|outputs|savedir|save|logdir|workdir|rundir|expdir|exp|experiment|results?|dest(ination)?)` +
	`([_.-]?(dir|path|folder|to))?$|` +
	`(?i)(log|work|run|exp|save|output|checkpoint|ckpt|results?)[_.-]?(dir|folder)$`)

// own narrows the globs of saved states to the folder into which this very command writes, and returns it; "" where the command
// does not tell. A glob says {--option} for an option's value; a folder that its patterns match, and that an option names by
// which programs are told where to write, is this command's as well. Two runs in parallel then do not find each other's states.
func own(globs []string, args []string, dir string, value func(option string) (string, bool)) (narrowed []string, folder string) {
	for _, g := range globs {
		n, f := ownOf(g, args, dir, value)
		narrowed, folder = append(narrowed, n), f
	}
	return narrowed, folder
}

var reference = lazy.MustCompile(`\{([^{}]+)\}`)

func ownOf(glob string, args []string, dir string, value func(string) (string, bool)) (narrowed, folder string) {
	given := true
	const whole = "\x00" // before a value that is an absolute path: what the glob has before it does not count
	narrowed = reference.ReplaceAllStringFunc(glob, func(ref string) string {
		v, ok := value(ref[1 : len(ref)-1])
		if !ok || v == "" {
			given = false
			return "*"
		}
		if filepath.IsAbs(v) {
			return whole + file.EscapeGlob(v)
		}
		return file.EscapeGlob(v)
	})
	if i := strings.LastIndex(narrowed, "/"+whole); i >= 0 {
		narrowed = narrowed[i+1:]
	}
	narrowed = strings.ReplaceAll(narrowed, whole, "")
	if narrowed != glob && given { // as its author says; a value may end with a slash
		narrowed = cleaned(narrowed)
		if base := filepath.Dir(narrowed); !patterned(base) {
			return narrowed, file.In(dir, globUnescape.Replace(base))
		}
		return narrowed, ""
	}
	var hits []string
	parts := strings.Split(filepath.Clean(narrowed), "/")
	for _, name := range folders(args) {
		path := filepath.Clean(name)
		if abs := filepath.IsAbs(path); abs && !filepath.IsAbs(narrowed) {
			rel, err := filepath.Rel(dir, path)
			if err != nil || !filepath.IsLocal(rel) {
				continue
			}
			path = rel
		}
		n := len(strings.Split(path, "/"))
		if n >= len(parts) { // the last part is the state itself
			continue
		}
		pattern := strings.Join(parts[:n], "/")
		if ok, err := filepath.Match(pattern, path); err != nil || !ok || !patterned(pattern) || slices.Contains(hits, path) {
			continue
		}
		hits = append(hits, path)
	}
	if len(hits) != 1 {
		return narrowed, ""
	}
	n := len(strings.Split(hits[0], "/"))
	return file.EscapeGlob(hits[0]) + "/" + strings.Join(parts[n:], "/"), file.In(dir, hits[0])
}

var slashes = lazy.MustCompile(`/+(?:\./+)*`)

// cleaned is a glob without doubled slashes: its folder may be given as "runs/".
func cleaned(glob string) string { return slashes.ReplaceAllString(glob, "/") }

// folders are the values of the options by which programs are told where to write: --out runs/a, --out=runs/a, out_dir=runs/a.
func folders(args []string) (out []string) {
	for i, a := range args {
		name, v, joined := strings.Cut(a, "=")
		switch {
		case !namesFolder.MatchString(name):
		case joined:
			out = append(out, v)
		case strings.HasPrefix(a, "-") && i+1 < len(args):
			out = append(out, args[i+1])
		}
	}
	return out
}

var globUnescape = strings.NewReplacer(`\\`, `\`, `\*`, `*`, `\?`, `?`, `\[`, `[`)

func patterned(glob string) bool {
	return strings.ContainsAny(strings.NewReplacer(`\*`, "", `\?`, "", `\[`, "").Replace(glob), `*?[`)
}

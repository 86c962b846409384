package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/launch-ml/launch/cmd/launch/internal/root"
)

// The pages of the documentation show what launch really prints. TestDocs runs every command of every fenced block that has a line
// "$ COMMAND", in a copy of the folder that the block names, and compares what is printed with what the page shows. Comments of HTML
// before a block, one key each, are not visible in the rendered page:
//
//	<!-- in: examples/sisr -->   the folder of the repository; without it, an empty folder. The blocks of one page share its copy
//	<!-- after: COMMAND -->      a command to run first
//	<!-- file: NAME -->          the block is the text of a file, which is written to that folder
//	<!-- not run: REASON -->     the block is not run; [docsNotRun] is how many of these there are
//	<!-- new home -->            from this block on, the page has a new home folder, and new copies of the folders
//
// "$ cd FOLDER" holds for the rest of the page.
//
// In the output that a page shows, "…" on a line of its own stands for any number of lines, and "…" within a line for any text.
// Names of runs, times, dates and measured peaks may differ as they are ([varies]). The home folder is "~". A command ends with
// exit code 0, or a line "$ echo $?" with its code follows.
//
// go test ./cmd/launch -run TestDocs -update rewrites what the pages show. It fails where it cannot find a line again beside a "…".

var update = flag.Bool("update", false, "rewrite the outputs that the documentation shows")

// docsNotRun is how many blocks of all pages are marked as not run. Lower it where a block can be run after all.
const docsNotRun = 1

// docsMost is how many pages docs may have: a new one takes the place of another, or becomes a part of it.
const docsMost = 30

// docsTorch begins the version of torch whose memory the pages show: Debian's.
const docsTorch = "1.13"

func docsPages(t *testing.T) []string {
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no page in docs: %v", err)
	}
	if len(pages) > docsMost {
		t.Errorf("docs has %d pages, more than %d", len(pages), docsMost)
	}
	root := filepath.Join("..", "..")
	return append([]string{filepath.Join(root, "README.md"), filepath.Join(root, "SKILL.md")}, pages...)
}

func TestDocs(t *testing.T) {
	launch, err := exec.LookPath("launch")
	if err != nil {
		t.Fatal(err)
	}
	torch, err := exec.Command(testPython(), "-c", "import torch, yaml, PIL; print(torch.__version__)").Output()
	if err != nil {
		t.Fatalf("%s lacks what the examples run on; `make deps` installs it: %v", testPython(), err)
	}
	if !strings.HasPrefix(string(torch), docsTorch) {
		t.Skipf("the pages show the memory of torch %s, and this is %s", docsTorch, torch)
	}
	marked, goEnv := 0, offlineGo(t)
	for _, path := range docsPages(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		page, err := parsePage(string(text))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		for _, b := range page.blocks {
			if b.options["not run"] != "" {
				marked++
			}
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			r := pageRun{t: t, path: path, page: page, home: t.TempDir(), launch: launch, folders: map[string]bool{},
				at: map[string]string{}, env: goEnv}
			for i := range page.blocks {
				r.block(&page.blocks[i])
			}
			if now := page.String(); *update && now != string(text) {
				if err := os.WriteFile(path, []byte(now), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if marked != docsNotRun {
		t.Errorf("%d blocks are marked as not run; docsNotRun is %d", marked, docsNotRun)
	}
}

// A docsPage is a page as its lines, with the blocks of them that are run.
type docsPage struct {
	lines  []string
	blocks []docsBlock
}

// A docsBlock is the lines from..to-1 of a page, without the fences.
type docsBlock struct {
	from, to int
	newHome  bool
	options  map[string]string
	lines    []string // as the page is to show them
}

// String is the page with its blocks as they are now.
func (p docsPage) String() string {
	var out []string
	at := 0
	for _, b := range p.blocks {
		out = append(append(out, p.lines[at:b.from]...), b.lines...)
		at = b.to
	}
	return strings.Join(append(out, p.lines[at:]...), "\n")
}

var docsComment = regexp.MustCompile(`^<!-- (in|after|file|not run): (.+) -->$`)

func parsePage(text string) (*docsPage, error) {
	p := &docsPage{lines: strings.Split(text, "\n")}
	options, newHome := map[string]string{}, false
	for i := 0; i < len(p.lines); i++ {
		line := p.lines[i]
		comment := docsComment.FindStringSubmatch(line)
		switch {
		case line == "<!-- new home -->":
			newHome = true
		case comment != nil:
			options[comment[1]] = comment[2]
		case strings.HasPrefix(line, "    $ "):
			return nil, fmt.Errorf("line %d: a command stands in a fenced block, which is run", i+1)
		case strings.HasPrefix(line, "```"):
			n := slices.Index(p.lines[i+1:], "```")
			if n < 0 {
				return nil, fmt.Errorf("line %d: a block that does not end", i+1)
			}
			b := docsBlock{from: i + 1, to: i + 1 + n, newHome: newHome, options: options, lines: p.lines[i+1 : i+1+n]}
			isCommand := func(l string) bool { return strings.HasPrefix(l, "$ ") }
			if slices.ContainsFunc(b.lines, isCommand) || options["file"] != "" {
				p.blocks, newHome = append(p.blocks, b), false
			} else if len(options) > 0 {
				return nil, fmt.Errorf("line %d: a block with a mark and without a command", i+1)
			}
			options = map[string]string{}
			i = b.to
		case line != "" && len(options) > 0:
			return nil, fmt.Errorf("line %d: a mark and no block after it", i+1)
		}
	}
	return p, nil
}

// pageRun runs the blocks of one page. Its home folder has the copies of the folders that the page names.
type pageRun struct {
	t                  *testing.T
	path, home, launch string
	page               *docsPage
	folders            map[string]bool
	at                 map[string]string // the folder that "$ cd" has led to, by the folder of the block
	env                []string
}

func (r *pageRun) block(b *docsBlock) {
	if b.newHome {
		r.home, r.folders, r.at = r.t.TempDir(), map[string]bool{}, map[string]string{}
	}
	if b.options["not run"] != "" {
		return
	}
	base := r.folder(b.options["in"])
	dir := base
	if at := r.at[base]; at != "" {
		dir = at
	}
	if name := b.options["file"]; name != "" {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(b.lines, "\n")+"\n"), 0o644); err != nil {
			r.t.Fatal(err)
		}
		return
	}
	if before := b.options["after"]; before != "" {
		if out, code := r.sh(dir, before); code != 0 {
			r.t.Fatalf("%s:%d: %s: exit code %d\n%s", r.path, b.from, before, code, out)
		}
	}
	var now []string
	code, command := 0, ""
	for at := 0; at < len(b.lines); {
		line := b.lines[at]
		next := at + 1
		for next < len(b.lines) && !strings.HasPrefix(b.lines[next], "$ ") {
			next++
		}
		shown := b.lines[at+1 : next]
		now = append(now, line)
		where := fmt.Sprintf("%s:%d", r.path, b.from+at+1)
		var printed []string
		if line == "$ echo $?" {
			printed, code = []string{fmt.Sprint(code)}, 0
		} else {
			if code != 0 {
				break
			}
			command = strings.TrimPrefix(line, "$ ")
			if to, is := strings.CutPrefix(command, "cd "); is {
				dir = filepath.Join(dir, to)
				r.at[base] = dir
				command = "true"
			}
			printed, code = r.sh(dir, command)
		}
		now = append(now, r.compare(where, line, shown, printed)...)
		at = next
	}
	if code != 0 { // and what was printed does not go into the page
		r.t.Errorf("%s:%d: exit code %d of %s is not shown\n%s", r.path, b.from, code, command, strings.Join(now, "\n"))
		return
	}
	b.lines = now
}

// compare reports where a page shows something else than was printed, and returns what the page is to show.
func (r *pageRun) compare(where, command string, shown, printed []string) []string {
	if matches(shown, printed) {
		return shown
	}
	if *update {
		if now, ok := updated(shown, printed); ok {
			return now
		}
	}
	r.t.Errorf("%s: %s\n(-shown +printed)\n%s", where, command, cmp.Diff(shown, printed))
	return shown
}

// folder is the page's copy of a folder of the repository, or its own empty one.
func (r *pageRun) folder(in string) string {
	dir := filepath.Join(r.home, filepath.Base(in))
	if in == "" {
		dir = filepath.Join(r.home, "project")
	}
	if r.folders[dir] {
		return dir
	}
	r.folders[dir] = true
	err := os.Mkdir(dir, 0o755)
	if in != "" {
		err = os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", in)))
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return dir
}

// sh runs a command as a terminal's shell would, with an environment that has nothing of the user's.
func (r *pageRun) sh(dir, command string) (lines []string, code int) {
	c := exec.Command("bash", "-c", command)
	c.Dir = dir
	goProgram, err := exec.LookPath("go")
	if err != nil {
		r.t.Fatal(err)
	}
	path := []string{filepath.Dir(r.launch), filepath.Dir(testPython()), "/usr/bin", "/bin", filepath.Dir(goProgram)}
	c.Env = append(slices.Clone(r.env), "HOME="+r.home, "PATH="+strings.Join(path, ":"), "LANG=C.UTF-8", "TZ=UTC",
		"TERM=dumb", "PYTHONDONTWRITEBYTECODE=1", "SLURM_CONF=/dev/null") // no cluster answers
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err = c.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		r.t.Fatal(err)
	}
	text := strings.TrimRight(strings.ReplaceAll(out.String(), r.home, "~"), "\n")
	if text == "" {
		return nil, code
	}
	for _, l := range strings.Split(text, "\n") {
		lines = append(lines, strings.TrimRight(l[strings.LastIndexByte(l, '\r')+1:], " \t"))
	}
	return lines, code
}

// varies are parts of a line that differ from run to run: they are equal to any other of their kind.
var varies = []struct{ what, like string }{
	{`\b\d{8}-\d{6}\.\d{3}-[0-9a-f]{4}\b`, "RUN"},
	{`\b\d{4}-\d\d-\d\d \d\d:\d\d\b`, "DATE"},
	{`\b(\d+m\d+s|\d+m|\d+(\.\d+)?m?s)\b`, "TIME"},
	{`(measured (peak:? )?(at least |at most )?)[\d.]+ [KMG]iB`, "${1}SIZE"},
	{`[\d.]+ [KMG]iB( {3}(?:data|used) ·)`, "SIZE$1"}, // the last column of receipts
}

var varying = func() (list []*regexp.Regexp) {
	for _, v := range varies {
		list = append(list, regexp.MustCompile(v.what))
	}
	return list
}()

func docsAlike(line string) string {
	for i, v := range varying {
		line = v.ReplaceAllString(line, varies[i].like)
	}
	return line
}

const leftOutLines = "…"

// sameLine reports whether a page's line shows one that was printed.
func sameLine(shown, printed string) bool {
	shown, printed = docsAlike(shown), docsAlike(printed)
	parts := strings.Split(shown, "…")
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	return regexp.MustCompile(`^` + strings.Join(parts, `.*`) + `$`).MatchString(printed)
}

func matches(shown, printed []string) bool {
	switch {
	case len(shown) == 0:
		return len(printed) == 0
	case shown[0] == leftOutLines:
		return matches(shown[1:], printed) || len(printed) > 0 && matches(shown, printed[1:])
	}
	return len(printed) > 0 && sameLine(shown[0], printed[0]) && matches(shown[1:], printed[1:])
}

// updated is what a page is to show of what was printed: its own lines where they still hold, else the new ones. ok is false where
// a line has no like among those that are left out: whether it has changed or has gone is then for a person to see.
func updated(shown, printed []string) (now []string, ok bool) {
	// most[i][j] is how many of shown[i:] have their like in printed[j:], in order.
	most := make([][]int, len(shown)+1)
	for i := range most {
		most[i] = make([]int, len(printed)+1)
	}
	same := func(i, j int) bool { return shown[i] != leftOutLines && sameLine(shown[i], printed[j]) }
	for i := len(shown) - 1; i >= 0; i-- {
		for j := len(printed) - 1; j >= 0; j-- {
			most[i][j] = max(most[i+1][j], most[i][j+1])
			if same(i, j) {
				most[i][j] = max(most[i][j], 1+most[i+1][j+1])
			}
		}
	}
	var gone, came []string // between two lines that hold
	for i, j := 0, 0; ; {
		switch {
		case i < len(shown) && j < len(printed) && same(i, j) && most[i][j] == 1+most[i+1][j+1]:
			now = append(append(now, reworded(gone, came)...), shown[i])
			gone, came = nil, nil
			i, j = i+1, j+1
		case i < len(shown) && (j == len(printed) || most[i][j] == most[i+1][j]):
			gone = append(gone, shown[i])
			i++
		case j < len(printed):
			came = append(came, printed[j])
			j++
		default:
			now = append(now, reworded(gone, came)...)
			return now, matches(now, printed)
		}
	}
}

// reworded is what takes the place of lines that do not hold any more: those that came or, where some are left out, of those the
// ones that have most words in common with what is gone.
func reworded(gone, came []string) []string {
	if !slices.Contains(gone, leftOutLines) {
		return came
	}
	var now []string
	for _, old := range gone {
		best, most := -1, 0.3
		for i, line := range came {
			if share := inCommon(old, line); share > most {
				best, most = i, share
			}
		}
		switch {
		case old == leftOutLines:
			now = append(now, old)
		case best >= 0:
			now = append(now, came[best])
			came = came[best+1:]
		default:
			return append(now, old) // which matches nothing
		}
	}
	return now
}

// inCommon is the share of the words of two lines that both have.
func inCommon(a, b string) float64 {
	x, y := strings.Fields(a), strings.Fields(b)
	n := 0
	for _, w := range x {
		if slices.Contains(y, w) {
			n++
		}
	}
	return float64(2*n) / float64(max(1, len(x)+len(y)))
}

func TestDocsNotation(t *testing.T) {
	for _, c := range []struct {
		shown, printed, now string // now: "" where a person has to look
		same                bool
	}{
		{"a|b", "a|b", "a|b", true},
		{"a|b", "a|c", "a|c", false},
		{"a …d|b", "a b d|b", "a …d|b", true},
		{"a …d|b", "a b e|b", "a b e|b", false},
		{"a|…|d", "a|b|c|d", "a|…|d", true},
		{"a|…|d", "a|d", "a|…|d", true},
		{"a|…|d|e", "a|b|d|f", "a|…|d|f", false},
		{"a|…|d", "a|b|e", "", false},
		{"a|…|no rung is left|…|d", "a|b|no rung remains|c|d", "a|…|no rung remains|…|d", false},
		{"", "a", "a", false},
		{"a", "", "", false},
		{"run 20261122-062408.564-100d took 5.8s", "run 20261123-062409.001-beef took 12ms", "run 20261122-062408.564-100d took 5.8s", true},
		{"estimate 5.8 MiB", "estimate 5.9 MiB", "estimate 5.9 MiB", false},
		{"5 MiB   5.8 MiB   data · x", "5 MiB   5.9 MiB   data · x", "5 MiB   5.8 MiB   data · x", true},
		{"5 MiB   5.8 MiB   data · x", "6 MiB   5.8 MiB   data · x", "6 MiB   5.8 MiB   data · x", false},
	} {
		lines := func(s string) []string {
			if s == "" {
				return nil
			}
			return strings.Split(s, "|")
		}
		if same := matches(lines(c.shown), lines(c.printed)); same != c.same {
			t.Errorf("%q shows %q: %v, want %v", c.shown, c.printed, same, c.same)
		}
		now, ok := updated(lines(c.shown), lines(c.printed))
		if got := strings.Join(now, "|"); ok && got != c.now || ok != (c.now != "" || c.printed == "") {
			t.Errorf("%q with %q becomes %q, %v; want %q", c.shown, c.printed, got, ok, c.now)
		}
	}
}

var (
	docsLink     = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"`)
	docsWebLink  = regexp.MustCompile(`^[a-z]+:`)
	docsHeading  = regexp.MustCompile(`^#{1,6} +(.*)$`)
	docsMark     = regexp.MustCompile("[`*]|\\[([^\\]]*)\\]\\([^)]*\\)")
	docsNoAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// docsAnchors are the addresses of a page's headings, as GitHub makes them.
func docsAnchors(text string) map[string]bool {
	all, code := map[string]bool{}, false
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		m := docsHeading.FindStringSubmatch(line)
		if m == nil || code {
			continue
		}
		name := docsNoAnchor.ReplaceAllString(strings.ToLower(docsMark.ReplaceAllString(m[1], "$1")), "")
		name = strings.ReplaceAll(name, " ", "-")
		of := name
		for n := 1; all[of]; n++ {
			of = fmt.Sprintf("%s-%d", name, n)
		}
		all[of] = true
	}
	return all
}

// What the pages lead to is there: files, folders and headings.
func TestDocsLinks(t *testing.T) {
	root, links := filepath.Join("..", ".."), 0
	pages := docsPages(t)
	for _, name := range []string{"CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"} {
		pages = append(pages, filepath.Join(root, name))
	}
	for _, path := range pages {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range docsLink.FindAllStringSubmatch(string(text), -1) {
			link := m[1] + m[2]
			if docsWebLink.MatchString(link) {
				continue
			}
			links++
			file, heading, _ := strings.Cut(link, "#")
			to := path
			if file != "" {
				to = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s leads to %s, which is not there", path, link)
				continue
			}
			if there, err := os.ReadFile(to); heading != "" && (err != nil || !docsAnchors(string(there))[heading]) {
				t.Errorf("%s leads to %s: that page has no such heading", path, link)
			}
		}
	}
	if links < 100 {
		t.Errorf("the pages have %d links: are they all found?", links)
	}
}

// docs/README.md lists every page: the site has its order and its groups.
func TestDocsAreListed(t *testing.T) {
	list, err := os.ReadFile(filepath.Join("..", "..", "docs", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range docsPages(t) {
		name := filepath.Base(path)
		if filepath.Base(filepath.Dir(path)) == "docs" && name != "README.md" &&
			!strings.Contains(string(list), "\n| ["+name+"]("+name+") |") {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}

func TestDocsAnchors(t *testing.T) {
	got := docsAnchors("# Exit codes, and `--json-file`\n## A [link](x.md) and **b_c**\n```\n# no\n```\n## x\n## x\n#no")
	for _, want := range []string{"exit-codes-and---json-file", "a-link-and-b_c", "x", "x-1"} {
		if !got[want] {
			t.Errorf("%v lacks %s", got, want)
		}
	}
	if len(got) != 4 {
		t.Errorf("%v", got)
	}
}

var (
	docsSpan = regexp.MustCompile("(?m)`launch [^`]+`|^(\\$|   ) launch .*$")
	docsFlag = regexp.MustCompile(`(^|[\s\[])--([a-z][a-z-]*)`)
	docsKey  = regexp.MustCompile(`--(grid|zip|seeds|where|only) ("[^"]*"|\S+)`) // a key may be another program's option
)

// The flags of launch that the pages name exist. What comes after " -- " or " | " is another program's.
func TestDocsFlags(t *testing.T) {
	known := map[string]bool{"help": true}
	var add func(c *cobra.Command)
	add = func(c *cobra.Command) {
		note := func(f *pflag.Flag) { known[f.Name] = true }
		c.Flags().VisitAll(note)
		c.PersistentFlags().VisitAll(note)
		for _, sub := range c.Commands() {
			add(sub)
		}
	}
	add(root.Tree(factory()))
	seen := 0
	for _, path := range docsPages(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, span := range docsSpan.FindAllString(string(text), -1) {
			own, _, _ := strings.Cut(span, " -- ")
			own, _, _ = strings.Cut(own, " | ")
			own = docsKey.ReplaceAllString(own, "--$1")
			for _, m := range docsFlag.FindAllStringSubmatch(own, -1) {
				seen++
				if !known[m[2]] {
					t.Errorf("%s: %s: launch has no flag --%s", path, span, m[2])
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("the pages name %d flags of launch", seen)
	}
}

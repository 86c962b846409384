package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	gocmp "github.com/google/go-cmp/cmp"
)

// Parts of the pages are made of the commands themselves, as their help and `launch help --json` are. Such a part is
// between
//
//	<!-- made: NAME -->
//	<!-- end -->
//
// and go test ./cmd/launch -run TestDocs -update writes it anew.

// made are these parts, by their names.
var made = map[string]func(helpDocument) string{
	"commands": commandTable, "reference": referenceText, "settings": settingsText, "exit codes": exitRows,
	"documents": documentTable,
}

var madePart = regexp.MustCompile(`(?s)(<!-- made: ([a-z ]+) -->\n).*?(<!-- end -->\n)`)

// The parts of the pages that are made of the commands are as the commands are now.
func TestDocsReference(t *testing.T) {
	help, seen := helpOf(newRoot()), map[string]bool{}
	for _, page := range docsPages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		now := madePart.ReplaceAllStringFunc(string(text), func(part string) string {
			m := madePart.FindStringSubmatch(part)
			of := made[m[2]]
			if of == nil {
				t.Errorf("%s: nothing makes %q", page, m[2])
				return part
			}
			seen[m[2]] = true
			return m[1] + "\n" + strings.Trim(of(help), "\n") + "\n\n" + m[3]
		})
		switch {
		case now == string(text):
		case !*update:
			t.Errorf("%s is not as the commands are: go test ./cmd/launch -run TestDocs -update\n(-page +commands)\n%s", page,
				gocmp.Diff(strings.Split(string(text), "\n"), strings.Split(now, "\n")))
		default:
			if err := os.WriteFile(page, []byte(now), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name := range made {
		if !seen[name] {
			t.Errorf("no page shows %q", name)
		}
	}
}

var announced = regexp.MustCompile(`[Ee]xit codes?( is|:)`)

// Each command that announces exit codes has declared them.
func TestExitsAreDeclared(t *testing.T) {
	for _, c := range helpOf(newRoot()).Commands {
		if announced.MatchString(c.Long) && slices.Equal(c.ExitCodes, usualExits) {
			t.Errorf("the help of %s has exit codes: declare them with exits", c.Command)
		}
	}
}

// escaped is a text as Markdown shows it literally.
func escaped(text string) string {
	return strings.NewReplacer("<", "\\<", "*", "\\*", "|", "\\|", "_", "\\_", "[", "\\[", "`", "\\`").Replace(text)
}

var exitParagraph = regexp.MustCompile(`(?s)(\n\n|^)Exit code: .*?(\n\n|$)`)

// prose is the long text of a command without its exit codes, as Markdown: lines that are indented are a block.
func prose(long, fence string) string {
	var b strings.Builder
	block := false
	for line := range strings.SplitSeq(exitParagraph.ReplaceAllString(long, "\n\n"), "\n") {
		if in := strings.HasPrefix(line, "  "); in != block && (in || line != "") {
			if block = in; fence != "" && in {
				b.WriteString("\n" + fence + "text\n")
			} else if fence != "" {
				b.WriteString(fence + "\n\n")
			} else {
				b.WriteString("\n")
			}
		}
		switch {
		case !block:
			b.WriteString(escaped(line))
		case fence != "":
			b.WriteString(strings.TrimPrefix(line, "  "))
		default:
			b.WriteString("    " + line)
		}
		b.WriteString("\n")
	}
	text := strings.TrimSpace(b.String())
	if block && fence != "" {
		text += "\n" + fence
	}
	return strings.ReplaceAll(text, "\n\n"+fence+"\n", "\n"+fence+"\n")
}

// anchor is the address of a heading within its page.
func anchor(heading string) string { return strings.ReplaceAll(heading, " ", "-") }

func commandTable(d helpDocument) string {
	var b strings.Builder
	b.WriteString("| command | |\n|---|---|\n")
	for _, c := range d.Commands {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", c.Command, anchor(c.Command), escaped(c.Short))
	}
	return b.String()
}

func referenceText(d helpDocument) string {
	var b strings.Builder
	for _, c := range d.Commands {
		fmt.Fprintf(&b, "## %s\n\n    %s\n\n", c.Command, c.Use)
		if text := prose(c.Long, "```"); text != "" {
			fmt.Fprintf(&b, "%s\n\n", text)
		} else {
			fmt.Fprintf(&b, "%s.\n\n", escaped(strings.ToUpper(c.Short[:1])+c.Short[1:]))
		}
		if len(c.Flags) > 0 {
			b.WriteString(flagTable(c.Flags))
		}
		switch {
		case c.Command == "launch":
			b.WriteString("Its other flags are the [settings](#the-settings).\n\n")
		case c.Settings:
			b.WriteString("It takes the [settings](#the-settings) of `launch` too.\n\n")
		}
		b.WriteString("| exit code | |\n|--:|---|\n")
		for _, e := range c.ExitCodes {
			fmt.Fprintf(&b, "| %s | %s |\n", e.Code, escaped(e.Meaning))
		}
		b.WriteString("\n")
		if len(c.Examples) > 0 {
			fmt.Fprintf(&b, "```text\n%s\n```\n\n", strings.Join(c.Examples, "\n"))
		}
		if len(c.Documents) > 0 {
			var of []string
			for _, name := range c.Documents {
				of = append(of, fmt.Sprintf("[%[1]s](schema/%[1]s.schema.json)", name))
			}
			const page = "[scripts.md](scripts.md#json-schemas-and-what-they-promise)"
			fmt.Fprintf(&b, "JSON: %s; see %s.\n\n", strings.Join(of, ", "), page)
		}
	}
	return b.String()
}

// flagTyped is a flag with what comes after it.
func flagTyped(f flagDoc) string {
	value := map[string]string{"bool": "", "int": "=N", "uint64": "=N", "duration": "=TIME", "stringArray": "=TEXT"}
	v, ok := value[f.Type]
	if !ok {
		v = "=TEXT"
	}
	if f.Bare != "" && f.Type != "bool" {
		v = "[" + v + "]"
	}
	name := "`--" + f.Name + v + "`"
	if f.Shorthand != "" {
		name = "`-" + f.Shorthand + "`, " + name
	}
	return name
}

func flagTable(all []flagDoc) string {
	var b strings.Builder
	b.WriteString("| flag | default | |\n|---|---|---|\n")
	for _, f := range all {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", flagTyped(f), shownDefault(f), escaped(f.Usage))
	}
	return b.String() + "\n"
}

// shownDefault is the default of a flag where it says more than its usage.
func shownDefault(f flagDoc) string {
	switch {
	case f.Default == "" || f.Type == "bool" && f.Default == "false" || strings.Contains(f.Usage, "(default"):
		return ""
	}
	return "`" + f.Default + "`"
}

func settingsText(d helpDocument) string {
	var b strings.Builder
	b.WriteString("| flag | default | variable | |\n|---|---|---|---|\n")
	for _, f := range d.Settings {
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s |\n", flagTyped(f), shownDefault(f), f.Variable, escaped(f.Usage))
	}
	return b.String()
}

// exitRows is the table of the exit codes: of a run, and of the commands that have some of their own.
func exitRows(d helpDocument) string {
	var b strings.Builder
	b.WriteString("| code | of a run |\n|--:|---|\n")
	for _, e := range runExits {
		fmt.Fprintf(&b, "| %s | %s |\n", e.Code, escaped(e.Meaning))
	}
	b.WriteString("\n| command | its codes |\n|---|---|\n")
	for _, c := range d.Commands {
		if slices.Equal(c.ExitCodes, usualExits) || slices.Equal(c.ExitCodes, runExits) {
			continue
		}
		var parts []string
		for _, e := range c.ExitCodes {
			parts = append(parts, e.Code+": "+escaped(e.Meaning))
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.Command, strings.Join(parts, "; "))
	}
	return b.String()
}

func documentTable(helpDocument) string {
	var b strings.Builder
	b.WriteString("| schema | version | printed or written by |\n|---|--:|---|\n")
	for _, d := range documents {
		version := ""
		if d.Version > 0 {
			version = strconv.Itoa(d.Version)
		}
		var by []string
		for part := range strings.SplitSeq(d.By, ", ") {
			command, line, _ := strings.Cut(part, " (")
			if line != "" {
				line = ": " + strings.TrimSuffix(line, ")")
			}
			by = append(by, "`"+command+"`"+line)
		}
		fmt.Fprintf(&b, "| [%[1]s](schema/%[1]s.schema.json) | %s | %s |\n", d.Name, version, strings.Join(by, ", "))
	}
	return b.String()
}

var manFolder = flag.String("man", "", "write the man pages into this folder")

// TestMan makes the man pages of all commands. `make man` keeps them. Their date is SOURCE_DATE_EPOCH.
func TestMan(t *testing.T) {
	dir := t.TempDir()
	if *manFolder != "" {
		dir = *manFolder
	}
	seconds, _ := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	date := time.Unix(seconds, 0).UTC().Format(time.DateOnly)
	help := helpOf(newRoot())
	for _, c := range help.Commands {
		page := md2man.Render([]byte(manPage(help, c, date)))
		if err := os.WriteFile(filepath.Join(dir, manName(c)+".1"), page, 0o644); err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer(`\-`, "-", `\\`, `\`).Replace(string(page))
		for _, want := range manWords(help, c) {
			if !strings.Contains(text, want) {
				t.Errorf("the man page of %s lacks %s", c.Command, want)
			}
		}
	}
	lintMan(t, dir)
}

// manName is the name of a command's page.
func manName(c commandDoc) string { return strings.ReplaceAll(c.Command, " ", "-") }

// manWords are what a page has to have: flags, variables of the settings, and exit codes.
func manWords(d helpDocument, c commandDoc) (words []string) {
	flags := c.Flags
	if c.Command == "launch" {
		flags = append(slices.Clone(flags), d.Settings...)
	}
	for _, f := range flags {
		words = append(words, "--"+f.Name, f.Variable)
	}
	for _, e := range c.ExitCodes {
		words = append(words, e.Code)
	}
	return words
}

// manPage is the page of a command as Markdown, which md2man turns into a man page.
func manPage(d helpDocument, c commandDoc, date string) string {
	var b strings.Builder
	name := manName(c)
	fmt.Fprintf(&b, "%% \"%s\" \"1\" \"%s\" \"launch\" \"launch\"\n", strings.ToUpper(name), date)
	fmt.Fprintf(&b, "# NAME\n%s \\- %s\n\n# SYNOPSIS\n%s\n\n", name, escaped(c.Short), escaped(c.Use))
	fmt.Fprintf(&b, "# DESCRIPTION\n%s\n\n", prose(cmp.Or(c.Long, c.Short+"."), ""))
	manFlags(&b, "OPTIONS", c.Flags)
	switch {
	case c.Command == "launch":
		manFlags(&b, "SETTINGS", d.Settings)
	case c.Settings:
		b.WriteString("# SETTINGS\nThe settings of **launch**(1) are options of this command too.\n\n")
	}
	b.WriteString("# EXIT STATUS\n")
	for _, e := range c.ExitCodes {
		fmt.Fprintf(&b, "**%s**\n: %s\n\n", e.Code, escaped(e.Meaning))
	}
	if len(c.Examples) > 0 {
		fmt.Fprintf(&b, "# EXAMPLES\n\n    %s\n\n", strings.Join(c.Examples, "\n    "))
	}
	var also []string
	for _, other := range d.Commands {
		if parent(other.Command) == c.Command || parent(c.Command) == other.Command {
			also = append(also, "**"+manName(other)+"**(1)")
		}
	}
	fmt.Fprintf(&b, "# SEE ALSO\n%s\n", strings.Join(also, ", "))
	return b.String()
}

// parent is the command that a command is one of; "" for launch itself.
func parent(command string) string { return command[:max(0, strings.LastIndexByte(command, ' '))] }

func manFlags(b *strings.Builder, title string, flags []flagDoc) {
	if len(flags) == 0 {
		return
	}
	fmt.Fprintf(b, "# %s\n", title)
	for _, f := range flags {
		name := strings.ReplaceAll(flagTyped(f), "`", "")
		usage := escaped(f.Usage)
		if text := strings.Trim(shownDefault(f), "`"); text != "" {
			usage += " (default " + escaped(text) + ")"
		}
		if f.Variable != "" {
			usage += "; in the environment: " + escaped(f.Variable)
		}
		fmt.Fprintf(b, "**%s**\n: %s\n\n", escaped(name), usage)
	}
}

// lintMan holds the pages against groff and mandoc, where they are installed.
func lintMan(t *testing.T, dir string) {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no man page: %v", err)
	}
	for _, page := range pages {
		for _, lint := range [][]string{
			{"groff", "-man", "-ww", "-z", "-Tutf8", "-Kutf8"}, {"mandoc", "-Tlint", "-Wwarning"}} {
			if _, err := exec.LookPath(lint[0]); err != nil {
				continue
			}
			if out, err := exec.Command(lint[0], append(lint[1:], page)...).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s %s: %v\n%s", lint[0], filepath.Base(page), err, out)
			}
		}
	}
}

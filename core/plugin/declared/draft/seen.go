package draft

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
)

// Seen is how often a sign was in a program's output.
type Seen struct {
	Sign
	Lines   int
	Example string // the first line
}

var escapes = lazy.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// Lines are the lines of a program's output, each state of a progress bar one of them, without escape sequences.
func Lines(output string) []string {
	return strings.FieldsFunc(escapes.ReplaceAllString(output, ""), func(c rune) bool { return c == '\n' || c == '\r' })
}

// Look counts the lines of an output that the draft's signs match.
func (d *Draft) Look(lines []string) (all []Seen) {
	for _, s := range d.Signs {
		seen := Seen{Sign: s}
		re, err := regexp.Compile(s.Pattern)
		if err != nil {
			continue
		}
		for _, line := range lines {
			if re.MatchString(line) {
				if seen.Lines++; seen.Lines == 1 {
					seen.Example = strings.TrimSpace(line)
				}
			}
		}
		all = append(all, seen)
	}
	return all
}

var numbers = lazy.MustCompile(`\d+(\.\d+)?(e[-+]?\d+)?`)

// Progress finds the pattern of a step in a program's output: lines of one shape in which a whole number grows.
func Progress(lines []string) (pattern, example string, found bool) {
	if p := barIn(lines); p != "" {
		return p, "", true
	}
	shapes := map[string][]string{}
	var order []string
	for _, line := range lines {
		line = strings.TrimSpace(line)
		shape := numbers.ReplaceAllString(line, "0")
		if len(line) > 400 || !strings.Contains(shape, "0") {
			continue
		}
		if shapes[shape] == nil {
			order = append(order, shape)
		}
		shapes[shape] = append(shapes[shape], line)
	}
	best := 0
	for _, shape := range order {
		if group := shapes[shape]; len(group) >= 2 {
			if score, p := growing(group); score > best {
				best, pattern, example = score, p, group[0]
			}
		}
	}
	return pattern, example, best > 0
}

var anyBar = lazy.MustCompile(`^([^|]*?)` + bar)

// barIn is the pattern of the last progress bar of an output, with its description; "" if there is none with two steps.
func barIn(lines []string) string {
	count, last := map[string]int{}, ""
	for _, line := range lines {
		m := anyBar.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		prefix := numbers.ReplaceAllString(m[1], "0")
		if count[prefix]++; count[prefix] >= 2 {
			last = "^" + strings.ReplaceAll(escaped(strings.TrimRight(prefix, " ")), "0", `\S+?`) + bar
		}
	}
	return last
}

var (
	stepWord  = lazy.MustCompile(`(?i)(step|iter|iteration|batch|update|it)\W*$`)
	epochWord = lazy.MustCompile(`(?i)(epoch|ep)\W*$`)
)

// growing finds the number that grows from line to line, and how likely it counts steps.
func growing(group []string) (best int, pattern string) {
	first := numbers.FindAllStringIndex(group[0], -1)
	for k, at := range first {
		last, score := -1, 5
		for _, line := range group {
			all := numbers.FindAllString(line, -1)
			n, err := strconv.Atoi(all[k])
			if err != nil || n <= last {
				score = 0
				break
			}
			last = n
		}
		if score == 0 {
			continue
		}
		before := group[0][:at[0]]
		switch {
		case stepWord.MatchString(before):
			score = 40
		case epochWord.MatchString(before):
			score = 20
		case strings.HasPrefix(group[0][at[1]:], "/"):
			score = 30
		// a time
		case strings.ContainsAny(group[0][max(0, at[0]-1):at[0]], ":.") && regexp.MustCompile(`\d[:.]$`).MatchString(before):
			continue
		}
		if score += min(9, len(group)); score > best {
			best, pattern = score, around(group[0], at)
		}
	}
	return best, pattern
}

// padding matches a space that pads a number: it does not part it from a word.
var padding = lazy.MustCompile(`[^\w:=] $`)

// around is a pattern of the number at a span of a line: the words before it, and the sign after it.
func around(line string, at []int) string {
	before := line[:at[0]]
	if len(before) > 40 {
		before = before[len(before)-40:]
		if i := strings.IndexByte(before, ' '); i >= 0 {
			before = before[i+1:]
		}
	}
	var b strings.Builder
	end := 0
	for _, m := range numbers.FindAllStringIndex(before, -1) {
		b.WriteString(escaped(before[end:m[0]]) + `\S+?`)
		end = m[1]
	}
	tail := before[end:]
	b.WriteString(escaped(strings.TrimRight(tail, " ")))
	switch {
	case strings.HasSuffix(tail, "  ") || padding.MatchString(tail): // a wider number has no space before it
		b.WriteString(`\s*`)
	case strings.HasSuffix(tail, " "):
		b.WriteString(`\s+`)
	}
	b.WriteString(iteration)
	after := line[at[1]:]
	if n := strings.IndexFunc(after, func(c rune) bool { return c >= '0' && c <= '9' || c == ' ' }); n > 0 && n <= 3 {
		b.WriteString(escaped(after[:n]))
	}
	return b.String()
}

// WithProgress replaces the draft's pattern of a step.
func (d *Draft) WithProgress(pattern, where string) {
	line := "progress: " + quoted(pattern) + "  # " + where
	lines := strings.Split(d.Text, "\n")
	i := slices.IndexFunc(lines, func(l string) bool {
		return strings.HasPrefix(strings.TrimPrefix(l, "# "), "progress: ")
	})
	if i >= 0 {
		lines[i] = line
	} else {
		lines = slices.Insert(lines, max(0, len(lines)-1), line)
	}
	d.Text = strings.Join(lines, "\n")
	d.Signs = slices.DeleteFunc(d.Signs, func(s Sign) bool { return s.Key == "progress" })
	d.Signs = append(d.Signs, Sign{"progress", pattern})
}

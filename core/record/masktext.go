package record

import (
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/launch-ml/launch/core/lazy"
)

// A Mask takes secrets and the user's own folder out of any text, such as a line that a program printed. Other than
// [MaskArgs] it knows nothing of the text's structure, and so it masks too much rather than too little.
type Mask struct {
	Home string // the user's home folder; "" if unknown
	User string // the name of the user's account; "" if unknown
}

var (
	// tokens are secrets that their form shows, whatever stands before them: of Hugging Face, GitHub, GitLab, OpenAI and
	// others who write sk-, AWS, Google, Slack, PyPI, and JSON Web Tokens (RFC 7519).
	tokens = lazy.MustCompile(`\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}` +
		`|sk-[\w-]{16,}|A[KS]IA[0-9A-Z]{16}|AIza[\w-]{30,}|xox[abeoprs]-[\w-]{10,}|pypi-[\w-]{16,}` +
		`|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)`)
	bearer = lazy.MustCompile(`(?i)\b((?:bearer|basic)\s+)[\w.~+/=-]{12,}`)
	// pair is a name and a value: NAME=value, name: value, "name": "value".
	pair = lazy.MustCompile(`([-+~]{0,2}[A-Za-z_][\w.-]*)(["']?\s*[:=]\s*)("[^"]*"?|'[^']*'?|[^\s,;&|"'<>)}\]]+)`)
	// option is an option and a value: --token value.
	option = lazy.MustCompile(`(^|\s)(-{1,2}[A-Za-z][\w.-]*)(\s+)([^\s-]\S*)`)
	// homes are home folders as systems name them. A folder of Windows is seen in WSL.
	homes = lazy.MustCompile(`(?:/[\w.-]+)*/(?:home|Users)/[^/\s:;,'"()<>|]+|/root\b` +
		`|\b[A-Za-z]:\\Users\\[^\\\s:;,'"()<>|]+`)
)

// Text returns the text without what looks like a secret, and with ~ for home folders.
func (m Mask) Text(text string) string {
	text = secretURL.ReplaceAllString(text, "${1}"+Masked+"@")
	text = bearer.ReplaceAllString(text, "${1}"+Masked)
	text = maskNamed(text, pair, 1, 3)
	text = maskNamed(text, option, 2, 4)
	text = secretHeader.ReplaceAllString(text, "${1}"+Masked)
	text = tokens.ReplaceAllString(text, Masked)
	return m.paths(text)
}

// maskNamed masks the values of secrets by their names. name and value are groups of the expression.
func maskNamed(text string, re *lazy.Regexp, name, value int) string {
	var out strings.Builder
	for {
		m := re.FindStringSubmatchIndex(text)
		if m == nil {
			break
		}
		end := m[2*value] // a value may be a name itself: args: token=…
		out.WriteString(text[:end])
		if secretName(text[m[2*name]:m[2*name+1]]) && text[end:] != "" {
			out.WriteString(Masked)
			end = m[2*value+1]
		}
		text = text[end:]
	}
	return out.String() + text
}

// paths masks home folders, and folders elsewhere that have the name of the user: /scratch/NAME.
func (m Mask) paths(text string) string {
	if home := strings.TrimRight(m.Home, "/"); len(home) > 1 && filepath.IsAbs(home) {
		text = replaceWhole(text, home, "~")
	}
	text = homes.ReplaceAllString(text, "~")
	if len(m.User) > 1 && m.User != "root" {
		text = regexp.MustCompile(`(/|\\|\b(?i:user|owner)[=: ]+|@)`+regexp.QuoteMeta(m.User)+`\b`).
			ReplaceAllString(text, "${1}USER")
	}
	return text
}

// replaceWhole replaces a path where it is whole: not /home/ann in /home/anna.
func replaceWhole(text, path, with string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, path)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		next, _ := utf8.DecodeRuneInString(after)
		if unicode.IsLetter(next) || unicode.IsDigit(next) || strings.ContainsRune("_.-", next) && next != utf8.RuneError {
			out.WriteString(path)
		} else {
			out.WriteString(with)
		}
		text = after
	}
}

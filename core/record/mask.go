package record

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/run"

	"github.com/launch-ml/launch/core/lazy"
)

// Masked replaces a secret in a record.
const Masked = "***"

var (
	secretURL    = lazy.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://[^/\s:@]*:)[^/\s@]+@`)
	secretHeader = lazy.MustCompile(`(?is)((?:^|[=\s'"])(?:(?:proxy-)?authorization|cookie|private-token|api-?key|x-[a-z-]*(?:key|token|secret|auth)[a-z-]*)\s*:\s*)\S.*`)
	camel        = lazy.MustCompile(`([a-z0-9])([A-Z])`)
	named        = lazy.MustCompile(`^[-+~]*[A-Za-z_][\w./-]*$`)
	cluster      = lazy.MustCompile(`^-[a-z]*c$`)
	assignment   = lazy.MustCompile(`(^|[\s;&|(])([A-Za-z_]\w*)=('[^']*'|"[^"]*"|[^\s;&|)'"]+)`)
)

// MaskArgs returns the command line with everything replaced that looks like a secret: the values of flags, assignments
// and headers with such names, passwords in URLs, and the same inside shell scripts.
func MaskArgs(args []string) []string { return maskArgs(args, maxScripts) }

// maxScripts is how deep scripts inside scripts are read.
const maxScripts = 4

func maskArgs(args []string, scripts int) []string {
	out := maskWords(args)
	if scripts == 0 {
		return out
	}
	shell := false
	for i, a := range args {
		switch {
		case shell && cluster.MatchString(args[i-1]):
			out[i], shell = maskScript(a, scripts-1), false
		case out[i] == a && strings.ContainsAny(a, " \t\n"): // such as the command for ssh
			out[i] = maskScript(a, scripts-1)
		case shells[filepath.Base(a)]:
			shell = true
		}
	}
	return out
}

// maskWords masks the words of one command.
func maskWords(words []string) []string {
	out := slices.Clone(words)
	for i, a := range words {
		if out[i] != a { // the word before it marks it as a secret
			continue
		}
		switch name, _, assigned := strings.Cut(a, "="); {
		case assigned && named.MatchString(name) && secretName(name):
			out[i] = name + "=" + Masked
			continue
		case !assigned && strings.HasPrefix(a, "-") && named.MatchString(name) && secretName(a) && i+1 < len(out) && !strings.HasPrefix(out[i+1], "-"):
			out[i+1] = Masked
		}
		a = secretURL.ReplaceAllString(a, "${1}"+Masked+"@")
		out[i] = secretHeader.ReplaceAllString(a, "${1}"+Masked)
	}
	maskOptions(out)
	return out
}

// textTokens are words that, with "token", name a token of a text or a network and no secret: --pad-token,
// --placeholder_token. They are from textual_inversion.py of diffusers and the tokenizers of transformers.
var textTokens = words("pad eos bos unk mask cls sep class placeholder initializer trigger instance special image img start end stop register distill prompt num n new modifier rare text video audio sot eot dist global per concept extra max min add")

// keyring are the words that make a "key" after them a secret. Other keys belong to tables: --image-key, --sort-key.
var keyring = words("api access private secret wandb comet neptune hf ssh encryption license account auth signing deploy subscription openai master")

func words(list string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(list) {
		out[w] = true
	}
	return out
}

// secretName reports whether the value of a flag or variable with this name is a secret.
func secretName(name string) bool {
	flag := strings.HasPrefix(name, "-")
	name = strings.TrimLeft(name, "-+~")
	parts := strings.FieldsFunc(strings.ToLower(camel.ReplaceAllString(name, "${1}_${2}")), func(r rune) bool { return strings.ContainsRune("-_./", r) })
	if len(parts) == 0 {
		return false
	}
	all, last, before := strings.Join(parts, ""), parts[len(parts)-1], ""
	if len(parts) > 1 {
		before = parts[len(parts)-2]
	}
	for _, w := range []string{"secret", "password", "passwd", "passphrase", "authorization"} {
		if strings.Contains(all, w) {
			return true
		}
	}
	switch variable := !flag && name == strings.ToUpper(name) && before != ""; last {
	case "pw", "auth", "credential", "credentials", "apikey":
		return true
	case "token":
		use := words("use no with enable disable skip")[parts[0]]
		return !textTokens[before] && !use
	case "key":
		return keyring[before] || variable
	case "pass", "pwd":
		return variable
	}
	return false
}

// A passwordOption is a short option in which a program takes a password. For others the same letters mean something
// else: -p of MoCo is --print-freq.
type passwordOption struct {
	option string
	joined bool   // always: -pSECRET
	only   string // with this word among the arguments
	own    bool   // only before the program's first argument, where another command begins
}

var passwordOptions = map[string]passwordOption{
	"mysql": {option: "-p", joined: true}, "mysqldump": {option: "-p", joined: true}, "mysqladmin": {option: "-p", joined: true},
	"mysqlimport": {option: "-p", joined: true}, "mariadb": {option: "-p", joined: true}, "mariadb-dump": {option: "-p", joined: true},
	"7z": {option: "-p", joined: true}, "sshpass": {option: "-p", own: true}, "redis-cli": {option: "-a"},
	"mongo": {option: "-p"}, "mongosh": {option: "-p"}, "mongodump": {option: "-p"}, "mongorestore": {option: "-p"}, "mongoimport": {option: "-p"},
	"docker": {option: "-p", only: "login"}, "podman": {option: "-p", only: "login"}, "curl": {option: "-u"},
}

var shells = words("sh bash dash zsh ksh ash")

// wrappers start the command that follows their own options.
var wrappers = words("env sudo nohup nice ionice exec command time timeout stdbuf setsid srun")

// maskOptions masks the short options in which some programs take a password.
func maskOptions(words []string) {
	i, wrapped := 0, false
	for ; i < len(words); i++ {
		w := words[i]
		if name, _, assigned := strings.Cut(w, "="); assigned && named.MatchString(name) ||
			wrapped && (strings.HasPrefix(w, "-") || strings.Trim(w, "0123456789.smhd") == "") {
			continue
		}
		if !wrappers[filepath.Base(w)] {
			break
		}
		wrapped = true
	}
	if i >= len(words) {
		return
	}
	o, known := passwordOptions[filepath.Base(words[i])]
	if !known || o.only != "" && !slices.Contains(words[i:], o.only) {
		return
	}
	for k := i + 1; k < len(words); k++ {
		w := words[k]
		switch rest, ok := strings.CutPrefix(w, o.option); {
		case ok && rest != "":
			words[k] = o.option + Masked
		case ok && !o.joined && k+1 < len(words):
			words[k+1] = Masked
			k++
		case o.own && !strings.HasPrefix(w, "-"):
			return
		}
	}
}

// maskScript masks secrets in the commands and assignments of a shell script: the argument of sh -c, or the command for
// ssh. It does not change other text.
func maskScript(script string, scripts int) string {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil { // another shell's syntax: mask at least its assignments
		for _, m := range assignment.FindAllStringSubmatch(script, -1) {
			if secretName(m[2]) {
				script = strings.Replace(script, m[2]+"="+m[3], m[2]+"="+Masked, 1)
			}
		}
		return script
	}
	type cut struct {
		from, to uint
		with     string
	}
	var cuts []cut
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil && n.Value != nil && secretName(n.Name.Value) && !reference(n.Value) {
				cuts = append(cuts, cut{n.Value.Pos().Offset(), n.Value.End().Offset(), Masked})
			}
		case *syntax.CallExpr:
			said, static := make([]string, len(n.Args)), make([]bool, len(n.Args))
			for i, w := range n.Args {
				said[i], static[i] = value(w, script)
			}
			plain := maskWords(said)
			for i, masked := range maskArgs(said, scripts) {
				if !static[i] { // the commands inside are visited on their own
					masked = plain[i]
				}
				if w := n.Args[i]; masked != said[i] && !reference(w) {
					if static[i] && strings.ContainsAny(masked, " \t\n'\"") {
						masked, _ = syntax.Quote(masked, syntax.LangBash)
					}
					cuts = append(cuts, cut{w.Pos().Offset(), w.End().Offset(), masked})
				}
			}
		}
		return true
	})
	slices.SortStableFunc(cuts, func(a, b cut) int { return cmp.Compare(a.from, b.from) })
	var out strings.Builder
	at := uint(0)
	for _, c := range cuts {
		if c.from < at { // inside a masked part
			continue
		}
		out.WriteString(script[at:c.from] + c.with)
		at = c.to
	}
	return out.String() + script[at:]
}

// value returns a word without its quotes. If the shell would expand it, value returns it as written, and static is
// false.
func value(w *syntax.Word, script string) (text string, static bool) {
	var b strings.Builder
	for _, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(part.Value, `\`, ""))
		case *syntax.SglQuoted:
			b.WriteString(part.Value)
		case *syntax.DblQuoted:
			for _, inner := range part.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok {
					return script[w.Pos().Offset():w.End().Offset()], false
				}
				b.WriteString(strings.ReplaceAll(lit.Value, `\"`, `"`))
			}
		default:
			return script[w.Pos().Offset():w.End().Offset()], false
		}
	}
	return b.String(), true
}

// reference reports whether a word, or the part after its "=", is only a variable: "$TOKEN" is not a secret.
func reference(w *syntax.Word) bool {
	parts := w.Parts
	if len(parts) > 1 {
		if lit, ok := parts[0].(*syntax.Lit); ok && strings.HasSuffix(lit.Value, "=") {
			parts = parts[1:]
		}
	}
	if len(parts) != 1 {
		return false
	}
	if q, ok := parts[0].(*syntax.DblQuoted); ok && len(q.Parts) == 1 {
		parts = q.Parts[:1]
	}
	p, ok := parts[0].(*syntax.ParamExp)
	return ok && p.Exp == nil
}

// Unmask checks that a command equals the recorded one, except in its masked places. The error names the first
// difference.
func Unmask(recorded, given []string) error {
	masked := MaskArgs(given)
	for i := range max(len(recorded), len(given)) {
		switch {
		case i >= len(given):
			return fmt.Errorf("the typed command ends before %q", recorded[i])
		case i >= len(recorded):
			return fmt.Errorf("the typed command has %q where the recorded one ends", masked[i])
		case masked[i] != recorded[i] && !matches(recorded[i], given[i]):
			return fmt.Errorf("the typed command has %q where the recorded one has %q", masked[i], recorded[i])
		case given[i] == recorded[i] && strings.Contains(given[i], Masked):
			return fmt.Errorf("the typed command still has %q: put the secret in the place of %s", given[i], Masked)
		}
	}
	return nil
}

// matches reports whether a word equals a recorded one, except in its masked places.
func matches(recorded, given string) bool {
	parts := strings.Split(recorded, Masked)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	re, err := regexp.Compile("(?s)^" + strings.Join(parts, ".+") + "$")
	return err == nil && re.MatchString(given)
}

// matters lists prefixes of environment variables that change what a training does on a card. Other variables are not
// recorded.
var matters = []string{"CUDA_", "PYTORCH_", "TORCH_", "NVIDIA_", "NCCL_", "OMP_", "MKL_", "MALLOC_", "SLURM_JOB", "SLURM_ARRAY",
	"LAUNCH_", "VIRTUAL_ENV=", "CONDA_PREFIX=", "PYTHONPATH=", "WORLD_SIZE=", "RANK=", "LOCAL_RANK="}

// MaskEnv returns the entries of the environment that matter to a record, with secrets replaced.
func MaskEnv(env []string) []string {
	var out []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if !slices.ContainsFunc(matters, func(m string) bool { return strings.HasPrefix(kv, m) }) {
			continue
		}
		if secretName(name) || strings.HasPrefix(name, "LAUNCH_NOTIFY") { // whoever has an address can write to it
			kv = name + "=" + Masked
		}
		out = append(out, secretURL.ReplaceAllString(kv, "${1}"+Masked+"@"))
	}
	slices.Sort(out)
	return out
}

// HasMask reports whether a recorded command lacks a secret.
func HasMask(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, Masked) })
}

// MaskAsked returns what a user has asked for, with the secrets among a program's arguments replaced.
func MaskAsked(asked []config.Edit) []config.Edit {
	out := slices.Clone(asked)
	for i, e := range out {
		mask := func(value string) string { return MaskArgs([]string{e.At.Path, value})[1] }
		if e.At.Doc != config.ArgvDoc || e.Remove || e.To == "" {
			continue
		}
		if !strings.HasPrefix(e.At.Path, "-") { // an override
			mask = func(value string) string {
				return strings.TrimPrefix(MaskArgs([]string{e.At.Path + "=" + value})[0], e.At.Path+"=")
			}
		}
		if out[i].To = mask(e.To); e.From != "" {
			out[i].From = mask(e.From)
		}
	}
	return out
}

// MaskRun returns the run for the record: without secrets, and without its environment.
func MaskRun(r *run.Run) *run.Run {
	out := *r
	j := *r.Job
	j.Command.Args, j.Command.Env = MaskArgs(j.Command.Args), MaskEnv(j.Command.Env)
	j.Asked = MaskAsked(j.Asked)
	j.Command.Sources = nil // the files that the job uses are in Job.Files
	j.Command.Formulas = nil
	out.Job = &j
	return &out
}

// Restore takes the secrets of a run's command from the command that the user typed again, without what --set changed.
func Restore(r *run.Run, command []string) error {
	asked := slices.DeleteFunc(slices.Clone(r.Job.Asked), func(e config.Edit) bool {
		return strings.Contains(e.To, Masked) // --set had a secret: now it has to be in the command
	})
	command, err := r.Job.WithAsked(command, asked)
	if err != nil {
		return err
	}
	if err := Unmask(r.Job.Command.Args, command); err != nil {
		return err
	}
	j := *r.Job
	j.Command.Args = slices.Clone(command)
	r.Job = &j
	return nil
}

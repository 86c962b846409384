package overlay

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config/command"
)

// elsewhere are commands whose program has another environment, or other files, than the command has.
var elsewhere = []string{"sudo", "doas", "su", "docker", "podman", "nerdctl", "apptainer", "singularity", "enroot", "chroot", "ssh", "kubectl"}

// Refused says why no overlay can reach a program, as far as its command shows, or "". What it lets pass may still not take
// one: [Verdict] tells then.
func Refused(prog command.Prog) string {
	before := prog.Argv[:min(prog.First, len(prog.Argv))]
	for _, w := range slices.Concat(prog.Through, before) {
		if name := filepath.Base(w); slices.Contains(elsewhere, name) {
			return name + " gives the program another environment, or other files, than launch could"
		}
		if w == "--clean-env" || w == "--export=NONE" || w == "--export=NIL" {
			return w + " keeps launch's variables from the program"
		}
	}
	if i := slices.Index(before, "--export"); i >= 0 && i+1 < len(before) && (before[i+1] == "NONE" || before[i+1] == "NIL") {
		return "--export " + before[i+1] + " keeps launch's variables from the program"
	}
	if prog.ClearEnv {
		return "env -i keeps launch's variables from the program"
	}
	for _, name := range []string{"PYTHONPATH", "LAUNCH_OVERLAY"} {
		if slices.Contains(prog.Unset, name) {
			return "the command takes " + name + " away from the program"
		}
	}
	for _, kv := range prog.Env {
		if strings.HasPrefix(kv, "PYTHONPATH=") && !slices.ContainsFunc(prog.Argv, keepsPath) {
			return `the command sets PYTHONPATH itself; write PYTHONPATH="...:$PYTHONPATH" there, or set it before launch`
		}
	}
	if flag := isolating(prog); flag != 0 {
		return fmt.Sprintf("python -%c ignores PYTHONPATH, through which launch installs its hook", flag)
	}
	return ""
}

// keepsPath reports whether a shell's command hands on the PYTHONPATH that it was given.
func keepsPath(arg string) bool {
	return strings.Contains(arg, "$PYTHONPATH") || strings.Contains(arg, "${PYTHONPATH")
}

// isolating returns the option of the interpreter, E, I or S, by which it does not load the hook, or 0.
func isolating(prog command.Prog) byte {
	if prog.InterpreterAt < 0 || prog.InterpreterAt >= len(prog.Argv) {
		return 0
	}
	words := prog.Argv[prog.InterpreterAt+1:]
	if prog.Shell {
		all := strings.Fields(prog.Argv[prog.InterpreterAt])
		at := slices.IndexFunc(all, func(w string) bool { return strings.Trim(w, `"'`) == prog.Interpreter })
		words = all[at+1:]
	}
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w == "--check-hash-based-pycs" {
			i++
			continue
		}
		if !strings.HasPrefix(w, "-") || strings.HasPrefix(w, "--") {
			return 0
		}
		for j := 1; j < len(w); j++ {
			switch w[j] {
			case 'E', 'I', 'S':
				return w[j]
			case 'm', 'c':
				return 0
			case 'W', 'X': // with a value, joined or the next word
				if j == len(w)-1 {
					i++
				}
				j = len(w)
			}
		}
	}
	return 0
}

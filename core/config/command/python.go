package command

import (
	"strings"

	"github.com/launch-ml/launch/core/lazy"
)

var rePython = lazy.MustCompile(`^(?:python|pypy)[0-9.]*$`)

// python reads an interpreter's own options: "usage" in CPython's Modules/main.c and Python/initconfig.c.
func (r *reader) python(words []word) error {
	r.prog.Interpreter, r.prog.InterpreterAt = words[0].text, words[0].arg
	words = words[1:]
	for len(words) > 0 {
		w := words[0].text
		switch {
		case w == "--":
			return r.run(Script, words[1:])
		case w == "-" || w == "":
			return notUnderstood("Python reads its standard input")
		case w[0] != '-':
			return r.run(Script, words)
		case w == "--check-hash-based-pycs":
			words = words[min(2, len(words)):]
			continue
		case strings.HasPrefix(w, "--"):
			return notUnderstood("Python's option %s", w)
		}
		flag, value, err := pythonFlags(words[0])
		if err != nil {
			return err
		}
		words = words[1:]
		switch {
		case flag == 0:
			continue
		case value != nil:
			words = append([]word{*value}, words...)
		case len(words) == 0:
			return notUnderstood("Python's option -%c without a value", flag)
		}
		switch flag {
		case 'm':
			return r.module(words)
		case 'c':
			return r.run(Code, words)
		}
		words = words[1:] // the value of -W or -X
	}
	return notUnderstood("Python without a script")
}

// pythonFlags reads letters such as -uOm: the one that takes a value, or 0, and its value where that is joined to it.
func pythonFlags(w word) (flag byte, value *word, err error) {
	for i := 1; i < len(w.text); i++ {
		switch c := w.text[i]; {
		case strings.IndexByte("bBdEiIOPqsSuvx", c) >= 0:
		case strings.IndexByte("mcWX", c) < 0:
			return 0, nil, notUnderstood("Python's option -%c", c)
		case i+1 < len(w.text):
			w.text = w.text[i+1:]
			return c, &w, nil
		default:
			return c, nil, nil
		}
	}
	return 0, nil, nil
}

// module reads what stands behind -m: a program, or something that starts one.
func (r *reader) module(words []word) error {
	switch name := words[0].text; name {
	case "torch.distributed.run", "torch.distributed.launch":
		return r.torchrun(words)
	case "accelerate.commands.launch":
		return r.accelerate(words)
	case "accelerate", "accelerate.commands.accelerate_cli":
		return r.subcommand(words)
	case "deepspeed", "deepspeed.launcher.runner":
		return r.deepspeed(words)
	case "cProfile", "profile":
		r.through(name)
		o, rest, err := readOptions(words, "-o|--outfile: -s|--sort: -m")
		if err != nil {
			return err
		}
		return r.run(kindOf(o.has("-m")), rest)
	case "pdb", "trace", "timeit", "venv", "pip", "coverage", "debugpy", "torch.distributed.elastic", "runpy", "unittest":
		return notUnderstood("python -m %s", name)
	}
	return r.run(Module, words)
}

func kindOf(module bool) Kind {
	if module {
		return Module
	}
	return Script
}

package dualattn

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/plugins/dualattn/arch"
)

// A recompute is what use_gradient_checkpointing does to the training in a version of the model file.
type recompute int

const (
	absent  recompute = iota // the model takes no such argument
	idle                     // it is taken, and checkpoint() is never called
	crashes                  // the first backward fails: the closures see another kind of block
	wrong                    // the gradients are silently wrong: the closures see the last block
	works                    // checkpoint() is called, with closures that keep their block
)

// A version is what a model file's code does, as far as memory and the flag are concerned.
type version struct {
	name  string // where it is known: the commits
	known bool   // by its digest, or by its loop
	loop  arch.Loop
	extra bool // the GLCA block runs a self-attention and a feed-forward of its own
	drop  bool // stochastic depth
	flag  recompute
	at    string // where the flag's effect is decided: "dual_vit.py:419"
	loopA string // where the loop hands the pair-wise state on
}

// versions are the model files (models/dual_vit.py) of commits that were read, by SHA-256. The
// features below find the same in each of those files; their texts are not ours to keep, so no test repeats it.
var versions = map[string]version{
	"0b57a8df61e29c87ef26a833a9f549b9a3599451f0a8cfe52ea59d754f136d69": {name: "6d5161d", extra: true, flag: crashes},
	"6b32f3fd07a9b682d21d93f9e43541657bdab524942033b32f11a03819d62f7d": {name: "3687bff", extra: true, flag: wrong},
	"ac11bdbfbd4af1b79859c6b3c5ffce9fd3c87e2c4844dbc58cae3436b934eb46": {name: "227722e", drop: true, flag: wrong},
	"47afd991f9a36b8aebf9fc469d9946efb75aa3e08fe121fc0c10849bef4db91d": {name: "b0bf256", drop: true, flag: idle},
	"b91088a797b1e3fe7b81cf8f66272d5fefe5d1af8156d866bc432f6140a21b0e": {name: "9b6147a", drop: true, flag: idle},
	"8a13a9928cd5767d1b1939b633308d8fb93057fd5a2e3246f3d1317be3d67c92": {name: "6a4e6b6", drop: true, flag: idle, loop: arch.LastPairs},
}

// The features of a model file's code.
var (
	reFlag = lazy.MustCompile(`\buse_gradient_checkpointing\b`)
	// The call, not the import: "checkpoint(" behind anything but "import", "def" or a dot of another object.
	reCheckpoint = lazy.MustCompile(`(?m)(?:=|return|\()\s*(?:torch\.utils\.checkpoint\.|checkpoint_utils\.|cp\.)?checkpoint\(`)
	// Pair-wise cross-attention that goes on from its own state, and that which is overwritten by each block.
	reOwnState  = lazy.MustCompile(`\.pwca\([^\n]*\bpwca_\w+`)
	reOverwrite = lazy.MustCompile(`\bpwca_\w+\s*=\s*\w+\[['"]pwca_output['"]\]`)
	reAttention = lazy.MustCompile(`=\s*SelfAttention\(`)
	reDropPath  = lazy.MustCompile(`\bDropPath\(`)
	reLoop      = lazy.MustCompile(`^([ \t]*)for (\w+) in .*:\s*$`)
	reFunction  = lazy.MustCompile(`^([ \t]*)(?:async )?def \w+\((.*)`)
)

// read says what a model file does: by its digest where it is a file that was read before, and by its features where it
// is not. A file whose loop has neither form is taken for three streams, which need most, and known is false.
func read(src *config.PythonSource) version {
	v := features(src)
	if known, ok := versions[src.SHA256]; ok {
		known.known, known.at, known.loopA = true, v.at, v.loopA
		return known
	}
	return v
}

// features reads the code itself.
func features(src *config.PythonSource) version {
	v := version{}
	own, _, ownState := find(src, reOwnState)
	over, _, overwritten := find(src, reOverwrite)
	switch {
	case ownState:
		v.known, v.loop, v.loopA = true, arch.ThreeStreams, own
	case overwritten:
		v.known, v.loop, v.loopA = true, arch.LastPairs, over
	}
	c := code(src)
	v.extra = len(reAttention.FindAll(c, -1)) > 1
	v.drop = reDropPath.Match(c)
	if !reFlag.Match(c) {
		return v
	}
	at, _, called := find(src, reCheckpoint)
	if !called {
		v.flag = idle
		v.at, _, _ = find(src, reFlag)
		return v
	}
	v.flag, v.at = works, at
	if line, again, ok := lateClosure(string(c)); ok {
		v.flag, v.at = wrong, fmt.Sprintf("%s:%d", filepath.Base(src.Path), line)
		if again {
			v.flag = crashes
		}
	}
	return v
}

// lateClosure finds a function inside a loop that uses the loop's variable without binding it among its parameters: it
// is called again in the backward, when the variable has moved on (pytorch/pytorch#11944). line is where it uses it;
// again says that a later loop of the same function moves the variable on to other blocks.
func lateClosure(code string) (line int, again, ok bool) {
	lines := strings.Split(code, "\n")
	indent := func(l string) int { return len(l) - len(strings.TrimLeft(l, " \t")) }
	// end is the line behind the block that begins below line i.
	end := func(i int) int {
		j := i + 1
		for j < len(lines) && (strings.TrimSpace(lines[j]) == "" || indent(lines[j]) > indent(lines[i])) {
			j++
		}
		return j
	}
	for i, l := range lines {
		loop := reLoop.FindStringSubmatch(l)
		if loop == nil {
			continue
		}
		uses := lazy.MustCompile(`\b` + loop[2] + `\.`)
		bound := lazy.MustCompile(`\b` + loop[2] + `\b`)
		for j := i + 1; j < end(i); j++ {
			def := reFunction.FindStringSubmatch(lines[j])
			if def == nil || bound.MatchString(def[2]) {
				continue
			}
			for k := j + 1; k < end(j); k++ {
				if !uses.MatchString(lines[k]) {
					continue
				}
				for n := end(i); n < len(lines); n++ {
					if f := reFunction.FindStringSubmatch(lines[n]); f != nil && len(f[1]) < len(loop[1]) {
						break
					}
					if next := reLoop.FindStringSubmatch(lines[n]); next != nil && next[2] == loop[2] {
						again = true
					}
				}
				return k + 1, again, true
			}
		}
	}
	return 0, false, false
}

// describe says what the flag does, with its evidence; on says whether the configuration switches it on.
func (v version) describe(on bool) (warning, truth string) {
	switch v.flag {
	case absent:
		return "", "use_gradient_checkpointing: this version of the model does not take it"
	case idle:
		return "", fmt.Sprintf("use_gradient_checkpointing does nothing: the model takes it (%s) and never calls checkpoint(), though the trainer prints that it is enabled", v.at)
	case crashes:
		s := fmt.Sprintf("use_gradient_checkpointing stops the training in its first backward: the functions that are recomputed look the loop's block up when it is another kind of block (%s): AttributeError: … has no attribute 'pwca'. It is no lack of memory; set it to False", v.at)
		if on {
			return s, ""
		}
		return "", s
	case wrong:
		s := fmt.Sprintf("use_gradient_checkpointing makes the gradients SILENTLY WRONG: the functions that are recomputed in the backward take the loop's variable as it is then, the last block, for every block (%s; pytorch/pytorch#11944). The loss looks right, and the gradients of all blocks but the last do not belong to it", v.at)
		if on {
			return s + ". Whatever this run trains is not this model: set it to False", ""
		}
		return "", s
	}
	return "", ""
}

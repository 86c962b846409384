package stablesr

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/plugins/stablesr/arch"
)

// An entry is the script that reads the command.
type entry int

const (
	mainPy entry = iota // main.py: files behind --base, a dotlist, Trainer flags
	edgePy              // train_with_edge.py and its variants: one --config
)

// checkout is the project's source beside the script, as far as it decides what a command means.
type checkout struct {
	prog   command.Prog
	entry  entry
	root   string // folder of the script
	script string // its text, without comments
	main   string // main.py's, which train_with_edge.py calls
	edge   arch.Generation
	edgePL string // ddpm_with_edge.py
}

// readCheckout reads what is there. What is not there is no error: only what it decides is then not known.
func readCheckout(prog command.Prog) (*checkout, error) {
	x := &checkout{prog: prog, root: prog.Dir}
	if path := prog.Path(); path != "" {
		x.root = filepath.Dir(path)
		text, err := readFile(path, prog.Script)
		if err != nil {
			return nil, err
		}
		x.script = uncommented(string(text))
	}
	x.main = x.script
	if strings.HasPrefix(filepath.Base(prog.Script), "train_with_edge") {
		x.entry = edgePy
		x.main = x.source("main.py")
	}
	x.edge = arch.EdgeOf([]byte(x.source("ldm/modules/diffusionmodules/edge_processor.py")))
	x.edgePL = x.source("ldm/models/diffusion/ddpm_with_edge.py")
	return x, nil
}

// source is the text of a file of the checkout without its comments, or "".
func (x *checkout) source(rel string) string {
	text, err := readFile(filepath.Join(x.root, rel), rel)
	if err != nil {
		return ""
	}
	return uncommented(string(text))
}

// uncommented is Python source without what stands behind a # that begins a line or has space on both sides: in a string it
// mostly has none.
func uncommented(source string) string {
	if !strings.Contains(source, "#") {
		return source
	}
	var b strings.Builder
	b.Grow(len(source))
	for line := range strings.Lines(source) {
		for i := strings.IndexByte(line, '#'); i >= 0; {
			if strings.TrimSpace(line[:i]) == "" || isSpace(line[i-1]) && (i+1 == len(line) || isSpace(line[i+1])) {
				line = line[:i] + "\n"
				break
			}
			next := strings.IndexByte(line[i+1:], '#')
			if next < 0 {
				break
			}
			i += 1 + next
		}
		b.WriteString(line)
	}
	return b.String()
}

func isSpace(c byte) bool { return strings.IndexByte(" \t\r\n\f", c) >= 0 }

// takesBase reports whether the script is of latent-diffusion's kind: it declares --base, reads the rest as overrides, and
// builds a trainer of Lightning's settings. Other people's main.py have one or the other.
func (x *checkout) takesBase() bool {
	return strings.Contains(x.main, `"--base"`) && strings.Contains(x.main, "parse_known_args") && strings.Contains(x.main, "accumulate_grad_batches")
}

// argDefault is the default of an option that the script declares, as it is spelled; "" where it does not say.
func argDefault(script, name string) string {
	at := strings.Index(script, `"`+name+`"`)
	if at < 0 {
		return ""
	}
	decl := script[at:]
	if end := strings.Index(decl, "add_argument"); end > 0 {
		decl = decl[:end]
	}
	m := defaultArg.FindStringSubmatch(decl)
	if m == nil {
		return ""
	}
	return strings.Trim(m[1], `"'`)
}

var defaultArg = lazy.MustCompile(`default\s*=\s*("[^"]*"|'[^']*'|\w+)`)

// scales reports whether the learning rate is multiplied by the global batch where the command does not say: not in
// StableSR, and in CompVis's own main.py it is.
func (x *checkout) scales() bool { return argDefault(x.main, "--scale_lr") == "True" }

// stripsGPUs says that main.py takes the value of --gpus for text, and stops at a number (IceClear main.py:695).
func (x *checkout) stripsGPUs() bool {
	return strings.Contains(x.main, "trainer.gpus.strip(") && !strings.Contains(x.main, "str(lightning_config.trainer.gpus)")
}

var (
	setsAllocator = lazy.MustCompile(`os\.environ\[['"]PYTORCH_CUDA_ALLOC_CONF['"]\]\s*=\s*['"]([^'"]*)['"]`)
	setsFraction  = lazy.MustCompile(`set_per_process_memory_fraction\(\s*([0-9.]+)`)
)

// allocator is what the script sets for the caching allocator, over whatever it was started with; "" for nothing.
func (x *checkout) allocator() string {
	if m := setsAllocator.FindStringSubmatch(x.script); m != nil {
		return m[1]
	}
	return ""
}

// fraction is the share of the card that the script lets PyTorch take: 1 where it sets none.
func (x *checkout) fraction() (share float64, spelled string) {
	if m := setsFraction.FindStringSubmatch(x.script); m != nil {
		if _, err := fmt.Sscan(m[1], &share); err == nil && share > 0 && share < 1 {
			return share, m[1]
		}
	}
	return 1, ""
}

// maxText bounds what is taken for a recipe or a source.
const maxText = 4 << 20

// readFile reads a text. The errors are what a person can act on.
func readFile(path, named string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no file %s", named)
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", named, errors.Unwrap(err))
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder", named)
	case !info.Mode().IsRegular():
		return nil, &file.Unread{Why: named + " is no ordinary file"}
	case info.Size() > maxText:
		return nil, &file.Unread{Why: fmt.Sprintf("%s has %d bytes, and at most %d are read", named, info.Size(), maxText)}
	}
	text, err := file.Read(path, maxText)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", named, err)
	}
	return text, nil
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

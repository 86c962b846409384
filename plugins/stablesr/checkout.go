package stablesr

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
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
	tree   string // folder that ldm lies in
	script python.Source
	main   python.Source // main.py's, which train_with_edge.py calls
	edge   arch.Generation
	edgePL python.Source // ddpm_with_edge.py
	read   sync.Map      // the other files of the checkout, by path: python.Source
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
		x.script = python.NewSource(path, string(text))
	}
	x.main = x.script
	if strings.HasPrefix(filepath.Base(prog.Script), "train_with_edge") {
		x.entry = edgePy
		x.main = x.source("main.py")
	}
	x.tree = x.root
	// instruct-pix2pix at 0dffd1ee has ldm in a folder of its own
	for _, dir := range appendsPath.FindAllStringSubmatch(x.main.Code, -1) {
		if info, err := os.Stat(filepath.Join(x.root, dir[1], "ldm")); err == nil && info.IsDir() {
			x.tree = filepath.Join(x.root, dir[1])
		}
	}
	x.edge = arch.EdgeOf([]byte(x.source("ldm/modules/diffusionmodules/edge_processor.py").Code))
	x.edgePL = x.source("ldm/models/diffusion/ddpm_with_edge.py")
	return x, nil
}

// source is a file of the checkout, which is read once; an empty one where it is not there.
func (x *checkout) source(rel string) python.Source {
	path := filepath.Join(x.root, rel)
	if under, ok := strings.CutPrefix(rel, "ldm/"); ok {
		path = filepath.Join(x.tree, "ldm", under)
	}
	if read, ok := x.read.Load(path); ok {
		return read.(python.Source)
	}
	read := python.ReadSource(path, maxText)
	x.read.Store(path, read)
	return read
}

// has reports whether a folder is in the tree that ldm lies in.
func (x *checkout) has(rel string) bool {
	info, err := os.Stat(filepath.Join(x.tree, rel))
	return err == nil && info.IsDir()
}

var appendsPath = lazy.MustCompile(`sys\.path\.append\(\s*["']([^"']+)["']`)

// namesFolder reports whether main.py makes its log folder of the recipe's name and --name alone, without the time of
// day, and goes on from what lies there (main.py:461 of instruct-pix2pix at 0dffd1ee).
func (x *checkout) namesFolder() bool {
	return x.entry == mainPy && strings.Contains(x.main.Code, `f"{cfg_name}_{opt.name}"`)
}

// takesBase reports whether the script is of latent-diffusion's kind: it declares --base, reads the rest as overrides, and
// builds a trainer of Lightning's settings. Other people's main.py have one or the other.
func (x *checkout) takesBase() bool {
	_, base := x.main.Declares("--base")
	return base && strings.Contains(x.main.Code, "parse_known_args") && strings.Contains(x.main.Code, "accumulate_grad_batches")
}

// argDefault is the default of an option that the script declares, as it is spelled; "" where it does not say.
func argDefault(script python.Source, name string) string {
	o, _ := script.Declares(name)
	return o.Default
}

// scales reports whether the learning rate is multiplied by the global batch where the command does not say: not in
// StableSR, and in CompVis's own main.py it is.
func (x *checkout) scales() bool { return argDefault(x.main, "--scale_lr") == "True" }

// readsDevices reports whether main.py takes the cards from trainer.devices, as Lightning has called it since 1.5, and
// stops without it.
func (x *checkout) readsDevices() bool {
	return strings.Contains(x.main.Code, `trainer_config["devices"]`) || strings.Contains(x.main.Code, "trainer.devices")
}

// stripsGPUs says that main.py takes the value of --gpus for text, and stops at a number (IceClear main.py:695).
func (x *checkout) stripsGPUs() bool {
	return (strings.Contains(x.main.Code, "trainer.gpus.strip(") || strings.Contains(x.main.Code,
		"trainer.devices.strip(")) && !strings.Contains(x.main.Code, "str(lightning_config.trainer.gpus)")
}

var (
	setsAllocator = lazy.MustCompile(`os\.environ\[['"]PYTORCH_CUDA_ALLOC_CONF['"]\]\s*=\s*['"]([^'"]*)['"]`)
	setsFraction  = lazy.MustCompile(`set_per_process_memory_fraction\(\s*([0-9.]+)`)
)

// allocator is what the script sets for the caching allocator, over whatever it was started with; "" for nothing.
func (x *checkout) allocator() string {
	if m := setsAllocator.FindStringSubmatch(x.script.Code); m != nil {
		return m[1]
	}
	return ""
}

// fraction is the share of the card that the script lets PyTorch take: 1 where it sets none.
func (x *checkout) fraction() (share float64, spelled string) {
	if m := setsFraction.FindStringSubmatch(x.script.Code); m != nil {
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

package moco

import (
	"fmt"
	"path/filepath"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/plugins/moco/arch"
)

// What tells facebookresearch's two projects, by their parsers: moco declares a queue (main_moco.py at 7397dfe), moco-v3
// an MLP's width and a frozen stem (main_moco.py at c349e6e).
var (
	reMoCoK     = lazy.MustCompile(`['"]--moco-k['"]`)
	reMLPDim    = lazy.MustCompile(`['"]--moco-mlp-dim['"]`)
	reStopGrad  = lazy.MustCompile(`['"]--stop-grad-conv1['"]`)
	reAssert    = lazy.MustCompile(`assert\s+self\.(?:K|queue_size)\s*%\s*batch_size\s*==\s*0`)
	reAutocast  = lazy.MustCompile(`\bautocast\(`)
	reSpawn     = lazy.MustCompile(`\bmp\.spawn\(`)
	reDivideAll = lazy.MustCompile(`batch_size\s*=\s*int\(\s*\w+\.batch_size\s*/+\s*(?:args\.)?(?:ngpus_per_node|world_size)\s*\)`)
)

// readFacebook reads a command of moco or moco-v3: options only.
func (p *project) readFacebook(main python.Source) error {
	p.options = main.Options()
	if _, ok := declared(p.options, "--batch-size"); !ok {
		return fmt.Errorf("%w: %s declares no --batch-size", plugin.ErrNotMine, p.prog.Script)
	}
	if err := p.parse(); err != nil {
		return err
	}
	p.dialect, p.step, p.library = "facebookresearch/moco", arch.V2, arch.Torchvision
	if !main.Has(reMoCoK) {
		p.dialect, p.step = "facebookresearch/moco-v3", arch.V3
	}
	p.batch, p.rate = p.flag(knobTotal, "--batch-size"), p.flag(knobRate, "--lr")
	p.resume = p.flag("resume", "--resume")
	p.epochs = p.flag("", "--epochs").int()
	p.dim, p.optimizer = p.flag("", "--moco-dim").int(), "sgd"
	p.named = p.flag("", "--arch").value
	p.encoder = p.named
	p.spawns = p.argv.Has("--multiprocessing-distributed") && main.Has(reSpawn)
	p.divides = main.Has(reDivideAll)
	if p.step == arch.V2 {
		p.queue, p.mlp = p.flag(knobQueue, "--moco-k"), p.argv.Has("--mlp")
		p.usesQueue = true
		builder := readText(filepath.Join(p.root, "moco", "builder.py"))
		p.asserts, p.assertAt = builder.Has(reAssert), builder.At(reAssert)
	} else {
		p.mlpDim, p.stopGrad = p.flag("", "--moco-mlp-dim").int(), p.argv.Has("--stop-grad-conv1")
		p.optimizer = p.flag("", "--optimizer").value
		if len(p.named) > 3 && p.named[:3] == "vit" {
			p.library = arch.VITs
		}
		if main.Has(reAutocast) { // always on, by no option (main_moco.py:352 at c349e6e)
			p.amp = knob{name: knobAMP, value: "True", found: true, dead: "autocast is always on: " + main.At(reAutocast)}
		}
	}
	if dirs := p.argv.Positionals(); len(dirs) > 0 {
		p.data, p.dataDeep, p.dataTypes = filepath.Join(file.In(p.prog.Dir, dirs[len(dirs)-1]), "train"), true, imageTypes
	}
	return nil
}

// aligned reports whether the queue takes the keys of a step where the code asserts it: a step's keys are those of all
// processes, not of one GPU.
func (p *project) aligned(n, k int64) bool {
	if !p.asserts || n == 0 || p.world == 0 || k == 0 {
		return true
	}
	return k%(n*p.world) == 0
}

// maxQueue is the longest queue for which batches are tried one by one: a thousand times the usual one.
const maxQueue = 1 << 26

// aligns says which batches next to the job's the queue takes, as the job spells a batch.
func (p *project) aligns() string {
	most := p.queue.int() / max(1, p.world) // a larger batch divides no queue
	if most > maxQueue {
		return "the length of the queue has to change"
	}
	below, above := min(p.micro-1, most), p.micro+1
	for ; below > 0 && !p.aligned(below, p.queue.int()); below-- {
	}
	for ; above <= most && !p.aligned(above, p.queue.int()); above++ {
	}
	up := above <= most
	switch {
	case below > 0 && up:
		return fmt.Sprintf("a batch of %d or of %d would not", p.batchFor(below), p.batchFor(above))
	case below > 0:
		return fmt.Sprintf("a batch of %d would not", p.batchFor(below))
	case up:
		return fmt.Sprintf("a batch of %d would not", p.batchFor(above))
	}
	return fmt.Sprintf("no batch of %d processes divides it: the length of the queue has to change", p.world)
}

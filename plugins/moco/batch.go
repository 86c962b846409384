package moco

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/launch-ml/launch/plugins/moco/arch"
)

// countGPUs finds how many GPUs the command would see, and how many nodes there are.
func (p *project) countGPUs() {
	p.gpus = -1
	if p.command.Devices > 0 {
		p.gpus = int64(p.command.Devices)
	} else if v, ok := p.getenv("CUDA_VISIBLE_DEVICES"); ok {
		p.gpus = 0
		for _, s := range strings.Split(v, ",") { // CUDA stops at the first entry that names no device
			if s = strings.TrimSpace(s); s == "" || s == "-1" {
				break
			}
			p.gpus++
		}
	}
	p.nodes = p.flag("", "--world-size").int()
	if url := p.flag("", "--dist-url"); url.value == "env://" && p.nodes == -1 {
		v, _ := p.getenv("WORLD_SIZE")
		p.nodes, _ = strconv.ParseInt(v, 10, 64)
	}
}

// several names a launcher that starts more than one process of the script, and says how many; "" where there is none.
func (p *project) several() (launcher, many string) {
	for _, l := range p.prog.Launchers {
		switch n, asks := l.PerNode(p.command.Devices); {
		case asks:
			return l.Name, "a process for each GPU"
		case n > 1:
			return l.Name, fmt.Sprintf("%d processes", n)
		}
	}
	return "", ""
}

// processes is how many a launcher starts on this node; 0 where that is not known.
func (p *project) processes() (most int64) {
	for _, l := range p.prog.Launchers {
		if n, asks := l.PerNode(p.command.Devices); !asks {
			most = max(most, int64(n))
		}
	}
	return most
}

// launched warns of a launcher around a script that starts its processes itself or, as solar-ssl's without the flag for
// that, joins none: main_worker(0, …) takes GPU 0, makes no process group and wraps nothing (train_moco.py:60-124 at
// d3649f9).
func (p *project) launched() {
	switch launcher, many := p.several(); {
	case many == "":
	case p.spawns:
		p.warn("%s starts %s, and with --multiprocessing-distributed each of them starts one for every GPU once more, all at the same --dist-url: start the script with python", launcher, many)
	case p.solar != nil:
		planned := "one of them is what is planned"
		if p.crowd = p.processes(); p.crowd > 1 {
			planned = "it is planned for all of them"
		}
		p.warn("%s starts %s, and without --multiprocessing-distributed nothing joins them: each trains everything by itself on GPU 0, which has to hold all of them, and all save to the same folder; %s", launcher, many, planned)
	}
}

// getenv is a variable as the program will have it.
func (p *project) getenv(name string) (value string, ok bool) {
	for _, env := range [][]string{p.command.Env, p.prog.Env} {
		for _, kv := range env {
			if v, is := strings.CutPrefix(kv, name+"="); is {
				value, ok = v, true
			}
		}
	}
	return value, ok
}

// divide finds what each process gets of the batch. Each project divides in its own way, and int() drops what is left
// over: moco by the GPUs of the node (main_moco.py:268 at 7397dfe), moco-v3 by the processes of all nodes
// (main_moco.py:206 at c349e6e), solar-ssl by the GPUs of the node (train_moco.py:113 at d3649f9).
func (p *project) divide() {
	total := p.batch.int()
	switch {
	case !p.batch.found || total <= 0:
		return
	case p.spawns && p.gpus == 0:
		p.warn("no GPU is visible to it, so %s starts no process: it would exit 0 without training", mpSpawn)
		return
	case p.spawns && p.nodes < 1:
		p.warn("--world-size is %d: with --multiprocessing-distributed it is the number of nodes, so give --world-size 1", p.nodes)
		return
	case p.spawns && p.gpus < 0:
		return
	case p.spawns:
		p.world = p.gpus * p.nodes
		if !p.divides {
			p.micro = total
			return
		}
	case p.solar != nil:
		p.world, p.micro = 1, total
		return
	case p.nodes > 1: // one process a GPU, started by hand or by a scheduler
		p.world = p.nodes
	default:
		p.warn("it runs distributed only: give --multiprocessing-distributed --world-size 1 --rank 0")
		return
	}
	by := max(p.gpus, 1)
	if p.step == arch.V3 {
		by = p.world
	} else if !p.spawns && p.gpus < 0 {
		p.world = 0
		return
	}
	p.micro = total / by
	if lost := total % by; lost != 0 {
		p.warn("%s %d is no multiple of %d: int() makes it %d a GPU, so an optimizer step sees %d images",
			p.batch.at.Path, total, by, p.micro, p.micro*p.world*p.accumulate())
	}
}

const mpSpawn = "mp.spawn"

// batchFor is the setting that gives each process n images, the inverse of divide.
func (p *project) batchFor(n int64) int64 {
	switch {
	case p.solar != nil && !(p.spawns && p.divides):
		return n
	case p.step == arch.V3:
		return n * p.world
	}
	return n * max(p.gpus, 1)
}

// iterations is how many batches of n an epoch has for each process: DistributedSampler fills up to a multiple of the
// processes, and drop_last takes what is no whole batch. 0 where the images could not be counted.
func (p *project) iterations(n int64) int64 {
	if p.images == 0 || p.world == 0 || n == 0 {
		return 0
	}
	return (p.images + p.world - 1) / p.world / n
}

// countTime bounds the counting of images.
const countTime = 1200 * time.Millisecond

// countImages counts the data set, and says where the loader would give too little.
func (p *project) countImages(ctx context.Context) {
	if p.data == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	p.images, p.cut = countImages(ctx, p.data, p.dataDeep, p.dataTypes)
	if p.images == 0 || p.cut || p.micro == 0 {
		return
	}
	switch its, a := p.iterations(p.micro), p.accumulate(); {
	case its == 0:
		p.warn("%d images are fewer than %d processes × %d: with drop_last an epoch has no batch, and training would be over at once without an error",
			p.images, p.world, p.micro)
	case its < a:
		p.warn("an epoch has %d batches and the optimizer steps after %d: it would never step", its, a)
	case its%a != 0:
		p.truth("of the %d batches of an epoch %d are thrown away: the optimizer steps after every %d, and what is left over is zeroed",
			its, its%a, a)
	}
}

// bounded reports whether n images a process, accumulated a times, leave an epoch with an optimizer step.
func (p *project) bounded(n, a int64) bool {
	if p.images == 0 || p.cut {
		return true
	}
	return p.iterations(n) >= a
}

package moco

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/plugins/moco/arch"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// pythonString is str() of a literal: a float is written as repr writes it, anything else as it is.
func pythonString(s string) string {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !strings.ContainsAny(s, ".eE") {
		return s
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	out := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(out, ".") {
		out += ".0"
	}
	return out
}

var (
	reTwoGPUs  = lazy.MustCompile(`(?i)\*\s*2\s*(?:GPUs\b|\*\s*self\.|\*\s*\d)|2 GPUs assumed|Per-GPU for DDP`)
	reQueueSum = lazy.MustCompile(`([\d,]+)\s*/\s*(\d+)\s*=\s*(\d+)\s+(?:batches|steps)|([\d,]+)\s*=\s*(\d+)\s*[×x]\s*(\d+)`)
	reDivide   = lazy.MustCompile(`(?i)divisible by batch|MUST be divisible`)
	reMeasured = lazy.MustCompile(`4\.6\s?GB`)
	reScaled   = lazy.MustCompile(`6\.9\s?GB`)
	reThirty   = lazy.MustCompile(`~?30\s?%`)
	reEstimate = lazy.MustCompile(`def\s+print_vram_estimate\(`)
)

// truths says where the project's guides, comments and flags are wrong, as far as this job is concerned.
func (p *project) truths() {
	s := p.solar
	if s == nil || s.unread != "" {
		return
	}
	cfg := python.NewSource(s.config, string(p.source(s.config).Text))
	p.trueBatch(cfg)
	p.trueRate()
	if k := p.checkpointing; k.found && k.dead != "" && k.on() {
		promise := ""
		if m := reThirty.FindString(cfg.Text); m != "" {
			promise = fmt.Sprintf(", so the %q that a comment promises of it is 0", m)
		}
		p.truth("use_grad_checkpointing does nothing: no file that runs reads it%s (%s)", promise, p.at(k))
	}
	if p.accumulation.found && p.accumulation.dead != "" && p.accumulation.int() > 1 {
		p.truth("gradient_accumulation_steps does nothing here: %s does not read it, so an optimizer step sees one batch (%s)", filepath.Base(s.trainer.Path), p.at(p.accumulation))
	}
	if p.named == "vit_small" && p.encoder == "vit_b_16" {
		b := s.first(reBackbone)
		p.truth("backbone \"vit_small\" is torchvision's vit_b_16 here, so it needs as much as vit_base (%s)", b.At(reVitB16))
	}
	if _, set := p.getenv("USE_LOW_VRAM_CONFIG"); set {
		p.truth("USE_LOW_VRAM_CONFIG is read by nothing: %s decides with its import of %s from %s", filepath.Base(s.trainer.Path), s.class, filepath.Base(s.config))
	}
	if cfg.Has(reEstimate) && s.trainer.Has(lazy.MustCompile(`\.print_vram_estimate\(`)) {
		p.truth("the amounts of memory that it prints at the start are text in %s and measure nothing", cfg.At(reEstimate))
	}
	if reMeasured.MatchString(cfg.Text) && reScaled.MatchString(cfg.Text) {
		p.truth("the guide's 6.9 GB for a batch of 96 are 4.6 × 96/64: one measurement multiplied, which leaves out that weights, optimizer and context do not grow (%s)", cfg.AtText(reScaled))
	}
	p.trueQueue(cfg)
}

// at names the place of a setting.
func (p *project) at(k knob) string {
	for _, src := range p.command.Sources {
		if src.Path == k.at.Doc {
			if it, ok := src.Item(k.at.Path); ok {
				return python.Place(src.Path, it.Line)
			}
		}
	}
	return filepath.Base(k.at.Doc)
}

// trueBatch says what an optimizer step really sees, where the comments or the printed sum count each GPU once more.
func (p *project) trueBatch(cfg python.Source) {
	if !p.divides || !reTwoGPUs.MatchString(cfg.Text) || p.batch.int() <= 0 {
		return
	}
	total, a := p.batch.int(), max(1, p.accumulation.int())
	real := total * p.accumulate()
	if p.micro > 0 {
		real = p.micro * p.world * p.accumulate()
	}
	why := p.solar.trainer.At(reDivideAll) + " divides the batch by the number of GPUs, so it is %d here"
	if !p.spawns {
		why = "this is one process on one GPU, so it is %d"
		if launcher, many := p.several(); many != "" {
			why = launcher + " starts " + many + ", all on one GPU and without exchanging gradients, so it is %d in each of them"
		}
	}
	p.truth("%s counts %d × 2 GPUs × %d = %d images an optimizer step; "+why, cfg.AtText(reTwoGPUs), total, a, 2*total*a, real)
}

// trueRate says where the learning rate was scaled by that sum.
func (p *project) trueRate() {
	base := p.setting("", "base_lr")
	if !base.found || !p.rate.found || !p.divides || p.batch.int() <= 0 {
		return
	}
	counted, real := 2*p.batch.int()*max(1, p.accumulation.int()), p.batch.int()*p.accumulate()
	if rule := base.float() * float64(counted) / 256; rule > 0 && math.Abs(p.rate.float()/rule-1) < 0.01 {
		p.truth("learning_rate %s is base_lr × %d/256; with the %d images that a step really sees the same rule gives %s (base_lr itself is read by nothing; %s)",
			p.rate.value, counted, real, pythonString(strconv.FormatFloat(base.float()*float64(real)/256, 'g', 12, 64)), p.at(p.rate))
	}
}

// trueQueue says what the queue's length has to do with the batch.
func (p *project) trueQueue(cfg python.Source) {
	if !p.usesQueue || !p.queue.found {
		return
	}
	if !p.asserts && reDivide.MatchString(cfg.Text) {
		model := p.solar.first(reMomentum)
		p.truth("nothing has to divide queue_size: %s writes round the end (%s says that it must)", model.At(lazy.MustCompile(`def\s+_dequeue_and_enqueue\(`)), cfg.AtText(reDivide))
	}
	if p.step != arch.Solar || p.batch.int() == 0 {
		return
	}
	for _, m := range reQueueSum.FindAllStringSubmatch(cfg.Text, -1) {
		whole := strings.ReplaceAll(m[1]+m[4], ",", "")
		if whole == itoa(p.queue.int()) && (m[2] == itoa(p.batch.int()) || m[5] == itoa(p.batch.int())) {
			p.truth("the queue holds %d steps, not %s%s, of batches of %d: a step of any batch enqueues the keys of both crops (%s)", p.queue.int()/(2*p.batch.int()), m[3], m[6], p.batch.int(),
				p.solar.first(reMomentum).At(reBothKeys))
			return
		}
	}
}

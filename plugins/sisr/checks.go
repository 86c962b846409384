package sisr

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/metric"
)

// plausible are the bounds of the last value of a validation's figure, by parts of its type.
//
// PSNR is 10·log10(1/MSE) of images from 0 to 1: a plain mid-grey image has an MSE of at most 1/4, so a network below
// 6 dB is worse than no network, and one level of 255 in each pixel is 48 dB, so 70 dB is a comparison of an image with
// itself. SSIM is at most 1; 0 is two images without a structure in common. The others are distances, or lie in [0, 1].
var plausible = []struct {
	kind     string
	min, max *float64
	hint     string
}{
	{"psnr", new(6.0), new(70.0), "the data folders of the validation: pairs in another order, or the same images " +
		"twice; and crop_border and scale"},
	{"ssim", new(0.0), new(0.9999), "the data folders of the validation: pairs in another order, or the same images " +
		"twice"},
	{"topiq", new(0.0), new(1.0), ""},
	{"lpips", new(0.0), nil, ""},
	{"dists", new(0.0), nil, ""},
}

// checks is what the end of a run should show, beside what launch checks of every run.
func (r *recipe) checks() (all []job.Check) {
	times := int64(0) // that the recipe validates
	if every := r.int(r.valFreq, 0); every > 0 {
		times = r.int(r.totalIter, 0) / every
	}
	for _, m := range r.figures() {
		c := job.Check{Name: m.Name + " is plausible", Pattern: m.Pattern, Rule: job.Finite, Last: 1}
		kind := strings.ToLower(r.at(r.metrics).Get(m.Name).Get("type").Text() + " " + m.Name)
		for _, p := range plausible {
			if strings.Contains(kind, p.kind) {
				c.Rule, c.Min, c.Max, c.Hint = job.Within, p.min, p.max, p.hint
				break
			}
		}
		if times > 0 {
			all = append(all, c)
		}
		if times > 1 {
			all = append(all, job.Check{Name: m.Name + " moves from validation to validation", Pattern: m.Pattern,
				Rule: job.Moving,
				Hint: "the learning rate, and what is frozen: the validation sees the same network each time"})
		}
	}
	if r.lossScheduling() {
		all = append(all, r.lossWeights())
	}
	return all
}

// lossWeights checks that the forks' dynamic loss scheduling does something. The trainer prints each weight with its
// losses: loss_dict["dynamic_weight_…"] (sr_model.py:614 at 069b6d59, :674 at 22faa2a6), but not with several ranks,
// whose reduce_loss_dict keeps tensors alone (base_model.py:813). Up to the baseline the weights are 1
// (dynamic_loss_scheduling.py, forward); with auto_calibrate, another file chooses it.
func (r *recipe) lossWeights() job.Check {
	const settings = "train.dynamic_loss_scheduling."
	c := job.Check{Name: "the dynamic loss weights change", Rule: job.Moving,
		Pattern: `dynamic_weight_(?P<series>[^\s:]+): (?P<value>` + metric.Number + `)`,
		Hint: settings + "adaptation_threshold: a weight changes only where its loss differs from its running mean by more " +
			"than this share"}
	if auto, ok := r.at(settings + "auto_calibrate").Bool(); !ok || !auto {
		c.After = max(0, r.int(settings+"baseline_iterations", 100)) + 1
		if total := r.int(r.totalIter, 0); total > 0 && c.After > total {
			c.Hint = fmt.Sprintf("%sbaseline_iterations: it is not below the %d iterations of the training", settings, total)
		}
	}
	return c
}

// metricPattern is the line of a validation's figure.
func metricPattern(name string) string {
	return `(?:^|\s)# ` + regexp.QuoteMeta(name) + `\s*:\s+(?P<value>` + metric.Number + `)`
}

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/unit"
)

// benchReasons say why the inference peaks of a network differ from their estimates, by network, and by format where
// they are not of both: "compact", "compact contiguous".
var benchReasons = map[string]string{
	"rtmosr_ul": unfreed, "scunet_aaf6aa": unfreed, "sebica": unfreed, "sebica_mini": unfreed, "spanplus_sts": unfreed,
	"compact": unfreed, "ultracompact": unfreed,
	"span_s": "the class that was measured is spandrel's (span_arch.py at 3ebe5d23 imports it), and not the one of " +
		"68629319 that has the formula",
}

// unfreed is memory of the benchmark itself: RTMoSR's RepConv keeps a bound method of its own, so a model lives until
// Python's garbage collector runs, and its 8.3 to 11.5 MiB count in what was measured after it. See docs/accuracy.md.
const unfreed = "the benchmark: models that are gone and not yet freed, 8.3 to 11.5 MiB each"

// otherReasons say why an observation differs from its estimate, or has none, by its number.
var otherReasons = map[int]string{
	1: "cudnn.benchmark's trials are in the peak: it lies above what is reserved in the same line of the log (row 2)",
	3: "as row 1 (row 4)",
	6: "the estimate is for ample room, and with a context it is more than the card has",
	7: "no formula: the network of that name at deafa14d is another", 8: "as row 7",
	19: "the image is not known", 21: "neither the micro-batch nor the crop is known",
	25: "no formula: this MoCo is symmetric and has another projector", 26: "as row 25",
	27: "no formula for the ResNet-18 of CIFAR",
	34: "torch 1.10.2 ran out: row 33 is the same job on the same card with 1.12.1, and fits",
	42: "the step after a validation, which is no phase of a bare network: TestRecordedFailure in " +
		"plugins/dualattn/arch has it within 1 %",
}

// reason is why a price of the benchmark disagrees; "" where nothing explains it.
func (p benchPrice) reason() string {
	if r := benchReasons[p.arch]; r != "" {
		return r
	}
	return benchReasons[p.arch+" "+formatName(p.channelsLast)]
}

func formatName(channelsLast bool) string {
	if channelsLast {
		return "channels_last"
	}
	return "contiguous"
}

// share counts the rows of a memory format, and those of them that agree.
func (b bench) share(channelsLast bool) (n, agree, unanswered int) {
	for _, p := range b.priced {
		if p.channelsLast != channelsLast {
			continue
		}
		n++
		switch {
		case p.err != nil:
			unanswered++
		case p.agrees():
			agree++
		}
	}
	return n, agree, unanswered
}

// broken lists the limits that do not hold.
func (r realCards) broken() (out []string) {
	for channelsLast, least := range map[bool]float64{true: leastLast, false: leastContiguous} {
		n, agree, unanswered := r.bench.share(channelsLast)
		if share := float64(agree) / float64(max(n, 1)); share < least {
			out = append(out, fmt.Sprintf("real cards: %.1f %% of the %s inference peaks agree, at least %.0f %% have to",
				100*share, formatName(channelsLast), 100*least))
		}
		if float64(unanswered) > mostUnanswered*float64(n) {
			out = append(out, fmt.Sprintf("real cards: %d of %d %s inference peaks have no estimate", unanswered, n,
				formatName(channelsLast)))
		}
	}
	for _, o := range r.others {
		why := otherReasons[o.ID]
		switch {
		case o.trusted() && !o.agrees && why == "":
			out = append(out, fmt.Sprintf("real cards, row %d: %s of %s does not agree (%s), and nothing explains it", o.ID,
				o.What, o.Net, o.verdict()))
		case o.agrees && why != "":
			out = append(out, fmt.Sprintf("real cards, row %d agrees now: it needs no reason", o.ID))
		}
	}
	for _, p := range r.bench.priced {
		if p.err == nil && !p.agrees() && p.reason() == "" {
			out = append(out, fmt.Sprintf("real cards: the inference of %s, scale %d, %s, does not agree, and nothing "+
				"explains it",
				p.name(), p.scale, formatName(p.channelsLast)))
		}
	}
	for key := range benchReasons {
		if !slices.ContainsFunc(r.bench.priced, func(p benchPrice) bool {
			return !p.agrees() && (key == p.arch || key == p.arch+" "+formatName(p.channelsLast))
		}) {
			out = append(out, fmt.Sprintf("real cards: every inference of %s agrees now: it needs no reason", key))
		}
	}
	slices.Sort(out)
	return out
}

// verdict is the comparison in a few words.
func (o observation) verdict() string {
	switch {
	case o.err != nil:
		return "no estimate: " + o.err.Error()
	case o.estimate == 0:
		return "no estimate"
	case o.agrees:
		return "yes"
	case o.What == "fits":
		return "would not fit"
	case o.What == "does not fit":
		return "would fit"
	}
	return fmt.Sprintf("measured %.3f of it", float64(o.Bytes)/float64(o.estimate))
}

// table prints all of it.
func (r realCards) table(p *printer) {
	p.heading("Real cards: what others have measured")
	p.text("By kind of figure. Allocated of an inference: the peaks of traiNNer-redux's own benchmark (%s; %s, "+
		"image %s), beside the estimate and the "+
		"output of the iteration before, which the benchmark keeps. It agrees within %.0f %% with channels_last, %.0f "+
		"%% without. The rest: rows that can "+
		"be asked of `launch estimate`, and trainings of latent diffusion by their recipes; a figure agrees within "+
		"%.0f %% (of the driver's %.0f %%).",
		r.bench.Source, r.bench.Card, r.bench.Image, 100*lastOff, 100*contiguousOff, 100*reservedOff, 100*usedOff)
	r.summary(p)
	r.bench.table(p)
	r.rows(p)
}

// summary prints how many rows of each kind agree.
func (r realCards) summary(p *printer) {
	var lines [][]string
	for _, channelsLast := range []bool{true, false} {
		n, agree, unanswered := r.bench.share(channelsLast)
		lines = append(lines, []string{"allocated, inference, " + formatName(channelsLast), fmt.Sprint(n),
			fmt.Sprint(n - unanswered), fmt.Sprint(agree),
			fmt.Sprintf("%.0f %%", 100*float64(agree)/float64(max(n, 1)))})
	}
	for _, what := range []string{"allocated", "reserved", "used", "requested", "context", "fits", "does not fit"} {
		n, answered, agree := 0, 0, 0
		for _, o := range r.others {
			if o.What != what {
				continue
			}
			n++
			if o.estimate > 0 {
				answered++
			}
			if o.agrees {
				agree++
			}
		}
		share := "–"
		if answered > 0 {
			share = fmt.Sprintf("%.0f %%", 100*float64(agree)/float64(answered))
		}
		lines = append(lines, []string{what, fmt.Sprint(n), fmt.Sprint(answered), fmt.Sprint(agree), share})
	}
	p.table([]string{"figure", "rows", "with an estimate", "agree", "of those"}, 1, lines)
}

// table prints the networks of the benchmark that disagree, the scales of each together.
func (b bench) table(p *printer) {
	type group struct {
		name, format, why string
		scales            []string
		least, most       float64
	}
	var groups []*group
	for _, q := range b.priced {
		if q.agrees() {
			continue
		}
		name, format := q.name(), formatName(q.channelsLast)
		i := slices.IndexFunc(groups, func(g *group) bool { return g.name == name && g.format == format })
		if i < 0 {
			groups, i = append(groups, &group{name: name, format: format, why: q.reason(), least: 1e9}), len(groups)
		}
		g, ratio := groups[i], float64(q.measured)/float64(q.allocated+q.kept)
		if q.err != nil {
			g.why, ratio = "no estimate: "+q.err.Error(), 0
		}
		g.scales, g.least, g.most = append(g.scales, fmt.Sprint(q.scale)), min(g.least, ratio), max(g.most, ratio)
	}
	slices.SortFunc(groups, func(a, b *group) int { return strings.Compare(a.name+" "+a.format, b.name+" "+b.format) })
	var lines [][]string
	for _, g := range groups {
		slices.Sort(g.scales)
		lines = append(lines, []string{g.name, g.format, strings.Join(g.scales, ", "), fmt.Sprintf("%.3f", g.least),
			fmt.Sprintf("%.3f", g.most), orUnexplained(g.why)})
	}
	if len(lines) > 0 {
		p.table([]string{"network", "memory format", "scales", "measured / estimate, least", "most", "why"}, 6, lines)
	}
}

// rows prints every other observation.
func (r realCards) rows(p *printer) {
	var lines [][]string
	for _, o := range r.others {
		estimate := "–"
		if o.estimate > 0 {
			estimate = gib(o.estimate)
		}
		why := cmp.Or(otherReasons[o.ID], "–")
		lines = append(lines, []string{fmt.Sprint(o.ID), o.Net, o.Settings, o.Card, o.What, gib(o.Bytes), estimate,
			o.verdict(), o.Confidence, why, o.Source})
	}
	p.long("cards", []string{"row", "network", "settings", "card", "figure", "GiB", "estimate", "agrees", "confidence",
		"why", "source"}, 11, lines, "That do not agree, or have no estimate",
		func(r []string) bool { return r[7] != "yes" })
}

func gib(b unit.Bytes) string { return fmt.Sprintf("%.2f", float64(b)/(1<<30)) }

package draft

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/python"
)

// metricLogger is the pattern of the lines that MetricLogger.log_every prints, with where it is called in the
// training: the logger of the references of torchvision, which MAE, DINO, DeiT, DETR, BEiT, BLIP and ConvNeXt have
// taken. It prints a header, then "[ 20/40]", then "eta: ".
func (d *drafting) metricLogger() (where, pattern string) {
	for _, f := range d.files {
		for i, s := range f.Statements {
			for _, c := range f.Calls(s.Range) {
				args := f.Args(c.Open)
				if lastPart(c.Name) != "log_every" || len(args) < 2 || !d.reached()[f][i] || d.evaluates(f, i) {
					continue
				}
				header := python.Range{}
				if a, ok := python.Keyword(args, "header"); ok {
					header = a.Range
				} else if len(args) > 2 && args[2].Name == "" {
					header = args[2].Range
				}
				text, ok := d.header(f, header, i)
				if !ok || evalText.MatchString(text) {
					continue
				}
				own := d.ownLogger()
				if own == nil {
					return likely + d.place(f, c.First) + ", MetricLogger's lines", text + loggerLine
				}
				if strings.Contains(own.Code, "eta") {
					return sure + d.place(f, c.First) + ", MetricLogger's lines (" + d.relative(own.Path) + ")", text + loggerLine
				}
			}
		}
	}
	return "", ""
}

const loggerLine = `\s+\[ *` + iteration + `/` + total + `\]\s+eta:`

// ownLogger is the file of the project that defines MetricLogger, or nil.
func (d *drafting) ownLogger() *file {
	if all := d.definitions()["MetricLogger"]; len(all) > 0 {
		return all[0].f
	}
	return nil
}

// header is a pattern of a header: its texts, and its fields as numbers.
func (d *drafting) header(f *file, e python.Range, at int) (string, bool) {
	if name, ok := f.Dotted(e); ok {
		b := f.binding(name, at)
		if b < 0 {
			return "", false
		}
		a, _ := f.Assigns(f.Statements[b])
		if slices.Contains(identifiers.FindAllString(f.Of(a.Value), -1), name) { // header = header + "; …", perhaps
			text, ok := d.header(f, e, b)
			return text + `.*?`, ok
		}
		e = a.Value
	}
	pieces := joined(f.pieces(e, 0))
	if !slices.ContainsFunc(pieces, func(p piece) bool { return letter.MatchString(p.text) }) {
		return "", false
	}
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(cond(p.field != "", `\d+`, escaped(p.text)))
	}
	return strings.TrimSpace(b.String()), true
}

package stablesr

import (
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/plugins/stablesr/arch"
)

// What the checkout's own source says of a model: forks have changed classes and kept their names.

// modelSource is the source of the module that a target names: ldm.models.diffusion.ddpm.LatentDiffusion.
func (x *checkout) modelSource(target string) python.Source {
	module, _, ok := cutLast(target, ".")
	if !ok || !strings.HasPrefix(module, "ldm.") {
		return python.Source{}
	}
	return x.source(strings.ReplaceAll(module, ".", "/") + ".py")
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

var neverRecomputes = lazy.MustCompile(`def checkpoint\([^)]*\):\s+if False:`)

// code is what the source decides of a model. What is not there is taken for CompVis's own.
func (x *checkout) code(target string) (c arch.Code) {
	c.Edge = x.edge
	ddpm := x.modelSource(target).Code
	switch {
	case strings.Contains(ddpm, "self.cc_projection"):
		c.Trainer = arch.Views
	case strings.Contains(ddpm, `xc["c_concat"]`):
		c.Trainer = arch.EditPairs
	case strings.Contains(ddpm, "self.reg_weight * loss_reg"):
		c.Trainer = arch.TwoBatches
	case strings.Contains(ddpm, "self.instantiate_embedding_manager("):
		c.Trainer = arch.Embeddings
	}
	attention := x.source("ldm/modules/attention.py").Code
	switch {
	case strings.Contains(class(attention, "SpatialTransformer"), "checkpoint=use_checkpoint"):
		c.Blocks = arch.BlocksAsked
	case strings.Contains(class(attention, "BasicTransformerBlock"), "checkpoint=False"):
		c.Blocks = arch.BlocksNever
	}
	c.Kept = neverRecomputes.MatchString(x.source("ldm/modules/diffusionmodules/util.py").Code)
	return c
}

// class is the text of a class: from its line to the next one that is not indented.
func class(code, name string) string {
	i := max(strings.Index(code, "class "+name+"("), strings.Index(code, "class "+name+":"))
	if i < 0 {
		return ""
	}
	code = code[i:]
	if end := strings.Index(code, "\nclass "); end > 0 {
		return code[:end]
	}
	return code
}

// fuses reports whether the attention would use xformers where it is installed.
func (x *checkout) fuses() bool {
	s := x.source("ldm/modules/attention.py")
	return !s.Exists() || strings.Contains(s.Code, "xformers")
}

// logImages is what log_images is called with: the defaults of the source, and the recipe's log_images_kwargs.
func (x *checkout) logImages(target string, params tree) arch.Images {
	g := arch.CompVisImages()
	kwargs := section(params, "log_images_kwargs")
	_, name, _ := cutLast(target, ".")
	body := class(x.modelSource(target).Code, name)
	at := strings.Index(body, "def log_images(")
	takes := map[string]any{}
	if at >= 0 {
		body = body[at+len("def log_images("):]
		for _, arg := range python.Arguments(body) {
			if name, value, ok := strings.Cut(arg, "="); ok {
				takes[strings.TrimSpace(name)] = readOverride("v=" + literal(strings.TrimSpace(value))).value
			}
		}
		if end := strings.Index(body, "\n    def "); end > 0 {
			body = body[:end]
		}
		g.Guided = guides(body)
	}
	set := func(name string, to *bool) {
		v, given := takes[name]
		if over, ok := kwargs[name]; ok && given {
			v = over
		}
		if b, ok := v.(bool); ok {
			*to = b
		}
	}
	count := func(name string, to *int64) {
		for _, m := range []tree{takes, kwargs} {
			if n, ok := integer(m, name); ok && n > 0 {
				*to = n
			}
		}
	}
	if at < 0 { // CompVis' own arguments
		takes = tree{"sample": g.Sample, "quantize_denoised": g.Quantized, "inpaint": g.Inpaint,
			"plot_denoise_rows":     g.DenoiseRows,
			"plot_progressive_rows": g.ProgressiveRows, "plot_diffusion_rows": g.DiffusionRows}
	}
	count("N", &g.N)
	count("n_row", &g.Rows)
	set("sample", &g.Sample)
	set("quantize_denoised", &g.Quantized)
	set("inpaint", &g.Inpaint)
	set("plot_denoise_rows", &g.DenoiseRows)
	set("plot_progressive_rows", &g.ProgressiveRows)
	set("plot_diffusion_rows", &g.DiffusionRows)
	set("use_ema_scope", &g.EMA)
	if v, ok := takes["unconditional_guidance_scale"]; ok {
		if over, given := kwargs["unconditional_guidance_scale"]; given {
			v = over
		}
		g.Guided = g.Guided || scale(v) > 1
	}
	return g
}

// literal is a Python literal as YAML spells it.
func literal(s string) string {
	switch s {
	case "True", "False":
		return strings.ToLower(s)
	case "None":
		return "null"
	}
	return s
}

func scale(v any) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return 1
}

var guidance = lazy.MustCompile(`\bunconditional_guidance_scale\s*=\s*([0-9.]+)\s*,\s*\n?\s*unconditional_conditioning`)

// guides reports whether a call in the code samples with guidance, whatever the recipe says.
func guides(code string) bool {
	for _, m := range guidance.FindAllStringSubmatch(code, -1) {
		if n, err := strconv.ParseFloat(m[1], 64); err == nil && n > 1 {
			return true
		}
	}
	return false
}

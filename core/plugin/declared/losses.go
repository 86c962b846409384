package declared

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

var (
	// acrossBatch are losses that compare the samples of a micro-batch with each other, by their names in public
	// packages: open_clip, lightly, pytorch-metric-learning, sentence-transformers, transformers.
	acrossBatch = lazy.MustCompile(`(?i)^(clip|siglip|sig_lip|coca|distill_?clip)_?loss$|^info_?nce(_?loss)?$|` +
		`^nt_?xent(_?loss)?$|^sup_?con(trast)?(ive)?(_?loss)?$|` +
		`^(cached_?)?multiple_?negatives(_?symmetric)?_?ranking_?loss$|` +
		`^(cached_?)?gist_?(embed)?_?loss$|^mega_?batch_?margin_?loss$|^batch_?(hard|all|semi_?hard)\w*|` +
		`^\w*(triplet|pair|batch)\w*miner$|` +
		`^barlow(_?twins)?(_?loss)?$|^vic_?reg_?loss$|^dcl_?w?_?loss$|^(cached_?)?splade_?loss$`)
	contrastive = lazy.MustCompile(`^(in_?batch_)?contrastive_loss$|^clip_contrastive\w*$`)
	// pairModels return such a loss where they are trained.
	pairModels = lazy.MustCompile(`^(CLIPModel|VisionTextDualEncoderModel|Siglip2?Model|AltCLIPModel|ChineseCLIPModel|` +
		`ClapModel|XCLIPModel|CLIPSegModel|AlignModel|FlavaModel|GroupViTModel)$`)
	trains = lazy.MustCompile(`\bTrainer\(|logits_per_(image|text)|\.backward\(`)
	// generating are the trainers of trl whose advantages are relative to a group of generations.
	generating = lazy.MustCompile(`^(GRPO|RLOO|PPO|PPOv2|OnlineDPO|XPO|NashMD)(Trainer|Config)$`)
	averaging  = lazy.MustCompile(`^(KTO|BCO)(Trainer|Config)$`)
	entropy    = lazy.MustCompile(`(?i)cross_?entropy|criterion|^ce(_?loss)?$|` +
		`loss_?f(n|unc|ct)?$|^(self\.)?loss$|logsigmoid`)
	apart    = lazy.MustCompile(`(?i)cross_?entropy|log_?softmax|logsumexp|margin|\.exp\(`)
	embedded = lazy.MustCompile(`(?i)feat|emb|^reps?$|^[qkz]_?\d?$|image|text|query|passage|proj`)
)

// telling are parts of what is looked for; a file without any of them need not be parsed.
var telling = []string{"return_loss", "arange", "torch.eye", "cdist", "all_gather", "gather_features", "GatherLayer",
	".T", ".t()",
	"transpose(", ".mT", "NCE", "nce", "Xent", "xent", "XENT", "lip_loss", "LIPLoss", "lipLoss", "LIPModel", "coca",
	"CoCa", "SupCon", "sup_con",
	"egatives", "contrastive_loss", "clip_contrastive", "ist_loss", "istLoss", "istEmbedLoss", "BatchMargin", "atchHard",
	"atchAll", "atchSemi", "atch_hard", "atch_all", "atch_semi", "Miner", "miner", "Barlow", "barlow", "VICReg",
	"vicreg", "DCL", "dcl", "SpladeLoss", "VisionTextDualEncoder", "SiglipModel", "Siglip2Model", "ClapModel",
	"CLIPSegModel", "AlignModel", "FlavaModel",
	"GroupViTModel", "GRPO", "RLOO", "PPO", "OnlineDPO", "XPO", "NashMD", "KTO", "BCO"}

const across = "its loss compares the samples of a micro-batch with each other"

// losses finds losses that are no mean over samples: in-batch negatives, mining, gathered features, groups of
// generations.
func (s *splitReader) losses(x *python.Syntax) {
	asks, pairs := x.Names("return_loss"), false
	for _, w := range turns {
		pairs = pairs || strings.Contains(x.Code, w)
	}
	kinds := map[string]lossKind{}
	for i, st := range x.Statements {
		if x.Is(st.First, "import") || x.Is(st.First, "from") {
			continue
		}
		if asks {
			s.returnLoss(x, i)
		}
		for _, c := range x.Calls(st.Range) {
			s.call(x, i, c, kinds)
		}
		if !pairs {
			continue
		}
		if at, ok := gram(x, st.Range); ok && apart.MatchString(x.FunctionText(i)) && !ungraded(x, i) {
			s.add(x, i, at, ladder.Recipe, across+": it multiplies their features")
		}
	}
}

// call finds what one call shows. kinds are those of the names that were seen.
func (s *splitReader) call(x *python.Syntax, i int, c python.Call, kinds map[string]lossKind) {
	parts := strings.Split(strings.TrimPrefix(c.Name, "."), ".")
	name := parts[len(parts)-1]
	kind := name
	if len(parts) > 1 && (name == "from_pretrained" || name == "apply" || name == "from_config" ||
		name == "from_vision_text_pretrained") {
		kind = parts[len(parts)-2]
	}
	of, known := kinds[kind]
	if !known {
		of = kindOf(kind)
		kinds[kind] = of
	}
	switch {
	case of == comparing:
		s.add(x, i, c.First, ladder.Recipe, across+": %s", kind)
	case of == paired && x.Has(trains):
		s.add(x, i, c.First, ladder.Recipe, across+": that of %s", kind)
	case of == grouped:
		s.add(x, i, c.First, ladder.Recipe, "%s compares the generations of a group with each other", kind)
	case of == averaged:
		s.add(x, i, c.First, ladder.Numerics, "the loss of %s has a mean over each micro-batch", kind)
	case strings.HasPrefix(name, "all_gather") || name == "gather_features" || kind == "GatherLayer":
		if slices.ContainsFunc(x.Words(x.Inside(c.Open)), embedded.MatchString) {
			s.add(x, i, c.First, ladder.Recipe, across+": it gathers their features")
		}
	case (of == classifying || name != kind && entropy.MatchName(name)) && s.diagonal(x, i, x.Args(c.Open)) &&
		!ungraded(x, i):
		s.add(x, i, c.First, ladder.Recipe, across+": each is the class of its own row")
	case name == "cdist":
		if args := x.Args(c.Open); len(args) > 1 && x.Of(args[0].Range) == x.Of(args[1].Range) {
			s.add(x, i, c.First, ladder.Recipe, across+": it computes all their distances")
		}
	}
}

// A lossKind is what a name shows of a loss, a model or a trainer.
type lossKind int

const (
	other lossKind = iota
	comparing
	paired
	grouped
	averaged
	classifying
)

func kindOf(name string) lossKind {
	switch {
	case acrossBatch.MatchName(name), contrastive.MatchName(name):
		return comparing
	case pairModels.MatchName(name):
		return paired
	case generating.MatchName(name):
		return grouped
	case averaging.MatchName(name):
		return averaged
	case entropy.MatchName(name):
		return classifying
	}
	return other
}

// returnLoss finds "return_loss": True, which asks such a model for its loss.
func (s *splitReader) returnLoss(x *python.Syntax, i int) {
	for t := x.Statements[i].First; t+2 < x.Statements[i].End; t++ {
		text := x.Token(t)
		if x.Tokens[t].Kind == python.String {
			text, _ = python.Literal(text)
		}
		next := t + 1
		if x.Is(next, "]") {
			next++
		}
		if text == "return_loss" && (x.Is(next, ":") || x.Is(next, "=")) && x.Is(next+1, "True") {
			s.add(x, i, t, ladder.Recipe, across+": return_loss")
		}
	}
}

// diagonal reports whether an argument of a loss is the numbers of the rows, so that each sample's class is itself.
func (s *splitReader) diagonal(x *python.Syntax, statement int, args []python.Arg) bool {
	counts := func(r python.Range) bool {
		return slices.ContainsFunc(x.Calls(r), func(c python.Call) bool {
			last := c.Name[strings.LastIndexByte(c.Name, '.')+1:]
			return last == "arange" || last == "eye"
		})
	}
	for _, a := range args {
		if counts(a.Range) {
			return true
		}
		name, ok := x.Dotted(a.Range)
		if !ok {
			continue
		}
		for i, st := range x.Statements {
			assigned, ok := x.Assigns(st)
			if ok && assigned.Name == name && counts(assigned.Value) && x.Outermost(i) == x.Outermost(statement) {
				return true
			}
		}
	}
	return false
}

// ungraded reports whether a statement runs without gradients, in "with torch.no_grad()" or in a function that is
// marked so: what is computed there trains nothing.
func ungraded(x *python.Syntax, statement int) bool {
	off := func(r python.Range) bool { return x.HasName(r, []string{"no_grad", "inference_mode"}) }
	for i := x.Statements[statement].In; i >= 0; i = x.Statements[i].In {
		if x.Is(x.Statements[i].First, "with") && off(x.Statements[i].Range) {
			return true
		}
		if _, ok := x.Definition(x.Statements[i]); !ok {
			continue
		}
		for d := i - 1; d >= 0 && x.Is(x.Statements[d].First, "@"); d-- {
			if off(x.Statements[d].Range) {
				return true
			}
		}
	}
	return false
}

// gram finds the product of a matrix with itself: z @ z.T, torch.mm(z, z.t()).
func gram(x *python.Syntax, r python.Range) (at int, ok bool) {
	turned := func(i int, name string) bool {
		return x.Is(i, name) && x.Is(i+1, ".") && (x.Is(i+2, "T") || x.Is(i+2, "t") || x.Is(i+2, "transpose") ||
			x.Is(i+2, "mT"))
	}
	for i := r.First; i+3 < r.End; i++ {
		if x.Tokens[i].Kind == python.Word && (x.Is(i+1, "@") || x.Is(i+1, ",")) && turned(i+2, x.Token(i)) &&
			(x.Is(i+1, "@") || x.Is(i-1, "(") && (x.Is(i-2, "mm") || x.Is(i-2, "matmul"))) {
			return i, true
		}
	}
	return 0, false
}

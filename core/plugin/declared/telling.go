package declared

import (
	"slices"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

// compares reports whether a file may have what losses finds, and must be parsed: to parse all that a project imports
// would take longer than the rest of a start. It is asked of every file, so the first question is answered in one
// pass over the text: is there what any finding needs? Few files are left for the second, which bounds what is found
// to names as their packages spell them.
func compares(f python.Source, marks uint64) bool {
	return mayCompare(f, marks) && slices.ContainsFunc(telling, func(w string) bool { return strings.Contains(f.Code, w) })
}

// What a word stands for in what losses looks for.
const (
	aFinding  uint64 = 1 << iota // a name that is one by itself
	ofRows                       // a call that numbers the rows of a batch
	aLoss                        // a loss by classes
	isApart                      // that tells the rows of a product apart
	aCoupling                    // what coupled finds
	anEinsum
)

// needed has a part of every name that losses finds, in lower case; those of two words have one for each spelling.
var needed = map[uint64][]string{
	aFinding: {"return_loss", "cdist", "all_gather", "gather_features", "gatherlayer",
		"liploss", "lip_loss", "cocaloss", "coca_loss", "infonce", "info_nce", "ntxent", "nt_xent", "supcon", "sup_con",
		"multiplenegatives", "multiple_negatives", "gistloss", "gist_", "gistembed", "megabatch", "mega_batch",
		"batchhard", "batch_hard", "batchall", "batch_all", "batchsemi", "batch_semi", "miner", "barlow", "vicreg", "vic_reg",
		"dclloss", "dcl_", "dclw", "splade", "contrastive_loss", "clip_contrastive",
		"lipmodel", "siglip2model", "visiontextdualencodermodel", "clapmodel", "clipsegmodel", "alignmodel", "flavamodel",
		"groupvitmodel", "potrainer", "poconfig", "ppov2", "rloo", "nashmd", "ktotrainer", "ktoconfig",
		"bcotrainer", "bcoconfig"},
	ofRows:  {"arange", "eye"},
	aLoss:   {"entropy", "criterion", "loss", "logsigmoid"},
	isApart: {"entropy", "softmax", "logsumexp", "margin", ".exp("},
	aCoupling: {"off_diag", "offdiag", "torch.cov(", "torch.corrcoef(", ".std(0", ".std(dim=0", ".var(0", ".var(dim=0",
		"minibatchst", "minibatch_st", "minibatchd", "adv.std(", "advantages.std(", "advantage.std(", "returns.std(",
		"rewards.std(", "torch.eq(", ".eq(", "labels.unsqueeze(", "targets.unsqueeze(", "none] ==", "labels == labels"},
	anEinsum: {"einsum("},
}

// mayCouple reports whether a file may have what coupled finds, and must be parsed.
func mayCouple(marks uint64) bool {
	return marks&aCoupling != 0 || marks&anEinsum != 0 && marks&isApart != 0
}

// mayCompare reports whether a file has what any finding of losses needs. Function bodies are searched with their
// comments, so the marks are those of the text and not of the code.
func mayCompare(f python.Source, marks uint64) bool {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(f.Code, w) })
	}
	return marks&aFinding != 0 ||
		marks&ofRows != 0 && (marks&aLoss != 0 || slices.ContainsFunc([]string{"ce", "CE", "Ce", "cE"}, f.Names)) ||
		marks&isApart != 0 && has(turns...)
}

// turns are what a transposed matrix is written with.
var turns = []string{".T", ".t()", "transpose(", ".mT"}

var tells = sync.OnceValue(func() *lazy.Finder { return lazy.NewFinder(needed) })

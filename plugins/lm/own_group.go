package lm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/python"
)

// The collators that are understood (transformers/data/data_collator.py).
const (
	collateAsIs    = "default_data_collator"
	collateLM      = "DataCollatorForLanguageModeling"
	collatePadding = "DataCollatorWithPadding" // of a Trainer with a tokenizer and no collator (trainer.py:563)
)

// grouping is the body of group_texts, the function that joins rows and cuts them into blocks of one length
// (transformers' examples/pytorch/language-modeling/run_clm.py, and its guide to language modeling), with what differs
// among its copies: how rows are joined, a guard for less than a block, and labels.
const grouping = `def group_texts(examples):
    joined = {k: JOINED for k in examples KEYS}
    total_length = len(joined[list(examples.keys())[0]])
    GUARD
    result = {k: [t[i : i + block_size] for i in range(0, total_length, block_size)] for k, t in joined.items()}
    LABELS
    return result
`

// A group is what a form of group_texts does.
type group struct {
	block string // its name for the length of a block, as names makes it
	// short: where all rows of a map's batch have less than a block, that is a row.
	short  bool
	labels bool
}

// groups are the forms of group_texts, by their statements with other names.
var groups = sync.OnceValue(func() map[string]group {
	all := map[string]group{}
	for _, joined := range []string{"sum(examples[k], [])", "list(chain(*examples[k]))",
		"list(itertools.chain(*examples[k]))"} {
		for _, keys := range []string{"", ".keys()"} {
			for _, blocks := range []string{"(total_length // block_size) * block_size",
				"total_length // block_size * block_size"} {
				for _, guard := range []string{"", "if total_length >= block_size:\n        "} {
					for _, labels := range []string{"", `result["labels"] = result["input_ids"].copy()`} {
						text := strings.NewReplacer("JOINED", joined, " KEYS", keys, "GUARD",
							guard+"total_length = "+blocks, "LABELS", labels).Replace(grouping)
						x := python.NewSource("", text).Syntax()
						form, names := shape(x, 0)
						all[form] = group{names["block_size"], guard != "", labels != ""}
					}
				}
			}
		}
	}
	return all
})

// plainNames are the names that a form of group_texts has to have.
var plainNames = strings.Fields("def for in if list len sum chain itertools range return")

// shape is the body of a function by its statements, with names in the order in which they come, and those names.
func shape(x *python.Syntax, header int) (form string, names map[string]string) {
	names = map[string]string{}
	var b strings.Builder
	d, _ := x.Definition(x.Statements[header])
	word := func(i int) {
		text := x.Token(i)
		literal, quoted := python.Literal(text)
		kind := x.Tokens[i].Kind
		switch {
		case kind == python.String && quoted:
			text = strconv.Quote(literal)
		case kind == python.Word && !slices.Contains(plainNames, text) && !x.Is(i-1, "."),
			kind == python.Number && text != "0":
			if names[text] == "" {
				names[text] = fmt.Sprintf("v%d", len(names))
			}
			text = names[text]
		}
		b.WriteString(text + " ")
	}
	parameters := x.Inside(d.Open)
	for i := parameters.First; i < parameters.End; i++ {
		word(i)
	}
	from, to := x.Block(header)
	for s := from; s < to; s++ {
		statement := x.Statements[s]
		if statement.End == statement.First+1 && x.Tokens[statement.First].Kind == python.String {
			continue // what the function is about
		}
		b.WriteString("\n")
		for in := statement.In; in > header; in = x.Statements[in].In {
			b.WriteString("  ")
		}
		for i := statement.First; i < statement.End; i++ {
			word(i)
		}
	}
	return b.String(), names
}

// joined reports whether the trainer's rows are blocks that group_texts makes, and why their length is not known.
func (r *ownReader) joined(collator string, given map[string]python.Range) (is bool, why string) {
	name, ok := r.grouped(given["train_dataset"])
	if !ok {
		return false, ""
	}
	header := r.defined(name)
	if header < 0 {
		return false, ""
	}
	form, names := shape(r.Syntax, header)
	g, ok := groups()[form]
	if !ok {
		return false, ""
	}
	if value := given["eval_dataset"]; !value.Empty() && r.Of(value) != "None" {
		if other, ok := r.grouped(value); !ok || other != name {
			return true, "eval_dataset is not understood as what a map with " + name + " returns"
		}
	}
	switch {
	case r.shadows():
		return true, name + " is not understood: a name of Python's own is another thing"
	case !g.labels && collator != collateLM:
		return true, "the blocks of " + name + " have no labels"
	}
	for block, as := range names {
		if as == g.block {
			return true, r.blocks(name, block, header, g)
		}
	}
	return true, name + " is not understood"
}

// blocks reads the length of a block: a number, or a variable that is one.
func (r *ownReader) blocks(name, block string, header int, g group) (why string) {
	value := block
	if at := r.find(block, header); r.Tokens[at].Kind == python.Word {
		value, _ = r.constant(python.Range{First: at, End: at + 1})
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(value, "_", ""), 10, 64)
	if err != nil || n < 1 || n > 1<<24 {
		return fmt.Sprintf("%s of %s is no literal number", block, name)
	}
	r.rows.length, r.rows.joined, r.rows.whole, r.rows.short = n, true, true, g.short
	return ""
}

// find is the first token of that text in the block of a header, which has it.
func (r *ownReader) find(text string, header int) (at int) {
	from, _ := r.Block(header)
	for at = r.Statements[from].First; !r.Is(at, text); {
		at++
	}
	return at
}

// grouped is the function that the last map of a data set is given, with batches of rows.
func (r *ownReader) grouped(value python.Range) (function string, ok bool) {
	c, ok := r.lastMap(value)
	if !ok {
		return "", false
	}
	batched := false
	for i, a := range r.Args(c.open) {
		switch {
		case a.Stars > 0:
			return "", false
		case a.Name == "function" || a.Name == "" && i == 0:
			function = r.Of(a.Range)
		case a.Name == "batched":
			batched = r.Of(a.Range) == "True"
		}
	}
	return function, batched && function != ""
}

// defined is the header of the one function of that name; -1 where there is none or another.
func (r *ownReader) defined(name string) (header int) {
	all := r.bindings(name)
	if len(all) != 1 {
		return -1
	}
	d, is := r.Definition(r.Statements[all[0]])
	if !is || d.Class || d.Open < 0 || r.decorated(all[0]) {
		return -1
	}
	return all[0]
}

// shadows reports whether the script gives another meaning to a name that group_texts needs, or chain is not that of
// itertools.
func (r *ownReader) shadows() bool {
	for _, name := range strings.Fields("list len sum range") {
		if len(r.bindings(name)) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(r.bindings("itertools"), func(s int) bool {
		return r.Of(r.Statements[s].Range) != "import itertools"
	}) || len(r.bindings("chain")) > 0 && !r.imported("chain", "itertools")
}

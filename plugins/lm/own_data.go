package lm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/python"
)

// keepsRows are methods of a data set (datasets.Dataset, DatasetDict) that make no row longer.
var keepsRows = strings.Fields("select shuffle filter train_test_split remove_columns rename_column rename_columns " +
	"with_format flatten_indices shard take skip sort")

// reaches reports why it is not known that the data sets of the trainer have the rows that the tokenizer's call makes:
// they have to be what a map with the function around that call returns, and nothing may join rows after it.
func (r *ownReader) reaches(call python.Call, given map[string]python.Range) (why string) {
	function, why := r.returns(call)
	if why != "" {
		return why
	}
	for _, name := range []string{"train_dataset", "eval_dataset"} {
		value := given[name]
		if value.Empty() || r.Of(value) == "None" {
			continue
		}
		if !r.tokenized(value, call, function) {
			return fmt.Sprintf("%s is not understood as what a map with the tokenizer's call returns", name)
		}
	}
	return ""
}

// returns is the function that returns what the tokenizer's call makes, with no other column than labels of its own; ""
// for a lambda.
func (r *ownReader) returns(call python.Call) (function, why string) {
	at := r.statement(call.First)
	whole := python.Range{First: call.First, End: r.Tokens[call.Open].Pair + 1}
	if r.inLambda(call) {
		return "", ""
	}
	header := r.Statements[at].In
	d, ok := python.Definition{}, false
	if header >= 0 {
		d, ok = r.Definition(r.Statements[header])
	}
	if !ok || d.Class || strings.HasPrefix(d.Name, "__") || r.decorated(header) {
		return "", "the tokenizer's call is not understood: it stands in no function that a map is given"
	}
	const other = "what the function around the tokenizer's call returns is not understood"
	kept := "" // the variable that has what it makes
	if !slices.Equal(r.bindings(d.Name), []int{header}) {
		return "", other
	}
	from, to := r.Block(header)
	for s := from; s < to; s++ {
		statement := r.Statements[s]
		first := statement.First
		a, assigns := r.Assigns(statement)
		switch {
		case s > at && statement.In != header || !r.Is(first, "return") && r.leaves(statement):
			return "", other
		case s == at && r.Is(first, "return"):
			if whole != (python.Range{First: first + 1, End: statement.End}) {
				return "", other
			}
			return d.Name, ""
		case s == at:
			if !assigns || a.Value != whole || strings.Contains(a.Name, ".") {
				return "", other
			}
			kept = a.Name
		case s < at:
			if r.leaves(statement) {
				return "", other
			}
		case r.Is(first, "return"):
			if statement.End == first+2 && r.Is(first+1, kept) {
				return d.Name, ""
			}
			return "", other
		case !r.labels(first, kept):
			return "", other
		}
	}
	return "", other
}

// labels reports whether a statement is x["labels"] = …
func (r *ownReader) labels(first int, x string) bool {
	if !r.Is(first, x) || !r.Is(first+1, "[") {
		return false
	}
	label, ok := r.Str(python.Range{First: first + 2, End: first + 3})
	return ok && label == "labels" && r.Is(first+3, "]") && r.Is(first+4, "=")
}

// leaves reports whether a statement may leave its function.
func (r *ownReader) leaves(s python.Statement) bool {
	for i := s.First; i < s.End; i++ {
		if r.Is(i, "return") || r.Is(i, "yield") {
			return true
		}
	}
	return false
}

// inLambda reports whether a call is the whole body of a lambda.
func (r *ownReader) inLambda(call python.Call) bool {
	end := r.Tokens[call.Open].Pair + 1
	if !r.Is(call.First-1, ":") || !r.Is(end, ",") && !r.Is(end, ")") {
		return false
	}
	for i := call.First - 2; i > 0 && (r.Tokens[i].Kind == python.Word || r.Is(i, ",")); i-- {
		if r.Is(i, "lambda") {
			return true
		}
	}
	return false
}

// A link is a method of a chain such as a.b("c")["d"].map(f): its name, and its bracket.
type link struct {
	name string
	open int
}

// chain reads an expression that is one name with calls, subscripts and attributes after it.
func (r *ownReader) chain(value python.Range) (root string, calls []link, ok bool) {
	if value.Empty() || r.Tokens[value.First].Kind != python.Word {
		return "", nil, false
	}
	root = r.Token(value.First)
	last := root
	for i := value.First + 1; i < value.End; {
		switch {
		case r.Is(i, ".") && i+1 < value.End && r.Tokens[i+1].Kind == python.Word:
			last = r.Token(i + 1)
			i += 2
		case r.Is(i, "[") && r.Tokens[i].Pair > 0:
			i = r.Tokens[i].Pair + 1
		case r.Is(i, "(") && r.Tokens[i].Pair > 0:
			calls = append(calls, link{last, i})
			i = r.Tokens[i].Pair + 1
		default:
			return "", nil, false
		}
	}
	return root, calls, true
}

// tokenized reports whether a data set is what a map with the tokenizer's call returns, but for methods that make no
// row longer. Of a variable the last assignment before its use counts: in the same function, and in no block that may
// not run.
func (r *ownReader) tokenized(value python.Range, call python.Call, function string) bool {
	c, ok := r.lastMap(value)
	return ok && r.maps(c, call, function)
}

// lastMap is the last map of a data set.
func (r *ownReader) lastMap(value python.Range) (last link, ok bool) {
	for range r.Statements {
		root, calls, ok := r.chain(value)
		if !ok {
			return last, false
		}
		for _, c := range slices.Backward(calls) {
			if c.name == "map" {
				return c, true
			}
			if !slices.Contains(keepsRows, c.name) {
				return last, false
			}
		}
		if value, ok = r.before(root, value); !ok {
			return last, false
		}
	}
	return last, false
}

// before is what a variable was assigned last before a use of it.
func (r *ownReader) before(name string, use python.Range) (value python.Range, found bool) {
	before := r.statement(use.First)
	for s := before - 1; s >= 0 && !found; s-- {
		if a, is := r.Assigns(r.Statements[s]); is && a.Name == name && !a.Value.Empty() {
			value, found = a.Value, true
			if r.Statements[s].In != r.Statements[before].In {
				return value, false
			}
		}
	}
	return value, found && r.plainly(name, before)
}

// plainly reports whether a variable is only assigned to by itself, as the last assignment before a use counts.
func (r *ownReader) plainly(name string, before int) bool {
	for _, s := range r.bindings(name) {
		if r.Rebinds(r.Statements[s], name) || r.Statements[s].In != r.Statements[before].In {
			return false
		}
	}
	for _, use := range r.uses(name) {
		s := r.statement(use)
		if s < 0 {
			return false
		}
		in := r.Statements[s]
		if eq := r.Find(in.Range, "="); eq >= 0 && use < eq {
			if a, ok := r.Assigns(in); !ok || a.Name != name || in.In != r.Statements[before].In {
				return false
			}
		}
		if slices.Contains([]string{"for", "as", "global", "nonlocal", "del"}, r.Token(use-1)) || r.Is(use+1, ":=") {
			return false
		}
		if use == in.First && r.Is(use+1, ".") && r.Find(in.Range, "=") < 0 && !r.Is(use+2, "set_format") &&
			!r.Is(use+2, "push_to_hub") && !r.Is(use+2, "save_to_disk") {
			return false // a method that may change it in place
		}
	}
	return true
}

// maps reports whether a map is given the function around the tokenizer's call.
func (r *ownReader) maps(c link, call python.Call, function string) bool {
	for i, a := range r.Args(c.open) {
		if a.Stars > 0 {
			return false
		}
		if a.Name == "function" || a.Name == "" && i == 0 {
			if function != "" {
				return r.Of(a.Range) == function
			}
			return a.First < call.First && call.First < a.End
		}
	}
	return false
}

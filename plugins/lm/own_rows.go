package lm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/python"
)

// readRows reads how long a row gets, and how a batch is padded. A collator that is not understood leaves the script to
// others; a length that cannot be read is unknown.
func (r *ownReader) readRows(given map[string]python.Range) error {
	tokenizer, why := r.tokenizer()
	collator, err := r.collator(given, tokenizer)
	if err != nil {
		return err
	}
	if joined, unread := r.joined(collator, given); joined {
		why = unread
	} else if why == "" {
		why = r.cut(tokenizer, collator, given)
	}
	if why != "" {
		r.rows.unknown = "the longest sequence is not known: " + why
	}
	return nil
}

// tokenizer is the variable of the one tokenizer, or why there is none.
func (r *ownReader) tokenizer() (name, why string) {
	const loader = "AutoTokenizer.from_pretrained"
	calls := r.calls(loader)
	if len(calls) != 1 {
		return "", fmt.Sprintf("the script has %d calls of %s", len(calls), loader)
	}
	if class, _, _ := strings.Cut(loader, "."); !r.imported(class, "transformers") {
		return "", class + " is not imported from transformers"
	}
	a, ok := r.Assigns(r.Statements[r.statement(calls[0].First)])
	_, err := r.place(calls[0])
	if err != nil || !ok || !r.exactly(a.Value, calls[0]) || strings.Contains(a.Name, ".") {
		return "", "what " + loader + " makes is kept in no variable"
	}
	return a.Name, ""
}

// collator is which one the Trainer has.
func (r *ownReader) collator(given map[string]python.Range, tokenizer string) (name string, err error) {
	value := given["data_collator"]
	switch text := r.Of(value); {
	case !value.Empty() && text == collateAsIs:
		for _, use := range r.uses(collateAsIs) {
			if use != value.First && !r.imports(use) {
				return "", errOwn("%s is used otherwise in line %d", collateAsIs, r.LineOf(use))
			}
		}
		if !r.imported(collateAsIs, "transformers") {
			return "", errOwn("%s is not of transformers", collateAsIs)
		}
		return collateAsIs, nil
	case !value.Empty() && text != "None":
		made, err := r.only(collateLM, "transformers")
		if err != nil {
			return "", err
		}
		if err := r.passed(value, made); err != nil {
			return "", err
		}
		return collateLM, r.collates(made, tokenizer)
	case given["processing_class"].Empty() && given["tokenizer"].Empty():
		return collateAsIs, nil // trainer.py:566
	}
	return collatePadding, nil
}

// collates reads the arguments of DataCollatorForLanguageModeling.
func (r *ownReader) collates(made python.Call, tokenizer string) error {
	causal := false
	for i, a := range r.Args(made.Open) {
		text := r.Of(a.Range)
		switch {
		case a.Stars == 0 && (a.Name == "tokenizer" || a.Name == "" && i == 0) && text == tokenizer:
		case a.Name == "mlm" && text == "False":
			causal = true
		case a.Name == "return_tensors":
		default:
			return errOwn("%s of %s is not understood", text, made.Name)
		}
	}
	if !causal {
		return errOwn("%s is not of a causal language model: mlm=False makes it one", made.Name)
	}
	return nil
}

// tokenizerIdle are attributes of a tokenizer that may be read or set, and methods that change no row.
var tokenizerIdle = strings.Fields("pad_token eos_token bos_token unk_token pad_token_id eos_token_id bos_token_id " +
	"padding_side truncation_side chat_template save_pretrained push_to_hub decode batch_decode vocab_size " +
	"name_or_path")

// cut reads the length to which the one call of the tokenizer cuts each row, and why it cannot be read.
func (r *ownReader) cut(tokenizer, collator string, given map[string]python.Range) (why string) {
	calls := r.calls(tokenizer)
	if len(calls) != 1 {
		return fmt.Sprintf("the script calls the tokenizer %d times", len(calls))
	}
	call, loader := calls[0], r.calls("AutoTokenizer.from_pretrained")[0]
	target := r.Statements[r.statement(loader.First)].First
	for _, use := range r.uses(tokenizer) {
		idle := r.Is(use+1, ".") && slices.Contains(tokenizerIdle, r.Token(use+2))
		handed := r.Is(use-1, "=") && (r.Is(use+1, ",") || r.Is(use+1, ")")) ||
			r.Is(use-1, "(") && r.Is(use-2, collateLM)
		if use != call.First && use != target && !idle && !handed {
			return fmt.Sprintf("the tokenizer is used otherwise in line %d", r.LineOf(use))
		}
	}
	padding, why := r.tokenizes(call)
	if why != "" {
		return why
	}
	switch whole := padding == "max_length"; {
	case !whole && collator == collateAsIs:
		return collateAsIs + " pads nothing"
	case !whole && collator == collatePadding:
		return collatePadding + ", which the Trainer has without a data_collator, does not pad labels"
	default:
		r.rows.whole, r.rows.alone = whole, whole || padding == "true" || padding == "longest"
	}
	return r.reaches(call, given)
}

// tokenizes reads the arguments of the tokenizer's call (PreTrainedTokenizerBase.__call__).
func (r *ownReader) tokenizes(call python.Call) (padding, why string) {
	truncates := false
	for i, a := range r.Args(call.Open) {
		value, ok := r.value(a.Range)
		here := ok
		if !ok {
			value, ok = r.constant(a.Range)
		}
		name := a.Name
		if name == "" && i == 0 && a.Stars == 0 {
			name = "text"
		}
		switch name {
		case "text", "return_tensors", "add_special_tokens", "return_special_tokens_mask", "return_length",
			"return_overflowing_tokens", "stride":
			ok = true
		case "truncation":
			truncates = ok && (value == "true" || value == "longest_first")
		case "max_length":
			n, err := strconv.ParseInt(value, 10, 64)
			if !ok || err != nil || n < 1 || n > 1<<24 {
				return "", "max_length of the tokenizer's call is no literal number"
			}
			r.rows.length = n
			r.literal[name] = here
		case "padding":
			padding = value
			ok = ok && slices.Contains([]string{"max_length", "longest", "do_not_pad", "true", "false"}, value)
		default:
			ok = false
		}
		if !ok {
			return "", r.Of(a.Range) + " of the tokenizer's call is not understood"
		}
	}
	switch {
	case !truncates:
		return "", "the tokenizer's call has no truncation=True"
	case r.rows.length == 0:
		return "", "the tokenizer's call has no max_length"
	}
	r.at[trainerKind.length] = r.within(call) + config.JoinPath(call.Name+"()", trainerKind.length)
	return padding, ""
}

// within is the path of the functions in which a call stands.
func (r *ownReader) within(c python.Call) (path string) {
	for s := r.statement(c.First); s >= 0; s = r.Statements[s].In {
		if d, ok := r.Definition(r.Statements[s]); ok {
			path = config.JoinPath(d.Name+"()") + "." + path
		}
	}
	return path
}

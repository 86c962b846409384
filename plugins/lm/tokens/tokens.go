// Package tokens bounds how many tokens a text makes, from a tokenizer.json of Hugging Face's tokenizers: by its bytes
// for any tokenizer whose smallest token is a byte, and exactly for byte-level BPE with a pre-tokenizer that it knows.
package tokens

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// A Tokenizer bounds the number of tokens of a text. Figures are of tokenizers 0.23.
type Tokenizer struct {
	exact    *splitter // the pre-tokenizer; nil where tokens are bounded alone
	composes bool      // the normalizer is NFC
	prefix   int       // tokens that a text may have for a space in front of it
	ids      map[string]int32
	merges   map[[2]int32]merge
	whole    bool // a piece that is in the vocabulary is not merged (ignore_merges)
	added    map[byte][]string
	known    map[string]int // the tokens of pieces that were counted
}

// A merge makes one token of two.
type merge struct{ rank, id int32 }

// ByBytes is a tokenizer of which only that is known: a token has a byte or more, after NFC and a space in front.
func ByBytes() *Tokenizer { return &Tokenizer{composes: true, prefix: 1} }

// An addedToken is one that is matched as it stands, before anything is split.
type addedToken struct {
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
}

// A step is a normalizer or a pre-tokenizer.
type step struct {
	Type           string `json:"type"`
	Normalizers    []step `json:"normalizers"`
	PreTokenizers  []step `json:"pretokenizers"`
	AddPrefixSpace bool   `json:"add_prefix_space"`
	UseRegex       *bool  `json:"use_regex"`
	Behavior       string `json:"behavior"`
	Invert         bool   `json:"invert"`
	Pattern        struct {
		Regex  string
		String string
	} `json:"pattern"`
	Content string `json:"content"`
	Prepend string `json:"prepend"`
}

type tokenizerFile struct {
	Padding      *struct{}    `json:"padding"`
	Added        []addedToken `json:"added_tokens"`
	Normalizer   *step        `json:"normalizer"`
	PreTokenizer *step        `json:"pre_tokenizer"`
	Model        struct {
		Type         string           `json:"type"`
		Dropout      *float64         `json:"dropout"`
		ByteFallback bool             `json:"byte_fallback"`
		IgnoreMerges bool             `json:"ignore_merges"`
		Prefix       string           `json:"continuing_subword_prefix"`
		Suffix       string           `json:"end_of_word_suffix"`
		Vocab        map[string]int32 `json:"vocab"`
		Merges       json.RawMessage  `json:"merges"`
	} `json:"model"`
}

// ErrUnknown is the error for a tokenizer that may make more tokens than a text has bytes.
var ErrUnknown = errors.New("its tokens are not bounded by bytes")

// underscore takes the place of a space in SentencePiece.
const underscore = "▁"

// Read reads a tokenizer.json. The error is [ErrUnknown] for one that has no bound.
func Read(text []byte) (*Tokenizer, error) {
	var f tokenizerFile
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("reading the tokenizer: %w", err)
	}
	m := f.Model
	if f.Padding != nil {
		return nil, fmt.Errorf("texts are padded: %w", ErrUnknown)
	}
	if m.Type != "BPE" || m.Dropout != nil && *m.Dropout != 0 || m.Prefix+m.Suffix != "" {
		return nil, fmt.Errorf("a model of type %q: %w", m.Type, ErrUnknown)
	}
	t := &Tokenizer{ids: m.Vocab, whole: m.IgnoreMerges}
	split := t.split(f.PreTokenizer)
	switch normal := normalizer(f.Normalizer); {
	case split != nil && (normal == "" || normal == "NFC"):
		t.composes = normal == "NFC"
		if complete(m.Vocab, level[:]) && t.prefix == 0 && t.adds(f.Added) == nil && t.pairs(m.Merges) == nil {
			t.exact = split
		}
	case m.ByteFallback && normal == "▁" && complete(m.Vocab, append(fallbacks(), underscore)):
		t.prefix = 1
		// each stretch between two of them may get a space of its own, which a longer one pays for
		if slices.ContainsFunc(f.Added, func(a addedToken) bool { return len(a.Content) < 2 }) && prepends(f) {
			return nil, fmt.Errorf("an added token of one byte: %w", ErrUnknown)
		}
	default:
		return nil, ErrUnknown
	}
	t.known = map[string]int{}
	return t, nil
}

// normalizer is "" for none, "NFC", or "▁" where a space becomes one character and one may be put in front.
func normalizer(n *step) string {
	if n == nil {
		return ""
	}
	steps := []step{*n}
	if n.Type == "Sequence" {
		steps = n.Normalizers
	}
	if len(steps) == 0 {
		return ""
	}
	if len(steps) == 1 && steps[0].Type == "NFC" {
		return "NFC"
	}
	for _, s := range steps {
		switch {
		case s.Type == "Prepend" && s.Prepend == underscore:
		case s.Type == "Replace" && s.Pattern.String == " " && s.Content == underscore:
		default:
			return s.Type + "?"
		}
	}
	return underscore
}

func prepends(f tokenizerFile) bool {
	n := f.Normalizer
	return n != nil && (n.Type == "Prepend" ||
		slices.ContainsFunc(n.Normalizers, func(s step) bool { return s.Type == "Prepend" }))
}

// split is the pre-tokenizer of a byte-level BPE; nil for another one.
func (t *Tokenizer) split(p *step) *splitter {
	if p == nil {
		return nil
	}
	steps := []step{*p}
	if p.Type == "Sequence" {
		steps = p.PreTokenizers
	}
	switch {
	case len(steps) == 1 && steps[0].Type == "ByteLevel":
		if steps[0].AddPrefixSpace {
			t.prefix = 1
		}
		if steps[0].UseRegex == nil || *steps[0].UseRegex {
			return &splitters[0]
		}
	case len(steps) == 2 && steps[0].Type == "Split" && steps[1].Type == "ByteLevel" && steps[1].UseRegex != nil &&
		!*steps[1].UseRegex && !steps[1].AddPrefixSpace && steps[0].Behavior == "Isolated" && !steps[0].Invert:
		for i := range splitters {
			if splitters[i].regex == steps[0].Pattern.Regex {
				return &splitters[i]
			}
		}
	}
	return nil
}

func complete(vocabulary map[string]int32, tokens []string) bool {
	return !slices.ContainsFunc(tokens, func(token string) bool { _, ok := vocabulary[token]; return !ok })
}

// fallbacks are the tokens of single bytes, of a BPE with byte_fallback.
func fallbacks() (tokens []string) {
	for b := range 256 {
		tokens = append(tokens, fmt.Sprintf("<0x%02X>", b))
	}
	return tokens
}

// level is the character of each byte in a byte-level vocabulary (pre_tokenizers/byte_level.rs, bytes_char).
var level = func() (characters [256]string) {
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if b <= ' ' || b >= 0x7f && b <= 0xa0 || b == 0xad {
			r = next
			next++
		}
		characters[b] = string(r)
	}
	return characters
}()

var errAdded = errors.New("an added token that takes more than itself")

// adds reads the added tokens.
func (t *Tokenizer) adds(all []addedToken) error {
	t.added = map[byte][]string{}
	for _, a := range all {
		if a.SingleWord || a.LStrip || a.RStrip || a.Content == "" || a.Normalized != all[0].Normalized {
			return errAdded
		}
		t.added[a.Content[0]] = append(t.added[a.Content[0]], a.Content)
	}
	for _, same := range t.added { // the longest that matches
		slices.SortFunc(same, func(x, y string) int { return len(y) - len(x) })
	}
	return nil
}

// pairs reads the merges, which are pairs or texts with a space.
func (t *Tokenizer) pairs(text json.RawMessage) error {
	var pairs [][2]string
	if json.Unmarshal(text, &pairs) != nil {
		var joined []string
		if err := json.Unmarshal(text, &joined); err != nil {
			return err
		}
		for _, j := range joined {
			left, right, ok := strings.Cut(j, " ")
			if !ok {
				return ErrUnknown
			}
			pairs = append(pairs, [2]string{left, right})
		}
	}
	t.merges = make(map[[2]int32]merge, len(pairs))
	for rank, p := range pairs {
		left, ok := t.ids[p[0]]
		right, also := t.ids[p[1]]
		id, made := t.ids[p[0]+p[1]]
		if !ok || !also || !made {
			return ErrUnknown
		}
		t.merges[[2]int32{left, right}] = merge{int32(rank), id}
	}
	return nil
}

// Most is a number of tokens that a text does not exceed, by its bytes.
func (t *Tokenizer) Most(text string) int {
	n := len(text) + t.prefix
	if t.composes && !plain(text) {
		// a character has at most three times its bytes when it is decomposed, and a composition makes none longer
		// (of all of Unicode 15; https://www.unicode.org/faq/normalization.html has the same factor)
		for i := range len(text) {
			if text[i] >= 0x80 {
				n += 2
			}
		}
	}
	return n
}

// Counts reports whether [Tokenizer.Count] counts, rather than bounds.
func (t *Tokenizer) Counts() bool { return t.exact != nil }

// Made reports whether a class of transformers 5 that makes a tokenizer from vocabulary and merges alone makes this
// one: it has a normalizer and a pre-tokenizer of its own (models/qwen2/tokenization_qwen2.py:73,
// models/gpt2/tokenization_gpt2.py).
func (t *Tokenizer) Made(class string) bool {
	switch {
	case t.exact == nil || t.whole:
		return false
	case class == "Qwen2Tokenizer":
		return t.exact == &splitters[1] && t.composes
	case class == "GPT2Tokenizer":
		return t.exact == &splitters[0] && !t.composes
	}
	return false
}

// What is counted: a longer text is bounded as a whole, and a longer piece by its bytes, which takes no time.
const (
	maxText  = 1 << 20
	maxPiece = 64 << 10
)

// Count is the number of tokens of a text without those that a post-processor adds, or otherwise [Tokenizer.Most]. A
// piece without a boundary of more than 64 KiB has its bytes in it.
func (t *Tokenizer) Count(text string) (n int) {
	if t.exact == nil || len(text) > maxText || t.composes && !plain(text) || !told(text) {
		return t.Most(text)
	}
	from := 0
	for i := 0; i < len(text); {
		token := t.addedAt(text, i)
		if token == "" {
			i++
			continue
		}
		n += t.stretch(text[from:i]) + 1
		i += len(token)
		from = i
	}
	return n + t.stretch(text[from:])
}

func (t *Tokenizer) addedAt(text string, i int) string {
	for _, a := range t.added[text[i]] {
		if strings.HasPrefix(text[i:], a) {
			return a
		}
	}
	return ""
}

// stretch counts what lies between added tokens.
func (t *Tokenizer) stretch(text string) (n int) {
	for _, piece := range t.exact.pieces(text) {
		if len(piece) > maxPiece { // text is not composed here: a byte is a token at most
			n += len(piece)
			continue
		}
		count, ok := t.known[piece]
		if !ok {
			count = t.merged(piece)
			if len(piece) < 64 && len(t.known) < 1<<18 {
				t.known[piece] = count
			}
		}
		n += count
	}
	return n
}

// plain reports whether NFC leaves a text as it is, and no other character could compose with it. It is not asked of
// scripts with marks, where the answer depends on what stands beside them.
func plain(text string) bool {
	for _, r := range text {
		if r >= 0x300 && !stays(r) {
			return false
		}
	}
	return true
}

// steady are characters that have no canonical decomposition to another one, and that nothing composes with but marks.
var steady = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x370, Hi: 0x373, Stride: 1}, {Lo: 0x375, Hi: 0x37d, Stride: 1}, {Lo: 0x37f, Hi: 0x386, Stride: 1},
	{Lo: 0x388, Hi: 0x52f, Stride: 1}, {Lo: 0x5d0, Hi: 0x5ea, Stride: 1}, {Lo: 0x620, Hi: 0x6ff, Stride: 1},
	{Lo: 0xe00, Hi: 0xe7f, Stride: 1}, {Lo: 0x2002, Hi: 0x2125, Stride: 1}, {Lo: 0x2127, Hi: 0x2129, Stride: 1},
	{Lo: 0x212c, Hi: 0x2328, Stride: 1}, {Lo: 0x232b, Hi: 0x2adb, Stride: 1}, {Lo: 0x2add, Hi: 0x2bff, Stride: 1},
	{Lo: 0x3000, Hi: 0x318f, Stride: 1}, {Lo: 0x3200, Hi: 0x4dbf, Stride: 1}, {Lo: 0x4e00, Hi: 0x9fff, Stride: 1},
	{Lo: 0xac00, Hi: 0xd7a3, Stride: 1}, {Lo: 0xfe00, Hi: 0xfe0f, Stride: 1}, {Lo: 0xff00, Hi: 0xffef, Stride: 1},
}, R32: []unicode.Range32{{Lo: 0x1f300, Hi: 0x1faff, Stride: 1}}}

func stays(r rune) bool {
	return unicode.Is(steady, r) && (!unicode.Is(unicode.M, r) || r >= 0xfe00 && r <= 0xfe0f)
}

// told reports whether the classes of all characters of a text are known here: other versions of Unicode have more. Two
// letters match an ASCII one without regard to case.
func told(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return r > unicode.MaxLatin1 && (r == 0x17f || r == 0x212a || r == unicode.ReplacementChar ||
			!unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.C))
	})
}

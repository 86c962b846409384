package tokens

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

type recorded struct {
	Texts  []string
	Files  map[string]json.RawMessage
	Counts map[string][]int
}

func read(t testing.TB) (r recorded) {
	t.Helper()
	text, err := os.ReadFile("testdata/tokens.json")
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What tokenizers 0.23.3 made of the texts (tools/capture/tokens_lm.py): never more than the bound, and the count where
// it is one.
func TestRecorded(t *testing.T) {
	r := read(t)
	for name, file := range r.Files {
		tok, err := Read(file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if counts := name != "sentencepiece"; tok.Counts() != counts {
			t.Errorf("%s counts: %t, want %t", name, tok.Counts(), counts)
		}
		exact := 0
		for i, text := range r.Texts {
			want, got := r.Counts[name][i], tok.Count(text)
			if most := tok.Most(text); most < want || got > most {
				t.Errorf("%s: at most %d tokens and %d counted, and %q has %d", name, most, got, text, want)
			}
			switch {
			case got == want:
				exact++
			case got != tok.Most(text):
				t.Errorf("%s: %d tokens, and %q has %d", name, got, text, want)
			}
		}
		if tok.Counts() && exact < len(r.Texts)*3/5 {
			t.Errorf("%s: %d of %d texts were counted", name, exact, len(r.Texts))
		}
	}
}

// A tokenizer that may make more tokens than bytes, or others than this package counts.
func TestRefuses(t *testing.T) {
	r := read(t)
	for name, tt := range map[string]struct {
		file     string
		old, new string
		err      bool // there is no bound; otherwise one, but no count
	}{
		"another model":       {"gpt2", `"type":"BPE"`, `"type":"Unigram"`, true},
		"no bytes":            {"sentencepiece", `"byte_fallback":true`, `"byte_fallback":false`, true},
		"a byte is missing":   {"sentencepiece", `"<0x41>":`, `"<0x411>":`, true},
		"another normalizer":  {"qwen", `"type":"NFC"`, `"type":"NFKC"`, true},
		"another split":       {"llama3", `{1,3}`, `{1,4}`, true},
		"a space in front":    {"gpt2", `"add_prefix_space":false`, `"add_prefix_space":true`, false},
		"padded":              {"gpt2", `"padding":null`, `"padding":{"strategy":"BatchLongest"}`, true},
		"a token with spaces": {"gpt2", `"lstrip":false`, `"lstrip":true`, false},
	} {
		text := strings.ReplaceAll(string(r.Files[tt.file]), tt.old, tt.new)
		if text == string(r.Files[tt.file]) {
			t.Errorf("%s: the file has no %s", name, tt.old)
		}
		switch tok, err := Read([]byte(text)); {
		case tt.err != errors.Is(err, ErrUnknown):
			t.Errorf("%s: %v", name, err)
		case err == nil && tok.Counts():
			t.Errorf("%s: it counts", name)
		}
	}
}

// A class that makes a tokenizer of its own makes the same one.
func TestMade(t *testing.T) {
	r := read(t)
	for class, file := range map[string]string{"Qwen2Tokenizer": "qwen", "GPT2Tokenizer": "gpt2"} {
		for name, text := range r.Files {
			tok, err := Read(text)
			if err != nil || tok.Made(class) != (name == file) {
				t.Errorf("%s makes %s: %t, %v", class, name, tok.Made(class), err)
			}
		}
	}
	plain := strings.Replace(string(r.Files["qwen"]), `"normalizer":{"type":"NFC"}`, `"normalizer":null`, 1)
	if tok, err := Read([]byte(plain)); err != nil || !tok.Counts() || tok.Made("Qwen2Tokenizer") {
		t.Errorf("without NFC it is not Qwen2Tokenizer's: %v", err)
	}
}

func TestByBytes(t *testing.T) {
	tok := ByBytes()
	for text, want := range map[string]int{"": 1, "abc": 4, "\u00e9": 3, "e\u0301": 8, "你好": 7} {
		if got := tok.Count(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// A text or a piece that is too long is bounded by its bytes, and in no time.
func TestCountsInTime(t *testing.T) {
	tok, err := Read(read(t).Files["gpt2"])
	if err != nil {
		t.Fatal(err)
	}
	word := strings.Repeat("the ", 20)
	for name, tt := range map[string]struct {
		text  string
		bytes bool // it is bounded by them
	}{
		"a text":         {strings.Repeat("the ", maxText/4), false},
		"a longer text":  {strings.Repeat("the ", maxText/4) + "the ", true},
		"a piece":        {strings.Repeat("the", maxPiece/3), false},
		"a longer piece": {strings.Repeat("the", maxPiece/3+1), true},
		"16 MiB":         {strings.Repeat("the", 16<<20/3), true},
	} {
		begun := time.Now()
		n := tok.Count(tt.text)
		if took := time.Since(begun); (n == len(tt.text)) != tt.bytes || n > len(tt.text) || took > 10*time.Second {
			t.Errorf("%s of %d bytes has %d tokens, by its bytes: want %t (%v)", name, len(tt.text), n, tt.bytes, took)
		}
	}
	// what lies beside a long piece is counted
	if n, most := tok.Count(strings.Repeat("a", maxPiece+1)+" "+word), maxPiece+1+tok.Count(" "+word); n != most {
		t.Errorf("%d tokens, want %d", n, most)
	}
}

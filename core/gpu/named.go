package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/launch-ml/launch/core/unit"
)

// A Card is one that is known by its name.
type Card struct {
	Name   string
	Sees   string // what PyTorch sees of it, as a log prints it; without a source its nominal size
	Source string // "" if none was found
}

// Bytes is the memory that a program can have of the card.
func (c Card) Bytes() unit.Bytes {
	b, _ := unit.Parse(c.Sees) // the tests parse them all
	return b
}

// Kind is the kind of device that the card is, by how its maker calls its cards.
func (c Card) Kind() string {
	for kind, begins := range map[string][]string{HIP: {"MI", "RX ", "PRO R"}, XPU: {"Arc ", "Max "}} {
		if slices.ContainsFunc(begins, func(b string) bool { return strings.HasPrefix(c.Name, b) }) {
			return kind
		}
	}
	return CUDA
}

// From is where the size is from, in words.
func (c Card) From() string {
	from := fmt.Sprintf("PyTorch sees %.2f GiB of it", float64(c.Bytes())/float64(unit.GiB))
	if c.Source == "" {
		from = "nominal size, of which PyTorch sees less"
	}
	if others := variants(words(c.Name)); len(others) > 0 {
		from += "; other variants: " + strings.Join(others, ", ")
	}
	return from
}

// Named returns a card by its name, as people type it ("rtx3090") or nvidia-smi prints it ("NVIDIA A100-SXM4-80GB").
func Named(name string) (Card, bool) {
	for _, typed := range [][]string{words(name), without(words(name), "pcie", "sxm")} {
		for _, c := range cards {
			if len(typed) > 0 && key(words(c.Name)) == key(typed) {
				return c, true
			}
		}
	}
	return alike(without(words(name), "pcie", "sxm"))
}

// alike is the smallest of the cards that a name leaves open, where that makes no difference: their memory is the same
// within a hundredth. An H100 NVL is never called an H100 alone.
func alike(typed []string) (least Card, ok bool) {
	most := unit.Bytes(0)
	for _, name := range variants(typed) {
		w := words(name)
		if slices.Contains(w, "nvl") {
			continue
		}
		for _, c := range cards {
			if c.Name == name && (most == 0 || c.Bytes() < least.Bytes()) {
				least = c
			}
			if c.Name == name {
				most = max(most, c.Bytes())
			}
		}
	}
	if most == 0 || most-least.Bytes() >= most/100 {
		return Card{}, false
	}
	return least, true
}

// Sizes are the cards that a name leaves open, "A100 40GB" and "A100 80GB" of "A100".
func Sizes(name string) []string { return variants(without(words(name), "pcie", "sxm")) }

// mostNear bounds the names that [Near] returns.
const mostNear = 4

// Near returns the names that a mistyped name may mean, the nearest first.
func Near(name string) []string {
	typed := key(words(name))
	if len(typed) < 2 {
		return nil
	}
	type found struct {
		name     string
		distance int
	}
	var all []found
	for _, c := range cards {
		known := key(words(c.Name))
		d := levenshtein.ComputeDistance(typed, known)
		switch { // "6000" of "RTX 6000" is in the names of four cards
		case len(typed) > 2 && strings.Contains(known, typed):
			d = 1
		case len(known) > 3 && strings.Contains(typed, known):
			d = min(d, 2)
		}
		if d < 2 || d == 2 && len(typed) > 3 && typed[0] == known[0] {
			all = append(all, found{c.Name, d})
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(a.distance, b.distance) })
	var out []string
	for _, f := range all[:min(mostNear, len(all))] {
		out = append(out, f.name)
	}
	return out
}

// variants are the whole cards whose names continue these words: other sizes, another socket, ECC.
func variants(of []string) (out []string) {
	for i := 0; i < len(cards) && len(of) > 0; i++ { // of no words, as every start without --vram asks, there are none
		if w := words(cards[i].Name); len(w) > len(of) && slices.Equal(w[:len(of)], of) && apart(w[len(of)]) {
			out = append(out, cards[i].Name)
		}
	}
	return out
}

// apart reports whether a word tells variants of one card apart: "80gb" does, "ti" names another card.
func apart(word string) bool {
	return slices.Contains([]string{"ecc", "pcie", "nvl", "server", "workstation"}, word) || size(word)
}

// size reports whether a word is an amount of memory, "80gb"; "1g.5gb" is a MIG profile.
func size(word string) bool {
	digits, is := strings.CutSuffix(word, "gb")
	return is && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// noise are the words of a card's name that tell nothing apart: makers, series and what nvidia-smi adds.
var noise = []string{"nvidia", "geforce", "tesla", "amd", "radeon", "instinct", "ai", "intel", "data", "center", "gpu",
	"graphics", "generation", "edition", "blackwell", "mig", "hbm2", "hbm2e", "hbm3", "hbm3e"}

// words are the words of a card's name that tell it from others, in lower case, without its series where the rest is
// enough: "rtx3090" and "NVIDIA GeForce RTX 3090" are "3090".
func words(name string) []string {
	name = strings.NewReplacer("(r)", "", "(tm)", "", "+me", "", "gib", "gb").Replace(strings.ToLower(name))
	all := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune(" -_/\t", r) })
	all = without(all, noise...)
	for i, w := range all {
		if strings.HasPrefix(w, "sxm") {
			all[i] = "sxm" // of any generation
		}
		if size(w + "b") { // "80G"
			all[i] = w + "b"
		}
	}
	for i := len(all) - 1; i > 0; i-- { // "80 GB"
		if all[i] == "gb" && size(all[i-1]+"gb") {
			all[i-1] += "gb"
			all = slices.Delete(all, i, i+1)
		}
	}
	if slices.ContainsFunc(all, func(w string) bool { return strings.Contains(w, "g.") }) { // its profile tells the card
		all = slices.DeleteFunc(all, func(w string) bool { return size(w) || w == "pcie" || w == "sxm" })
	}
	for _, series := range []string{"gtx", "rtx", "rx", "arc"} {
		if len(all) > 0 && strings.HasPrefix(all[0], series) {
			all[0] = strings.TrimPrefix(all[0], series)
			break
		}
	}
	return without(all, "")
}

func without(all []string, drop ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(w string) bool { return slices.Contains(drop, w) })
}

// key is a name in one word, so that "rtx3090ti" is "RTX 3090 Ti".
func key(words []string) string { return strings.Join(words, "") }

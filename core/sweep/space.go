package sweep

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A Dimension is one key with its values or, zipped, several keys whose values are paired.
type Dimension struct {
	Keys   []string `json:"keys"`
	Values []Values `json:"values"` // for each key; of several keys all lists have the same length
}

// A Space is what a sweep may try.
type Space struct {
	// Dimensions are multiplied: the last one changes fastest. With Random they are drawn from.
	Dimensions []Dimension `json:"dimensions,omitempty"`
	// Seeds repeat each row with every value of a key. They are not drawn from.
	Seeds []Dimension `json:"seeds,omitempty"`
	// Where are conditions that every row fulfils.
	Where []Condition `json:"where,omitempty"`
	// Only sets keys in those rows alone that fulfil a condition; other rows lack the key.
	Only []Only `json:"only,omitempty"`
	// Random is the number of rows to draw; 0: the whole product.
	Random int    `json:"random,omitempty"`
	Seed   uint64 `json:"seed,omitempty"`
}

// Only is a key that is set only where a condition holds.
type Only struct {
	Key   string    `json:"key"`
	Where Condition `json:"where"`
}

// ParseGrid reads "KEY=a,b".
func ParseGrid(text string) (Dimension, error) {
	key, values, ok := strings.Cut(text, "=")
	key = strings.TrimSpace(key)
	if !ok || key == "" {
		return Dimension{}, fmt.Errorf("%q is not KEY=VALUE,VALUE", text)
	}
	v, err := ParseValues(values)
	if err != nil {
		return Dimension{}, fmt.Errorf("%s: %w", key, err)
	}
	return Dimension{[]string{key}, []Values{v}}, nil
}

// ParseZip reads "KEY=a,b;KEY2=c,d": the first values belong together, and so on.
func ParseZip(text string) (d Dimension, err error) {
	for _, part := range splitOutside(text, ';') {
		one, err := ParseGrid(part)
		if err != nil {
			return d, err
		}
		d.Keys, d.Values = append(d.Keys, one.Keys...), append(d.Values, one.Values...)
	}
	return d, d.check()
}

// splitOutside splits a text at a separator that stands in no double quotes.
func splitOutside(text string, at rune) (parts []string) {
	var b strings.Builder
	quoted := false
	for _, r := range text {
		if r == '"' {
			quoted = !quoted
		}
		if r == at && !quoted {
			parts = append(parts, b.String())
			b.Reset()
			continue
		}
		b.WriteRune(r)
	}
	return append(parts, b.String())
}

func (d Dimension) check() error {
	if len(d.Keys) == 0 || len(d.Keys) != len(d.Values) {
		return errors.New("a dimension needs a key and its values")
	}
	for i, v := range d.Values {
		switch {
		case v.Draw == nil && len(v.List) == 0:
			return fmt.Errorf("%s has no values", d.Keys[i])
		case len(d.Keys) > 1 && v.Draw != nil:
			return fmt.Errorf("%s: a range to draw from cannot be paired with other keys", d.Keys[i])
		case len(v.List) != len(d.Values[0].List) && len(d.Keys) > 1:
			return fmt.Errorf("%s has %d values and %s has %d: paired keys have the same number", d.Keys[0],
				len(d.Values[0].List), d.Keys[i], len(v.List))
		}
	}
	return nil
}

// size is the number of rows of a dimension.
func (d Dimension) size() int { return len(d.Values[0].List) }

// at returns row i of a dimension.
func (d Dimension) at(i int) (a Assignment) {
	for k, key := range d.Keys {
		a = append(a, Setting{key, d.Values[k].List[i]})
	}
	return a
}

// Check returns an error if the space is not complete and free of contradictions.
func (s Space) Check() error {
	seen := map[string]bool{}
	for _, d := range slices.Concat(s.Dimensions, s.Seeds) {
		if err := d.check(); err != nil {
			return err
		}
		for _, key := range d.Keys {
			if seen[key] {
				return fmt.Errorf("%s has values twice", key)
			}
			if err := CheckKey(key); err != nil {
				return err
			}
			seen[key] = true
		}
	}
	for _, d := range s.Seeds {
		if slices.ContainsFunc(d.Values, func(v Values) bool { return v.Draw != nil }) {
			return fmt.Errorf("%s: seeds are a list or a range of whole numbers", d.Keys[0])
		}
	}
	for _, d := range s.Dimensions {
		if d.Values[0].Draw != nil && s.Random == 0 {
			return fmt.Errorf("%s is a range to draw from: give the number of rows with --random", d.Keys[0])
		}
	}
	var errs []error
	for _, c := range s.Where {
		errs = append(errs, c.check(seen))
	}
	for _, o := range s.Only {
		if !seen[o.Key] {
			errs = append(errs, fmt.Errorf("%s has a condition but no values", o.Key))
		}
		errs = append(errs, o.Where.check(seen))
	}
	return errors.Join(errs...)
}

// Assignments lists the rows of the space. Two rows that are the same after their conditions become one.
func (s Space) Assignments() ([]Assignment, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	var base []Assignment
	var err error
	if s.Random > 0 {
		base, err = s.drawn()
	} else {
		base, err = product(nil, s.Dimensions)
	}
	if err != nil {
		return nil, err
	}
	kept := collect{space: s, seen: map[string]bool{}}
	for _, a := range base {
		rows, err := product(a, s.Seeds)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if err := kept.add(row); err != nil {
				return nil, err
			}
		}
		if len(kept.rows) > mostValues {
			return nil, fmt.Errorf("the sweep has more than %d trials", mostValues)
		}
	}
	if len(kept.rows) == 0 && len(base) > 0 {
		return nil, errors.New("no row fulfils the conditions")
	}
	return kept.rows, nil
}

// product lists first with every combination of the dimensions' rows.
func product(first Assignment, ds []Dimension) ([]Assignment, error) {
	total := 1
	for _, d := range ds {
		if total *= d.size(); total > mostValues {
			return nil, fmt.Errorf("the sweep has more than %d trials", mostValues)
		}
	}
	out := make([]Assignment, 0, total)
	for i := range total {
		a, at := slices.Clone(first), i
		picked := make([]int, len(ds))
		for k, d := range slices.Backward(ds) {
			picked[k], at = at%d.size(), at/d.size()
		}
		for k, d := range ds {
			a = append(a, d.at(picked[k])...)
		}
		out = append(out, a)
	}
	return out, nil
}

// collect keeps rows that fulfil the conditions, each once.
type collect struct {
	space Space
	seen  map[string]bool
	rows  []Assignment
}

func (c *collect) add(a Assignment) error {
	a, ok, err := c.space.keep(a)
	if err != nil || !ok || c.seen[a.id()] {
		return err
	}
	c.seen[a.id()] = true
	c.rows = append(c.rows, a)
	return nil
}

// keep applies the conditions to a row.
func (s Space) keep(a Assignment) (Assignment, bool, error) {
	left := slices.Clone(a)
	for _, o := range s.Only {
		holds, err := o.Where.holds(a)
		if err != nil {
			return nil, false, err
		}
		if !holds {
			left = slices.DeleteFunc(left, func(x Setting) bool { return x.Key == o.Key })
		}
	}
	for _, c := range s.Where {
		if holds, err := c.holds(left); err != nil || !holds {
			return nil, false, err
		}
	}
	return left, true, nil
}

// tries is how many draws are made for each row that is wanted, before the space counts as used up.
const tries = 100

// drawn draws rows. Row i depends only on the seed and on the rows before it, so a longer sweep of the same seed begins
// with the same rows. It returns fewer rows if the space has not more.
func (s Space) drawn() ([]Assignment, error) {
	if len(s.Dimensions) == 0 {
		return nil, errors.New("--random needs keys to draw: add --grid KEY=VALUES")
	}
	if s.Random > mostValues {
		return nil, fmt.Errorf("the sweep has more than %d trials", mostValues)
	}
	r := rand.New(rand.NewPCG(s.Seed, 0x6c61756e6368)) // the second number is arbitrary, and must not change
	got := collect{space: Space{Where: s.drawable(), Only: s.Only}, seen: map[string]bool{}}
	for i := 0; i < tries*s.Random && len(got.rows) < s.Random; i++ {
		var a Assignment
		for _, d := range s.Dimensions {
			if d.Values[0].Draw != nil {
				a = append(a, Setting{d.Keys[0], d.Values[0].draw(r)})
			} else {
				a = append(a, d.at(r.IntN(d.size()))...)
			}
		}
		if err := got.add(a); err != nil {
			return nil, err
		}
	}
	return got.rows, nil
}

// drawable returns the conditions that do not look at seeds: those can be checked while rows are drawn.
func (s Space) drawable() (out []Condition) {
	seeds := map[string]bool{}
	for _, d := range s.Seeds {
		for _, key := range d.Keys {
			seeds[key] = true
		}
	}
	for _, c := range s.Where {
		if !slices.ContainsFunc(c.keys(), func(key string) bool { return seeds[key] }) {
			out = append(out, c)
		}
	}
	return out
}

// CheckKey returns an error if a text cannot be a key.
func CheckKey(key string) error {
	switch {
	case strings.ContainsAny(key, "{}= \t\n\x00") || key == "env:" || strings.Trim(key, "-") == "":
		return fmt.Errorf("%q cannot be a key", key)
	}
	return nil
}

package sweep

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// The numbers of a range are computed exactly, as decimals. Their texts are those that Python prints for the same
// numbers, so that a program that names its folder by a value names it as its own code would.

// mostDigits bounds the digits of a number in a range, and the size of its exponent.
const mostDigits = 400

// decimal reads a decimal number. whole reports that it is written as an integer.
func decimal(text string) (x *big.Rat, whole bool, err error) {
	mantissa, exponent, scientific := strings.Cut(strings.ToLower(text), "e")
	if scientific {
		e, err := strconv.Atoi(strings.TrimPrefix(exponent, "+"))
		if err != nil || e > mostDigits || e < -mostDigits {
			return nil, false, fmt.Errorf("%s is too large or too small for a range", text)
		}
	}
	if len(mantissa) > mostDigits {
		return nil, false, fmt.Errorf("a number of a range has more than %d digits", mostDigits)
	}
	x, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, false, fmt.Errorf("%q is not a number", text)
	}
	return x, !scientific && !strings.Contains(mantissa, "."), nil
}

// expand lists the numbers of A..B..STEP, both ends included. Without a step the ends are whole numbers. A step without
// a sign leads from A to B; one with a sign has to.
func expand(from, to, step string) ([]string, error) {
	a, wholeA, errA := decimal(from)
	b, wholeB, errB := decimal(to)
	if err := errors.Join(errA, errB); err != nil {
		return nil, err
	}
	by, whole := big.NewRat(1, 1), wholeA
	if step == "" && !(wholeA && wholeB) {
		return nil, errors.New("a range of fractions needs a step, such as 0.1..0.5..0.1")
	}
	if step != "" {
		var wholeS bool
		var err error
		if by, wholeS, err = decimal(step); err != nil {
			return nil, err
		}
		whole = wholeA && wholeS
	}
	way := new(big.Rat).Sub(b, a)
	switch {
	case by.Sign() == 0:
		return nil, errors.New("the step of a range is not 0")
	case by.Sign() < 0 && way.Sign() > 0:
		return nil, errors.New("a negative step leads away from the end: the range never ends")
	case by.Sign() > 0 && way.Sign() < 0:
		by.Neg(by)
	}
	steps := new(big.Rat).Quo(way, by)
	n := new(big.Int).Quo(steps.Num(), steps.Denom())
	if !n.IsInt64() || n.Int64() >= mostValues {
		return nil, fmt.Errorf("more than %d values", mostValues)
	}
	out := make([]string, n.Int64()+1)
	for i := range out {
		if out[i] = a.FloatString(0); !whole {
			out[i] = asPython(a)
		}
		next := new(big.Rat).Add(a, by)
		if x, _ := a.Float64(); i+1 < len(out) {
			if y, _ := next.Float64(); x == y { // two rows would be one training
				return nil, fmt.Errorf("its values are too close to each other for a program that reads them as floats, to "+
					"which %s and the next one are the same number; a list of values is taken as it is", out[i])
			}
		}
		a = next
	}
	return out, nil
}

// asPython is the text of a decimal number as Python prints the number that is nearest to it: plain from 0.0001 to
// 1e+16, otherwise with an exponent. A whole number has no ".0".
func asPython(x *big.Rat) string {
	if x.Sign() == 0 {
		return "0"
	}
	sign := ""
	if x.Sign() < 0 {
		sign = "-"
	}
	digits, _ := x.FloatPrec() // a decimal number has finitely many
	text := new(big.Rat).Abs(x).FloatString(digits)
	whole, fraction, _ := strings.Cut(text, ".")
	fraction = strings.TrimRight(fraction, "0")
	all := strings.TrimLeft(whole+fraction, "0")
	exponent := len(strings.TrimLeft(whole, "0")) - 1 // of the first digit
	if exponent < 0 {
		exponent = -1 - (len(fraction) - len(strings.TrimLeft(fraction, "0")))
	}
	if exponent >= -4 && exponent < 16 {
		if fraction == "" {
			return sign + whole
		}
		return sign + whole + "." + fraction
	}
	all = strings.TrimRight(all, "0")
	if len(all) > 1 {
		all = all[:1] + "." + all[1:]
	}
	return sign + fmt.Sprintf("%se%+03d", all, exponent)
}

package sweep

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
)

// Values are what a key may be: a list, or a range of numbers to draw from.
type Values struct {
	List []string `json:"list,omitempty"`
	Draw *Draw    `json:"draw,omitempty"`
}

// A Draw is a range of numbers, for random sweeps alone.
type Draw struct {
	How  string  `json:"how"` // "uniform", "log" or "int"
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

const numberText = `-?[0-9]*\.?[0-9]+(?:[eE][-+]?\d+)?`

var (
	rangeText = lazy.MustCompile(`^(` + numberText + `)\.\.(` + numberText + `)(?:\.\.(` + numberText + `))?$`)
	drawText  = lazy.MustCompile(`^(uniform|log|int):(.+)\.\.(.+)$`)
)

// ParseValues reads a list of values separated by commas. A value with a comma stands in double quotes, as in CSV, and
// a quoted value is always taken as it is. Without quotes, 1..5 is 1,2,3,4,5, and 0.1..0.5..0.2 is 0.1,0.3,0.5. The
// forms uniform:A..B, log:A..B and int:A..B are ranges to draw from.
func ParseValues(text string) (Values, error) {
	fields, err := splitCSV(text)
	if err != nil {
		return Values{}, err
	}
	var v Values
	for _, f := range fields {
		if m := drawText.FindStringSubmatch(f.text); m != nil && !f.quoted {
			if len(fields) > 1 {
				return Values{}, fmt.Errorf("%s stands alone: it cannot be one value of a list", f.text)
			}
			v.Draw, err = parseDraw(m[1], m[2], m[3])
			return v, err
		}
		if m := rangeText.FindStringSubmatch(f.text); m != nil && !f.quoted {
			numbers, err := expand(m[1], m[2], m[3])
			if err != nil {
				return Values{}, fmt.Errorf("%s: %w", f.text, err)
			}
			v.List = append(v.List, numbers...)
			continue
		}
		v.List = append(v.List, f.text)
	}
	if len(v.List) > mostValues {
		return Values{}, fmt.Errorf("more than %d values", mostValues)
	}
	return v, nil
}

type field struct {
	text   string
	quoted bool
}

// splitCSV splits one line of CSV (RFC 4180). encoding/csv does not report which fields were quoted, and refuses a
// quote inside a field without quotes, such as {"a": 1}.
func splitCSV(text string) (fields []field, err error) {
	for rest := text; ; {
		if !strings.HasPrefix(rest, `"`) {
			value, after, more := strings.Cut(rest, ",")
			fields = append(fields, field{text: strings.TrimSpace(value)})
			if !more {
				return fields, nil
			}
			rest = strings.TrimLeft(after, " ")
			continue
		}
		var b strings.Builder
		rest = rest[1:]
		for {
			value, after, closed := strings.Cut(rest, `"`)
			b.WriteString(value)
			if !closed {
				return nil, fmt.Errorf("a double quote is not closed: %s", text)
			}
			if rest = after; !strings.HasPrefix(rest, `"`) {
				break
			}
			b.WriteByte('"')
			rest = rest[1:]
		}
		fields = append(fields, field{b.String(), true})
		rest = strings.TrimLeft(rest, " ")
		if rest == "" {
			return fields, nil
		}
		if rest[0] != ',' {
			return nil, fmt.Errorf("after a closing double quote comes a comma: %s", text)
		}
		rest = strings.TrimLeft(rest[1:], " ")
	}
}

func parseDraw(how, from, to string) (*Draw, error) {
	a, errA := strconv.ParseFloat(from, 64)
	b, errB := strconv.ParseFloat(to, 64)
	d := &Draw{how, a, b}
	switch {
	case errA != nil || errB != nil || math.IsInf(b-a, 0) || math.IsNaN(b-a):
		return nil, fmt.Errorf("%s:%s..%s: the ends are two numbers", how, from, to)
	case a >= b:
		return nil, fmt.Errorf("%s:%s..%s: the second number is larger than the first", how, from, to)
	case how == "log" && a <= 0:
		return nil, fmt.Errorf("%s:%s..%s: a logarithmic range begins above 0", how, from, to)
	case how == "int" && (a != math.Trunc(a) || b != math.Trunc(b) || math.Abs(a) > 1<<53 || math.Abs(b) > 1<<53):
		return nil, fmt.Errorf("%s:%s..%s: the ends are whole numbers", how, from, to)
	}
	return d, nil
}

// draw takes one value at random.
func (v Values) draw(r *rand.Rand) string {
	if v.Draw == nil {
		return v.List[r.IntN(len(v.List))]
	}
	d := v.Draw
	switch d.How {
	case "int":
		return strconv.FormatInt(int64(d.From)+r.Int64N(int64(d.To)-int64(d.From)+1), 10)
	case "log":
		x := math.Exp(math.Log(d.From) + r.Float64()*(math.Log(d.To)-math.Log(d.From)))
		return strconv.FormatFloat(x, 'g', 6, 64)
	}
	return strconv.FormatFloat(d.From+r.Float64()*(d.To-d.From), 'g', 6, 64)
}

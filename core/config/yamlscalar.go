package config

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/launch-ml/launch/core/lazy"
)

// What a plain scalar is to PyYAML, and so to msgspec and BasicSR: yaml/resolver.py of PyYAML 6.0,
// "Resolver.add_implicit_resolver". It differs from YAML 1.2 and from Go's libraries: 1e-4 is a string there (an
// exponent needs a dot before it and a sign in it), 010 is 8, yes is true and 1:30 is 90. OmegaConf's loader is PyYAML's
// with another expression for floats, by which 1e-4 is one: for its programs such a string is still to be parsed.
var (
	re11Bool  = lazy.MustCompile(`^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$`)
	re11Float = lazy.MustCompile(`^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?` +
		`|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?` +
		`|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*` +
		`|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)
	re11Int = lazy.MustCompile(`^(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+` +
		`|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)$`)
	re11Time = lazy.MustCompile(`^(?:[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}-[0-9][0-9]?-[0-9][0-9]?` +
		`(?:[Tt]|[ \t]+)[0-9][0-9]?:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9][0-9]?(?::[0-9]{2})?))?)$`)

	// The core schema of YAML 1.2.2, section 10.3.2.
	re12Bool  = lazy.MustCompile(`^(?:true|True|TRUE|false|False|FALSE)$`)
	re12Int   = lazy.MustCompile(`^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$`)
	re12Float = lazy.MustCompile(`^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?` +
		`|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)
)

func isNullText(s string) bool {
	return s == "" || s == "~" || s == "null" || s == "Null" || s == "NULL"
}

// resolve11 reads a plain scalar as PyYAML does. date says that it is a date or a time, which is a string here.
func resolve11(s string) (v value, date bool) {
	if s == "" || s == "=" {
		if s == "=" { // the "value" tag, for which PyYAML has no constructor
			return value{kind: Opaque, text: s}, false
		}
		return value{kind: Null}, false
	}
	switch c := s[0]; {
	case c == '~' || c == 'n' || c == 'N':
		if isNullText(s) {
			return value{kind: Null, text: s}, false
		}
		fallthrough
	case strings.IndexByte("yYtTfFoO", c) >= 0:
		if len(s) <= len("false") && re11Bool.MatchString(s) {
			return bool11(s), false
		}
	case c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.':
		switch {
		case isSmallInt(s): // most numbers; the expressions below are slow
			return int11(s), false
		case re11Float.MatchString(s):
			return float11(s), false
		case re11Int.MatchString(s):
			return int11(s), false
		case re11Time.MatchString(s):
			return value{kind: String, text: s}, true
		}
	}
	return value{kind: String, text: s}, false
}

func isSmallInt(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) < 18 && (s[0] != '0' || s == "0")
}

// bool11, int11 and float11 are PyYAML's constructors (yaml/constructor.py), which also read what an explicit tag
// stands before. What makes them raise is opaque.
func bool11(s string) value {
	switch strings.ToLower(s) {
	case "yes", "true", "on":
		return value{kind: Bool, text: s, b: true}
	case "no", "false", "off":
		return value{kind: Bool, text: s}
	}
	return value{kind: Opaque, text: s}
}

func int11(s string) value {
	if s != "" && isSmallInt(s) {
		i, _ := strconv.ParseInt(s, 10, 64)
		return value{kind: Int, text: s, i: i, f: float64(i)}
	}
	t := strings.ReplaceAll(s, "_", "")
	sign := ""
	if t != "" && (t[0] == '-' || t[0] == '+') {
		sign, t = t[:1], t[1:]
	}
	n, ok := new(big.Int), t != "" && t[0] != '-' && t[0] != '+'
	switch {
	case !ok:
	case strings.HasPrefix(t, "0b"):
		n, ok = n.SetString(t[2:], 2)
	case strings.HasPrefix(t, "0x"):
		n, ok = n.SetString(t[2:], 16)
	case t[0] == '0':
		n, ok = n.SetString(t, 8)
	case len(t) > 4096: // Python's own limit is 4300 digits
		ok = false
	default:
		for part := range strings.SplitSeq(t, ":") {
			d, isInt := new(big.Int).SetString(part, 10)
			if !isInt {
				ok = false
				break
			}
			n.Mul(n, big.NewInt(60)).Add(n, d)
		}
	}
	if !ok {
		return value{kind: Opaque, text: s}
	}
	if sign == "-" {
		n.Neg(n)
	}
	v := value{kind: Int, text: s, isBig: !n.IsInt64()}
	v.f, _ = new(big.Float).SetInt(n).Float64()
	if !v.isBig {
		v.i = n.Int64()
	}
	return v
}

func float11(s string) value {
	t := strings.ToLower(strings.ReplaceAll(s, "_", ""))
	sign := 1.0
	if t != "" && (t[0] == '-' || t[0] == '+') {
		if t[0] == '-' {
			sign = -1
		}
		t = t[1:]
	}
	v := value{kind: Float, text: s}
	switch {
	case t == ".inf":
		v.f = math.Inf(int(sign))
	case t == ".nan":
		v.f = math.NaN()
	case t == "" || strings.ContainsAny(t, "xp"): // Go reads hexadecimal floats, Python does not
		return value{kind: Opaque, text: s}
	default:
		for part := range strings.SplitSeq(t, ":") {
			f, err := strconv.ParseFloat(part, 64)
			if err != nil && !errors.Is(err, strconv.ErrRange) {
				return value{kind: Opaque, text: s}
			}
			v.f = v.f*60 + f
		}
		v.f *= sign
	}
	return v
}

// resolve12 reads a plain scalar by the core schema of YAML 1.2.
func resolve12(s string) value {
	switch {
	case isNullText(s):
		return value{kind: Null, text: s}
	case re12Bool.MatchString(s):
		return bool11(s)
	case re12Int.MatchString(s):
		base, digits := 10, s
		if len(s) > 2 && s[0] == '0' && (s[1] == 'o' || s[1] == 'x') {
			base, digits = map[byte]int{'o': 8, 'x': 16}[s[1]], s[2:]
		}
		n, _ := new(big.Int).SetString(digits, base)
		v := value{kind: Int, text: s, isBig: !n.IsInt64()}
		v.f, _ = new(big.Float).SetInt(n).Float64()
		if !v.isBig {
			v.i = n.Int64()
		}
		return v
	case re12Float.MatchString(s):
		return float11(s)
	}
	return value{kind: String, text: s}
}

// agreed reports whether a plain scalar reads the same by YAML 1.1 and 1.2.
func agreed(s string) bool {
	a, date := resolve11(s)
	b := resolve12(s)
	return !date && same(Value{&a}, Value{&b})
}

// rePlain is narrower than what YAML allows, so that it is safe in flow collections and before a colon too.
var rePlain = lazy.MustCompile(`^[A-Za-z_./][A-Za-z0-9_./+-]*$`)

// YAMLText spells a value in YAML so that readers of YAML 1.1 and 1.2 read the same: nil, bool, int, int64, float64,
// string, or a slice of these.
func YAMLText(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "null", nil
	case float64:
		switch {
		case math.IsInf(v, 1):
			return ".inf", nil
		case math.IsInf(v, -1):
			return "-.inf", nil
		case math.IsNaN(v):
			return ".nan", nil
		}
		return floatText(v), nil
	case string:
		if r, date := resolve11(v); rePlain.MatchString(v) && r.kind == String && !date && resolve12(v).kind == String {
			return v, nil
		}
		return quoteYAML(v)
	}
	return commonText(v, YAMLText)
}

// commonText spells what YAML and TOML spell alike.
func commonText(v any, text func(any) (string, error)) (string, error) {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return strconv.Itoa(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case []any:
		return seqText(v, text)
	case []int:
		return seqText(v, text)
	case []int64:
		return seqText(v, text)
	case []float64:
		return seqText(v, text)
	case []string:
		return seqText(v, text)
	}
	return "", fmt.Errorf("a value of type %T cannot be written", v)
}

func seqText[T any](items []T, text func(any) (string, error)) (string, error) {
	var b strings.Builder
	b.WriteByte('[')
	for i, item := range items {
		t, err := text(item)
		if err != nil {
			return "", err
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(t)
	}
	b.WriteByte(']')
	return b.String(), nil
}

// floatText always has a dot, and a sign in its exponent: YAML 1.1 needs both.
func floatText(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	mantissa, exponent, hasExp := strings.Cut(s, "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	if hasExp {
		return mantissa + "e" + exponent
	}
	return mantissa
}

func quoteYAML(s string) (string, error) {
	if !utf8.ValidString(s) {
		return "", fmt.Errorf("%q is not UTF-8", s)
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || r == 0x7F || r == 0x85 || r == 0xA0 || r == 0x2028 || r == 0x2029 || r == 0xFEFF ||
			r >= 0x80 && r < 0xA0 || r == 0xFFFE || r == 0xFFFF:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String(), nil
}

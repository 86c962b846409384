package report

import (
	"reflect"
	"unicode/utf8"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/ui"
)

// holder is how oom.Holder writes who holds memory of a card. A reader of the report need not know the user's name.
var holder = lazy.MustCompile(`\(pid (-?\d+), [^()]*\)`)

// mask takes secrets, home folders and control characters out of every text of the report. It goes through the report's
// own structure, so that a field that is added later is masked, too.
func (r *Report) mask(m record.Mask) {
	known := map[string]string{}
	clean := func(s string) string {
		if len(s) > maxText {
			n := maxText
			for !utf8.RuneStart(s[n]) {
				n--
			}
			s = s[:n] + "…"
		}
		return holder.ReplaceAllString(m.Text(ui.OneLine(s)), "(pid ${1})")
	}
	eachText(reflect.ValueOf(r).Elem(), func(s string) string {
		out, ok := known[s]
		if !ok {
			out = clean(s)
			known[s] = out
		}
		return out
	})
}

// eachText replaces each string below v by what f returns. Values of numbers are no texts.
func eachText(v reflect.Value, f func(string) string) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(f(v.String()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			eachText(v.Elem(), f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachText(v.Index(i), f)
		}
	case reflect.Struct:
		switch own := v.Addr().Interface().(type) {
		case *Drawing: // the other strings of a shape are names of colours
			own.Strings(f)
			return
		case *Num: // a place may have the name of a metric
			if own.Text = f(own.Text); f(own.At) != own.At {
				own.At = ""
			}
			return
		}
		for i := range v.NumField() {
			eachText(v.Field(i), f)
		}
	}
}

package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"sync"
)

//go:embed drawing.svg
var source string

// Template adds the templates of drawings to those of a page: {{template "drawing" .}} with a [Drawing].
func Template(t *template.Template) (*template.Template, error) { return t.New("plot").Parse(source) }

// own is parsed when it is first used.
var own = sync.OnceValue(func() *template.Template { return template.Must(Template(template.New(""))) })

// SVG returns the drawing as a file of its own. It follows the reader's choice of light or dark.
func SVG(d Drawing) ([]byte, error) {
	var b bytes.Buffer
	err := own().ExecuteTemplate(&b, "file", struct {
		Drawing
		CSS template.CSS
	}{d, template.CSS(Styles())})
	if err != nil {
		return nil, fmt.Errorf("drawing %s: %w", d.Name, err)
	}
	return b.Bytes(), nil
}

// num writes a coordinate.
func num(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

// Path is the outline of a line or an area, as SVG writes it.
func (s Shape) Path() string {
	var b strings.Builder
	for i, p := range s.Points {
		if i == 0 {
			b.WriteByte('M')
		} else {
			b.WriteByte('L')
		}
		b.WriteString(num(p.X) + " " + num(p.Y))
	}
	if s.Closed {
		b.WriteByte('Z')
	}
	return b.String()
}

// The methods below are for the template.

// X is the place of a circle or a text.
func (s Shape) X() string { return num(s.Points[0].X) }

// Y is the place of a circle or a text.
func (s Shape) Y() string { return num(s.Points[0].Y) }

// R is the radius of a circle.
func (s Shape) R() string { return num(s.Radius) }

// Thick is the width of the line; "" for that of SVG.
func (s Shape) Thick() string {
	if s.Width == 0 || s.Width == 1 {
		return ""
	}
	return num(s.Width)
}

// Opacity is how opaque the shape is; "" if it hides what lies below.
func (s Shape) Opacity() string {
	if s.Alpha == 0 {
		return ""
	}
	return strconv.FormatFloat(s.Alpha, 'g', 3, 64)
}

// Class has the classes of the style sheet.
func (s Shape) Class() string {
	var c []string
	switch {
	case s.Fill != None:
		c = append(c, "f-"+string(s.Fill))
	default:
		c = append(c, "no")
	}
	if s.Stroke != None {
		c = append(c, "l-"+string(s.Stroke))
	}
	if s.Bold {
		c = append(c, "b")
	}
	if s.Small {
		c = append(c, "t")
	}
	if s.Key != "" {
		c = append(c, "k")
	}
	return strings.Join(c, " ")
}

// Box is the view box.
func (d Drawing) Box() string { return "0 0 " + num(d.W) + " " + num(d.H) }

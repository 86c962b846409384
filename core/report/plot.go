package report

import (
	"fmt"
	"strconv"
	"strings"
)

// Shapes are drawn as SVG in an HTML page, as an SVG file, and as PNG.
//
// A drawing has no colours of its own. It names them, and a palette has each in a light and a dark variant.

// A Colour is a name in the palette.
type Colour string

// The colours that have a meaning. [Series] has those that tell several things apart.
const (
	None  Colour = ""
	Ink   Colour = "ink"   // text
	Muted Colour = "muted" // text and lines of less weight
	Grid  Colour = "grid"
	Paper Colour = "paper" // the background
	Good  Colour = "good"
	Bad   Colour = "bad"
)

// seriesColours is how many colours tell several things apart.
const seriesColours = 10

// Series returns the colour of the i-th of several things. It repeats after ten.
func Series(i int) Colour { return Colour("s" + strconv.Itoa(i%seriesColours)) }

// palette has each colour on a light and on a dark background. The series are those of Okabe and Ito (Color Universal
// Design, 2008), which people with a colour vision deficiency can tell apart, darker or lighter where a thin line would
// be hard to see on the background, with four more at the end.
var palette = []struct {
	name        Colour
	light, dark string
}{
	{Ink, "#1f2328", "#e6edf3"}, {Muted, "#59636e", "#9198a1"}, {Grid, "#d1d9e0", "#3d444d"},
	{Paper, "#ffffff", "#0d1117"}, {Good, "#1a7f37", "#3fb950"}, {Bad, "#cf222e", "#ff7b72"},
	{Series(0), "#0072b2", "#58a6ff"}, {Series(1), "#d55e00", "#ff9e4a"}, {Series(2), "#009e73", "#2fd6a5"},
	{Series(3), "#a3568b", "#dd8fc4"}, {Series(4), "#b58900", "#e6c229"}, {Series(5), "#2a9fd6", "#8fd3ff"},
	{Series(6), "#6e5494", "#b39ddb"}, {Series(7), "#7a5c3e", "#c9a27e"}, {Series(8), "#5c7c2f", "#a8cc6c"},
	{Series(9), "#6b7280", "#aab2bd"},
}

// A Point is a place, in pixels from the upper left corner.
type Point struct{ X, Y float64 }

// A Shape is a line, an area, a circle or a text.
type Shape struct {
	Points []Point // of a line or an area; one point of a circle or a text
	Closed bool    // an area
	Radius float64 // of a circle
	Text   string
	Anchor Anchor // of a text
	Bold   bool
	Small  bool

	Fill, Stroke Colour
	Width        float64 // of the line; 0: 1
	Dash         bool
	Alpha        float64 // 0: opaque
	// Note is what a person reads who points at the shape.
	Note string
	// Key links the shape with a row of a table.
	Key string
}

// An Anchor is the part of a text that lies at its point.
type Anchor string

// The anchors.
const (
	Start  Anchor = ""
	Middle Anchor = "middle"
	End    Anchor = "end"
)

// A Drawing is shapes on a canvas.
type Drawing struct {
	Name  string // of its file: "memory"
	Title string
	About string // what it shows, for those who do not see it
	Hint  string // how to read it; below the drawing, on a page only
	W, H  float64

	Shapes []Shape
}

// The sizes of text, in pixels.
const (
	textSize  = 12
	smallSize = 10.5
)

// TextWidth is about how wide a text is.
func TextWidth(text string) float64 { return float64(len([]rune(text))) * textSize * 0.56 }

// Fit cuts a text that is wider than that.
func Fit(text string, width float64) string {
	runes := []rune(text)
	most := int(width / (textSize * 0.56))
	switch {
	case len(runes) <= most:
		return text
	case most < 2:
		return ""
	}
	return strings.TrimRight(string(runes[:most-1]), " ") + "…"
}

// Add adds a shape.
func (d *Drawing) Add(s Shape) { d.Shapes = append(d.Shapes, s) }

// Line adds a line from one point to another.
func (d *Drawing) Line(x1, y1, x2, y2 float64, s Shape) {
	s.Points = []Point{{x1, y1}, {x2, y2}}
	d.Add(s)
}

// Rect adds a rectangle.
func (d *Drawing) Rect(x, y, w, h float64, s Shape) {
	s.Points, s.Closed = []Point{{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}}, true
	d.Add(s)
}

// Circle adds a circle.
func (d *Drawing) Circle(x, y, r float64, s Shape) {
	s.Points, s.Radius = []Point{{x, y}}, r
	d.Add(s)
}

// Write adds a text. Without a colour it is ink.
func (d *Drawing) Write(x, y float64, text string, s Shape) {
	if s.Fill == None {
		s.Fill = Ink
	}
	s.Points, s.Text = []Point{{x, y}}, text
	d.Add(s)
}

// Strings calls f for each text of the drawing, and puts what it returns in its place.
func (d *Drawing) Strings(f func(string) string) {
	d.Title, d.About, d.Hint = f(d.Title), f(d.About), f(d.Hint)
	for i := range d.Shapes {
		d.Shapes[i].Text, d.Shapes[i].Note = f(d.Shapes[i].Text), f(d.Shapes[i].Note)
	}
}

// Styles is the style sheet of drawings: the colours as variables, and classes that use them.
func Styles() string {
	var light, dark, classes strings.Builder
	for _, c := range palette {
		fmt.Fprintf(&light, "--%s:%s;", c.name, c.light)
		fmt.Fprintf(&dark, "--%s:%s;", c.name, c.dark)
		fmt.Fprintf(&classes, ".f-%s{fill:var(--%s)}.l-%s{stroke:var(--%s)}\n", c.name, c.name, c.name, c.name)
	}
	return ":root{color-scheme:light dark;" + light.String() + "}\n@media(prefers-color-scheme:dark){:root{" +
		dark.String() + "}}\n" + classes.String() + ".no{fill:none}\n" +
		"svg text{font:12px system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif}\n" +
		"svg text.b{font-weight:600}svg text.t{font-size:10.5px}\n"
}

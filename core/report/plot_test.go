package report

import (
	"bytes"
	"image/color"
	"image/png"
	"strings"
	"testing"
)

// What the SVG describes is in the PNG, at its place and in its colour.
func TestPNG(t *testing.T) {
	d := Drawing{Name: "x", W: 200, H: 100}
	d.Rect(10, 10, 30, 20, Shape{Fill: Good})
	d.Rect(60, 10, 30, 20, Shape{Fill: Good, Alpha: 0.5})
	d.Circle(120, 20, 8, Shape{Fill: Bad})
	d.Line(10, 50, 190, 50, Shape{Stroke: Bad, Width: 3, Dash: true})
	d.Write(150, 80, "HHHH", Shape{Anchor: End, Bold: true})
	text, err := PNG(d, "a program")
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	at := func(x, y float64) color.RGBA {
		r, g, b, _ := img.At(int(x*ticks), int(y*ticks)).RGBA()
		return color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255}
	}
	white := color.RGBA{255, 255, 255, 255}
	good, bad := color.RGBA{0x1a, 0x7f, 0x37, 255}, color.RGBA{0xcf, 0x22, 0x2e, 255}
	for name, tt := range map[string]struct{ got, want color.RGBA }{
		"the rectangle": {at(25, 20), good}, "beside it": {at(45, 20), white}, "above it": {at(25, 5), white},
		"the circle": {at(120, 20), bad}, "the corner of its box": {at(113, 13), white},
		"a dash": {at(13, 50), bad}, "a gap": {at(18, 50), white},
	} {
		if tt.got != tt.want {
			t.Errorf("%s is %v, want %v", name, tt.got, tt.want)
		}
	}
	if pale := at(75, 20); pale.R <= good.R || pale.R == 255 {
		t.Errorf("half of a colour is %v", pale)
	}
	dark := 0
	for x := 100.0; x < 190; x++ {
		for y := 70.0; y < 81; y++ {
			if at(x, y).R < 128 {
				if dark++; x > 150 {
					t.Fatalf("a text that ends at 150 has ink at %v", x)
				}
			}
		}
	}
	if dark < 20 {
		t.Errorf("the text has %d dots", dark)
	}
	if !bytes.Contains(text, []byte("tEXtSoftware\x00a program")) {
		t.Error("the picture does not name its program")
	}
}

// A shape has its classes and attributes, and its texts are escaped.
func TestSVG(t *testing.T) {
	d := Drawing{Name: "x", Title: "<b>", About: `"&`, W: 10, H: 10}
	d.Line(1, 2, 3.25, 4, Shape{Stroke: Series(13), Width: 2, Dash: true, Alpha: 0.5, Note: "</svg>", Key: "t1"})
	d.Write(5, 6, "a<script>b", Shape{Anchor: Middle, Small: true})
	text, err := SVG(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<path class="no l-s3 k" d="M1 2L3.3 4" stroke-width="2" stroke-dasharray="6 4" opacity="0.5" data-key="t1">`,
		`<text class="f-ink t" x="5" y="6" text-anchor="middle">a&lt;script&gt;b</text>`,
		`<title>&lt;/svg&gt;</title>`, `<title>&lt;b&gt;</title>`, `.l-s3{stroke:var(--s3)}`, `viewBox="0 0 10 10"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	for _, c := range palette {
		light, dark := "--"+string(c.name)+":"+c.light, "--"+string(c.name)+":"+c.dark
		if !strings.Contains(Styles(), light) || !strings.Contains(Styles(), dark) {
			t.Errorf("the style sheet lacks %s", c.name)
		}
	}
}

func TestFit(t *testing.T) {
	for _, tt := range []struct {
		text  string
		width float64
		want  string
	}{{"abc", 100, "abc"}, {"abcdefghij", 40, "abcd…"}, {"äöü äöü", 30, "äöü…"}, {"abc", 3, ""}} {
		if got := Fit(tt.text, tt.width); got != tt.want {
			t.Errorf("%q in %v became %q, want %q", tt.text, tt.width, got, tt.want)
		}
	}
}

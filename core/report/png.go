package report

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// ticks is how many dots of the PNG a pixel of the drawing has.
const ticks = 2

// PNG returns the drawing as a picture on white. software is written into it as the program that made it. Its fonts
// are the Go project's, which have the letters of Latin, Greek and Cyrillic.
func PNG(d Drawing, software string) ([]byte, error) {
	img := image.NewRGBA(image.Rect(0, 0, int(math.Ceil(d.W*ticks)), int(math.Ceil(d.H*ticks))))
	draw.Draw(img, img.Bounds(), image.NewUniform(light(Paper, 1)), image.Point{}, draw.Src)
	for _, s := range d.Shapes {
		alpha := cmp.Or(s.Alpha, 1)
		if s.Text != "" {
			if err := write(img, s, alpha); err != nil {
				return nil, fmt.Errorf("drawing %s: %w", d.Name, err)
			}
			continue
		}
		points := s.Points
		if s.Radius > 0 {
			points = circle(s.Points[0], s.Radius)
		}
		if s.Fill != None {
			fill(img, [][]Point{points}, light(s.Fill, alpha))
		}
		if s.Stroke != None {
			if s.Closed || s.Radius > 0 {
				points = append(points[:len(points):len(points)], points[0])
			}
			fill(img, stroke(points, max(1, s.Width), s.Dash), light(s.Stroke, alpha))
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		return nil, err
	}
	return signed(b.Bytes(), software), nil
}

// signed adds a tEXt chunk after the header (PNG specification, third edition, 11.3.3): it begins at byte 33.
func signed(picture []byte, software string) []byte {
	chunk := append([]byte("tEXtSoftware\x00"), software...)
	text := binary.BigEndian.AppendUint32(nil, uint32(len(chunk)-4))
	text = binary.BigEndian.AppendUint32(append(text, chunk...), crc32.ChecksumIEEE(chunk))
	return slices.Insert(picture, 33, text...)
}

// light is a colour of the palette on a light background.
func light(name Colour, alpha float64) color.NRGBA {
	for _, c := range palette {
		if c.name == name {
			v, _ := strconv.ParseUint(c.light[1:], 16, 32)
			return color.NRGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), uint8(255 * alpha)}
		}
	}
	return color.NRGBA{A: 255}
}

// circle is a polygon that looks like a circle.
func circle(at Point, r float64) []Point {
	n := max(12, int(r*4))
	out := make([]Point, n)
	for i := range out {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / float64(n))
		out[i] = Point{at.X + r*cos, at.Y + r*sin}
	}
	return out
}

// stroke is the outline of a line: a rectangle for each part, and a circle at each bend. All turn the same way, so that
// none cancels another.
func stroke(points []Point, width float64, dash bool) (out [][]Point) {
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		length := math.Hypot(b.X-a.X, b.Y-a.Y)
		if length == 0 {
			continue
		}
		ux, uy := (b.X-a.X)/length, (b.Y-a.Y)/length
		part := func(from, to float64) {
			h := width / 2
			p, q := Point{a.X + ux*from, a.Y + uy*from}, Point{a.X + ux*to, a.Y + uy*to}
			out = append(out, []Point{{p.X + uy*h, p.Y - ux*h}, {q.X + uy*h, q.Y - ux*h}, {q.X - uy*h, q.Y + ux*h},
				{p.X - uy*h, p.Y + ux*h}})
		}
		if dash {
			for from := 0.0; from < length; from += 10 {
				part(from, min(length, from+6))
			}
			continue
		}
		part(0, length)
		if i > 1 && width > 1.2 {
			out = append(out, circle(a, width/2))
		}
	}
	return out
}

// fill fills polygons with a colour.
func fill(img *image.RGBA, polygons [][]Point, c color.NRGBA) {
	low, high := Point{math.Inf(1), math.Inf(1)}, Point{math.Inf(-1), math.Inf(-1)}
	for _, p := range polygons {
		for _, q := range p {
			low, high = Point{min(low.X, q.X), min(low.Y, q.Y)}, Point{max(high.X, q.X), max(high.Y, q.Y)}
		}
	}
	box := image.Rect(int(low.X*ticks)-1, int(low.Y*ticks)-1, int(high.X*ticks)+2, int(high.Y*ticks)+2)
	if len(polygons) == 0 || box.Dx() > 1<<14 || box.Dy() > 1<<14 {
		return
	}
	z := vector.NewRasterizer(box.Dx(), box.Dy())
	at := func(p Point) (x, y float32) {
		return float32(p.X*ticks - float64(box.Min.X)), float32(p.Y*ticks - float64(box.Min.Y))
	}
	for _, p := range polygons {
		z.MoveTo(at(p[0]))
		for _, q := range p[1:] {
			z.LineTo(at(q))
		}
		z.ClosePath()
	}
	z.Draw(img, box, image.NewUniform(c), image.Point{})
}

var fonts = sync.OnceValues(func() (both [2]*opentype.Font, err error) {
	if both[0], err = opentype.Parse(goregular.TTF); err == nil {
		both[1], err = opentype.Parse(gobold.TTF)
	}
	return both, err
})

// write draws a text.
func write(img *image.RGBA, s Shape, alpha float64) error {
	both, err := fonts()
	if err != nil {
		return err
	}
	size, of := float64(textSize), both[0]
	if s.Small {
		size = smallSize
	}
	if s.Bold {
		of = both[1]
	}
	face, err := opentype.NewFace(of, &opentype.FaceOptions{Size: size * ticks, DPI: 72})
	if err != nil {
		return err
	}
	defer face.Close()
	to := font.Drawer{Dst: img, Src: image.NewUniform(light(s.Fill, alpha)), Face: face}
	x := fixed.Int26_6(s.Points[0].X * ticks * 64)
	switch s.Anchor {
	case Middle:
		x -= to.MeasureString(s.Text) / 2
	case End:
		x -= to.MeasureString(s.Text)
	}
	to.Dot = fixed.Point26_6{X: x, Y: fixed.Int26_6(s.Points[0].Y * ticks * 64)}
	to.DrawString(s.Text)
	return nil
}

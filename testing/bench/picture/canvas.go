// Package picture draws figures that show what a rollout looked like and how its cost grows. The figures are rows of
// Pods over time, and measurements over the number of Pods. Each figure is a self-contained SVG. Colour-blind readers
// can also distinguish the colours.
package picture

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// These are the colours of the palette by Okabe and Ito, and some greys.
const (
	ink    = "#222222"
	faint  = "#6b6b6b"
	grid   = "#dddddd"
	blue   = "#0072B2"
	orange = "#D55E00"
	grey   = "#b8bec4"
	pink   = "#CC79A7"
	green  = "#009E73"
)

// canvas collects the elements of an SVG document.
type canvas struct {
	width, height float64
	body          strings.Builder
}

// addf adds an element in the format of package fmt, without escaping any text.
func (c *canvas) addf(format string, args ...any) { fmt.Fprintf(&c.body, format, args...) }

func (c *canvas) line(x1, y1, x2, y2 float64, colour string, attributes string) {
	c.addf(`<line x1="%s" y1="%s" x2="%s" y2="%s" stroke="%s" %s/>`+"\n", number(x1), number(y1), number(x2), number(y2), colour, attributes)
}

func (c *canvas) rect(x, y, w, h float64, colour string) {
	c.addf(`<rect x="%s" y="%s" width="%s" height="%s" fill="%s"/>`+"\n", number(x), number(y), number(w), number(h), colour)
}

// text writes a line of text. The anchor is start, middle or end.
func (c *canvas) text(x, y, size float64, anchor, colour, text string) {
	c.addf(`<text x="%s" y="%s" font-size="%s" text-anchor="%s" fill="%s">%s</text>`+"\n",
		number(x), number(y), number(size), anchor, colour, html.EscapeString(text))
}

// bold writes a line in bold.
func (c *canvas) bold(x, y, size float64, text string) {
	c.addf(`<text x="%s" y="%s" font-size="%s" font-weight="600" fill="%s">%s</text>`+"\n", number(x), number(y), number(size), ink, html.EscapeString(text))
}

// writeTo writes the SVG.
func (c *canvas) writeTo(w io.Writer, title string) error {
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]s %[2]s" width="%[1]s" height="%[2]s" font-family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif" role="img">
<title>%[3]s</title>
<rect width="100%%" height="100%%" fill="#ffffff"/>
%[4]s</svg>
`, number(c.width), number(c.height), html.EscapeString(title), c.body.String())
	return err
}

// number formats a number with one decimal, because a tenth of a pixel is precise enough.
func number(v float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
}

// ticks returns about n round values from 0 to the maximum.
func ticks(maximum float64, n int) []float64 {
	if maximum <= 0 {
		return []float64{0}
	}
	raw := maximum / float64(n)
	magnitude := math.Pow(10, math.Floor(math.Log10(raw)))
	step := 10 * magnitude
	for _, nice := range []float64{1, 2, 5} {
		if nice*magnitude >= raw {
			step = nice * magnitude
			break
		}
	}
	var out []float64
	for i := 0; float64(i)*step <= maximum*1.0001; i++ {
		out = append(out, float64(i)*step)
	}
	return out
}

// label formats the value of a tick.
func label(v float64) string {
	if v >= 10000 {
		return fmt.Sprintf("%gk", math.Round(v/100)/10)
	}
	return fmt.Sprintf("%g", math.Round(v*1000)/1000)
}

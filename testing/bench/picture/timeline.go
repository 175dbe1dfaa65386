package picture

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// State is the state of a Pod, shown as a colour.
type State uint8

// These are the states of a Pod.
const (
	// NotReady means that the Pod is not ready, whatever its template is.
	NotReady State = iota
	// Old means that the Pod is ready with the previous template.
	Old
	// New means that the Pod is ready with the new template.
	New
)

// Way says how a Pod was updated.
type Way uint8

// These are the ways to update a Pod.
const (
	// Untouched means that the rollout did not reach the Pod.
	Untouched Way = iota
	// InPlace means that the Pod was updated in place.
	InPlace
	// Recreated means that the Pod was replaced by another Pod.
	Recreated
)

// Span is a state of a Pod between two times, in seconds.
type Span struct {
	From, To float64
	State    State
}

// Row shows a Pod. If the Pod was recreated, its replacement has a second group of spans after a gap.
type Row struct {
	Name  string
	Way   Way
	Spans []Span
	// Born is the time of the first event of the replacement, in seconds.
	Born float64
}

// Panel shows a rollout.
type Panel struct {
	Title   string
	Seconds float64
	Rows    []Row
}

// MaxRows is the largest number of rows in a panel. If there are more Pods, the panel shows an even sample.
const MaxRows = 1000

const (
	plotLeft   = 56.0
	plotWidth  = 1000.0
	plotRight  = plotLeft + plotWidth
	plotHeight = 420.0 // height of a panel with few Pods, whose rows are stretched
	pageWidth  = plotRight + 24
	wayWidth   = 8.0
)

// WriteTimeline draws the panels one below the other.
func WriteTimeline(w io.Writer, title, subtitle string, panels []Panel) error {
	c := &canvas{width: pageWidth}
	c.style()
	c.bold(16, 30, 20, title)
	c.text(16, 50, 13, "start", faint, subtitle)
	c.legend(76)
	y := 112.0
	for _, p := range panels {
		y = c.panel(y, p)
	}
	c.height = y
	return c.writeTo(w, title)
}

// Page writes an HTML page that contains the SVG written by draw.
func Page(w io.Writer, title string, draw func(io.Writer) error) error {
	fmt.Fprintf(w, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s</title>\n"+
		"<style>body{margin:0;background:#fff}svg{max-width:100%%;height:auto;display:block;margin:0 auto}</style></head><body>\n", html.EscapeString(title))
	if err := draw(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, "</body></html>\n")
	return err
}

// Sample returns at most n of the rows, evenly distributed, including the first and the last.
func Sample(rows []Row, n int) []Row {
	if len(rows) <= n {
		return rows
	}
	out := make([]Row, n)
	for i := range out {
		out[i] = rows[i*(len(rows)-1)/(n-1)]
	}
	return out
}

func (c *canvas) style() {
	c.addf(`<style>path{fill:none}.o{stroke:%s}.n{stroke:%s}.u{stroke:%s}.b{stroke:%s}.i{stroke:%s}.r{stroke:%s}</style>`+"\n",
		grey, blue, orange, ink, green, pink)
}

// legend draws a line that explains the colours and marks.
func (c *canvas) legend(y float64) {
	x := 16.0
	entry := func(text string, draw func(x float64)) {
		draw(x)
		c.text(x+26, y+11, 13, "start", ink, text)
		x += 26 + 6.8*float64(len(text)) + 16
	}
	box := func(colour string) func(float64) {
		return func(x float64) { c.rect(x, y, 20, 13, colour) }
	}
	entry("ready, old template", box(grey))
	entry("not ready", box(orange))
	entry("ready, new template", box(blue))
	entry("blank: no Pod", func(x float64) {
		c.addf(`<rect x="%s" y="%s" width="20" height="13" fill="none" stroke="%s" stroke-dasharray="3 2"/>`+"\n", number(x), number(y), grey)
	})
	entry("new Pod in its place", func(x float64) { c.rect(x+9, y, 2.5, 13, ink) })
	strip := func(colour string) func(float64) { return func(x float64) { c.rect(x+12, y, wayWidth, 13, colour) } }
	entry("edge: in place", strip(green))
	entry("edge: recreated", strip(pink))
}

// panel draws a rollout at y and returns the y of the next panel.
func (c *canvas) panel(y float64, p Panel) float64 {
	rows := Sample(p.Rows, MaxRows)
	c.bold(16, y+14, 15, p.Title)
	c.text(plotRight, y+14, 12.5, "end", faint, caption(p.Rows, len(rows)))
	top := y + 26
	thick := min(18, max(1, plotHeight/float64(max(len(rows), 1))))
	bottom := top + thick*float64(len(rows))
	perSecond := plotWidth / max(p.Seconds, 0.001)
	for _, t := range ticks(p.Seconds, 10) {
		x := plotLeft + t*perSecond
		c.line(x, top, x, bottom+5, grid, "")
		c.text(x, bottom+19, 12, "middle", faint, label(t)+" s")
	}
	// Antialiasing is off, because thin rows would otherwise blur into each other.
	c.addf(`<g stroke-width="%s" shape-rendering="crispEdges">`+"\n", number(rowThickness(thick)))
	for i, row := range rows {
		c.row(top+thick*(float64(i)+0.5), thick, perSecond, row)
	}
	c.addf("</g>\n")
	c.line(plotLeft, bottom+0.5, plotRight, bottom+0.5, faint, "")
	return bottom + 48
}

// rowThickness returns the thickness of a row. If the rows are high enough, a thin gap stays between the rows.
func rowThickness(pitch float64) float64 {
	if pitch < 4 {
		return pitch
	}
	return pitch - 1
}

func (c *canvas) row(y, thick, perSecond float64, row Row) {
	c.addf("<g><title>%s</title>", html.EscapeString(describe(row)))
	if class := [...]string{Untouched: "", InPlace: "i", Recreated: "r"}[row.Way]; class != "" {
		c.addf(`<path class="%s" d="M%s %sh%s"/>`, class, number(plotLeft-wayWidth-4), number(y), number(wayWidth))
	}
	paths := map[State]*strings.Builder{}
	for _, s := range row.Spans {
		path := paths[s.State]
		if path == nil {
			path = &strings.Builder{}
			paths[s.State] = path
		}
		// Even a very short time out of service is drawn wide enough to see.
		fmt.Fprintf(path, "M%s %sh%s", number(plotLeft+s.From*perSecond), number(y), number(max((s.To-s.From)*perSecond, 0.8)))
	}
	for _, state := range []State{Old, New, NotReady} {
		if path := paths[state]; path != nil {
			c.addf(`<path class="%s" d="%s"/>`, [...]string{NotReady: "u", Old: "o", New: "n"}[state], path)
		}
	}
	if row.Way == Recreated {
		c.addf(`<path class="b" d="M%s %sh%s"/>`, number(plotLeft+row.Born*perSecond), number(y), number(min(2.5, max(1.2, thick/3))))
	}
	c.addf("</g>\n")
}

// describe returns the tooltip of a row.
func describe(row Row) string {
	var out float64
	for i, s := range row.Spans {
		if s.State == NotReady {
			out += s.To - s.From
		}
		if i > 0 {
			out += s.From - row.Spans[i-1].To
		}
	}
	way := [...]string{Untouched: "untouched", InPlace: "in place", Recreated: "recreated"}[row.Way]
	return fmt.Sprintf("%s: %s, out of service %.2f s", row.Name, way, out)
}

// caption returns a text with the number of rows and the number of rows that are shown.
func caption(rows []Row, shown int) string {
	counts := map[Way]int{}
	for _, row := range rows {
		counts[row.Way]++
	}
	parts := []string{"a row a Pod"}
	if shown < len(rows) {
		parts[0] = fmt.Sprintf("a row a Pod: %d of %d, evenly chosen", shown, len(rows))
	}
	for _, w := range []struct {
		way  Way
		text string
	}{{InPlace, "in place"}, {Recreated, "recreated"}, {Untouched, "untouched"}} {
		if counts[w.way] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[w.way], w.text))
		}
	}
	return strings.Join(parts, " · ")
}

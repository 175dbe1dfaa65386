package picture

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Point is a measured value at a number of Pods.
type Point struct{ Pods, Value float64 }

// Chart shows a measured value over the number of Pods.
type Chart struct {
	Title, Unit string
	Points      []Point
}

const (
	chartsBeside = 2
	chartWidth   = 440.0
	chartHeight  = 210.0
	chartPitch   = chartHeight + 100
	chartGap     = 30.0
)

// WriteGrowth draws the charts, two in a row. Each chart has a straight line for growth in proportion to the number
// of Pods.
func WriteGrowth(w io.Writer, title, subtitle string, charts []Chart) error {
	lines := (len(charts) + chartsBeside - 1) / chartsBeside
	c := &canvas{width: 32 + chartsBeside*(chartWidth+chartGap) - chartGap, height: 96 + float64(lines)*chartPitch}
	c.bold(16, 30, 20, title)
	c.text(16, 50, 13, "start", faint, subtitle)
	c.line(16, 72, 42, 72, blue, `stroke-width="2.5"`)
	c.text(50, 76, 13, "start", ink, "measured")
	c.line(136, 72, 162, 72, orange, `stroke-width="1.5" stroke-dasharray="5 4"`)
	c.text(170, 76, 13, "start", ink, "in proportion to the Pods, from the first measurement on; below it is better")
	for i, chart := range charts {
		c.chart(16+float64(i%chartsBeside)*(chartWidth+chartGap), 96+float64(i/chartsBeside)*chartPitch, chart)
	}
	return c.writeTo(w, title)
}

func (c *canvas) chart(left, top float64, chart Chart) {
	if len(chart.Points) == 0 {
		return
	}
	c.bold(left, top+14, 14, chart.Title)
	c.text(left, top+32, 12, "start", faint, chart.Unit)
	points := slices.SortedFunc(slices.Values(chart.Points), func(a, b Point) int { return int(a.Pods - b.Pods) })
	var pods, value float64
	for _, p := range points {
		pods, value = max(pods, p.Pods), max(value, p.Value)
	}
	value = max(value*1.15, 0.001)
	x0, y0, width := left+44, top+44+chartHeight, chartWidth-60
	x := func(v float64) float64 { return x0 + v/pods*width }
	y := func(v float64) float64 { return y0 - v/value*chartHeight }
	for _, t := range ticks(value, 5) {
		c.line(x0, y(t), x0+width, y(t), grid, "")
		c.text(x0-6, y(t)+4, 11.5, "end", faint, label(t))
	}
	c.line(x0, y0, x0+width, y0, faint, "")
	first := points[0]
	// The line for proportional growth ends at the edge of the chart.
	end := min(pods, pods*value/max(first.Value/first.Pods*pods, 0.000001))
	c.line(x(0), y(0), x(end), y(first.Value/first.Pods*end), orange, `stroke-width="1.5" stroke-dasharray="5 4"`)
	var path strings.Builder
	for i, p := range points {
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(&path, "%s%s %s", command, number(x(p.Pods)), number(y(p.Value)))
	}
	c.addf(`<path d="%s" fill="none" stroke="%s" stroke-width="2.5"/>`+"\n", path.String(), blue)
	for _, p := range points {
		c.addf(`<circle cx="%s" cy="%s" r="3.5" fill="%s"/>`+"\n", number(x(p.Pods)), number(y(p.Value)), blue)
		c.text(x(p.Pods), y(p.Value)-9, 11.5, "middle", ink, fmt.Sprintf("%.3g", p.Value))
		c.text(x(p.Pods), y0+17, 11.5, "middle", faint, fmt.Sprintf("%gk", p.Pods/1000))
	}
	c.text(x0+width, y0+34, 11.5, "end", faint, "Pods")
}

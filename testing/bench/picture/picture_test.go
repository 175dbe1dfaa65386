package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wellFormed checks that a text is a well-formed XML document.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v in:\n%s", err, text)
		}
	}
}

func TestTicksAreRound(t *testing.T) {
	tests := []struct {
		maximum float64
		n       int
		want    []float64
	}{
		{0, 5, []float64{0}},
		{1, 5, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
		{22.5, 5, []float64{0, 5, 10, 15, 20}},
		{186, 4, []float64{0, 50, 100, 150}},
		{10000, 5, []float64{0, 2000, 4000, 6000, 8000, 10000}},
	}
	for _, tt := range tests {
		round := cmp.Transformer("label", label)
		if diff := cmp.Diff(tt.want, ticks(tt.maximum, tt.n), round); diff != "" {
			t.Errorf("ticks to %g (-want +got):\n%s", tt.maximum, diff)
		}
	}
}

func TestSampleIsEven(t *testing.T) {
	var all []Row
	for i := range 10 {
		all = append(all, Row{Name: fmt.Sprint(i)})
	}
	names := func(rows []Row) (out []string) {
		for _, row := range rows {
			out = append(out, row.Name)
		}
		return out
	}
	if diff := cmp.Diff([]string{"0", "3", "6", "9"}, names(Sample(all, 4))); diff != "" {
		t.Errorf("4 of 10 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(names(all), names(Sample(all, 10))); diff != "" {
		t.Errorf("10 of 10 (-want +got):\n%s", diff)
	}
}

func TestTimelineLaysRowsOut(t *testing.T) {
	panels := []Panel{{Title: "A & B", Seconds: 10, Rows: []Row{
		{Name: "p", Way: InPlace, Spans: []Span{{0, 5, Old}, {5, 6, NotReady}, {6, 10, New}}},
		{Name: "q", Way: Recreated, Born: 3, Spans: []Span{{0, 2, Old}, {3, 4, NotReady}, {4, 10, New}}},
	}}}
	var out bytes.Buffer
	if err := WriteTimeline(&out, "Title", "below", panels); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	wellFormed(t, text)
	for _, want := range []string{
		// Ten seconds are 1000 pixels wide and begin at x = 56. Two rows are 18 pixels high and begin at y = 138.
		`<g><title>p: in place, out of service 1.00 s</title><path class="i" d="M44 147h8"/><path class="o" d="M56 147h500"/>` +
			`<path class="n" d="M656 147h400"/><path class="u" d="M556 147h100"/></g>`,
		`<g><title>q: recreated, out of service 2.00 s</title><path class="r" d="M44 165h8"/><path class="o" d="M56 165h200"/>` +
			`<path class="n" d="M456 165h600"/><path class="u" d="M356 165h100"/><path class="b" d="M356 165h2.5"/></g>`,
		"A &amp; B", "a row a Pod · 1 in place · 1 recreated", ">10 s<",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not drawn: %s\nin:\n%s", want, text)
		}
	}
}

func TestTimelineOfManyPodsStaysSmall(t *testing.T) {
	rows := make([]Row, 20000)
	for i := range rows {
		rows[i] = Row{Name: fmt.Sprintf("bench-0000-%05d, then bench-0000-%05d", i, i+1), Way: Recreated, Born: 123.45}
		for k := range 6 {
			rows[i].Spans = append(rows[i].Spans, Span{float64(k) * 33.33, float64(k)*33.33 + 30, State(k % 3)})
		}
	}
	panel := Panel{Title: "many", Seconds: 200, Rows: rows}
	var out bytes.Buffer
	err := Page(&out, "Title", func(w io.Writer) error { return WriteTimeline(w, "Title", "", []Panel{panel, panel, panel}) })
	if err != nil {
		t.Fatal(err)
	}
	if size := out.Len(); size > 2<<20 {
		t.Errorf("%d bytes, want 2 MiB at most", size)
	}
	if want := "a row a Pod: 1000 of 20000, evenly chosen · 20000 recreated"; !strings.Contains(out.String(), want) {
		t.Errorf("the caption does not say %q", want)
	}
}

func TestGrowthDrawsProportion(t *testing.T) {
	charts := []Chart{
		{Title: "linear", Unit: "s", Points: []Point{{10000, 100}, {1000, 10}}},
		{Title: "flat", Unit: "MiB", Points: []Point{{1000, 60}, {10000, 60}}},
		{Title: "nothing"},
	}
	var out bytes.Buffer
	if err := WriteGrowth(&out, "Title", "below", charts); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, out.String())
	// If the measured value grows in proportion to the number of Pods, the line for proportional growth meets the
	// last point. If the value is constant, the line reaches the upper edge of the chart early.
	for _, want := range []string{
		`<path d="M98 331.7L440 167.4" `, `<line x1="60" y1="350" x2="440" y2="167.4" stroke="#D55E00"`,
		`<line x1="530" y1="350" x2="573.7" y2="140" stroke="#D55E00"`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("not drawn: %s\nin:\n%s", want, out.String())
		}
	}
}

func TestWritersReportErrors(t *testing.T) {
	if err := WriteTimeline(broken{}, "", "", nil); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("timeline: error %v", err)
	}
	if err := WriteGrowth(broken{}, "", "", nil); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("growth: error %v", err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

package bench

import (
	"fmt"
	"io"
	"time"

	lines "github.com/workloadkit/workloadkit/testing/internal/progress"
)

// progress shows the progress of the run: on a terminal in a line that is updated in place, otherwise in a new line
// from time to time.
type progress struct {
	out      io.Writer
	terminal bool
	shown    time.Time
	open     bool // the updated line is still on the screen
}

func newProgress(out io.Writer) *progress {
	if out == nil {
		out = io.Discard
	}
	return &progress{out: out, terminal: lines.IsTerminal(out)}
}

// live updates the line in place.
func (p *progress) live(text string) {
	interval := 10 * time.Second
	if p.terminal {
		interval = 200 * time.Millisecond
	}
	if time.Since(p.shown) < interval {
		return
	}
	p.shown = time.Now()
	if !p.terminal {
		fmt.Fprintln(p.out, text)
		return
	}
	p.open = true
	fmt.Fprintf(p.out, "\r\x1b[K%s", text)
}

// end removes the line that is updated in place.
func (p *progress) end() {
	if p.open {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
	p.open, p.shown = false, time.Now()
}

// line prints a line that is not updated.
func (p *progress) line(text string) {
	p.end()
	fmt.Fprintln(p.out, text)
}

package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/term"
)

// progress tells a person what is going on: one live line on a terminal, now and then a line elsewhere.
type progress struct {
	out      *os.File
	terminal bool
	shown    time.Time
	open     bool // the live line is not ended
}

func newProgress(out *os.File) *progress {
	return &progress{out: out, terminal: term.IsTerminal(int(out.Fd()))}
}

// live replaces the live line.
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

// end removes the live line.
func (p *progress) end() {
	if p.open {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
	p.open, p.shown = false, time.Now()
}

// line prints a line that stays.
func (p *progress) line(text string) {
	p.end()
	fmt.Fprintln(p.out, text)
}

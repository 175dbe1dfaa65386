package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// screen shows the Pods and their events to the user.
type screen interface {
	// title shows the title of a part of the show.
	title(text string)
	// happens shows the text of an event of a Pod.
	happens(text string)
	// draw shows the present state of all Pods.
	draw()
	// done leaves the last picture on the screen, so that later output is written below.
	done()
}

// lines prints a line for each event.
type lines struct {
	mu    sync.Mutex
	out   io.Writer
	world *world
}

func (l *lines) print(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(l.out, text)
}

func (l *lines) title(text string)   { l.print("\n== " + text) }
func (l *lines) happens(text string) { l.print("   " + text) }
func (l *lines) draw()               {}
func (l *lines) done()               {}

// table draws a table of all Pods, and redraws the table in place.
type table struct {
	mu    sync.Mutex
	out   io.Writer
	world *world
	size  func() size // the size of the terminal; the zero value if the size is unknown
	head  string
	last  []string // lines of the picture on the screen; nil if the next picture must be drawn below
	was   size     // the size of the terminal when last was drawn
}

func (t *table) title(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.head = text
}

func (t *table) happens(string) {}

const (
	up, clearLine, clearBelow, home = "\x1b[%dA", "\x1b[2K", "\x1b[J", "\x1b[H"
)

func (t *table) draw() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.redraw()
}

// redraw draws the picture again in the place of the last picture. The caller must hold the lock.
func (t *table) redraw() {
	now := t.size()
	next := picture(t.head, t.world.snapshot(), now)
	if now == t.was && slices.Equal(next, t.last) {
		return
	}
	var b strings.Builder
	switch {
	case t.last == nil:
	case now != t.was:
		// After a change of its size, a terminal has wrapped the lines anew, and the line in which the picture begins
		// is unknown.
		b.WriteString(home)
	default:
		fmt.Fprintf(&b, up, len(t.last))
	}
	for _, line := range next {
		b.WriteString(clearLine + line + "\n")
	}
	b.WriteString(clearBelow) // removes the remaining lines of a longer picture
	fmt.Fprint(t.out, b.String())
	t.last, t.was = next, now
}

func (t *table) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.redraw()
	t.last = nil
	fmt.Fprintln(t.out)
}

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// screen shows the world to the user.
type screen interface {
	// title begins a part of the show.
	title(text string)
	// happens shows a single event.
	happens(text string)
	// draw shows the current world.
	draw()
	// done leaves the last picture on the screen.
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

// table redraws a picture in place.
type table struct {
	mu    sync.Mutex
	out   io.Writer
	world *world
	size  func() size // the size of the terminal, or the zero value if unknown
	head  string
	last  []string // the lines of the picture on the screen; nil if the next picture is drawn below
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

// redraw draws the picture again. The caller holds the lock.
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
		// A resized terminal has wrapped the lines anew, so nobody knows in which line the picture begins.
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

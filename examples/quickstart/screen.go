package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// screen shows the world.
type screen interface {
	// title begins a part of the show.
	title(text string)
	// happens is told of single events.
	happens(text string)
	// draw shows the world as it is now.
	draw()
	// done leaves the last picture standing.
	done()
}

// lines prints what happens, one line each.
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

// table redraws one picture in place.
type table struct {
	mu    sync.Mutex
	out   io.Writer
	world *world
	size  func() size // of the terminal, the zero value if unknown
	head  string
	last  []string // the picture that stands now; nil where the next one begins below
	was   size     // of the terminal for that picture
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

// redraw wants the lock.
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
		// A terminal that was resized has wrapped its lines anew: nobody knows where the picture begins.
		b.WriteString(home)
	default:
		fmt.Fprintf(&b, up, len(t.last))
	}
	for _, line := range next {
		b.WriteString(clearLine + line + "\n")
	}
	b.WriteString(clearBelow) // a shorter picture leaves nothing of a longer one behind
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

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/workloadkit/workloadkit/reason"
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

// table redraws one table in place.
type table struct {
	mu    sync.Mutex
	out   io.Writer
	world *world
	head  string
	drawn int        // lines of the last picture
	lines func() int // of the terminal; 0 if unknown
}

func (t *table) title(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.head = text
}

func (t *table) happens(string) {}

const (
	bold, dim, green, yellow, red, reset = "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[0m"

	up, clearLine = "\x1b[%dA", "\x1b[2K"
)

func (t *table) draw() {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows, hidden := fitting(t.world.snapshot(), t.lines()-4)
	var b strings.Builder
	if t.drawn > 0 {
		fmt.Fprintf(&b, up, t.drawn)
	}
	line := func(format string, args ...any) { fmt.Fprintf(&b, clearLine+format+"\n", args...) }
	line("%s%s%s", bold, t.head, reset)
	line("%s%-12s %-11s %-6s %-10s %-8s %-9s %s%s", dim, "POD", "REVISION", "READY", "HOW", "RESTARTS", "UID", "WHY", reset)
	for _, r := range rows {
		line("%-12s %-11s %s %-10s %-8d %-9s %s", r.name, r.revision, readiness(r), r.how, r.restarts, string(r.uid)[:8], reason.Shorten(r.why, 60))
	}
	count := len(rows) + 2
	if hidden > 0 {
		line("%s... and %d more%s", dim, hidden, reset)
		count++
	}
	for range max(t.drawn-count, 0) { // a shorter table leaves nothing of a longer one behind
		line("")
		count++
	}
	t.drawn = count
	fmt.Fprint(t.out, b.String())
}

// fitting leaves out what the terminal has no room for, Pods that are gone first: a picture that scrolls cannot be redrawn.
func fitting(rows []row, room int) (shown []row, hidden int) {
	if room <= 0 || len(rows) <= room {
		return rows, 0
	}
	shown = slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.gone })
	shown = shown[:min(len(shown), room)]
	return shown, len(rows) - len(shown)
}

func readiness(r row) string {
	switch {
	case r.gone:
		return red + "gone  " + reset
	case r.ready:
		return green + "yes   " + reset
	default:
		return yellow + "no    " + reset
	}
}

func (t *table) done() {
	t.draw()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drawn = 0
	fmt.Fprintln(t.out)
}

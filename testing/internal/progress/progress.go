// Package progress shows a waiting user the progress of slow work.
package progress

import (
	"fmt"
	"io"
	"os"
	"time"
)

// Progress writes lines; on a terminal, one line is updated in place. Make a Progress with New.
type Progress struct {
	w        io.Writer
	terminal bool
}

// New returns a Progress that writes to w, or writes nothing if w is nil.
func New(w io.Writer) Progress {
	if w == nil {
		w = io.Discard
	}
	return Progress{w: w, terminal: IsTerminal(w)}
}

// IsTerminal reports whether w is a terminal, where a line can be updated in place.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Line writes a line.
func (p Progress) Line(text string) { fmt.Fprintln(p.w, text) }

// During calls f and prints the label with the duration of f in seconds.
func (p Progress) During(label string, f func() error) error {
	start := time.Now()
	seconds := func() int { return int(time.Since(start).Round(time.Second).Seconds()) }
	if !p.terminal {
		p.Line(label + " ...")
		err := f()
		if err == nil {
			fmt.Fprintf(p.w, "%s done in %d s\n", label, seconds())
		}
		return err
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		fmt.Fprintf(p.w, "\r%s ... %d s", label, seconds())
		select {
		case err := <-done:
			fmt.Fprintf(p.w, "\r%s ... %d s\n", label, seconds())
			return err
		case <-tick.C:
		}
	}
}

package admission

import (
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
)

// waiting accounts for reviews that arrive or wait, by what they take of the memory. Once that is too much, the address that takes most
// loses its largest one, the oldest of several, again and again: an API server sends those of all its users.
type waiting struct {
	most int64

	mu      sync.Mutex
	total   int64
	sources map[string]*source
}

// source is an address that reviews come from.
type source struct {
	small, large *semaphore.Weighted // what it can take of the lanes
	bytes        int64
	guests       []*guest // that wait, the oldest first
	reviews      int      // that wait or are worked on; without any it is dropped
}

// guest is a review that arrives or waits.
type guest struct {
	room     *waiting
	source   *source
	address  string
	bytes    int64
	sendAway func()
	waits    bool
}

// guestBytes is what a review takes beside its body: a goroutine, and its part of a connection.
const guestBytes = 16 << 10

// enter lets a review in. sendAway is called if it has to go; it must not block.
func (w *waiting) enter(address string, sendAway func(), small, large *lane) *guest {
	w.mu.Lock()
	defer w.mu.Unlock()
	from := w.sources[address]
	if from == nil {
		from = &source{small: small.share(), large: large.share()}
		w.sources[address] = from
	}
	g := &guest{room: w, source: from, address: address, sendAway: sendAway, waits: true}
	from.guests = append(from.guests, g)
	from.reviews++
	w.add(g, guestBytes)
	return g
}

// arrived accounts for so many more bytes.
func (g *guest) arrived(bytes int64) {
	g.room.mu.Lock()
	defer g.room.mu.Unlock()
	if g.waits {
		g.room.add(g, bytes)
	}
}

func (w *waiting) add(g *guest, bytes int64) {
	g.bytes += bytes
	g.source.bytes += bytes
	for w.total += bytes; w.total > w.most; {
		largest := w.largest().largest()
		w.remove(largest)
		largest.sendAway()
	}
}

// largest returns the source that takes most. One that takes something has somebody who waits.
func (w *waiting) largest() (largest *source) {
	for _, from := range w.sources {
		if largest == nil || from.bytes > largest.bytes {
			largest = from
		}
	}
	return largest
}

// largest returns the review that takes most.
func (s *source) largest() *guest {
	largest := s.guests[0]
	for _, g := range s.guests {
		if g.bytes > largest.bytes {
			largest = g
		}
	}
	return largest
}

func (w *waiting) remove(g *guest) {
	g.waits = false
	g.source.bytes -= g.bytes
	w.total -= g.bytes
	g.source.guests = slices.DeleteFunc(g.source.guests, func(other *guest) bool { return other == g })
}

// leave ends the waiting, and reports whether the review had been sent away.
func (g *guest) leave() (sentAway bool) {
	g.room.mu.Lock()
	defer g.room.mu.Unlock()
	if !g.waits {
		return true
	}
	g.room.remove(g)
	return false
}

// end is called when nobody works on the review any more.
func (g *guest) end() {
	g.room.mu.Lock()
	defer g.room.mu.Unlock()
	if g.source.reviews--; g.source.reviews == 0 {
		delete(g.room.sources, g.address)
	}
}

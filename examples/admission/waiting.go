package admission

import (
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
)

// waiting counts the memory of the reviews that are being received, or that wait to be processed. If the memory
// exceeds the limit, reviews of the client address with the largest share are refused until the memory is within the
// limit: the largest review first, and of several equally large reviews the oldest. An API server sends the reviews
// of all its users, so many reviews can be in progress at the same time.
type waiting struct {
	most int64

	mu      sync.Mutex
	total   int64
	sources map[string]*source
}

// source is an address that sends reviews.
type source struct {
	small, large *semaphore.Weighted // the share of each lane that the address may use
	bytes        int64
	guests       []*guest // reviews being received or waiting, the oldest first
	reviews      int      // number of reviews received, waiting or processed; at 0 the source is forgotten
}

// guest is a review that is being received or is waiting.
type guest struct {
	room     *waiting
	source   *source
	address  string
	bytes    int64
	sendAway func()
	waits    bool
}

// guestBytes is the memory that a review needs besides its body: a goroutine, and a part of a connection.
const guestBytes = 16 << 10

// enter registers a review that is about to be received. If the review must be refused, waiting calls sendAway, which
// must not block.
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

// arrived counts received bytes.
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

// largest returns the source with the largest share of the memory. Such a source has at least one review that can be
// refused.
func (w *waiting) largest() (largest *source) {
	for _, from := range w.sources {
		if largest == nil || from.bytes > largest.bytes {
			largest = from
		}
	}
	return largest
}

// largest returns the source's largest review.
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

// leave ends the wait of a review, and reports whether the review was refused before.
func (g *guest) leave() (sentAway bool) {
	g.room.mu.Lock()
	defer g.room.mu.Unlock()
	if !g.waits {
		return true
	}
	g.room.remove(g)
	return false
}

// end is called when the review was processed or refused.
func (g *guest) end() {
	g.room.mu.Lock()
	defer g.room.mu.Unlock()
	if g.source.reviews--; g.source.reviews == 0 {
		delete(g.room.sources, g.address)
	}
}

package fakeregistry

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/workloadkit/workloadkit/testing/internal/sleep"
)

// Fault makes a repository slow, busy, or broken. The zero value means no fault.
type Fault struct {
	// Busy is the number of requests that are refused with status 429. RetryAfter, rounded down to seconds, is the
	// value of the header Retry-After.
	Busy       int
	RetryAfter time.Duration
	// Delay is the time before each response. Credentials are checked before the delay.
	Delay time.Duration
	// BytesPerSecond is the speed of blobs; 0 means full speed.
	BytesPerSecond int
	// CutAfter ends the connection after a number of bytes of each blob; 0 means never.
	CutAfter int
	// Hang delays blobs until the client ends the request or the Fault is replaced.
	Hang bool
}

// fault is a Fault in force.
type fault struct {
	Fault

	busy     int           // requests still to be refused
	replaced chan struct{} // closed when another Fault is set
}

// SetFault replaces the Fault of a repository.
func (r *Registry) SetFault(repository string, f Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before := r.faults[repository]; before != nil {
		close(before.replaced)
	}
	r.faults[repository] = &fault{Fault: f, busy: f.Busy, replaced: make(chan struct{})}
}

// answer is the effect of a Fault on a single request.
type answer struct {
	Fault

	isBusy   bool
	replaced <-chan struct{}
}

// faultOf returns the Fault for a request, and counts the request.
func (r *Registry) faultOf(asked Request) answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.faults[asked.Repository]
	if f == nil || asked.Object == "" {
		return answer{}
	}
	out := answer{Fault: f.Fault, isBusy: f.busy > 0, replaced: f.replaced}
	if out.isBusy {
		f.busy--
	}
	if asked.Object != "blob" {
		out.BytesPerSecond, out.CutAfter, out.Hang = 0, 0, false
	}
	return out
}

// pause is the time between two parts of a slow blob.
const pause = 100 * time.Millisecond

// serve sends a blob or a manifest.
func (a *answer) serve(w http.ResponseWriter, request *http.Request, b blob) {
	if a.Hang {
		select {
		case <-request.Context().Done():
			return
		case <-a.replaced:
		}
	}
	if a.Delay > 0 && sleep.For(request.Context(), a.Delay) != nil {
		return
	}
	if b.Digest == "" { // the request is for /v2/, with which a client checks that the registry exists
		return
	}
	w.Header().Set("Content-Type", b.MediaType)
	w.Header().Set("Docker-Content-Digest", b.Digest)
	if a.BytesPerSecond <= 0 && a.CutAfter <= 0 {
		http.ServeContent(w, request, "", time.Time{}, bytes.NewReader(b.content))
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(b.Size))
	if request.Method == http.MethodGet {
		a.send(request.Context(), w, b.content)
	}
}

// send sends a blob slowly, and closes the connection after the number of bytes in CutAfter. send ignores the header
// Range, so that a client that resumes after the cut makes no progress.
func (a *answer) send(ctx context.Context, w http.ResponseWriter, content []byte) {
	part := len(content)
	if a.BytesPerSecond > 0 {
		part = max(a.BytesPerSecond/int(time.Second/pause), 1)
	}
	for sent := 0; sent < len(content); {
		end := min(sent+part, len(content))
		if a.CutAfter > 0 {
			end = min(end, a.CutAfter)
		}
		if _, err := w.Write(content[sent:end]); err != nil {
			return // the client has closed the connection
		}
		_ = http.NewResponseController(w).Flush() // every writer of net/http can flush
		if sent = end; a.CutAfter > 0 && sent >= a.CutAfter {
			panic(http.ErrAbortHandler) // net/http ends the connection
		}
		if a.BytesPerSecond > 0 && sent < len(content) && sleep.For(ctx, pause) != nil {
			return
		}
	}
}

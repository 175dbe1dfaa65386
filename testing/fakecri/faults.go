package fakecri

import (
	"context"
	"sync"
	"time"
)

// Faults chooses a Fault for each call. Next is called concurrently, with the name of a method of CRI, such as
// StopContainer, and with the request. Next may block until the call's context ends.
type Faults interface {
	Next(ctx context.Context, method string, request any) Fault
}

// Fault is the outcome of a call. With the zero value, the call succeeds.
type Fault struct {
	// Delay is how long the call waits before its execution or its fault, unless the caller gives up.
	Delay time.Duration
	// Done means that the call is carried out before the fault, so that only the response is lost.
	Done bool
	Kind Kind
	// Err is the error of a call if Kind is Fail; a gRPC status error keeps its code.
	Err error
}

// Kind says how a call fails.
type Kind string

// These are the kinds of faults.
const (
	// Fail returns an error.
	Fail Kind = "Fail"
	// Hang never responds: the call ends only with the caller's context.
	Hang Kind = "Hang"
	// Drop closes the caller's connection.
	Drop Kind = "Drop"
	// Restart restarts the runtime: all connections break, and the socket is created again.
	Restart Kind = "Restart"
)

// Plan implements Faults with a list of faults for each method. The zero value has no faults and is ready for use; a
// Plan is safe for concurrent use.
type Plan struct {
	mu     sync.Mutex
	queued map[string][]Fault
	kept   map[string]Fault
}

// Queue adds faults for the next calls of a method, one for each call.
func (p *Plan) Queue(method string, faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queued == nil {
		p.queued = map[string][]Fault{}
	}
	p.queued[method] = append(p.queued[method], faults...)
}

// Keep sets a fault for all calls of a method for which no fault is queued. The zero Fault removes the fault that an
// earlier call of Keep has set.
func (p *Plan) Keep(method string, fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept == nil {
		p.kept = map[string]Fault{}
	}
	p.kept[method] = fault
}

// Next implements Faults.
func (p *Plan) Next(_ context.Context, method string, _ any) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if queued := p.queued[method]; len(queued) > 0 {
		p.queued[method] = queued[1:]
		return queued[0]
	}
	return p.kept[method]
}

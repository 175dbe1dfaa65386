package fakecri

import (
	"context"
	"sync"
	"time"
)

// Faults decides about each call. Next is called concurrently, with the name of a method of CRI, such as StopContainer,
// and with the request. Next may take its time, until the call's context ends.
type Faults interface {
	Next(ctx context.Context, method string, request any) Fault
}

// Fault is the fate of a call. The zero value is a call without a fault.
type Fault struct {
	// Delay passes first, unless the caller gives up.
	Delay time.Duration
	// Done carries the call out before the rest of the fault, so that only the answer is lost.
	Done bool
	Kind Kind
	// Err is the answer of a call with kind Fail; a status error keeps its code.
	Err error
}

// Kind says how a call goes wrong.
type Kind string

// Kinds of faults.
const (
	// Fail answers with an error.
	Fail Kind = "Fail"
	// Hang never answers; the caller's context ends the call.
	Hang Kind = "Hang"
	// Drop closes the caller's connection.
	Drop Kind = "Drop"
	// Restart restarts the runtime: all connections break, and the socket is made anew.
	Restart Kind = "Restart"
)

// Plan is Faults by method. The zero value is ready, without a fault, and is safe for concurrent use.
type Plan struct {
	mu     sync.Mutex
	queued map[string][]Fault
	kept   map[string]Fault
}

// Queue gives faults to the next calls of a method, a fault for each call.
func (p *Plan) Queue(method string, faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queued == nil {
		p.queued = map[string][]Fault{}
	}
	p.queued[method] = append(p.queued[method], faults...)
}

// Keep gives a fault to all calls of a method without a queued fault. The zero Fault ends the trouble.
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

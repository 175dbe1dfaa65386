package cri

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/reason"
)

// UnknownRuntime means that a container ID names a runtime that does not respond on the Node.
const UnknownRuntime reason.Code = "UnknownRuntime"

// These are the times between two searches for runtimes.
const (
	// lookSoon is the time between two searches while no runtime responds.
	lookSoon = 2 * time.Second
	// lookLater is the time between two searches while a runtime responds.
	lookLater = time.Minute
)

// Runtimes are the container runtimes of a Node; a container ID begins with the name of its runtime:
// "containerd://ab12". Start searches for runtimes again and again, because a runtime may start later, stop, and start
// again. Runtimes implement stopper.Runtime, and are safe for concurrent use. Make Runtimes with NewRuntimes.
type Runtimes struct {
	paths func() []string
	clock clock.Clock
	wake  []func(context.Context)

	mu      sync.Mutex
	known   []*known
	looked  bool
	missing reason.List
}

// known is a runtime with the name in its last response.
type known struct {
	*Runtime

	name string // empty until the first response
	up   bool   // has responded in the last search
}

// NewRuntimes returns the runtimes at the socket paths that paths returns at each search, and the runtimes in more.
// Either argument may be nil.
func NewRuntimes(paths func() []string, more ...*Runtime) *Runtimes {
	r := &Runtimes{paths: paths, clock: clock.RealClock{}}
	for _, one := range more {
		r.known = append(r.known, &known{Runtime: one})
	}
	return r
}

// OnChange registers f to be called after each search whose result differs from the previous search. Call OnChange
// before Start.
func (r *Runtimes) OnChange(f func(context.Context)) { r.wake = append(r.wake, f) }

// Start searches for runtimes until the context ends, and then closes their connections.
func (r *Runtimes) Start(ctx context.Context) error {
	defer r.close()
	for {
		r.Look(ctx)
		rest := lookSoon
		if r.Answering() {
			rest = lookLater
		}
		timer := r.clock.NewTimer(rest)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

func (r *Runtimes) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.known {
		one.Close()
	}
}

// Look asks all runtimes for their names, once.
func (r *Runtimes) Look(ctx context.Context) {
	candidates, missing := r.candidates()
	names := make([]string, len(candidates))
	for i, one := range candidates {
		version, err := ask(ctx, one.Runtime)
		if err != nil {
			missing.Add(NoRuntime, silent(one.Path(), err))
			continue
		}
		names[i] = version.Name
	}
	if ctx.Err() != nil {
		return // the runtimes have not responded because the agent's context has ended
	}
	r.mu.Lock()
	changed := !r.looked
	r.looked, r.missing = true, missing
	for i, one := range candidates {
		changed = changed || one.up != (names[i] != "") || one.up && one.name != names[i]
		if one.up = names[i] != ""; one.up {
			one.name = names[i]
		}
	}
	r.mu.Unlock()
	if changed {
		for _, f := range r.wake {
			f(ctx)
		}
	}
}

// candidates adds a runtime for each new path, and returns all runtimes. If a path has no socket, no connection is
// tried.
func (r *Runtimes) candidates() (all []*known, missing reason.List) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paths != nil {
		for _, path := range r.paths() {
			if slices.ContainsFunc(r.known, func(k *known) bool { return k.Path() == path }) {
				continue
			}
			one, err := New(path)
			if err != nil {
				missing.Add(InvalidEndpoint, err)
				continue
			}
			r.known = append(r.known, &known{Runtime: one})
		}
	}
	return slices.Clone(r.known), missing
}

// Answering reports whether a runtime has responded in the last search.
func (r *Runtimes) Answering() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.known, func(k *known) bool { return k.up })
}

// Missing returns, for each path, the reason why there is no runtime; nil if a runtime has responded in the last
// search.
func (r *Runtimes) Missing() reason.List {
	if r.Answering() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.missing) == 0 {
		return reason.List{{Code: NoRuntime, Detail: "no runtime has been looked for yet"}}
	}
	return slices.Clone(r.missing)
}

// of returns the runtime of a container ID. The error UnknownRuntime is final only if another runtime responds,
// because without any runtime the named runtime may still start.
func (r *Runtimes) of(id string) (runtime *Runtime, bare string, err error) {
	name, bare := containerrestart.SplitID(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	answering := false
	for _, one := range r.known {
		if one.name == name && name != "" {
			return one.Runtime, bare, nil
		}
		answering = answering || one.up
	}
	why := reason.Reason{
		Code: UnknownRuntime, New: reason.Shorten(id, 80), Detail: "no runtime of this name answers on the Node", Remedy: "see whether the container runtime runs",
	}
	if answering {
		return nil, "", reason.Final(why)
	}
	return nil, "", why.With(r.missing.Err())
}

// Containers lists the containers of a Pod like Runtime.Containers, but each ID begins with the name of its runtime.
// ids are container IDs from the Pod's status: only their runtimes are asked, or all runtimes if there are no IDs.
func (r *Runtimes) Containers(ctx context.Context, pod types.UID, ids ...string) (out []Container, err error) {
	asked, err := r.namedBy(ids)
	if err != nil {
		return nil, err
	}
	for _, one := range asked {
		found, err := one.Containers(ctx, pod)
		if err != nil {
			return nil, err
		}
		for i := range found {
			found[i].ID = one.name + "://" + found[i].ID
		}
		out = append(out, found...)
	}
	return out, nil
}

// namedBy returns the runtimes that the container IDs name, or all known runtimes if there are no IDs.
func (r *Runtimes) namedBy(ids []string) (out []known, err error) {
	for _, id := range ids {
		one, _, err := r.of(id)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(out, func(k known) bool { return k.Runtime == one }) {
			name, _ := containerrestart.SplitID(id)
			out = append(out, known{Runtime: one, name: name})
		}
	}
	if len(ids) > 0 {
		return out, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.known {
		if one.name != "" {
			out = append(out, *one)
		}
	}
	if len(out) == 0 {
		return nil, r.missing.Err()
	}
	return out, nil
}

// Environment returns the environment of a container like Runtime.Environment.
func (r *Runtimes) Environment(ctx context.Context, id string) ([]string, error) {
	one, bare, err := r.of(id)
	if err != nil {
		return nil, err
	}
	return one.Environment(ctx, bare)
}

// Stop stops a container like Runtime.Stop.
func (r *Runtimes) Stop(ctx context.Context, id string, grace time.Duration) error {
	one, bare, err := r.of(id)
	if err != nil {
		return err
	}
	return one.Stop(ctx, bare, grace)
}

// Exec runs a command in a container like Runtime.Exec.
func (r *Runtimes) Exec(ctx context.Context, id string, command []string, limit time.Duration) (exitCode int32, err error) {
	one, bare, err := r.of(id)
	if err != nil {
		return 0, err
	}
	return one.Exec(ctx, bare, command, limit)
}

// RunOutput is like Exec, and also returns the output of the command: see Runtime.RunOutput.
func (r *Runtimes) RunOutput(ctx context.Context, id string, command []string, limit time.Duration) (Output, error) {
	one, bare, err := r.of(id)
	if err != nil {
		return Output{}, err
	}
	return one.RunOutput(ctx, bare, command, limit)
}

// String returns the names of the runtimes that respond, for logs.
func (r *Runtimes) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, one := range r.known {
		if one.up {
			names = append(names, one.name+" at "+one.Path())
		}
	}
	return strings.Join(names, ", ")
}

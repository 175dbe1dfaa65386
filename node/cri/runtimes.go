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

// UnknownRuntime means that the ID of a container names a runtime without an answer on the Node.
const UnknownRuntime reason.Code = "UnknownRuntime"

// Times of the looks for runtimes.
const (
	// lookSoon is the time between two looks while no runtime answers.
	lookSoon = 2 * time.Second
	// lookLater is the time between two looks while a runtime answers.
	lookLater = time.Minute
)

// Runtimes are the container runtimes of a Node, told apart by the names in front of IDs: "containerd://ab12". Start
// looks for them again and again: a runtime may come late, go, and come back. Runtimes are a stopper.Runtime, and are
// safe for concurrent use. Make Runtimes with NewRuntimes.
type Runtimes struct {
	paths func() []string
	clock clock.Clock
	wake  []func(context.Context)

	mu      sync.Mutex
	known   []*known
	looked  bool
	missing reason.List
}

// known is a runtime with the name of its last answer.
type known struct {
	*Runtime

	name string // empty before the first answer
	up   bool   // has answered the last look
}

// NewRuntimes returns the runtimes at the paths of sockets, asked for at every look, and further runtimes. The
// arguments may be nil.
func NewRuntimes(paths func() []string, more ...*Runtime) *Runtimes {
	r := &Runtimes{paths: paths, clock: clock.RealClock{}}
	for _, one := range more {
		r.known = append(r.known, &known{Runtime: one})
	}
	return r
}

// OnChange has f called after each look with another result. Call OnChange before Start.
func (r *Runtimes) OnChange(f func(context.Context)) { r.wake = append(r.wake, f) }

// Start looks for the runtimes until the context ends, and closes their connections then.
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
		return // the silence is our own
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

// candidates adds the runtimes of new paths, and returns all. A path without a socket costs no connection.
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

// Answering reports whether a runtime has answered the last look.
func (r *Runtimes) Answering() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.known, func(k *known) bool { return k.up })
}

// Missing says why there is no runtime, by path; nil if a runtime has answered the last look.
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

// of returns the runtime of a container. The reason UnknownRuntime is final once a runtime answers: until then any
// runtime may come.
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

// Containers lists the containers of a Pod as Runtime.Containers does, with the name of the runtime in front of each
// ID. ids are IDs of the Pod's status: their runtimes are asked, or all runtimes without IDs.
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

// namedBy returns the runtimes of containers, or all known runtimes without containers.
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

// Environment returns the environment of a container, as Runtime.Environment does.
func (r *Runtimes) Environment(ctx context.Context, id string) ([]string, error) {
	one, bare, err := r.of(id)
	if err != nil {
		return nil, err
	}
	return one.Environment(ctx, bare)
}

// Stop ends a container, as Runtime.Stop does.
func (r *Runtimes) Stop(ctx context.Context, id string, grace time.Duration) error {
	one, bare, err := r.of(id)
	if err != nil {
		return err
	}
	return one.Stop(ctx, bare, grace)
}

// Exec runs a command in a container, as Runtime.Exec does.
func (r *Runtimes) Exec(ctx context.Context, id string, command []string, limit time.Duration) (exitCode int32, err error) {
	one, bare, err := r.of(id)
	if err != nil {
		return 0, err
	}
	return one.Exec(ctx, bare, command, limit)
}

// String names the runtimes that answer, for logs.
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

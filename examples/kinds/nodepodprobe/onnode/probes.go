package onnode

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/kruise/probes"
	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/node/probing"
	"github.com/workloadkit/workloadkit/node/probing/prober"
	"github.com/workloadkit/workloadkit/reason"
)

// Lists provides the NodePodProbe of a Node.
type Lists interface {
	// List returns the object from a cache, nil if missing; do not modify the object. After a PatchStatus, List
	// returns the written object or a newer version.
	List() *v1alpha1.NodePodProbe
	// PatchStatus writes the status of the object with the given UID.
	PatchStatus(ctx context.Context, uid types.UID, status v1alpha1.NodePodProbeStatus) error
}

// Runtimes are the container runtimes of the Node. *cri.Runtimes implements Runtimes.
type Runtimes interface {
	// Containers lists the containers of a Pod, sorted by name, the newest first.
	Containers(ctx context.Context, pod types.UID, ids ...string) ([]cri.Container, error)
	// RunOutput runs a command in a container: see prober.Runtime.
	RunOutput(ctx context.Context, id string, command []string, limit time.Duration) (cri.Output, error)
}

// Event is an event about a container of a Pod.
type Event struct {
	Pod                              reason.Object
	Container, Type, Reason, Message string
}

// Options are the options of Probes. The zero value is valid.
type Options struct {
	// Tell is called with events about containers of Pods; nil means that no events are sent.
	Tell func(ctx context.Context, e Event)
	// Rhythm limits how often Probes writes results.
	Rhythm probing.Rhythm
	// Clock tells the time; nil means the real clock.
	Clock clock.WithTicker
	// UserAgent names the agent in HTTP and gRPC requests; if empty, the name is "kube-probe".
	UserAgent string
}

// atOnce is the largest number of simultaneous checks. The number is large enough that checks without a response
// seldom delay other checks, and small enough to limit the memory of the agent.
const atOnce = 64

// Probes runs the probes of a Node, and writes the results. Make Probes with New, and call Wake when the NodePodProbe
// may have changed.
type Probes struct {
	lists    Lists
	runtimes Runtimes
	prober   *prober.Prober
	options  Options
	slots    chan struct{} // a semaphore: one element for each check in progress
	woken    chan struct{}
	all      sync.WaitGroup

	mu      sync.Mutex
	started time.Time
	pods    map[types.UID]*pod
	records map[probing.Slot]probing.Record
}

// New returns Probes for the NodePodProbe of a Node.
func New(lists Lists, runtimes Runtimes, o Options) *Probes {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Probes{
		lists: lists, runtimes: runtimes, prober: prober.New(commands{runtimes}, o.UserAgent), options: o,
		slots: make(chan struct{}, atOnce), woken: make(chan struct{}, 1), pods: map[types.UID]*pod{}, records: map[probing.Slot]probing.Record{},
	}
}

// commands runs the commands of probes.
type commands struct{ Runtimes }

// RunOutput implements prober.Runtime.
func (c commands) RunOutput(ctx context.Context, id string, command []string, limit time.Duration) (prober.Output, error) {
	out, err := c.Runtimes.RunOutput(ctx, id, command, limit)
	return prober.Output{ExitCode: out.ExitCode, Stdout: out.Stdout, Stderr: out.Stderr}, err
}

// Wake makes Probes read the NodePodProbe soon, and returns at once.
func (p *Probes) Wake() {
	select {
	case p.woken <- struct{}{}:
	default: // a wake-up is already pending
	}
}

// These are the first and the longest wait after a failed write.
const (
	firstRest   = time.Second
	longestRest = 30 * time.Second
)

// Start runs probes until the context ends, and returns after the last check has ended.
func (p *Probes) Start(ctx context.Context) error {
	p.mu.Lock()
	p.started = p.options.Clock.Now()
	p.mu.Unlock()
	defer p.all.Wait()
	var written time.Time
	rest := firstRest
	for {
		after, err := p.step(ctx, &written)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			logr.FromContextOrDiscard(ctx).Error(err, "The results of probes are not written, and are written later")
			after, rest = rest, min(2*rest, longestRest)
			if !p.pause(ctx, after) {
				return nil
			}
			continue
		}
		rest = firstRest
		if !p.await(ctx, after) {
			return nil
		}
	}
}

// await waits for a call of Wake, or for the given time if the time is positive. await returns false if the context
// has ended.
func (p *Probes) await(ctx context.Context, after time.Duration) bool {
	var late <-chan time.Time
	if after > 0 {
		timer := p.options.Clock.NewTimer(after)
		defer timer.Stop()
		late = timer.C()
	}
	select {
	case <-ctx.Done():
		return false
	case <-p.woken:
	case <-late:
	}
	return true
}

// pause waits for the whole time, even if Wake is called. pause returns false if the context has ended.
func (p *Probes) pause(ctx context.Context, d time.Duration) bool {
	timer := p.options.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
	}
	return true
}

// step starts and ends probes according to the NodePodProbe, and writes the results if they have changed. after is
// the time until the next step.
func (p *Probes) step(ctx context.Context, written *time.Time) (after time.Duration, err error) {
	list := p.lists.List()
	var entries []probing.Entry
	if list != nil && list.DeletionTimestamp == nil {
		entries = probes.Entries(&list.Spec)
	}
	p.follow(ctx, entries)
	if list == nil {
		return 0, nil
	}
	before, now := probes.Reports(&list.Status), p.options.Clock.Now()
	p.mu.Lock()
	out := probing.Publish(before, entries, p.records, p.options.Rhythm, *written, now)
	p.mu.Unlock()
	if !out.Write {
		return out.After, nil
	}
	// A failed write also counts for the limit in Rhythm, because a failed request costs the API server as much as a
	// successful request.
	*written = now
	if err := p.lists.PatchStatus(ctx, list.UID, probes.StatusOf(out.Reports)); err != nil {
		return 0, err
	}
	p.tell(ctx, before, out.Reports, entries)
	return max(out.After, 0), nil
}

// follow starts the probes of new Pods, and ends the probes of Pods that are not in the NodePodProbe any more.
func (p *Probes) follow(ctx context.Context, entries []probing.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	targets := map[types.UID][]probing.Target{}
	wanted := map[probing.Slot]bool{}
	for _, target := range probing.Targets(entries, p.started) {
		targets[target.Pod] = append(targets[target.Pod], target)
		wanted[target.Slot()] = true
	}
	for slot := range p.records {
		if !wanted[slot] {
			delete(p.records, slot)
		}
	}
	for uid, one := range p.pods {
		if targets[uid] == nil {
			one.end()
			delete(p.pods, uid)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(targets)) {
		one := p.pods[uid]
		if one == nil {
			one = p.newPod(ctx, uid)
			p.pods[uid] = one
		}
		one.set(targets[uid])
	}
}

// tell sends events about probes whose state in the status has changed.
func (p *Probes) tell(ctx context.Context, before, after []probing.Report, entries []probing.Entry) {
	if p.options.Tell == nil {
		return
	}
	old, containers := map[probing.Slot]probing.State{}, map[probing.Slot]string{}
	for _, r := range before {
		for _, s := range r.States {
			old[probing.Slot{Pod: r.UID, Probe: s.Name}] = s.State
		}
	}
	for _, e := range entries {
		for i := range e.Probes {
			containers[probing.Slot{Pod: e.UID, Probe: e.Probes[i].Name}] = e.Probes[i].Container
		}
	}
	for _, r := range after {
		for _, s := range r.States {
			slot := probing.Slot{Pod: r.UID, Probe: s.Name}
			if s.State == old[slot] || s.State == probing.Unknown {
				continue
			}
			e := Event{
				Pod:       reason.Object{Kind: "Pod", Namespace: r.Namespace, Name: r.Name, UID: r.UID},
				Container: containers[slot], Type: corev1.EventTypeNormal, Reason: apps.EventProbeSucceeded, Message: s.Message,
			}
			if s.State == probing.Failed {
				e.Reason = apps.EventProbeFailed
			}
			p.options.Tell(ctx, e)
		}
	}
}

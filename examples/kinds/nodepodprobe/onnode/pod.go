// Package onnode runs the probes of a NodePodProbe in a node agent, and reports the results.
package onnode

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/node/probing"
)

// pod runs the probes of a Pod. Each Pod has a goroutine of its own, so a Pod whose containers cannot be listed does
// not delay other Pods.
type pod struct {
	probes *Probes
	uid    types.UID
	end    context.CancelFunc
	woken  chan struct{}

	mu      sync.Mutex
	targets []probing.Target
	due     map[string]time.Time // next call of probing.Next, by probe
	running map[string]bool
}

// callTimeout is the timeout of a runtime request for the containers of a Pod. noRuntime is the wait after a failed
// request.
const (
	callTimeout = 5 * time.Second
	noRuntime   = time.Second
)

func (p *Probes) newPod(ctx context.Context, uid types.UID) *pod {
	ctx, end := context.WithCancel(ctx)
	one := &pod{probes: p, uid: uid, end: end, woken: make(chan struct{}, 1), due: map[string]time.Time{}, running: map[string]bool{}}
	p.all.Go(func() { one.run(ctx) })
	return one
}

// set sets the probes to run.
func (o *pod) set(targets []probing.Target) {
	o.mu.Lock()
	changed := len(targets) != len(o.targets)
	for i := range targets {
		same := !changed && targets[i].IP == o.targets[i].IP && sameProbe(&targets[i].Assigned, &o.targets[i].Assigned)
		if !same {
			changed = true
			delete(o.due, targets[i].Name)
		}
	}
	o.targets = targets
	o.mu.Unlock()
	if changed {
		o.wake()
	}
}

func (o *pod) wake() {
	select {
	case o.woken <- struct{}{}:
	default:
	}
}

// run takes steps until the context ends.
func (o *pod) run(ctx context.Context) {
	for {
		wait := o.step(ctx)
		timer := o.probes.options.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-o.woken:
			timer.Stop()
		case <-timer.C():
		}
	}
}

// longest is the longest wait between two steps of a Pod. A change of the NodePodProbe, or the result of a check,
// ends the wait earlier.
const longest = time.Minute

// step begins the checks that are due, and returns the time until the next step.
func (o *pod) step(ctx context.Context) time.Duration {
	clock := o.probes.options.Clock
	due, wait := o.dueNow(clock.Now())
	if len(due) == 0 {
		return wait
	}
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	containers, err := o.probes.runtimes.Containers(limited, o.uid)
	cancel()
	if err != nil {
		logr.FromContextOrDiscard(ctx).V(4).Info("Containers cannot be listed", "pod", o.uid, "err", err.Error())
		return noRuntime
	}
	for i := range due {
		o.begin(ctx, &due[i], instanceOf(containers, due[i].Container), clock.Now())
	}
	_, wait = o.dueNow(clock.Now())
	o.probes.Wake() // Step can change states without a check, so the status may need a write
	return max(wait, time.Millisecond)
}

// dueNow returns the probes that are due, and the time until the next probe is due.
func (o *pod) dueNow(now time.Time) (due []probing.Target, wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	wait = longest
	for i := range o.targets {
		name := o.targets[i].Name
		if o.running[name] {
			continue
		}
		if left := o.due[name].Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		due = append(due, o.targets[i])
	}
	return due, wait
}

// instanceOf returns the newest instance of a container.
func instanceOf(containers []cri.Container, name string) probing.Instance {
	i := slices.IndexFunc(containers, func(c cri.Container) bool { return c.Name == name })
	if i < 0 || containers[i].State == containerrestart.Unknown || containers[i].State == containerrestart.Created {
		return probing.Instance{}
	}
	c := &containers[i]
	return probing.Instance{ID: c.ID, Running: c.State == containerrestart.Running, Started: c.Started}
}

// begin takes the next step of a probe, which may start a check.
func (o *pod) begin(ctx context.Context, target *probing.Target, instance probing.Instance, now time.Time) {
	p, slot := o.probes, target.Slot()
	p.mu.Lock()
	step := probing.Next(target, p.records[slot], instance, now)
	p.records[slot] = step.Record
	p.mu.Unlock()
	if step.Why.Code != "" {
		logr.FromContextOrDiscard(ctx).Info("A probe cannot be run", "why", step.Why.String())
	}
	o.mu.Lock()
	after := step.After
	if after <= 0 {
		after = longest
	}
	o.due[target.Name] = now.Add(after)
	o.running[target.Name] = step.Run
	o.mu.Unlock()
	if step.Run {
		p.all.Go(func() { o.check(ctx, target, step.Record) })
	}
}

// check carries out a check, and records the result.
func (o *pod) check(ctx context.Context, target *probing.Target, asked probing.Record) {
	p, slot := o.probes, target.Slot()
	result := probing.Result{Verdict: probing.Undecided}
	select {
	case <-ctx.Done():
	case p.slots <- struct{}{}:
		result = p.prober.Probe(ctx, asked.Instance, &asked.Check)
		<-p.slots
	}
	now := p.options.Clock.Now()
	p.mu.Lock()
	if record, wanted := p.records[slot]; wanted && ctx.Err() == nil {
		p.records[slot] = probing.Observe(target, record, asked, result, now)
	}
	p.mu.Unlock()
	o.mu.Lock()
	delete(o.running, target.Name)
	o.due[target.Name] = now.Add(time.Duration(max(target.Probe.PeriodSeconds, 1)) * time.Second)
	o.mu.Unlock()
	p.Wake()
	o.wake()
}

func sameProbe(a, b *probing.Assigned) bool {
	return a.Name == b.Name && a.Container == b.Container && apiequality.Semantic.DeepEqual(a.Probe, b.Probe)
}

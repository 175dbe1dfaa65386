package containerrestart_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/node/containerrestart"
)

// FuzzCourse simulates an agent that dies, a runtime that is slow or refuses, a kubelet that restarts crashed
// containers, and a Pod's status that lags behind. Only instances that the request names are stopped, in the right
// order. When no more events occur, the request ends, although the agent then runs only after the waits in
// Step.After.
func FuzzCourse(f *testing.F) {
	for seed := range uint64(400) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		n := newNode(t, seed)
		for range 120 {
			n.move()
		}
		n.settle()
	})
}

// node simulates a Node with a Pod, a kubelet and the agent.
type node struct {
	t    *testing.T
	seed uint64
	rand *rand.Rand
	now  time.Time

	request   request
	instances map[string][]instance // by name, the newest last
	readyAt   map[string]time.Time  // by ID
	starts    map[string]time.Time  // when the kubelet starts the next instance, by name
	stops     map[string]*stopping  // by ID: the stops in the agent's memory
	views     []view
	forced    map[string]string // the newer instance that Force has stopped, by name
	calm      bool
	over      bool
}

type stopping struct {
	ends   time.Time
	err    error
	failed bool
}

func newNode(t *testing.T, seed uint64) *node {
	n := &node{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 7)), now: at(0), instances: map[string][]instance{}, readyAt: map[string]time.Time{},
		starts: map[string]time.Time{}, stops: map[string]*stopping{}, forced: map[string]string{},
	}
	n.request = request{
		Ordered: n.chance(2), Force: n.chance(3), MinStarted: time.Duration(n.rand.IntN(3)) * 4 * time.Second, Started: n.now,
	}
	if n.chance(3) {
		n.request.OnFailure = completion.End
	}
	if n.chance(3) {
		n.request.Unready = ptr.To(time.Duration(n.rand.IntN(8)) * time.Second)
	}
	if n.chance(5) {
		n.request.Deadline = ptr.To(time.Minute)
	}
	for i := range 1 + n.rand.IntN(3) {
		name := string(rune('a' + i))
		n.request.Containers = append(n.request.Containers, container{Name: name})
		n.start(name)
		if !n.chance(8) {
			n.request.Containers[i].Before = "containerd://" + n.newest(name).ID
		}
	}
	n.report()
	return n
}

func (n *node) chance(one int) bool { return n.rand.IntN(one) == 0 }

func (n *node) failf(format string, args ...any) {
	n.t.Helper()
	n.t.Fatalf("seed %d at %v: %s\nrequest: %+v\ninstances: %+v", n.seed, n.now.Sub(at(0)), fmt.Sprintf(format, args...), n.request, n.instances)
}

func (n *node) newest(name string) *instance {
	all := n.instances[name]
	return &all[len(all)-1]
}

// start lets the kubelet start a container, which becomes ready a while later.
func (n *node) start(name string) {
	attempt := int32(len(n.instances[name]))
	i := instance{
		ID: fmt.Sprint(name, attempt), Name: name, Attempt: attempt, State: containerrestart.Running, Created: n.now, Started: n.now,
	}
	n.instances[name] = append(n.instances[name], i)
	n.readyAt[i.ID] = n.now.Add(time.Duration(n.rand.IntN(5)) * time.Second)
	delete(n.starts, name)
}

// end ends the running instance of a container. The kubelet starts a new instance later.
func (n *node) end(name string) {
	i := n.newest(name)
	if i.State != containerrestart.Running {
		return
	}
	i.State, i.Finished, i.ExitCode = containerrestart.Exited, n.now, 1
	n.starts[name] = n.now.Add(time.Duration(n.rand.IntN(4000)) * time.Millisecond)
}

// report updates the Pod's status.
func (n *node) report() {
	n.views = nil
	for name := range n.instances {
		i := n.newest(name)
		n.views = append(n.views, view{Name: name, ID: "containerd://" + i.ID, Ready: i.State == containerrestart.Running && !n.now.Before(n.readyAt[i.ID])})
	}
}

// pass advances the time, and lets the kubelet start containers that are due.
func (n *node) pass(d time.Duration) {
	n.now = n.now.Add(d)
	for _, name := range slices.Sorted(maps.Keys(n.instances)) {
		if at, due := n.starts[name]; due && !n.now.Before(at) {
			n.start(name)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(n.stops)) {
		s := n.stops[id]
		if n.now.Before(s.ends) {
			continue
		}
		if s.err != nil {
			s.failed = true
			continue
		}
		if i := n.newest(id[:1]); i.ID == id {
			n.end(id[:1])
		}
		delete(n.stops, id)
	}
}

// move makes one random event happen.
func (n *node) move() {
	switch n.rand.IntN(10) {
	case 0:
		n.end(string(rune('a' + n.rand.IntN(len(n.instances)))))
	case 1:
		clear(n.stops) // a new agent starts, which does not know the stops of the old process
	case 2:
		n.report()
	case 3:
		if n.request.Unready != nil && n.request.UnreadySince.IsZero() {
			n.request.UnreadySince = n.now
		}
	case 4, 5:
		n.pass(time.Duration(n.rand.IntN(4000)) * time.Millisecond)
	default:
		n.look()
	}
}

func (n *node) observe() (o observed) {
	for _, name := range slices.Sorted(maps.Keys(n.instances)) {
		o.Instances = append(o.Instances, n.instances[name]...)
	}
	n.rand.Shuffle(len(o.Instances), func(i, j int) { o.Instances[i], o.Instances[j] = o.Instances[j], o.Instances[i] })
	for _, id := range slices.Sorted(maps.Keys(n.stops)) {
		s := stop{ID: id}
		if n.stops[id].failed {
			s.Err = n.stops[id].err
		}
		o.Stops = append(o.Stops, s)
	}
	o.Views = n.views
	return o
}

// look runs the agent once. The write may fail, or the agent may die in between.
func (n *node) look() time.Duration {
	if n.over {
		return time.Second
	}
	o := n.observe()
	step := containerrestart.Next(n.request, o, n.now)
	n.check(step, o)
	if !n.calm && n.chance(6) {
		return step.After // the progress was not recorded
	}
	if n.over = step.Over(); n.over {
		n.checkEnd(step)
	}
	n.request.Containers = step.Containers
	if step.Stop == nil || !n.calm && n.chance(6) {
		return step.After // the agent died before the stop
	}
	s := &stopping{ends: n.now.Add(time.Duration(n.rand.IntN(3000)) * time.Millisecond)}
	if !n.calm && n.chance(12) {
		s.err = errors.New("refused")
	}
	n.stops[step.Stop.Instance.ID] = s
	return step.After
}

// check checks the guarantees that hold for each step.
func (n *node) check(step containerrestart.Step, o observed) {
	if !step.Over() && step.After <= 0 {
		n.failf("nobody looks again: %+v", step)
	}
	for i, before := range n.request.Containers {
		if before.Phase == containerrestart.Restarted || before.Phase == containerrestart.Failed {
			if step.Containers[i].Phase != before.Phase {
				n.failf("%s was final: %+v", before.Name, step)
			}
		} else if step.Containers[i].Phase == containerrestart.Restarted && n.newest(before.Name).ID == bare(before.Before) {
			n.failf("%s has not restarted: %+v", before.Name, step)
		}
	}
	if step.Stop == nil {
		return
	}
	id, c := step.Stop.Instance.ID, n.request.Containers[step.Stop.Index]
	switch {
	case step.Over():
		n.failf("a stop after the end: %+v", step)
	case *n.newest(c.Name) != step.Stop.Instance || step.Stop.Instance.State != containerrestart.Running:
		n.failf("%s is not the running instance: %+v", id, step)
	case slices.ContainsFunc(o.Stops, func(s stop) bool {
		return s.Err == nil && n.newest(s.ID[:1]).ID == s.ID && n.newest(s.ID[:1]).State == containerrestart.Running
	}):
		n.failf("two stops at a time: %+v, %+v", step, o.Stops)
	case n.request.Unready != nil && (n.request.UnreadySince.IsZero() || n.now.Before(n.request.UnreadySince.Add(*n.request.Unready))):
		n.failf("the Pod serves: %+v", step)
	case step.Containers[step.Stop.Index].StoppedID != id || !step.Containers[step.Stop.Index].Stopped:
		n.failf("the stop is not recorded: %+v", step)
	}
	if n.request.Ordered {
		for _, earlier := range step.Containers[:step.Stop.Index] {
			if earlier.Phase != containerrestart.Restarted && earlier.Phase != containerrestart.Failed {
				n.failf("%s comes first: %+v", earlier.Name, step)
			}
		}
	}
	if id == bare(c.Before) {
		return
	}
	if already, forced := n.forced[c.Name]; !n.request.Force || forced && already != id && c.StoppedID == already {
		n.failf("%s is newer than the request: %+v", id, step)
	}
	n.forced[c.Name] = id
}

func bare(id string) string {
	_, id = containerrestart.SplitID(id)
	return id
}

// checkEnd checks the guarantees that hold when a request has ended.
func (n *node) checkEnd(step containerrestart.Step) {
	for _, c := range step.Containers {
		if step.State == completion.Complete && c.Phase != containerrestart.Restarted && c.Phase != containerrestart.Failed {
			n.failf("complete, and %s is not: %+v", c.Name, step)
		}
	}
	if step.State == completion.Failed && len(step.Why) == 0 {
		n.failf("failed for no reason")
	}
}

// settle lets the agent run without further events, each time after the wait in Step.After.
func (n *node) settle() {
	n.calm = true
	if n.request.Unready != nil && n.request.UnreadySince.IsZero() {
		n.request.UnreadySince = n.now
	}
	end := n.now.Add(3 * time.Minute)
	for !n.over {
		n.report()
		after := n.look()
		if n.pass(after); n.now.After(end) {
			n.failf("not over: %+v", containerrestart.Next(n.request, n.observe(), n.now))
		}
	}
}

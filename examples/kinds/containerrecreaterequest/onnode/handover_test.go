package onnode

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/node/containerrestart"
)

// machine is a Node with a kubelet. A second after a container has ended, the kubelet starts a new instance. Another
// second later, the Pod's status shows the instance.
type machine struct {
	now       time.Time
	instances []containerrestart.Instance
	views     []containerrestart.View
	kills     map[string]int
}

func newMachine(names ...string) *machine {
	m := &machine{now: begin, kills: map[string]int{}}
	for _, name := range names {
		m.start(name, 0)
	}
	m.report()
	return m
}

func (m *machine) start(name string, attempt int32) {
	m.instances = append(m.instances, containerrestart.Instance{
		ID: fmt.Sprintf("containerd://%s%d", name, attempt), Name: name, Attempt: attempt, State: containerrestart.Running, Created: m.now, Started: m.now,
	})
}

// report updates the Pod's status with the newest instances.
func (m *machine) report() {
	m.views = nil
	for _, i := range m.instances {
		if m.newest(i.Name).ID == i.ID {
			m.views = append(m.views, containerrestart.View{Name: i.Name, ID: i.ID, Ready: i.State == containerrestart.Running})
		}
	}
}

func (m *machine) newest(name string) (last *containerrestart.Instance) {
	for i := range m.instances {
		if m.instances[i].Name == name {
			last = &m.instances[i]
		}
	}
	return last
}

func (m *machine) end(name string) {
	i := m.newest(name)
	i.State, i.Finished = containerrestart.Exited, m.now
}

// second advances the clock by a second, in which the kubelet acts.
func (m *machine) second() {
	m.now = m.now.Add(time.Second)
	m.report()
	for _, view := range m.views {
		if i := m.newest(view.Name); i.State == containerrestart.Exited {
			m.start(i.Name, i.Attempt+1)
		}
	}
}

// snapshot acts as the manager, which lists the container instances that are younger than the request in the status,
// for OpenKruise's daemon.
func (m *machine) snapshot(r *v1beta1.ContainerRecreateRequest) {
	for _, view := range m.views {
		if i := m.newest(view.Name); i.ID == view.ID && view.Ready && i.Started.After(r.CreationTimestamp.Time) {
			r.Status.ContainerStatusSnapshot = append(r.Status.ContainerStatusSnapshot, v1beta1.ContainerRecreateRequestContainerStatus{
				Name: view.Name, Ready: true, RestartCount: i.Attempt, ContainerID: i.ID,
			})
		}
	}
}

// daemon is one reconciliation by a daemon. dies is true if the daemon ends between the two writes of the
// reconciliation.
type daemon func(m *machine, r *v1beta1.ContainerRecreateRequest, dies bool)

// ours is this project's agent, which records a stop before the stop.
func ours(m *machine, r *v1beta1.ContainerRecreateRequest, dies bool) {
	step := containerrestart.Next(requestOf(r), containerrestart.Observed{Instances: m.instances, Views: m.views}, m.now)
	r.Status = statusOf(r, step)
	if step.Stop != nil && !dies {
		m.kills[step.Stop.Instance.Name]++
		m.end(step.Stop.Instance.Name)
	}
}

// theirs is OpenKruise's daemon, which stops a container before it records the stop.
func theirs(m *machine, r *v1beta1.ContainerRecreateRequest, dies bool) {
	if r.Status.Phase != v1beta1.ContainerRecreateRequestRecreating {
		r.Status.Phase = v1beta1.ContainerRecreateRequestRecreating
		return
	}
	var states []v1beta1.ContainerRecreateRequestContainerRecreateState
	for _, c := range r.Spec.Containers {
		states = append(states, theirState(m, r, c))
	}
	over := true
	for i := range states {
		s := &states[i]
		over = over && s.Phase == v1beta1.ContainerRecreateRequestSucceeded
		if s.Phase == v1beta1.ContainerRecreateRequestRecreating && r.Spec.Strategy.OrderedRecreate {
			break
		}
		if s.Phase != v1beta1.ContainerRecreateRequestPending {
			continue
		}
		m.kills[s.Name]++
		m.end(s.Name)
		if dies {
			return
		}
		s.Phase, s.IsKilled, over = v1beta1.ContainerRecreateRequestRecreating, true, false
		break
	}
	if r.Status.ContainerRecreateStates = states; over {
		r.Status.Phase, r.Status.CompletionTime = v1beta1.ContainerRecreateRequestCompleted, &metav1.Time{Time: m.now}
	}
}

// theirState returns the state that OpenKruise's daemon would write for a container.
func theirState(m *machine, r *v1beta1.ContainerRecreateRequest, c v1beta1.ContainerRecreateRequestContainer) (s v1beta1.ContainerRecreateRequestContainerRecreateState) {
	for _, before := range r.Status.ContainerRecreateStates {
		if before.Name == c.Name {
			s = before
		}
	}
	if s.Phase == v1beta1.ContainerRecreateRequestSucceeded || s.Phase == v1beta1.ContainerRecreateRequestFailed {
		return s
	}
	s = v1beta1.ContainerRecreateRequestContainerRecreateState{Name: c.Name, Phase: v1beta1.ContainerRecreateRequestRecreating, IsKilled: s.IsKilled}
	switch i := m.newest(c.Name); {
	case i.State == containerrestart.Exited:
		s.IsKilled = true
	case r.Spec.Strategy.ForceRecreate && !s.IsKilled, i.ID == c.StatusContext.ContainerID:
		s.Phase = v1beta1.ContainerRecreateRequestPending
	default:
		s.IsKilled = true
		for _, seen := range r.Status.ContainerStatusSnapshot {
			if seen.Name == c.Name && seen.ContainerID == i.ID && m.now.Sub(i.Started) > time.Duration(r.Spec.Strategy.MinStartedSeconds)*time.Second {
				s.Phase = v1beta1.ContainerRecreateRequestSucceeded
			}
		}
	}
	return s
}

// handover describes a request, and the moment at which the daemon of a Node is replaced by another daemon.
type handover struct {
	ordered, force, alone bool
	minStarted            int32
	// passes is the number of reconciliations by the first daemon. dies is true if the daemon ends in the middle of
	// the last reconciliation.
	passes int
	dies   bool
}

// run returns the machine and the request a minute after the handover.
func (h handover) run(first, second daemon) (*machine, *v1beta1.ContainerRecreateRequest) {
	m := newMachine("app", "log")
	r := request("r", 0, "", func(r *v1beta1.ContainerRecreateRequest) {
		r.Spec.Containers = append(r.Spec.Containers, v1beta1.ContainerRecreateRequestContainer{
			Name: "log", StatusContext: &v1beta1.ContainerRecreateRequestContainerContext{ContainerID: "containerd://log0"},
		})
		r.Spec.Containers[0].StatusContext.ContainerID = "containerd://app0"
		r.Spec.Strategy = &v1beta1.ContainerRecreateRequestStrategy{OrderedRecreate: h.ordered, ForceRecreate: h.force, MinStartedSeconds: h.minStarted}
	})
	if h.alone { // the container app has ended without a stop, and has started again
		m.end("app")
		m.second()
	}
	for pass := range 60 {
		m.second()
		r.Status.ContainerStatusSnapshot = nil
		m.snapshot(r)
		if isOver(r) {
			break
		}
		if pass < h.passes {
			first(m, r, h.dies && pass == h.passes-1)
		} else {
			second(m, r, false)
		}
	}
	return m, r
}

// TestHandover: a Node's daemon is replaced at any moment of a request, also between the two writes of a
// reconciliation: from OpenKruise's daemon to this agent, and back. The request ends successfully; each container has
// restarted, and was stopped at most once. With forceRecreate, two moments are exceptions, because their status is
// ambiguous: OpenKruise's daemon has stopped a container without recording the stop, or this agent has recorded a
// stop without stopping a container that had restarted by itself.
func TestHandover(t *testing.T) {
	for name, tt := range map[string]struct {
		first, second daemon
		twice, spared func(handover) bool
	}{
		"to this agent": {theirs, ours, func(h handover) bool { return h.force && h.dies }, func(handover) bool { return false }},
		"back":          {ours, theirs, func(handover) bool { return false }, func(h handover) bool { return h.force && h.dies && h.alone }},
	} {
		t.Run(name, func(t *testing.T) {
			for n := range 16 << 5 {
				h := handover{ordered: n&1 > 0, force: n&2 > 0, alone: n&4 > 0, minStarted: int32(n & 8 / 8 * 3), dies: n&16 > 0, passes: n >> 5}
				m, r := h.run(tt.first, tt.second)
				if len(r.Status.ContainerRecreateStates) != 2 || r.Status.Phase != v1beta1.ContainerRecreateRequestCompleted || r.Status.Message != "" {
					t.Errorf("%+v: status %+v", h, r.Status)
				}
				least, most := 0, 1
				if h.force && !tt.spared(h) {
					least = 1
				}
				if tt.twice(h) {
					most = 2
				}
				for i, state := range r.Status.ContainerRecreateStates {
					before, kills := r.Spec.Containers[i].StatusContext.ContainerID, m.kills[state.Name]
					if state.Phase != v1beta1.ContainerRecreateRequestSucceeded || m.newest(state.Name).ID == before || kills < least || kills > most {
						t.Errorf("%+v: %+v, instance %s, %d kills, want %d to %d", h, state, m.newest(state.Name).ID, kills, least, most)
					}
				}
			}
		})
	}
}

// Package scripted answers the question: how do I test an agent alone, with containers that the test controls?
// [Machine] implements fakecri.Machine in memory: the test adds, ends and replaces containers, and sets the behavior
// of each container.
package scripted

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/testing/fakecri"
	"github.com/workloadkit/workloadkit/testing/fakecri/program"
)

// These are exit codes of a process ended by a signal.
const (
	terminated = 143
	killed     = 137
)

// Behaviour describes the reactions of a container. The zero value means that the container ends at the first signal,
// and that package program runs its programs.
type Behaviour struct {
	// StopTakes is the time from the signal until the container ends. If the grace period is shorter, the container is
	// killed.
	StopTakes time.Duration
	// StopCode is the exit code after a signal; nil means 143.
	StopCode *int32
	// Exec, if set, runs the programs in place of package program.
	Exec func(ctx context.Context, argv []string) (out, errOut []byte, code int32, err error)
}

// Machine is a Node whose containers the test creates. Make a Machine with New. The methods are safe for concurrent
// use.
type Machine struct {
	// OnEnd is called for each container that has ended, in the goroutine that first notices the end. A test that acts
	// as the kubelet adds the next instance in OnEnd. Set OnEnd before the first call.
	OnEnd func(fakecri.Container)

	clock clock.Clock

	mu         sync.Mutex
	sandboxes  []fakecri.Sandbox
	containers []*container
}

type container struct {
	fakecri.Container

	behaviour Behaviour
	signalled bool
	ends      time.Time     // zero until the container is signalled
	over      chan struct{} // closed when the container has ended
}

// New returns a Machine without containers. If c is nil, the real clock is used.
func New(c clock.Clock) *Machine {
	if c == nil {
		c = clock.RealClock{}
	}
	return &Machine{clock: c}
}

// Add starts a container. Zero times are set to now, and if the sandbox does not exist, the sandbox is added.
func (m *Machine) Add(c fakecri.Container, behaviour Behaviour) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	if c.Created.IsZero() {
		c.Created = now
	}
	if c.Started.IsZero() {
		c.Started = now
	}
	m.containers = append(m.containers, &container{Container: c, behaviour: behaviour, over: make(chan struct{})})
	if !slices.ContainsFunc(m.sandboxes, func(s fakecri.Sandbox) bool { return s.ID == c.SandboxID }) {
		m.sandboxes = append(m.sandboxes, fakecri.Sandbox{ID: c.SandboxID, Created: c.Created})
	}
}

// AddSandbox adds a sandbox.
func (m *Machine) AddSandbox(s fakecri.Sandbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sandboxes = append(m.sandboxes, s)
}

// Exit ends a running container with a code, and reports whether the container was running.
func (m *Machine) Exit(id string, code int32) bool {
	m.mu.Lock()
	c := m.running(id)
	if c != nil {
		c.end(m.clock.Now(), code)
	}
	m.mu.Unlock()
	if c != nil && m.OnEnd != nil {
		m.OnEnd(c.Container)
	}
	return c != nil
}

// Remove forgets a container, as the kubelet's garbage collection does.
func (m *Machine) Remove(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.containers = slices.DeleteFunc(m.containers, func(c *container) bool { return c.ID == id })
}

func (m *Machine) running(id string) *container {
	for _, c := range m.containers {
		if c.ID == id && c.Finished.IsZero() {
			return c
		}
	}
	return nil
}

func (c *container) end(now time.Time, code int32) {
	c.Finished, c.ExitCode = now, code
	close(c.over)
}

// settle ends the containers whose time is over, and returns a function that calls OnEnd for these containers. The
// caller calls the function after releasing the lock.
func (m *Machine) settle() (tell func()) {
	now := m.clock.Now()
	var ended []fakecri.Container
	for _, c := range m.containers {
		if c.Finished.IsZero() && c.signalled && !c.ends.After(now) {
			c.end(c.ends, c.behaviour.code())
			ended = append(ended, c.Container)
		}
	}
	return func() {
		for i := range ended {
			if m.OnEnd != nil {
				m.OnEnd(ended[i])
			}
		}
	}
}

func (b *Behaviour) code() int32 {
	return ptr.Deref(b.StopCode, terminated)
}

// Sandboxes implements fakecri.Machine.
func (m *Machine) Sandboxes() []fakecri.Sandbox {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.sandboxes)
}

// Containers implements fakecri.Machine.
func (m *Machine) Containers() []fakecri.Container {
	m.mu.Lock()
	tell := m.settle()
	m.mu.Unlock()
	tell()
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]fakecri.Container, 0, len(m.containers))
	for _, c := range m.containers {
		out = append(out, c.Container)
	}
	return out
}

// Stop implements fakecri.Machine. A container gets only one signal, even if Stop is called several times.
func (m *Machine) Stop(ctx context.Context, id string, grace time.Duration) error {
	m.mu.Lock()
	c := m.running(id)
	if c == nil {
		m.mu.Unlock()
		return nil
	}
	now := m.clock.Now()
	if grace > 0 && !c.signalled {
		c.signalled, c.ends = true, now.Add(c.behaviour.StopTakes)
	}
	wait := grace
	if c.signalled {
		wait = min(grace, max(c.ends.Sub(now), 0))
	}
	m.mu.Unlock()
	if err := m.wait(ctx, c, wait); err != nil {
		return err
	}
	m.mu.Lock()
	tell := m.settle()
	m.mu.Unlock()
	tell()
	m.Exit(id, killed) // does nothing if the signal has ended the container
	return nil
}

// wait returns when the container has ended, or when the duration d has passed.
func (m *Machine) wait(ctx context.Context, c *container, d time.Duration) error {
	timer := m.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.over:
	case <-timer.C():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// Exec implements fakecri.Machine.
func (m *Machine) Exec(ctx context.Context, id string, argv []string) (out, errOut []byte, code int32, err error) {
	m.mu.Lock()
	c := m.running(id)
	m.mu.Unlock()
	switch {
	case c == nil:
		return nil, nil, 0, errors.New("container is not running")
	case c.behaviour.Exec != nil:
		return c.behaviour.Exec(ctx, argv)
	}
	result, err := program.Run(ctx, argv, c.Env)
	return result.Out, result.ErrOut, result.Code, err
}

// Package faultnodes answers the question: what does a node agent do while the runtime is ahead of the kubelet's
// reports? In a schedule of package chaos, [Machine] shows an agent the true state of the containers of
// faultapi.Nodes, even if the simulated kubelet has not reported this state yet. Stop ends an instance, and the
// schedule decides when the kubelet starts the next instance.
package faultnodes

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/testing/fakecri"
	"github.com/workloadkit/workloadkit/testing/fakecri/containerconfig"
	"github.com/workloadkit/workloadkit/testing/fakecri/program"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// terminated is the exit code after SIGTERM.
const terminated = 143

// Machine gives access to the containers of a Node. Make a Machine with New.
//
// Finish times are not recorded: an ended instance shows its start time as its finish time. Stop ends an instance at
// once.
type Machine struct {
	nodes *faultapi.Nodes
	lock  sync.Locker
	node  string
}

// New returns a Machine with the containers of the Pods bound to a Node. The lock guards nodes, because CRI calls
// come from other goroutines: the schedule holds the lock during its own steps.
func New(nodes *faultapi.Nodes, lock sync.Locker, node string) *Machine {
	return &Machine{nodes: nodes, lock: lock, node: node}
}

// instances returns the instances on the Node. The caller must hold the lock.
func (m *Machine) instances() []faultapi.Instance {
	var out []faultapi.Instance
	for _, i := range m.nodes.Instances() {
		if i.Pod.Spec.NodeName == m.node {
			out = append(out, i)
		}
	}
	return out
}

// Sandboxes implements fakecri.Machine.
func (m *Machine) Sandboxes() []fakecri.Sandbox {
	m.lock.Lock()
	defer m.lock.Unlock()
	var out []fakecri.Sandbox
	for _, i := range m.instances() {
		if s := containerconfig.Sandbox(i.Pod); len(out) == 0 || out[len(out)-1].ID != s.ID {
			out = append(out, s)
		}
	}
	return out
}

// Containers implements fakecri.Machine.
func (m *Machine) Containers() []fakecri.Container {
	m.lock.Lock()
	defer m.lock.Unlock()
	var out []fakecri.Container
	for _, i := range m.instances() {
		out = append(out, container(&i))
	}
	return out
}

// container describes an instance with the configuration with which the instance was started. The image and the
// variables from metadata can differ from the present Pod.
func container(i *faultapi.Instance) fakecri.Container {
	spec := &corev1.Container{Name: i.Name}
	if found := containerconfig.SpecOf(i.Pod, i.Name); found != nil {
		spec = found.DeepCopy()
	}
	spec.Image = i.Image
	c := containerconfig.New(i.Pod, spec, uint32(max(i.Restarts, 0)))
	c.ID, c.ImageID = i.ID, i.Digest
	c.Created, c.Started = i.Started.Time, i.Started.Time
	if i.Exit != nil {
		c.Finished, c.ExitCode = i.Started.Time, *i.Exit
	}
	for n := range c.Env {
		for _, v := range i.Env {
			if v.Name == c.Env[n].Name {
				c.Env[n].Value = v.Value
			}
		}
	}
	return c
}

// Stop implements fakecri.Machine.
func (m *Machine) Stop(_ context.Context, id string, _ time.Duration) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, i := range m.instances() {
		if i.ID == id {
			m.nodes.Exit(i.Pod.UID, i.Name, terminated) // an instance that has ended is not changed
		}
	}
	return nil
}

// Exec implements fakecri.Machine.
func (m *Machine) Exec(ctx context.Context, id string, argv []string) (out, errOut []byte, code int32, err error) {
	for _, c := range m.Containers() {
		if c.ID == id && c.Finished.IsZero() {
			result, err := program.Run(ctx, argv, c.Env)
			return result.Out, result.ErrOut, result.Code, err
		}
	}
	return nil, nil, 0, errors.New("container is not running")
}

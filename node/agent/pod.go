package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/node/containerrestart/stopper"
	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// Runtimes are the container runtimes of a Node, told apart by the names in front of IDs: *cri.Runtimes.
type Runtimes interface {
	stopper.Runtime
	// Containers lists the containers of a Pod at the runtimes of some IDs, or at all without IDs.
	Containers(ctx context.Context, pod types.UID, ids ...string) ([]cri.Container, error)
	// Environment returns the environment of a container at its start, as "NAME=value".
	Environment(ctx context.Context, id string) ([]string, error)
	// Missing says why no runtime answers; nil if one does.
	Missing() reason.List
}

// callTimeout is the time for a runtime to answer a question.
const callTimeout = 5 * time.Second

// Pod is a Pod of the Node in a pass of the work. The object is the cache's: read-only. A Pod must not be used after
// the pass.
type Pod struct {
	*corev1.Pod

	worker   *Worker
	listed   []cri.Container // once asked for
	asked    bool
	keeps    []string // IDs of wanted stops
	keepsAll bool
}

// Containers lists the instances of the Pod's containers at the runtime: by name, and the newest first. IDs have the
// runtime's name in front, as in the Pod's status. The runtime is asked once in a pass.
func (p *Pod) Containers(ctx context.Context) ([]cri.Container, error) {
	if p.asked {
		return p.listed, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	listed, err := p.worker.runtimes.Containers(ctx, p.UID, containerIDs(p.Pod)...)
	if err != nil {
		return nil, fmt.Errorf("containers of Pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	p.listed, p.asked = listed, true
	return listed, nil
}

// containerIDs returns the IDs in the Pod's status.
func containerIDs(pod *corev1.Pod) (ids []string) {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if id := statuses[i].ContainerID; id != "" {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// Environment returns the environment of a container at its start, as "NAME=value". The values may be secret: no error
// repeats them.
func (p *Pod) Environment(ctx context.Context, id string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return p.worker.runtimes.Environment(ctx, id)
}

// Observe returns the present state of the Pod for containerrestart.Next: of its containers and native sidecars.
func (p *Pod) Observe(ctx context.Context) (o containerrestart.Observed, err error) {
	o.Stops = p.worker.stops.Stops(keyOf(p.Pod)) // before the instances: a stop may end in between
	listed, err := p.Containers(ctx)
	for i := range listed {
		o.Instances = append(o.Instances, listed[i].Instance)
	}
	for _, specs := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range specs {
			if status := podstate.ContainerStatus(p.Pod, specs[i].Name); status != nil {
				o.Views = append(o.Views, p.view(&specs[i], status, o.Instances))
			}
		}
	}
	return o, err
}

// view is a container in the Pod's status. The runtime knows of an end before the status does.
func (p *Pod) view(spec *corev1.Container, status *corev1.ContainerStatus, instances []containerrestart.Instance) containerrestart.View {
	v := containerrestart.View{Name: spec.Name, ID: status.ContainerID, Ready: status.Ready}
	over := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil
	for _, i := range instances {
		if i.ID == v.ID && i.State == containerrestart.Exited {
			v.Ended = over || !podstate.IsRestarted(p.Pod, spec, i.ExitCode)
		}
	}
	return v
}

// Begin begins the stop of a step, if the step has one, and keeps the stops awaited by the step: call Begin after the
// record is written. grace replaces the grace period of the Pod; nil for none. Hook, ports and grace period are those
// of the instance's start, as its runtime tells. The error is of a hook that cannot be run: the container is stopped
// without the hook.
func (p *Pod) Begin(step containerrestart.Step, grace *time.Duration) error {
	for _, c := range step.Containers {
		if c.Phase == containerrestart.Restarting && c.StoppedID != "" {
			p.Keep(c.StoppedID)
		}
	}
	if step.Stop == nil {
		return nil
	}
	return p.Stop(step.Stop.Instance.ID, grace)
}

// Keep has the stop of an instance go on, if under way. The stops that a pass neither begins nor keeps end with the
// pass, unless the work fails: nobody wants them any more.
func (p *Pod) Keep(id string) { p.keeps = append(p.keeps, id) }

// KeepAll has all stops of the Pod go on: the work does not know enough to tell in this pass.
func (p *Pod) KeepAll() { p.keepsAll = true }

// Stop begins the stop of an instance of the Pod, as Begin does.
func (p *Pod) Stop(id string, grace *time.Duration) error {
	p.Keep(id)
	var instance cri.Container
	if i := slices.IndexFunc(p.listed, func(c cri.Container) bool { return c.ID == id }); i >= 0 {
		instance = p.listed[i]
	}
	hook, err := containerrestart.HookOf("containers["+instance.Name+"].lifecycle.preStop", instance.PreStop, instance.Ports, p.Status.PodIP)
	p.worker.stops.Ask(keyOf(p.Pod), stopper.Order{ID: id, Name: instance.Name, Hook: hook, Grace: containerrestart.GraceOf(instance.Grace, grace)})
	return err
}

// IsStopping reports whether a stop of the Pod's containers is under way.
func (p *Pod) IsStopping() bool {
	return slices.ContainsFunc(p.worker.stops.Stops(keyOf(p.Pod)), func(s containerrestart.Stop) bool { return s.Err == nil })
}

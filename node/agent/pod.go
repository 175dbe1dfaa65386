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

// Runtimes are the container runtimes of a Node; the prefix of a container ID names its runtime. *cri.Runtimes
// implements Runtimes.
type Runtimes interface {
	stopper.Runtime
	// Containers lists the containers of a Pod in the runtimes of the given IDs, or in all runtimes if no IDs are
	// given.
	Containers(ctx context.Context, pod types.UID, ids ...string) ([]cri.Container, error)
	// Environment returns the environment with which a container was started, as "NAME=value".
	Environment(ctx context.Context, id string) ([]string, error)
	// Missing returns the reasons why no runtime responds; nil if at least one runtime responds.
	Missing() reason.List
}

// callTimeout is the timeout of a request to a container runtime.
const callTimeout = 5 * time.Second

// Pod is a Pod of the Node during a call of Work. The object belongs to the cache, so do not modify the object. A Pod
// must not be used after the call.
type Pod struct {
	*corev1.Pod

	worker   *Worker
	listed   []cri.Container // containers of the Pod, listed at most once in a call of Work
	asked    bool
	keeps    []string // IDs of the instances whose stops continue
	keepsAll bool
}

// Containers lists the instances of the Pod's containers in the container runtime, sorted by name, the newest first.
// IDs begin with the runtime's name, as in the Pod's status. In each call of Work, the runtime is asked only once.
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

// Environment returns the environment with which a container was started, as "NAME=value". The values may be secret, so
// errors do not contain values.
func (p *Pod) Environment(ctx context.Context, id string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return p.worker.runtimes.Environment(ctx, id)
}

// Observe returns the present state of the Pod's containers and native sidecars, for containerrestart.Next.
func (p *Pod) Observe(ctx context.Context) (o containerrestart.Observed, err error) {
	o.Stops = p.worker.stops.Stops(keyOf(p.Pod)) // read before the instances, because a stop may end between the two reads
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

// view describes a container from the Pod's status. instances come from the container runtime, which knows the end of
// an instance earlier than the status does.
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

// Begin begins the stop that the step asks for, if any, and keeps the stops that the step waits for. Call Begin after
// the progress in step.Containers was recorded. grace replaces the grace period of the Pod; nil means the Pod's grace
// period. Hook, ports and grace period are the values with which the instance was started, as reported by its
// runtime. If the hook cannot be run, Begin returns an error, and stops the container without its hook.
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

// Keep says that the stop of an instance is still wanted, so that a stop in progress continues. Stops that a call of
// Work does not begin or keep are no longer wanted, and are cancelled at the end of the call, unless Work returns an
// error.
func (p *Pod) Keep(id string) { p.keeps = append(p.keeps, id) }

// KeepAll lets all stops of the Pod continue. Use KeepAll in a call of Work that cannot find out which stops are
// still wanted.
func (p *Pod) KeepAll() { p.keepsAll = true }

// Stop begins to stop an instance of the Pod, as Begin does.
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

// IsStopping reports whether a stop of one of the Pod's containers is in progress.
func (p *Pod) IsStopping() bool {
	return slices.ContainsFunc(p.worker.stops.Stops(keyOf(p.Pod)), func(s containerrestart.Stop) bool { return s.Err == nil })
}

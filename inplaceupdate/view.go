package inplaceupdate

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate/runtimemeta"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// view is a Pod together with its decoded annotations, for a single decision. The decision decodes the Pod once at its
// beginning, and every step works on the view.
type view struct {
	config *Config
	pod    *corev1.Pod
	now    time.Time

	// containers are all containers of the Pod, init containers first.
	containers []container
	// state is the progress of the Pod's update, nil if the Pod was never updated.
	state *progress
	// saved is the whole decoded state annotation, nil until a step needs more than state. If saved is not nil, state
	// is a part of saved.
	saved *savedState
	// grace are the changes that wait for the end of a grace period, nil if there are none.
	grace *savedGrace

	// lost says that somebody has removed or replaced the Pod's state annotation, so nobody knows which images the
	// containers run.
	lost bool

	// The fields lean, room and text are storage: state points to lean, containers is a slice of room, and text is
	// the decoder's buffer. Their sizes are enough for most Pods. Allocating the fields together with the view saves
	// time, because every event of a Pod makes a view.
	lean progress
	room [4]container
	text [480]byte
}

// container is a container of the Pod together with its status.
type container struct {
	view *view
	name string
	init bool
	// spec is nil for a container that cannot be updated: a container missing in the Pod, or a plain init container.
	spec *corev1.Container
	// status is nil until the node has reported the container. If the node agent has seen a newer instance, status is nil,
	// too, because the status describes an instance that has ended; ahead is then the report about the newer instance.
	status *corev1.ContainerStatus
	ahead  *runtimemeta.Container
	// shown is the status as reported, even of an instance that has ended.
	shown *corev1.ContainerStatus
}

// readToStart decodes a Pod for the start of an update.
func (u *Updater) readToStart(pod *corev1.Pod, now time.Time) (*view, error) {
	v := u.newView(pod, now)
	saved, err := v.whole()
	if saved == nil || err != nil {
		return v, err
	}
	return v, v.readGrace()
}

// readToContinue decodes a Pod that may have a running update. The whole state is decoded only if changes wait for the
// end of a grace period, because most other calls write nothing.
func (u *Updater) readToContinue(pod *corev1.Pod, now time.Time) (*view, error) {
	v := u.newView(pod, now)
	if err := v.readGrace(); err != nil {
		return nil, err
	}
	if v.grace == nil {
		return v, v.readProgress()
	}
	_, err := v.whole()
	return v, err
}

func (u *Updater) newView(pod *corev1.Pod, now time.Time) *view {
	v := &view{config: &u.config, pod: pod, now: now}
	v.containers = v.room[:0]
	add := func(list []corev1.Container, init bool) {
		for i := range list {
			c := container{view: v, name: list[i].Name, init: init, shown: podstate.ContainerStatus(pod, list[i].Name)}
			c.status = c.shown
			if !init || podstate.IsNativeSidecar(&list[i]) {
				c.spec = &list[i]
			}
			v.containers = append(v.containers, c)
		}
	}
	add(pod.Spec.InitContainers, true)
	add(pod.Spec.Containers, false)
	v.lookAhead()
	return v
}

// lookAhead replaces the statuses of instances for which the node agent has reported a newer instance. Such a report
// is early: the agent reports the new instance before the Pod's status does. Most reports are not decoded, because
// agents report instances early only during an update.
//
// An early report counts only if the Pod has the gate and is not Ready, and if the kubelet is known to have observed
// the Pod's spec: otherwise the kubelet may be restarting containers for an earlier spec, or may have reported the
// Pod as Ready from the old instance, before observing the closed gate. Containers with a startup probe must be
// reported by the kubelet itself: kubelets copy the field "started" from the old instance to the new instance
// (prober/prober_manager.go), so for a moment only the gate keeps the Pod out of service.
func (v *view) lookAhead() {
	if !strings.Contains(v.pod.Annotations[v.config.Keys.RuntimeMetaAnnotation], `"createdAt"`) || !v.nodeIsCurrent() ||
		podstate.IsTrue(v.pod, corev1.PodReady) || !podstate.HasGate(v.pod, v.config.Keys.Gate) {
		return
	}
	report := v.report()
	for i := range v.containers {
		c := &v.containers[i]
		if c.spec == nil || c.status == nil || report == nil || c.spec.StartupProbe != nil {
			continue
		}
		if c.ahead = report.Ahead(c.status); c.ahead != nil {
			c.status = nil
		}
	}
}

// container returns the container with the given name. For an unknown name, the result has neither spec nor status.
func (v *view) container(name string) *container {
	for i := range v.containers {
		if v.containers[i].name == name {
			return &v.containers[i]
		}
	}
	return &container{view: v, name: name}
}

// nodeIsBehind reports whether the kubelet has reported a status.observedGeneration older than the Pod's spec. Nodes
// report the generation of the spec since Kubernetes 1.34.
func (v *view) nodeIsBehind() bool {
	seen := v.pod.Status.ObservedGeneration
	return seen != 0 && seen < v.pod.Generation
}

// nodeIsCurrent reports whether the kubelet has reported the generation of the Pod's spec as status.observedGeneration.
func (v *view) nodeIsCurrent() bool {
	seen := v.pod.Status.ObservedGeneration
	return seen != 0 && seen >= v.pod.Generation
}

// change returns an empty change for the Pod. If exact is true, the change has the Pod's resourceVersion, so that the
// patch fails if the Pod has changed since it was read.
func (v *view) change(exact bool) podpatch.Change {
	change := podpatch.Change{UID: v.pod.UID, Annotations: map[string]*string{}}
	if exact {
		change.ResourceVersion = v.pod.ResourceVersion
	}
	return change
}

// drop adds to the change the removal of each given annotation that the Pod has.
func (v *view) drop(change *podpatch.Change, keys ...string) {
	for _, key := range keys {
		if _, ok := v.pod.Annotations[key]; ok {
			change.Annotations[key] = nil
		}
	}
}

func (v *view) object() reason.Object { return podObject(v.pod) }

func podObject(pod *corev1.Pod) reason.Object {
	return reason.Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

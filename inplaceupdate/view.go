package inplaceupdate

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// view is a Pod as one decision sees it. It is read once, when the decision begins, and every step works on it.
type view struct {
	config *Config
	pod    *corev1.Pod
	now    time.Time

	// containers are all of the Pod, init containers first.
	containers []container
	// state is how far the Pod's update has come, nil if it was never updated.
	state *progress
	// saved is the whole state annotation, nil until it is needed. It then contains state.
	saved *savedState
	// grace is the change that waits for the end of a grace period, nil if there is none.
	grace *savedGrace

	// lost says that the Pod's state is, and that nothing is known of what its containers run.
	lost bool

	// What most Pods need is allocated together with the view: this is done for every event of a Pod.
	lean progress
	room [4]container
	text [480]byte
}

// container is a container of the Pod and what its node reports.
type container struct {
	view *view
	name string
	init bool
	// spec is nil for a container that cannot be updated: one that the Pod does not have, or a plain init container.
	spec *corev1.Container
	// status is nil until the node has reported the container.
	status *corev1.ContainerStatus
}

// readToStart reads a Pod that is to be updated.
func (u *Updater) readToStart(pod *corev1.Pod, now time.Time) (*view, error) {
	v := u.newView(pod, now)
	saved, err := v.whole()
	if saved == nil || err != nil {
		return v, err
	}
	return v, v.readGrace()
}

// readToContinue reads a Pod whose update goes on, if it has one. The whole state is read only if a change is held back: in
// most other cases nothing is written.
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
			c := container{view: v, name: list[i].Name, init: init, status: podstate.ContainerStatus(pod, list[i].Name)}
			if !init || podstate.IsNativeSidecar(&list[i]) {
				c.spec = &list[i]
			}
			v.containers = append(v.containers, c)
		}
	}
	add(pod.Spec.InitContainers, true)
	add(pod.Spec.Containers, false)
	return v
}

// container returns a container by its name, one without spec and status if the Pod has none of that name.
func (v *view) container(name string) *container {
	for i := range v.containers {
		if v.containers[i].name == name {
			return &v.containers[i]
		}
	}
	return &container{view: v, name: name}
}

// nodeIsBehind reports whether the node says that it has not seen the newest spec. Nodes report that since Kubernetes 1.34.
func (v *view) nodeIsBehind() bool {
	seen := v.pod.Status.ObservedGeneration
	return seen != 0 && seen < v.pod.Generation
}

// nodeIsCurrent reports whether the node says that it has seen the newest spec.
func (v *view) nodeIsCurrent() bool {
	seen := v.pod.Status.ObservedGeneration
	return seen != 0 && seen >= v.pod.Generation
}

// change returns an empty change of the Pod. exact binds it to the Pod as it was read.
func (v *view) change(exact bool) podpatch.Change {
	change := podpatch.Change{UID: v.pod.UID, Annotations: map[string]*string{}}
	if exact {
		change.ResourceVersion = v.pod.ResourceVersion
	}
	return change
}

// drop removes those of the annotations that the Pod has.
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

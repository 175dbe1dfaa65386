package inplaceupdate

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// view is a Pod as a single decision sees the Pod. The decision reads the Pod once at its beginning, and every step
// works on the view.
type view struct {
	config *Config
	pod    *corev1.Pod
	now    time.Time

	// containers are all of the Pod, init containers first.
	containers []container
	// state is the progress of the Pod's update, nil without any update.
	state *progress
	// saved is the whole state annotation, nil until needed. A non-nil saved contains state.
	saved *savedState
	// grace is the change held back until the end of a grace period, nil if there is none.
	grace *savedGrace

	// lost says that the Pod's state is lost, so the images of its running containers are unknown.
	lost bool

	// Memory for most Pods, allocated together with the view: every event of a Pod makes a view.
	lean progress
	room [4]container
	text [480]byte
}

// container is a container of the Pod with its node's report.
type container struct {
	view *view
	name string
	init bool
	// spec is nil for a container without possible update: a container missing in the Pod, or a plain init container.
	spec *corev1.Container
	// status is nil until the node has reported the container.
	status *corev1.ContainerStatus
}

// readToStart reads a Pod for a new update.
func (u *Updater) readToStart(pod *corev1.Pod, now time.Time) (*view, error) {
	v := u.newView(pod, now)
	saved, err := v.whole()
	if saved == nil || err != nil {
		return v, err
	}
	return v, v.readGrace()
}

// readToContinue reads a Pod with or without a running update. It reads the whole state only if a change is held back,
// because most other calls write nothing.
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

// container returns a container by its name. An unknown name gives a container without spec and status.
func (v *view) container(name string) *container {
	for i := range v.containers {
		if v.containers[i].name == name {
			return &v.containers[i]
		}
	}
	return &container{view: v, name: name}
}

// nodeIsBehind reports whether the node has reported an older spec than the newest. Nodes report generations since
// Kubernetes 1.34.
func (v *view) nodeIsBehind() bool {
	seen := v.pod.Status.ObservedGeneration
	return seen != 0 && seen < v.pod.Generation
}

// nodeIsCurrent reports whether the node has reported the newest spec.
func (v *view) nodeIsCurrent() bool {
	seen := v.pod.Status.ObservedGeneration
	return seen != 0 && seen >= v.pod.Generation
}

// change returns an empty change of the Pod. exact binds the change to the Pod as read.
func (v *view) change(exact bool) podpatch.Change {
	change := podpatch.Change{UID: v.pod.UID, Annotations: map[string]*string{}}
	if exact {
		change.ResourceVersion = v.pod.ResourceVersion
	}
	return change
}

// drop removes the annotations as far as present on the Pod.
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

package cloneset

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
)

// observe turns what happens to Pods into the events and metrics of OpenKruise.
func (r *Reconciler) observe(cs *v1beta1.CloneSet, e executor.Event) {
	normal := func(name, format string, args ...any) {
		r.events.Eventf(cs, corev1.EventTypeNormal, name, format, args...)
	}
	warn := func(name, format string, args ...any) {
		r.events.Eventf(cs, corev1.EventTypeWarning, name, format, args...)
	}
	pod := e.Pod.Name
	switch e.Type {
	case executor.Deleted:
		normal(apps.EventSuccessfulDelete, "deleted Pod %s", pod)
	case executor.DeleteFailed:
		warn(apps.EventFailedDelete, "failed to delete Pod %s: %v", pod, e.Err)
	case executor.Started:
		normal(apps.EventSuccessfulUpdatePodInPlace, "updating Pod %s in place to revision %s", pod, e.Revision)
		r.options.Metrics.updatedInPlace()
	case executor.StartFailed:
		warn(apps.EventFailedUpdatePodInPlace, "failed to update Pod %s in place: %v", pod, e.Err)
	case executor.Blocked:
		warn(apps.EventFailedUpdatePodInPlace, "Pod %s cannot be updated in place: %s", pod, e.Why.Summary(reasonsInEvent))
	case executor.Recreated:
		text := "recreating Pod " + pod + " for revision " + e.Revision
		if len(e.Why) > 0 {
			text += ", not in place: " + e.Why.Summary(reasonsInEvent)
		}
		normal(apps.EventSuccessfulUpdatePodReCreate, "%s", text)
		r.options.Metrics.recreated(e.Why)
	case executor.RecreateFailed:
		warn(apps.EventFailedUpdatePodReCreate, "failed to recreate Pod %s: %v", pod, e.Err)
	case executor.FinishFailed:
		warn(apps.EventFailedUpdatePodInPlace, "failed to go on with the update of Pod %s: %v", pod, e.Err)
	case executor.Unreadable:
		warn(apps.EventFailedUpdate, "%v", e.Err)
	}
}

// nameOf finds the name of an owner that waits for the cache.
func (r *Reconciler) nameOf(p expectations.Pending) (namespace, name string) {
	if cs, ok := r.cache.Owners.ByUID(p.Owner); ok {
		return cs.Namespace, cs.Name
	}
	return "", string(p.Owner)
}

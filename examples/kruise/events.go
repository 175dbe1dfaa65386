package kruise

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
)

// ReasonsInEvent is the largest number of reasons, or of names, that an event or condition lists.
const ReasonsInEvent = 5

// Some joins the first [ReasonsInEvent] names. If there are more names, the number of omitted names follows, and then
// the text what.
func Some(names []string, what string) string {
	more := len(names) - ReasonsInEvent
	if more <= 0 {
		return strings.Join(names, ", ")
	}
	return strings.TrimSpace(fmt.Sprintf("%s and %d more %s", strings.Join(names[:ReasonsInEvent], ", "), more, what))
}

// observe converts the events of package executor about Pods to Kubernetes events and metrics with OpenKruise's
// names.
func (p *Parts[O]) observe(owner O, e executor.Event) {
	normal := func(name, format string, args ...any) {
		p.Events.Eventf(owner, corev1.EventTypeNormal, name, format, args...)
	}
	warn := func(name, format string, args ...any) {
		p.Events.Eventf(owner, corev1.EventTypeWarning, name, format, args...)
	}
	if e.Claim != nil {
		p.observeClaim(owner, e)
		return
	}
	pod := e.Pod.Name
	switch e.Type {
	case executor.Deleted:
		normal(apps.EventSuccessfulDelete, "deleted Pod %s", pod)
	case executor.DeleteFailed:
		warn(apps.EventFailedDelete, "failed to delete Pod %s: %v", pod, e.Err)
	case executor.Replaced:
		name := apps.EventRecreatingFailedPod
		if p.config.Nodes {
			name = apps.EventFailedDaemonPod
		}
		warn(name, "Pod %s has ended on Node %s and makes way for another", pod, e.Pod.Spec.NodeName)
	case executor.Started:
		normal(apps.EventSuccessfulUpdatePodInPlace, "updating Pod %s in place to revision %s", pod, e.Revision)
		p.Options.Metrics.UpdatedInPlace()
	case executor.StartFailed:
		warn(apps.EventFailedUpdatePodInPlace, "failed to update Pod %s in place: %v", pod, e.Err)
	case executor.Blocked:
		warn(apps.EventFailedUpdatePodInPlace, "Pod %s cannot be updated in place: %s", pod, e.Why.Summary(ReasonsInEvent))
	case executor.Recreated:
		text := "recreating Pod " + pod + " for revision " + e.Revision
		if len(e.Why) > 0 {
			text += ", not in place: " + e.Why.Summary(ReasonsInEvent)
		}
		normal(apps.EventSuccessfulUpdatePodReCreate, "%s", text)
		p.Options.Metrics.Recreated(e.Why)
	case executor.RecreateFailed:
		warn(apps.EventFailedUpdatePodReCreate, "failed to recreate Pod %s: %v", pod, e.Err)
	case executor.FinishFailed:
		warn(apps.EventFailedUpdatePodInPlace, "failed to go on with the update of Pod %s: %v", pod, e.Err)
	case executor.Restarted:
		warn(apps.EventFailedUpdatePodInPlace, "the update of Pod %s to revision %s begins anew: %s", pod, e.Revision, e.Why.Summary(ReasonsInEvent))
	case executor.Unreadable:
		warn(apps.EventFailedUpdate, "%v", e.Err)
	}
}

// observeClaim converts the events of package executor about a PersistentVolumeClaim to Kubernetes events.
func (p *Parts[O]) observeClaim(owner O, e executor.Event) {
	switch e.Type {
	case executor.ClaimDeleteFailed:
		p.Events.Eventf(owner, corev1.EventTypeWarning, apps.EventFailedDelete, "failed to delete PersistentVolumeClaim %s: %v", e.Claim.Name, e.Err)
	case executor.ClaimGrowthFailed:
		p.Events.Event(owner, corev1.EventTypeWarning, apps.EventFailedResize, e.Err.Error())
	case executor.ClaimGrown:
		p.Events.Eventf(owner, corev1.EventTypeNormal, apps.EventSuccessfulResize,
			"PersistentVolumeClaim %s grows to %s", e.Claim.Name, e.Claim.Spec.Resources.Requests.Storage())
	}
}

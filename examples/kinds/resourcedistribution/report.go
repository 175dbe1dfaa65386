package resourcedistribution

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/reason"
)

// eventOf returns the event to send when a condition becomes True.
func eventOf(condition v1beta1.ResourceDistributionConditionType) string {
	switch condition {
	case v1beta1.ResourceDistributionCreateResourceFailed:
		return apps.EventFailedCreate
	case v1beta1.ResourceDistributionDeleteResourceFailed:
		return apps.EventFailedDelete
	case v1beta1.ResourceDistributionConflictOccurred:
		return apps.EventNamespaceConflict
	case v1beta1.ResourceDistributionNamespaceNotExists:
		return apps.EventNamespaceNotExists
	default: // a copy that cannot be read is not updated either
		return apps.EventFailedUpdate
	}
}

// report returns the status to write, and sends events about changes of the status.
func (r *Reconciler) report(v *view, w *work) v1beta1.ResourceDistributionStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	status := statusOf(v.Owner, w.desired, w.succeeded, w.failures, metav1.NewTime(v.Now))
	for _, is := range news(v.Owner.Status.Conditions, status.Conditions) {
		r.events.Eventf(v.Owner, corev1.EventTypeWarning, eventOf(is.Type), "%s: %s", kruise.Some(is.FailedNamespaces, "namespaces"), is.Reason)
	}
	for _, how := range []struct {
		verb
		event string
	}{{created, apps.EventSuccessfulCreate}, {updated, apps.EventSuccessfulUpdate}, {deleted, apps.EventSuccessfulDelete}} {
		if namespaces := slices.Sorted(slices.Values(w.wrote[how.verb])); len(namespaces) > 0 {
			r.options.Metrics.Done(string(how.verb), int64(len(namespaces)))
			r.events.Eventf(v.Owner, corev1.EventTypeNormal, how.event, "%s %s %s in %s", how.verb, w.resource.Kind, w.resource.Name, kruise.Some(namespaces, "namespaces"))
		}
	}
	return status
}

// refuse reports in the status and by an event that a ResourceDistribution is invalid. The copies are not changed.
func (r *Reconciler) refuse(ctx context.Context, v *view, pass *fanout.Pass, err error) (ctrl.Result, error) {
	status := refused(v.Owner, err, metav1.NewTime(v.Now))
	if len(news(v.Owner.Status.Conditions, status.Conditions)) > 0 {
		_, message := reason.Explain(err)
		r.events.Event(v.Owner, corev1.EventTypeWarning, apps.EventInvalidResourceDistribution, message)
	}
	_, statusErr := v.WriteStatus(ctx, status)
	return pass.Result(reason.Final(err), statusErr)
}

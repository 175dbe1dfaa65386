package executor

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/reason"
)

// reasonsInEvent is the largest number of reasons in an event's note, and maxNote the largest number of bytes. The API
// server accepts 1,024 bytes.
const (
	reasonsInEvent = 5
	maxNote        = 1000
)

// Record returns an Options.Observe that records each Event as a Kubernetes event of the owner. Failures and blocked
// Pods become warnings. The reason of the Kubernetes event is the EventType, and the related object is the Pod or
// claim. A recreated Pod gets a single event about its recreation, and no event about its deletion.
func Record[O client.Object](recorder events.EventRecorder) func(O, Event) {
	return func(owner O, e Event) {
		if (e.Type == Deleted || e.Type == DeleteFailed) && e.Revision != "" {
			return
		}
		kind, related := corev1.EventTypeNormal, client.Object(e.Pod)
		what := "Pod"
		if e.Claim != nil {
			what, related = "PersistentVolumeClaim", e.Claim
		}
		note := what + " " + related.GetName()
		if e.Revision != "" {
			note += ", revision " + e.Revision
		}
		if e.Type == Blocked || e.Type == Restarted || e.Err != nil {
			kind = corev1.EventTypeWarning
		}
		if len(e.Why) > 0 {
			note += ", because " + e.Why.Summary(reasonsInEvent)
		}
		if e.Err != nil {
			note += ": " + e.Err.Error()
		}
		recorder.Eventf(owner, related, kind, string(e.Type), "Manage", "%s", reason.Shorten(note, maxNote))
	}
}

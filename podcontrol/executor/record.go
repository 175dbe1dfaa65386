package executor

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/reason"
)

// reasonsInEvent is how many reasons, and maxNote how many bytes, the note of an event has at most. The API server
// takes 1,024 bytes.
const (
	reasonsInEvent = 5
	maxNote        = 1000
)

// Record returns an Options.Observe that records Events of Pods as events of their owner. Failures and blocked Pods
// become warnings. The reason of an event is the EventType, the Pod or claim is its related object. A recreated Pod has
// a single event of its recreation, and none of its deletion.
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

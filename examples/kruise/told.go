package kruise

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
)

// Told sends events about objects, and remembers the last message of each event, so that an event with an unchanged
// message is not repeated.
type Told struct {
	*ownercache.Told

	events record.EventRecorder
}

// NewTold returns a Told for the owners in a cache, or for other objects.
func NewTold(objects ownercache.Followed, events record.EventRecorder) *Told {
	return &Told{ownercache.NewTold(objects), events}
}

// Tell sends an event if its message differs from the last message sent under the same event name. An empty message
// sends no event, but the next message counts as new.
func (t *Told) Tell(object client.Object, kind, event, message string) {
	if t.IsNews(object.GetUID(), event, message) {
		t.events.Event(object, kind, event, message)
	}
}

// Created sends an event with the number of created Pods, and an event with the first failure. The first event contains
// the name of the Pods' revision, unless the name is empty.
func (t *Told) Created(owner client.Object, made int, revision string, err error) {
	if revision != "" {
		revision = " at revision " + revision
	}
	if made > 0 {
		t.events.Eventf(owner, corev1.EventTypeNormal, apps.EventSuccessfulCreate, "created %d Pods%s", made, revision)
	}
	if err != nil && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		_, message := reason.Explain(err)
		t.events.Event(owner, corev1.EventTypeWarning, apps.EventFailedCreate, message)
	}
}

// Limits sends events about the rules that limit the creation of Pods.
func (t *Told) Limits(owner client.Object, limits reason.List) {
	for _, limit := range limits {
		if limit.Code == rollout.ScaleUpLimited {
			t.events.Event(owner, corev1.EventTypeWarning, apps.EventScaleUpLimited, limit.Detail)
		}
	}
}

// TellOrphans sends a single event about the Pods that match an owner's selector but have no controller. TellOrphans
// is for kinds that do not adopt Pods: if an owner is deleted without its Pods and created again, the old Pods run in
// addition to the new Pods.
func (p *Parts[O]) TellOrphans(t *executor.Turn[O]) {
	n, first := 0, ""
	for _, pod := range p.Cache.Pods.Orphans(t.Owner.GetNamespace()) {
		if !podstate.IsActive(pod) || !t.Selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if n++; first == "" || pod.Name < first {
			first = pod.Name
		}
	}
	message := ""
	if n > 0 {
		message = fmt.Sprintf("Pods that match the selector and that nobody controls: %d, the first is %s; they are not adopted: delete them, "+
			"or make this the controller in their ownerReferences", n, first)
	}
	p.Told.Tell(t.Owner, corev1.EventTypeWarning, apps.EventOrphansNotAdopted, message)
}

// Waits returns the reasons in limits for which an update waits, except partitions and pauses, which users have
// requested in the spec.
func Waits(limits reason.List) error {
	return slices.DeleteFunc(slices.Clone(limits), func(limit reason.Reason) bool {
		return limit.Code == rollout.RolloutPaused || strings.HasSuffix(limit.Path, ".partition")
	}).Err()
}

package kruise

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/reason"
)

// Stop ends a reconciliation that cannot do any work because of err. An error that only the user can correct is
// reported in a condition, and in an event if the condition is new. The observed generation is updated, and the rest
// of the status is not changed.
func (p *Parts[O]) Stop(ctx context.Context, turn *executor.Turn[O], condition, event string, err error) (ctrl.Result, error) {
	if !reason.IsFinal(err) {
		return turn.Pass.Result(err)
	}
	owner := turn.Owner.DeepCopyObject().(O) //nolint:forcetypeassert // a deep copy has the same type
	_, generation, conditions := p.config.Status(owner)
	*generation = owner.GetGeneration()
	for _, old := range []string{apps.ConditionInvalidSpec, apps.ConditionWaiting} {
		if old != condition { // an unchanged condition keeps its transition time
			conditions.Drop(old)
		}
	}
	conditions.SetFailure(condition, err, metav1.NewTime(turn.Now))
	status, _, _ := p.config.Status(owner)
	if before, _, _ := p.config.Status(turn.Owner); !equality.Semantic.DeepEqual(before, status) {
		_, message := reason.Explain(err)
		p.Events.Event(turn.Owner, corev1.EventTypeWarning, event, message)
	}
	_, err = turn.WriteStatus(ctx, status)
	return turn.Pass.Result(err)
}

package kruise

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/reason"
)

// Failing is a status with conditions of type T about failures.
type Failing[S any, T ~string] interface {
	*S
	SetFailure(t T, err error, now metav1.Time)
	DropCondition(t T)
}

// Stop ends a pass before its start. Faults that only the user can correct become condition t of status, and an event
// when the condition is new. status is the owner's status with a new observed generation. Nothing else is touched.
func Stop[O client.Object, S any, T ~string, P Failing[S, T]](
	ctx context.Context, p *Parts[O], turn *executor.Turn[O], before S, status P, t T, event string, err error,
) (ctrl.Result, error) {
	if !reason.IsFinal(err) {
		return turn.Pass.Result(err)
	}
	status.DropCondition(T(apps.ConditionInvalidSpec))
	status.DropCondition(T(apps.ConditionWaiting))
	status.SetFailure(t, err, metav1.NewTime(turn.Now))
	if !equality.Semantic.DeepEqual(&before, (*S)(status)) {
		_, message := reason.Explain(err)
		p.Events.Event(turn.Owner, corev1.EventTypeWarning, event, message)
	}
	_, err = turn.WriteStatus(ctx, *status)
	return turn.Pass.Result(err)
}

package kruise

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/restart"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/reason"
)

// requests is the cache of the ContainerRecreateRequests of workloads; node agents restart the named containers.
type requests struct {
	*beside[*v1beta1.ContainerRecreateRequest]
}

// newRequests returns the cache of ContainerRecreateRequests; nil if the feature gate turns node agents off.
func newRequests(ctx context.Context, mgr Manager, options Options) (*requests, error) {
	if !options.Gates[apps.GateKruiseDaemon] {
		return nil, nil
	}
	objects, err := newBeside(ctx, mgr, options, &v1beta1.ContainerRecreateRequest{})
	return &requests{objects}, err
}

// view returns the state of a workload's ContainerRecreateRequests for a reconciliation.
func (r *requests) view(owner client.Object, wish *restart.Wish, now time.Time) *restart.View {
	switch {
	case r == nil:
		v := restart.NewView(wish, nil, now)
		v.Off = restart.WithoutAgents()
		return v
	case !r.areServed(): // the cache may still show requests of a removed CRD
		v := restart.NewView(wish, nil, now)
		v.Off = restart.Unserved(r.resource)
		return v
	}
	return restart.NewView(wish, r.Of(owner.GetNamespace(), owner.GetUID()), now)
}

// watchRequests adds an event source that enqueues a workload when one of its requests ends.
func (p *Parts[O]) watchRequests(b *builder.Builder) *builder.Builder {
	if p.config.Watch != nil {
		b = p.config.Watch(b)
	}
	if p.requests == nil {
		return b
	}
	return b.Owns(&v1beta1.ContainerRecreateRequest{}, builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			request, ok := e.ObjectNew.(*v1beta1.ContainerRecreateRequest)
			return ok && !restart.IsUnderWay(request)
		},
	}))
}

// ViewRestart returns the state of the requested restart for a reconciliation; wish is nil if no restart is
// requested.
func (p *Parts[O]) ViewRestart(t *executor.Turn[O], wish *restart.Wish) *restart.View {
	v := p.requests.view(t.Owner, wish, t.Now)
	v.Rest = func(pod *corev1.Pod) error {
		_, err := p.Fanout.Backoff.Resting(restartOf(pod, wish), t.Now)
		return err
	}
	return v
}

// restartOf returns the backoff entry for restarting the containers of a Pod. The delays after a refusal are short,
// because the disruption budget or the policy may soon allow the restart.
func restartOf(pod *corev1.Pod, wish *restart.Wish) fanout.Attempt {
	task := fanout.Task{Name: "restart containers of the Pod", First: 5 * time.Second, Last: 20 * time.Second}
	return fanout.Attempt{Object: pod.UID, Task: task, Target: wish.String()}
}

// askAgain is the wait after a refused restart before the workload is reconciled again, to restart other Pods.
const askAgain = time.Second

// keepShares asks the disruption budgets again for permission to restart the Pods that are being restarted, because a
// budget counts a disruption only for some seconds, and a container may take longer to stop.
func (p *Parts[O]) keepShares(ctx context.Context, t *executor.Turn[O], plan *restart.Plan) {
	for _, pod := range plan.Keep {
		if err := p.permitRestart(ctx, pod); err != nil && !reason.IsFinal(err) {
			t.Pass.Wake(askAgain)
		}
	}
}

// permitRestart asks the budgets whether containers of a Pod may be stopped now. [reason.IsFinal] is true for the
// error of a refusal.
func (p *Parts[O]) permitRestart(ctx context.Context, pod *corev1.Pod) error {
	if p.Options.Permit == nil {
		return nil
	}
	err := p.Options.Permit(ctx, pod, disruption.Update)
	if len(reason.From(err)) > 0 {
		return reason.Final(err)
	}
	return err
}

// Restart makes the disruption budgets count the Pods that are being restarted, and sends events about the restart.
// The returned function carries out the plan. The budgets count the Pods even if the caller does not call the
// returned function.
func (p *Parts[O]) Restart(ctx context.Context, t *executor.Turn[O], plan *restart.Plan) func() error {
	p.keepShares(ctx, t, plan)
	t.Pass.Wake(plan.After)
	p.Told.Tell(t.Owner, corev1.EventTypeWarning, apps.EventFailedRestartContainers, plan.Problems().Summary(ReasonsInEvent))
	_, _, conditions := p.config.Status(t.Owner)
	if was := conditions.Find(plan.Condition.Type); plan.Condition.Status == corev1.ConditionTrue && (was == nil || was.Status != corev1.ConditionTrue) {
		p.Events.Event(t.Owner, corev1.EventTypeNormal, apps.EventRestartingContainers, plan.Condition.Message)
	}
	return func() error {
		return errors.Join(
			fanout.Each(ctx, t.Pass, fanout.Task{Name: "delete requests"}, plan.Remove, func(ctx context.Context, request *v1beta1.ContainerRecreateRequest) (bool, error) {
				err := client.IgnoreNotFound(t.Client.Delete(ctx, request, client.Preconditions{UID: &request.UID}))
				return err == nil, err
			}),
			t.Each(ctx, fanout.Task{Name: "restart containers"}, plan.Restart, func(ctx context.Context, pod *corev1.Pod) (bool, error) {
				return p.requestRestart(ctx, t, plan.Wish, pod)
			})(),
		)
	}
}

// requestRestart creates the request for a Pod, unless a budget refuses. A refused Pod is not tried again for some
// time, so that other Pods can be restarted; the condition names the Pod.
func (p *Parts[O]) requestRestart(ctx context.Context, t *executor.Turn[O], wish *restart.Wish, pod *corev1.Pod) (made bool, err error) {
	request := wish.Request(pod, *metav1.NewControllerRef(t.Owner, p.Cache.Kind()))
	if err = p.permitRestart(ctx, pod); err == nil {
		err = t.Client.Create(ctx, request)
	}
	attempt := restartOf(pod, wish)
	switch {
	case err == nil:
		p.Fanout.Backoff.Succeeded(pod.UID, attempt.Task)
		p.Events.Eventf(t.Owner, corev1.EventTypeNormal, apps.EventRestartingContainers, "restarting containers of Pod %s by ContainerRecreateRequest %s", pod.Name, request.Name)
		return true, nil
	case reason.IsFinal(err), podwrite.IsLasting(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err): // the CRD may just be removed
		p.Fanout.Backoff.Refused(attempt, err, t.Now)
		t.Pass.Wake(askAgain)
		return false, nil
	}
	return false, fmt.Errorf("requesting the restart of Pod %s: %w", pod.Name, err)
}

// Package shards is a whole operator for the example kind Shards: Pods with ordinals, each with a volume that can be
// enlarged. A disruption budget applies to the operator, to users and to evictions together. The library workloadkit
// does all the difficult work. The operator's own code is read from top to bottom: observe, decide, act, report.
// Package gameservers, which has no volumes and no budget, is simpler and should be read first.
package shards

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/disruption/guard"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/pvc/claimwriter"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/numbered"
)

type reconciler struct {
	*executor.Parts[*Shards]

	budget *guard.Guard[*Shards]
}

type turn = executor.Turn[*Shards]

// decision contains the decisions of a reconciliation. If the reconciliation ended early, fields may be nil.
type decision struct {
	current *appsv1.ControllerRevision
	members *podcontrol.Numbered
	claims  *pvc.Numbered
	step    numbered.Step
	grow    []pvc.Small
	waiting reason.List
}

// Reconcile takes the next step towards the state that a Shards' spec describes.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	t, result, err := r.Begin(ctx, req)
	if t == nil || t.Owner.DeletionTimestamp != nil {
		return result, err
	}
	// The Pods are read even if the reconciliation fails, because the report counts the Pods for the budget, and a
	// budget whose Pods were not counted admits no request.
	t.Read(podcontrol.Want{})
	if problems := r.problems(t.Owner); problems != nil {
		return r.report(ctx, t, nil, reason.Final(problems))
	}
	if err := r.SyncHistory(ctx, t, executor.Templates{Pod: &t.Owner.Spec.Template}); err != nil || t.History.Update == nil {
		return r.report(ctx, t, nil, err)
	}
	d, err := r.decide(t)
	if err != nil {
		return r.report(ctx, t, nil, reason.Final(err))
	}
	err = r.act(ctx, t, d)
	return r.report(ctx, t, d, errors.Join(err, r.TruncateHistory(ctx, t, historyLimit, d.current.Name)))
}

// decide has no side effects, but reads the remembered refusals of the API server. New Pods are created in order:
// each Pod is created after the Pods with lower ordinals are available.
func (r *reconciler) decide(t *turn) (*decision, error) {
	wanted, err := t.Owner.ordinals()
	if err != nil {
		return nil, err
	}
	d := &decision{current: t.History.Current(t.Owner.Status.CurrentRevision), claims: r.claims(t.Owner)}
	pods := t.Read(podcontrol.Want{Update: t.History.Update.Name})
	d.members = t.Numbered(podcontrol.NumberedOptions{StartTime: 2 * time.Minute})
	if d.members.IsComplete(wanted) {
		d.current = t.History.Update
	}
	for name := range pods.Names {
		sizes := d.claims.Sizes(name)
		d.grow, d.waiting = append(d.grow, sizes.Small...), append(d.waiting, sizes.Stuck...)
	}
	one := 1
	d.step, err = numbered.Plan(numbered.Spec{
		Wanted: wanted, MaxUnavailable: t.Owner.maxUnavailable(), Parallel: true, ScaleMaxUnavailable: &one,
		Paths: rollout.Paths{MaxUnavailable: "spec.maxUnavailable", ScaleMaxUnavailable: "the order of ordinals"},
	}, d.members.Pods)
	d.waiting = append(d.waiting, d.step.Limits...)
	return d, err
}

// act carries out the steps of the decision, up to and including the first step that changes an object.
func (r *reconciler) act(ctx context.Context, t *turn, d *decision) error {
	update := t.History.Update
	err := t.Pass.UntilChanged(
		func() error {
			_, err := t.CreateNumbered(ctx, d.step.Create, executor.NumberedTemplates{
				Current: d.current,
				Prepare: func(pod *corev1.Pod, _ int) { pvc.Mount(pod, d.claims.Templates) },
				Before: func(ctx context.Context, pod *corev1.Pod) error {
					return claimwriter.Prepare(ctx, t.Client, d.claims, pod.Name)
				},
			})
			return err
		},
		func() error {
			return t.GrowClaims(ctx, d.grow, func(pvc.Small) string { return "spec.storage" }, nil)
		},
		t.Each(ctx, fanout.Task{Name: "take Pods back"}, d.members.Of(d.step.Cancel), t.Cancel),
		t.Each(ctx, fanout.Task{Name: "delete Pods"}, d.members.Of(d.step.Delete), t.Delete),
		t.Each(ctx, fanout.Task{Name: "update Pods"}, d.members.Of(d.step.Update), t.UpdateTo(update, r.PlansTo(t.History, update))),
		t.Unfinished,
	)
	d.waiting = append(d.waiting, t.Waiting()...)
	return err
}

// count counts the Pods for the budget. Webhooks count admitted requests against the same budget.
func count(t *turn) (disruption.Count, error) {
	away := intstr.FromInt(t.Owner.maxUnavailable())
	census := disruption.Census{
		Generation: t.Owner.Generation, Expected: new(int32(t.Owner.Spec.Replicas)), Bounds: disruption.Bounds{MaxUnavailable: &away}, Path: "spec",
		Members: executor.Members(t.Set),
	}
	for _, pod := range t.Set.Inactive {
		census.Gone = append(census.Gone, pod.Name)
	}
	return disruption.Policy{}.Count(t.Owner.Status.Budget, census, t.Now)
}

// report writes the status if it has changed, unless the webhook has counted a further request against the budget
// since the count of the Pods. report returns when to reconcile again. If the reconciliation ended early, d is nil.
func (r *reconciler) report(ctx context.Context, t *turn, d *decision, err error) (ctrl.Result, error) {
	status := *t.Owner.Status.DeepCopy()
	status.ObservedGeneration = t.Owner.Generation
	meta.SetStatusCondition(&status.Conditions, reason.Condition("Failed", t.Owner.Generation, err))
	pods := t.Set.Totals()
	status.Pods, status.Available = pods.Pods, pods.Available
	counted, countErr := count(t)
	status.Budget, err = counted.Ledger, errors.Join(err, reason.Final(countErr))
	t.Pass.Wake(counted.Wait)
	t.Pass.Wake(t.Set.NextAvailable)
	if d != nil {
		status.Updated, status.Revision, status.CurrentRevision = pods.Updated, t.History.Update.Name, d.current.Name
		meta.SetStatusCondition(&status.Conditions, reason.Condition("Waiting", t.Owner.Generation, d.waiting.Err()))
		t.Pass.Wake(d.members.NextBroken)
	}
	_, statusErr := t.WriteSharedStatus(ctx, status)
	return t.Pass.Result(err, statusErr)
}

// permit asks the budget before the operator takes a Pod out of service. The budget uses the last stored count of the
// Pods, and the decision of the reconciliation uses the Pods in the cache. The operator acts only if both allow the
// disruption.
func (r *reconciler) permit(ctx context.Context, s *Shards, pod *corev1.Pod, operation disruption.Operation) error {
	return r.budget.Permit(ctx, client.ObjectKeyFromObject(s), pod, operation, r.Executor.Serves(pod))
}

// protected returns the budget that protects a Pod, for the webhook.
func (r *reconciler) protected(_ context.Context, pod *corev1.Pod) (guard.Protected, bool, error) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "Shards" || owner.APIVersion != GroupVersion.String() {
		return guard.Protected{}, false, nil
	}
	return guard.Protected{Budget: client.ObjectKey{Namespace: pod.Namespace, Name: owner.Name}, OutOfService: !r.Executor.Serves(pod)}, true, nil
}

// claims returns the description of the Pods' PersistentVolumeClaims. The claims are kept when the Pod or the Shards
// is deleted.
func (r *reconciler) claims(s *Shards) *pvc.Numbered {
	template := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	template.Spec.AccessModes, template.Spec.StorageClassName = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, s.Spec.StorageClass
	template.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: s.Spec.Storage}
	return &pvc.Numbered{
		Templates: []corev1.PersistentVolumeClaim{template}, Namespace: s.Namespace,
		Claim: func(name string) (*corev1.PersistentVolumeClaim, bool) { return r.Cache.Claims.Get(s.Namespace, name) },
	}
}

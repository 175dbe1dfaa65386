// Package shards is a whole operator for its own kind, Shards: numbered Pods, each with a volume that grows, and a
// budget that the operator, its users and whoever evicts Pods keep to together. The kit does all hard work. The rest
// reads from top to bottom: observe, decide, act, report. Package gameservers, without volumes and budget, is simpler and
// better read first.
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
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/pvc/claimwriter"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/numbered"
)

type reconciler struct {
	*executor.Parts[*Shards]

	budget *guard.Guard[*Shards]
}

type view = ownercache.View[*Shards]

// seen is the sight and the decision of a pass. Fields are nil if the pass ended early.
type seen struct {
	history *revision.History
	current *appsv1.ControllerRevision
	pods    *podcontrol.Set
	members *podcontrol.Numbered
	claims  *pvc.Numbered
	step    numbered.Step
	grow    []pvc.Small
	waiting reason.List
}

// Reconcile takes a Shards a step closer to its spec.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.Cache.Observe(ctx, req)
	if v == nil || v.Owner.DeletionTimestamp != nil {
		return result, err
	}
	pass := r.Fanout.Begin(v)
	uncertain := &seen{pods: r.Reader.Read(v.Owner.UID, v.Pods, podcontrol.Want{}, v.Now)} // counted for the budget all the same
	if problems := r.problems(v.Owner); problems != nil {
		return r.report(ctx, v, pass, uncertain, reason.Final(problems))
	}
	h, err := r.SyncHistory(ctx, v, pass, &v.Owner.Spec.Template, nil)
	if err != nil || h.Update == nil {
		return r.report(ctx, v, pass, uncertain, err)
	}
	s, err := r.decide(v, h)
	if err != nil {
		return r.report(ctx, v, pass, uncertain, reason.Final(err))
	}
	err = r.act(ctx, v, pass, s)
	truncateErr := r.TruncateHistory(ctx, v, pass, h, s.pods, historyLimit, s.current.Name)
	return r.report(ctx, v, pass, s, errors.Join(err, truncateErr))
}

// decide is pure apart from the memory of refusals. New Pods come in order, each when the Pods below serve.
func (r *reconciler) decide(v *view, h *revision.History) (*seen, error) {
	wanted, err := v.Owner.ordinals()
	if err != nil {
		return nil, err
	}
	s := &seen{history: h, current: h.Current(v.Owner.Status.CurrentRevision), claims: r.claims(v.Owner)}
	s.pods = r.Reader.Read(v.Owner.UID, v.Pods, podcontrol.Want{Update: h.Update.Name}, v.Now)
	s.members = s.pods.Numbered(v.Owner.Name, podcontrol.NumberedOptions{StartTime: 2 * time.Minute, Rest: r.Pods.Rest}, v.Now)
	if s.members.IsComplete(wanted) {
		s.current = h.Update
	}
	for name := range s.pods.Names {
		sizes := s.claims.Sizes(name)
		s.grow, s.waiting = append(s.grow, sizes.Small...), append(s.waiting, sizes.Stuck...)
	}
	one := 1
	s.step, err = numbered.Plan(numbered.Spec{
		Wanted: wanted, MaxUnavailable: v.Owner.maxUnavailable(), Parallel: true, ScaleMaxUnavailable: &one,
		Paths: rollout.Paths{MaxUnavailable: "spec.maxUnavailable", ScaleMaxUnavailable: "the order of ordinals"},
	}, s.members.Pods)
	s.waiting = append(s.waiting, s.step.Limits...)
	return s, err
}

// act carries the step out, until something has changed.
func (r *reconciler) act(ctx context.Context, v *view, pass *fanout.Pass, s *seen) error {
	pods := r.Pods.For(v, pass)
	each := func(task string, list []int, do func(context.Context, *corev1.Pod) (bool, error)) func() error {
		return func() error { return fanout.Each(ctx, pass, fanout.Task{Name: task}, s.members.Of(list), do) }
	}
	err := pass.UntilChanged(
		func() error {
			_, err := pods.CreateNumbered(ctx, s.step.Create, executor.NumberedTemplates{
				History: s.history, Current: s.current,
				Prepare: func(pod *corev1.Pod, _ int) { pvc.Mount(pod, s.claims.Templates) },
				Before: func(ctx context.Context, pod *corev1.Pod) error {
					return claimwriter.Prepare(ctx, v.Client, s.claims, pod.Name)
				},
			})
			return err
		},
		func() error {
			return claimwriter.GrowAll(ctx, pass, s.grow, claimwriter.Growth{
				Client: v.Client, Classes: r.Cache.APIReader(), Path: func(pvc.Small) string { return "spec.storage" },
			})
		},
		each("take Pods back", s.step.Cancel, pods.Cancel),
		each("delete Pods", s.step.Delete, pods.Delete),
		each("update Pods", s.step.Update, pods.UpdateTo(s.history.Update, r.PlansTo(s.history, s.history.Update))),
		func() error { return pods.Unfinished(s.pods) },
	)
	s.waiting = append(s.waiting, pods.Waiting(s.pods)...)
	return err
}

// count counts the Pods for the budget, which webhooks spend from as well.
func count(v *view, s *seen) (disruption.Count, error) {
	away := intstr.FromInt(v.Owner.maxUnavailable())
	census := disruption.Census{
		Generation: v.Owner.Generation, Expected: int32(v.Owner.Spec.Replicas), Bounds: disruption.Bounds{MaxUnavailable: &away}, Path: "spec",
		Members: executor.Members(s.pods),
	}
	for _, pod := range s.pods.Inactive {
		census.Gone = append(census.Gone, pod.Name)
	}
	return disruption.Policy{}.Count(v.Owner.Status.Budget, census, v.Now)
}

// report writes a changed status, unless somebody has spent from the budget since, and returns when to look again.
func (r *reconciler) report(ctx context.Context, v *view, pass *fanout.Pass, s *seen, err error) (ctrl.Result, error) {
	status := *v.Owner.Status.DeepCopy()
	status.ObservedGeneration = v.Owner.Generation
	meta.SetStatusCondition(&status.Conditions, reason.Condition("Failed", v.Owner.Generation, err))
	pods := s.pods.Totals()
	status.Pods, status.Available = pods.Pods, pods.Available
	counted, countErr := count(v, s)
	status.Budget, err = counted.Ledger, errors.Join(err, reason.Final(countErr))
	pass.Wake(counted.Wait)
	pass.Wake(s.pods.NextAvailable)
	if s.history != nil {
		status.Updated, status.Revision, status.CurrentRevision = pods.Updated, s.history.Update.Name, s.current.Name
		meta.SetStatusCondition(&status.Conditions, reason.Condition("Waiting", v.Owner.Generation, s.waiting.Err()))
		pass.Wake(s.members.NextBroken)
	}
	_, statusErr := v.WriteSharedStatus(ctx, status)
	return pass.Result(err, statusErr)
}

// permit asks the budget before the operator itself takes a Pod out of service.
func (r *reconciler) permit(ctx context.Context, s *Shards, pod *corev1.Pod, operation disruption.Operation) error {
	return r.budget.Permit(ctx, client.ObjectKeyFromObject(s), pod, operation, r.Pods.Serves(pod))
}

// protected names the budget of a Pod for the webhook.
func (r *reconciler) protected(_ context.Context, pod *corev1.Pod) (guard.Protected, bool, error) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "Shards" || owner.APIVersion != GroupVersion.String() {
		return guard.Protected{}, false, nil
	}
	return guard.Protected{Budget: client.ObjectKey{Namespace: pod.Namespace, Name: owner.Name}, OutOfService: !r.Pods.Serves(pod)}, true, nil
}

// claims are the volumes of the Pods. They stay when their Pod goes, and when the Shards goes.
func (r *reconciler) claims(s *Shards) *pvc.Numbered {
	template := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	template.Spec.AccessModes, template.Spec.StorageClassName = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, s.Spec.StorageClass
	template.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: s.Spec.Storage}
	return &pvc.Numbered{
		Templates: []corev1.PersistentVolumeClaim{template}, Namespace: s.Namespace,
		Claim: func(name string) (*corev1.PersistentVolumeClaim, bool) { return r.Cache.Claims.Get(s.Namespace, name) },
	}
}

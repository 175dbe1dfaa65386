package statefulset

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/adopt/ownerrefs"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/pvc/claimwriter"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

// ControllerName is the source of the controller's events and the controller's name in logs.
const ControllerName = "statefulset-controller"

// Options of the controller. The zero value is usable.
type Options = kruise.Options

// Reconciler reconciles StatefulSets.
type Reconciler struct {
	*kruise.Parts[*v1beta1.StatefulSet]
}

// view is a StatefulSet with its controlled objects, as cached.
type view = ownercache.View[*v1beta1.StatefulSet]

// Setup adds both controllers to the manager. The controllers write with c, and c must read from the manager's cache.
// The scheme must know the StatefulSet types.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	return r.AddTo(mgr, r)
}

func newReconciler(ctx context.Context, mgr kruise.Manager, c client.Client, options Options) (*Reconciler, error) {
	parts, err := kruise.NewParts(ctx, mgr, c, &v1beta1.StatefulSet{}, options.Complete(), kruise.Kind[*v1beta1.StatefulSet]{
		Name: "statefulset", Controller: ControllerName, Claims: true, Numbered: true, Rules: rules, Labels: apps.ReservedStatefulSetLabels(),
		Pods: podcontrol.Config{FullRevisions: true, CountUnscheduled: true, GateWhereUpdated: true, DeleteLabel: apps.LabelSpecifiedDelete},
	})
	return &Reconciler{parts}, err
}

// Reconcile brings a StatefulSet a step closer to its spec.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.Cache.Observe(ctx, req)
	if v == nil {
		return result, err
	}
	pass := r.Fanout.Begin(v)
	s, problems, _ := resolve(v.Owner, r.Options.Gates)
	if problems != nil {
		return r.stop(ctx, v, pass, apps.ConditionInvalidSpec, reason.Final(problems.Reasons()))
	}
	h, err := r.SyncHistory(ctx, v, pass, kruise.Templates{
		Pod: &v.Owner.Spec.Template, Claims: v.Owner.Spec.VolumeClaimTemplates, Observed: v.Owner.Status.ObservedGeneration,
		Collisions: v.Owner.Status.CollisionCount, Selector: s.selector,
	})
	if err != nil || h.Update == nil {
		return r.stop(ctx, v, pass, apps.ConditionFailedUpdatePod, err)
	}
	o := r.observed(v, pass, s, h)
	todo, err := decide(o)
	if err != nil {
		return r.stop(ctx, v, pass, apps.ConditionInvalidSpec, reason.Final(err))
	}
	var scaleErr, updateErr error
	if v.Owner.DeletionTimestamp == nil {
		scaleErr, updateErr = r.act(ctx, v, pass, o, todo)
	}
	return r.report(ctx, v, pass, o, todo, scaleErr, updateErr)
}

// observed reads the input of the pass's decisions.
func (r *Reconciler) observed(v *view, pass *fanout.Pass, s *settings, h *revision.History) *observation {
	set, pods := v.Owner, r.Pods.For(v, pass)
	o := &observation{
		set: set, settings: s, history: h, update: h.Update, current: h.Current(set.Status.CurrentRevision),
		pods:    r.Reader.Read(set.UID, v.Pods, podcontrol.Want{Update: h.Update.Name, MinReady: s.minReady, Selector: s.selector}, v.Now),
		orphans: r.Cache.Pods.Orphans(set.Namespace), claims: s.claims,
	}
	o.claims.Claim = func(name string) (*corev1.PersistentVolumeClaim, bool) {
		return r.Cache.Claims.Get(set.Namespace, name)
	}
	o.claims.Rest = func(claim *corev1.PersistentVolumeClaim) time.Duration {
		return claimwriter.Rest(r.Fanout, claim, v.Now)
	}
	o.claims.Shared = func(claim *corev1.PersistentVolumeClaim) bool {
		return slices.ContainsFunc(r.Cache.UsersOf(claim), func(pod *corev1.Pod) bool { return !metav1.IsControlledBy(pod, set) })
	}
	self := metav1.NewControllerRef(set, r.Cache.Kind())
	o.claims.Owner = metav1.OwnerReference{APIVersion: self.APIVersion, Kind: self.Kind, Name: self.Name, UID: self.UID}
	o.former() // before Pods are made side by side
	o.members = o.pods.Numbered(set.Name, podcontrol.NumberedOptions{Rest: r.Pods.Rest, Ended: func(pod *corev1.Pod) time.Duration {
		return pods.Ended(pod, pod.Name)
	}}, v.Now)
	if s.rollout.Unordered {
		o.members.Sort(podorder.Update{Priority: s.priority})
	}
	if !s.rollout.OnDelete && o.members.IsComplete(s.rollout.Wanted) {
		o.current = o.update // whether the status says so yet or not: nothing goes back from here
	}
	return o
}

// act carries the decision out, until something has changed.
func (r *Reconciler) act(ctx context.Context, v *view, pass *fanout.Pass, o *observation, t *todo) (scaleErr, updateErr error) {
	pods := r.Pods.For(v, pass)
	each := func(task fanout.Task, list []*corev1.Pod, do func(context.Context, *corev1.Pod) (bool, error)) func() error {
		return func() error { return fanout.Each(ctx, pass, task, list, do) }
	}
	scaleErr = pass.UntilChanged(
		func() error { return ownerrefs.Release(ctx, pass, v.Client, t.release) },
		func() error { return ownerrefs.Adopt(ctx, pass, v.Client, r.Cache.APIReader(), t.adopt) },
		func() error {
			return ownerrefs.Adopt(ctx, pass, v.Client, r.Cache.APIReader(), r.Left(v, o.settings.selector))
		},
		func() error {
			return fanout.Each(ctx, pass, fanout.Task{Name: "own claims"}, t.own, func(ctx context.Context, claim pvc.Owned) (bool, error) {
				return true, claimwriter.SetOwners(ctx, v.Client, claim)
			})
		},
		func() error { return r.CreateClaims(ctx, v, pass, t.missing) },
		each(fanout.Task{Name: "label Pods"}, t.relabel, func(ctx context.Context, pod *corev1.Pod) (bool, error) {
			result, err := podwrite.Send(ctx, v.Client, pod, v.Now, o.identity(pod))
			return result.Sent > 0, err
		}),
		each(fanout.Task{Name: "take Pods back"}, t.cancel, pods.Cancel),
		func() error { return r.create(ctx, v, pass, o, t) },
		each(fanout.Task{Name: "delete Pods"}, t.remove, func(ctx context.Context, pod *corev1.Pod) (bool, error) {
			return pods.DeleteFrom(ctx, pod, pod.Name)
		}),
	)
	// A refused update has already taken a Pod out of service, so the Pod rests for longer.
	update := fanout.Task{Name: "update Pods", First: 10 * time.Second, Last: 5 * time.Minute}
	updateErr = pass.UntilChanged(
		func() error {
			return r.GrowClaims(ctx, v, pass, t.grow, map[string]string{apps.AnnotationOwnedByStatefulSet: v.Owner.Name})
		},
		each(update, t.update, pods.UpdateTo(o.update, func(pod *corev1.Pod) *inplaceupdate.Plan {
			return kruise.Blocked(r.PlansTo(o.history, o.update)(pod), o.lacks(pod))
		})),
	)
	if len(t.stuck) > 0 {
		r.Events.Event(v.Owner, corev1.EventTypeWarning, apps.EventFailedUpdateClaim, t.stuck.Summary(kruise.ReasonsInEvent))
	}
	if updateErr == nil {
		updateErr = errors.Join(reason.Final(t.stuck.Err()), pods.Unfinished(o.pods))
	}
	t.held = pods.Waiting(o.pods)
	return scaleErr, updateErr
}

// create makes the missing Pods, each after its claims.
func (r *Reconciler) create(ctx context.Context, v *view, pass *fanout.Pass, o *observation, t *todo) error {
	r.TellLimits(v.Owner, t.step.Limits)
	made, err := r.Pods.For(v, pass).CreateNumbered(ctx, t.create, executor.NumberedTemplates{
		History: o.history, Current: o.current, Selector: o.settings.selector, Prepare: o.prepare,
		Before: func(ctx context.Context, pod *corev1.Pod) error {
			return claimwriter.Prepare(ctx, v.Client, o.claimsOf(pod), pod.Name)
		},
	})
	kruise.TellCreated(r.Events, v.Owner, made, err)
	return errors.Join(err, reason.Final(t.blocked.Err()))
}

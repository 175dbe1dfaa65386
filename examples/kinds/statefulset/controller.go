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
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/pvc/claimwriter"
	"github.com/workloadkit/workloadkit/reason"
)

// ControllerName is the name of the controller in logs, and the source of events.
const ControllerName = "statefulset-controller"

// Options are the options of the controller. The zero value is valid.
type Options = kruise.Options

// Reconciler reconciles StatefulSets.
type Reconciler struct {
	*kruise.Parts[*v1beta1.StatefulSet]
}

// turn is a single reconciliation of a StatefulSet.
type turn = executor.Turn[*v1beta1.StatefulSet]

// Setup adds the controller of StatefulSets, and the controller that finishes updates of their Pods, to the manager.
// The controllers write with c, and c must read from the manager's cache. The scheme must contain the StatefulSet
// types.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	return r.Register(mgr, r)
}

func newReconciler(ctx context.Context, mgr kruise.Manager, c client.Client, options Options) (*Reconciler, error) {
	parts, err := kruise.NewParts(ctx, mgr, c, &v1beta1.StatefulSet{}, options.Complete(), kruise.Config[*v1beta1.StatefulSet]{
		Name: "statefulset", Controller: ControllerName, Claims: true, Numbered: true, Rules: rules, Status: statusOf, Labels: apps.ReservedStatefulSetLabels(),
		PreDownload: apps.GatePreDownloadImageForInPlaceUpdate,
		Control:     podcontrol.Config{FullRevisions: true, CountUnscheduled: true, GateWhereUpdated: true, DeleteLabel: apps.LabelSpecifiedDelete},
	})
	return &Reconciler{parts}, err
}

// Reconcile takes the next step towards the state that a StatefulSet's spec describes.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	t, result, err := r.Begin(ctx, req)
	if t == nil {
		return result, err
	}
	set := t.Owner
	s, problems, _ := resolve(set, r.Options.Gates)
	if problems != nil {
		return r.Stop(ctx, t, apps.ConditionInvalidSpec, apps.EventFailedUpdate, reason.Final(problems.Reasons()))
	}
	t.Selector = s.selector
	if err := r.SyncHistory(ctx, t, executor.Templates{
		Pod: &set.Spec.Template, Claims: set.Spec.VolumeClaimTemplates, Observed: set.Status.ObservedGeneration, Collisions: kruise.Collisions(set.Status.CollisionCount),
	}); err != nil || t.History.Update == nil {
		return r.Stop(ctx, t, apps.ConditionFailedUpdatePod, apps.EventFailedUpdate, err)
	}
	o := r.observed(t, s)
	d, err := decide(o)
	if err != nil {
		return r.Stop(ctx, t, apps.ConditionInvalidSpec, apps.EventFailedUpdate, reason.Final(err))
	}
	var scaleErr, updateErr error
	if set.DeletionTimestamp == nil {
		scaleErr, updateErr = r.act(ctx, t, o, d)
	}
	return r.report(ctx, t, o, d, scaleErr, updateErr)
}

// observed reads the inputs of the reconciliation's decisions.
func (r *Reconciler) observed(t *turn, s *settings) *observation {
	set, h, restarts := t.Owner, t.History, r.ViewRestart(t, s.restart)
	o := &observation{
		set: set, settings: s, history: h, update: h.Update, current: h.Current(set.Status.CurrentRevision),
		pods:    t.Read(podcontrol.Want{Update: h.Update.Name, MinReady: s.minReady, Away: restarts.Away}),
		orphans: r.Cache.Pods.Orphans(set.Namespace), claims: s.claims, restarts: restarts, plans: r.PlansTo(h, h.Update), downloads: r.ViewPreDownload(t, set.Spec.Selector, &set.Spec.Template),
	}
	o.claims.Claim = func(name string) (*corev1.PersistentVolumeClaim, bool) {
		return r.Cache.Claims.Get(set.Namespace, name)
	}
	o.claims.Rest = func(claim *corev1.PersistentVolumeClaim) time.Duration {
		return claimwriter.Rest(r.Fanout, claim, t.Now)
	}
	o.claims.Shared = func(claim *corev1.PersistentVolumeClaim) bool {
		return slices.ContainsFunc(r.Cache.UsersOf(claim), func(pod *corev1.Pod) bool { return !metav1.IsControlledBy(pod, set) })
	}
	self := metav1.NewControllerRef(set, r.Cache.Kind())
	o.claims.Owner = metav1.OwnerReference{APIVersion: self.APIVersion, Kind: self.Kind, Name: self.Name, UID: self.UID}
	o.former() // called before Pods are created concurrently
	o.members = o.pods.Numbered(set.Name, podcontrol.NumberedOptions{Rest: r.Executor.Rest, Ended: func(pod *corev1.Pod) time.Duration {
		return t.Ended(pod, pod.Name)
	}}, t.Now)
	if s.rollout.Unordered {
		o.members.Sort(podorder.Update{Priority: s.priority})
	}
	if !s.rollout.OnDelete && o.members.IsComplete(s.rollout.Wanted) {
		o.current = o.update // the rollout is over, even if the status does not say so yet
	}
	return o
}

// act carries out the steps of the decision, up to and including the first step that changes an object.
func (r *Reconciler) act(ctx context.Context, t *turn, o *observation, d *todo) (scaleErr, updateErr error) {
	plans := r.PlansTo(o.history, o.update)
	// When an update is refused, the Pod is out of service already, so the back-off is longer than usual.
	update := fanout.Task{Name: "update Pods", First: 10 * time.Second, Last: 5 * time.Minute}
	scaleErr = t.Pass.UntilChanged(
		func() error { return ownerrefs.Release(ctx, t.Pass, t.Client, d.release) },
		func() error { return ownerrefs.Adopt(ctx, t.Pass, t.Client, r.Cache.APIReader(), d.adopt) },
		func() error { return ownerrefs.Adopt(ctx, t.Pass, t.Client, r.Cache.APIReader(), r.Left(t)) },
		func() error {
			return fanout.Each(ctx, t.Pass, fanout.Task{Name: "own claims"}, d.own, func(ctx context.Context, claim pvc.Owned) (bool, error) {
				return true, claimwriter.SetOwners(ctx, t.Client, claim)
			})
		},
		func() error { return t.CreateClaims(ctx, d.missing) },
		t.Each(ctx, fanout.Task{Name: "label Pods"}, d.relabel, func(ctx context.Context, pod *corev1.Pod) (bool, error) {
			result, err := podwrite.Send(ctx, t.Client, pod, t.Now, o.identity(pod))
			return result.Sent > 0, err
		}),
		t.Each(ctx, fanout.Task{Name: "take Pods back"}, d.cancel, t.Cancel),
		func() error { return r.create(ctx, t, o, d) },
		t.Each(ctx, fanout.Task{Name: "delete Pods"}, d.remove, func(ctx context.Context, pod *corev1.Pod) (bool, error) {
			return t.DeleteFrom(ctx, pod, pod.Name)
		}),
	)
	updateErr = t.Pass.UntilChanged(
		func() error {
			return t.GrowClaims(ctx, d.grow, nil, map[string]string{apps.AnnotationOwnedByStatefulSet: t.Owner.Name})
		},
		t.Each(ctx, update, d.update, t.UpdateTo(o.update, func(pod *corev1.Pod) *inplaceupdate.Plan { return plans(pod).Blocked(o.lacks(pod)) })),
		r.Restart(ctx, t, d.restart),
	)
	if len(d.stuck) > 0 {
		r.Events.Event(t.Owner, corev1.EventTypeWarning, apps.EventFailedUpdateClaim, d.stuck.Summary(kruise.ReasonsInEvent))
	}
	if updateErr == nil {
		updateErr = errors.Join(reason.Final(d.stuck.Err()), t.Unfinished())
	}
	d.held = t.Waiting()
	return scaleErr, errors.Join(updateErr, r.PreDownload(ctx, t, d.download))
}

// create creates the claims of the missing Pods, and then the Pods.
func (r *Reconciler) create(ctx context.Context, t *turn, o *observation, d *todo) error {
	r.Told.Limits(t.Owner, d.step.Limits)
	made, err := t.CreateNumbered(ctx, d.create, executor.NumberedTemplates{
		Current: o.current, Prepare: o.prepare,
		Before: func(ctx context.Context, pod *corev1.Pod) error {
			return claimwriter.Prepare(ctx, t.Client, o.claimsOf(pod), pod.Name)
		},
	})
	r.Told.Created(t.Owner, made, "", err)
	return errors.Join(err, reason.Final(d.blocked.Err()))
}

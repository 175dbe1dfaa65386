package cloneset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
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
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/pvc/claimwriter"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

// ControllerName is the name of the controller in logs, and the source of its events.
const ControllerName = "cloneset-controller"

// Options are the options of the controller. The zero value is valid.
type Options struct {
	kruise.Options

	// ExcludePreparingDelete is the default of the spec field with the same name, for all CloneSets.
	ExcludePreparingDelete bool
	// NewID returns a random instance id for a new Pod. If NewID is nil, an id has five characters of an alphabet
	// without vowels, so that no words are formed.
	NewID func() string
}

// Reconciler reconciles CloneSets.
type Reconciler struct {
	*kruise.Parts[*v1beta1.CloneSet]

	options Options
	unborn  pvc.Unborn
}

// turn is a single reconciliation of a CloneSet.
type turn = executor.Turn[*v1beta1.CloneSet]

// Setup adds the controller of CloneSets, and the controller that finishes updates of their Pods, to the manager. The
// controllers write with c, and c must read from the manager's cache. The scheme must contain the CloneSet types.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	return r.Register(mgr, r)
}

func newReconciler(ctx context.Context, mgr kruise.Manager, c client.Client, options Options) (r *Reconciler, err error) {
	options.Options = options.Complete()
	if options.NewID == nil {
		options.NewID = func() string { return rand.String(5) }
	}
	r = &Reconciler{options: options}
	config := kruise.Config[*v1beta1.CloneSet]{
		Name: "cloneset", Controller: ControllerName, Claims: true, Rules: rules, Status: statusOf, AfterDelete: r.deleteClaimsOf, Labels: apps.ReservedPodLabels(),
		PreDownload: apps.GatePreDownloadImageForInPlaceUpdate,
		Control: podcontrol.Config{
			HashLabel: apps.LabelPodTemplateHash, FullRevisions: !options.Gates[apps.GateCloneSetShortHash], DeleteLabel: apps.LabelSpecifiedDelete,
		},
	}
	if r.Parts, err = kruise.NewParts(ctx, mgr, c, &v1beta1.CloneSet{}, options.Options, config); err != nil {
		return nil, err
	}
	r.Cache.OnGone(r.unborn.Forget)
	return r, nil
}

// Reconcile takes the next step towards the state that a CloneSet's spec describes.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	t, result, err := r.Begin(ctx, req)
	if t == nil {
		return result, err
	}
	cs := t.Owner
	s, problems, _ := resolve(cs, r.options)
	if problems != nil {
		return r.Stop(ctx, t, apps.ConditionInvalidSpec, apps.EventFailedUpdate, reason.Final(problems.Reasons()))
	}
	t.Selector = s.selector
	if err := r.SyncHistory(ctx, t, executor.Templates{
		Pod: &cs.Spec.Template, Claims: cs.Spec.VolumeClaimTemplates, Observed: cs.Status.ObservedGeneration, Collisions: kruise.Collisions(cs.Status.CollisionCount),
		Stamp: func(d *revision.Decision) { kruise.StampClaimTemplates(d, cs.Spec.VolumeClaimTemplates) },
	}); err != nil || t.History.Update == nil {
		return r.Stop(ctx, t, apps.ConditionFailedUpdate, apps.EventFailedUpdate, err)
	}
	o, d := r.observed(ctx, t, s), &todo{}
	var scaleErr, updateErr error
	if cs.DeletionTimestamp == nil {
		d = decide(o)
		r.TellOrphans(t)
		scaleErr, updateErr = r.act(ctx, t, o, d)
	}
	return r.report(ctx, t, o, d, scaleErr, updateErr)
}

// act carries out the steps of the decision, up to and including the first step that changes an object.
func (r *Reconciler) act(ctx context.Context, t *turn, o *observation, d *todo) (scaleErr, updateErr error) {
	plan := func(pod *corev1.Pod) *inplaceupdate.Plan {
		return o.world.plan(o.history.Find(pod.Labels[apps.LabelRevision]), d.target).Blocked(o.lacks(pod, d.target))
	}
	remove := fanout.Task{Name: "delete Pods"}
	// When an update is refused, the Pod is out of service already, so the back-off is longer than usual.
	update := fanout.Task{Name: "update Pods", First: 10 * time.Second, Last: 5 * time.Minute}
	scaleErr = t.Pass.UntilChanged(
		func() error { return ownerrefs.Release(ctx, t.Pass, t.Client, o.pods.NotSelected) },
		func() error { return t.TendClaims(ctx, d.handOver, d.deleteClaims) },
		func() error { return t.CreateClaims(ctx, d.missing) },
		t.Each(ctx, fanout.Task{Name: "cancel deletions"}, d.cancel, t.Cancel),
		func() error { return r.create(ctx, t, o, d) },
		t.Each(ctx, remove, d.Leaving, t.Delete),
		t.Each(ctx, remove, d.Delete, t.Delete),
	)
	updateErr = t.Pass.UntilChanged(
		t.Each(ctx, fanout.Task{Name: "settle Pods"}, d.Settle, t.Settle),
		t.Each(ctx, update, d.Update, t.UpdateTo(d.target, plan)),
		r.Restart(ctx, t, d.restart),
	)
	if updateErr == nil {
		updateErr = t.Unfinished()
	}
	d.waits = append(d.waits, t.Waiting()...)
	return scaleErr, errors.Join(updateErr, r.PreDownload(ctx, t, d.download))
}

// observed reads the inputs of the reconciliation's decisions.
func (r *Reconciler) observed(ctx context.Context, t *turn, s *settings) *observation {
	cs, h, restarts := t.Owner, t.History, r.ViewRestart(t, s.restart)
	o := &observation{
		cs: cs, settings: s, history: h, update: h.Update, current: h.Current(cs.Status.CurrentRevision), claims: t.Claims,
		pods:  t.Read(podcontrol.Want{Update: h.Update.Name, MinReady: s.minReady, Delete: cs.Spec.ScaleStrategy.PodsToDelete, Away: restarts.Away}),
		world: r.worldOf(ctx, t), restart: restarts, owner: *metav1.NewControllerRef(cs, r.Cache.Kind()),
	}
	o.downloads = r.ViewPreDownload(t, cs.Spec.Selector, &cs.Spec.Template)
	o.unborn = r.unborn.Of(cs.UID, func(name string) bool { _, exists := o.world.pod(name); return exists })
	o.refused = r.unborn.Refused(cs.UID)
	if o.isOver() {
		o.current = o.update // the rollout is over, even if the status does not say so yet
	}
	o.former() // called before Pods are created concurrently
	return o
}

func (r *Reconciler) worldOf(ctx context.Context, t *turn) world {
	cs := t.Owner
	w := world{
		pod:   func(name string) (*corev1.Pod, bool) { return r.Cache.Pods.Get(cs.Namespace, name) },
		claim: func(name string) (*corev1.PersistentVolumeClaim, bool) { return r.Cache.Claims.Get(cs.Namespace, name) },
		busy:  func(pod *corev1.Pod) bool { return r.InPlace.InGracePeriod(pod) && !r.Executor.IsHeldUp(pod) },
		rest:  r.Executor.Rest, users: r.Cache.UsersOf, plan: r.Planner.Plan, newID: r.options.NewID,
		nodeLabels: func(name string) (map[string]string, bool) {
			node := &corev1.Node{}
			err := t.Client.Get(ctx, client.ObjectKey{Name: name}, node)
			return node.Labels, err == nil
		},
	}
	if claimTemplatesCount(cs, r.options) {
		w.plan = func(from, to *appsv1.ControllerRevision) *inplaceupdate.Plan {
			return r.Planner.Plan(from, to).Blocked(kruise.ClaimTemplatesBlock(from, to))
		}
	}
	return w
}

// deleteClaimsOf deletes the PersistentVolumeClaims of a Pod that the controller has deleted, even if the spec says
// that new Pods reuse the claims of lost Pods. Claims that other Pods use are kept.
func (r *Reconciler) deleteClaimsOf(ctx context.Context, t *turn, pod *corev1.Pod) error {
	world := r.worldOf(ctx, t)
	return t.DeleteClaims(ctx, world.claimsOf(t.Owner).Of(t.Claims, pod))
}

// create creates the PersistentVolumeClaims of the missing Pods, and then the Pods. Pods of the old revision are
// created first. If the API server refuses the Pods of a revision, Pods of the other revision are still created.
func (r *Reconciler) create(ctx context.Context, t *turn, o *observation, d *todo) error {
	r.Told.Limits(t.Owner, d.limits)
	if d.enough && len(o.unborn) > 0 {
		r.unborn.Forget(t.Owner.UID)
		t.Pass.Wake(lookAgain) // the claims prepared for Pods that are no longer wanted must be deleted
	}
	oldErr := reason.Final(d.blocked.Err())
	if oldErr != nil {
		t.Pass.Wake(time.Minute) // no event will announce that the revision was repaired
	}
	if len(d.createOld) > 0 {
		template, err := o.history.Template(o.current)
		if err != nil {
			t.Pass.Wake(time.Minute) // no event will announce that the revision was repaired
			return reason.Final(fmt.Errorf("template of the current revision: %w", err))
		}
		oldErr = errors.Join(oldErr, r.createPods(ctx, t, o, executor.PodTemplates{Template: template, Revision: o.current.Name}, d.createOld))
	}
	return errors.Join(oldErr, r.createPods(ctx, t, o, executor.PodTemplates{Template: &t.Owner.Spec.Template, Revision: o.update.Name}, d.create))
}

// createPods creates Pods with the given names from the template of a revision.
func (r *Reconciler) createPods(ctx context.Context, t *turn, o *observation, from executor.PodTemplates, names []string) error {
	existing := pvc.SetOf(t.Claims)
	from.Name, from.Unborn = func(i int) string { return names[i] }, &r.unborn
	from.Prepare = func(pod *corev1.Pod) {
		pod.Labels[apps.LabelInstanceID] = strings.TrimPrefix(pod.Name, pod.GenerateName)
		pvc.Mount(pod, o.claimTemplatesOf(pod))
	}
	from.Before = func(ctx context.Context, pod *corev1.Pod) error {
		return claimwriter.Create(ctx, t.Client, pvc.Missing(o.claimTemplatesOf(pod), pod.Namespace, pod.Name, o.claimLabels(pod), &o.owner, existing.Has))
	}
	made, err := t.CreatePods(ctx, len(names), from)
	r.Told.Created(t.Owner, made, from.Revision, err)
	return err
}

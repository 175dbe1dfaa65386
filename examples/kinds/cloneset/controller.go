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
	"k8s.io/apimachinery/pkg/labels"
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
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

// ControllerName is the source of the controller's events and the controller's name in logs.
const ControllerName = "cloneset-controller"

// Options of the controller. The zero value is usable.
type Options struct {
	kruise.Options

	// ExcludePreparingDelete is the global form of the spec field with the same name.
	ExcludePreparingDelete bool
	// NewID returns a random instance id. nil means five characters of an alphabet without word forming letters.
	NewID func() string
}

// Reconciler reconciles CloneSets.
type Reconciler struct {
	*kruise.Parts[*v1beta1.CloneSet]

	options Options
	unborn  pvc.Unborn
}

// view is a CloneSet with its controlled objects, as cached.
type view = ownercache.View[*v1beta1.CloneSet]

// Setup adds both controllers to the manager. The controllers write with c, and c must read from the manager's cache.
// The scheme must know the CloneSet types.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	return r.AddTo(mgr, r)
}

func newReconciler(ctx context.Context, mgr kruise.Manager, c client.Client, options Options) (*Reconciler, error) {
	options.Options = options.Complete()
	if options.NewID == nil {
		options.NewID = func() string { return rand.String(5) }
	}
	r := &Reconciler{options: options}
	kind := kruise.Kind[*v1beta1.CloneSet]{
		Name: "cloneset", Controller: ControllerName, Claims: true, Rules: rules, AfterDelete: r.deleteClaimsOf, Labels: apps.ReservedPodLabels(),
		Pods: podcontrol.Config{
			HashLabel: apps.LabelPodTemplateHash, FullRevisions: !options.Gates[apps.GateCloneSetShortHash], DeleteLabel: apps.LabelSpecifiedDelete,
		},
	}
	var err error
	if r.Parts, err = kruise.NewParts(ctx, mgr, c, &v1beta1.CloneSet{}, options.Options, kind); err != nil {
		return nil, err
	}
	r.Cache.OnGone(r.unborn.Forget)
	return r, nil
}

// Reconcile brings a CloneSet a step closer to its spec.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.Cache.Observe(ctx, req)
	if v == nil {
		return result, err
	}
	pass := r.Fanout.Begin(v)
	s, problems, _ := resolve(v.Owner, r.options)
	if problems != nil {
		return r.stop(ctx, v, pass, apps.ConditionInvalidSpec, reason.Final(problems.Reasons()))
	}
	h, err := r.SyncHistory(ctx, v, pass, kruise.Templates{
		Pod: &v.Owner.Spec.Template, Claims: v.Owner.Spec.VolumeClaimTemplates, Observed: v.Owner.Status.ObservedGeneration,
		Collisions: v.Owner.Status.CollisionCount, Selector: s.selector,
		Stamp: func(d *revision.Decision) { kruise.StampClaimTemplates(d, v.Owner.Spec.VolumeClaimTemplates) },
	})
	if err != nil || h.Update == nil {
		return r.stop(ctx, v, pass, apps.ConditionFailedUpdate, err)
	}
	o := r.observed(ctx, v, s, h)
	t := &todo{}
	var scaleErr, updateErr error
	if v.Owner.DeletionTimestamp == nil {
		t = decide(o)
		r.TellOrphans(v, s.selector)
		scaleErr, updateErr = r.act(ctx, v, pass, o, t)
	}
	return r.report(ctx, v, pass, o, t, scaleErr, updateErr)
}

// act carries the decision out, until something has changed.
func (r *Reconciler) act(ctx context.Context, v *view, pass *fanout.Pass, o *observation, todo *todo) (scaleErr, updateErr error) {
	pods := r.Pods.For(v, pass)
	plan := func(pod *corev1.Pod) *inplaceupdate.Plan {
		return kruise.Blocked(o.world.plan(o.history.Find(pod.Labels[apps.LabelRevision]), todo.target), o.lacks(pod, todo.target))
	}
	cancel, remove, settle := fanout.Task{Name: "cancel deletions"}, fanout.Task{Name: "delete Pods"}, fanout.Task{Name: "settle Pods"}
	// A refused update has already taken a Pod out of service, so the Pod rests for longer.
	update := fanout.Task{Name: "update Pods", First: 10 * time.Second, Last: 5 * time.Minute}
	scaleErr = pass.UntilChanged(
		func() error { return ownerrefs.Release(ctx, pass, v.Client, o.pods.NotSelected) },
		func() error { return r.TendClaims(ctx, v, pass, todo.handOver, todo.deleteClaims) },
		func() error { return r.CreateClaims(ctx, v, pass, todo.missing) },
		func() error { return fanout.Each(ctx, pass, cancel, todo.cancel, pods.Cancel) },
		func() error { return r.create(ctx, v, pass, o, todo) },
		func() error { return fanout.Each(ctx, pass, remove, todo.Leaving, pods.Delete) },
		func() error { return fanout.Each(ctx, pass, remove, todo.Delete, pods.Delete) },
	)
	updateErr = pass.UntilChanged(
		func() error { return fanout.Each(ctx, pass, settle, todo.Settle, pods.Settle) },
		func() error { return fanout.Each(ctx, pass, update, todo.Update, pods.UpdateTo(todo.target, plan)) },
	)
	if updateErr == nil {
		updateErr = pods.Unfinished(o.pods)
	}
	todo.waits = append(todo.waits, pods.Waiting(o.pods)...)
	return scaleErr, updateErr
}

// observed reads the input of the pass's decisions.
func (r *Reconciler) observed(ctx context.Context, v *view, s *settings, h *revision.History) *observation {
	cs := v.Owner
	want := podcontrol.Want{Update: h.Update.Name, MinReady: s.minReady, Delete: cs.Spec.ScaleStrategy.PodsToDelete, Selector: s.selector}
	o := &observation{
		cs: cs, settings: s, history: h, update: h.Update, current: h.Current(cs.Status.CurrentRevision), claims: v.Claims,
		pods:  r.Reader.Read(cs.UID, v.Pods, want, v.Now),
		world: r.worldOf(ctx, cs), owner: *metav1.NewControllerRef(cs, r.Cache.Kind()),
	}
	o.unborn = r.unborn.Of(cs.UID, func(name string) bool { _, exists := o.world.pod(name); return exists })
	if o.isOver() {
		o.current = o.update // whether the status says so yet or not: nothing goes back from here
	}
	o.former() // before Pods are made side by side
	return o
}

func (r *Reconciler) worldOf(ctx context.Context, cs *v1beta1.CloneSet) world {
	return world{
		pod:   func(name string) (*corev1.Pod, bool) { return r.Cache.Pods.Get(cs.Namespace, name) },
		claim: func(name string) (*corev1.PersistentVolumeClaim, bool) { return r.Cache.Claims.Get(cs.Namespace, name) },
		busy:  func(pod *corev1.Pod) bool { return r.InPlace.InGracePeriod(pod) && !r.Pods.IsHeldUp(pod) },
		rest:  r.Pods.Rest, users: r.Cache.UsersOf, plan: kruise.PlansBetween(r.Planner, claimTemplatesCount(cs, r.options)), newID: r.options.NewID, nodeLabels: r.NodeLabels(ctx),
	}
}

// deleteClaimsOf deletes the claims of a Pod deleted by the controller itself, with or without reuse. Claims also used
// by a foreign Pod stay.
func (r *Reconciler) deleteClaimsOf(ctx context.Context, v *view, pod *corev1.Pod) error {
	world := r.worldOf(ctx, v.Owner)
	return r.DeleteClaims(ctx, v, world.claimsOf(v.Owner).Of(v.Claims, pod))
}

// create makes the missing Pods, each after its claims. Old Pods come first. Refused Pods of a revision do not stop the
// Pods of the second revision.
func (r *Reconciler) create(ctx context.Context, v *view, pass *fanout.Pass, o *observation, t *todo) error {
	r.TellLimits(v.Owner, t.limits)
	if t.enough && len(o.unborn) > 0 {
		r.unborn.Forget(v.Owner.UID)
		pass.Wake(lookAgain) // claims kept for Pods no longer wanted are lost
	}
	oldErr := reason.Final(t.blocked.Err())
	if oldErr != nil {
		pass.Wake(time.Minute) // no event tells of the repair
	}
	if len(t.createOld) > 0 {
		template, err := o.history.Template(o.current)
		if err != nil {
			pass.Wake(time.Minute) // no event tells of the repair
			return reason.Final(fmt.Errorf("template of the current revision: %w", err))
		}
		oldErr = errors.Join(oldErr, r.createPods(ctx, v, pass, o, template, o.current, t.createOld))
	}
	return errors.Join(oldErr, r.createPods(ctx, v, pass, o, &v.Owner.Spec.Template, o.update, t.create))
}

// createPods makes the Pods of the given names at a revision.
func (r *Reconciler) createPods(ctx context.Context, v *view, pass *fanout.Pass, o *observation, template *corev1.PodTemplateSpec, rev *appsv1.ControllerRevision, names []string) error {
	existing := pvc.SetOf(v.Claims)
	cs, prefix := v.Owner, podName(v.Owner, "")
	return r.Create(ctx, v, pass, len(names), rev.Name, o.settings.selector, &r.unborn, func(i int) (*corev1.Pod, []*corev1.PersistentVolumeClaim) {
		pod := r.Control.NewPod(template, cs.Namespace, o.owner, rules(cs), rev.Name, v.Now)
		pod.Name, pod.GenerateName = names[i], prefix
		pod.Labels = labels.Merge(pod.Labels, map[string]string{apps.LabelInstanceID: strings.TrimPrefix(names[i], prefix)})
		templates := o.claimTemplatesOf(pod)
		pvc.Mount(pod, templates)
		return pod, pvc.Missing(templates, cs.Namespace, pod.Name, o.claimLabels(pod), &o.owner, existing.Has)
	})
}

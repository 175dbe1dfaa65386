package cloneset

import (
	"context"
	"fmt"
	"maps"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/expectations"
	expectationsapply "github.com/workloadkit/workloadkit/expectations/apply"
	"github.com/workloadkit/workloadkit/fairqueue"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/ownerindex"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/revision"
)

// decodedRevisions bounds how many revisions are kept decoded.
const decodedRevisions = 4096

// Setup adds both controllers to the manager. c is the client they write with; it must read from the manager's cache. The
// scheme must know the CloneSet types.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	return r.addTo(mgr)
}

func (r *Reconciler) addTo(mgr manager.Manager) error {
	if err := mgr.Add(r.client); err != nil {
		return fmt.Errorf("adding the start-up check of cloneset: %w", err)
	}
	gk := kind().GroupKind()
	err := builder.ControllerManagedBy(mgr).
		Named("cloneset").
		For(&v1beta1.CloneSet{}, builder.WithPredicates(r.ownerEvents())).
		Watches(&corev1.Pod{}, ownerindex.EnqueueController(gk, nil)).
		Watches(&corev1.Pod{}, handler.Funcs{DeleteFunc: r.userGone}).
		Watches(&corev1.PersistentVolumeClaim{}, ownerindex.EnqueueController(gk, nil)).
		WatchesRawSource(source.Func(r.keepQueue)).
		WithOptions(r.queueOptions(r.options.Workers)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding controller cloneset: %w", err)
	}
	err = builder.ControllerManagedBy(mgr).
		Named("cloneset-pods").
		Watches(&corev1.Pod{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(r.podEvents())).
		Watches(&v1beta1.CloneSet{}, handler.Funcs{UpdateFunc: r.specChanged}).
		WithOptions(r.queueOptions(r.options.PodWorkers)).
		Complete(&Finisher{r})
	if err != nil {
		return fmt.Errorf("adding controller cloneset-pods: %w", err)
	}
	return nil
}

// queue of the controller of CloneSets, for what the Pods' own loop has to tell it.
type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

func (r *Reconciler) keepQueue(_ context.Context, q queue) error {
	r.queue.Store(&q)
	return nil
}

// wakeOwner has a CloneSet report what its Pods' own loop was refused. No event will.
func (r *Reconciler) wakeOwner(cs *v1beta1.CloneSet) {
	if q := r.queue.Load(); q != nil { // else the controller has not started yet, and begins with all CloneSets
		(*q).Add(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(cs)})
	}
}

// ownerEvents lets through what a pass depends on. The status is none of that, or the report of each failure would wake the
// controller past its back-off.
func (r *Reconciler) ownerEvents() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld, e.ObjectNew
			if before.GetUID() != after.GetUID() {
				r.forget(before.GetUID())
			}
			return before.GetUID() != after.GetUID() || before.GetGeneration() != after.GetGeneration() ||
				!maps.Equal(before.GetLabels(), after.GetLabels()) || !maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
				(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil)
		},
		DeleteFunc: func(e event.DeleteEvent) bool { r.forget(e.Object.GetUID()); return false },
	}
}

// userGone wakes the CloneSets whose claims a Pod has used that is gone: they may have spared them for it.
func (r *Reconciler) userGone(_ context.Context, e event.DeleteEvent, q queue) {
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		return
	}
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		claim, ok := r.claims.Get(pod.Namespace, source.ClaimName)
		if !ok {
			continue
		}
		if ref := metav1.GetControllerOfNoCopy(claim); ref != nil && ref.Kind == kind().Kind {
			q.Add(ctrl.Request{NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: ref.Name}})
		}
	}
}

// specChanged has the Finisher look at the Pods in the middle of something: another hook may hold them, and what was refused may be
// accepted now. No event of their own will say so.
func (r *Reconciler) specChanged(_ context.Context, e event.UpdateEvent, q queue) {
	before, ok := e.ObjectOld.(*v1beta1.CloneSet)
	after, alsoOK := e.ObjectNew.(*v1beta1.CloneSet)
	if !ok || !alsoOK || before.Generation == after.Generation {
		return
	}
	for _, pod := range r.pods.Of(after.Namespace, after.UID) {
		switch lifecycle.State(pod.Labels[apps.LabelLifecycleState]) {
		case "", lifecycle.Normal:
		default:
			q.Add(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)})
		}
	}
}

// queueOptions have namespaces take turns, with a worker more than any of them can keep busy.
func (r *Reconciler) queueOptions(workers int) controller.Options {
	out := controller.Options{MaxConcurrentReconciles: workers + 1, NewQueue: fairqueue.New(workers)}
	if r.options.RateLimiter != nil {
		out.RateLimiter = r.options.RateLimiter()
	}
	return out
}

// podEvents lets the events of the CloneSets' Pods through to the Finisher, but for deletions, and lets go of what they have
// made obsolete.
func (r *Reconciler) podEvents() predicate.Predicate {
	isOwned := func(obj client.Object) bool {
		ref := metav1.GetControllerOfNoCopy(obj)
		return ref != nil && ref.Kind == kind().Kind
	}
	events := predicate.NewPredicateFuncs(isOwned)
	events.UpdateFunc = func(e event.UpdateEvent) bool { r.dropFacts(e.ObjectOld); return isOwned(e.ObjectNew) }
	events.DeleteFunc = func(e event.DeleteEvent) bool { r.dropFacts(e.Object); r.forgetPod(e.Object.GetUID()); return false }
	return events
}

// forget drops what is kept about a CloneSet that is gone.
func (r *Reconciler) forget(owner types.UID) {
	r.client.Forget(owner)
	r.facts.Forget(owner)
	r.backOff.Forget(owner)
	r.kept.Forget(owner)
	r.unborn.forget(owner)
}

// dropFacts lets go of a Pod as it was, which would stay in memory until the next pass over its CloneSet otherwise.
func (r *Reconciler) dropFacts(obj client.Object) {
	pod, ok := obj.(*corev1.Pod)
	if ref := metav1.GetControllerOfNoCopy(obj); ok && ref != nil {
		r.facts.Drop(ref.UID, pod)
	}
}

// forgetPod drops what is kept about a Pod that is gone.
func (r *Reconciler) forgetPod(pod types.UID) {
	r.client.Forget(pod)
	r.refusals.Forget(pod)
	r.kept.Forget(pod)
}

func newReconciler(ctx context.Context, mgr manager.Manager, c client.Client, options Options) (*Reconciler, error) {
	options = withDefaults(options)
	r := &Reconciler{
		options: options, live: mgr.GetAPIReader(),
		//nolint:staticcheck // The newer recorder cannot name the source component, which is part of the wire format.
		events:  mgr.GetEventRecorderFor(apps.EventSource),
		decoder: revision.NewDecoder(decodedRevisions, nil),

		refusals: podwrite.NewRefusals(refusalRetry, refusalRetry),
		kept:     podwrite.NewRefusals(firstPodBackOff, lastPodBackOff),
		backOff:  podwrite.NewRefusals(firstBackOff, lastBackOff),
	}
	var err error
	if r.inPlace, err = kruise.InPlace(options.Gates); err != nil {
		return nil, err
	}
	extra := claimTemplatesBlock
	if !options.Gates[apps.GateRecreatePodWhenChangeVCT] {
		extra = nil
	}
	r.planner = inplaceupdate.NewPlanner(r.inPlace, r.decoder, extra)
	if r.owners, err = ownerindex.New(ctx, mgr.GetCache(), &v1beta1.CloneSet{}); err != nil {
		return nil, err
	}
	if r.pods, err = ownerindex.New(ctx, mgr.GetCache(), &corev1.Pod{}); err != nil {
		return nil, err
	}
	if err = r.pods.Add(usersIndex, claimsUsedBy); err != nil {
		return nil, err
	}
	if r.revisions, err = ownerindex.New(ctx, mgr.GetCache(), &appsv1.ControllerRevision{}); err != nil {
		return nil, err
	}
	if r.claims, err = ownerindex.New(ctx, mgr.GetCache(), &corev1.PersistentVolumeClaim{}); err != nil {
		return nil, err
	}
	own := expectationsapply.Source{
		Store: expectations.Store{GroupResource: v1beta1.GroupVersion.WithResource("clonesets").GroupResource()},
		Kind:  kind(), Index: r.owners,
	}
	sources := []expectationsapply.Source{
		own, expectationsapply.Pods(r.pods), expectationsapply.Revisions(r.revisions), expectationsapply.Claims(r.claims),
	}
	for i := range sources {
		if options.Namespace == "" {
			break
		}
		sources[i].Restrict = []client.ListOption{client.InNamespace(options.Namespace)}
	}
	r.client = expectationsapply.NewClient(c, r.live, expectations.Options{
		Clock: options.Clock, Barrier: true, Alarm: options.ExpectationTimeout, Observer: observer{options.Metrics, r.nameOf},
	}, sources...)
	return r, nil
}

func withDefaults(o Options) Options {
	if o.Gates == nil {
		o.Gates = apps.DefaultGates()
	}
	if o.Workers == 0 {
		o.Workers = 3
	}
	if o.PodWorkers == 0 {
		o.PodWorkers = 16
	}
	if o.Calls == 0 {
		o.Calls = 5
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.NewID == nil {
		o.NewID = func() string { return rand.String(5) }
	}
	return o
}

// nameOf finds the name of an owner that waits.
func (r *Reconciler) nameOf(p expectations.Pending) (namespace, name string) {
	if cs, ok := r.owners.ByUID(p.Owner); ok {
		return cs.Namespace, cs.Name
	}
	return "", string(p.Owner)
}

func (r *Reconciler) log(ctx context.Context) logr.Logger { return logr.FromContextOrDiscard(ctx) }

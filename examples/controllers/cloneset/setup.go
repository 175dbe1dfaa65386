package cloneset

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/expectations"
	expectationsapply "github.com/workloadkit/workloadkit/expectations/apply"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/ownerindex"
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
	if err := mgr.Add(&startup{reconciler: r, cache: mgr.GetCache(), live: mgr.GetAPIReader()}); err != nil {
		return fmt.Errorf("adding the start-up check: %w", err)
	}
	gk := kind().GroupKind()
	err = builder.ControllerManagedBy(mgr).
		Named("cloneset").
		For(&v1beta1.CloneSet{}, builder.WithPredicates(predicate.Funcs{
			DeleteFunc: func(e event.DeleteEvent) bool { r.forget(e.Object.GetUID()); return false },
			UpdateFunc: r.ownerChanged,
		})).
		Watches(&corev1.Pod{}, ownerindex.EnqueueController(gk, nil)).
		Watches(&corev1.PersistentVolumeClaim{}, ownerindex.EnqueueController(gk, nil)).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.options.Workers}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding controller cloneset: %w", err)
	}
	owned := predicate.NewPredicateFuncs(func(obj client.Object) bool {
		ref := metav1.GetControllerOfNoCopy(obj)
		return ref != nil && ref.Kind == gk.Kind
	})
	owned.DeleteFunc = func(e event.DeleteEvent) bool {
		r.tracker.Forget(e.Object.GetUID())
		r.refusals.forget(e.Object.GetUID())
		return false
	}
	err = builder.ControllerManagedBy(mgr).
		Named("cloneset-pods").
		Watches(&corev1.Pod{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(owned)).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.options.PodWorkers}).
		Complete(&Finisher{r})
	if err != nil {
		return fmt.Errorf("adding controller cloneset-pods: %w", err)
	}
	return nil
}

// forget drops what is kept about an owner that is gone.
func (r *Reconciler) forget(owner types.UID) {
	r.tracker.Forget(owner)
	r.doubts.take(owner)
	r.statuses.forget(owner)
}

// specChanged reports what a user may have changed.
func specChanged(e event.UpdateEvent) bool {
	return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
		e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
		(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
}

func newReconciler(ctx context.Context, mgr manager.Manager, c client.Client, options Options) (*Reconciler, error) {
	options = withDefaults(options)
	unanswered := &doubts{}
	r := &Reconciler{
		options: options, client: doubter{c, unanswered}, live: mgr.GetAPIReader(), doubts: unanswered,
		//nolint:staticcheck // The newer recorder cannot name the source component, which is part of the wire format (C-54).
		events:  mgr.GetEventRecorderFor(apps.EventSource),
		inPlace: kruise.InPlace(options.Gates, options.ResizeInSpec),
		decoder: revision.NewDecoder(decodedRevisions, nil),
	}
	if err := r.inPlace.Validate(); err != nil {
		return nil, err
	}
	extra := claimTemplatesBlock
	if !options.Gates[apps.GateRecreatePodWhenChangeVCT] {
		extra = nil
	}
	r.planner = inplaceupdate.NewPlanner(r.inPlace, r.decoder, extra)
	var err error
	if r.pods, err = ownerindex.New(ctx, mgr.GetCache(), &corev1.Pod{}); err != nil {
		return nil, err
	}
	if r.revisions, err = ownerindex.New(ctx, mgr.GetCache(), &appsv1.ControllerRevision{}); err != nil {
		return nil, err
	}
	if r.claims, err = ownerindex.New(ctx, mgr.GetCache(), &corev1.PersistentVolumeClaim{}); err != nil {
		return nil, err
	}
	r.tracker = expectations.New(map[expectations.Store]expectations.Progress{
		podStore(): r.pods, revisionStore(): r.revisions, claimStore(): r.claims,
	}, expectations.Options{Clock: options.Clock, Barrier: true, Observer: observer{options.Metrics, r.nameOf}})
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
		o.Calls = 8
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.NewID == nil {
		o.NewID = func() string { return rand.String(5) }
	}
	return o
}

// nameOf finds the name of an owner that waits, by what it owns.
func (r *Reconciler) nameOf(p expectations.Pending) (namespace, name string) {
	for _, pod := range r.pods.Of(p.Owner) {
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
			return pod.Namespace, ref.Name
		}
	}
	return "", string(p.Owner)
}

func (r *Reconciler) log(ctx context.Context) logr.Logger { return logr.FromContextOrDiscard(ctx) }

// startup runs once this process leads: it refuses a cache that does not tell its progress, and lifts the barrier when the
// caches hold whatever the previous leader wrote last.
type startup struct {
	reconciler *Reconciler
	cache      interface{ WaitForCacheSync(context.Context) bool }
	live       client.Reader
}

// NeedLeaderElection says that Start waits for leadership.
func (*startup) NeedLeaderElection() bool { return true }

// Start returns once the controllers may act.
func (s *startup) Start(ctx context.Context) error {
	if !s.cache.WaitForCacheSync(ctx) {
		return errors.New("caches did not sync")
	}
	if err := s.reconciler.tracker.Verify(); err != nil {
		return fmt.Errorf("controller cloneset cannot start: %w", err)
	}
	err := expectationsapply.CatchUp(ctx, s.live, s.reconciler.tracker, clock.RealClock{},
		expectationsapply.Source{Store: podStore(), Kind: corev1.SchemeGroupVersion.WithKind("Pod")},
		expectationsapply.Source{Store: revisionStore(), Kind: appsv1.SchemeGroupVersion.WithKind("ControllerRevision")},
		expectationsapply.Source{Store: claimStore(), Kind: corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")},
	)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("controller cloneset: reading how far the caches must be: %w", err)
	}
	return nil
}

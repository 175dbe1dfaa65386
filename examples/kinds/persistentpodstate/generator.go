package persistentpodstate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/reason"
)

// generator creates PersistentPodStates for workloads with annotations that request a PersistentPodState. A reconcile
// request contains a name, and is for all workloads and the PersistentPodState of this name.
type generator struct {
	recorder *Reconciler
	backoff  fanout.Backoff
	queue    atomic.Pointer[queue]
	told     sync.Map // last reported reasons, by name
}

// add adds the generator's reconcile loop to a manager.
func (g *generator) add(mgr manager.Manager) error {
	asked := builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return isMarked(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return isMarked(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return changesMarks(e.ObjectOld, e.ObjectNew) },
	})
	b := builder.ControllerManagedBy(mgr).Named("persistentpodstate-generator").WithOptions(g.recorder.options.Loop(0, nil).Queue()).
		Watches(&appsv1.StatefulSet{}, &handler.EnqueueRequestForObject{}, asked).
		Watches(&v1beta1.StatefulSet{}, &handler.EnqueueRequestForObject{}, asked).
		Watches(&v1beta1.PersistentPodState{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.Funcs{
			UpdateFunc: func(e event.UpdateEvent) bool {
				return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
					!slices.EqualFunc(e.ObjectOld.GetOwnerReferences(), e.ObjectNew.GetOwnerReferences(), func(a, b metav1.OwnerReference) bool { return a.UID == b.UID })
			},
		})).
		WatchesRawSource(source.Func(func(_ context.Context, q queue) error {
			g.queue.Store(&q)
			return nil
		}))
	if err := b.Complete(ownercache.RetryConflicts(g)); err != nil {
		return fmt.Errorf("adding the generator of PersistentPodStates: %w", err)
	}
	return nil
}

// workloadChanged enqueues the name of a workload of a kind other than StatefulSet.
func (g *generator) workloadChanged(object client.Object) {
	if q := g.queue.Load(); q != nil && object != nil {
		(*q).Add(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)})
	}
}

// Reconcile creates, changes or deletes the PersistentPodState of the requested name, as the workloads' annotations
// request.
func (g *generator) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	todo, found := g.decide(req)
	g.tell(req.NamespacedName, todo)
	if todo.Action == "" {
		return ctrl.Result{}, nil
	}
	r, now := g.recorder, g.recorder.options.Clock.Now()
	attempt := fanout.Attempt{Object: todo.For.UID(), Task: fanout.Task{Name: string(todo.Action) + " PersistentPodState"}, Target: fmt.Sprint(todo.For.Object.GetAnnotations())}
	if wait, err := g.backoff.Resting(attempt, now); err != nil {
		return ctrl.Result{RequeueAfter: wait}, nil //nolint:nilerr // The error was reported when it occurred.
	}
	err := g.act(ctx, todo, found)
	if err == nil {
		g.backoff.Succeeded(todo.For.UID(), attempt.Task)
		return ctrl.Result{}, nil
	}
	if !podwrite.IsLasting(err) {
		return ctrl.Result{}, err
	}
	r.event(todo.For, messageOf(err))
	return ctrl.Result{RequeueAfter: g.backoff.Refused(attempt, err, now)}, nil
}

// decide decides from the objects in the caches what must be done to the PersistentPodState of the requested name.
func (g *generator) decide(req ctrl.Request) (generation, *v1beta1.PersistentPodState) {
	r := g.recorder
	var found *v1beta1.PersistentPodState
	if state, ok := r.cache.Owners.Get(req.Namespace, req.Name); ok {
		found = state
	}
	workloads := r.workloads.Named(req.Namespace, req.Name)
	var others []*v1beta1.PersistentPodState
	for _, workload := range workloads {
		others = append(others, r.cache.Owners.By(targetIndex, targetKey(workload.Kind.GroupKind(), req.Namespace, req.Name))...)
	}
	return generate(workloads, found, others), found
}

// act carries out the decision, unless the object has changed since the decision.
func (g *generator) act(ctx context.Context, todo generation, found *v1beta1.PersistentPodState) error {
	r := g.recorder
	// Deletions and adoptions may affect an object of a user, so the workload is first read from the API server.
	if todo.Action == Delete || todo.Action == adopt {
		live, err := r.workloads.Read(ctx, todo.For.Kind.GroupKind(), todo.For.Object.GetNamespace(), todo.For.Object.GetName())
		if err != nil || live == nil || live.UID() != todo.For.UID() || asks(live) != (todo.Action == adopt) {
			return err // the cache will soon show that the workload has changed
		}
	}
	switch todo.Action {
	case create:
		// If an object of the name exists already, the cache will soon show the object.
		return client.IgnoreAlreadyExists(r.writer.Create(ctx, todo.Made()))
	case Delete:
		return client.IgnoreNotFound(r.writer.Delete(ctx, found.DeepCopy(), client.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion}))
	default:
		patch, err := todo.Patch(found)
		if err != nil {
			return err
		}
		changed := &v1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Namespace: found.Namespace, Name: found.Name}}
		return client.IgnoreNotFound(r.writer.Patch(ctx, changed, patch))
	}
}

// tell sends a single event about each reason why no PersistentPodState was generated.
func (g *generator) tell(key types.NamespacedName, todo generation) {
	if todo.Why == nil {
		g.told.Delete(key)
		return
	}
	message := messageOf(todo.Why)
	if was, _ := g.told.Swap(key, message); was != message {
		g.recorder.event(todo.For, message)
	}
}

func messageOf(err error) string {
	if list := reason.From(err); len(list) > 0 {
		return list.Summary(kruise.ReasonsInEvent)
	}
	return err.Error()
}

// event sends a warning event about a workload.
func (r *Reconciler) event(workload *workloads.Workload, message string) {
	object := workload.Object
	r.events.Event(&corev1.ObjectReference{
		APIVersion: workload.Kind.GroupVersion().String(), Kind: workload.Kind.Kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
	}, corev1.EventTypeWarning, apps.EventPersistentPodStateNotGenerated, message)
}

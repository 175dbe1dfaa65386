package sidecarterminator

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/expectations/trackedclient"
	"github.com/workloadkit/workloadkit/ownercache"
)

// Setup adds the controller to the manager, unless the feature gate SidecarTerminator is off. The controller writes
// with c, and c must read from the manager's cache. The scheme must contain ContainerRecreateRequests, and their CRD
// must be installed.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options kruise.Options) error {
	options = options.Complete()
	if !options.Gates[apps.GateSidecarTerminator] {
		return nil
	}
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	return r.addTo(mgr)
}

func newReconciler(ctx context.Context, mgr kruise.Manager, c client.Client, options kruise.Options) (*Reconciler, error) {
	r := &Reconciler{
		options: options.Complete(), client: c, scheme: mgr.GetScheme(), events: mgr.GetEventRecorderFor(ControllerName),
	}
	var err error
	if r.pods, err = ownercache.NewIndex(ctx, mgr.GetCache(), &corev1.Pod{}); err != nil {
		return nil, err
	}
	r.told = kruise.NewTold(followed{r}, r.events)
	if r.requests, err = ownercache.NewIndex(ctx, mgr.GetCache(), &v1beta1.ContainerRecreateRequest{}); err != nil {
		return nil, err
	}
	sources := []trackedclient.Source{trackedclient.Pods(r.pods), trackedclient.Owners(
		schema.GroupResource{Group: apps.Group, Resource: "containerrecreaterequests"}, v1beta1.GroupVersion.WithKind("ContainerRecreateRequest"), r.requests)}
	if options.Namespace != "" {
		for i := range sources {
			sources[i].Restrict = []client.ListOption{client.InNamespace(options.Namespace)}
		}
	}
	r.clients, err = trackedclient.NewClients(c, mgr.GetAPIReader(), trackedclient.Options{
		Exists:  followed{r}.Exists,
		Tracker: expectations.Options{Clock: r.options.Clock, Alarm: options.ExpectationTimeout},
	}, sources...)
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(r.clients); err != nil {
		return nil, fmt.Errorf("%s: adding the start-up check: %w", ControllerName, err)
	}
	return r, r.watchGone(ctx, mgr)
}

// followed implements ownercache.Followed: it reports which Pods are in the cache, and which Pods were deleted.
type followed struct{ *Reconciler }

// Exists reports whether the cache has a Pod with the UID.
func (f followed) Exists(pod types.UID) bool { _, ok := f.pods.ByUID(pod); return ok }

// OnGone registers a function to be called for each deleted Pod.
func (f followed) OnGone(forget func(pod types.UID)) { f.gone = append(f.gone, forget) }

// watchGone calls the registered functions when Pods are deleted.
func (r *Reconciler) watchGone(ctx context.Context, mgr kruise.Manager) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return fmt.Errorf("%s: informer of Pods: %w", ControllerName, err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			was, ok := before.(*corev1.Pod)
			if is, alsoOK := after.(*corev1.Pod); ok && alsoOK && was.UID != is.UID {
				r.forget(was)
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if pod, ok := obj.(*corev1.Pod); ok {
				r.forget(pod)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("%s: watching Pods: %w", ControllerName, err)
	}
	return nil
}

// addTo adds the controller to the manager. A Pod is enqueued on changes of the Pod, and when a request for the Pod
// ends.
func (r *Reconciler) addTo(mgr ctrl.Manager) error {
	err := builder.ControllerManagedBy(mgr).
		Named("sidecarterminator").
		WithOptions(r.options.Loop(0, nil).Queue()).
		Watches(&corev1.Pod{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(changesThatMatter())).
		Watches(&v1beta1.ContainerRecreateRequest{},
			handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &corev1.Pod{}, handler.OnlyControllerOwner()),
			builder.WithPredicates(predicate.Funcs{
				CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: func(event.UpdateEvent) bool { return false },
			})).
		Complete(ownercache.RetryConflicts(r))
	if err != nil {
		return fmt.Errorf("adding controller %s: %w", ControllerName, err)
	}
	return nil
}

func changesThatMatter() predicate.Predicate {
	concerns := func(obj client.Object) bool {
		pod, ok := obj.(*corev1.Pod)
		return ok && Concerns(pod)
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return concerns(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion() && concerns(e.ObjectNew)
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

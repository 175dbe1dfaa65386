package sidecarset

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/sidecarset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
	"github.com/workloadkit/workloadkit/sidecarcontrol/upgrader"
)

// ControllerName is the name of the controller in logs, and the source of its events.
const ControllerName = "sidecarset-controller"

const defaultHistory = api.DefaultRevisionHistoryLimit

// Options are the options of the controller. The zero value is valid.
type Options = kruise.Options

// Reconciler reconciles SidecarSets.
type Reconciler struct {
	*upgrader.Upgrader[*v1beta1.SidecarSet]

	control    *sidecarcontrol.Control
	histories  *revision.Histories
	namespaces *ownercache.Index[*corev1.Namespace]
	events     record.EventRecorder
	options    Options
	namespace  string // namespace in which the revisions are stored

	told *ownercache.Memory[told]
}

// view is a SidecarSet with the Pods into which its sidecars were injected, as the cache shows them.
type view = ownercache.View[*v1beta1.SidecarSet]

// Setup adds the controller to the manager. The controller writes with c, and c must read from the manager's cache. The
// scheme must contain the SidecarSet types.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	return r.Cache.AddController(mgr, "sidecarset", r, r.options.Loop(r.options.Workers, r.watchNamespaces))
}

func newReconciler(ctx context.Context, mgr kruise.Manager, c client.Client, options Options) (*Reconciler, error) {
	options = options.Complete()
	r := &Reconciler{
		events: mgr.GetEventRecorderFor(ControllerName), options: options, namespace: cmp.Or(options.Namespace, options.ManagerNamespace),
	}
	var err error
	if r.control, err = kruise.SidecarControl(options.Gates); err != nil {
		return nil, err
	}
	if r.histories, err = revision.NewHistories(kruise.RevisionKeys(apps.LabelRevisionHash), revision.NewDecoder(1, nil)); err != nil {
		return nil, err
	}
	if r.namespaces, err = ownercache.NewIndex(ctx, mgr.GetCache(), &corev1.Namespace{}); err != nil {
		return nil, err
	}
	r.Upgrader, err = upgrader.New(ctx, mgr, &v1beta1.SidecarSet{}, upgrader.Config[*v1beta1.SidecarSet]{
		Control: r.control, Calls: options.Calls, Observe: r.observe,
		Cache: kruise.CacheOptions(c, options, ownercache.Options{RevisionNamespace: r.namespace}, func() *ownercache.Cache[*v1beta1.SidecarSet] { return r.Cache }),
	})
	if err != nil {
		return nil, err
	}
	r.told = ownercache.NewMemory[told](r.Cache)
	return r, nil
}

// Reconcile takes the next step towards the newest sidecars in the Pods of a SidecarSet.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.Cache.Observe(ctx, req)
	if v == nil || v.Owner.DeletionTimestamp != nil { // injected sidecars stay in their Pods after the deletion
		return result, err
	}
	pass := r.Fanout.Begin(v)
	s, problems, _ := resolve(v.Owner, byIndex)
	if problems != nil {
		return r.refuse(ctx, v, pass, problems.Reasons())
	}
	h, err := r.syncHistory(ctx, v, pass)
	if err != nil || h.Update == nil {
		return pass.Result(err)
	}
	set, err := Compile(v.Owner, h.Update.Name, nil)
	if err != nil {
		return r.refuse(ctx, v, pass, err)
	}
	var namespace *corev1.Namespace // the namespace of the last Pod, because most Pods share a few namespaces
	work, err := r.Work(ctx, v, pass, set, upgrader.Plan{Rollout: s.rollout, Selects: func(pod *corev1.Pod) bool {
		if namespace == nil || namespace.Name != pod.Namespace {
			namespace, _ = r.namespaces.Get("", pod.Namespace)
		}
		return namespace != nil && set.Matches(pod.Labels, namespace.Labels)
	}})
	return r.report(ctx, v, pass, h, work, err)
}

// report writes the status if it has changed, and returns when to reconcile again.
func (r *Reconciler) report(ctx context.Context, v *view, pass *fanout.Pass, h *revision.History, work upgrader.Work, workErr error) (ctrl.Result, error) {
	status := v1beta1.SidecarSetStatus{
		ObservedGeneration: v.Owner.Generation, LatestRevision: h.Update.Name, CollisionCount: h.Collisions, MatchedPods: int32(len(work.Pods)),
	}
	blocked := 0
	for i := range work.Pods {
		s := &work.Pods[i]
		if !s.Updated && len(s.Blocked) > 0 {
			blocked++
		}
		if s.Updated {
			status.UpdatedPods++
		}
		if s.Serves() {
			status.ReadyPods++
		}
		if s.Updated && s.Serves() {
			status.UpdatedReadyPods++
		}
	}
	pass.Wake(r.tell(v, told{blocked: blocked, dropped: len(work.Dropped), refused: r.refusals(v, h)}, work))
	truncateErr := r.truncate(ctx, v, pass, h)
	_, err := v.WriteStatus(ctx, status)
	return pass.Result(workErr, truncateErr, err)
}

// refuse ends the reconciliation of an invalid SidecarSet with an event about the errors. The Pods are not changed.
func (r *Reconciler) refuse(ctx context.Context, v *view, pass *fanout.Pass, err error) (ctrl.Result, error) {
	status := *v.Owner.Status.DeepCopy()
	if status.ObservedGeneration != v.Owner.Generation {
		_, message := reason.Explain(err)
		r.events.Event(v.Owner, corev1.EventTypeWarning, apps.EventInvalidSidecarSet, message)
	}
	status.ObservedGeneration = v.Owner.Generation
	_, statusErr := v.WriteStatus(ctx, status)
	return pass.Result(reason.Final(err), statusErr)
}

// watchNamespaces adds an event source: when the labels of a namespace change, SidecarSets with a namespace selector
// are enqueued.
func (r *Reconciler) watchNamespaces(b *builder.Builder) *builder.Builder {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return b.Watches(&corev1.Namespace{}, handler.Funcs{UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
		if labels.Equals(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) {
			return
		}
		for _, set := range r.Cache.Owners.All() {
			if set.Spec.NamespaceSelector != nil {
				q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: set.Name}})
			}
		}
	}})
}

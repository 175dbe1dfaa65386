package sidecarset

import (
	"cmp"
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
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
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/sidecarset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/partition"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
	"github.com/workloadkit/workloadkit/sidecarcontrol/upgrader"
)

// ControllerName is the component that reports events, and the controller's name in logs.
const ControllerName = "sidecarset-controller"

const defaultHistory = api.DefaultRevisionHistoryLimit

// Options of the controller. The zero value is usable.
type Options = kruise.Options

// Reconciler reconciles SidecarSets.
type Reconciler struct {
	*upgrader.Upgrader[*v1beta1.SidecarSet]

	control    *sidecarcontrol.Control
	histories  *revision.Histories
	namespaces *ownercache.Index[*corev1.Namespace]
	events     record.EventRecorder
	options    Options
	namespace  string // of the revisions

	mu      sync.Mutex
	blocked map[types.UID]int // how many Pods of a SidecarSet were last said to need recreation
}

// view is a SidecarSet and the Pods that it was injected into, as the cache shows them.
type view = ownercache.View[*v1beta1.SidecarSet]

// Setup adds the controller to the manager. c is the client it writes with; it must read from the manager's cache. The scheme must know the
// SidecarSet types.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	queue := ownercache.ControllerOptions{Workers: r.options.Workers, Watch: r.watchNamespaces}
	if r.options.RateLimiter != nil {
		queue.RateLimiter = r.options.RateLimiter()
	}
	return r.Cache.AddController(mgr, "sidecarset", r, queue)
}

func newReconciler(ctx context.Context, mgr kruise.Manager, c client.Client, options Options) (*Reconciler, error) {
	options = options.Complete()
	r := &Reconciler{
		events: mgr.GetEventRecorderFor(ControllerName), options: options, namespace: cmp.Or(options.Namespace, options.ManagerNamespace),
		blocked: map[types.UID]int{},
	}
	var err error
	if r.control, err = NewControl(options.Gates); err != nil {
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
		Cache: ownercache.Options{
			Client: c, Clock: options.Clock, Alarm: options.ExpectationTimeout, DropLate: options.Gates[apps.GateForceDeleteTimeoutExpectation],
		},
	})
	if err != nil {
		return nil, err
	}
	r.Cache.OnGone(func(uid types.UID) {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.blocked, uid)
	})
	return r, nil
}

// Reconcile brings the Pods of one SidecarSet a step closer to its spec.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.Cache.Observe(ctx, req)
	if v == nil || v.Owner.DeletionTimestamp != nil { // what was injected stays where it is
		return result, err
	}
	pass := r.Fanout.Begin(v)
	if _, err := compile(v.Owner, "", nil); err != nil {
		return r.refuse(ctx, v, pass, err)
	}
	h, err := r.syncHistory(ctx, v, pass)
	if err != nil || h.Update == nil {
		return pass.Result(err)
	}
	set, err := compile(v.Owner, h.Update.Name, nil)
	if err != nil {
		return r.refuse(ctx, v, pass, err)
	}
	s, err := resolve(v.Owner)
	if err != nil {
		return r.refuse(ctx, v, pass, err)
	}
	var namespace *corev1.Namespace // of the last Pod: most are those of few namespaces
	work, err := r.Work(ctx, v, pass, set, upgrader.Plan{Rollout: s.rollout, Selects: func(pod *corev1.Pod) bool {
		if namespace == nil || namespace.Name != pod.Namespace {
			namespace, _ = r.namespaces.Get("", pod.Namespace)
		}
		return namespace != nil && set.Matches(pod.Labels, namespace.Labels)
	}})
	return r.report(ctx, v, pass, h, work, err)
}

// settings are an update strategy with its selectors compiled.
type settings struct {
	update   *pub.SidecarSetUpdateStrategy
	selector labels.Selector
	order    podorder.Update
	// rollout is nil where no new upgrade is to be started.
	rollout func([]sidecarcontrol.Standing) sidecarcontrol.Rollout
}

const strategyPath = "spec.updateStrategy"

func resolve(set *v1beta1.SidecarSet) (*settings, error) {
	update, read := &set.Spec.UpdateStrategy, &kruise.Reading{}
	s := &settings{update: update, selector: labels.Everything()}
	if update.Selector != nil {
		s.selector = read.Selector(strategyPath+".selector", update.Selector)
	}
	s.order.Priority, s.order.Scatter = read.Order(strategyPath, update.PriorityStrategy, update.ScatterStrategy)
	// What does not depend on how many Pods there are is wrong for any number.
	read.Count(strategyPath+".maxUnavailable", s.maxUnavailable(), 1, partition.Up)
	read.Kept(strategyPath+".partition", update.Partition, 1)
	if update.Type != pub.SidecarSetNotUpdate && !update.Paused {
		s.rollout = s.of
	}
	return s, read.Problems.Err()
}

func (s *settings) maxUnavailable() *intstr.IntOrString {
	return cmp.Or(s.update.MaxUnavailable, new(intstr.FromInt32(api.DefaultMaxUnavailable)))
}

// of says how many of these Pods are upgraded at a time.
func (s *settings) of(pods []sidecarcontrol.Standing) sidecarcontrol.Rollout {
	read := &kruise.Reading{} // what could not be read was found by resolve
	order := s.order
	if terms, found := anyValue(s.update.ScatterStrategy, pods); found {
		_, order.Scatter = read.Order(strategyPath, nil, terms)
	}
	return sidecarcontrol.Rollout{
		Selector: s.selector, Order: order,
		Partition:     read.Kept(strategyPath+".partition", s.update.Partition, len(pods)),
		PartitionPath: strategyPath + ".partition", MaxUnavailablePath: strategyPath + ".maxUnavailable",
		MaxUnavailable: read.Count(strategyPath+".maxUnavailable", s.maxUnavailable(), len(pods), partition.Up),
	}
}

// anyValue replaces each term whose value is * by one for each value that the label has among the Pods, and reports whether there is such a
// term.
func anyValue(terms []pub.ScatterTerm, pods []sidecarcontrol.Standing) (out []pub.ScatterTerm, found bool) {
	add := func(term pub.ScatterTerm) {
		if !slices.Contains(out, term) {
			out = append(out, term)
		}
	}
	for _, term := range terms {
		if term.Value != "*" { // which no label can have
			add(term)
			continue
		}
		found = true
		values := sets.Set[string]{}
		for i := range pods {
			if value, ok := pods[i].Pod.Labels[term.Key]; ok {
				values.Insert(value)
			}
		}
		for _, value := range sets.List(values) {
			add(pub.ScatterTerm{Key: term.Key, Value: value})
		}
	}
	return out, found
}

// report writes the status where it differs, and says when to look again.
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
	r.tellBlocked(v.Owner, blocked)
	truncateErr := r.truncate(ctx, v, pass, h)
	_, err := v.WriteStatus(ctx, status)
	return pass.Result(workErr, truncateErr, err)
}

// refuse leaves the Pods of a SidecarSet alone that makes no sense, and says so.
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

// tellBlocked says once how many Pods have to be recreated.
func (r *Reconciler) tellBlocked(set *v1beta1.SidecarSet, n int) {
	r.mu.Lock()
	told := r.blocked[set.UID]
	r.blocked[set.UID] = n
	r.mu.Unlock()
	if n > 0 && n != told {
		r.events.Eventf(set, corev1.EventTypeNormal, apps.EventNotUpgradablePods, "%d Pods cannot be upgraded in place: more than images changed. They get the newest sidecars when they are recreated", n)
	}
}

// observe turns what happens to Pods into the events of OpenKruise.
func (r *Reconciler) observe(_ *v1beta1.SidecarSet, e upgrader.Event) {
	switch {
	case e.What != upgrader.Flipped:
	case e.Err == nil:
		r.events.Event(e.Pod, corev1.EventTypeNormal, apps.EventResetContainerSucceed, "the container that worked before the hot upgrade has the empty image again")
	default:
		r.events.Eventf(e.Pod, corev1.EventTypeWarning, apps.EventResetContainerFailed, "ending the hot upgrade: %v", e.Err)
	}
}

// watchNamespaces wakes SidecarSets that select namespaces when the labels of one change.
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

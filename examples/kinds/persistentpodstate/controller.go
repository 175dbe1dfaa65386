package persistentpodstate

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/expectations/trackedclient"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/reason"
)

// ControllerName is the name of the controller in logs, and the source of its events.
const ControllerName = "persistentpodstate-controller"

// PodStatesDoNotFit means that a PersistentPodState has no space for the records of further Pods.
const PodStatesDoNotFit reason.Code = "PodStatesDoNotFit"

// Options are the options of the controller. The zero value is valid.
type Options = kruise.Options

// Reconciler reconciles PersistentPodStates.
type Reconciler struct {
	cache     *ownercache.Cache[*v1beta1.PersistentPodState]
	pods      *ownercache.Index[*corev1.Pod]
	nodes     *ownercache.Index[*corev1.Node]
	workloads *workloads.Numbered
	// writer writes generated PersistentPodStates. No reconciliation waits until the cache shows these writes: a
	// write based on an outdated cache fails, because a change requires the version that was read, and a name can be
	// created only once.
	writer  client.Client
	fanout  *fanout.Fanout
	events  record.EventRecorder
	options Options
	told    *kruise.Told
}

// view is a PersistentPodState as the cache shows it.
type view = ownercache.View[*v1beta1.PersistentPodState]

// Setup adds the controller and the generator of PersistentPodStates to the manager. Both write with c. The scheme must
// contain the types of this group. The cache must keep the annotations and the condition Ready of Pods that
// StatefulSets control.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	options = options.Complete()
	watches, err := workloads.WatchKinds(ctx, mgr, options.ManagerNamespace, options.Namespace)
	if err != nil {
		return err
	}
	if err := setup(ctx, mgr, c, watches, options); err != nil {
		return err
	}
	return mgr.Add(watches)
}

// setup does the work of Setup. kinds provides the workload kinds in addition to StatefulSets.
func setup(ctx context.Context, mgr manager.Manager, c client.Client, kinds workloads.Objects, options Options) error {
	r, err := newReconciler(ctx, mgr, c, kinds, options)
	if err != nil {
		return err
	}
	if err := r.cache.AddController(mgr, "persistentpodstate", r, options.Loop(options.Workers, r.watch)); err != nil {
		return err
	}
	g := &generator{recorder: r}
	kinds.OnChange(func(kind schema.GroupKind, object client.Object) {
		r.workloadChanged(kind, object)
		g.workloadChanged(object)
	})
	return g.add(mgr)
}

func newReconciler(ctx context.Context, mgr manager.Manager, c client.Client, kinds workloads.Objects, options Options) (*Reconciler, error) {
	options = options.Complete()
	r := &Reconciler{
		fanout: fanout.New(options.Calls), events: kruise.Manager(mgr).GetEventRecorderFor(ControllerName), options: options,
		writer: c,
	}
	var err error
	if r.nodes, err = ownercache.NewIndex(ctx, mgr.GetCache(), &corev1.Node{}); err != nil {
		return nil, err
	}
	if r.pods, err = ownercache.NewIndex(ctx, mgr.GetCache(), &corev1.Pod{}); err != nil {
		return nil, err
	}
	if r.workloads, err = workloads.NewNumbered(ctx, mgr, kinds, options.Serves, options.Gates[apps.GateStatefulSetStartOrdinal]); err != nil {
		return nil, err
	}
	r.cache, err = kruise.NewCache(ctx, mgr, c, &v1beta1.PersistentPodState{}, options, ownercache.Options{Owned: r.sources(), Namespace: options.Namespace})
	if err != nil {
		return nil, err
	}
	r.told = kruise.NewTold(r.cache, r.events)
	return r, errors.Join(r.cache.Owners.Add(targetIndex, byTarget), r.pods.Add(nodeIndex, byNode))
}

// sources returns the caches on which decisions depend. No reconciliation decides before all these caches are known to
// be recent enough.
func (r *Reconciler) sources() []trackedclient.Source {
	sources := append([]trackedclient.Source{trackedclient.Pods(r.pods)}, r.workloads.Sources()...)
	if r.options.Namespace != "" {
		for i := range sources {
			sources[i].Restrict = []client.ListOption{client.InNamespace(r.options.Namespace)}
		}
	}
	return append(sources, trackedclient.Nodes(r.nodes))
}

// Reconcile updates the records of a PersistentPodState.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.cache.Observe(ctx, req)
	if v == nil || v.Owner.DeletionTimestamp != nil {
		return result, err
	}
	pass := r.fanout.Begin(v)
	s, problems, _ := resolve(&v.Owner.Spec)
	workload, err := target(r.workloads, v.Owner.Namespace, s)
	if err = cmp.Or(problems.Reasons().Err(), err); err != nil {
		r.tell(v.Owner, apps.EventInvalidPersistentPodState, err)
		return pass.Result()
	}
	r.tell(v.Owner, apps.EventInvalidPersistentPodState, nil)
	pods := r.podsOf(v.Owner, workload)
	status := r.decide(v.Owner, s, workload, pods)
	if forgets(v.Owner.Status.PodStates, status.PodStates) {
		if workload, err = r.workloads.Read(ctx, s.kind, v.Owner.Namespace, s.name); err != nil {
			return pass.Result(err)
		}
		pods = r.podsOf(v.Owner, workload)
		status = r.decide(v.Owner, s, workload, pods)
	}
	err = r.write(ctx, pass, v, status)
	r.tell(v.Owner, apps.EventTopologyGone, stranded(v.Owner, s, pods, r.nodes.All).Err())
	return pass.Result(err)
}

func (r *Reconciler) podsOf(owner *v1beta1.PersistentPodState, workload *workloads.Workload) []*corev1.Pod {
	if workload == nil {
		return nil
	}
	return r.pods.Of(owner.Namespace, workload.UID())
}

// decide returns the new status of a PersistentPodState, and sends an event about records that do not fit.
func (r *Reconciler) decide(owner *v1beta1.PersistentPodState, s *settings, workload *workloads.Workload, pods []*corev1.Pod) v1beta1.PersistentPodStateStatus {
	before := owner.Status.PodStates
	fitting, differs := recordOf(s, before, workload, pods, func(name string) (*corev1.Node, bool) { return r.nodes.Get("", name) })
	var left []string
	if differs {
		fitting, left = fit(before, fitting, maxSize)
	}
	var err error
	if len(left) > 0 {
		err = reason.Reason{
			Code: PodStatesDoNotFit, Path: "status.podStates", New: fmt.Sprintf("%d Pods", len(left)), Detail: "an object has no room for more; the first is " + left[0],
			Remedy: "record fewer annotations and labels, or divide the workload",
		}
	}
	r.tell(owner, apps.EventPodStatesDoNotFit, err)
	return v1beta1.PersistentPodStateStatus{ObservedGeneration: owner.Generation, PodStates: fitting}
}

// write writes the status if it has changed. If the API server refuses the write, the next write is delayed, because
// the object may be too large for this API server, and a retry would not help.
func (r *Reconciler) write(ctx context.Context, pass *fanout.Pass, v *view, status v1beta1.PersistentPodStateStatus) error {
	change, err := patch(v.Owner, &status)
	if change == nil || err != nil {
		return err
	}
	object := &v1beta1.PersistentPodState{}
	object.Namespace, object.Name = v.Owner.Namespace, v.Owner.Name
	return pass.Try(fanout.Task{Name: "write records"}, v.Owner.UID, func() error {
		err := v.Client.Status().Patch(ctx, object, change)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			recorded, dropped := count(v.Owner.Status.PodStates, status.PodStates)
			r.options.Metrics.Done("written", int64(recorded))
			r.options.Metrics.Done("dropped", int64(dropped))
		}
		return err
	})
}

// tell sends an event, unless the last event of the same name had the same message. A nil err means that there is
// nothing to report now.
func (r *Reconciler) tell(owner *v1beta1.PersistentPodState, event string, err error) {
	message := ""
	if err != nil {
		message = messageOf(err)
	}
	r.told.Tell(owner, corev1.EventTypeWarning, event, message)
}

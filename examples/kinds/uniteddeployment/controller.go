package uniteddeployment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/adopt"
	"github.com/workloadkit/workloadkit/adopt/ownerrefs"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/expectations/trackedclient"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/revision/history"
)

// ControllerName is the name of the controller in logs, and the source of its events.
const ControllerName = "uniteddeployment-controller"

// Options are the options of the controller. The zero value is valid.
type Options = kruise.Options

// Reconciler reconciles UnitedDeployments.
type Reconciler struct {
	cache     *ownercache.Cache[*v1beta1.UnitedDeployment]
	workloads []*ownercache.Index[client.Object] // one index for each workload kind
	owners    *workloads.Owners
	pods      *ownercache.Index[*corev1.Pod]
	revisions *ownercache.Index[*appsv1.ControllerRevision]
	histories *revision.Histories
	fanout    *fanout.Fanout
	told      *kruise.Told
	// unscheduled contains the times since which Pods are unschedulable, for Pods whose condition PodScheduled has no
	// time.
	unscheduled *ownercache.Memory[map[types.UID]time.Time]
	options     Options
}

// view is a UnitedDeployment as the cache shows it.
type view = ownercache.View[*v1beta1.UnitedDeployment]

// Setup adds the controller to the manager. The controller writes with c, which must read from the manager's cache.
// The scheme must contain the types of this group. The function Row determines which fields of workloads and Pods the
// manager's cache keeps.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	return r.cache.AddController(mgr, "uniteddeployment", r, r.options.Loop(r.options.Workers, r.watch))
}

func newReconciler(ctx context.Context, mgr kruise.Manager, c client.Client, options Options) (*Reconciler, error) {
	r := &Reconciler{options: options.Complete()}
	r.fanout = fanout.New(r.options.Calls)
	var sources []trackedclient.Source
	for _, object := range workloadKinds() {
		index, err := ownercache.NewIndex(ctx, mgr.GetCache(), object)
		if err != nil {
			return nil, err
		}
		kind, err := apiutil.GVKForObject(object, mgr.GetScheme())
		if err != nil {
			return nil, fmt.Errorf("kind of %T: %w", object, err)
		}
		plural, _ := apimeta.UnsafeGuessKindToResource(kind)
		r.workloads, sources = append(r.workloads, index), append(sources, trackedclient.Owners(plural.GroupResource(), kind, index))
	}
	var errs [5]error
	r.owners, errs[0] = workloads.NewOwners(ctx, mgr, c, r.options.Clock)
	r.pods, errs[1] = ownercache.NewIndex(ctx, mgr.GetCache(), &corev1.Pod{})
	r.revisions, errs[2] = ownercache.NewIndex(ctx, mgr.GetCache(), &appsv1.ControllerRevision{})
	r.histories, errs[3] = revision.NewHistories(kruise.RevisionKeys(apps.LabelRevisionHash), revision.NewDecoder(1, nil))
	sources = append(sources, trackedclient.Pods(r.pods), trackedclient.Revisions(r.revisions))
	r.cache, errs[4] = kruise.NewCache(ctx, mgr, c, &v1beta1.UnitedDeployment{}, r.options, ownercache.Options{Owned: sources, Namespace: r.options.Namespace})
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	r.told = kruise.NewTold(r.cache, mgr.GetEventRecorderFor(ControllerName))
	r.unscheduled = ownercache.NewMemory[map[types.UID]time.Time](r.cache)
	return r, nil
}

// Reconcile takes the next step towards the state that a UnitedDeployment's spec describes.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.cache.Observe(ctx, req)
	if v == nil || v.Owner.DeletionTimestamp != nil { // the garbage collector deletes the workloads
		return result, err
	}
	pass := r.fanout.Begin(v)
	s, problems, _ := resolve(v.Owner)
	if problems != nil {
		return r.stop(ctx, v, pass, apps.ConditionInvalidSpec, apps.EventInvalidUnitedDeployment, reason.Final(problems.Reasons()))
	}
	owned, err := r.claim(ctx, v, pass, s)
	if err != nil || pass.Changed() {
		return r.stop(ctx, v, pass, apps.ConditionSubsetUpdated, apps.EventFailedFindSubsets, err)
	}
	h, err := r.syncHistory(ctx, v, pass)
	if err != nil || h.Update == nil {
		return r.stop(ctx, v, pass, apps.ConditionSubsetUpdated, apps.EventFailedRevisionProvision, err)
	}
	o := &observation{ud: v.Owner, settings: s, revision: h.Update.Name, workloads: owned, now: v.Now, pods: r.podsOf(v, owned), fromStart: r.options.Gates[apps.GateStatefulSetStartOrdinal]}
	t := decide(o)
	pass.Wake(t.wake)
	if t.remember {
		r.tellStandings(o, t)
		_, err := v.WriteStatus(ctx, o.remembered(t))
		pass.Wake(time.Millisecond) // the event of a status write does not enqueue the UnitedDeployment
		return pass.Result(err)
	}
	done := r.act(ctx, v, pass, t)
	status := nextStatus(o, t, done, h.Collisions)
	r.tell(o, t, done)
	truncateErr := pass.Once(ctx, fanout.Task{Name: "truncate the history"}, func() (bool, error) {
		return history.Truncate(ctx, v.Client, h, s.historyLimit, revision.CountUnused, o.uses, status.CurrentRevision)
	})
	_, statusErr := v.WriteStatus(ctx, status)
	return pass.Result(done.provision, done.update, truncateErr, statusErr)
}

// claim sets or removes the owner references of workloads (adopts or releases the workloads), and returns the
// workloads that the UnitedDeployment controls.
func (r *Reconciler) claim(ctx context.Context, v *view, pass *fanout.Pass, s *settings) (owned []workload, err error) {
	var found []client.Object
	for _, index := range r.workloads {
		found = append(append(found, index.Of(v.Owner.Namespace, v.Owner.UID)...), index.Orphans(v.Owner.Namespace)...)
	}
	split, err := adopt.Split(adopt.Owner{UID: v.Owner.UID, Namespace: v.Owner.Namespace, Selector: s.selector}, "workload", found, adopt.Options{Adopt: true, Match: hasSubset})
	if err != nil {
		return nil, reason.Final(err)
	}
	for _, w := range split.Owned {
		owned = append(owned, w)
	}
	if len(split.Release) > 0 {
		r.told.Tell(v.Owner, corev1.EventTypeWarning, apps.EventReleasedSubset, fmt.Sprintf(
			"%d workloads are given up, the first is %s: the label %s is gone, or the selector no longer matches; put the labels back, or delete the workloads",
			len(split.Release), split.Release[0].GetName(), apps.LabelSubsetName))
	}
	return owned, errors.Join(
		ownerrefs.Release(ctx, pass, v.Client, split.Release),
		ownerrefs.Adopt(ctx, pass, v.Client, r.cache.APIReader(), split.Adopt),
	)
}

// syncHistory finds or creates the revision of the present template. If the reconciliation must end, the field Update
// of the history is nil.
func (r *Reconciler) syncHistory(ctx context.Context, v *view, pass *fanout.Pass) (*revision.History, error) {
	ud := v.Owner
	h := r.histories.Of(revision.OwnerOf(ud, r.cache.Kind()), kruise.Collisions(ud.Status.CollisionCount), r.revisions.Of(ud.Namespace, ud.UID))
	return h, pass.Once(ctx, fanout.Task{Name: "write the revision"}, func() (bool, error) {
		data, err := encode(&ud.Spec.Template)
		if err != nil {
			return false, err
		}
		decision := h.DecideData(data, nil, func(rev *appsv1.ControllerRevision) bool { return isIn(rev, &ud.Spec.Template, data) })
		_, err = history.Write(ctx, v.Client, r.cache.APIReader(), h, decision)
		return false, err
	})
}

// podsOf returns a function that returns the active Pods of a workload.
func (r *Reconciler) podsOf(v *view, owned []workload) func(types.UID) []*corev1.Pod {
	found, before, now := map[types.UID][]*corev1.Pod{}, r.unscheduled.Of(v.Owner.UID), map[types.UID]time.Time{}
	for _, w := range owned {
		var pods []*corev1.Pod
		for _, controller := range r.owners.Below(v.Owner.Namespace, w.GetUID()) {
			pods = append(pods, r.pods.Of(v.Owner.Namespace, controller)...)
		}
		pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !podstate.IsActive(pod) })
		dated, since := kruise.Dated(pods, before, v.Now)
		maps.Copy(now, since)
		found[w.GetUID()] = dated
	}
	if len(before)+len(now) > 0 {
		r.unscheduled.Change(v.Owner.UID, func(known *map[types.UID]time.Time) { *known = now })
	}
	return func(workload types.UID) []*corev1.Pod { return found[workload] }
}

// act carries out the decisions about all subsets at the same time: if the API server refuses the write of a subset,
// the other subsets are still written.
func (r *Reconciler) act(ctx context.Context, v *view, pass *fanout.Pass, t *todo) (done outcome) {
	if t.err != nil {
		return outcome{update: reason.Final(t.err)}
	}
	do := func(ctx context.Context, w *write) (bool, error) {
		object, uid := w.DeepCopyObject().(client.Object), w.GetUID() //nolint:forcetypeassert // both interfaces are the same
		err := pass.Try(fanout.Task{Name: "write"}, uid, func() error {
			if w.patch == nil {
				return client.IgnoreNotFound(v.Client.Delete(ctx, object, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground)))
			}
			body, err := json.Marshal(w.patch.Body)
			if err != nil {
				return err
			}
			return client.IgnoreNotFound(v.Client.Patch(ctx, object, client.RawPatch(w.patch.Type, body)))
		})
		if err != nil {
			return false, fmt.Errorf("%s: %w", titleOf(w.workload), err)
		}
		if _, isPod := object.(*corev1.Pod); !isPod {
			r.options.Metrics.Done(map[bool]string{true: "deleted", false: "updated"}[w.patch == nil], 1)
		}
		return true, nil
	}
	done.surplus = fanout.Each(ctx, pass, fanout.Task{Name: "delete further workloads"}, t.surplus, do)
	done.update = fanout.Each(ctx, pass, fanout.Task{Name: "change workloads"}, t.changes, do)
	made, err := pass.Create(ctx, fanout.Task{Name: "create workloads"}, len(t.create), func(ctx context.Context, i int) error {
		if err := v.Client.Create(ctx, t.create[i].(client.Object)); err != nil { //nolint:forcetypeassert // both interfaces are the same
			return fmt.Errorf("subset %s: %w", t.create[i].GetLabels()[apps.LabelSubsetName], err)
		}
		return nil
	})
	done.provision = errors.Join(err, done.surplus, fanout.Each(ctx, pass, fanout.Task{Name: "delete workloads"}, t.gone, do))
	done.provisioned = made > 0 || done.provision == nil && len(t.surplus)+len(t.gone) > 0
	r.options.Metrics.Done("created", int64(made))
	return done
}

// stop ends a reconciliation that cannot make decisions because of err. The error is reported by a condition and an
// event.
func (r *Reconciler) stop(ctx context.Context, v *view, pass *fanout.Pass, condition, event string, err error) (ctrl.Result, error) {
	if err == nil {
		return pass.Result()
	}
	status, now := v.Owner.Status.DeepCopy(), metav1.NewTime(v.Now)
	if status.ObservedGeneration = v.Owner.Generation; condition == apps.ConditionInvalidSpec {
		status.Conditions.SetFailure(condition, err, now)
	} else {
		setSuccess(&status.Conditions, condition, err, now)
	}
	_, message := reason.Explain(err)
	r.told.Tell(v.Owner, corev1.EventTypeWarning, event, message)
	_, statusErr := v.WriteStatus(ctx, *status)
	return pass.Result(err, statusErr)
}

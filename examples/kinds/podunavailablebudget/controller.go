package podunavailablebudget

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// ControllerName is the name of the controller in logs, and the source of its events.
const ControllerName = "podunavailablebudget-controller"

// These are the names of events.
const (
	eventNoPods     = "NoPods"
	eventSharedPods = "SharedPods"
	eventFailed     = "CalculateExpectedPodCountFailed"
	eventNotDeleted = "NotDeleted"
)

// overtakenRetry is the wait before the next count if an operation was counted against the budget during a
// reconciliation.
const overtakenRetry = 100 * time.Millisecond

// strayRetry is the wait before the next check of Pods whose annotations lack names that the reconciliation of
// another budget must write.
const strayRetry = 5 * time.Second

// Options are the options of the controller. The zero value is valid.
type Options = kruise.Options

// Reconciler reconciles PodUnavailableBudgets.
type Reconciler struct {
	cache  *ownercache.Cache[*v1beta1.PodUnavailableBudget]
	finder *finder
	counts *counter
	fanout *fanout.Fanout
	events record.EventRecorder
	strays strays
	told   *kruise.Told
}

// view is a budget with the Pods whose annotations name the budget, as the cache shows them.
type view = ownercache.View[*v1beta1.PodUnavailableBudget]

// Setup adds the controller to the manager. The controller writes with c, and c must read from the manager's cache. The
// scheme must contain the types of PodUnavailableBudgets, of the workloads of Kubernetes and of this project's
// workloads.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	return setup(ctx, mgr, c, options, newShares())
}

func setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options, shares *shares) error {
	r, err := newReconciler(ctx, mgr, c, options, shares)
	if err != nil {
		return err
	}
	return r.cache.AddController(mgr, "podunavailablebudget", r, options.Loop(options.Workers, r.watch))
}

func newReconciler(ctx context.Context, mgr kruise.Manager, c client.Client, options Options, shares *shares) (*Reconciler, error) {
	options = options.Complete()
	r := &Reconciler{fanout: fanout.New(options.Calls), events: mgr.GetEventRecorderFor(ControllerName)}
	workloads, err := workloads.NewOwners(ctx, mgr, c, options.Clock)
	if err != nil {
		return nil, err
	}
	serving, err := NewServing(options.Gates)
	if err != nil {
		return nil, err
	}
	if r.finder, err = newFinder(ctx, mgr.GetCache(), workloads); err != nil {
		return nil, err
	}
	r.counts = newCounter(r.finder, workloads, serving, shares)
	r.cache, err = kruise.NewCache(ctx, mgr, c, &v1beta1.PodUnavailableBudget{}, options, ownercache.Options{
		Namespace: options.Namespace,
		Members:   NamesIn,
	})
	if err != nil {
		return nil, err
	}
	r.told = kruise.NewTold(r.cache, r.events)
	r.cache.OnGone(func(uid types.UID) {
		r.strays.forget(uid)
		r.counts.forget(uid)
	})
	return r, nil
}

// Reconcile counts the Pods of a budget, and writes the result into the status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.cache.Observe(ctx, req)
	if v == nil || v.Owner.DeletionTimestamp != nil {
		return result, err
	}
	pass := r.fanout.Begin(v)
	found := r.strays.of(v.Owner.UID, func() []*corev1.Pod { return r.straysOf(v.Owner) })
	count := r.counts.count(ctx, v, found, pass.Wake)
	statusErr := r.report(ctx, v, pass, count)
	empty := ""
	if count.members == 0 {
		empty = "there are no Pods that it is for"
	}
	r.told.Tell(v.Owner, corev1.EventTypeNormal, eventNoPods, empty)
	r.told.Tell(v.Owner, corev1.EventTypeNormal, eventSharedPods, r.sharedWith(v))
	mine := slices.DeleteFunc(slices.Clone(found), func(pod *corev1.Pod) bool { return !r.marks(v.Owner, pod) })
	stampErr := fanout.Each(ctx, pass, fanout.Task{Name: "mark Pods"}, mine, func(ctx context.Context, pod *corev1.Pod) (bool, error) {
		return r.stamp(ctx, v, pod)
	})
	if len(found) > len(mine) { // other reconciliations write these names, unless their budgets are deleted
		pass.Wake(strayRetry)
	}
	if searchesAgain(len(found), len(mine), stampErr) {
		r.strays.look(v.Owner.UID)
	}
	return pass.Result(statusErr, stampErr)
}

// marks reports whether the reconciliation of this budget must write the names of all budgets of a Pod into the Pod's
// annotations. If several names are missing, only the reconciliation of the first budget with a missing name writes,
// and writes all names.
func (r *Reconciler) marks(budget *v1beta1.PodUnavailableBudget, pod *corev1.Pod) bool {
	unnamed := r.unnamed(pod)
	return len(unnamed) > 0 && unnamed[0].UID == budget.UID
}

// stamp writes the names of all the Pod's budgets into the Pod's annotations.
func (r *Reconciler) stamp(ctx context.Context, v *view, pod *corev1.Pod) (changed bool, err error) {
	of := r.finder.Of(pod)
	if !has(of, v.Owner) {
		return false, nil
	}
	result, err := podwrite.Send(ctx, v.Client, pod, v.Now, podpatch.Change{UID: pod.UID, Annotations: marks(of)})
	return result.Sent > 0, err
}

// sharedWith returns the names of the budgets that protect some of the same Pods, or "" if there are none.
func (r *Reconciler) sharedWith(v *view) string {
	others := map[string]bool{}
	for _, pod := range v.Pods {
		for _, name := range NamesIn(pod) {
			if _, exists := r.finder.Named(v.Owner.Namespace, name); exists && name != v.Owner.Name && len(others) < mostOfPod {
				others[name] = true
			}
		}
	}
	if len(others) == 0 {
		return ""
	}
	return "some of its Pods are also those of " + strings.Join(slices.Sorted(maps.Keys(others)), ", ") + ": a Pod is let go when all of its budgets agree"
}

// straysOf returns the Pods that the budget should protect but whose annotations do not name the budget: Pods created
// before the budget, and Pods that a deleted budget has protected.
func (r *Reconciler) straysOf(budget *v1beta1.PodUnavailableBudget) (found []*corev1.Pod) {
	for _, pod := range r.cache.Pods.In(budget.Namespace) {
		if podstate.IsActive(pod) && r.isStray(budget, pod) {
			found = append(found, pod)
		}
	}
	return found
}

// isStray reports whether the budget should protect the Pod, but the Pod's annotations do not name the budget.
func (r *Reconciler) isStray(budget *v1beta1.PodUnavailableBudget, pod *corev1.Pod) bool {
	return has(r.unnamed(pod), budget)
}

// unnamed returns the budgets whose names the Pod's annotations lack; nil if the annotations have no space for
// further names. Names of budgets that do not exist do not count, because any client may write such names.
func (r *Reconciler) unnamed(pod *corev1.Pod) []*v1beta1.PodUnavailableBudget {
	named := slices.DeleteFunc(NamesIn(pod), func(name string) bool {
		_, exists := r.finder.Named(pod.Namespace, name)
		return !exists
	})
	if len(named) >= mostOfPod {
		return nil
	}
	return slices.DeleteFunc(r.finder.Of(pod), func(b *v1beta1.PodUnavailableBudget) bool { return slices.Contains(named, b.Name) })
}

// report writes the status if it has changed, unless the webhook or a controller has counted a further operation
// against the budget since this reconciliation counted the Pods.
func (r *Reconciler) report(ctx context.Context, v *view, pass *fanout.Pass, count count) error {
	after := v.Owner.DeepCopy()
	store(after, count.ledger)
	after.Status.ObservedGeneration, after.Status.Undecodable = v.Owner.Generation, nil
	if equality.Semantic.DeepEqual(v.Owner.Status, after.Status) {
		count.stored()
		return nil
	}
	patch, err := patchOf(v.Owner, after)
	if err != nil {
		return err
	}
	err = v.Client.Status().Patch(ctx, after, patch)
	switch {
	case apierrors.IsConflict(err):
		pass.Wake(overtakenRetry)
		return nil
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("writing the status of PodUnavailableBudget %s/%s: %w", v.Owner.Namespace, v.Owner.Name, err)
	}
	count.stored()
	r.tell(v, count)
	return nil
}

// patchOf returns a patch of the status that fails if another client has written the budget. Fields that could not be
// decoded are removed.
func patchOf(before, after *v1beta1.PodUnavailableBudget) (client.Patch, error) {
	if len(before.Spec.Undecodable)+len(before.Status.Undecodable) == 0 {
		return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), nil
	}
	body, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": before.ResourceVersion},
		{"op": "add", "path": "/status", "value": after.Status},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the status of PodUnavailableBudget %s/%s: %w", before.Namespace, before.Name, err)
	}
	return client.RawPatch(types.JSONPatchType, body), nil
}

// tell sends events about the changes of the status, after the status was written.
func (r *Reconciler) tell(v *view, count count) {
	isNew := v.Owner.Status.ObservedGeneration != v.Owner.Generation
	if count.invalid != nil && isNew {
		r.events.Event(v.Owner, corev1.EventTypeWarning, eventFailed, "protects no Pods: "+reason.From(count.invalid).Summary(kruise.ReasonsInEvent))
	}
	for _, name := range count.stayed {
		if pod, ok := r.cache.Pods.Get(v.Owner.Namespace, name); ok {
			r.events.Eventf(pod, corev1.EventTypeWarning, eventNotDeleted, "PodUnavailableBudget %s has let the Pod go, and it was not deleted", v.Owner.Name)
		}
	}
}

package workloadspread

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/workloadspread"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/expectations/trackedclient"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/ownercache/sharedstatus"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/subsets"
)

// ControllerName is the name of the controller in logs, and the source of its events.
const ControllerName = "workloadspread-controller"

// TargetNotAllowed means that the kind of the target is neither always allowed nor listed in the configuration.
const TargetNotAllowed reason.Code = "TargetNotAllowed"

// Reconciler reconciles WorkloadSpreads.
type Reconciler struct {
	*webhook

	cache   *ownercache.Cache[*v1beta1.WorkloadSpread]
	nodes   *ownercache.Index[*corev1.Node]
	fanout  *fanout.Fanout
	events  record.EventRecorder
	told    *kruise.Told
	whole   *ownercache.Memory[map[types.UID]*corev1.Pod]
	awaited *ownercache.Memory[map[awaitedPod]time.Time]
	// unscheduled contains the times since which Pods are unschedulable, for Pods whose condition PodScheduled has no
	// time.
	unscheduled *ownercache.Memory[map[types.UID]time.Time]
	options     kruise.Options
}

// view is a WorkloadSpread as the cache shows it.
type view = ownercache.View[*v1beta1.WorkloadSpread]

// setup adds the controller to the manager. The controller writes with c. Webhook and controller write the status
// through the same queue.
func setup(ctx context.Context, mgr ctrl.Manager, c client.Client, options kruise.Options, w *webhook) error {
	r := &Reconciler{webhook: w, options: options.Complete(), events: kruise.Manager(mgr).GetEventRecorderFor(ControllerName)}
	r.fanout = fanout.New(r.options.Calls)
	var err error
	if r.nodes, err = ownercache.NewIndex(ctx, mgr.GetCache(), &corev1.Node{}); err != nil {
		return err
	}
	sources := []trackedclient.Source{trackedclient.Pods(r.pods)}
	if r.options.Namespace != "" {
		sources[0].Restrict = []client.ListOption{client.InNamespace(r.options.Namespace)}
	}
	r.cache, err = kruise.NewCache(ctx, mgr, c, &v1beta1.WorkloadSpread{}, r.options, ownercache.Options{Owned: sources, Namespace: r.options.Namespace})
	if err != nil {
		return err
	}
	r.told, r.whole = kruise.NewTold(r.cache, r.events), ownercache.NewMemory[map[types.UID]*corev1.Pod](r.cache)
	r.awaited = ownercache.NewMemory[map[awaitedPod]time.Time](r.cache)
	r.unscheduled = ownercache.NewMemory[map[types.UID]time.Time](r.cache)
	return r.cache.AddController(mgr, "workloadspread", r, r.options.Loop(r.options.Workers, r.watch))
}

// unwatchedAgain is the wait before the next reconciliation if changes of the number of replicas cause no event.
const unwatchedAgain = 30 * time.Second

// Reconcile counts the Pods of a WorkloadSpread, and writes the result into the status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.cache.Observe(ctx, req)
	if v == nil || v.Owner.DeletionTimestamp != nil {
		return result, err
	}
	pass := r.fanout.Begin(v)
	s, problems, warnings := resolve(&v.Owner.Spec)
	if _, ok := r.targetOf(s.kind); problems == nil && !ok {
		return r.stop(v, pass, reason.Reason{
			Code: TargetNotAllowed, Path: "spec.targetRef", New: s.kind.String(), Detail: "Pods of the kind are not spread",
			Remedy: "list the kind in ConfigMap " + apps.ConfigurationName,
		})
	}
	if problems != nil {
		return r.stop(v, pass, problems.Reasons())
	}
	seen, err := r.observe(ctx, v, pass, s)
	if err != nil {
		return pass.Result(err)
	}
	p, err := r.count(ctx, v, s, seen)
	if _, ok := errors.AsType[reason.Reason](err); ok {
		return r.stop(v, pass, err)
	}
	if err != nil {
		return pass.Result(err)
	}
	pass.Wake(p.requeueAfter)
	r.tell(v.Owner, s, &p, append(warnings.Reasons(), seen.overlap...).Err(), seen.latest)
	return pass.Result(r.act(ctx, v, pass, &p), seen.unasked)
}

// stop ends a reconciliation, and reports why Pods are not assigned to subsets. The WorkloadSpread is reconciled
// again later, because a change of the configured target kinds causes no event.
func (r *Reconciler) stop(v *view, pass *fanout.Pass, err error) (ctrl.Result, error) {
	_, message := reason.Explain(err)
	r.told.Tell(v.Owner, corev1.EventTypeWarning, apps.EventInvalidWorkloadSpread, message)
	pass.Wake(unwatchedAgain)
	return pass.Result()
}

// observe collects the inputs of a reconciliation.
func (r *Reconciler) observe(ctx context.Context, v *view, pass *fanout.Pass, s *settings) (seen observed, err error) {
	namespace := v.Owner.Namespace
	seen = observed{versioned: r.versioned, latest: r.latest(namespace, s), now: v.Now, node: func(name string) *corev1.Node {
		node, _ := r.nodes.Get("", name)
		return node
	}}
	if seen.replicas, err = r.replicas(ctx, namespace, s); err != nil {
		return seen, err
	}
	if s.scaled && (len(s.paths) > 0 || !r.owners.Knows(s.kind)) {
		pass.Wake(unwatchedAgain)
	}
	pods, err := r.podsOf(ctx, namespace, s)
	if err != nil {
		return seen, err
	}
	pods, seen.overlap = r.withoutOlder(v.Owner, s, pods)
	seen.pods = s.crowdOf(v.Owner.Name, r.dated(v, pods), r.versioned)
	if err := r.complete(ctx, v, &seen); err != nil {
		return seen, err
	}
	wait, err := r.await(ctx, v, &seen)
	pass.Wake(wait)
	seen.unasked = err
	return seen, nil
}

// dated returns the Pods. If the condition PodScheduled of an unschedulable Pod has no transition time, dated returns
// a copy of the Pod with the time since when this process knows the Pod as unschedulable.
func (r *Reconciler) dated(v *view, pods []*corev1.Pod) []*corev1.Pod {
	before := r.unscheduled.Of(v.Owner.UID)
	pods, now := kruise.Dated(pods, before, v.Now)
	if len(before)+len(now) > 0 {
		r.unscheduled.Change(v.Owner.UID, func(known *map[types.UID]time.Time) { *known = now })
	}
	return pods
}

// complete reads the Pods without a mark (the annotation with the subset) from the API server, because the cache
// keeps only some fields of most Pods. Such a Pod gets a mark in this reconciliation. A Pod that belongs to no subset
// is remembered, and is not read again.
func (r *Reconciler) complete(ctx context.Context, v *view, seen *observed) error {
	before, now := r.whole.Of(v.Owner.UID), map[types.UID]*corev1.Pod{}
	for _, e := range seen.pods.others {
		pod := e.pod
		if !podstate.IsScheduled(pod) || len(pod.Spec.Containers) > 0 {
			continue
		}
		whole := before[pod.UID]
		if whole == nil && len(now) < kruise.PerPass {
			whole = &corev1.Pod{}
			err := r.live.Get(ctx, client.ObjectKeyFromObject(pod), whole)
			if apierrors.IsNotFound(err) || err == nil && whole.UID != pod.UID {
				continue
			}
			if err != nil {
				return fmt.Errorf("reading Pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			whole.ManagedFields = nil // managedFields are half of a Pod's size
		}
		if whole != nil {
			now[pod.UID], e.pod = whole, whole
		}
	}
	if len(before)+len(now) > 0 {
		r.whole.Change(v.Owner.UID, func(whole *map[types.UID]*corev1.Pod) { *whole = now })
	}
	return nil
}

// count computes the plan, and stores the new status. The write goes through the same queue as the writes of this
// process's webhooks, so that the status keeps the places in subsets that webhooks take at the same time.
func (r *Reconciler) count(ctx context.Context, v *view, s *settings, seen observed) (plan, error) {
	type counted struct {
		*counter

		err error
	}
	got, err := sharedstatus.Ask(ctx, r.statuses, client.ObjectKeyFromObject(v.Owner), "",
		func(spread *v1beta1.WorkloadSpread, before v1beta1.WorkloadSpreadStatus) (v1beta1.WorkloadSpreadStatus, counted, sharedstatus.Need) {
			if spread.UID != v.Owner.UID || spread.Generation != v.Owner.Generation || r.clock.Since(seen.now) > longestCount {
				return before, counted{err: errOvertaken}, sharedstatus.Answer
			}
			now := *spread
			now.Status = before
			c, err := s.tally(&now, seen)
			if err != nil || apiequality.Semantic.DeepEqual(before, c.status) {
				return before, counted{c, err}, sharedstatus.Answer
			}
			return c.status, counted{counter: c}, sharedstatus.Store
		})
	if errors.Is(err, sharedstatus.ErrGone) {
		return plan{}, nil
	}
	if errors.Is(got.err, errOvertaken) || errors.Is(err, sharedstatus.ErrContended) {
		return plan{requeueAfter: overtakenRetry}, nil
	}
	if err := errors.Join(err, got.err); err != nil || got.counter == nil {
		return plan{}, err
	}
	return got.finish(), nil
}

// errOvertaken means that the WorkloadSpread has changed since it was read for this reconciliation, or that the
// reconciliation has taken too long.
var errOvertaken = errors.New("the WorkloadSpread has changed")

// longestCount is how long after the read of the Pods the result of a count may still be written into the status, if
// writes are slow or fail. An older count would treat the places that webhooks have taken since the read as taken in
// the future, and would free these places.
const longestCount = 20 * time.Second

// overtakenRetry is the wait before the next count after errOvertaken.
const overtakenRetry = 100 * time.Millisecond

// act carries out a plan. The status must be stored before.
func (r *Reconciler) act(ctx context.Context, v *view, pass *fanout.Pass, p *plan) error {
	write := func(what, event string, all []written) error {
		changes, pods := map[types.UID]metadata{}, make([]*corev1.Pod, 0, len(all))
		for _, w := range all {
			changes[w.pod.UID], pods = w.change, append(pods, w.pod)
		}
		err := fanout.Each(ctx, pass, fanout.Task{Name: what}, pods, func(ctx context.Context, pod *corev1.Pod) (bool, error) {
			change := changes[pod.UID]
			result, err := podwrite.Send(ctx, v.Client, pod, v.Now, podpatch.Change{UID: pod.UID, Labels: change.Labels, Annotations: change.Annotations})
			if err != nil {
				return false, fmt.Errorf("writing Pod %s: %w", pod.Name, err)
			}
			r.options.Metrics.Done("marked", int64(result.Sent))
			return result.Sent > 0, nil
		})
		_, message := reason.Explain(err)
		r.told.Tell(v.Owner, corev1.EventTypeWarning, event, message)
		return err
	}
	marked := write("mark Pods", apps.EventPatchPodFailed, p.marks)
	ranked := write("rank Pods", apps.EventPatchPodDeletionCostFailed, p.costs)
	deleted := fanout.Each(ctx, pass, fanout.Task{Name: "delete Pods"}, p.stuck, func(ctx context.Context, pod *corev1.Pod) (bool, error) {
		// The deletion requires the version that was read, because the Pod may have been bound to a Node since.
		only := client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}
		err := v.Client.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}, only)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("deleting Pod %s: %w", pod.Name, err)
		}
		r.options.Metrics.Done("rescheduled", 1)
		return true, nil
	})
	_, message := reason.Explain(deleted)
	r.told.Tell(v.Owner, corev1.EventTypeWarning, apps.EventDeleteStuckPodFailed, message)
	return errors.Join(marked, ranked, deleted)
}

// tell sends events about the changes since the last reconciliation.
func (r *Reconciler) tell(owner *v1beta1.WorkloadSpread, s *settings, p *plan, odd error, latest string) {
	_, message := reason.Explain(odd)
	r.told.Tell(owner, corev1.EventTypeWarning, apps.EventInvalidWorkloadSpread, message)
	for _, lost := range p.lost {
		event := apps.EventCreatePodFailed
		if lost.Code == subsets.NotDeleted {
			event = apps.EventDeletePodFailed
		}
		r.events.Event(owner, corev1.EventTypeWarning, event, lost.Error())
	}
	for _, name := range p.reopened {
		r.events.Eventf(owner, corev1.EventTypeNormal, apps.EventRecoverSchedulable, "subset %s takes Pods again", name)
	}
	list, ok := p.status.VersionedSubsetStatuses[latest]
	if !ok {
		list = p.status.VersionedSubsetStatuses[apps.SubsetVersionIgnored]
	}
	r.told.Tell(owner, corev1.EventTypeNormal, apps.EventSubsetChosen, s.next(list, p.room))
}

// next returns a text with the subset in which the next Pod is created, and with the reasons why no Pod is created in
// the subsets before. If the next Pod is created in the first subset, the text is empty.
func (s *settings) next(list []v1beta1.WorkloadSpreadSubsetStatus, places []subsets.Place) string {
	if len(list) == 0 || api.IsNumbered(s.kind) {
		return ""
	}
	choice := s.policy.Pick(bookOf(list), places)
	switch {
	case len(choice.Why) == 0:
		return ""
	case choice.Subset == "":
		return "further Pods are in no subset: " + choice.Why.Summary(kruise.ReasonsInEvent)
	}
	return "further Pods go to subset " + choice.Subset + ": " + choice.Why.Summary(kruise.ReasonsInEvent)
}

package podunavailablebudget

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/podstate"
)

// count is the result of counting the Pods of a budget.
type count struct {
	ledger disruption.Ledger
	// members is the number of the budget's active Pods.
	members int
	// stayed lists the Pods that still exist although their deletion was admitted more than
	// disruption.Policy.LeavingFor ago.
	stayed []string
	// stored must be called after the ledger, that is the admitted disruptions and the numbers of Pods, was written
	// to the API server.
	stored func()
	// invalid says why the budget is invalid; nil if the budget is valid.
	invalid error
}

// unwatchedAgain is the wait before the next count if the kind of a workload is not watched: changes of the number of
// replicas then cause no event.
const unwatchedAgain = 30 * time.Second

// counter counts the Pods of budgets. For unchanged Pods, counter remembers whether the Pods are in service.
type counter struct {
	finder    *finder
	workloads *workloads.Owners
	serving   *Serving
	policy    disruption.Policy
	shares    *shares

	mu    sync.Mutex
	known map[types.UID]map[types.UID]judged
	// needed contains, for each budget, when the number of Pods required to be in service last rose from 0.
	needed map[types.UID]time.Time
}

// judged is the result of the method judged of counter: whether a version of a Pod is in service.
type judged struct {
	pod     *corev1.Pod
	serves  bool
	again   time.Duration // time after which serves may change without an event; 0 means never
	doubted time.Time     // since when the kubelet may be about to stop the containers; zero means not at present
}

func newCounter(finder *finder, workloads *workloads.Owners, serving *Serving, shares *shares) *counter {
	return &counter{finder: finder, workloads: workloads, serving: serving, shares: shares, known: map[types.UID]map[types.UID]judged{}, needed: map[types.UID]time.Time{}}
}

func (c *counter) forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, uid)
	delete(c.needed, uid)
	c.shares.forget(uid)
}

// before returns the ledger (admitted disruptions and the numbers of Pods) of the last count, including the fields
// that the status cannot store.
func (c *counter) before(v *view) disruption.Ledger {
	c.mu.Lock()
	defer c.mu.Unlock()
	ledger := c.shares.ledger(v.Owner)
	if since, ok := c.needed[v.Owner.UID]; ok {
		ledger.NeededSince = &metav1.Time{Time: since}
	}
	return ledger
}

// remember stores the time since when the budget requires Pods in service.
func (c *counter) remember(v *view, ledger *disruption.Ledger) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ledger.NeededSince == nil {
		delete(c.needed, v.Owner.UID)
		return
	}
	c.needed[v.Owner.UID] = ledger.NeededSince.Time
}

// count counts the Pods whose annotations name the budget, and the strays, which are protected Pods whose annotations
// still lack the name. If a Pod's service changes later without an event, count calls wake with the time until the
// next count.
func (c *counter) count(ctx context.Context, v *view, strays []*corev1.Pod, wake func(time.Duration)) (out count) {
	pods, spec := c.members(v), c.finder.specOf(v.Owner)
	census := disruption.Census{
		Generation: v.Owner.Generation, Bounds: spec.bounds, Path: "spec", Members: make([]disruption.Member, 0, len(pods)+len(strays)),
	}
	census.Members = c.judge(v, pods, census.Members, wake)
	// A stray counts only after the budget's name was written into the Pod's annotations, because before this write
	// the cache may lack the annotations.
	for _, pod := range strays {
		census.Members = append(census.Members, disruption.MemberOf(pod, false))
	}
	expected, watched := c.expected(ctx, v.Owner.Namespace, spec.settings, append(pods, strays...))
	if !watched {
		wake(unwatchedAgain)
	}
	census.Expected = &expected
	for _, pod := range v.Pods {
		if !podstate.IsActive(pod) {
			census.Gone = append(census.Gone, pod.Name)
		}
	}
	before := c.before(v)
	counted, err := c.policy.Count(before, census, v.Now)
	// An error is possible only for objects that were never stored by an API server.
	out.invalid = cmp.Or(err, spec.problems.Reasons().Err())
	c.remember(v, &counted.Ledger)
	out.stored = func() { c.shares.counted(v.Owner.UID, &before, &counted.Ledger, census.Members) }
	out.ledger, out.stayed = counted.Ledger, counted.Stayed
	wake(counted.Wait)
	out.members = len(census.Members)
	return out
}

// members returns the selected Pods whose annotations name the budget, including Pods that are being deleted.
func (c *counter) members(v *view) []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, len(v.Pods))
	for _, pod := range v.Pods {
		if !podstate.HasEnded(pod) && c.finder.IsFor(v.Owner, pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// judge determines for each active Pod whether the Pod is in service, and appends a disruption.Member for the Pod to
// members.
func (c *counter) judge(v *view, pods []*corev1.Pod, members []disruption.Member, wake func(time.Duration)) []disruption.Member {
	c.mu.Lock()
	before := c.known[v.Owner.UID]
	c.mu.Unlock()
	known := make(map[types.UID]judged, len(pods))
	for _, pod := range pods {
		if !podstate.IsActive(pod) {
			continue
		}
		j := before[pod.UID]
		if j.pod != pod || j.again > 0 {
			j = c.judged(j, pod, v.Now)
			wake(j.again)
		}
		known[pod.UID] = j
		member := disruption.MemberOf(pod, j.serves)
		member.Settled = podstate.HasGate(pod, apps.ConditionInPlaceUpdateReady)
		members = append(members, member)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[v.Owner.UID] = known
	return members
}

// judged determines whether a Pod is in service. A kubelet writes status.observedGeneration before it stops the
// containers of the old spec. So after a change of the spec, the containers may be about to stop. The Pod counts as
// in service only after the containers have kept running for longer than the grace period. before is the previous
// result for the Pod, or the zero value.
func (c *counter) judged(before judged, pod *corev1.Pod, now time.Time) judged {
	j := judged{pod: pod}
	if j.serves, j.again = c.serving.Serves(pod, now); !j.serves || !isDoubtful(pod) {
		return j
	}
	if j.doubted = before.doubted; j.doubted.IsZero() || before.pod.Generation != pod.Generation || !slices.Equal(instances(before.pod), instances(pod)) {
		j.doubted = now
	}
	end := time.Duration(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds))*time.Second + patience
	if left := j.doubted.Add(end).Sub(now); left > 0 {
		j.serves, j.again = false, left
	}
	return j
}

// patience is how long a container may take to stop after its grace period.
const patience = 10 * time.Second

// instances returns the IDs of the Pod's containers.
func instances(pod *corev1.Pod) (ids []string) {
	for i := range pod.Status.ContainerStatuses {
		ids = append(ids, pod.Status.ContainerStatuses[i].ContainerID)
	}
	return ids
}

// expected returns how many Pods should exist for the budget. watched is false if changes of this number cause no
// event.
func (c *counter) expected(ctx context.Context, namespace string, s *settings, pods []*corev1.Pod) (n int32, watched bool) {
	if s.total != nil {
		return *s.total, true
	}
	if s.target != nil {
		n, known := c.workloads.Expected(ctx, namespace, *s.target)
		if !known { // if the kind has no number of replicas, the existing Pods are counted
			n = int32(len(pods)) //nolint:gosec // the number of Pods in a namespace fits
		}
		return n, known && c.workloads.Knows(s.target.GroupKind)
	}
	watched = true
	type workload struct { // the key contains no API version
		schema.GroupKind
		name string
	}
	seen := map[workload]bool{}
	for _, pod := range pods {
		ref, ok := c.top(pod)
		if !ok {
			n++ // a Pod without a controller is not replaced by another Pod
			continue
		}
		key := workload{ref.GroupKind, ref.Name}
		said, counted := seen[key]
		if !counted {
			replicas, known := c.workloads.Expected(ctx, namespace, ref)
			seen[key], said = known, known
			n, watched = n+replicas, watched && c.workloads.Knows(ref.GroupKind)
		}
		if !said {
			n++
		}
	}
	return n, watched
}

// top returns the workload that determines the number of Pods: the topmost workload of a watched kind, or the Pod's
// controller if there is no such workload.
func (c *counter) top(pod *corev1.Pod) (ref workloads.Ref, ok bool) {
	chain, _ := c.workloads.Above(pod)
	for i, above := range chain {
		if i == 0 || c.workloads.Knows(above.GroupKind) {
			ref, ok = above, true
		}
	}
	return ref, ok
}

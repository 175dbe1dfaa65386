// Package upgrader carries out upgrades of sidecars.
//
// An [Upgrader] finds the Pods that have sidecars of the owners of a kind, whoever controls the Pods. [Upgrader.Work]
// brings the Pods of an owner a step closer to its set: Work finishes upgrades that have begun, and begins as many
// upgrades as the rollout allows. A Pod may have sidecars of several owners: during an upgrade for any of these
// owners, the Pod counts towards MaxUnavailable of all these owners.
//
//	v, result, err := r.upgrader.Cache.Observe(ctx, req)
//	if v == nil {
//		return result, err
//	}
//	pass := r.upgrader.Fanout.Begin(v)
//	work, err := r.upgrader.Work(ctx, v, pass, set, plan)
//	return pass.Result(err, r.report(ctx, v, work))
//
// RBAC: list and watch on the owner's kind, on Pods and on ControllerRevisions, get and patch on Pods, and patch on
// pods/status if sidecarcontrol.Keys.Condition is set.
package upgrader

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

// Config is the configuration of an Upgrader.
type Config[O client.Object] struct {
	// Control is the Control that injects the sidecars. Required.
	Control *sidecarcontrol.Control
	// Cache are the options of the cache; New sets its field Members. Calls is the argument of fanout.New.
	Cache ownercache.Options
	Calls int
	// Observe is called with Events about Pods. Optional.
	Observe func(owner O, event Event)
}

// These are the kinds of Events.
const (
	// Upgraded says that a Pod got new images.
	Upgraded What = "Upgraded"
	// Flipped says that a hot upgrade was finished: the earlier working container is idle now.
	Flipped What = "Flipped"
)

// What is the kind of an Event.
type What string

// Event reports an action on a Pod, or a failed attempt.
type Event struct {
	What What
	Pod  *corev1.Pod
	// Err is the error of a failed action, nil after success.
	Err error
}

// Upgrader upgrades the sidecars of the owners of a kind. An Upgrader is safe for concurrent use. Make an Upgrader with
// New.
type Upgrader[O client.Object] struct {
	Cache  *ownercache.Cache[O]
	Fanout *fanout.Fanout

	config Config[O]

	mu sync.Mutex
	// claims holds, for each Pod that is about to be upgraded, the name of the set that upgrades the Pod. An entry is
	// removed when the next reconcile of the set's owner begins, because the cache then shows the writes, or at the
	// end of the same reconcile if nothing was written.
	claims map[types.UID]string
	// known holds the Standings of each owner's last reconcile, by the owner's UID. Most Pods have not changed since
	// then, so most Standings need not be computed again.
	known map[types.UID]*known
}

// known holds the Standings of Pods for a set, by the Pods' UIDs. A Standing is valid as long as neither Pod nor set
// changes. The Pods are the cache's objects, and the cache replaces an object that changes. At most one reconcile of
// an owner runs at a time, so known needs no lock.
type known struct {
	set  *sidecarcontrol.Set
	pods map[types.UID]*sidecarcontrol.Standing
}

// New returns an Upgrader for the kind of owner. Call New before the manager starts. The error names the missing field
// of the config, or comes from ownercache.New.
func New[O client.Object](ctx context.Context, mgr ownercache.Manager, owner O, config Config[O]) (*Upgrader[O], error) {
	if config.Control == nil {
		return nil, errors.New("upgrader: a Control is required")
	}
	config.Cache.Members = config.Control.Injected
	cache, err := ownercache.New(ctx, mgr, owner, config.Cache)
	if err != nil {
		return nil, err
	}
	u := &Upgrader[O]{Cache: cache, Fanout: fanout.New(config.Calls), config: config, claims: map[types.UID]string{}, known: map[types.UID]*known{}}
	cache.OnGone(func(uid types.UID) {
		u.Fanout.Backoff.Forget(uid)
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.claims, uid)
		delete(u.known, uid)
	})
	return u, nil
}

// Plan says which upgrades to begin.
type Plan struct {
	// Rollout returns the order and the limits, given the Standing of each Pod. If nil, no upgrade is begun, but
	// upgrades that have begun are finished. Work sets Order.Rest.
	Rollout func(pods []sidecarcontrol.Standing) sidecarcontrol.Rollout
	// Selects reports whether the set still matches a Pod; other Pods are not upgraded. If a hot upgrade of such a Pod
	// has begun, the upgrade is finished nevertheless. Nil means that all Pods match.
	Selects func(pod *corev1.Pod) bool
}

// Work is the result of Upgrader.Work, that is of a reconcile.
type Work struct {
	// Pods are the Standings of the set's Pods: the active Pods that have all sidecars of the set. A Pod created before
	// a container was added to the set is excluded: a running Pod cannot get another container.
	Pods []sidecarcontrol.Standing
	// Dropped are active Pods that have sidecars of the set but do not belong to the set any more: the set does not
	// match the Pod, or the Pod lacks a sidecar that was added to the set. These Pods are not upgraded.
	Dropped []*corev1.Pod
	// Choice says which Pods are upgraded now.
	Choice sidecarcontrol.Choice
}

// task returns the fanout.Task with the given name and with the back-off after a refused change of a Pod.
func task(name string) fanout.Task {
	return fanout.Task{Name: name, First: 10 * time.Second, Last: 5 * time.Minute}
}

const (
	upgradePods = "upgrade sidecars"
	flipPods    = "end hot upgrades"
	tellPods    = "tell what cannot be upgraded"
	notePods    = "note the progress of upgrades"
)

// Work brings the Pods of an owner a step closer to the set. The result shows the state before the writes.
func (u *Upgrader[O]) Work(ctx context.Context, v *ownercache.View[O], pass *fanout.Pass, set *sidecarcontrol.Set, plan Plan) (Work, error) {
	all, selected, dropped := u.read(v, set, plan)
	work, wait := u.decide(v, set, plan, all[:selected:selected])
	work.Dropped = dropped
	pass.Wake(wait)
	var written sync.Map // names of the written Pods by UID
	byPod := make(map[*corev1.Pod]*sidecarcontrol.Standing, len(all))
	for i := range all {
		pass.Wake(all[i].RequeueAfter)
		byPod[all[i].Pod] = &all[i]
	}
	each := func(name string, pods []*corev1.Pod, what What, change func(*sidecarcontrol.Standing) (podpatch.Change, error)) error {
		return fanout.Each(ctx, pass, fanout.Task{Name: name}, pods, func(ctx context.Context, pod *corev1.Pod) (changed bool, err error) {
			err = pass.Try(task(name), pod.UID, func() error {
				if changed, err = u.send(ctx, v, byPod[pod], change); changed {
					written.Store(pod.UID, true)
				}
				if what != "" && u.config.Observe != nil && (changed || err != nil) {
					u.config.Observe(v.Owner, Event{what, pod, err})
				}
				return err
			})
			return changed, err
		})
	}
	upgrade := make([]*corev1.Pod, len(work.Choice.Upgrade))
	for i, s := range work.Choice.Upgrade {
		upgrade[i] = s.Pod
	}
	err := pass.UntilChanged(
		func() error {
			return each(flipPods, podsWhere(all, func(s *sidecarcontrol.Standing) bool { return s.Flip }), Flipped,
				func(s *sidecarcontrol.Standing) (podpatch.Change, error) { return u.config.Control.Flip(s, set, v.Now) })
		},
		func() error {
			return each(upgradePods, upgrade, Upgraded,
				func(s *sidecarcontrol.Standing) (podpatch.Change, error) {
					return u.config.Control.Upgrade(s, set, v.Now)
				})
		},
		func() error {
			return each(notePods, podsWhere(all, func(s *sidecarcontrol.Standing) bool { return !s.Note.IsEmpty() }), "",
				func(s *sidecarcontrol.Standing) (podpatch.Change, error) { return s.Note, nil })
		},
		func() error {
			tell := func(s *sidecarcontrol.Standing) podpatch.Change { return u.config.Control.Tell(s, set) }
			return each(tellPods, podsWhere(work.Pods, func(s *sidecarcontrol.Standing) bool { c := tell(s); return !c.IsEmpty() }), "",
				func(s *sidecarcontrol.Standing) (podpatch.Change, error) { return tell(s), nil })
		},
	)
	if !v.InDoubt() {
		u.release(set, func(uid types.UID) bool { _, ok := written.Load(uid); return !ok })
	}
	return work, err
}

// release removes the set from claims, for the Pods for which the function returns true.
func (u *Upgrader[O]) release(set *sidecarcontrol.Set, which func(types.UID) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.claims, func(uid types.UID, of string) bool { return of == set.Name() && which(uid) })
}

func podsWhere(pods []sidecarcontrol.Standing, match func(*sidecarcontrol.Standing) bool) (out []*corev1.Pod) {
	for i := range pods {
		if match(&pods[i]) {
			out = append(out, pods[i].Pod)
		}
	}
	return out
}

// send writes a change of a Pod. The reconciles of all owners with sidecars in the Pod wait until the cache shows the
// write.
func (u *Upgrader[O]) send(
	ctx context.Context, v *ownercache.View[O], s *sidecarcontrol.Standing, change func(*sidecarcontrol.Standing) (podpatch.Change, error),
) (bool, error) {
	wanted, err := change(s)
	if err != nil {
		return false, err
	}
	result, err := podwrite.Send(ctx, v.For(s.Pod), s.Pod, v.Now, wanted)
	return result.Sent > 0, err
}

// read returns the Standings of the Pods: first the Pods that the set matches, then other Pods whose upgrade is in
// progress. Other sets wait until such an upgrade has ended.
func (u *Upgrader[O]) read(v *ownercache.View[O], set *sidecarcontrol.Set, plan Plan) (out []sidecarcontrol.Standing, selected int, dropped []*corev1.Pod) {
	known := u.knownOf(v.Owner.GetUID(), set)
	out = make([]sidecarcontrol.Standing, 0, len(v.Pods))
	var left []sidecarcontrol.Standing
	for _, pod := range v.Pods {
		s := known.pods[pod.UID]
		if s == nil || s.Pod != pod || !s.Settled() {
			read := u.config.Control.Read(pod, set, v.Now)
			s = &read
			known.pods[pod.UID] = s
		}
		if !podstate.IsActive(pod) {
			continue
		}
		isSelected := plan.Selects == nil || plan.Selects(pod)
		if s.Injected && isSelected {
			out = append(out, *s)
			continue
		}
		dropped = append(dropped, pod)
		if s.Injected && (len(s.Waiting) > 0 || !s.Note.IsEmpty()) {
			left = append(left, *s)
		}
	}
	if len(known.pods) > len(v.Pods) {
		there := make(map[types.UID]bool, len(v.Pods))
		for _, pod := range v.Pods {
			there[pod.UID] = true
		}
		maps.DeleteFunc(known.pods, func(uid types.UID, _ *sidecarcontrol.Standing) bool { return !there[uid] })
	}
	return append(out, left...), len(out), dropped
}

// knownOf returns an owner's remembered Standings that are still valid for the set.
func (u *Upgrader[O]) knownOf(owner types.UID, set *sidecarcontrol.Set) *known {
	u.mu.Lock()
	defer u.mu.Unlock()
	last := u.known[owner]
	if last == nil || !set.Equal(last.set) {
		last = &known{pods: map[types.UID]*sidecarcontrol.Standing{}}
		u.known[owner] = last
	}
	last.set = set
	return last
}

// decide chooses the Pods to upgrade. The choice is recorded in claims, so that other sets know which Pods are about
// to be upgraded. wait, if positive, is the time until the next reconcile: no event occurs when a Pod's back-off is
// over, or when another set's entry for a Pod is removed from claims.
func (u *Upgrader[O]) decide(
	v *ownercache.View[O], set *sidecarcontrol.Set, plan Plan, pods []sidecarcontrol.Standing,
) (work Work, wait time.Duration) {
	work.Pods = pods
	var shared []int // indexes of Pods that also have sidecars of other sets
	for i := range work.Pods {
		if work.Pods[i].Shared {
			shared = append(shared, i)
		}
	}
	var rollout sidecarcontrol.Rollout
	if plan.Rollout != nil {
		rollout = plan.Rollout(work.Pods)
		rollout.Order.Rest = func(pod *corev1.Pod) time.Duration {
			rest := u.Fanout.Backoff.Rest(pod.UID, v.Now, task(upgradePods))
			wait = sooner(wait, rest) // Pods in back-off may not be chosen, and Try requeues the owner only for chosen Pods
			return rest
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.claims, func(_ types.UID, of string) bool { return of == set.Name() })
	if plan.Rollout == nil {
		return work, 0
	}
	for _, i := range shared {
		s := &work.Pods[i]
		// The Pod in the view may be older than a write for another set. Comparing pointers is not enough, because the
		// cache has new pointers after listing all Pods again.
		newest, _ := u.Cache.Pods.Get(s.Pod.Namespace, s.Pod.Name)
		claimed := u.claims[s.Pod.UID] != ""
		if claimed {
			wait = sooner(wait, time.Second)
		}
		s.Busy = s.Busy || claimed || newest == nil || newest.ResourceVersion != s.Pod.ResourceVersion
	}
	work.Choice = sidecarcontrol.Choose(work.Pods, rollout)
	// If another set is about to change a Pod, this set upgrades the Pod in a later reconcile: both sets would write
	// the same annotations.
	work.Choice.Upgrade = slices.DeleteFunc(work.Choice.Upgrade, func(s *sidecarcontrol.Standing) bool { return u.claims[s.Pod.UID] != "" })
	for _, s := range work.Choice.Upgrade {
		u.claims[s.Pod.UID] = set.Name()
	}
	return work, wait
}

// sooner returns the shorter of two waits. Zero means that there is no wait.
func sooner(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

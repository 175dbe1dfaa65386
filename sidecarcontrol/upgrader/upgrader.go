// Package upgrader carries out upgrades of sidecars.
//
// An [Upgrader] knows the Pods that the owners of one kind have injected something into, whoever controls those Pods. [Upgrader.Work]
// takes the Pods of one owner a step closer to its set: it ends what was begun, and upgrades as many more as the rollout allows. One Pod
// may have sidecars of several owners: what one of them upgrades counts against the budgets of all.
//
//	v, result, err := r.upgrader.Cache.Observe(ctx, req)
//	if v == nil {
//		return result, err
//	}
//	pass := r.upgrader.Fanout.Begin(v)
//	work, err := r.upgrader.Work(ctx, v, pass, set, plan)
//	return pass.Result(err, r.report(ctx, v, work))
//
// RBAC: list and watch on the owner's kind, on Pods and on ControllerRevisions, get and patch on Pods, and patch on pods/status where
// sidecarcontrol.Keys.Condition is given.
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

// Config of an Upgrader.
type Config[O client.Object] struct {
	// Control injects and upgrades. Required.
	Control *sidecarcontrol.Control
	// Cache are the options of the cache; Members is filled in. Calls is that of fanout.New.
	Cache ownercache.Options
	Calls int
	// Observe is told what became of a Pod. Optional.
	Observe func(owner O, event Event)
}

// What happens to a Pod.
const (
	// Upgraded says that a Pod was given new images.
	Upgraded What = "Upgraded"
	// Flipped says that a hot upgrade has ended: the container that worked before is idle.
	Flipped What = "Flipped"
)

// What says what happened to a Pod.
type What string

// Event is something that was done to a Pod, or was tried.
type Event struct {
	What What
	Pod  *corev1.Pod
	// Err is why it failed, nil if it did not.
	Err error
}

// Upgrader upgrades the sidecars of the owners of one kind. It is safe for concurrent use. Make it with New.
type Upgrader[O client.Object] struct {
	Cache  *ownercache.Cache[O]
	Fanout *fanout.Fanout

	config Config[O]

	mu sync.Mutex
	// claims are the Pods that are about to be upgraded, with the set. A claim ends when its set's next pass begins, because the cache shows
	// what was written then, or with its pass if nothing was.
	claims map[types.UID]string
	// known is how Pods stood in the last pass of an owner, by its UID: of thousands of Pods, most have not changed since.
	known map[types.UID]*known
}

// known is how Pods stand with a set for as long as neither changes, by their UIDs. The objects are the cache's, which replaces them when
// they change. One pass at a time uses it.
type known struct {
	set  *sidecarcontrol.Set
	pods map[types.UID]*sidecarcontrol.Standing
}

// New returns an Upgrader for the kind of owner. Call it before the manager starts. The error says what of the config is missing, or is
// one of ownercache.New.
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

// Plan says which upgrades are to be started.
type Plan struct {
	// Rollout says how many at a time, given how each Pod stands. Nil starts none: what was begun is ended all the same. Required
	// otherwise; Order.Rest is filled in.
	Rollout func(pods []sidecarcontrol.Standing) sidecarcontrol.Rollout
	// Selects leaves Pods out that the set does not match any more; a hot upgrade that has begun in one is ended all the same. Nil leaves
	// none out.
	Selects func(pod *corev1.Pod) bool
}

// Work is what was found and decided.
type Work struct {
	// Pods is how each Pod of the set stood: those that have all of its sidecars, and are active. A Pod from before the set gained another
	// container is not among them: no Pod that runs can get one.
	Pods []sidecarcontrol.Standing
	// Dropped are active Pods that have sidecars of the set and are not its Pods any more: the set does not match them, or has gained a sidecar since
	// that they lack. Nobody upgrades them.
	Dropped []*corev1.Pod
	// Choice is what was decided about new upgrades.
	Choice sidecarcontrol.Choice
}

// task is something that is tried for a Pod, and for how long the Pod is left alone when that was refused.
func task(name string) fanout.Task {
	return fanout.Task{Name: name, First: 10 * time.Second, Last: 5 * time.Minute}
}

const (
	upgradePods = "upgrade sidecars"
	flipPods    = "end hot upgrades"
	tellPods    = "tell what cannot be upgraded"
	notePods    = "note the progress of upgrades"
)

// Work takes the Pods of an owner a step closer to the set. What it returns is how things stood before it wrote.
func (u *Upgrader[O]) Work(ctx context.Context, v *ownercache.View[O], pass *fanout.Pass, set *sidecarcontrol.Set, plan Plan) (Work, error) {
	all, selected, dropped := u.read(v, set, plan)
	work, wait := u.decide(v, set, plan, all[:selected:selected])
	work.Dropped = dropped
	pass.Wake(wait)
	var written sync.Map // by UID
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

// release ends claims of a set.
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

// send writes a change. Other owners of the Pod's sidecars see that it was written.
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

// read says how the Pods stand: first those that are selected, and then those in which a hot upgrade goes on though they are not any more.
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
		if s.Injected && errors.Is(s.Waiting.Err(), sidecarcontrol.FlipPending) {
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

// knownOf returns what is known of an owner's Pods and still holds for the set.
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

// decide chooses among the Pods. Other sets know from then on which Pods are about to be upgraded. wait, where it is positive, is
// when to look again: nobody says when a refused Pod has rested, or when another set lets go of one.
func (u *Upgrader[O]) decide(
	v *ownercache.View[O], set *sidecarcontrol.Set, plan Plan, pods []sidecarcontrol.Standing,
) (work Work, wait time.Duration) {
	work.Pods = pods
	var shared []int // with other sets
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
			wait = sooner(wait, rest) // it comes last, and where it is not chosen Try does not wake this set
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
		// What this set has seen of the Pod may be from before another's write. The pointer says nothing: a new list brings others.
		newest, _ := u.Cache.Pods.Get(s.Pod.Namespace, s.Pod.Name)
		claimed := u.claims[s.Pod.UID] != ""
		if claimed {
			wait = sooner(wait, time.Second)
		}
		s.Busy = s.Busy || claimed || newest == nil || newest.ResourceVersion != s.Pod.ResourceVersion
	}
	work.Choice = sidecarcontrol.Choose(work.Pods, rollout)
	// A Pod that another set is about to change is left for the next pass: both would write the same annotations.
	work.Choice.Upgrade = slices.DeleteFunc(work.Choice.Upgrade, func(s *sidecarcontrol.Standing) bool { return u.claims[s.Pod.UID] != "" })
	for _, s := range work.Choice.Upgrade {
		u.claims[s.Pod.UID] = set.Name()
	}
	return work, wait
}

// sooner returns the shorter of two waits, of which zero is none.
func sooner(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

package lifecycle

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/reason"
)

var (
	keys = Keys{State: "example.com/state", Timestamp: "example.com/state-since"}
	now  = time.Date(2026, 7, 1, 12, 0, 0, 0, time.FixedZone("", 2*3600))
)

const (
	unset           = State("")
	preparingNormal = PreparingNormal
	normal          = Normal
	preparingUpdate = PreparingUpdate
	updating        = Updating
	updated         = Updated
	preparingDelete = PreparingDelete
)

func newPod(state State, labels map[string]string, finalizers ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "u1", Labels: map[string]string{}, Finalizers: finalizers},
		Spec:       corev1.PodSpec{NodeName: "n1"},
	}
	maps.Copy(pod.Labels, labels)
	if state != "" {
		pod.Labels[keys.State] = string(state)
	}
	return pod
}

func TestHooked(t *testing.T) {
	hook := &Hook{Labels: map[string]string{"a": "1", "b": "2"}, Finalizers: []string{"f", "g"}}
	type answer struct{ Hooked, AllHooked bool }
	for _, tc := range []struct {
		name string
		hook *Hook
		pod  *corev1.Pod
		want answer
	}{
		{"L-1 nil hook", nil, newPod("", map[string]string{"a": "1"}, "f"), answer{}},
		{"L-1 empty hook", &Hook{}, newPod("", nil), answer{AllHooked: true}},
		{"L-1 one label", hook, newPod("", map[string]string{"a": "1"}), answer{Hooked: true}},
		{"L-1 another value", hook, newPod("", map[string]string{"a": "2"}), answer{}},
		{"L-1 one finalizer", hook, newPod("", nil, "x", "g"), answer{Hooked: true}},
		{"L-1 all", hook, newPod("", map[string]string{"a": "1", "b": "2", "c": "3"}, "g", "f"), answer{true, true}},
		{"L-1 a label is missing", hook, newPod("", map[string]string{"a": "1"}, "f", "g"), answer{Hooked: true}},
		{"L-1 a finalizer is missing", hook, newPod("", map[string]string{"a": "1", "b": "2"}, "f"), answer{Hooked: true}},
		{"L-1 nothing", hook, newPod("", nil), answer{}},
		{"L-1 an empty value must be there", &Hook{Labels: map[string]string{"a": ""}}, newPod("", nil), answer{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := answer{hooked(&tc.pod.ObjectMeta, tc.hook), allHooked(&tc.pod.ObjectMeta, tc.hook)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// These are the possible relations of a Pod to a hook.
var (
	none     = hookFacts{}
	empty    = hookFacts{configured: true, empty: true, allHooked: true}
	free     = hookFacts{configured: true}
	partly   = hookFacts{configured: true, hooked: true}
	full     = hookFacts{configured: true, hooked: true, allHooked: true}
	allHooks = []hookFacts{none, empty, free, partly, full}
)

func beforeOnly(h hookFacts) hookFacts {
	h.beforeOnly = true
	return h
}

func notReady(h hookFacts) hookFacts {
	h.markNotReady = true
	return h
}

func TestNext(t *testing.T) {
	const del, upd, nrm = PreDelete, InPlaceUpdate, preNormal
	type F struct {
		State                                     State
		Intent                                    Intent
		PreDelete, InPlaceUpdate, PreNormal       hookFacts
		Settled, Complete, KeepUnset, Unscheduled bool
		AnyNode                                   bool
	}
	type T struct { // without ReleaseDelete and ReleaseUpdate, which checkTransition checks
		To     State
		Act    Action
		Awaits awaited
		Hook   HookName
		Rearm  bool
		Hold   HookName
	}
	for _, tc := range []struct {
		name  string
		facts F
		want  T
	}{
		{"L-2 no hook", F{State: normal, Intent: Delete}, T{To: normal, Act: DeletePod}},
		{"L-2 hooked", F{State: normal, Intent: Delete, PreDelete: partly}, T{To: preparingDelete, Awaits: hookReleased, Hook: del}},
		{"L-2 still hooked", F{State: preparingDelete, Intent: Delete, PreDelete: full}, T{To: preparingDelete, Awaits: hookReleased, Hook: del}},
		{"L-2 released", F{State: preparingDelete, Intent: Delete, PreDelete: free}, T{To: preparingDelete, Act: DeletePod}},
		{"L-2 C-18 a deletion goes on by itself", F{State: preparingDelete, PreDelete: free}, T{To: preparingDelete, Act: DeletePod}},
		{"L-13 without a state", F{Intent: Delete, PreDelete: full}, T{To: preparingDelete, Awaits: hookReleased, Hook: del}},
		{"L-2 L-11 not ready", F{State: normal, Intent: Delete, PreDelete: notReady(full)}, T{To: preparingDelete, Awaits: hookReleased, Hook: del, Hold: del}},

		{"L-3 unset, hooked", F{Intent: Update, InPlaceUpdate: partly}, T{To: preparingUpdate, Awaits: hookReleased, Hook: upd}},
		{"L-3 preparing normal, hooked", F{State: preparingNormal, Intent: Update, InPlaceUpdate: full}, T{To: preparingUpdate, Awaits: hookReleased, Hook: upd}},
		{"L-3 normal, hooked", F{State: normal, Intent: Update, InPlaceUpdate: full}, T{To: preparingUpdate, Awaits: hookReleased, Hook: upd}},
		{"L-3 L-11 not ready", F{State: normal, Intent: Update, InPlaceUpdate: notReady(full)}, T{To: preparingUpdate, Awaits: hookReleased, Hook: upd, Hold: upd}},
		{"L-3 L-12 not ready is evaluated again", F{State: preparingUpdate, Intent: Update, InPlaceUpdate: notReady(full)}, T{To: preparingUpdate, Awaits: hookReleased, Hook: upd, Hold: upd}},
		{"L-3 normal, not hooked", F{State: normal, Intent: Update, InPlaceUpdate: free}, T{To: updating, Act: StartUpdate}},
		{"L-3 normal, no hook", F{State: normal, Intent: Update}, T{To: updating, Act: StartUpdate}},
		{"L-3 waiting, released", F{State: preparingUpdate, Intent: Update, InPlaceUpdate: notReady(free)}, T{To: updating, Act: StartUpdate}},
		{"L-3 unset", F{Intent: Update}, T{To: updating, Act: StartUpdate}},
		{"S-19 unset stays unset", F{Intent: Update, KeepUnset: true}, T{To: unset, Act: StartUpdate}},
		{"S-19 set does not", F{State: normal, Intent: Update, KeepUnset: true}, T{To: updating, Act: StartUpdate}},
		{"U-28 another revision while updating", F{State: updating, Intent: Update, InPlaceUpdate: full}, T{To: updating, Act: StartUpdate}},

		{"L-4 incomplete", F{State: updating}, T{To: updating, Awaits: updateComplete}},
		{"L-4 complete, no hook: straight to normal", F{State: updating, Complete: true}, T{To: normal}},
		{"L-4 complete, all hooked", F{State: updating, Complete: true, InPlaceUpdate: full}, T{To: normal}},
		{"L-4 complete, empty hook", F{State: updating, Complete: true, InPlaceUpdate: empty}, T{To: normal}},
		{"L-4 complete, hook not back", F{State: updating, Complete: true, InPlaceUpdate: free}, T{To: updated, Awaits: hookComplete, Hook: upd}},
		{"L-4 complete, hook partly back", F{State: updating, Complete: true, InPlaceUpdate: partly}, T{To: updated, Awaits: hookComplete, Hook: upd}},
		{"L-4 updated, hook not back", F{State: updated, InPlaceUpdate: partly}, T{To: updated, Awaits: hookComplete, Hook: upd}},
		{"L-4 updated, hook back", F{State: updated, InPlaceUpdate: full}, T{To: normal}},
		{"L-4 updated, hook gone from the spec", F{State: updated}, T{To: normal}},

		{"before only: complete, the hook is put back", F{State: updating, Complete: true, InPlaceUpdate: beforeOnly(free)}, T{To: normal, Rearm: true}},
		{"before only: complete, a part is put back", F{State: updating, Complete: true, InPlaceUpdate: beforeOnly(partly)}, T{To: normal, Rearm: true}},
		{"before only: complete, nobody took it away", F{State: updating, Complete: true, InPlaceUpdate: beforeOnly(full)}, T{To: normal}},
		{"before only: complete, empty hook", F{State: updating, Complete: true, InPlaceUpdate: beforeOnly(empty)}, T{To: normal}},
		{"before only: incomplete", F{State: updating, InPlaceUpdate: beforeOnly(free)}, T{To: updating, Awaits: updateComplete}},
		{"before only: switched on while nobody restores the hook", F{State: updated, InPlaceUpdate: beforeOnly(partly)}, T{To: normal, Rearm: true}},
		{"before only: switched on, and a newer revision", F{State: updated, Intent: Update, InPlaceUpdate: beforeOnly(free)}, T{To: preparingUpdate, Awaits: hookReleased, Hook: upd, Rearm: true}},
		{"before only: it holds as others do", F{State: normal, Intent: Update, InPlaceUpdate: beforeOnly(full)}, T{To: preparingUpdate, Awaits: hookReleased, Hook: upd}},
		{"before only: rolled back, partly released", F{State: preparingUpdate, Settled: true, InPlaceUpdate: beforeOnly(partly)}, T{To: normal, Rearm: true}},
		{"before only: rolled back while it holds", F{State: preparingUpdate, Settled: true, InPlaceUpdate: beforeOnly(full)}, T{To: normal}},
		{"before only means nothing to other hooks", F{State: preparingNormal, PreNormal: beforeOnly(free), PreDelete: beforeOnly(free)}, T{To: preparingNormal, Awaits: hookComplete, Hook: nrm}},

		{"L-5 newer revision", F{State: updated, Intent: Update, InPlaceUpdate: free}, T{To: preparingUpdate, Awaits: hookReleased, Hook: upd, Rearm: true}},
		{"L-5 newer revision, not ready", F{State: updated, Intent: Update, InPlaceUpdate: notReady(free)}, T{To: preparingUpdate, Awaits: hookReleased, Hook: upd, Rearm: true, Hold: upd}},
		{"L-5 newer revision, no hook", F{State: updated, Intent: Update}, T{To: updating, Act: StartUpdate}},
		{"L-5 newer revision, empty hook", F{State: updated, Intent: Update, InPlaceUpdate: empty}, T{To: updating, Act: StartUpdate}},

		{"L-6 rolled back, all hooked", F{State: preparingUpdate, Settled: true, InPlaceUpdate: notReady(full)}, T{To: normal}},
		{"L-6 rolled back, no hook", F{State: preparingUpdate, Settled: true}, T{To: normal}},
		{"L-6 rolled back, partly released", F{State: preparingUpdate, Settled: true, InPlaceUpdate: partly}, T{To: updated, Awaits: hookComplete, Hook: upd}},
		{"L-6 merely not selected now, hooked", F{State: preparingUpdate, InPlaceUpdate: notReady(full)}, T{To: preparingUpdate, Awaits: hookReleased, Hook: upd, Hold: upd}},
		{"L-6 merely not selected now, released", F{State: preparingUpdate, InPlaceUpdate: free}, T{To: preparingUpdate}},

		{"L-7 no hook", F{State: preparingNormal}, T{To: normal}},
		{"L-7 no hook, no node", F{State: preparingNormal, Unscheduled: true}, T{To: preparingNormal, Awaits: scheduled}},
		{"L-7 no hook, no node, which does not matter", F{State: preparingNormal, Unscheduled: true, AnyNode: true}, T{To: normal}},
		{"L-7 hook not complete, node or not", F{State: preparingNormal, PreNormal: partly, AnyNode: true}, T{To: preparingNormal, Awaits: hookComplete, Hook: nrm}},
		{"L-7 hook not complete", F{State: preparingNormal, PreNormal: partly}, T{To: preparingNormal, Awaits: hookComplete, Hook: nrm}},
		{"L-7 hook complete, node or not", F{State: preparingNormal, PreNormal: full, Unscheduled: true}, T{To: normal}},
		{"L-7 L-11 preNormal does not take readiness", F{State: preparingNormal, PreNormal: notReady(free)}, T{To: preparingNormal, Awaits: hookComplete, Hook: nrm}},

		{"L-9 update instead of deletion", F{State: preparingDelete, Intent: Update, PreDelete: full}, T{To: preparingNormal}},
		{"L-9 update instead of deletion, hook released", F{State: preparingDelete, Intent: Update, PreDelete: free}, T{To: preparingNormal}},
		{"L-9 not when out of service: wait", F{State: preparingDelete, Intent: Update, PreDelete: notReady(full)}, T{To: preparingDelete, Awaits: hookReleased, Hook: del, Hold: del}},
		{"L-9 not when out of service: delete", F{State: preparingDelete, Intent: Update, PreDelete: notReady(free)}, T{To: preparingDelete, Act: DeletePod, Hold: del}},

		{"L-14 cancelled", F{State: preparingDelete, Intent: Cancel, PreDelete: full}, T{To: preparingNormal}},
		{"L-14 not with markPodNotReady", F{State: preparingDelete, Intent: Cancel, PreDelete: full, InPlaceUpdate: notReady(full)}, T{To: preparingDelete, Awaits: hookReleased, Hook: del}},
		{"L-14 nothing to cancel", F{State: normal, Intent: Cancel}, T{To: normal}},

		{"L-12 normal", F{State: normal, InPlaceUpdate: full}, T{To: normal}},
		{"L-8 no state", F{}, T{To: unset}},
		{"an unknown state becomes normal", F{State: "Foo"}, T{To: normal}},
		{"an unknown state can be updated", F{State: "Foo", Intent: Update}, T{To: updating, Act: StartUpdate}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := tc.facts
			got := next(facts{
				Want:  Want{Intent: f.Intent, Settled: f.Settled, Complete: f.Complete, KeepUnset: f.KeepUnset, AnyNode: f.AnyNode},
				state: f.State, preDelete: f.PreDelete, inPlaceUpdate: f.InPlaceUpdate, preNormal: f.PreNormal, unscheduled: f.Unscheduled,
			})
			if diff := cmp.Diff(tc.want, T{got.To, got.Act, got.awaits, got.hook, got.Rearm, got.Hold}); diff != "" {
				t.Errorf("next (-want +got):\n%s", diff)
			}
			if got.From != f.State {
				t.Errorf("From = %q, want %q", got.From, f.State)
			}
		})
	}
}

// everything calls f with all combinations of facts.
func everything(f func(facts)) {
	states := []State{unset, preparingNormal, normal, preparingUpdate, updating, updated, preparingDelete, "Foo"}
	intents := []Intent{Keep, Update, Delete, Cancel}
	var hooks []hookFacts
	for _, h := range allHooks {
		hooks = append(hooks, h)
		if h.configured {
			hooks = append(hooks, notReady(h))
		}
	}
	updateHooks := slices.Clip(hooks)
	for _, h := range hooks[1:] {
		updateHooks = append(updateHooks, beforeOnly(h))
	}
	for _, state := range states {
		for _, intent := range intents {
			for _, del := range hooks {
				for _, upd := range updateHooks {
					for _, nrm := range allHooks {
						for bits := range 16 {
							f(facts{
								Want:  Want{Intent: intent, Settled: bits&1 != 0, Complete: bits&2 != 0, KeepUnset: bits&8 != 0},
								state: state, preDelete: del, inPlaceUpdate: upd, preNormal: nrm, unscheduled: bits&4 != 0,
							})
						}
					}
				}
			}
		}
	}
}

// honour returns the facts after the decision d was carried out and the condition for which the Pod waits has become
// true.
func honour(f facts, d decision) facts {
	f.state = d.To
	if d.Rearm {
		f.inPlaceUpdate.hooked, f.inPlaceUpdate.allHooked = true, true
	}
	hooks := map[HookName]*hookFacts{
		PreDelete: &f.preDelete, InPlaceUpdate: &f.inPlaceUpdate, preNormal: &f.preNormal,
	}
	switch d.awaits {
	case hookReleased:
		hooks[d.hook].hooked, hooks[d.hook].allHooked = false, hooks[d.hook].empty
	case hookComplete:
		hooks[d.hook].hooked, hooks[d.hook].allHooked = true, true
	case scheduled:
		f.unscheduled = false
	case updateComplete:
		f.Complete = true
	}
	if d.Act == StartUpdate {
		f.Intent, f.Settled, f.Complete = Keep, true, false
	}
	return f
}

// TestNoStateWithoutExit checks, for all states and facts, that a Pod reaches a final state in a few steps if the
// hooks' owners do their part, and that each single transition is valid.
func TestNoStateWithoutExit(t *testing.T) {
	cases := 0
	everything(func(start facts) {
		cases++
		f := start
		var path []string
		for range 8 {
			n := next(f)
			path = append(path, string(n.To))
			checkTransition(t, f, n)
			if n.Act == DeletePod {
				if f.Intent != Delete && f.state != preparingDelete {
					t.Fatalf("%+v deletes a Pod that nobody wants gone", start)
				}
				return
			}
			f = honour(f, n)
			resting := n.Act == 0 && n.awaits == nothing && n.From == n.To
			if resting && (n.To == normal || n.To == unset) {
				return
			}
			if resting && n.To == preparingUpdate { // the owner may still want the update or not; both next states must be possible
				f.Settled = start.Complete
				if !f.Settled {
					f.Intent = Update
				}
			}
		}
		t.Fatalf("%+v does not end: %v", start, path)
	})
	t.Logf("%d combinations", cases)
}

func checkTransition(t *testing.T, f facts, n decision) {
	t.Helper()
	fail := func(what string) { t.Fatalf("%s\nfacts %+v\ntransition %+v", what, f, n) }
	holding := map[HookName]hookFacts{PreDelete: f.preDelete, InPlaceUpdate: f.inPlaceUpdate}
	switch {
	case n.Act != 0 && n.awaits != nothing:
		fail("acts and waits")
	case n.awaits == hookReleased && !holding[n.hook].hooked && !n.Rearm:
		fail("waits for a hook that does not hold")
	case n.Act == DeletePod && f.preDelete.hooked:
		fail("deletes a hooked Pod")
	case n.Act == StartUpdate && f.inPlaceUpdate.hooked && f.state != updating && f.state != updated:
		fail("updates a hooked Pod")
	case n.Act == StartUpdate && f.Intent != Update:
		fail("updates without being asked")
	case n.Hold != "" && !holding[n.Hold].markNotReady:
		fail("takes readiness without being asked")
	case n.Hold == PreDelete && n.ReleaseDelete, n.Hold == InPlaceUpdate && n.ReleaseUpdate:
		fail("holds and releases")
	case n.To == preparingDelete && n.ReleaseDelete, n.To == updating && n.ReleaseUpdate:
		fail("gives readiness back too early")
	case (n.To == normal || n.To == preparingNormal || n.To == updated) && (!n.ReleaseDelete || !n.ReleaseUpdate):
		fail("L-11: leaves a writer behind")
	case n.Rearm && (!f.inPlaceUpdate.configured || (n.To != preparingUpdate && (n.To != normal || !f.inPlaceUpdate.beforeOnly))):
		fail("puts back what is not there")
	case f.inPlaceUpdate.beforeOnly && n.To == updated && n.Act != DeletePod:
		fail("waits for what nobody restores")
	case f.inPlaceUpdate.beforeOnly && f.state == updating && n.To == normal && n.Rearm == f.inPlaceUpdate.allHooked:
		fail("leaves the next update without its hook")
	}
}

func TestChange(t *testing.T) {
	machine := Machine{keys: keys, hooks: Hooks{InPlaceUpdate: &Hook{
		Labels: map[string]string{"hold": "yes"}, Finalizers: []string{"f", "g"},
	}}}
	pod := newPod(updated, nil)
	stamp := new("2026-07-01T10:00:00Z")
	for _, tc := range []struct {
		name string
		t    Transition
		want podpatch.Change
	}{
		{"L-12 unchanged state", Transition{From: normal, To: normal}, podpatch.Change{UID: "u1"}},
		{"L-12 label and timestamp", Transition{From: normal, To: updating}, podpatch.Change{
			UID: "u1", Labels: map[string]*string{keys.State: new("Updating")}, Annotations: map[string]*string{keys.Timestamp: stamp},
		}},
		{"before only: the hook comes back with Normal", Transition{From: updating, To: normal, Rearm: true}, podpatch.Change{
			UID: "u1", Labels: map[string]*string{keys.State: new("Normal"), "hold": new("yes")},
			Annotations: map[string]*string{keys.Timestamp: stamp}, AddFinalizers: []string{"f", "g"},
		}},
		{"L-5 the hook comes back in the same write", Transition{From: updated, To: preparingUpdate, Rearm: true}, podpatch.Change{
			UID: "u1", Labels: map[string]*string{keys.State: new("PreparingUpdate"), "hold": new("yes")},
			Annotations: map[string]*string{keys.Timestamp: stamp}, AddFinalizers: []string{"f", "g"},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := machine.Change(pod, tc.t, now)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Change (-want +got):\n%s", diff)
			}
			if empty := tc.t.From == tc.t.To; got.IsEmpty() != empty {
				t.Errorf("IsEmpty = %v, want %v", got.IsEmpty(), empty)
			}
		})
	}
	if diff := cmp.Diff(newPod(updated, nil), pod); diff != "" {
		t.Errorf("the Pod was modified:\n%s", diff)
	}
}

func TestWhy(t *testing.T) {
	hook := &Hook{Labels: map[string]string{"a": "1", "b": "2"}, Finalizers: []string{"f", "g"}}
	machine := Machine{keys: keys, hooks: Hooks{PreDelete: hook, InPlaceUpdate: hook, PreNormal: hook}}
	pod := newPod(normal, map[string]string{"a": "1", "b": "x"}, "g")
	for _, tc := range []struct {
		name string
		d    decision
		want []string
	}{
		{"what holds", decision{awaits: hookReleased, hook: PreDelete}, []string{
			"HookHolds metadata.labels[a]=1", "HookHolds metadata.finalizers=g",
		}},
		{"what is missing", decision{awaits: hookComplete, hook: preNormal}, []string{
			"HookMissing metadata.labels[b]=2", "HookMissing metadata.finalizers=f",
		}},
		{"what will hold", decision{awaits: hookReleased, hook: InPlaceUpdate, Transition: Transition{Rearm: true}}, []string{
			"HookHolds metadata.labels[a]=1", "HookHolds metadata.labels[b]=2", "HookHolds metadata.finalizers=f", "HookHolds metadata.finalizers=g",
		}},
		{"no node", decision{awaits: scheduled}, []string{"NotScheduled spec.nodeName="}},
		{"not complete", decision{awaits: updateComplete}, []string{"UpdateIncomplete ="}},
		{"nothing", decision{}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, r := range machine.why(pod, &tc.d) {
				if r.Object != (reason.Object{Kind: "Pod", Namespace: "default", Name: "web-0", UID: "u1"}) || r.Remedy == "" {
					t.Errorf("reason lacks object or remedy: %+v", r)
				}
				got = append(got, string(r.Code)+" "+r.Path+"="+r.New)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInitialAndStamp(t *testing.T) {
	hook := &Hook{Labels: map[string]string{"a": "1"}}
	for _, tc := range []struct {
		name  string
		hooks Hooks
		meta  metav1.ObjectMeta
		want  State
	}{
		{"L-8 no hook", Hooks{}, metav1.ObjectMeta{}, normal},
		{"L-8 hook not satisfied", Hooks{PreNormal: hook}, metav1.ObjectMeta{}, preparingNormal},
		{"L-8 hook satisfied by the template", Hooks{PreNormal: hook}, metav1.ObjectMeta{Labels: map[string]string{"a": "1"}}, normal},
		{"L-8 another hook", Hooks{PreDelete: hook}, metav1.ObjectMeta{}, normal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.hooks.Initial(&tc.meta); got != tc.want {
				t.Errorf("Initial = %q, want %q", got, tc.want)
			}
		})
	}
	var meta metav1.ObjectMeta
	Machine{keys: keys}.Stamp(&meta, preparingNormal, now)
	want := metav1.ObjectMeta{
		Labels: map[string]string{keys.State: "PreparingNormal"}, Annotations: map[string]string{keys.Timestamp: "2026-07-01T10:00:00Z"},
	}
	if diff := cmp.Diff(want, meta); diff != "" {
		t.Errorf("Stamp (-want +got):\n%s", diff)
	}
}

// TestStampHooks: the hooks hold new Pods before their first update and deletion.
func TestStampHooks(t *testing.T) {
	hook := func(change ...func(*Hook)) *Hook {
		h := &Hook{Labels: map[string]string{"hold": "yes"}, Finalizers: []string{"f", "g"}}
		for _, f := range change {
			f(h)
		}
		return h
	}
	unstamped, beforeOnly := func(h *Hook) { h.Unstamped = true }, func(h *Hook) { h.BeforeOnly = true }
	for _, tc := range []struct {
		name    string
		hooks   Hooks
		stamped bool
	}{
		{"before a deletion", Hooks{PreDelete: hook()}, true},
		{"before an update", Hooks{InPlaceUpdate: hook()}, true},
		{"before an update alone", Hooks{InPlaceUpdate: hook(beforeOnly)}, true},
		{"one for both", Hooks{PreDelete: hook(), InPlaceUpdate: hook(unstamped)}, true},
		{"put there by others", Hooks{PreDelete: hook(unstamped), InPlaceUpdate: hook(unstamped, beforeOnly)}, false},
		{"the Pod is prepared", Hooks{PreNormal: hook()}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			meta := metav1.ObjectMeta{Finalizers: []string{"g"}}
			Machine{keys: keys}.With(tc.hooks).Stamp(&meta, normal, now)
			want := metav1.ObjectMeta{
				Labels:      map[string]string{keys.State: "Normal"},
				Annotations: map[string]string{keys.Timestamp: "2026-07-01T10:00:00Z"}, Finalizers: []string{"g"},
			}
			if tc.stamped {
				want.Labels["hold"], want.Finalizers = "yes", []string{"g", "f"}
			}
			if diff := cmp.Diff(want, meta); diff != "" {
				t.Errorf("Stamp (-want +got):\n%s", diff)
			}
		})
	}
	meta := metav1.ObjectMeta{}
	Machine{keys: keys}.With(Hooks{PreDelete: hook()}).Stamp(&meta, unset, now)
	if diff := cmp.Diff(metav1.ObjectMeta{Labels: map[string]string{"hold": "yes"}, Finalizers: []string{"f", "g"}}, meta); diff != "" {
		t.Errorf("Stamp of a Pod without state (-want +got):\n%s", diff)
	}
}

func TestNew(t *testing.T) {
	for _, tc := range []struct {
		name string
		keys Keys
		want []string // parts of the error's text
	}{
		{"good keys", keys, nil},
		{"the zero value", Keys{}, []string{"Keys.State is required", "Keys.Timestamp is required"}},
		{"no timestamp", Keys{State: "a/b"}, []string{"Keys.Timestamp is required"}},
		{"no name for a label", Keys{State: "a b", Timestamp: "a/b/c"}, []string{`Keys.State "a b"`, `Keys.Timestamp "a/b/c"`}},
		{"one name for both", Keys{State: "a/b", Timestamp: "a/b"}, []string{`both "a/b"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			machine, err := New(tc.keys)
			if (err == nil) != (tc.want == nil) {
				t.Fatalf("error = %v, want %q", err, tc.want)
			}
			for _, text := range tc.want {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("error = %v, want %q in it", err, text)
				}
			}
			if (machine == Machine{}) != (err != nil) {
				t.Errorf("machine = %+v beside %v", machine, err)
			}
		})
	}
}

func TestNodeIsAwaited(t *testing.T) {
	machine := Machine{keys: keys}
	pod := newPod(preparingNormal, nil)
	pod.Spec.NodeName = ""
	if got := machine.Next(pod, Want{}); got.To != preparingNormal || !errors.Is(got.Why, NotScheduled) {
		t.Errorf("L-7: without a node it goes to %s, and waits for %q", got.To, got.Why)
	}
	if got := machine.Next(pod, Want{AnyNode: true}); got.To != normal || len(got.Why) > 0 {
		t.Errorf("L-7: with any node it goes to %s, and waits for %q", got.To, got.Why)
	}
}

// TestZeroMachine: a Machine that New has not made never writes a label with an empty name.
func TestZeroMachine(t *testing.T) {
	hook := &Hook{Finalizers: []string{"f"}}
	pod := newPod(unset, map[string]string{"": "Updating"}, "f")
	for _, machine := range []Machine{{}, Machine{}.With(Hooks{PreDelete: hook, InPlaceUpdate: hook, PreNormal: hook})} {
		for _, want := range []Want{{}, {Intent: Update}, {Intent: Delete}, {Intent: Cancel}} {
			transition := machine.Next(pod, want)
			if transition.From != unset {
				t.Errorf("%+v: state %q is read", want, transition.From)
			}
			if change := machine.Change(pod, transition, now); !change.IsEmpty() {
				t.Errorf("%+v: %+v is written", want, change)
			}
		}
		var meta metav1.ObjectMeta
		machine.Stamp(&meta, normal, now)
		if len(meta.Labels)+len(meta.Annotations) > 0 {
			t.Errorf("stamped: %+v", meta)
		}
	}
}

func TestAvailable(t *testing.T) {
	for state, want := range map[State]bool{
		unset: true, normal: true, preparingNormal: false, preparingUpdate: false, updating: false, updated: false, preparingDelete: false, "Foo": false,
	} {
		if got := state.Available(); got != want {
			t.Errorf("L-10: %q available = %v, want %v", state, got, want)
		}
	}
}

func TestCancelDeletions(t *testing.T) {
	for _, tc := range []struct {
		name                       string
		replicas, staying, waiting int
		hooks                      Hooks
		want                       int
	}{
		{"L-14 scaled back up", 5, 3, 2, Hooks{}, 2},
		{"L-14 half way", 4, 3, 2, Hooks{}, 1},
		{"L-14 not at all", 3, 3, 2, Hooks{}, 0},
		{"L-14 scaled further down", 1, 3, 2, Hooks{}, 0},
		{"L-14 some were asked to go", 5, 3, 1, Hooks{}, 1},
		{"L-14 taken out of service by deletion", 5, 3, 2, Hooks{PreDelete: &Hook{MarkNotReady: true}}, 0},
		{"L-14 taken out of service by update", 5, 3, 2, Hooks{InPlaceUpdate: &Hook{MarkNotReady: true}}, 0},
		{"L-14 hooks that leave readiness alone", 5, 3, 2, Hooks{PreDelete: &Hook{}, InPlaceUpdate: &Hook{}}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.hooks.CancelDeletions(tc.replicas, tc.staying, tc.waiting); got != tc.want {
				t.Errorf("CancelDeletions = %d, want %d", got, tc.want)
			}
		})
	}
}

// TestWalks follows a Pod through whole sequences. In each step, the test changes the Pod or the owner's Want, and
// then the owner is reconciled.
func TestWalks(t *testing.T) {
	hook := func(name string, mark bool) *Hook {
		return &Hook{Labels: map[string]string{name: "on"}, Finalizers: []string{"f/" + name}, MarkNotReady: mark}
	}
	type S = simulation
	release := func(s *S) { s.last.awaits = hookReleased; s.honour() }
	restore := func(s *S) { s.last.awaits = hookComplete; s.honour() }
	template := func(s *S) { s.atTarget, s.complete = false, false }
	rollback := func(s *S) { s.atTarget = true }
	complete := func(s *S) { s.complete = true }
	scaleIn := func(s *S) { s.deleting = true }
	scaleOut := func(s *S) { s.deleting = false }
	pass := func(*S) {}
	alone := func(s *S) { s.m.hooks.InPlaceUpdate.BeforeOnly = true }
	before := func(mark bool) *Hook {
		h := hook("upd", mark)
		h.BeforeOnly = true
		return h
	}
	for _, tc := range []struct {
		name  string
		hooks Hooks
		steps []func(*S)
		want  string // state after each step, with the holders of the gate; "deleted" is last
	}{
		{
			"L-3 L-4 L-11 an update with hooks",
			Hooks{InPlaceUpdate: hook("upd", true)},
			[]func(*S){pass, template, pass, release, complete, restore, pass},
			"Normal PreparingUpdate[inPlaceUpdate] PreparingUpdate[inPlaceUpdate] Updating[inPlaceUpdate] Updated Normal Normal",
		},
		{
			"L-4 an update without hooks takes two writes",
			Hooks{},
			[]func(*S){pass, template, pass, complete},
			"Normal Updating Updating Normal",
		},
		{
			"L-4 a preNormal hook does not matter to it",
			Hooks{PreNormal: hook("nrm", false)},
			[]func(*S){pass, restore, template, complete},
			"PreparingNormal Normal Updating Normal",
		},
		{
			"L-5 the next template arrives before the hook is back",
			Hooks{InPlaceUpdate: hook("upd", true)},
			[]func(*S){pass, template, release, complete, template, pass, release, complete, restore},
			"Normal PreparingUpdate[inPlaceUpdate] Updating[inPlaceUpdate] Updated PreparingUpdate[inPlaceUpdate] " +
				"PreparingUpdate[inPlaceUpdate] Updating[inPlaceUpdate] Updated Normal",
		},
		{
			"L-6 L-11 rolled back while hooked: nobody keeps the gate",
			Hooks{InPlaceUpdate: hook("upd", true)},
			[]func(*S){pass, template, rollback, pass},
			"Normal PreparingUpdate[inPlaceUpdate] Normal Normal",
		},
		{
			"before only: two updates, each held, and nobody restores anything",
			Hooks{InPlaceUpdate: before(true)},
			[]func(*S){pass, template, release, complete, pass, template, release, complete},
			"Normal PreparingUpdate[inPlaceUpdate] Updating[inPlaceUpdate] Normal Normal PreparingUpdate[inPlaceUpdate] Updating[inPlaceUpdate] Normal",
		},
		{
			"before only: switched on after an update",
			Hooks{InPlaceUpdate: hook("upd", true)},
			[]func(*S){pass, template, release, complete, alone, template},
			"Normal PreparingUpdate[inPlaceUpdate] Updating[inPlaceUpdate] Updated Normal PreparingUpdate[inPlaceUpdate]",
		},
		{
			"L-2 L-11 scaled in",
			Hooks{PreDelete: hook("del", true)},
			[]func(*S){pass, scaleIn, pass, release},
			"Normal PreparingDelete[preDelete] PreparingDelete[preDelete] deleted",
		},
		{
			"L-14 scaled in and out again",
			Hooks{PreDelete: hook("del", false)},
			[]func(*S){pass, scaleIn, scaleOut, pass},
			"Normal PreparingDelete PreparingNormal Normal",
		},
		{
			"L-14 out of service: there is no way back",
			Hooks{PreDelete: hook("del", true)},
			[]func(*S){pass, scaleIn, scaleOut, release},
			"Normal PreparingDelete[preDelete] PreparingDelete[preDelete] deleted",
		},
		{
			"L-2 scaled in during an update",
			Hooks{PreDelete: hook("del", true), InPlaceUpdate: hook("upd", true)},
			[]func(*S){pass, template, scaleIn, release},
			"Normal PreparingUpdate[inPlaceUpdate] PreparingDelete[inPlaceUpdate preDelete] deleted",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &simulation{
				t: t, m: Machine{keys: keys, hooks: tc.hooks}, pod: newPod(preparingNormal, map[string]string{"del": "on", "upd": "on"}, "f/del", "f/upd"),
				atTarget: true, holders: map[HookName]bool{},
			}
			var got []string
			for _, step := range tc.steps {
				step(s)
				if s.step() {
					got = append(got, "deleted")
					break
				}
				state := string(s.m.State(s.pod))
				if len(s.holders) > 0 {
					state += fmt.Sprint(slices.Sorted(maps.Keys(s.holders)))
				}
				got = append(got, state)
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzSchedules lets users remove and add labels and finalizers of a Pod while the owner's Want changes at random.
// Then the hooks' owners do their part, and the Pod must be in Normal, without holders of its gate.
func FuzzSchedules(f *testing.F) {
	f.Add(uint8(0b111), []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add(uint8(0b010), []byte{1, 10, 5, 1, 10, 10, 0, 7})
	f.Add(uint8(0b110), []byte{2, 10, 10, 3, 6, 10, 1, 10})
	f.Add(uint8(0b1000010), []byte{0, 22, 24, 1, 19, 21, 10, 0, 1, 10})
	f.Add(uint8(0b0000010), []byte{0, 22, 24, 1, 19, 21, 10, 11, 0, 1, 10})
	f.Fuzz(func(t *testing.T, config uint8, schedule []byte) {
		schedule = schedule[:min(len(schedule), 100)]
		hook := func(bit uint, name string) *Hook {
			if config>>bit&1 == 0 {
				return nil
			}
			return &Hook{
				Labels: map[string]string{name: "on"}, Finalizers: []string{"f/" + name}, MarkNotReady: config>>(bit+3)&1 != 0,
				BeforeOnly: config>>6&1 != 0,
			}
		}
		m := Machine{keys: keys, hooks: Hooks{
			PreDelete: hook(0, "del"), InPlaceUpdate: hook(1, "upd"), PreNormal: hook(2, "nrm"),
		}}
		s := &simulation{t: t, m: m, pod: newPod(preparingNormal, nil), atTarget: true, holders: map[HookName]bool{}}
		for _, b := range schedule {
			name := []string{"del", "upd", "nrm"}[b>>4%3]
			switch b % 12 {
			case 1, 2:
				s.atTarget, s.complete = false, false // a new template
			case 3:
				s.atTarget = true // rolled back, or the partition was raised
			case 4:
				s.deleting = m.hooks.PreDelete != nil // scaled down
			case 5:
				s.deleting = false
			case 6:
				s.pod.Labels[name] = "on"
			case 7:
				delete(s.pod.Labels, name)
			case 8:
				s.pod.Finalizers = append(s.pod.Finalizers, "f/"+name)
			case 9:
				s.pod.Finalizers = slices.DeleteFunc(s.pod.Finalizers, func(x string) bool { return x == "f/"+name })
			case 10:
				s.complete = true
			case 11:
				if h := m.hooks.InPlaceUpdate; h != nil {
					h.BeforeOnly = !h.BeforeOnly
				}
			}
			if s.step() {
				return // deleted
			}
		}
		s.deleting, s.atTarget = false, true
		for range 12 {
			s.complete = true
			if s.step() {
				return
			}
			s.honour()
		}
		if got := s.m.State(s.pod); got != normal || len(s.holders) > 0 {
			t.Errorf("ends in %q, gate held by %v, after %s", got, s.holders, strings.Join(s.path, " "))
		}
	})
}

// simulation is an owner with a single Pod.
type simulation struct {
	t                            *testing.T
	m                            Machine
	pod                          *corev1.Pod
	atTarget, complete, deleting bool
	holders                      map[HookName]bool
	last                         decision
	path                         []string
}

// step calls Next once and writes the result, and reports whether the Pod was deleted.
func (s *simulation) step() bool {
	want := Want{Settled: s.atTarget, Complete: s.complete}
	switch {
	case s.deleting:
		want.Intent = Delete
	case s.m.State(s.pod) == preparingDelete:
		want.Intent = Cancel
	case !s.atTarget:
		want.Intent = Update
	}
	f := s.m.facts(s.pod, want)
	decided := next(f)
	checkTransition(s.t, f, decided)
	n := s.m.Next(s.pod, want)
	if (len(n.Why) > 0) != (decided.awaits != nothing) {
		s.t.Fatalf("it waits for %d and says %q", decided.awaits, n.Why)
	}
	s.path = append(s.path, string(n.To))
	if n.Act == DeletePod {
		return true
	}
	if n.Act == StartUpdate {
		s.atTarget, s.complete = true, false
	}
	change := s.m.Change(s.pod, n, now)
	for key, value := range change.Labels {
		s.pod.Labels[key] = *value
	}
	s.pod.Finalizers = append(s.pod.Finalizers, change.AddFinalizers...)
	if n.Hold != "" {
		s.holders[n.Hold] = true
	}
	if n.ReleaseDelete {
		delete(s.holders, PreDelete)
	}
	if n.ReleaseUpdate {
		delete(s.holders, InPlaceUpdate)
	}
	s.last = decided
	return false
}

// honour makes the condition for which the Pod waits true, as the hook's owner would.
func (s *simulation) honour() {
	hook := s.m.hooks.of(s.last.hook)
	if hook == nil {
		return
	}
	switch s.last.awaits {
	case hookReleased:
		for key := range hook.Labels {
			delete(s.pod.Labels, key)
		}
		s.pod.Finalizers = slices.DeleteFunc(s.pod.Finalizers, func(f string) bool { return slices.Contains(hook.Finalizers, f) })
	case hookComplete:
		maps.Copy(s.pod.Labels, hook.Labels)
		s.pod.Finalizers = append(s.pod.Finalizers, hook.Finalizers...)
	}
}

func BenchmarkNext(b *testing.B) {
	m := Machine{keys: keys, hooks: Hooks{PreDelete: &Hook{Finalizers: []string{"f"}}}}
	pod := newPod(normal, nil, "f")
	b.ReportAllocs()
	for b.Loop() {
		_ = m.Next(pod, Want{})
	}
}

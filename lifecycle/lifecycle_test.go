package lifecycle_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/reason"
)

var (
	keys = lifecycle.Keys{State: "example.com/state", Timestamp: "example.com/state-since"}
	now  = metav1.NewTime(time.Date(2026, 7, 1, 12, 0, 0, 0, time.FixedZone("", 2*3600)))
)

const (
	unset           = lifecycle.State("")
	preparingNormal = lifecycle.PreparingNormal
	normal          = lifecycle.Normal
	preparingUpdate = lifecycle.PreparingUpdate
	updating        = lifecycle.Updating
	updated         = lifecycle.Updated
	preparingDelete = lifecycle.PreparingDelete
)

func newPod(state lifecycle.State, labels map[string]string, finalizers ...string) *corev1.Pod {
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

func Example() {
	machine := lifecycle.Machine{
		Keys: lifecycle.Keys{State: "example.com/state", Timestamp: "example.com/state-since"},
		Hooks: lifecycle.Hooks{PreDelete: &lifecycle.Hook{
			Finalizers: []string{"example.com/drain"}, MarkNotReady: true,
		}},
	}
	pod := newPod(lifecycle.Normal, nil, "example.com/drain")

	facts := machine.Facts(pod)
	facts.Intent = lifecycle.Delete
	t := lifecycle.Next(facts)
	fmt.Println(t.From, "->", t.To, "hold the gate for", t.Hold)
	fmt.Println(machine.Why(pod, t))

	pod.Labels["example.com/state"] = string(t.To)
	pod.Finalizers = nil // drained
	facts = machine.Facts(pod)
	facts.Intent = lifecycle.Delete
	fmt.Println(lifecycle.Next(facts).Act == lifecycle.DeletePod)
	// Output:
	// Normal -> PreparingDelete hold the gate for preDelete
	// HookHolds: Pod default/web-0: metadata.finalizers: example.com/drain: preDelete hook; remove it when the Pod may be touched
	// true
}

func TestHooked(t *testing.T) {
	hook := &lifecycle.Hook{Labels: map[string]string{"a": "1", "b": "2"}, Finalizers: []string{"f", "g"}}
	type answer struct{ Hooked, AllHooked bool }
	for _, tc := range []struct {
		name string
		hook *lifecycle.Hook
		pod  *corev1.Pod
		want answer
	}{
		{"L-1 nil hook", nil, newPod("", map[string]string{"a": "1"}, "f"), answer{}},
		{"L-1 empty hook", &lifecycle.Hook{}, newPod("", nil), answer{AllHooked: true}},
		{"L-1 one label", hook, newPod("", map[string]string{"a": "1"}), answer{Hooked: true}},
		{"L-1 another value", hook, newPod("", map[string]string{"a": "2"}), answer{}},
		{"L-1 one finalizer", hook, newPod("", nil, "x", "g"), answer{Hooked: true}},
		{"L-1 all", hook, newPod("", map[string]string{"a": "1", "b": "2", "c": "3"}, "g", "f"), answer{true, true}},
		{"L-1 a label is missing", hook, newPod("", map[string]string{"a": "1"}, "f", "g"), answer{Hooked: true}},
		{"L-1 a finalizer is missing", hook, newPod("", map[string]string{"a": "1", "b": "2"}, "f"), answer{Hooked: true}},
		{"L-1 nothing", hook, newPod("", nil), answer{}},
		{"L-1 an empty value must be there", &lifecycle.Hook{Labels: map[string]string{"a": ""}}, newPod("", nil), answer{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := answer{lifecycle.Hooked(&tc.pod.ObjectMeta, tc.hook), lifecycle.AllHooked(&tc.pod.ObjectMeta, tc.hook)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The ways in which a Pod can stand to a hook.
var (
	none     = lifecycle.HookFacts{}
	empty    = lifecycle.HookFacts{Configured: true, Empty: true, AllHooked: true}
	free     = lifecycle.HookFacts{Configured: true}
	partly   = lifecycle.HookFacts{Configured: true, Hooked: true}
	full     = lifecycle.HookFacts{Configured: true, Hooked: true, AllHooked: true}
	allHooks = []lifecycle.HookFacts{none, empty, free, partly, full}
)

func beforeOnly(h lifecycle.HookFacts) lifecycle.HookFacts {
	h.BeforeOnly = true
	return h
}

func notReady(h lifecycle.HookFacts) lifecycle.HookFacts {
	h.MarkNotReady = true
	return h
}

func TestNext(t *testing.T) {
	const del, upd, nrm = lifecycle.PreDelete, lifecycle.InPlaceUpdate, lifecycle.PreNormal
	type F = lifecycle.Facts
	type T = lifecycle.Transition
	for _, tc := range []struct {
		name  string
		facts F
		want  T // From and the releases are filled in
	}{
		{"L-2 no hook", F{State: normal, Intent: lifecycle.Delete}, T{To: normal, Act: lifecycle.DeletePod}},
		{"L-2 hooked", F{State: normal, Intent: lifecycle.Delete, PreDelete: partly}, T{To: preparingDelete, Act: lifecycle.Wait, Awaits: lifecycle.HookReleased, Hook: del}},
		{"L-2 still hooked", F{State: preparingDelete, Intent: lifecycle.Delete, PreDelete: full}, T{To: preparingDelete, Act: lifecycle.Wait, Awaits: lifecycle.HookReleased, Hook: del}},
		{"L-2 released", F{State: preparingDelete, Intent: lifecycle.Delete, PreDelete: free}, T{To: preparingDelete, Act: lifecycle.DeletePod}},
		{"L-2 C-18 a deletion goes on by itself", F{State: preparingDelete, PreDelete: free}, T{To: preparingDelete, Act: lifecycle.DeletePod}},
		{"L-13 without a state", F{Intent: lifecycle.Delete, PreDelete: full}, T{To: preparingDelete, Act: lifecycle.Wait, Awaits: lifecycle.HookReleased, Hook: del}},
		{"L-2 L-11 not ready", F{State: normal, Intent: lifecycle.Delete, PreDelete: notReady(full)}, T{To: preparingDelete, Act: lifecycle.Wait, Awaits: lifecycle.HookReleased, Hook: del, Hold: del}},

		{"L-3 unset, hooked", F{Intent: lifecycle.Update, InPlaceUpdate: partly}, T{To: preparingUpdate, Act: lifecycle.Wait, Awaits: lifecycle.HookReleased, Hook: upd}},
		{"L-3 preparing normal, hooked", F{State: preparingNormal, Intent: lifecycle.Update, InPlaceUpdate: full}, T{To: preparingUpdate, Act: lifecycle.Wait, Awaits: lifecycle.HookReleased, Hook: upd}},
		{"L-3 normal, hooked", F{State: normal, Intent: lifecycle.Update, InPlaceUpdate: full}, T{To: preparingUpdate, Act: lifecycle.Wait, Awaits: lifecycle.HookReleased, Hook: upd}},
		{"L-3 L-11 not ready", F{State: normal, Intent: lifecycle.Update, InPlaceUpdate: notReady(full)}, T{To: preparingUpdate, Act: lifecycle.Wait, Awaits: lifecycle.HookReleased, Hook: upd, Hold: upd}},
		{"L-3 L-12 not ready is evaluated again", F{State: preparingUpdate, Intent: lifecycle.Update, InPlaceUpdate: notReady(full)}, T{To: preparingUpdate, Act: lifecycle.Wait, Awaits: lifecycle.HookReleased, Hook: upd, Hold: upd}},
		{"L-3 normal, not hooked", F{State: normal, Intent: lifecycle.Update, InPlaceUpdate: free}, T{To: updating, Act: lifecycle.StartUpdate}},
		{"L-3 normal, no hook", F{State: normal, Intent: lifecycle.Update}, T{To: updating, Act: lifecycle.StartUpdate}},
		{"L-3 waiting, released", F{State: preparingUpdate, Intent: lifecycle.Update, InPlaceUpdate: notReady(free)}, T{To: updating, Act: lifecycle.StartUpdate}},
		{"L-3 unset", F{Intent: lifecycle.Update}, T{To: updating, Act: lifecycle.StartUpdate}},
		{"S-19 unset stays unset", F{Intent: lifecycle.Update, KeepUnset: true}, T{To: unset, Act: lifecycle.StartUpdate}},
		{"S-19 set does not", F{State: normal, Intent: lifecycle.Update, KeepUnset: true}, T{To: updating, Act: lifecycle.StartUpdate}},
		{"U-28 another revision while updating", F{State: updating, Intent: lifecycle.Update, InPlaceUpdate: full}, T{To: updating, Act: lifecycle.StartUpdate}},

		{"L-4 incomplete", F{State: updating}, T{To: updating, Act: lifecycle.Wait, Awaits: lifecycle.UpdateComplete}},
		{"L-4 complete, no hook: straight to normal", F{State: updating, Complete: true}, T{To: normal}},
		{"L-4 complete, all hooked", F{State: updating, Complete: true, InPlaceUpdate: full}, T{To: normal}},
		{"L-4 complete, empty hook", F{State: updating, Complete: true, InPlaceUpdate: empty}, T{To: normal}},
		{"L-4 complete, hook not back", F{State: updating, Complete: true, InPlaceUpdate: free}, T{To: updated, Act: lifecycle.Wait, Awaits: lifecycle.HookComplete, Hook: upd}},
		{"L-4 complete, hook partly back", F{State: updating, Complete: true, InPlaceUpdate: partly}, T{To: updated, Act: lifecycle.Wait, Awaits: lifecycle.HookComplete, Hook: upd}},
		{"L-4 updated, hook not back", F{State: updated, InPlaceUpdate: partly}, T{To: updated, Act: lifecycle.Wait, Awaits: lifecycle.HookComplete, Hook: upd}},
		{"L-4 updated, hook back", F{State: updated, InPlaceUpdate: full}, T{To: normal}},
		{"L-4 updated, hook gone from the spec", F{State: updated}, T{To: normal}},

		{"before only: complete, the hook is put back", F{State: updating, Complete: true, InPlaceUpdate: beforeOnly(free)}, T{To: normal, Rearm: true}},
		{"before only: complete, a part is put back", F{State: updating, Complete: true, InPlaceUpdate: beforeOnly(partly)}, T{To: normal, Rearm: true}},
		{"before only: complete, nobody took it away", F{State: updating, Complete: true, InPlaceUpdate: beforeOnly(full)}, T{To: normal}},
		{"before only: complete, empty hook", F{State: updating, Complete: true, InPlaceUpdate: beforeOnly(empty)}, T{To: normal}},
		{"before only: incomplete", F{State: updating, InPlaceUpdate: beforeOnly(free)}, T{To: updating, Act: lifecycle.Wait, Awaits: lifecycle.UpdateComplete}},
		{"before only: switched on while nobody restores the hook", F{State: updated, InPlaceUpdate: beforeOnly(partly)}, T{To: normal, Rearm: true}},
		{"before only: switched on, and a newer revision", F{State: updated, Intent: lifecycle.Update, InPlaceUpdate: beforeOnly(free)}, T{To: preparingUpdate, Act: lifecycle.Wait, Awaits: lifecycle.HookReleased, Hook: upd, Rearm: true}},
		{"before only: it holds as others do", F{State: normal, Intent: lifecycle.Update, InPlaceUpdate: beforeOnly(full)}, T{To: preparingUpdate, Act: lifecycle.Wait, Awaits: lifecycle.HookReleased, Hook: upd}},
		{"before only: rolled back, partly released", F{State: preparingUpdate, Settled: true, InPlaceUpdate: beforeOnly(partly)}, T{To: normal, Rearm: true}},
		{"before only: rolled back while it holds", F{State: preparingUpdate, Settled: true, InPlaceUpdate: beforeOnly(full)}, T{To: normal}},
		{"before only means nothing to other hooks", F{State: preparingNormal, PreNormal: beforeOnly(free), PreDelete: beforeOnly(free)}, T{To: preparingNormal, Act: lifecycle.Wait, Awaits: lifecycle.HookComplete, Hook: nrm}},

		{"L-5 newer revision", F{State: updated, Intent: lifecycle.Update, InPlaceUpdate: free}, T{To: preparingUpdate, Act: lifecycle.Wait, Awaits: lifecycle.HookReleased, Hook: upd, Rearm: true}},
		{"L-5 newer revision, not ready", F{State: updated, Intent: lifecycle.Update, InPlaceUpdate: notReady(free)}, T{To: preparingUpdate, Act: lifecycle.Wait, Awaits: lifecycle.HookReleased, Hook: upd, Rearm: true, Hold: upd}},
		{"L-5 newer revision, no hook", F{State: updated, Intent: lifecycle.Update}, T{To: updating, Act: lifecycle.StartUpdate}},
		{"L-5 newer revision, empty hook", F{State: updated, Intent: lifecycle.Update, InPlaceUpdate: empty}, T{To: updating, Act: lifecycle.StartUpdate}},

		{"L-6 rolled back, all hooked", F{State: preparingUpdate, Settled: true, InPlaceUpdate: notReady(full)}, T{To: normal}},
		{"L-6 rolled back, no hook", F{State: preparingUpdate, Settled: true}, T{To: normal}},
		{"L-6 rolled back, partly released", F{State: preparingUpdate, Settled: true, InPlaceUpdate: partly}, T{To: updated, Act: lifecycle.Wait, Awaits: lifecycle.HookComplete, Hook: upd}},
		{"L-6 merely not selected now, hooked", F{State: preparingUpdate, InPlaceUpdate: notReady(full)}, T{To: preparingUpdate, Act: lifecycle.Wait, Awaits: lifecycle.HookReleased, Hook: upd, Hold: upd}},
		{"L-6 merely not selected now, released", F{State: preparingUpdate, InPlaceUpdate: free}, T{To: preparingUpdate}},

		{"L-7 no hook", F{State: preparingNormal}, T{To: normal}},
		{"L-7 no hook, no node", F{State: preparingNormal, Unscheduled: true}, T{To: preparingNormal, Act: lifecycle.Wait, Awaits: lifecycle.PodScheduled}},
		{"L-7 hook not complete", F{State: preparingNormal, PreNormal: partly}, T{To: preparingNormal, Act: lifecycle.Wait, Awaits: lifecycle.HookComplete, Hook: nrm}},
		{"L-7 hook complete, node or not", F{State: preparingNormal, PreNormal: full, Unscheduled: true}, T{To: normal}},
		{"L-7 L-11 preNormal does not take readiness", F{State: preparingNormal, PreNormal: notReady(free)}, T{To: preparingNormal, Act: lifecycle.Wait, Awaits: lifecycle.HookComplete, Hook: nrm}},

		{"L-9 update instead of deletion", F{State: preparingDelete, Intent: lifecycle.Update, PreDelete: full}, T{To: preparingNormal}},
		{"L-9 update instead of deletion, hook released", F{State: preparingDelete, Intent: lifecycle.Update, PreDelete: free}, T{To: preparingNormal}},
		{"L-9 not when out of service: wait", F{State: preparingDelete, Intent: lifecycle.Update, PreDelete: notReady(full)}, T{To: preparingDelete, Act: lifecycle.Wait, Awaits: lifecycle.HookReleased, Hook: del, Hold: del}},
		{"L-9 not when out of service: delete", F{State: preparingDelete, Intent: lifecycle.Update, PreDelete: notReady(free)}, T{To: preparingDelete, Act: lifecycle.DeletePod, Hold: del}},

		{"L-14 cancelled", F{State: preparingDelete, Intent: lifecycle.Cancel, PreDelete: full}, T{To: preparingNormal}},
		{"L-14 not with markPodNotReady", F{State: preparingDelete, Intent: lifecycle.Cancel, PreDelete: full, InPlaceUpdate: notReady(full)}, T{To: preparingDelete, Act: lifecycle.Wait, Awaits: lifecycle.HookReleased, Hook: del}},
		{"L-14 nothing to cancel", F{State: normal, Intent: lifecycle.Cancel}, T{To: normal}},

		{"L-12 normal", F{State: normal, InPlaceUpdate: full}, T{To: normal}},
		{"L-8 no state", F{}, T{To: unset}},
		{"an unknown state becomes normal", F{State: "Foo"}, T{To: normal}},
		{"an unknown state can be updated", F{State: "Foo", Intent: lifecycle.Update}, T{To: updating, Act: lifecycle.StartUpdate}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := lifecycle.Next(tc.facts)
			tc.want.From, tc.want.ReleaseDelete, tc.want.ReleaseUpdate = tc.facts.State, got.ReleaseDelete, got.ReleaseUpdate
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Next (-want +got):\n%s", diff)
			}
		})
	}
}

// everything calls f with all combinations of facts.
func everything(f func(lifecycle.Facts)) {
	states := []lifecycle.State{unset, preparingNormal, normal, preparingUpdate, updating, updated, preparingDelete, "Foo"}
	intents := []lifecycle.Intent{lifecycle.Keep, lifecycle.Update, lifecycle.Delete, lifecycle.Cancel}
	var hooks []lifecycle.HookFacts
	for _, h := range allHooks {
		hooks = append(hooks, h)
		if h.Configured {
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
							f(lifecycle.Facts{
								State: state, Intent: intent, PreDelete: del, InPlaceUpdate: upd, PreNormal: nrm,
								Settled: bits&1 != 0, Complete: bits&2 != 0, Unscheduled: bits&4 != 0, KeepUnset: bits&8 != 0,
							})
						}
					}
				}
			}
		}
	}
}

// honour returns the facts after somebody has done what the transition waits for and the owner what it wants.
func honour(f lifecycle.Facts, t lifecycle.Transition) lifecycle.Facts {
	f.State = t.To
	if t.Rearm {
		f.InPlaceUpdate.Hooked, f.InPlaceUpdate.AllHooked = true, true
	}
	hooks := map[lifecycle.Kind]*lifecycle.HookFacts{
		lifecycle.PreDelete: &f.PreDelete, lifecycle.InPlaceUpdate: &f.InPlaceUpdate, lifecycle.PreNormal: &f.PreNormal,
	}
	switch t.Awaits {
	case lifecycle.HookReleased:
		hooks[t.Hook].Hooked, hooks[t.Hook].AllHooked = false, hooks[t.Hook].Empty
	case lifecycle.HookComplete:
		hooks[t.Hook].Hooked, hooks[t.Hook].AllHooked = true, true
	case lifecycle.PodScheduled:
		f.Unscheduled = false
	case lifecycle.UpdateComplete:
		f.Complete = true
	}
	if t.Act == lifecycle.StartUpdate {
		f.Intent, f.Settled, f.Complete = lifecycle.Keep, true, false
	}
	return f
}

// TestNoStateWithoutExit checks over all states and facts that a Pod reaches its end in a few steps when hooks are
// honoured, and that each single answer makes sense.
func TestNoStateWithoutExit(t *testing.T) {
	cases := 0
	everything(func(start lifecycle.Facts) {
		cases++
		f := start
		var path []string
		for range 8 {
			n := lifecycle.Next(f)
			path = append(path, string(n.To))
			checkTransition(t, f, n)
			if n.Act == lifecycle.DeletePod {
				if f.Intent != lifecycle.Delete && f.State != preparingDelete {
					t.Fatalf("%+v deletes a Pod that nobody wants gone", start)
				}
				return
			}
			f = honour(f, n)
			resting := n.Act == lifecycle.Nothing && n.From == n.To
			if resting && (n.To == normal || n.To == unset) {
				return
			}
			if resting && n.To == preparingUpdate { // the owner has not made up its mind; both ways out must work
				f.Settled = start.Complete
				if !f.Settled {
					f.Intent = lifecycle.Update
				}
			}
		}
		t.Fatalf("%+v does not end: %v", start, path)
	})
	t.Logf("%d combinations", cases)
}

func checkTransition(t *testing.T, f lifecycle.Facts, n lifecycle.Transition) {
	t.Helper()
	fail := func(what string) { t.Fatalf("%s\nfacts %+v\ntransition %+v", what, f, n) }
	holding := map[lifecycle.Kind]lifecycle.HookFacts{lifecycle.PreDelete: f.PreDelete, lifecycle.InPlaceUpdate: f.InPlaceUpdate}
	switch {
	case (n.Act == lifecycle.Wait) != (n.Awaits != lifecycle.NothingAwaited):
		fail("waits for nothing, or awaits without waiting")
	case n.Awaits == lifecycle.HookReleased && !holding[n.Hook].Hooked && !n.Rearm:
		fail("waits for a hook that does not hold")
	case n.Act == lifecycle.DeletePod && f.PreDelete.Hooked:
		fail("deletes a hooked Pod")
	case n.Act == lifecycle.StartUpdate && f.InPlaceUpdate.Hooked && f.State != updating && f.State != updated:
		fail("updates a hooked Pod")
	case n.Act == lifecycle.StartUpdate && f.Intent != lifecycle.Update:
		fail("updates without being asked")
	case n.Hold != "" && !holding[n.Hold].MarkNotReady:
		fail("takes readiness without being asked")
	case n.Hold == lifecycle.PreDelete && n.ReleaseDelete, n.Hold == lifecycle.InPlaceUpdate && n.ReleaseUpdate:
		fail("holds and releases")
	case n.To == preparingDelete && n.ReleaseDelete, n.To == updating && n.ReleaseUpdate:
		fail("gives readiness back too early")
	case (n.To == normal || n.To == preparingNormal || n.To == updated) && (!n.ReleaseDelete || !n.ReleaseUpdate):
		fail("L-11: leaves a writer behind")
	case n.Rearm && (!f.InPlaceUpdate.Configured || (n.To != preparingUpdate && (n.To != normal || !f.InPlaceUpdate.BeforeOnly))):
		fail("puts back what is not there")
	case f.InPlaceUpdate.BeforeOnly && n.To == updated && n.Act != lifecycle.DeletePod:
		fail("waits for what nobody restores")
	case f.InPlaceUpdate.BeforeOnly && f.State == updating && n.To == normal && n.Rearm == f.InPlaceUpdate.AllHooked:
		fail("leaves the next update without its hook")
	}
}

func TestChange(t *testing.T) {
	machine := lifecycle.Machine{Keys: keys, Hooks: lifecycle.Hooks{InPlaceUpdate: &lifecycle.Hook{
		Labels: map[string]string{"hold": "yes"}, Finalizers: []string{"f", "g"},
	}}}
	pod := newPod(updated, nil)
	stamp := new("2026-07-01T10:00:00Z")
	for _, tc := range []struct {
		name string
		t    lifecycle.Transition
		want podpatch.Change
	}{
		{"L-12 unchanged state", lifecycle.Transition{From: normal, To: normal}, podpatch.Change{UID: "u1"}},
		{"L-12 label and timestamp", lifecycle.Transition{From: normal, To: updating}, podpatch.Change{
			UID: "u1", Labels: map[string]*string{keys.State: new("Updating")}, Annotations: map[string]*string{keys.Timestamp: stamp},
		}},
		{"before only: the hook comes back with Normal", lifecycle.Transition{From: updating, To: normal, Rearm: true}, podpatch.Change{
			UID: "u1", Labels: map[string]*string{keys.State: new("Normal"), "hold": new("yes")},
			Annotations: map[string]*string{keys.Timestamp: stamp}, AddFinalizers: []string{"f", "g"},
		}},
		{"L-5 the hook comes back in the same write", lifecycle.Transition{From: updated, To: preparingUpdate, Rearm: true}, podpatch.Change{
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
	hook := &lifecycle.Hook{Labels: map[string]string{"a": "1", "b": "2"}, Finalizers: []string{"f", "g"}}
	machine := lifecycle.Machine{Keys: keys, Hooks: lifecycle.Hooks{PreDelete: hook, InPlaceUpdate: hook, PreNormal: hook}}
	pod := newPod(normal, map[string]string{"a": "1", "b": "x"}, "g")
	for _, tc := range []struct {
		name string
		t    lifecycle.Transition
		want []string
	}{
		{"what holds", lifecycle.Transition{Awaits: lifecycle.HookReleased, Hook: lifecycle.PreDelete}, []string{
			"HookHolds metadata.labels[a]=1", "HookHolds metadata.finalizers=g",
		}},
		{"what is missing", lifecycle.Transition{Awaits: lifecycle.HookComplete, Hook: lifecycle.PreNormal}, []string{
			"HookMissing metadata.labels[b]=2", "HookMissing metadata.finalizers=f",
		}},
		{"what will hold", lifecycle.Transition{Awaits: lifecycle.HookReleased, Hook: lifecycle.InPlaceUpdate, Rearm: true}, []string{
			"HookHolds metadata.labels[a]=1", "HookHolds metadata.labels[b]=2", "HookHolds metadata.finalizers=f", "HookHolds metadata.finalizers=g",
		}},
		{"no node", lifecycle.Transition{Awaits: lifecycle.PodScheduled}, []string{"NotScheduled spec.nodeName="}},
		{"not complete", lifecycle.Transition{Awaits: lifecycle.UpdateComplete}, []string{"UpdateIncomplete ="}},
		{"nothing", lifecycle.Transition{}, nil},
		{"a hook that is gone", lifecycle.Transition{Awaits: lifecycle.HookReleased, Hook: "other"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, r := range machine.Why(pod, tc.t) {
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
	hook := &lifecycle.Hook{Labels: map[string]string{"a": "1"}}
	for _, tc := range []struct {
		name  string
		hooks lifecycle.Hooks
		meta  metav1.ObjectMeta
		want  lifecycle.State
	}{
		{"L-8 no hook", lifecycle.Hooks{}, metav1.ObjectMeta{}, normal},
		{"L-8 hook not satisfied", lifecycle.Hooks{PreNormal: hook}, metav1.ObjectMeta{}, preparingNormal},
		{"L-8 hook satisfied by the template", lifecycle.Hooks{PreNormal: hook}, metav1.ObjectMeta{Labels: map[string]string{"a": "1"}}, normal},
		{"L-8 another hook", lifecycle.Hooks{PreDelete: hook}, metav1.ObjectMeta{}, normal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := lifecycle.Initial(&tc.meta, tc.hooks); got != tc.want {
				t.Errorf("Initial = %q, want %q", got, tc.want)
			}
		})
	}
	var meta metav1.ObjectMeta
	lifecycle.Machine{Keys: keys}.Stamp(&meta, preparingNormal, now)
	want := metav1.ObjectMeta{
		Labels: map[string]string{keys.State: "PreparingNormal"}, Annotations: map[string]string{keys.Timestamp: "2026-07-01T10:00:00Z"},
	}
	if diff := cmp.Diff(want, meta); diff != "" {
		t.Errorf("Stamp (-want +got):\n%s", diff)
	}
}

func TestAvailable(t *testing.T) {
	for state, want := range map[lifecycle.State]bool{
		unset: true, normal: true, preparingNormal: false, preparingUpdate: false, updating: false, updated: false, preparingDelete: false, "Foo": false,
	} {
		if got := state.Available(); got != want {
			t.Errorf("L-10: %q available = %v, want %v", state, got, want)
		}
	}
}

func TestCancelDeletions(t *testing.T) {
	for _, tc := range []struct {
		name                                   string
		replicas, pods, condemned, cancellable int
		hooks                                  lifecycle.Hooks
		want                                   int
	}{
		{"L-14 scaled back up", 5, 5, 2, 2, lifecycle.Hooks{}, 2},
		{"L-14 half way", 4, 5, 2, 2, lifecycle.Hooks{}, 1},
		{"L-14 not at all", 3, 5, 2, 2, lifecycle.Hooks{}, 0},
		{"L-14 scaled further down", 1, 5, 2, 2, lifecycle.Hooks{}, 0},
		{"L-14 some were asked to go", 5, 5, 2, 1, lifecycle.Hooks{}, 1},
		{"L-14 taken out of service by deletion", 5, 5, 2, 2, lifecycle.Hooks{PreDelete: &lifecycle.Hook{MarkNotReady: true}}, 0},
		{"L-14 taken out of service by update", 5, 5, 2, 2, lifecycle.Hooks{InPlaceUpdate: &lifecycle.Hook{MarkNotReady: true}}, 0},
		{"L-14 hooks that leave readiness alone", 5, 5, 2, 2, lifecycle.Hooks{PreDelete: &lifecycle.Hook{}, InPlaceUpdate: &lifecycle.Hook{}}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := lifecycle.CancelDeletions(tc.replicas, tc.pods, tc.condemned, tc.cancellable, tc.hooks); got != tc.want {
				t.Errorf("CancelDeletions = %d, want %d", got, tc.want)
			}
		})
	}
}

// TestWalks follows one Pod through whole stories, each step being what somebody does followed by one pass of the owner.
func TestWalks(t *testing.T) {
	hook := func(name string, mark bool) *lifecycle.Hook {
		return &lifecycle.Hook{Labels: map[string]string{name: "on"}, Finalizers: []string{"f/" + name}, MarkNotReady: mark}
	}
	type S = simulation
	release := func(s *S) { s.last.Awaits = lifecycle.HookReleased; s.honour() }
	restore := func(s *S) { s.last.Awaits = lifecycle.HookComplete; s.honour() }
	template := func(s *S) { s.atTarget, s.complete = false, false }
	rollback := func(s *S) { s.atTarget = true }
	complete := func(s *S) { s.complete = true }
	scaleIn := func(s *S) { s.deleting = true }
	scaleOut := func(s *S) { s.deleting = false }
	pass := func(*S) {}
	alone := func(s *S) { s.m.Hooks.InPlaceUpdate.BeforeOnly = true }
	before := func(mark bool) *lifecycle.Hook {
		h := hook("upd", mark)
		h.BeforeOnly = true
		return h
	}
	for _, tc := range []struct {
		name  string
		hooks lifecycle.Hooks
		steps []func(*S)
		want  string // state after each step, with the holders of the gate; "deleted" ends it
	}{
		{
			"L-3 L-4 L-11 an update with hooks",
			lifecycle.Hooks{InPlaceUpdate: hook("upd", true)},
			[]func(*S){pass, template, pass, release, complete, restore, pass},
			"Normal PreparingUpdate[inPlaceUpdate] PreparingUpdate[inPlaceUpdate] Updating[inPlaceUpdate] Updated Normal Normal",
		},
		{
			"L-4 an update without hooks takes two writes",
			lifecycle.Hooks{},
			[]func(*S){pass, template, pass, complete},
			"Normal Updating Updating Normal",
		},
		{
			"L-4 a preNormal hook does not matter to it",
			lifecycle.Hooks{PreNormal: hook("nrm", false)},
			[]func(*S){pass, restore, template, complete},
			"PreparingNormal Normal Updating Normal",
		},
		{
			"L-5 the next template arrives before the hook is back",
			lifecycle.Hooks{InPlaceUpdate: hook("upd", true)},
			[]func(*S){pass, template, release, complete, template, pass, release, complete, restore},
			"Normal PreparingUpdate[inPlaceUpdate] Updating[inPlaceUpdate] Updated PreparingUpdate[inPlaceUpdate] " +
				"PreparingUpdate[inPlaceUpdate] Updating[inPlaceUpdate] Updated Normal",
		},
		{
			"L-6 L-11 rolled back while hooked: nobody keeps the gate",
			lifecycle.Hooks{InPlaceUpdate: hook("upd", true)},
			[]func(*S){pass, template, rollback, pass},
			"Normal PreparingUpdate[inPlaceUpdate] Normal Normal",
		},
		{
			"before only: two updates, each held, and nobody restores anything",
			lifecycle.Hooks{InPlaceUpdate: before(true)},
			[]func(*S){pass, template, release, complete, pass, template, release, complete},
			"Normal PreparingUpdate[inPlaceUpdate] Updating[inPlaceUpdate] Normal Normal PreparingUpdate[inPlaceUpdate] Updating[inPlaceUpdate] Normal",
		},
		{
			"before only: switched on after an update",
			lifecycle.Hooks{InPlaceUpdate: hook("upd", true)},
			[]func(*S){pass, template, release, complete, alone, template},
			"Normal PreparingUpdate[inPlaceUpdate] Updating[inPlaceUpdate] Updated Normal PreparingUpdate[inPlaceUpdate]",
		},
		{
			"L-2 L-11 scaled in",
			lifecycle.Hooks{PreDelete: hook("del", true)},
			[]func(*S){pass, scaleIn, pass, release},
			"Normal PreparingDelete[preDelete] PreparingDelete[preDelete] deleted",
		},
		{
			"L-14 scaled in and out again",
			lifecycle.Hooks{PreDelete: hook("del", false)},
			[]func(*S){pass, scaleIn, scaleOut, pass},
			"Normal PreparingDelete PreparingNormal Normal",
		},
		{
			"L-14 out of service: there is no way back",
			lifecycle.Hooks{PreDelete: hook("del", true)},
			[]func(*S){pass, scaleIn, scaleOut, release},
			"Normal PreparingDelete[preDelete] PreparingDelete[preDelete] deleted",
		},
		{
			"L-2 scaled in during an update",
			lifecycle.Hooks{PreDelete: hook("del", true), InPlaceUpdate: hook("upd", true)},
			[]func(*S){pass, template, scaleIn, release},
			"Normal PreparingUpdate[inPlaceUpdate] PreparingDelete[inPlaceUpdate preDelete] deleted",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &simulation{
				t: t, m: lifecycle.Machine{Keys: keys, Hooks: tc.hooks}, pod: newPod(preparingNormal, map[string]string{"del": "on", "upd": "on"}, "f/del", "f/upd"),
				atTarget: true, holders: map[lifecycle.Kind]bool{},
			}
			var got []string
			for _, step := range tc.steps {
				step(s)
				if s.step() {
					got = append(got, "deleted")
					break
				}
				state := string(lifecycle.StateOf(s.pod, keys))
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

// FuzzSchedules lets users pull and put labels and finalizers on a real Pod while the owner changes its mind, then honours
// all hooks and expects the Pod in Normal with nobody holding its gate.
func FuzzSchedules(f *testing.F) {
	f.Add(uint8(0b111), []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add(uint8(0b010), []byte{1, 10, 5, 1, 10, 10, 0, 7})
	f.Add(uint8(0b110), []byte{2, 10, 10, 3, 6, 10, 1, 10})
	f.Add(uint8(0b1000010), []byte{0, 22, 24, 1, 19, 21, 10, 0, 1, 10})
	f.Add(uint8(0b0000010), []byte{0, 22, 24, 1, 19, 21, 10, 11, 0, 1, 10})
	f.Fuzz(func(t *testing.T, config uint8, schedule []byte) {
		schedule = schedule[:min(len(schedule), 100)]
		hook := func(bit uint, name string) *lifecycle.Hook {
			if config>>bit&1 == 0 {
				return nil
			}
			return &lifecycle.Hook{
				Labels: map[string]string{name: "on"}, Finalizers: []string{"f/" + name}, MarkNotReady: config>>(bit+3)&1 != 0,
				BeforeOnly: config>>6&1 != 0,
			}
		}
		m := lifecycle.Machine{Keys: keys, Hooks: lifecycle.Hooks{
			PreDelete: hook(0, "del"), InPlaceUpdate: hook(1, "upd"), PreNormal: hook(2, "nrm"),
		}}
		s := &simulation{t: t, m: m, pod: newPod(preparingNormal, nil), atTarget: true, holders: map[lifecycle.Kind]bool{}}
		for _, b := range schedule {
			name := []string{"del", "upd", "nrm"}[b>>4%3]
			switch b % 12 {
			case 1, 2:
				s.atTarget, s.complete = false, false // a new template
			case 3:
				s.atTarget = true // rolled back, or the partition was raised
			case 4:
				s.deleting = m.Hooks.PreDelete != nil // scaled down
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
				if h := m.Hooks.InPlaceUpdate; h != nil {
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
		if got := lifecycle.StateOf(s.pod, keys); got != normal || len(s.holders) > 0 {
			t.Errorf("ends in %q, gate held by %v, after %s", got, s.holders, strings.Join(s.path, " "))
		}
	})
}

// simulation is an owner with one Pod.
type simulation struct {
	t                            *testing.T
	m                            lifecycle.Machine
	pod                          *corev1.Pod
	atTarget, complete, deleting bool
	holders                      map[lifecycle.Kind]bool
	last                         lifecycle.Transition
	path                         []string
}

// step decides once and writes the result; it reports whether the Pod was deleted.
func (s *simulation) step() bool {
	facts := s.m.Facts(s.pod)
	facts.Settled, facts.Complete = s.atTarget, s.complete
	switch {
	case s.deleting:
		facts.Intent = lifecycle.Delete
	case facts.State == preparingDelete:
		facts.Intent = lifecycle.Cancel
	case !s.atTarget:
		facts.Intent = lifecycle.Update
	}
	n := lifecycle.Next(facts)
	checkTransition(s.t, facts, n)
	s.path = append(s.path, string(n.To))
	if n.Act == lifecycle.DeletePod {
		return true
	}
	if n.Act == lifecycle.StartUpdate {
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
		delete(s.holders, lifecycle.PreDelete)
	}
	if n.ReleaseUpdate {
		delete(s.holders, lifecycle.InPlaceUpdate)
	}
	s.last = n
	return false
}

// honour does what the Pod waits for.
func (s *simulation) honour() {
	hooks := map[lifecycle.Kind]*lifecycle.Hook{
		lifecycle.PreDelete: s.m.Hooks.PreDelete, lifecycle.InPlaceUpdate: s.m.Hooks.InPlaceUpdate, lifecycle.PreNormal: s.m.Hooks.PreNormal,
	}
	hook := hooks[s.last.Hook]
	if hook == nil {
		return
	}
	switch s.last.Awaits {
	case lifecycle.HookReleased:
		for key := range hook.Labels {
			delete(s.pod.Labels, key)
		}
		s.pod.Finalizers = slices.DeleteFunc(s.pod.Finalizers, func(f string) bool { return slices.Contains(hook.Finalizers, f) })
	case lifecycle.HookComplete:
		maps.Copy(s.pod.Labels, hook.Labels)
		s.pod.Finalizers = append(s.pod.Finalizers, hook.Finalizers...)
	}
}

func BenchmarkNext(b *testing.B) {
	m := lifecycle.Machine{Keys: keys, Hooks: lifecycle.Hooks{PreDelete: &lifecycle.Hook{Finalizers: []string{"f"}}}}
	pod := newPod(normal, nil, "f")
	b.ReportAllocs()
	for b.Loop() {
		facts := m.Facts(pod)
		_ = lifecycle.Next(facts)
	}
}

package podreadiness_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/reason"
)

const gate corev1.PodConditionType = "example.com/Ready"

var (
	drain  = podreadiness.Holder{UserAgent: "Lifecycle", Key: "preDeleteHook"}
	update = podreadiness.Holder{UserAgent: "Lifecycle", Key: "preUpdateHook"}
	other  = podreadiness.Holder{UserAgent: "Agent", Key: "z"}
)

const (
	drainOnly   = `[{"userAgent":"Lifecycle","key":"preDeleteHook"}]`
	drainUpdate = `[{"userAgent":"Lifecycle","key":"preDeleteHook"},{"userAgent":"Lifecycle","key":"preUpdateHook"}]`
	otherDrain  = `[{"userAgent":"Agent","key":"z"},{"userAgent":"Lifecycle","key":"preDeleteHook"}]`
)

// newPod returns a Pod with the gate and, unless nil, the given condition.
func newPod(condition *corev1.PodCondition) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "u1", ResourceVersion: "7"},
		Spec:       corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "other"}, {ConditionType: gate}}},
	}
	if condition != nil {
		condition.Type = gate
		pod.Status.Conditions = []corev1.PodCondition{{Type: "other", Message: "{"}, *condition}
	}
	return pod
}

func is(status corev1.ConditionStatus, message string) *corev1.PodCondition {
	return &corev1.PodCondition{Status: status, Message: message}
}

func Example() {
	pod := newPod(is(corev1.ConditionFalse, `[{"userAgent":"Agent","key":"z"}]`))
	change, err := podreadiness.Hold(pod, gate, podreadiness.Holder{UserAgent: "Lifecycle", Key: "preDeleteHook"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(change.Conditions[0].Status, change.Conditions[0].Message)
	fmt.Println("only if the Pod is still at", change.ResourceVersion)
	// Output:
	// False [{"userAgent":"Agent","key":"z"},{"userAgent":"Lifecycle","key":"preDeleteHook"}]
	// only if the Pod is still at 7
}

func TestEdit(t *testing.T) {
	type holders = []podreadiness.Holder
	for _, tc := range []struct {
		name          string
		have          *corev1.PodCondition
		hold, release holders
		want          *corev1.PodCondition // nil for no change
	}{
		{"U-31 no condition: it gets a status", nil, holders{drain}, nil, is("False", drainOnly)},
		{"U-31 first holder", is("True", ""), holders{drain}, nil, is("False", drainOnly)},
		{"U-31 first holder after others have left", is("True", "[]"), holders{drain}, nil, is("False", drainOnly)},
		{"U-31 sorted by user agent", is("False", drainOnly), holders{other}, nil, is("False", otherDrain)},
		{"U-31 sorted by key", is("False", `[{"userAgent":"Lifecycle","key":"preUpdateHook"}]`), holders{drain}, nil, is("False", drainUpdate)},
		{"U-31 held already", is("False", drainOnly), holders{drain}, nil, nil},
		{"U-31 held already, status unknown", is("Unknown", drainOnly), holders{drain}, nil, nil},
		{"U-31 held already, but somebody opened the gate", is("True", drainOnly), holders{drain}, nil, is("False", drainOnly)},
		{"U-31 the last one leaves", is("False", drainOnly), nil, holders{drain}, is("True", "[]")},
		{"U-31 one of two leaves", is("False", otherDrain), nil, holders{other}, is("False", drainOnly)},
		{"U-31 not held", is("False", drainOnly), nil, holders{other}, nil},
		{"U-31 another key of the same party", is("False", drainOnly), nil, holders{update}, nil},
		{"U-31 nothing to leave", is("True", ""), nil, holders{drain}, nil},
		{"U-31 leaving without a condition", nil, nil, holders{drain}, nil},
		{"closed by hand without a holder is not ours to open", is("False", ""), nil, holders{drain}, nil},
		{"one in, one out", is("False", drainOnly), holders{update}, holders{drain}, is("False", `[{"userAgent":"Lifecycle","key":"preUpdateHook"}]`)},
		{"in and out is in", is("True", "[]"), holders{drain}, holders{drain}, is("False", drainOnly)},
		{"in and out, held already", is("False", drainOnly), holders{drain}, holders{drain}, nil},
		{"twice the same", is("True", ""), holders{drain, drain}, nil, is("False", drainOnly)},
		{"U-31 [BUG] no status, held: repaired", is("", drainOnly), holders{drain}, nil, is("False", drainOnly)},
		{"U-31 [BUG] no status, another leaves: repaired", is("", drainOnly), nil, holders{other}, is("False", drainOnly)},
		{"U-31 [BUG] no status, nobody: repaired", is("", ""), nil, holders{other}, is("True", "[]")},
		{
			"reason is kept", &corev1.PodCondition{Status: "True", Reason: "R"},
			holders{drain},
			nil,
			&corev1.PodCondition{Status: "False", Reason: "R", Message: drainOnly},
		},
		{
			"fields of others are kept", is("False", `[ {"userAgent":"Agent","key":"z","since":"noon"} ]`),
			holders{drain},
			nil,
			is("False", `[{"userAgent":"Agent","key":"z","since":"noon"},{"userAgent":"Lifecycle","key":"preDeleteHook"}]`),
		},
		{
			"an entry that occurs twice leaves as a whole",
			is("False", `[{"userAgent":"Agent","key":"z"},{"userAgent":"Agent","key":"z"}]`), nil,
			holders{other},
			is("True", "[]"),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod(tc.have)
			before := pod.DeepCopy()
			got, err := podreadiness.Edit{Hold: tc.hold, Release: tc.release}.Change(pod, gate)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(changeTo(tc.want), got); diff != "" {
				t.Errorf("change (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, pod); diff != "" {
				t.Errorf("the Pod was modified:\n%s", diff)
			}
		})
	}
}

// changeTo returns the change that sets the gate's condition, or an empty change for nil.
func changeTo(want *corev1.PodCondition) podpatch.Change {
	if want == nil {
		return podpatch.Change{}
	}
	condition := *want
	condition.Type = gate
	return podpatch.Change{UID: "u1", ResourceVersion: "7", Conditions: []corev1.PodCondition{condition}}
}

// TestInitialize: Initialize sets a missing condition in the same change as the holders.
func TestInitialize(t *testing.T) {
	type holders = []podreadiness.Holder
	ending := metav1.Now()
	for _, tc := range []struct {
		name          string
		have          *corev1.PodCondition
		ending        bool
		hold, release holders
		want          *corev1.PodCondition // nil for no change
	}{
		{"U-26 no condition, nobody holds", nil, false, nil, holders{drain}, is("True", "")},
		{"U-31 no condition, one holds", nil, false, holders{drain}, holders{update}, is("False", drainOnly)},
		{"U-26 no condition, terminating", nil, true, nil, holders{drain}, nil},
		{"U-31 no condition, terminating, one holds", nil, true, holders{drain}, nil, is("False", drainOnly)},
		{"U-31 the last one leaves", is("False", drainOnly), false, nil, holders{drain}, is("True", "[]")},
		{"open, nobody holds", is("True", ""), false, nil, holders{drain}, nil},
		{"closed by hand", is("False", ""), false, nil, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod(tc.have)
			if tc.ending {
				pod.DeletionTimestamp = &ending
			}
			got, err := podreadiness.Edit{Hold: tc.hold, Release: tc.release, Initialize: true}.Change(pod, gate)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(changeTo(tc.want), got); diff != "" {
				t.Errorf("change (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := (podreadiness.Edit{Initialize: true}).Change(newPod(is("False", "{")), gate); err == nil {
		t.Error("a message that cannot be read is no error")
	}
}

func TestNoGate(t *testing.T) {
	pod := newPod(is("False", drainOnly))
	pod.Spec.ReadinessGates = nil
	for name, edit := range map[string]func(*corev1.Pod, corev1.PodConditionType, podreadiness.Holder) (podpatch.Change, error){
		"U-31 hold": podreadiness.Hold, "U-31 release": podreadiness.Release,
	} {
		if change, err := edit(pod, gate, drain); err != nil || !change.IsEmpty() {
			t.Errorf("%s without the gate = %+v, %v", name, change, err)
		}
	}
}

func TestUnreadableMessageIsLeftAlone(t *testing.T) {
	for _, message := range []string{"drained by hand", "{", `{"userAgent":"a"}`, `["a"]`, `[{"userAgent":1}]`, "[null]", `[{}`, `5`} {
		t.Run(message, func(t *testing.T) {
			pod := newPod(is("False", message))
			change, err := podreadiness.Hold(pod, gate, drain)
			if !change.IsEmpty() || !errors.Is(err, podreadiness.UnreadableMessage) {
				t.Fatalf("Hold = %+v, %v; want UnreadableMessage and no change", change, err)
			}
			why := reason.From(err)[0]
			if why.New != message || why.Path != "status.conditions[example.com/Ready].message" || why.Object.UID != "u1" || why.Remedy == "" {
				t.Errorf("reason = %+v", why)
			}
			if change, err := podreadiness.Release(pod, gate, drain); err == nil || !change.IsEmpty() {
				t.Errorf("Release = %+v, %v", change, err)
			}
			if holders, err := podreadiness.Holders(pod, gate); err == nil || holders != nil {
				t.Errorf("Holders = %v, %v", holders, err)
			}
		})
	}
}

func TestHolders(t *testing.T) {
	for _, tc := range []struct {
		name string
		have *corev1.PodCondition
		want []podreadiness.Holder
	}{
		{"no condition", nil, nil},
		{"no message", is("True", ""), nil},
		{"nobody", is("True", "[]"), nil},
		{"null", is("True", "null"), nil},
		{"sorted", is("False", `[{"userAgent":"Lifecycle","key":"preDeleteHook"},{"key":"z","userAgent":"Agent"}]`), []podreadiness.Holder{other, drain}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := podreadiness.Holders(newPod(tc.have), gate)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Holders (-want +got):\n%s", diff)
			}
		})
	}
}

// TestInvalidCalls: missing names are errors, even if the Pod does not have the gate.
func TestInvalidCalls(t *testing.T) {
	nobody := []podreadiness.Holder{drain, {Key: "k"}}
	for _, tc := range []struct {
		name string
		edit podreadiness.Edit
		gate corev1.PodConditionType
		want reason.Code
	}{
		{"no gate", podreadiness.Edit{}, "", podreadiness.InvalidGate},
		{"no gate to hold", podreadiness.Edit{Hold: []podreadiness.Holder{drain}}, "", podreadiness.InvalidGate},
		{"a holder without user agent", podreadiness.Edit{Hold: nobody}, gate, podreadiness.InvalidHolder},
		{"the same on a Pod without this gate", podreadiness.Edit{Hold: nobody}, "example.com/Unlisted", podreadiness.InvalidHolder},
		{"one to release", podreadiness.Edit{Release: nobody}, gate, podreadiness.InvalidHolder},
	} {
		t.Run(tc.name, func(t *testing.T) {
			change, err := tc.edit.Change(newPod(is("False", drainOnly)), tc.gate)
			if !errors.Is(err, tc.want) || !change.IsEmpty() {
				t.Errorf("Change = %+v, %v; want %s", change, err, tc.want)
			}
		})
	}
	if holders, err := podreadiness.Holders(newPod(is("False", drainOnly)), ""); !errors.Is(err, podreadiness.InvalidGate) || holders != nil {
		t.Errorf("Holders of no gate = %v, %v", holders, err)
	}
}

// FuzzHolders adds and removes many holders, and compares the gate with a set: the gate is closed exactly while the
// set is not empty.
func FuzzHolders(f *testing.F) {
	f.Add([]byte{1, 2, 129, 3, 130, 131})
	f.Add([]byte{1, 1, 129, 129})
	f.Fuzz(func(t *testing.T, schedule []byte) {
		pod := newPod(nil)
		held := map[podreadiness.Holder]bool{}
		for _, b := range schedule {
			holder := podreadiness.Holder{UserAgent: fmt.Sprintf("<%d>", b&3), Key: fmt.Sprintf("k\"%d", b>>2&3)}
			edit := podreadiness.Hold
			if held[holder] = b < 128; b >= 128 {
				delete(held, holder)
				edit = podreadiness.Release
			}
			change, err := edit(pod, gate, holder)
			if err != nil {
				t.Fatal(err)
			}
			if len(change.Conditions) == 1 {
				pod.Status.Conditions = change.Conditions
			}
			holders, err := podreadiness.Holders(pod, gate)
			if err != nil {
				t.Fatal(err)
			}
			if len(holders) != len(held) || slices.ContainsFunc(holders, func(h podreadiness.Holder) bool { return !held[h] }) {
				t.Fatalf("holders %v, want %v", holders, held)
			}
			if len(pod.Status.Conditions) == 1 {
				closed := pod.Status.Conditions[0].Status != corev1.ConditionTrue
				if closed != (len(held) > 0) {
					t.Fatalf("status %q with %d holders", pod.Status.Conditions[0].Status, len(held))
				}
			}
		}
	})
}

// FuzzMessage tries arbitrary messages: if a message can be parsed, its holders must be unchanged after another
// holder was added and removed.
func FuzzMessage(f *testing.F) {
	for _, s := range []string{"", "[]", drainOnly, otherDrain, "null", "[null]", "{", `[{"userAgent":"a","x":[1,2]}]`, `[{"KEY":"b"}]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, message string) {
		pod := newPod(is("False", message))
		before, err := podreadiness.Holders(pod, gate)
		if err != nil {
			return
		}
		visitor := podreadiness.Holder{UserAgent: "visitor", Key: "v"}
		if slices.Contains(before, visitor) {
			return
		}
		for _, edit := range []func(*corev1.Pod, corev1.PodConditionType, podreadiness.Holder) (podpatch.Change, error){
			podreadiness.Hold, podreadiness.Release,
		} {
			change, err := edit(pod, gate, visitor)
			if err != nil {
				t.Fatal(err)
			}
			if change.Conditions[0].Status == "" || !json.Valid([]byte(change.Conditions[0].Message)) || strings.Contains(change.Conditions[0].Message, "\n") {
				t.Fatalf("wrote %+v", change.Conditions[0])
			}
			pod.Status.Conditions = change.Conditions
		}
		after, err := podreadiness.Holders(pod, gate)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("holders changed by a visitor (-before +after):\n%s", diff)
		}
	})
}

func BenchmarkEditUnchanged(b *testing.B) {
	pod := newPod(is("False", otherDrain))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = podreadiness.Hold(pod, gate, drain)
	}
}

func BenchmarkReleaseNotHeld(b *testing.B) {
	pod := newPod(is("True", "[]"))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = podreadiness.Release(pod, gate, drain)
	}
}

func BenchmarkHold(b *testing.B) {
	pod := newPod(is("True", ""))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = podreadiness.Hold(pod, gate, drain)
	}
}

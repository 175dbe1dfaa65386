package reason_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/workloadkit/workloadkit/reason"
)

const (
	blocked reason.Code = "Blocked"
	waiting reason.Code = "Waiting"
)

func Example() {
	why := reason.Reason{
		Code:   blocked,
		Object: reason.Object{Kind: "Pod", Namespace: "default", Name: "web-x7k2p"},
		Path:   "spec.containers[app].env",
		Old:    "1 entry",
		New:    "2 entries",
		Remedy: "recreate the Pod",
	}
	err := fmt.Errorf("updating: %w", why)
	fmt.Println(err)
	fmt.Println(errors.Is(err, blocked), errors.Is(err, waiting))
	// Output:
	// updating: Blocked: Pod default/web-x7k2p: spec.containers[app].env: 1 entry -> 2 entries; recreate the Pod
	// true false
}

func TestString(t *testing.T) {
	tests := []struct {
		name string
		in   reason.Reason
		want string
	}{
		{"code alone", reason.Reason{Code: blocked}, "Blocked"},
		{"bad value", reason.Reason{Code: blocked, Path: "spec.replicas", New: "-1"}, "Blocked: spec.replicas: -1"},
		{"removed value", reason.Reason{Code: blocked, Path: "spec.x", Old: "1"}, "Blocked: spec.x: 1 removed"},
		{"detail and remedy", reason.Reason{Code: waiting, Detail: "no node", Remedy: "add one"}, "Waiting: no node; add one"},
		{"object without kind", reason.Reason{Code: waiting, Object: reason.Object{Name: "a"}}, "Waiting: a"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.in.String()); diff != "" {
				t.Errorf("String() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestListIsAnErrorThatHoldsEachReason(t *testing.T) {
	list := reason.List{{Code: blocked}, {Code: waiting}, {Code: waiting, Path: "a"}}
	err := fmt.Errorf("outer: %w", list.Err())
	for _, code := range []reason.Code{blocked, waiting} {
		if !errors.Is(err, code) {
			t.Errorf("errors.Is(%v, %s) = false", err, code)
		}
	}
	if errors.Is(err, reason.Code("Other")) {
		t.Error("matches a code it does not hold")
	}
	if diff := cmp.Diff(list, reason.From(err)); diff != "" {
		t.Errorf("From (-want +got):\n%s", diff)
	}
	if got, want := list.Summary(1), "Blocked; and 2 more"; got != want {
		t.Errorf("Summary(1) = %q, want %q", got, want)
	}
	if got, want := list.Summary(3), list.String(); got != want {
		t.Errorf("Summary(3) = %q, want %q", got, want)
	}
	if err := reason.List(nil).Err(); err != nil {
		t.Errorf("empty list as error = %v, want nil", err)
	}
}

func TestFrom(t *testing.T) {
	one, two, three := reason.Reason{Code: blocked}, reason.Reason{Code: waiting}, reason.Reason{Code: waiting, Path: "a"}
	for _, tc := range []struct {
		name string
		err  error
		want reason.List
	}{
		{"nil", nil, nil},
		{"plain", errors.New("plain"), nil},
		{"one, wrapped", fmt.Errorf("w: %w", one), reason.List{one}},
		{"joined", errors.Join(one, errors.New("plain"), two), reason.List{one, two}},
		{"joined lists, wrapped", fmt.Errorf("w: %w", errors.Join(reason.List{one, two}, fmt.Errorf("x: %w", three))), reason.List{one, two, three}},
		{"the same twice", errors.Join(one, two, one), reason.List{one, two}},
		{"with a cause that has reasons", errors.Join(one.With(reason.List{two}), three), reason.List{one, three}},
		{"final", reason.Final(errors.Join(one, two)), reason.List{one, two}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, reason.From(tc.err)); diff != "" {
				t.Errorf("From (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWith(t *testing.T) {
	cause := errors.New("cause")
	err := reason.Reason{Code: blocked, Detail: "why"}.With(cause)
	if !errors.Is(err, cause) || !errors.Is(err, blocked) || err.Error() != "Blocked: why" {
		t.Errorf("With = %v, which does not hold both", err)
	}
	if diff := cmp.Diff(error(reason.Reason{Code: blocked}), reason.Reason{Code: blocked}.With(nil)); diff != "" {
		t.Errorf("With(nil), want the reason (-want +got):\n%s", diff)
	}
}

func TestAdd(t *testing.T) {
	list := reason.List{{Code: blocked}}
	list.Add(waiting, nil)
	list.Add(waiting, errors.New("odd"))
	list.Add(waiting, fmt.Errorf("w: %w", reason.Reason{Code: blocked, Path: "a"}))
	want := reason.List{{Code: blocked}, {Code: waiting, Detail: "odd"}, {Code: blocked, Path: "a"}}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("Add (-want +got):\n%s", diff)
	}
}

func TestFinal(t *testing.T) {
	plain, final := errors.New("plain"), reason.Final(errors.New("final"))
	for _, tc := range []struct {
		name      string
		err       error
		retryable bool
	}{
		{"nil", nil, false},
		{"nil made final", reason.Final(nil), false},
		{"plain", plain, true},
		{"a reason", reason.Reason{Code: blocked}, true},
		{"a list of reasons", reason.List{{Code: blocked}}, true},
		{"final", final, false},
		{"final, wrapped", fmt.Errorf("w: %w", final), false},
		{"joined with a plain one", errors.Join(final, plain), true},
		{"joined with another final one", fmt.Errorf("w: %w", errors.Join(final, final)), false},
		{"the cause of a reason is final", reason.Reason{Code: blocked}.With(final), false},
		{"the cause of a reason is plain", reason.Reason{Code: blocked}.With(plain), true},
		{"made final although a part was plain", reason.Final(errors.Join(plain, final)), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := reason.Retryable(tc.err) != nil; got != tc.retryable {
				t.Errorf("Retryable = %t, want %t", got, tc.retryable)
			}
			if got, want := reason.IsFinal(tc.err), tc.err != nil && !tc.retryable; got != want {
				t.Errorf("IsFinal = %t, want %t", got, want)
			}
		})
	}
	if got := reason.Retryable(final, plain, nil); !errors.Is(got, plain) || errors.Is(got, final) {
		t.Errorf("Retryable of several = %v, want the plain one alone", got)
	}
}

func TestObjectOf(t *testing.T) {
	pod := &metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "u"}
	if diff := cmp.Diff(reason.Object{Kind: "Pod", Namespace: "n", Name: "a", UID: "u"}, reason.ObjectOf("Pod", pod)); diff != "" {
		t.Errorf("ObjectOf (-want +got):\n%s", diff)
	}
}

func TestShorten(t *testing.T) {
	for _, tc := range []struct {
		in    string
		limit int
		want  string
	}{
		{"short", 10, "short"},
		{"exactly", 7, "exactly"},
		{"too long", 3, "too..."},
		{"aé", 2, "a..."},
	} {
		if got := reason.Shorten(tc.in, tc.limit); got != tc.want {
			t.Errorf("Shorten(%q, %d) = %q, want %q", tc.in, tc.limit, got, tc.want)
		}
	}
}

func TestExplain(t *testing.T) {
	list := reason.List{}
	for i := range 7 {
		list = append(list, reason.Reason{Code: "Odd", New: strconv.Itoa(i)})
	}
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "web-0")
	for _, tc := range []struct {
		name    string
		err     error
		code    reason.Code
		message string
	}{
		{"nothing", nil, "", ""},
		{"no reasons", errors.New("no"), "Error", "no"},
		{"of the API server", fmt.Errorf("creating: %w", gone), "NotFound", "creating: " + gone.Error()},
		{"many without reasons", errors.Join(errors.New("1"), errors.New("2"), errors.New("3"), errors.New("4"), errors.New("5"), gone, gone), "NotFound", "1\n2\n3\n4\n5\nand 2 more"},
		{"reasons", fmt.Errorf("creating: %w", list), "Odd", list.Summary(5)},
		{"long", errors.New(strings.Repeat("x", 2000)), "Error", reason.Shorten(strings.Repeat("x", 2000), 1024)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, message := reason.Explain(tc.err)
			if code != tc.code || message != tc.message {
				t.Errorf("%q, %q, want %q, %q", code, message, tc.code, tc.message)
			}
		})
	}
}

func TestCondition(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want metav1.Condition
	}{
		{"nothing", nil, metav1.Condition{Type: "Failed", Status: "False", Reason: "AsExpected", ObservedGeneration: 7}},
		{"no reasons", errors.New("no"), metav1.Condition{Type: "Failed", Status: "True", Reason: "Error", Message: "no", ObservedGeneration: 7}},
		{
			"a reason",
			reason.Reason{Code: blocked, Path: "spec.x"},
			metav1.Condition{Type: "Failed", Status: "True", Reason: "Blocked", Message: "spec.x", ObservedGeneration: 7},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, reason.Condition("Failed", 7, tc.err)); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
		})
	}
}

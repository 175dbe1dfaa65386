package reason_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	one := reason.Reason{Code: blocked}
	if diff := cmp.Diff(reason.List{one}, reason.From(fmt.Errorf("w: %w", one))); diff != "" {
		t.Errorf("From one (-want +got):\n%s", diff)
	}
	if got := reason.From(errors.New("plain")); got != nil {
		t.Errorf("From(plain error) = %v, want nil", got)
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

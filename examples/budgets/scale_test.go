package budgets_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/budgets"
)

// scales answers for the scale subresources of workloads: by their names, with the replicas.
type scales struct {
	client.Client

	replicas map[string]int64
	asked    []string
	fails    error
}

func (s *scales) SubResource(string) client.SubResourceClient { return scaleOf{scales: s} }

// scaleOf reads a scale.
type scaleOf struct {
	client.SubResourceClient

	scales *scales
}

func (s scaleOf) Get(_ context.Context, object, scale client.Object, _ ...client.SubResourceGetOption) error {
	s.scales.asked = append(s.scales.asked, object.GetName())
	if s.scales.fails != nil {
		return s.scales.fails
	}
	n, ok := s.scales.replicas[object.GetName()]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, object.GetName())
	}
	return unstructured.SetNestedField(scale.(*unstructured.Unstructured).Object, n, "spec", "replicas")
}

// TestScale: Workloads asks seldom for the scale of workloads of uncached kinds. A deleted workload has no Pods. A
// workload whose kind has no scale gives no number.
func TestScale(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(start)
	c := &scales{replicas: map[string]int64{"web": 3}}
	w := newWorld(t)
	workloads, err := budgets.NewWorkloads(t.Context(), w, c, clock)
	if err != nil {
		t.Fatal(err)
	}
	thing := func(name string) budgets.Ref { return budgets.RefOf("example.com/v1", "Thing", name) }
	check := func(what string, ref budgets.Ref, want int32, wantKnown bool, asked ...string) {
		t.Helper()
		c.asked = nil
		got, known := workloads.Expected(t.Context(), "shop", ref)
		if got != want || known != wantKnown || strings.Join(c.asked, " ") != strings.Join(asked, " ") {
			t.Errorf("%s: %d, %t; asked for %q; want %d, %t, %q", what, got, known, c.asked, want, wantKnown, asked)
		}
	}
	check("PUB-7 by its scale", thing("web"), 3, true, "web")
	check("it was asked a moment ago", thing("web"), 3, true)
	clock.SetTime(start.Add(5 * time.Second))
	delete(c.replicas, "web")
	check("PUB-14 it is gone", thing("web"), 0, true, "web")
	job := func(name string) budgets.Ref { return budgets.RefOf("batch/v1", "Job", name) }
	check("3.4 a kind without a scale", job("one"), 0, false, "one")
	check("nobody asks for others of that kind", job("two"), 0, false)
	clock.SetTime(start.Add(2 * time.Minute))
	check("but once in a while", job("two"), 0, false, "two")
	c.replicas["db"] = 5
	check("another", thing("db"), 5, true, "db")
	c.fails = errors.New("its conversion webhook is down")
	clock.SetTime(start.Add(3 * time.Minute))
	check("what cannot be read is what it was", thing("db"), 5, true, "db")
	check("and unknown where nobody has read it", thing("cache"), 0, false, "cache")
	for _, odd := range []budgets.Ref{
		budgets.RefOf("../healthz", "Foo", "x"), budgets.RefOf("a/../b", "Foo", "x"), budgets.RefOf("example.com/v1", "Thing", "a/b"), budgets.RefOf("example.com/v1", "Thing", ".."),
		budgets.RefOf("example.com/v1", "Th/ing", "a"), budgets.RefOf("v1", "ReplicationController", "a%2fb"), budgets.RefOf("..", "Foo", "x"),
	} {
		check("an owner reference that is a path", odd, 0, false)
	}
}

// TestInventedKinds: a user who may create Pods can invent controllers. Invented kinds neither cause a request to the
// API server each, nor stay in memory for long.
func TestInventedKinds(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(start)
	c := &scales{replicas: map[string]int64{"web": 3}}
	w := newWorld(t)
	workloads, err := budgets.NewWorkloads(t.Context(), w, c, clock)
	if err != nil {
		t.Fatal(err)
	}
	if n, known := workloads.Expected(t.Context(), "shop", budgets.RefOf("example.com/v1", "Thing", "web")); n != 3 || !known {
		t.Errorf("%d, %t", n, known)
	}
	ask := func() {
		c.asked = nil
		for i := range 3000 {
			workloads.Expected(t.Context(), "shop", budgets.RefOf("example.com/v1", fmt.Sprint("Kind", i), "x"))
		}
	}
	for pass, want := range []int{999, 0} {
		if ask(); len(c.asked) != want {
			t.Errorf("pass %d asks %d times, want %d", pass, len(c.asked), want)
		}
	}
	clock.SetTime(start.Add(time.Hour))
	if ask(); len(c.asked) == 0 || len(c.asked) > 1000 {
		t.Errorf("an hour later it asks %d times", len(c.asked))
	}
	if n, known := workloads.Expected(t.Context(), "shop", budgets.RefOf("example.com/v1", "Thing", "web")); n != 3 || !known {
		t.Errorf("afterwards %d, %t", n, known)
	}
	if ref := budgets.RefOf("example.com/v1", "Thing", strings.Repeat("x", 254)); ref != (budgets.Ref{}) {
		t.Errorf("a name of 254 characters: %v", ref)
	}
}

package workloads_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

var begin = time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)

// caches is a manager whose caches read from an API server in memory.
type caches struct {
	ownercache.Manager

	cache  cache.Cache
	scheme *runtime.Scheme
}

func (m *caches) GetCache() cache.Cache      { return m.cache }
func (m *caches) GetScheme() *runtime.Scheme { return m.scheme }

func newCaches(t *testing.T) *caches {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	server, err := faultapi.New(scheme, time.Now, workloads.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	return &caches{cache: server.Cache(nil), scheme: scheme}
}

// scales is a client that returns the scale of workloads, with the number of replicas by name.
type scales struct {
	client.Client

	replicas map[string]int64
	asked    []string
	fails    error
}

func (s *scales) SubResource(string) client.SubResourceClient { return scaleOf{scales: s} }

// scaleOf is a client that reads the scale subresource of a workload.
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

// TestScale: Owners seldom reads the scale of workloads whose kinds are not cached. A deleted workload has no Pods.
// If the kind has no scale subresource, the number of Pods is unknown.
func TestScale(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(begin)
	c := &scales{replicas: map[string]int64{"web": 3}}
	owners, err := workloads.NewOwners(t.Context(), newCaches(t), c, clock)
	if err != nil {
		t.Fatal(err)
	}
	thing := func(name string) workloads.Ref { return workloads.RefOf("example.com/v1", "Thing", name) }
	check := func(what string, ref workloads.Ref, want int32, wantKnown bool, asked ...string) {
		t.Helper()
		c.asked = nil
		got, known := owners.Expected(t.Context(), "shop", ref)
		if got != want || known != wantKnown || strings.Join(c.asked, " ") != strings.Join(asked, " ") {
			t.Errorf("%s: %d, %t; asked for %q; want %d, %t, %q", what, got, known, c.asked, want, wantKnown, asked)
		}
	}
	check("PUB-7 by its scale", thing("web"), 3, true, "web")
	check("it was asked a moment ago", thing("web"), 3, true)
	clock.SetTime(begin.Add(5 * time.Second))
	delete(c.replicas, "web")
	check("PUB-14 it is gone", thing("web"), 0, true, "web")
	job := func(name string) workloads.Ref { return workloads.RefOf("batch/v1", "Job", name) }
	check("3.4 a kind without a scale", job("one"), 0, false, "one")
	check("nobody asks for others of that kind", job("two"), 0, false)
	clock.SetTime(begin.Add(2 * time.Minute))
	check("but once in a while", job("two"), 0, false, "two")
	c.replicas["db"] = 5
	check("another", thing("db"), 5, true, "db")
	c.fails = errors.New("its conversion webhook is down")
	clock.SetTime(begin.Add(3 * time.Minute))
	check("what cannot be read is what it was", thing("db"), 5, true, "db")
	check("and unknown where nobody has read it", thing("cache"), 0, false, "cache")
	for _, odd := range []workloads.Ref{
		workloads.RefOf("../healthz", "Foo", "x"), workloads.RefOf("a/../b", "Foo", "x"), workloads.RefOf("example.com/v1", "Thing", "a/b"), workloads.RefOf("example.com/v1", "Thing", ".."),
		workloads.RefOf("example.com/v1", "Th/ing", "a"), workloads.RefOf("v1", "ReplicationController", "a%2fb"), workloads.RefOf("..", "Foo", "x"),
	} {
		check("an owner reference that is a path", odd, 0, false)
	}
}

// TestInventedKinds: a user who may create Pods can name invented kinds in owner references. The number of requests
// to the API server for such kinds is limited, and such kinds do not stay in memory for long.
func TestInventedKinds(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(begin)
	c := &scales{replicas: map[string]int64{"web": 3}}
	owners, err := workloads.NewOwners(t.Context(), newCaches(t), c, clock)
	if err != nil {
		t.Fatal(err)
	}
	if n, known := owners.Expected(t.Context(), "shop", workloads.RefOf("example.com/v1", "Thing", "web")); n != 3 || !known {
		t.Errorf("%d, %t", n, known)
	}
	ask := func() {
		c.asked = nil
		for i := range 3000 {
			owners.Expected(t.Context(), "shop", workloads.RefOf("example.com/v1", fmt.Sprint("Kind", i), "x"))
		}
	}
	for pass, want := range []int{999, 0} {
		if ask(); len(c.asked) != want {
			t.Errorf("pass %d asks %d times, want %d", pass, len(c.asked), want)
		}
	}
	clock.SetTime(begin.Add(time.Hour))
	if ask(); len(c.asked) == 0 || len(c.asked) > 1000 {
		t.Errorf("an hour later it asks %d times", len(c.asked))
	}
	if n, known := owners.Expected(t.Context(), "shop", workloads.RefOf("example.com/v1", "Thing", "web")); n != 3 || !known {
		t.Errorf("afterwards %d, %t", n, known)
	}
	if ref := workloads.RefOf("example.com/v1", "Thing", strings.Repeat("x", 254)); ref != (workloads.Ref{}) {
		t.Errorf("a name of 254 characters: %v", ref)
	}
}

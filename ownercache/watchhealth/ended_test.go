package watchhealth_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/workloadkit/workloadkit/ownercache/watchhealth"
)

// TestInformersThatHaveEnded: two managers of a process share Watches, and Await ignores the informers of the first
// manager after its end.
func TestInformersThatHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watches := watchesOf(t)
		run := func(ctx context.Context) {
			informer := watches.NewInformer(&remembering{}, &corev1.ConfigMap{}, 0, toolscache.Indexers{})
			go informer.RunWithContext(ctx)
		}
		first, endFirst := context.WithCancel(t.Context())
		second, endSecond := context.WithCancel(t.Context())
		defer endSecond()
		run(first)
		run(second)
		time.Sleep(time.Second)
		if err := watches.Await(t.Context(), kind); err != nil || len(watches.Down()) > 0 {
			t.Fatal(err, watches.Down())
		}
		endFirst()
		time.Sleep(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := watches.Await(ctx, kind); err != nil {
			t.Errorf("the second cache is up: %v, down are %v", err, watches.Down())
		}
		endSecond()
		time.Sleep(time.Second)
	})
}

// TestAwaitWithoutKinds: without arguments, Await waits for all kinds.
func TestAwaitWithoutKinds(t *testing.T) {
	watches := watchesOf(t)
	if err := watches.Await(t.Context()); err != nil {
		t.Errorf("without an informer: %v", err)
	}
	watches.NewInformer(&remembering{}, &corev1.ConfigMap{}, 0, toolscache.Indexers{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := watches.Await(ctx); err == nil {
		t.Errorf("all is said to be current, and down are %v", watches.Down())
	}
}

// TestFollowCRDsRefuses: FollowCRDs refuses a kind without group or plural, because the definition would never be
// found, and the kind would count as absent.
func TestFollowCRDsRefuses(t *testing.T) {
	mesh := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Mesh"}
	c := fake.NewClientBuilder().Build()
	for name, tc := range map[string]struct {
		c    client.WithWatch
		kind schema.GroupVersionKind
		of   watchhealth.Resource
	}{
		"no client":            {nil, mesh, watchhealth.Resource{Plural: "meshes"}},
		"no plural":            {c, mesh, watchhealth.Resource{}},
		"the kind as plural":   {c, mesh, watchhealth.Resource{Plural: "Meshes"}},
		"a kind without group": {c, schema.GroupVersionKind{Version: "v1", Kind: "Mesh"}, watchhealth.Resource{Plural: "meshes"}},
	} {
		if _, err := watchhealth.FollowCRDs(tc.c, map[schema.GroupVersionKind]watchhealth.Resource{tc.kind: tc.of}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

package apply_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/expectations/apply"
)

var (
	pods   = expectations.Store{GroupResource: schema.GroupResource{Resource: "pods"}}
	claims = expectations.Store{GroupResource: schema.GroupResource{Resource: "persistentvolumeclaims"}}

	sources = []apply.Source{
		{Store: pods, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: "default"},
		{Store: claims, Kind: schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}},
	}
)

// apiServer answers lists with a version and remembers how it was asked.
type apiServer struct {
	client.Reader

	version string
	fail    error
	asked   []question
}

type question struct {
	Kind, Namespace, ResourceVersion string
	Limit                            int64
	MetadataOnly                     bool
}

func (s *apiServer) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	_, metadata := list.(*metav1.PartialObjectMetadataList)
	version := ""
	if o.Raw != nil {
		version = o.Raw.ResourceVersion
	}
	s.asked = append(s.asked, question{
		Kind: list.GetObjectKind().GroupVersionKind().Kind, Namespace: o.Namespace, ResourceVersion: version, Limit: o.Limit,
		MetadataOnly: metadata,
	})
	list.SetResourceVersion(s.version)
	return s.fail
}

type store struct{ version atomic.Value }

func (s *store) LastStoreSyncResourceVersion() string { return s.version.Load().(string) }

func newTracker(version string) (*expectations.Tracker, *store) {
	s := &store{}
	s.version.Store(version)
	return expectations.New(map[expectations.Store]expectations.Progress{pods: s, claims: s}, expectations.Options{Barrier: true}), s
}

func TestCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{version: "200"}
		tracker, behind := newTracker("150")
		begin := time.Now()
		time.AfterFunc(time.Second, func() { behind.version.Store("199") })
		time.AfterFunc(3*time.Second, func() { behind.version.Store("200") })
		if p, _ := tracker.Check("owner", nil); p == nil {
			t.Fatal("an owner passes before the barrier is set")
		}
		if err := apply.CatchUp(t.Context(), server, tracker, clock.RealClock{}, sources...); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < 3*time.Second || took > 3100*time.Millisecond {
			t.Errorf("took %v, want until the store has reached the version at 3s", took)
		}
		if p, err := tracker.Check("owner", nil); p != nil || err != nil {
			t.Errorf("afterwards: %v, %v", p, err)
		}
		want := []question{
			{Kind: "PodList", Namespace: "default", Limit: 1, MetadataOnly: true},
			{Kind: "PersistentVolumeClaimList", Limit: 1, MetadataOnly: true},
		}
		if diff := cmp.Diff(want, server.asked); diff != "" {
			t.Errorf("quorum reads (-want +got):\n%s", diff)
		}
	})
}

func TestCatchUpFails(t *testing.T) {
	refused := errors.New("forbidden")
	for _, tc := range []struct {
		name    string
		server  *apiServer
		sources []apply.Source
		seen    string
		want    error
	}{
		{"the read fails", &apiServer{fail: refused}, sources, "150", refused},
		{"the list has no version", &apiServer{}, sources, "150", expectations.IncomparableVersion},
		{"a store has no source", &apiServer{version: "1"}, sources[:1], "150", expectations.UnknownStore},
		{"a store does not tell how far it is", &apiServer{version: "1"}, sources, "", expectations.NoProgress},
		{"the context ends", &apiServer{version: "200"}, sources, "150", context.DeadlineExceeded},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				tracker, _ := newTracker(tc.seen)
				err := apply.CatchUp(ctx, tc.server, tracker, clock.RealClock{}, tc.sources...)
				if !errors.Is(err, tc.want) {
					t.Errorf("CatchUp = %v, want %v", err, tc.want)
				}
				if errors.Is(tc.want, expectations.UnknownStore) && !strings.Contains(err.Error(), "persistentvolumeclaims") {
					t.Errorf("CatchUp = %v, want it to name the store", err)
				}
				if errors.Is(tc.want, context.DeadlineExceeded) && !strings.Contains(err.Error(), "pods: 150 -> 200") {
					t.Errorf("CatchUp = %v, want it to name what is missing", err)
				}
			})
		})
	}
}

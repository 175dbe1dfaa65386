package placements_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/placements"
)

func TestFromAny(t *testing.T) {
	for _, c := range []struct {
		name, object string
		ending       bool
		want         []int // nil for unknown
	}{
		{"PS-11 replicas", `{"spec":{"replicas":3}}`, false, []int{0, 1, 2}},
		{"PS-11 one, as of a StatefulSet", `{"spec":{}}`, false, []int{0}},
		{"PS-11 none", `{"spec":{"replicas":0}}`, false, []int{}},
		{"PS-11 reserved", `{"spec":{"replicas":2,"reserveOrdinals":[1,"3-4"]}}`, false, []int{0, 2}},
		{"PS-6 a start", `{"spec":{"replicas":2,"ordinals":{"start":5}}}`, false, []int{5, 6}},
		{"PS-11 about to go", `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"replicas":1}}`, true, []int{0}},
		{"PS-11 no spec", `{}`, false, nil},
		{"PS-11 replicas that are none", `{"spec":{"replicas":"3"}}`, false, nil},
		{"PS-11 fewer than none", `{"spec":{"replicas":-1}}`, false, nil},
		{"PS-11 too many", `{"spec":{"replicas":99999999999}}`, false, nil},
		{"PS-11 reserved that are none", `{"spec":{"replicas":1,"reserveOrdinals":["x"]}}`, false, nil},
		{"PS-11 reserved of another type", `{"spec":{"replicas":1,"reserveOrdinals":{"a":1}}}`, false, nil},
		{"PS-11 a reserved entry of another type", `{"spec":{"replicas":1,"reserveOrdinals":[true]}}`, false, nil},
		{"PS-11 ordinals of another type", `{"spec":{"replicas":1,"ordinals":[5]}}`, false, nil},
		{"PS-11 a start of another type", `{"spec":{"replicas":1,"ordinals":{"start":"x"}}}`, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			if err := utiljson.Unmarshal([]byte(c.object), &object.Object); err != nil {
				t.Fatal(err)
			}
			got := placements.FromAny(object)
			if got.Wanted.IsZero() != (c.want == nil) || got.Ending != c.ending {
				t.Errorf("unknown %t, ending %t", got.Wanted.IsZero(), got.Ending)
			}
			if all := slices.Collect(got.Wanted.All()); !slices.Equal(all, c.want) {
				t.Errorf("%v, want %v", all, c.want)
			}
		})
	}
}

func TestChanges(t *testing.T) {
	status := func(generation int64, states records) v1beta1.PersistentPodStateStatus {
		return v1beta1.PersistentPodStateStatus{ObservedGeneration: generation, PodStates: states}
	}
	one, two := records{"db-0": at("n1")}, records{"db-0": at("n1"), "db-1": at("n2")}
	for _, c := range []struct {
		name          string
		before, after v1beta1.PersistentPodStateStatus
		want          []string
	}{
		{"nothing", status(1, one), status(1, one), nil},
		{"no records either way", status(1, nil), status(1, records{}), nil},
		{"the first", status(0, nil), status(1, one), []string{"add /status"}},
		{"the first records", status(1, nil), status(1, one), []string{"add /status/podStates"}},
		{"one more", status(1, one), status(1, two), []string{"add /status/podStates/db-1"}},
		{"one less", status(1, two), status(1, one), []string{"remove /status/podStates/db-1"}},
		{"the last", status(1, two), status(1, nil), []string{"remove /status/podStates"}},
		{"another Node, and a generation", status(1, two), status(2, records{"db-0": at("n1"), "db-1": at("n3")}), []string{"add /status/observedGeneration", "add /status/podStates/db-1"}},
		{"a name that has to be spelled", status(1, records{"a/b~c": at("x"), "d": at("x")}), status(1, records{"d": at("x")}), []string{"remove /status/podStates/a~1b~0c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, placements.Changes(c.before, c.after)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

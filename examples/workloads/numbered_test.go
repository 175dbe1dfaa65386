package workloads_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/workloadkit/workloadkit/examples/workloads"
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
			got := workloads.FromAny(object)
			if got.Wanted.IsZero() != (c.want == nil) || got.Ending != c.ending {
				t.Errorf("unknown %t, ending %t", got.Wanted.IsZero(), got.Ending)
			}
			if all := slices.Collect(got.Wanted.All()); !slices.Equal(all, c.want) {
				t.Errorf("%v, want %v", all, c.want)
			}
		})
	}
}

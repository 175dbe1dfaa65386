package statefulset_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/statefulset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func wants(replicas, start int32, reserved ...string) func(*v1beta1.StatefulSet) {
	return func(obj *v1beta1.StatefulSet) {
		obj.Spec.Replicas, obj.Spec.Ordinals = &replicas, &appsv1.StatefulSetOrdinals{Start: start}
		for _, entry := range reserved {
			obj.Spec.ReserveOrdinals = append(obj.Spec.ReserveOrdinals, intstr.Parse(entry))
		}
	}
}

func TestOrdinals(t *testing.T) {
	tests := []struct {
		name      string
		edit      func(*v1beta1.StatefulSet)
		fromStart bool
		want      string
	}{
		{"S-2 one reserved", wants(3, 0, "1"), true, "0,2-3"},
		{"S-2 a range", wants(3, 0, "1-3"), true, "0,4-5"},
		{"S-2 with a start", wants(4, 2, "1", "3"), true, "2,4-6"},
		{"S-2 with a start and without its gate", wants(4, 2, "1", "3"), false, "0,2,4-5"},
		{"S-2 zeros in front", wants(4, 0, "0003-005"), true, "0-2,6"},
		{"3.1 replicas unset", func(obj *v1beta1.StatefulSet) { obj.Spec.Replicas = nil }, true, "0"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			obj := &v1beta1.StatefulSet{}
			tc.edit(obj)
			set, err := statefulset.Ordinals(obj, tc.fromStart)
			if err != nil || set.String() != tc.want {
				t.Errorf("Ordinals() = %s, %v; want %s", set, err, tc.want)
			}
		})
	}
}

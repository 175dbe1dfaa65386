package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/testing/bench"
)

// cloneSet is the CloneSet of apps.kruise.io, of whichever manager.
func cloneSet() kind {
	return kind{about: "CloneSet of apps.kruise.io", Workload: bench.Workload{
		Name: "cloneset", AddToScheme: v1beta1.AddToScheme, Install: config.InstallCRDs,
		List: func() client.ObjectList { return &v1beta1.CloneSetList{} },
		Object: func(s bench.Shape) client.Object {
			return &v1beta1.CloneSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: bench.Namespace, Name: s.Name},
				Spec: v1beta1.CloneSetSpec{
					Replicas: ptr.To(int32(s.Pods)), Selector: s.Selector(), Template: s.Template,
					UpdateStrategy: v1beta1.CloneSetUpdateStrategy{
						Type: v1beta1.RollingUpdate,
						RollingUpdate: &v1beta1.RollingUpdateCloneSet{
							PodUpdatePolicy: v1beta1.InPlaceIfPossible, MaxUnavailable: &s.MaxUnavailable,
						},
					},
				},
			}
		},
		Settled: func(object client.Object, pods int) bool {
			set, ok := object.(*v1beta1.CloneSet)
			want, s := int32(pods), &set.Status
			return ok && s.ObservedGeneration >= set.Generation &&
				s.Replicas == want && s.UpdatedAvailableReplicas == want && s.AvailableReplicas == want
		},
	}}
}

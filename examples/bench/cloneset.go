package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/config"
)

// cloneSet is the CloneSet of apps.kruise.io, of whichever manager.
func cloneSet() workload {
	return workload{
		name: "cloneset", about: "CloneSet of apps.kruise.io",
		install: config.InstallCRDs,
		list:    func() client.ObjectList { return &v1beta1.CloneSetList{} },
		object: func(s shape) client.Object {
			return &v1beta1.CloneSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.name},
				Spec: v1beta1.CloneSetSpec{
					Replicas: ptr.To(int32(s.pods)), Selector: s.selector(), Template: s.template,
					UpdateStrategy: v1beta1.CloneSetUpdateStrategy{
						Type: v1beta1.RollingUpdate,
						RollingUpdate: &v1beta1.RollingUpdateCloneSet{
							PodUpdatePolicy: v1beta1.InPlaceIfPossible, MaxUnavailable: &s.maxUnavailable,
						},
					},
				},
			}
		},
		settled: func(object client.Object, pods int) bool {
			set, ok := object.(*v1beta1.CloneSet)
			want, s := int32(pods), &set.Status
			return ok && s.ObservedGeneration >= set.Generation &&
				s.Replicas == want && s.UpdatedAvailableReplicas == want && s.AvailableReplicas == want
		},
	}
}

package statefulset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise"
)

// Row describes the kind to the code that all kinds share.
func Row() kind.Row {
	workers := 3
	return kind.Row{
		Kind: v1beta1.GroupVersion.WithKind("StatefulSet"), Resource: "statefulsets", Converted: true,
		Scaled: true, Protected: true, Advanced: true,
		AddToScheme: v1beta1.AddToScheme,
		Controller:  ControllerName, Workers: &workers,
		OpensGate: true,
		Setup: func(ctx context.Context, mgr ctrl.Manager, c client.Client, shared kruise.Options) error {
			return Setup(ctx, mgr, c, shared)
		},
		Rights:    kind.Rights{Objects: []string{"get", "list", "watch"}, Status: true, Owns: true},
		Admission: func(options admission.Options) admission.Endpoint { return endpoint(options) },
		Sample: kind.Sample{
			List: func() client.ObjectList { return &v1beta1.StatefulSetList{} },
			Object: func(s kind.Shape) client.Object {
				s.Template.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: apps.ConditionInPlaceUpdateReady}}
				return &v1beta1.StatefulSet{
					ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name},
					Spec: v1beta1.StatefulSetSpec{
						Replicas: &s.Replicas, Selector: s.Selector, Template: s.Template, PodManagementPolicy: appsv1.ParallelPodManagement,
						UpdateStrategy: v1beta1.StatefulSetUpdateStrategy{
							Type: appsv1.RollingUpdateStatefulSetStrategyType,
							RollingUpdate: &v1beta1.RollingUpdateStatefulSet{
								PodUpdatePolicy: v1beta1.InPlaceIfPossible, MaxUnavailable: &s.MaxUnavailable,
							},
						},
					},
				}
			},
			Settled: func(object client.Object, pods int) bool {
				set, ok := object.(*v1beta1.StatefulSet)
				want, s := int32(pods), &set.Status
				return ok && s.ObservedGeneration >= set.Generation &&
					s.Replicas == want && s.UpdatedAvailableReplicas == want && s.AvailableReplicas == want
			},
		},
	}
}

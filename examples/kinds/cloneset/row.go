package cloneset

import (
	"context"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise"
)

// Row describes the kind to the code that all kinds share.
func Row() kind.Row {
	workers, excludePreparingDelete := 3, false
	return kind.Row{
		Kind: v1beta1.GroupVersion.WithKind("CloneSet"), Resource: "clonesets", Converted: true, Released: "v1alpha1",
		Scaled: true, Protected: true,
		AddToScheme: v1beta1.AddToScheme,
		Controller:  ControllerName, Workers: &workers,
		Flags: func(fs *pflag.FlagSet) {
			fs.BoolVar(&excludePreparingDelete, "cloneset-scaling-exclude-preparing-delete", false,
				"replace Pods whose deletion waits for a hook before they are gone, for every CloneSet")
		},
		OpensGate: true,
		Setup: func(ctx context.Context, mgr ctrl.Manager, c client.Client, shared kruise.Options) error {
			return Setup(ctx, mgr, c, Options{Options: shared, ExcludePreparingDelete: excludePreparingDelete})
		},
		Rights: kind.Rights{
			Objects: []string{"get", "list", "watch", "patch"}, Status: true, Owns: true, Why: "Finished names in podsToDelete are removed by a patch.",
		},
		Admission: func(options admission.Options) admission.Endpoint { return endpoint(options) },
		Sample: kind.Sample{
			List: func() client.ObjectList { return &v1beta1.CloneSetList{} },
			Object: func(s kind.Shape) client.Object {
				return &v1beta1.CloneSet{
					ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name},
					Spec: v1beta1.CloneSetSpec{
						Replicas: &s.Replicas, Selector: s.Selector, Template: s.Template,
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
		},
	}
}

package daemonset

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
	workers, byScheduler := 3, true
	return kind.Row{
		Kind: v1beta1.GroupVersion.WithKind("DaemonSet"), Resource: "daemonsets", Converted: true,
		Advanced:    true,
		AddToScheme: v1beta1.AddToScheme,
		Controller:  ControllerName, Workers: &workers,
		Flags: func(fs *pflag.FlagSet) {
			fs.BoolVar(&byScheduler, "assign-pods-by-scheduler", true,
				"leave it to the scheduler to bind Pods of DaemonSets to their Nodes; without it they are bound when they are created")
		},
		OpensGate: true,
		Setup: func(ctx context.Context, mgr ctrl.Manager, c client.Client, shared kruise.Options) error {
			return Setup(ctx, mgr, c, Options{Options: shared, BindPods: !byScheduler})
		},
		Rights:    kind.Rights{Objects: []string{"get", "list", "watch"}, Status: true, Owns: true},
		Admission: func(options admission.Options) admission.Endpoint { return endpoint(options) },
		Sample: kind.Sample{
			PerNode: true,
			List:    func() client.ObjectList { return &v1beta1.DaemonSetList{} },
			Object: func(s kind.Shape) client.Object {
				return &v1beta1.DaemonSet{
					ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name},
					Spec: v1beta1.DaemonSetSpec{
						Selector: s.Selector, Template: s.Template,
						UpdateStrategy: v1beta1.DaemonSetUpdateStrategy{
							Type: v1beta1.RollingUpdateDaemonSetStrategyType,
							RollingUpdate: &v1beta1.RollingUpdateDaemonSet{
								RollingUpdateType: v1beta1.InPlaceIfPossibleRollingUpdateType, MaxUnavailable: &s.MaxUnavailable,
							},
						},
					},
				}
			},
			Settled: func(object client.Object, pods int) bool {
				set, ok := object.(*v1beta1.DaemonSet)
				want, s := int32(pods), &set.Status
				return ok && s.ObservedGeneration >= set.Generation &&
					s.DesiredNumberScheduled == want && s.UpdatedNumberScheduled == want && s.NumberAvailable == want
			},
		},
	}
}

package uniteddeployment

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise/metrics"
	"github.com/workloadkit/workloadkit/podstate"
)

// Row describes the kind to the code that all kinds share.
func Row() kind.Row {
	workers := 3
	return kind.Row{
		Kind: v1beta1.GroupVersion.WithKind("UnitedDeployment"), Resource: "uniteddeployments", Converted: true, Released: "v1alpha1",
		Scaled: true, Protected: true,
		AddToScheme: v1beta1.AddToScheme,
		Controller:  ControllerName, Workers: &workers,
		Metrics: metrics.Work{Things: "workloads", Label: "action", Help: "Workloads of subsets, by what was done to them: created, updated, deleted."}.Metrics,
		Cached: []kind.Cached{
			{Object: &appsv1.Deployment{}, Keep: keepWorkload}, {Object: &appsv1.StatefulSet{}, Keep: keepWorkload},
		},
		PodFields: podFields,
		Setup:     Setup,
		Rights: kind.Rights{
			Objects: []string{"get", "list", "watch"}, Status: true, Owns: true,
			More: []kind.Right{
				{
					Group: "apps", Resources: []string{"deployments", "statefulsets"}, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"},
					Why: "Workloads of the subsets of UnitedDeployments. Admission judges templates by dry runs of creations.",
				},
				{Group: "apps", Resources: []string{"replicasets"}, Verbs: []string{"list", "watch"}, Why: "The Pods of such Deployments."},
				{
					Group: apps.Group, Resources: []string{"clonesets", "statefulsets"}, Verbs: []string{"create", "patch", "delete"},
					Why: "Workloads of the subsets of UnitedDeployments.",
				},
			},
		},
		Admission: func(options admission.Options) admission.Endpoint { return endpoint(options) },
	}
}

// keepWorkload copies, for the cache, the fields of a subset's workload that the controller reads.
func keepWorkload(kept, found client.Object) {
	if !hasSubset(found) {
		return
	}
	kept.SetAnnotations(found.GetAnnotations())
	switch found := found.(type) {
	case *appsv1.Deployment:
		if kept, ok := kept.(*appsv1.Deployment); ok {
			kept.Spec.Strategy, kept.Spec.Paused, kept.Status = found.Spec.Strategy, found.Spec.Paused, found.Status
		}
	case *appsv1.StatefulSet:
		if kept, ok := kept.(*appsv1.StatefulSet); ok {
			kept.Spec.UpdateStrategy, kept.Status = found.Spec.UpdateStrategy, found.Status
		}
	}
}

// podFields copies, for the cache, the fields that the controller reads of a subset's Pods: whether the Pod is ready
// and bound to a Node.
func podFields(kept, pod *corev1.Pod) {
	if !hasSubset(pod) {
		return
	}
	for _, name := range []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled} {
		if c := podstate.Condition(pod, name); c != nil && podstate.Condition(kept, name) == nil {
			kept.Status.Conditions = append(slices.Clip(kept.Status.Conditions), *c)
		}
	}
}

package persistentpodstate

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/persistentpodstate"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/reason"
)

// TargetUnknown means that the controller cannot find out whether the target exists, because the target's kind is not
// configured, not installed, or not readable.
const TargetUnknown reason.Code = "TargetUnknown"

// target finds the target of a PersistentPodState in the cache; nil if the target does not exist. An error means that
// it is unknown whether the target exists.
func target(of *workloads.Numbered, namespace string, s *settings) (*workloads.Workload, error) {
	workload, known := of.Get(s.kind, namespace, s.name)
	if !known {
		return nil, reason.Reason{
			Code: TargetUnknown, Path: "spec.targetRef", New: s.kind.String(),
			Detail: "it is no StatefulSet, and no kind that is listed, installed and may be watched: nothing is recorded, and records stay",
			Remedy: "list the kind in ConfigMap " + apps.ConfigurationName + ", install its CRD, and let the manager get, list and watch it",
		}
	}
	return workload, nil
}

// byTarget returns the keys under which a PersistentPodState is found in the index by target.
func byTarget(state *v1beta1.PersistentPodState) []string {
	kind, err := api.TargetKind(state.Spec.TargetReference)
	if err != nil {
		return nil
	}
	return []string{targetKey(kind, state.Namespace, state.Spec.TargetReference.Name)}
}

// targetKey returns the index key of a target, without the target's API version.
func targetKey(kind schema.GroupKind, namespace, name string) string {
	return kind.String() + "/" + namespace + "/" + name
}

// controllerOf returns the controller of a Pod. ok is false if Pods of the controller's kind are not recorded.
func controllerOf(pod *corev1.Pod) (kind schema.GroupKind, name string, ok bool) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return kind, "", false
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return kind, "", false
	}
	kind = schema.GroupKind{Group: gv.Group, Kind: ref.Kind}
	return kind, ref.Name, canBeTarget(kind)
}

// canBeTarget reports whether Pods of a workload kind can be recorded. Such kinds are StatefulSets, and kinds that do
// not belong to Kubernetes.
func canBeTarget(kind schema.GroupKind) bool {
	switch kind.Group {
	case "", "apps", "batch":
		return kind == api.BuiltIn()
	default:
		return true
	}
}

package persistentpodstate

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/persistentpodstate"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/reason"
)

// TargetUnknown means that the existence of the target is unknown because its kind is not listed, not installed, or not
// readable.
const TargetUnknown reason.Code = "TargetUnknown"

// target finds the target of a PersistentPodState in memory, or nil for a missing target. The error means: the spec
// makes no sense, or the answer is unknown.
func target(of *workloads.Numbered, state *v1beta1.PersistentPodState) (schema.GroupKind, *workloads.Workload, error) {
	if undecodable := state.Spec.Undecodable; len(undecodable) > 0 {
		return schema.GroupKind{}, nil, undecodable[0]
	}
	ref := state.Spec.TargetReference
	kind, err := api.TargetKind(ref)
	if err != nil {
		return kind, nil, reason.Reason{Code: TargetUnknown, Path: "spec.targetRef.apiVersion", New: ref.APIVersion, Detail: err.Error()}
	}
	workload, known := of.Get(kind, state.Namespace, ref.Name)
	if !known {
		return kind, nil, reason.Reason{
			Code: TargetUnknown, Path: "spec.targetRef", New: kind.String(),
			Detail: "it is no StatefulSet, and no kind that is listed, installed and may be watched: nothing is recorded, and records stay",
			Remedy: "list the kind in ConfigMap " + apps.ConfigurationName + ", install its CRD, and let the manager get, list and watch it",
		}
	}
	return kind, workload, nil
}

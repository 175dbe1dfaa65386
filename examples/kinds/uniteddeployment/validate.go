package uniteddeployment

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// validateSpec returns all errors in a spec.
func validateSpec(obj *v1beta1.UnitedDeployment) field.ErrorList {
	_, problems, warnings := resolve(obj)
	return append(problems.Refusals(), warnings.Refusals()...)
}

// validateCreate returns the errors in a new object with defaults.
func validateCreate(obj *v1beta1.UnitedDeployment) field.ErrorList {
	return append(validation.Name(obj, apivalidation.NameIsDNSSubdomain), validateSpec(obj)...)
}

// validateUpdate returns the errors in an update, by the rules for updates and by all rules for the spec. Errors that
// old has too, at the same path with the same value, are left out.
func validateUpdate(obj, old *v1beta1.UnitedDeployment) field.ErrorList {
	errs := validation.NewProblems(validateSpec(obj), validateSpec(old))
	if !apiequality.Semantic.DeepEqual(obj.Spec.Selector, old.Spec.Selector) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "selector"), "cannot change: the workloads of subsets would keep theirs; make another UnitedDeployment"))
	}
	errs = append(errs, validateSubsets(obj.Spec.Topology.Subsets, old.Spec.Topology.Subsets)...)
	return append(errs, validateFixed(&obj.Spec.Template, &old.Spec.Template)...)
}

// validateSubsets returns errors for changes of the Nodes of an existing subset, because existing Pods would stay on
// the old Nodes.
func validateSubsets(next, old []v1beta1.Subset) (errs field.ErrorList) {
	const fixed = "cannot change while the subset exists; add another subset"
	for i := range next {
		path, name := subsetPath(next[i].Name), next[i].Name
		at := slices.IndexFunc(old, func(s v1beta1.Subset) bool { return s.Name == name })
		if at < 0 {
			continue
		}
		if !apiequality.Semantic.DeepEqual(next[i].NodeSelectorTerm, old[at].NodeSelectorTerm) {
			errs = append(errs, field.Forbidden(path.Child("nodeSelectorTerm"), fixed))
		}
		if !apiequality.Semantic.DeepEqual(next[i].Tolerations, old[at].Tolerations) {
			errs = append(errs, field.Forbidden(path.Child("tolerations"), fixed))
		}
	}
	return errs
}

// validateFixed returns errors for changes of a template that the API server would refuse for the workloads.
func validateFixed(next, old *v1beta1.SubsetTemplate) (errs field.ErrorList) {
	if a, b := next.StatefulSetTemplate, old.StatefulSetTemplate; a != nil && b != nil {
		free := a.Spec.DeepCopy()
		free.Template, free.UpdateStrategy, free.MinReadySeconds = b.Spec.Template, b.Spec.UpdateStrategy, b.Spec.MinReadySeconds
		free.PersistentVolumeClaimRetentionPolicy, free.Ordinals = b.Spec.PersistentVolumeClaimRetentionPolicy, b.Spec.Ordinals
		free.Replicas, free.RevisionHistoryLimit = b.Spec.Replicas, b.Spec.RevisionHistoryLimit
		if !apiequality.Semantic.DeepEqual(free, &b.Spec) {
			errs = append(errs, forbidden("statefulSetTemplate", "template, updateStrategy, persistentVolumeClaimRetentionPolicy, minReadySeconds, ordinals and revisionHistoryLimit"))
		}
	}
	if a, b := next.AdvancedStatefulSetTemplate, old.AdvancedStatefulSetTemplate; a != nil && b != nil {
		if !apiequality.Semantic.DeepEqual(a.Spec.Selector, b.Spec.Selector) || a.Spec.ServiceName != b.Spec.ServiceName || managementOf(&a.Spec) != managementOf(&b.Spec) {
			errs = append(errs, forbidden("advancedStatefulSetTemplate", "all fields but selector, serviceName and podManagementPolicy"))
		}
	}
	return errs
}

// managementOf returns the Pod management policy, or the default if none is set.
func managementOf(spec *v1beta1.StatefulSetSpec) appsv1.PodManagementPolicyType {
	if spec.PodManagementPolicy == "" {
		return appsv1.OrderedReadyPodManagement
	}
	return spec.PodManagementPolicy
}

func forbidden(template, free string) *field.Error {
	return field.Forbidden(field.NewPath("spec", "template", template, "spec"), fmt.Sprintf("updates may change only %s", free))
}

func validateDelete(obj *v1beta1.UnitedDeployment) field.ErrorList {
	return validation.DeletionProtected("UnitedDeployment", obj.Labels, replicasOf(obj))
}

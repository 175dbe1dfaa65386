package conversion

import (
	"fmt"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

const kindCloneSet = "CloneSet"

// ToV1beta1 converts and restores the values kept by [ToV1alpha1]. The result shares no memory with src. An error
// means: src holds values outside JSON, such as an IntOrString of no type.
func ToV1beta1(src *v1alpha1.CloneSet) (*v1beta1.CloneSet, error) {
	src = src.DeepCopy()
	note := takeNote(src, apps.AnnotationV1beta1Only)
	dropAnnotation(src, apps.AnnotationV1alpha1Only)
	dst := plainBeta(src)
	if err := note.restore(betaFields(dst)); err != nil {
		return nil, fmt.Errorf("restoring fields of v1beta1: %w", err)
	}
	back := plainAlpha(dst)
	if err := writeNote(dst, apps.AnnotationV1alpha1Only, alphaFields(src), alphaFields(back)); err != nil {
		return nil, fmt.Errorf("keeping fields of v1alpha1: %w", err)
	}
	return dst, nil
}

// ToV1alpha1 converts and restores the values kept by [ToV1beta1]. The result shares no memory with src. An error
// means: src holds values outside JSON, such as an IntOrString of no type, or was not decoded in full.
func ToV1alpha1(src *v1beta1.CloneSet) (*v1alpha1.CloneSet, error) {
	if len(src.Spec.Undecodable) > 0 {
		return nil, src.Spec.Undecodable[0]
	}
	src = src.DeepCopy()
	note := takeNote(src, apps.AnnotationV1alpha1Only)
	dropAnnotation(src, apps.AnnotationV1beta1Only)
	dst := plainAlpha(src)
	if err := note.restore(alphaFields(dst)); err != nil {
		return nil, fmt.Errorf("restoring fields of v1alpha1: %w", err)
	}
	back := plainBeta(dst)
	if err := writeNote(dst, apps.AnnotationV1beta1Only, betaFields(src), betaFields(back)); err != nil {
		return nil, fmt.Errorf("keeping fields of v1beta1: %w", err)
	}
	return dst, nil
}

// plainBeta converts without any annotation.
func plainBeta(src *v1alpha1.CloneSet) *v1beta1.CloneSet {
	src = src.DeepCopy()
	dst := &v1beta1.CloneSet{TypeMeta: src.TypeMeta, ObjectMeta: src.ObjectMeta, Status: src.Status}
	dst.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(kindCloneSet))
	spec := &src.Spec
	dst.Spec = v1beta1.CloneSetSpec{
		Replicas:             spec.Replicas,
		Selector:             spec.Selector,
		Template:             spec.Template,
		VolumeClaimTemplates: spec.VolumeClaimTemplates,
		ScaleStrategy: v1beta1.CloneSetScaleStrategy{
			PodsToDelete:           spec.ScaleStrategy.PodsToDelete,
			MaxUnavailable:         spec.ScaleStrategy.MaxUnavailable,
			EnablePVCReuse:         !spec.ScaleStrategy.DisablePVCReuse,
			ExcludePreparingDelete: src.Labels[apps.LabelExcludePreparingDelete] == labelTrue,
		},
		UpdateStrategy:          betaStrategy(src),
		RevisionHistoryLimit:    spec.RevisionHistoryLimit,
		MinReadySeconds:         spec.MinReadySeconds,
		Lifecycle:               spec.Lifecycle,
		ProgressDeadlineSeconds: spec.ProgressDeadlineSeconds,
	}
	return dst
}

func betaStrategy(src *v1alpha1.CloneSet) v1beta1.CloneSetUpdateStrategy {
	flat := src.Spec.UpdateStrategy
	if flat.Type == v1alpha1.OnDelete {
		return v1beta1.CloneSetUpdateStrategy{Type: v1beta1.OnDelete}
	}
	policy := v1beta1.CloneSetPodUpdatePolicy(flat.Type)
	switch policy {
	case "", v1beta1.ReCreate, v1beta1.InPlaceIfPossible, v1beta1.InPlaceOnly:
	default:
		policy = v1beta1.ReCreate
	}
	return v1beta1.CloneSetUpdateStrategy{
		Type: v1beta1.RollingUpdate,
		RollingUpdate: &v1beta1.RollingUpdateCloneSet{
			PodUpdatePolicy:       policy,
			Partition:             flat.Partition,
			MaxUnavailable:        flat.MaxUnavailable,
			MaxSurge:              flat.MaxSurge,
			Paused:                flat.Paused,
			PriorityStrategy:      flat.PriorityStrategy,
			ScatterStrategy:       flat.ScatterStrategy,
			InPlaceUpdateStrategy: betaInPlace(flat.InPlaceUpdateStrategy, policy, src.Annotations),
		},
	}
}

// plainAlpha converts without any annotation.
func plainAlpha(src *v1beta1.CloneSet) *v1alpha1.CloneSet {
	src = src.DeepCopy()
	dst := &v1alpha1.CloneSet{TypeMeta: src.TypeMeta, ObjectMeta: src.ObjectMeta, Status: src.Status}
	dst.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kindCloneSet))
	spec := &src.Spec
	dst.Spec = v1alpha1.CloneSetSpec{
		Replicas:             spec.Replicas,
		Selector:             spec.Selector,
		Template:             spec.Template,
		VolumeClaimTemplates: spec.VolumeClaimTemplates,
		ScaleStrategy: v1alpha1.CloneSetScaleStrategy{
			PodsToDelete:    spec.ScaleStrategy.PodsToDelete,
			MaxUnavailable:  spec.ScaleStrategy.MaxUnavailable,
			DisablePVCReuse: !spec.ScaleStrategy.EnablePVCReuse,
		},
		UpdateStrategy:          alphaStrategy(spec.UpdateStrategy),
		RevisionHistoryLimit:    spec.RevisionHistoryLimit,
		MinReadySeconds:         spec.MinReadySeconds,
		Lifecycle:               spec.Lifecycle,
		ProgressDeadlineSeconds: spec.ProgressDeadlineSeconds,
	}
	showExclude(dst, spec.ScaleStrategy.ExcludePreparingDelete)
	if spec.UpdateStrategy.Type != v1beta1.OnDelete {
		showImages(dst, spec.UpdateStrategy.RollingUpdate)
	}
	return dst
}

func alphaStrategy(nested v1beta1.CloneSetUpdateStrategy) v1alpha1.CloneSetUpdateStrategy {
	if nested.Type == v1beta1.OnDelete {
		return v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.OnDelete}
	}
	rolling := nested.RollingUpdate
	if rolling == nil {
		return v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.ReCreate}
	}
	kind := v1alpha1.CloneSetUpdateStrategyType(rolling.PodUpdatePolicy)
	if kind == v1alpha1.OnDelete {
		// No policy of v1beta1, and as a type of v1alpha1 the value would have a second meaning.
		kind = v1alpha1.ReCreate
	}
	return v1alpha1.CloneSetUpdateStrategy{
		Type:                  kind,
		Partition:             rolling.Partition,
		MaxUnavailable:        rolling.MaxUnavailable,
		MaxSurge:              rolling.MaxSurge,
		Paused:                rolling.Paused,
		PriorityStrategy:      rolling.PriorityStrategy,
		ScatterStrategy:       rolling.ScatterStrategy,
		InPlaceUpdateStrategy: alphaInPlace(rolling.InPlaceUpdateStrategy),
	}
}

package conversion

import (
	"encoding/json"
	"fmt"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

const kindDaemonSet = "DaemonSet"

// DaemonSetToV1beta1 converts and restores the values kept by [DaemonSetToV1alpha1]. The result shares no memory with
// src. An error means: src holds values outside JSON, such as an IntOrString of no type.
//
// The type Surging, unknown to v1beta1, becomes Standard with unchanged numbers. The annotation
// [apps.AnnotationProgressiveCreate] stands for scaleStrategy.partitionedScaling: a v1alpha1 object shows the
// annotation exactly when the field is true.
func DaemonSetToV1beta1(src *v1alpha1.DaemonSet) (*v1beta1.DaemonSet, error) {
	src = src.DeepCopy()
	note := takeNote(src, apps.AnnotationV1beta1Only)
	dropAnnotation(src, apps.AnnotationV1alpha1Only)
	dst := plainDaemonSetBeta(src)
	if err := note.restore(daemonSetBetaFields(dst)); err != nil {
		return nil, fmt.Errorf("restoring fields of v1beta1: %w", err)
	}
	back := plainDaemonSetAlpha(dst)
	if err := writeNote(dst, apps.AnnotationV1alpha1Only, daemonSetAlphaFields(src), daemonSetAlphaFields(back)); err != nil {
		return nil, fmt.Errorf("keeping fields of v1alpha1: %w", err)
	}
	return dst, nil
}

// DaemonSetToV1alpha1 converts and restores the values kept by [DaemonSetToV1beta1]. The result shares no memory with
// src. An error means: src holds values outside JSON, such as an IntOrString of no type, or was not decoded in full.
func DaemonSetToV1alpha1(src *v1beta1.DaemonSet) (*v1alpha1.DaemonSet, error) {
	if len(src.Spec.Undecodable) > 0 {
		return nil, src.Spec.Undecodable[0]
	}
	src = src.DeepCopy()
	note := takeNote(src, apps.AnnotationV1alpha1Only)
	dropAnnotation(src, apps.AnnotationV1beta1Only)
	dst := plainDaemonSetAlpha(src)
	if err := note.restore(daemonSetAlphaFields(dst)); err != nil {
		return nil, fmt.Errorf("restoring fields of v1alpha1: %w", err)
	}
	back := plainDaemonSetBeta(dst)
	if err := writeNote(dst, apps.AnnotationV1beta1Only, daemonSetBetaFields(src), daemonSetBetaFields(back)); err != nil {
		return nil, fmt.Errorf("keeping fields of v1beta1: %w", err)
	}
	return dst, nil
}

func daemonSetToBeta(object []byte) ([]byte, error) {
	object, err := withStatusKey(object, "daemonSetHash", "updateRevision")
	if err != nil {
		return nil, err
	}
	return convertJSON(object, v1beta1.GroupVersion.String(), specKeys[:], DaemonSetToV1beta1)
}

func daemonSetToAlpha(object []byte) ([]byte, error) {
	object, err := withStatusKey(object, "updateRevision", "daemonSetHash")
	if err != nil {
		return nil, err
	}
	return convertJSON(object, v1alpha1.GroupVersion.String(), specKeys[:], DaemonSetToV1alpha1)
}

// withStatusKey returns the object with a renamed key in its status and an unchanged value.
func withStatusKey(object []byte, from, to string) ([]byte, error) {
	var all, status map[string]json.RawMessage
	if err := json.Unmarshal(object, &all); err != nil {
		return nil, err
	}
	raw, found := all[statusKey]
	if !found {
		return object, nil
	}
	if err := json.Unmarshal(raw, &status); err != nil {
		return nil, fmt.Errorf("%s: %w", statusKey, err)
	}
	value, found := status[from]
	if !found {
		return object, nil
	}
	delete(status, from)
	status[to] = value
	var err error
	if all[statusKey], err = json.Marshal(status); err != nil {
		return nil, fmt.Errorf("%s: %w", statusKey, err)
	}
	return json.Marshal(all)
}

const statusKey = "status"

// daemonSetParts returns the parts as in the Go types of a DaemonSet.
func daemonSetParts(object []byte, apiVersion string) (map[string]any, error) {
	if apiVersion == v1alpha1.GroupVersion.String() {
		return readParts[v1alpha1.DaemonSet](object, specKeys[:])
	}
	return readParts[v1beta1.DaemonSet](object, specKeys[:])
}

// plainDaemonSetBeta converts without the annotation of package conversion.
func plainDaemonSetBeta(src *v1alpha1.DaemonSet) *v1beta1.DaemonSet {
	src = src.DeepCopy()
	dst := &v1beta1.DaemonSet{TypeMeta: src.TypeMeta, ObjectMeta: src.ObjectMeta}
	dst.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(kindDaemonSet))
	spec, status := &src.Spec, &src.Status
	dst.Spec = v1beta1.DaemonSetSpec{
		Selector:             spec.Selector,
		Template:             spec.Template,
		UpdateStrategy:       spec.UpdateStrategy,
		MinReadySeconds:      spec.MinReadySeconds,
		BurstReplicas:        spec.BurstReplicas,
		RevisionHistoryLimit: spec.RevisionHistoryLimit,
		Lifecycle:            spec.Lifecycle,
	}
	if src.Annotations[apps.AnnotationProgressiveCreate] == annotationTrue {
		dst.Spec.ScaleStrategy = &v1beta1.DaemonSetScaleStrategy{PartitionedScaling: true}
	}
	if rolling := dst.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.RollingUpdateType == v1alpha1.SurgingRollingUpdateType {
		rolling.RollingUpdateType = v1beta1.StandardRollingUpdateType
	}
	dst.Status = v1beta1.DaemonSetStatus{
		CurrentNumberScheduled: status.CurrentNumberScheduled,
		NumberMisscheduled:     status.NumberMisscheduled,
		DesiredNumberScheduled: status.DesiredNumberScheduled,
		NumberReady:            status.NumberReady,
		ObservedGeneration:     status.ObservedGeneration,
		UpdatedNumberScheduled: status.UpdatedNumberScheduled,
		NumberAvailable:        status.NumberAvailable,
		NumberUnavailable:      status.NumberUnavailable,
		CollisionCount:         status.CollisionCount,
		Conditions:             status.Conditions,
		UpdateRevision:         status.DaemonSetHash,
	}
	return dst
}

// plainDaemonSetAlpha converts without the annotation of package conversion.
func plainDaemonSetAlpha(src *v1beta1.DaemonSet) *v1alpha1.DaemonSet {
	src = src.DeepCopy()
	dst := &v1alpha1.DaemonSet{TypeMeta: src.TypeMeta, ObjectMeta: src.ObjectMeta}
	dst.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kindDaemonSet))
	spec, status := &src.Spec, &src.Status
	dst.Spec = v1alpha1.DaemonSetSpec{
		Selector:             spec.Selector,
		Template:             spec.Template,
		UpdateStrategy:       spec.UpdateStrategy,
		MinReadySeconds:      spec.MinReadySeconds,
		BurstReplicas:        spec.BurstReplicas,
		RevisionHistoryLimit: spec.RevisionHistoryLimit,
		Lifecycle:            spec.Lifecycle,
	}
	dst.Status = v1alpha1.DaemonSetStatus{
		CurrentNumberScheduled: status.CurrentNumberScheduled,
		NumberMisscheduled:     status.NumberMisscheduled,
		DesiredNumberScheduled: status.DesiredNumberScheduled,
		NumberReady:            status.NumberReady,
		ObservedGeneration:     status.ObservedGeneration,
		UpdatedNumberScheduled: status.UpdatedNumberScheduled,
		NumberAvailable:        status.NumberAvailable,
		NumberUnavailable:      status.NumberUnavailable,
		CollisionCount:         status.CollisionCount,
		Conditions:             status.Conditions,
		DaemonSetHash:          status.UpdateRevision,
	}
	var partitioned *bool
	if scale := spec.ScaleStrategy; scale != nil && scale.PartitionedScaling {
		partitioned = &scale.PartitionedScaling
	}
	show(dst, apps.AnnotationProgressiveCreate, partitioned, readTrue, func(bool) string { return annotationTrue })
	return dst
}

const annotationTrue = "true"

// readTrue returns nil for every text except "true".
func readTrue(text string) *bool {
	if text != annotationTrue {
		return nil
	}
	yes := true
	return &yes
}

func daemonSetBetaFields(obj *v1beta1.DaemonSet) fields {
	f := daemonSetFields(&obj.Labels, &obj.Annotations, &obj.Spec.UpdateStrategy)
	f.strategies[scaleKey] = &obj.Spec.ScaleStrategy
	return f
}

func daemonSetAlphaFields(obj *v1alpha1.DaemonSet) fields {
	return daemonSetFields(&obj.Labels, &obj.Annotations, &obj.Spec.UpdateStrategy)
}

// daemonSetFields are the fields of both versions.
func daemonSetFields(labels, annotations *map[string]string, strategy *v1beta1.DaemonSetUpdateStrategy) fields {
	return fields{
		labels: labels, annotations: annotations, when: []string{string(strategy.Type)},
		strategies:     map[string]any{updateKey: strategy},
		ownAnnotations: []string{apps.AnnotationProgressiveCreate},
	}
}

package probes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/node/probing"
	"github.com/workloadkit/workloadkit/reason"
)

// Annotations returns the names of the annotations in which the controllers store data about probes on Pods.
func Annotations() probing.Annotations {
	return probing.Annotations{Ledger: apps.AnnotationProbeMarks, List: apps.AnnotationPodProbeMarkerList}
}

// Resolve returns the probing.Marker for a PodProbeMarker, without invalid probes and without an invalid selector. A
// spec with undecodable fields has no effect at all. problems contains the errors.
func Resolve(obj *v1alpha1.PodProbeMarker) (marker probing.Marker, problems reason.List) {
	marker = probing.Marker{Namespace: obj.Namespace, Name: obj.Name, Selector: labels.Nothing()}
	if len(obj.Spec.Undecodable) > 0 { // further checks would only report missing values
		for _, p := range obj.Spec.Undecodable {
			problems = append(problems, invalid(obj, p.Path, "cannot be decoded: "+p.Detail))
		}
		return marker, problems
	}
	refused := ValidateSpec(obj)
	for _, err := range refused {
		problems = append(problems, invalid(obj, err.Field, err.ErrorBody()))
	}
	if compiled, err := metav1.LabelSelectorAsSelector(obj.Spec.Selector); err == nil && !hasFault(refused, "spec.selector") {
		marker.Selector = compiled
	}
	for i := range obj.Spec.Probes {
		p := &obj.Spec.Probes[i]
		if hasFault(refused, fmt.Sprintf("spec.probes[%d]", i)) {
			continue
		}
		probe := probing.Probe{Name: p.Name, Container: p.ContainerName, Probe: p.Probe.Probe, Condition: corev1.PodConditionType(p.PodConditionType)}
		for _, policy := range p.MarkerPolicy {
			probe.Marks = append(probe.Marks, probing.Marks{State: probing.State(policy.State), Labels: policy.Labels, Annotations: policy.Annotations})
		}
		marker.Probes = append(marker.Probes, probe)
	}
	return marker, problems
}

func invalid(obj *v1alpha1.PodProbeMarker, path, detail string) reason.Reason {
	return reason.Reason{Code: probing.InvalidMarker, Object: reason.ObjectOf("PodProbeMarker", obj), Path: path, Detail: detail}
}

// hasFault reports whether one of the errors is about the field at path, or about a field below path.
func hasFault(errs field.ErrorList, path string) bool {
	return slices.ContainsFunc(errs, func(err *field.Error) bool {
		rest, isOf := strings.CutPrefix(err.Field, path)
		return isOf && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

package probes

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/node/probing"
	"github.com/workloadkit/workloadkit/reason"
)

// Annotations returns the names of the annotations in which the controllers keep their data on Pods.
func Annotations() probing.Annotations {
	return probing.Annotations{Ledger: apps.AnnotationProbeMarks, List: apps.AnnotationPodProbeMarkerList}
}

// Resolve returns what a PodProbeMarker asks for. Parts that OpenKruise would have refused have no effect, and problems
// says why.
func Resolve(obj *v1alpha1.PodProbeMarker) (marker probing.Marker, problems reason.List) {
	marker = probing.Marker{Namespace: obj.Namespace, Name: obj.Name, Selector: labels.Nothing()}
	refused := ValidateSpec(obj)
	for _, err := range refused {
		problems = append(problems, reason.Reason{Code: probing.InvalidMarker, Object: reason.ObjectOf("PodProbeMarker", obj), Path: err.Field, Detail: err.ErrorBody()})
	}
	if s := obj.Spec.Selector; s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0 {
		if compiled, err := metav1.LabelSelectorAsSelector(s); err == nil {
			marker.Selector = compiled
		}
	}
	for i := range obj.Spec.Probes {
		p := &obj.Spec.Probes[i]
		if isBuiltIn(p.PodConditionType) {
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

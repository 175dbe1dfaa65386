package inplaceupdate

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/reason"
)

func (k *Keys) reservesLabel(key string) bool { return slices.Contains(k.Reserved, key) }

func (k *Keys) reservesAnnotation(key string) bool {
	switch key {
	case "":
		return false
	case k.StateAnnotation, k.GraceAnnotation, k.LegacyStateAnnotation, k.LegacyGraceAnnotation, k.RuntimeMetaAnnotation:
		return true
	}
	return slices.Contains(k.Reserved, key)
}

// withoutReserved removes the changes of the operator's own keys. The maps belong to the plan.
func (k *Keys) withoutReserved(p *Plan) {
	maps.DeleteFunc(p.Labels, func(key string, _ *string) bool { return k.reservesLabel(key) })
	maps.DeleteFunc(p.Annotations, func(key string, _ *string) bool { return k.reservesAnnotation(key) })
}

// ValidateTemplate names the labels, then the annotations, of a template reserved for the operator, sorted. Reserved
// keys have no effect, so the operator's admission should refuse such a template.
func (u *Updater) ValidateTemplate(template *corev1.PodTemplateSpec) reason.List {
	var list reason.List
	add := func(kind string, values map[string]string, reserved func(string) bool) {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if reserved(key) {
				list = append(list, reason.Reason{
					Code: ReservedKey, Path: "metadata." + kind + "[" + key + "]", New: shorten(values[key]),
					Detail: "is written on Pods by their owner", Remedy: "remove it from the template",
				})
			}
		}
	}
	add("labels", template.Labels, u.config.Keys.reservesLabel)
	add("annotations", template.Annotations, u.config.Keys.reservesAnnotation)
	return list
}

// StripReserved removes the operator's own labels and annotations from a Pod made from a template, before its creation.
// Call StripReserved before the operator adds its own keys. StripReserved modifies the metadata.
func (u *Updater) StripReserved(pod *metav1.ObjectMeta) {
	maps.DeleteFunc(pod.Labels, func(key, _ string) bool { return u.config.Keys.reservesLabel(key) })
	maps.DeleteFunc(pod.Annotations, func(key, _ string) bool { return u.config.Keys.reservesAnnotation(key) })
}

package validation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// LongRunning validates the additional rules for templates of workloads whose Pods do not end: the restartPolicy
// Always, and no activeDeadlineSeconds.
func LongRunning(template *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	spec, path := &template.Spec, path.Child("spec")
	var errs field.ErrorList
	if policy := spec.RestartPolicy; policy != "" && policy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(path.Child("restartPolicy"), policy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("activeDeadlineSeconds"), "Pods of this kind have no deadline"))
	}
	return errs
}

// Reserved returns errors for keys that the controller itself writes on Pods: the given labels, and the annotations of
// [apps.ReservedPodAnnotations]. In a template such a key would have no effect, or would request the deletion of every
// Pod. path is the path of the template's metadata.
func Reserved(template *corev1.PodTemplateSpec, labels []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	check := func(values map[string]string, reserved []string, at *field.Path) {
		for _, key := range reserved {
			if value, ok := values[key]; ok {
				errs = append(errs, field.Invalid(at.Key(key), value, "is written by the controller, and must not be in a template"))
			}
		}
	}
	check(template.Labels, labels, path.Child("labels"))
	check(template.Annotations, apps.ReservedPodAnnotations(), path.Child("annotations"))
	return errs
}

// ClaimNames validates the names of the claim templates, because each name becomes the name of a volume.
func ClaimNames(claims []corev1.PersistentVolumeClaim, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range claims {
		at, name := path.Index(i).Child("metadata", "name"), claims[i].Name
		switch {
		case name == "":
			errs = append(errs, field.Required(at, "volumeMounts refer to claims by name"))
		case names.Has(name):
			errs = append(errs, field.Duplicate(at, name))
		}
		names.Insert(name)
	}
	return errs
}

package validation

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// EphemeralContainers validates ephemeral containers that are to be added to Pods, by the rules of Kubernetes that do
// not depend on a Pod. absent are errors about required fields that are missing: the API server sets the fields when a
// Pod gets the containers.
func EphemeralContainers(containers []corev1.EphemeralContainer, path *field.Path) (invalid, absent field.ErrorList) {
	if invalid = NotTooMany(len(containers), path); len(invalid) > 0 {
		return invalid, nil
	}
	seen := map[string]bool{}
	for i := range containers {
		c, at := &containers[i].EphemeralContainerCommon, path.Index(i)
		switch {
		case c.Name == "":
			invalid = append(invalid, field.Required(at.Child("name"), "the containers of a Pod are told apart by name"))
		case seen[c.Name]:
			invalid = append(invalid, field.Duplicate(at.Child("name"), c.Name))
		default:
			for _, problem := range utilvalidation.IsDNS1123Label(c.Name) {
				invalid = append(invalid, field.Invalid(at.Child("name"), c.Name, problem))
			}
		}
		seen[c.Name] = true
		switch {
		case c.Image == "":
			invalid = append(invalid, field.Required(at.Child("image"), "name an image"))
		case strings.TrimSpace(c.Image) != c.Image:
			invalid = append(invalid, field.Invalid(at.Child("image"), c.Image, "must not begin or end with a space"))
		}
		for _, errs := range []field.ErrorList{
			policy(&absent, at.Child("imagePullPolicy"), c.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever),
			policy(&absent, at.Child("terminationMessagePolicy"), c.TerminationMessagePolicy,
				corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError),
			notEphemeral(c, at),
		} {
			invalid = append(invalid, errs...)
		}
	}
	return invalid, absent
}

func policy[T ~string](absent *field.ErrorList, path *field.Path, value T, allowed ...T) field.ErrorList {
	switch {
	case value == "":
		*absent = append(*absent, field.Required(path, "nothing is filled in before a Pod gets the container"))
	case !slices.Contains(allowed, value):
		return field.ErrorList{field.NotSupported(path, value, allowed)}
	}
	return nil
}

// notEphemeral returns errors for fields that an ephemeral container cannot have.
func notEphemeral(c *corev1.EphemeralContainerCommon, path *field.Path) (errs field.ErrorList) {
	refuse := func(isSet bool, path *field.Path) {
		if isSet {
			errs = append(errs, field.Forbidden(path, "cannot be set for an ephemeral container"))
		}
	}
	refuse(len(c.Ports) > 0, path.Child("ports"))
	refuse(len(c.Resources.Limits)+len(c.Resources.Requests)+len(c.Resources.Claims) > 0, path.Child("resources"))
	refuse(len(c.ResizePolicy) > 0, path.Child("resizePolicy"))
	refuse(c.RestartPolicy != nil, path.Child("restartPolicy"))
	refuse(len(c.RestartPolicyRules) > 0, path.Child("restartPolicyRules"))
	refuse(c.LivenessProbe != nil, path.Child("livenessProbe"))
	refuse(c.ReadinessProbe != nil, path.Child("readinessProbe"))
	refuse(c.StartupProbe != nil, path.Child("startupProbe"))
	refuse(c.Lifecycle != nil, path.Child("lifecycle"))
	for i := range c.VolumeMounts {
		at := path.Child("volumeMounts").Index(i)
		refuse(c.VolumeMounts[i].SubPath != "", at.Child("subPath"))
		refuse(c.VolumeMounts[i].SubPathExpr != "", at.Child("subPathExpr"))
	}
	return errs
}

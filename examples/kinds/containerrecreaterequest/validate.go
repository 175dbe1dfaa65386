package containerrecreaterequest

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podstate"
)

// validateCreate returns the errors in a new request with defaults, as far as the errors do not depend on the Pod. The
// fields that admission copies from the Pod must be empty, because a hook written by a user would run with the
// permissions of the node agent.
func validateCreate(obj *v1beta1.ContainerRecreateRequest) field.ErrorList {
	_, problems, warnings := resolve(&obj.Spec)
	errs := append(problems.Refusals(), warnings.Refusals()...)
	for i := range obj.Spec.Containers {
		c, at := &obj.Spec.Containers[i], containerPath(i)
		for _, preset := range []struct {
			name string
			is   bool
		}{{"preStop", c.PreStop != nil}, {"ports", len(c.Ports) > 0}, {"statusContext", c.StatusContext != nil}} {
			if preset.is {
				errs = append(errs, field.Forbidden(at.Child(preset.name), "is copied from the Pod; leave it out"))
			}
		}
	}
	return errs
}

// validatePod returns the errors in a new request that depend on its Pod. A nil pod means that the Pod does not exist.
func validatePod(obj *v1beta1.ContainerRecreateRequest, pod *corev1.Pod) field.ErrorList {
	path, name := podPath(), obj.Spec.PodName
	switch {
	case pod == nil:
		return field.ErrorList{field.NotFound(path, name)}
	case pod.DeletionTimestamp != nil:
		return field.ErrorList{field.Invalid(path, name, "the Pod is being deleted; name one that runs")}
	// The controller that stops sidecars after the main containers may set the Pod's phase before the last sidecars
	// have ended. Such sidecars may still be restarted.
	case podstate.HasEnded(pod) && !podstate.IsTrue(pod, apps.ConditionSidecarTerminated):
		return field.ErrorList{field.Invalid(path, name,
			"the Pod has ended with phase "+string(pod.Status.Phase)+"; name one that runs")}
	case pod.Spec.NodeName == "":
		return field.ErrorList{field.Invalid(path, name, "the Pod is on no Node yet; wait until it is scheduled")}
	}
	var errs field.ErrorList
	// A request with an owner is about this Pod alone, and not about a later Pod of the same name.
	for i, ref := range obj.OwnerReferences {
		if ref.Kind == "Pod" && ref.APIVersion == "v1" && ref.Name == name && ref.UID != pod.UID {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "ownerReferences").Index(i).Child("uid"), ref.UID, "the Pod "+name+" has been replaced; its UID is "+string(pod.UID)))
		}
	}
	for _, problem := range utilvalidation.IsValidLabelValue(pod.Spec.NodeName) {
		errs = append(errs, field.Invalid(path, name, "the name of the Pod's Node, "+pod.Spec.NodeName+", becomes a label: "+problem))
	}
	for i := range obj.Spec.Containers {
		errs = append(errs, validateContainer(obj.Spec.Containers[i].Name, pod, containerPath(i).Child("name"))...)
	}
	return errs
}

// validateNode returns the error for a new request whose Pod's Node does not exist.
func validateNode(obj *v1beta1.ContainerRecreateRequest, pod *corev1.Pod) field.ErrorList {
	return field.ErrorList{field.Invalid(podPath(), obj.Spec.PodName, "the Pod's Node "+pod.Spec.NodeName+" does not exist")}
}

func validateContainer(name string, pod *corev1.Pod, path *field.Path) field.ErrorList {
	var names []string
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	if !slices.Contains(names, name) {
		return field.ErrorList{field.NotSupported(path, name, names)}
	}
	if status := podstate.ContainerStatus(pod, name); status == nil || status.ContainerID == "" {
		return field.ErrorList{field.Invalid(path, name, "has never started, as the Pod's status says; there is nothing to recreate")}
	}
	return nil
}

// validateUpdate returns the errors in an update: the spec cannot be changed.
func validateUpdate(obj, old *v1beta1.ContainerRecreateRequest) field.ErrorList {
	var errs field.ErrorList
	if !apiequality.Semantic.DeepEqual(obj.Spec, old.Spec) {
		errs = append(errs, field.Forbidden(field.NewPath("spec"), "cannot change; delete the request and make another"))
	}
	labels := field.NewPath("metadata", "labels")
	for _, key := range []string{apps.LabelRequestNodeName, apps.LabelRequestPodUID} {
		if was, is := old.Labels[key], obj.Labels[key]; was != is {
			errs = append(errs, field.Invalid(labels.Key(key), is, fmt.Sprintf("cannot change, is %q", was)))
		}
	}
	return errs
}

// validateV1alpha1 returns an error for a change that the conversion to v1beta1 would lose: a change of the field
// with the time since which the Pod is not ready. old is nil on creation.
func validateV1alpha1(obj, old *v1alpha1.ContainerRecreateRequest) field.ErrorList {
	if old == nil {
		return nil
	}
	const key = apps.AnnotationRequestUnreadyAcquired
	was, is := old.Annotations[key], obj.Annotations[key]
	if was == "" || was == is {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "annotations").Key(key), is, fmt.Sprintf("cannot change, is %q", was))}
}

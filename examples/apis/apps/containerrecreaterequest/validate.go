package containerrecreaterequest

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// minDeadline is the shortest activeDeadlineSeconds: agent and controller need as long to react.
const minDeadline = 3

func specPath() *field.Path { return field.NewPath("spec") }

// ValidateCreate returns the problems of a new, defaulted object, independent of the Pod.
func ValidateCreate(obj *v1beta1.ContainerRecreateRequest) field.ErrorList {
	spec, path := &obj.Spec, specPath()
	var errs field.ErrorList
	if spec.PodName == "" {
		errs = append(errs, field.Required(path.Child("podName"), "name a Pod of this namespace"))
	}
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(path.Child("containers"), "name at least one container of the Pod"))
	}
	names := sets.New[string]()
	for i := range spec.Containers {
		at := path.Child("containers").Index(i)
		if name := spec.Containers[i].Name; names.Has(name) {
			errs = append(errs, field.Duplicate(at.Child("name"), name))
		}
		names.Insert(spec.Containers[i].Name)
		errs = append(errs, validatePreset(&spec.Containers[i], at)...)
	}
	if deadline := spec.ActiveDeadlineSeconds; deadline != nil && *deadline < minDeadline {
		errs = append(errs, field.Invalid(path.Child("activeDeadlineSeconds"), *deadline, fmt.Sprintf("must be at least %d", minDeadline)))
	}
	errs = append(errs, validation.NotNegative(spec.TTLSecondsAfterFinished, path.Child("ttlSecondsAfterFinished"))...)
	return append(errs, validateStrategy(spec.Strategy, path.Child("strategy"))...)
}

// validatePreset refuses preset values of fields copied from the Pod: a user's own hook would run with the rights of
// the node agent.
func validatePreset(c *v1beta1.ContainerRecreateRequestContainer, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	forbid := func(set bool, name string) {
		if set {
			errs = append(errs, field.Forbidden(path.Child(name), "is copied from the Pod; leave it out"))
		}
	}
	forbid(c.PreStop != nil, "preStop")
	forbid(len(c.Ports) > 0, "ports")
	forbid(c.StatusContext != nil, "statusContext")
	return errs
}

func validateStrategy(strategy *v1beta1.ContainerRecreateRequestStrategy, path *field.Path) field.ErrorList {
	if strategy == nil {
		return nil
	}
	var errs field.ErrorList
	policies := []v1beta1.ContainerRecreateRequestFailurePolicyType{
		v1beta1.ContainerRecreateRequestFailurePolicyFail, v1beta1.ContainerRecreateRequestFailurePolicyIgnore,
	}
	if policy := strategy.FailurePolicy; policy != "" && !slices.Contains(policies, policy) {
		errs = append(errs, field.NotSupported(path.Child("failurePolicy"), policy, policies))
	}
	errs = append(errs, validation.NotNegative(strategy.TerminationGracePeriodSeconds, path.Child("terminationGracePeriodSeconds"))...)
	errs = append(errs, validation.NotNegative(strategy.UnreadyGracePeriodSeconds, path.Child("unreadyGracePeriodSeconds"))...)
	return append(errs, validation.NotNegative(&strategy.MinStartedSeconds, path.Child("minStartedSeconds"))...)
}

// ValidatePod returns the problems of a new object because of its Pod. nil stands for a missing Pod.
func ValidatePod(obj *v1beta1.ContainerRecreateRequest, pod *corev1.Pod) field.ErrorList {
	path, name := specPath().Child("podName"), obj.Spec.PodName
	switch {
	case pod == nil:
		return field.ErrorList{field.NotFound(path, name)}
	case pod.DeletionTimestamp != nil:
		return field.ErrorList{field.Invalid(path, name, "the Pod is being deleted; name one that runs")}
	case hasEnded(pod) && !isMarked(pod):
		return field.ErrorList{field.Invalid(path, name, "the Pod has ended with phase "+string(pod.Status.Phase)+"; name one that runs")}
	case pod.Spec.NodeName == "":
		return field.ErrorList{field.Invalid(path, name, "the Pod is on no Node yet; wait until it is scheduled")}
	}
	var errs field.ErrorList
	for _, problem := range utilvalidation.IsValidLabelValue(pod.Spec.NodeName) {
		errs = append(errs, field.Invalid(path, name, "the name of the Pod's Node, "+pod.Spec.NodeName+", becomes a label: "+problem))
	}
	for i := range obj.Spec.Containers {
		errs = append(errs, validateContainer(obj.Spec.Containers[i].Name, pod, specPath().Child("containers").Index(i).Child("name"))...)
	}
	return errs
}

// ValidateNode returns the problem of a new object with a Pod on a missing Node.
func ValidateNode(obj *v1beta1.ContainerRecreateRequest, pod *corev1.Pod) field.ErrorList {
	return field.ErrorList{field.Invalid(specPath().Child("podName"), obj.Spec.PodName, "the Pod's Node "+pod.Spec.NodeName+" does not exist")}
}

func validateContainer(name string, pod *corev1.Pod, path *field.Path) field.ErrorList {
	if indexOf(pod.Spec.Containers, name) < 0 {
		var names []string
		for i := range pod.Spec.Containers {
			names = append(names, pod.Spec.Containers[i].Name)
		}
		return field.ErrorList{field.NotSupported(path, name, names)}
	}
	if status := statusOf(pod, name); status == nil || status.ContainerID == "" {
		return field.ErrorList{field.Invalid(path, name, "has never started, as the Pod's status says; there is nothing to recreate")}
	}
	return nil
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// isMarked reports whether the phase was set before the end of the last sidecars: such sidecars may still be stopped.
func isMarked(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == apps.ConditionSidecarTerminated && c.Status == corev1.ConditionTrue
	})
}

// ValidateUpdate returns the problems of an update: a request is carried out as created.
func ValidateUpdate(obj, old *v1beta1.ContainerRecreateRequest) field.ErrorList {
	var errs field.ErrorList
	if !apiequality.Semantic.DeepEqual(obj.Spec, old.Spec) {
		errs = append(errs, field.Forbidden(specPath(), "cannot change; delete the request and make another"))
	}
	labels := field.NewPath("metadata", "labels")
	for _, key := range []string{apps.LabelRequestNodeName, apps.LabelRequestPodUID} {
		was, is := old.Labels[key], obj.Labels[key]
		if was != is {
			errs = append(errs, field.Invalid(labels.Key(key), is, fmt.Sprintf("cannot change, is %q", was)))
		}
	}
	return errs
}

// ValidateV1alpha1 returns the problems of an update hidden by conversion to v1beta1: a change of the time since when
// the Pod is not ready. old is nil on creation.
func ValidateV1alpha1(obj, old *v1alpha1.ContainerRecreateRequest) field.ErrorList {
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

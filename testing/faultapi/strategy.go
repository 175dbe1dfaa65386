package faultapi

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// These are the known subresources.
const (
	statusSubresource    = "status"
	resizeSubresource    = "resize"
	ephemeralSubresource = "ephemeralcontainers"
)

// strategy describes how the API server handles a particular resource.
type strategy interface {
	// prepareCreate clears fields that users cannot set, and sets defaults.
	prepareCreate(obj client.Object)
	// prepareUpdate resets fields that the subresource cannot change, and increases the generation.
	prepareUpdate(sub string, obj, old client.Object) error
	validateCreate(obj client.Object) field.ErrorList
	validateUpdate(sub string, obj, old client.Object) field.ErrorList
	// grace returns the grace period of a deletion; graceful is false for resources without graceful deletion.
	grace(obj client.Object, options *metav1.DeleteOptions) (seconds int64, graceful bool)
	// unconditional reports whether an update without resourceVersion is accepted.
	unconditional() bool
	// merge returns the metadata for merging lists in a strategic merge patch; nil if the resource does not support
	// such patches.
	merge() strategicpatch.LookupPatchMeta
}

// plainStrategy is the strategy of an ordinary built-in resource.
type plainStrategy struct {
	meta strategicpatch.LookupPatchMeta
}

func newPlainStrategy(obj client.Object) (plainStrategy, error) {
	meta, err := strategicpatch.NewPatchMetaFromStruct(obj)
	if err != nil {
		return plainStrategy{}, fmt.Errorf("merge rules of %T: %w", obj, err)
	}
	return plainStrategy{meta}, nil
}

func (plainStrategy) prepareCreate(client.Object) {}

func (plainStrategy) prepareUpdate(sub string, _, _ client.Object) error { return noSubresource(sub) }

func (plainStrategy) validateCreate(client.Object) field.ErrorList { return nil }

func (plainStrategy) validateUpdate(string, client.Object, client.Object) field.ErrorList { return nil }

func (plainStrategy) grace(client.Object, *metav1.DeleteOptions) (int64, bool) { return 0, false }

func (plainStrategy) unconditional() bool { return true }

func (p plainStrategy) merge() strategicpatch.LookupPatchMeta { return p.meta }

func noSubresource(sub string) error {
	if sub == "" {
		return nil
	}
	return apierrors.NewGenericServerResponse(404, "patch", schema.GroupResource{Resource: sub}, "", "the server could not find the requested resource", 0, false)
}

// strategyOf returns the strategy of a kind that was passed to New.
func strategyOf(obj client.Object) (strategy, error) {
	switch obj.(type) {
	case *corev1.Secret, *corev1.Namespace, *storagev1.StorageClass:
		return newPlainStrategy(obj)
	case *corev1.Node:
		plain, err := newPlainStrategy(obj)
		return nodeStrategy{plain}, err
	case *admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration:
		plain, err := newPlainStrategy(obj)
		return configurationStrategy{plain}, err
	default:
		return customStrategy{}, nil
	}
}

// nodeStrategy is the strategy of Nodes, with the status as a subresource.
type nodeStrategy struct{ plainStrategy }

func (nodeStrategy) prepareUpdate(sub string, obj, old client.Object) error {
	node, before := obj.(*corev1.Node), old.(*corev1.Node)
	switch sub {
	case "":
		node.Status = before.Status
	case statusSubresource:
		node.Spec = before.Spec
	default:
		return noSubresource(sub)
	}
	return nil
}

// configurationStrategy is the strategy of a built-in resource whose generation increases with each change of its
// content.
type configurationStrategy struct{ plainStrategy }

func (configurationStrategy) prepareCreate(obj client.Object) { obj.SetGeneration(1) }

func (configurationStrategy) prepareUpdate(sub string, obj, old client.Object) error {
	if !sameContent(obj, old) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
	return noSubresource(sub)
}

// revisionStrategy is the strategy of ControllerRevisions, whose content is immutable.
type revisionStrategy struct{ plainStrategy }

func newRevisionStrategy() (revisionStrategy, error) {
	plain, err := newPlainStrategy(&appsv1.ControllerRevision{})
	return revisionStrategy{plain}, err
}

func (revisionStrategy) validateUpdate(_ string, obj, old client.Object) field.ErrorList {
	rev, before := obj.(*appsv1.ControllerRevision), old.(*appsv1.ControllerRevision)
	if string(rev.Data.Raw) == string(before.Data.Raw) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("data"), "", "field is immutable")}
}

// claimStrategy is the strategy of PersistentVolumeClaims.
type claimStrategy struct{ plainStrategy }

// claimProtection is the finalizer that keeps a claim while a Pod uses the claim.
const claimProtection = "kubernetes.io/pvc-protection"

func newClaimStrategy() (claimStrategy, error) {
	plain, err := newPlainStrategy(&corev1.PersistentVolumeClaim{})
	return claimStrategy{plain}, err
}

func (claimStrategy) prepareCreate(obj client.Object) {
	claim := obj.(*corev1.PersistentVolumeClaim)
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
	if !slices.Contains(claim.Finalizers, claimProtection) {
		claim.Finalizers = append(claim.Finalizers, claimProtection)
	}
}

func (claimStrategy) prepareUpdate(sub string, obj, old client.Object) error {
	claim, before := obj.(*corev1.PersistentVolumeClaim), old.(*corev1.PersistentVolumeClaim)
	switch sub {
	case "":
		claim.Status = before.Status
	case statusSubresource:
		claim.Spec = before.Spec
	default:
		return noSubresource(sub)
	}
	return nil
}

// validateUpdate allows only changes of a bound claim's requested storage: an increase, or a decrease to a value above
// the claim's capacity.
func (claimStrategy) validateUpdate(_ string, obj, old client.Object) field.ErrorList {
	claim, before := obj.(*corev1.PersistentVolumeClaim), old.(*corev1.PersistentVolumeClaim)
	path, spec := field.NewPath("spec"), claim.Spec.DeepCopy()
	asks, asked := claim.Spec.Resources.Requests[corev1.ResourceStorage], before.Spec.Resources.Requests[corev1.ResourceStorage]
	if before.Status.Phase == corev1.ClaimBound {
		spec.Resources.Requests = before.Spec.Resources.Requests
	}
	if !equality.Semantic.DeepEqual(spec, &before.Spec) {
		return field.ErrorList{field.Forbidden(path, "spec is immutable after creation except resources.requests for bound claims")}
	}
	if asks.Cmp(asked) < 0 && asks.Cmp(before.Status.Capacity[corev1.ResourceStorage]) <= 0 {
		return field.ErrorList{field.Forbidden(path.Child("resources", "requests", "storage"), "field can not be less than status.capacity")}
	}
	return nil
}

// customStrategy is the strategy of a custom resource with status subresource.
type customStrategy struct{}

func (customStrategy) prepareCreate(obj client.Object) {
	obj.SetGeneration(1)
	setField(obj, "Status", nil)
}

func (customStrategy) prepareUpdate(sub string, obj, old client.Object) error {
	switch sub {
	case "":
		setField(obj, "Status", old)
		if !sameContent(obj, old) {
			obj.SetGeneration(old.GetGeneration() + 1)
		}
	case statusSubresource:
		// Everything but the status stays as in the old object, including metadata: even a changed UID is ignored.
		status := clone(obj)
		setAll(obj, clone(old))
		setField(obj, "Status", status)
	default:
		return noSubresource(sub)
	}
	return nil
}

func (customStrategy) validateCreate(client.Object) field.ErrorList { return nil }

func (customStrategy) validateUpdate(string, client.Object, client.Object) field.ErrorList {
	return nil
}

func (customStrategy) grace(client.Object, *metav1.DeleteOptions) (int64, bool) { return 0, false }

func (customStrategy) unconditional() bool { return false }

func (customStrategy) merge() strategicpatch.LookupPatchMeta { return nil }

// podStrategy is the strategy of Pods.
type podStrategy struct{ plainStrategy }

func newPodStrategy() (podStrategy, error) {
	plain, err := newPlainStrategy(&corev1.Pod{})
	return podStrategy{plain}, err
}

func (podStrategy) prepareCreate(obj client.Object) {
	pod := obj.(*corev1.Pod)
	pod.Generation = 1
	defaultPod(&pod.Spec)
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qosOf(pod)}
}

// defaultPod sets the defaults that matter to a kubelet and a controller.
func defaultPod(spec *corev1.PodSpec) {
	if spec.TerminationGracePeriodSeconds == nil {
		seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
		spec.TerminationGracePeriodSeconds = &seconds
	}
	if spec.RestartPolicy == "" {
		spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			requests := &containers[i].Resources.Requests
			for name, quantity := range containers[i].Resources.Limits {
				if _, ok := (*requests)[name]; ok {
					continue
				}
				if *requests == nil {
					*requests = corev1.ResourceList{}
				}
				(*requests)[name] = quantity
			}
		}
	}
}

// qosOf computes the QoS class from cpu and memory of containers, as the API server does.
func qosOf(pod *corev1.Pod) corev1.PodQOSClass {
	used, all := false, true
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				request, limit := r.Requests[name], r.Limits[name]
				used = used || !request.IsZero() || !limit.IsZero()
				all = all && !limit.IsZero() && limit.Cmp(request) == 0
			}
		}
	}
	switch {
	case !used:
		return corev1.PodQOSBestEffort
	case all:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}

func (podStrategy) prepareUpdate(sub string, obj, old client.Object) error {
	pod, before := obj.(*corev1.Pod), old.(*corev1.Pod)
	defaultPod(&pod.Spec)
	switch sub {
	case "":
		pod.Status = before.Status
	case statusSubresource:
		pod.Spec = before.Spec
		pod.OwnerReferences = before.OwnerReferences
		if pod.Status.QOSClass == "" {
			pod.Status.QOSClass = before.Status.QOSClass
		}
		keepObservedGenerations(pod, before)
		return nil
	case resizeSubresource:
		keepAllButResources(pod, before)
	case ephemeralSubresource:
		keepAllButEphemeral(pod, before)
	default:
		return noSubresource(sub)
	}
	if !equality.Semantic.DeepEqual(pod.Spec, before.Spec) {
		pod.Generation++
	}
	return nil
}

// keepObservedGenerations keeps the field observedGeneration of the Pod and its conditions if a client that does not
// know the field has omitted it.
func keepObservedGenerations(pod, before *corev1.Pod) {
	if pod.Status.ObservedGeneration == 0 {
		pod.Status.ObservedGeneration = before.Status.ObservedGeneration
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		for j := range before.Status.Conditions {
			if old := &before.Status.Conditions[j]; c.ObservedGeneration == 0 && old.Type == c.Type {
				c.ObservedGeneration = old.ObservedGeneration
			}
		}
	}
}

// keepAllButResources implements pods/resize: only resources change. The status, all other fields of the spec, and
// all metadata except UID and version stay unchanged.
func keepAllButResources(pod, before *corev1.Pod) {
	if len(pod.Spec.Containers) != len(before.Spec.Containers) || len(pod.Spec.InitContainers) != len(before.Spec.InitContainers) {
		return
	}
	kept := before.DeepCopy()
	merge := func(into, from []corev1.Container) bool {
		for i := range into {
			if into[i].Name != from[i].Name {
				return false
			}
			into[i].Resources, into[i].ResizePolicy = from[i].Resources, from[i].ResizePolicy
		}
		return true
	}
	if !merge(kept.Spec.Containers, pod.Spec.Containers) || !merge(kept.Spec.InitContainers, pod.Spec.InitContainers) {
		return
	}
	keepRest(pod, kept)
}

// keepAllButEphemeral implements pods/ephemeralcontainers: only ephemeral containers change. The status, all other
// fields of the spec, and all metadata except UID and version stay unchanged.
func keepAllButEphemeral(pod, before *corev1.Pod) {
	kept := before.DeepCopy()
	kept.Spec.EphemeralContainers = pod.Spec.EphemeralContainers
	keepRest(pod, kept)
}

// keepRest replaces all fields of the Pod except name, UID and resourceVersion by the fields of kept.
func keepRest(pod, kept *corev1.Pod) {
	pod.Spec, pod.Status = kept.Spec, kept.Status
	pod.Labels, pod.Annotations = kept.Labels, kept.Annotations
	pod.Finalizers, pod.OwnerReferences, pod.ManagedFields = kept.Finalizers, kept.OwnerReferences, kept.ManagedFields
}

// validateCreate finds typical mistakes of controllers: missing containers, missing names and images of containers,
// and mounts of missing volumes.
func (podStrategy) validateCreate(obj client.Object) field.ErrorList {
	spec, path := &obj.(*corev1.Pod).Spec, field.NewPath("spec")
	volumes := map[string]bool{}
	for i := range spec.Volumes {
		volumes[spec.Volumes[i].Name] = true
	}
	var errs field.ErrorList
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(path.Child("containers"), ""))
	}
	if len(spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("ephemeralContainers"), "cannot be set on create"))
	}
	for i := range spec.InitContainers {
		errs = append(errs, incomplete(&spec.InitContainers[i], volumes, path.Child("initContainers").Index(i))...)
	}
	for i := range spec.Containers {
		errs = append(errs, incomplete(&spec.Containers[i], volumes, path.Child("containers").Index(i))...)
	}
	return errs
}

// incomplete returns an error for each field that a container lacks.
func incomplete(c *corev1.Container, volumes map[string]bool, path *field.Path) (errs field.ErrorList) {
	if c.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	if c.Image == "" {
		errs = append(errs, field.Required(path.Child("image"), ""))
	}
	known := func(name, list string, i int) {
		if !volumes[name] {
			errs = append(errs, field.NotFound(path.Child(list).Index(i).Child("name"), name))
		}
	}
	for i := range c.VolumeMounts {
		known(c.VolumeMounts[i].Name, "volumeMounts", i)
	}
	for i := range c.VolumeDevices {
		known(c.VolumeDevices[i].Name, "volumeDevices", i)
	}
	return errs
}

func (podStrategy) validateUpdate(sub string, obj, old client.Object) field.ErrorList {
	pod, before := obj.(*corev1.Pod), old.(*corev1.Pod)
	path := field.NewPath("spec")
	var errs field.ErrorList
	switch sub {
	case "":
		for i := range pod.Spec.Containers {
			if pod.Spec.Containers[i].Image == "" {
				errs = append(errs, field.Required(path.Child("containers").Index(i).Child("image"), ""))
			}
		}
		if !equality.Semantic.DeepEqual(withMutable(&pod.Spec, &before.Spec), &before.Spec) {
			errs = append(errs, field.Forbidden(path, "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"))
		}
	case resizeSubresource:
		if errs = removedResources(&pod.Spec, &before.Spec); len(errs) > 0 {
			return errs
		}
		errs = append(errs, overLimit(&pod.Spec)...)
		if qosOf(pod) != before.Status.QOSClass {
			errs = append(errs, field.Invalid(path, qosOf(pod), "Pod QOS Class may not change as a result of resizing"))
		}
		if !equality.Semantic.DeepEqual(withResources(&pod.Spec, &before.Spec), &before.Spec) {
			errs = append(errs, field.Forbidden(path, "only cpu and memory resources are mutable"))
		}
	case ephemeralSubresource:
		errs = append(ephemeralFaults(&pod.Spec), changedEphemeral(&pod.Spec, &before.Spec)...)
	}
	return errs
}

// ephemeralFaults finds ephemeral containers that are incomplete, share a name, or target a container that the Pod does
// not have.
func ephemeralFaults(spec *corev1.PodSpec) (errs field.ErrorList) {
	volumes, targets, taken := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range spec.Volumes {
		volumes[spec.Volumes[i].Name] = true
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			targets[list[i].Name], taken[list[i].Name] = true, true
		}
	}
	for i := range spec.EphemeralContainers {
		c, path := &spec.EphemeralContainers[i], field.NewPath("spec", "ephemeralContainers").Index(i)
		errs = append(errs, incomplete((*corev1.Container)(&c.EphemeralContainerCommon), volumes, path)...)
		if taken[c.Name] {
			errs = append(errs, field.Duplicate(path.Child("name"), c.Name))
		}
		if taken[c.Name] = true; c.TargetContainerName != "" && !targets[c.TargetContainerName] {
			errs = append(errs, field.NotFound(path.Child("targetContainerName"), c.TargetContainerName))
		}
	}
	return errs
}

// changedEphemeral returns an error if existing ephemeral containers are changed. The order of the containers does not
// matter.
func changedEphemeral(spec, before *corev1.PodSpec) (errs field.ErrorList) {
	path := field.NewPath("spec", "ephemeralContainers")
	for i := range before.EphemeralContainers {
		old := &before.EphemeralContainers[i]
		at := slices.IndexFunc(spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == old.Name })
		switch {
		case at < 0:
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be removed", old.Name)))
		case !equality.Semantic.DeepEqual(*old, spec.EphemeralContainers[at]):
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be changed", old.Name)))
		}
	}
	return errs
}

// withMutable returns the spec with its mutable fields set back to the values in before.
func withMutable(spec, before *corev1.PodSpec) *corev1.PodSpec {
	out := spec.DeepCopy()
	back := func(containers, from []corev1.Container) {
		if len(containers) != len(from) {
			return
		}
		for i := range containers {
			containers[i].Image = from[i].Image
		}
	}
	back(out.Containers, before.Containers)
	back(out.InitContainers, before.InitContainers)
	if out.ActiveDeadlineSeconds != nil {
		out.ActiveDeadlineSeconds = before.ActiveDeadlineSeconds
	}
	kept := 0
	for i := range before.Tolerations {
		if slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool { return equality.Semantic.DeepEqual(t, before.Tolerations[i]) }) {
			kept++
		}
	}
	if kept == len(before.Tolerations) {
		out.Tolerations = before.Tolerations
	}
	return out
}

// removedResources returns an error for each request or limit that a resize would remove.
func removedResources(spec, before *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Containers) != len(before.Containers) {
		return nil
	}
	for i := range before.Containers {
		path := field.NewPath("spec", "containers").Index(i).Child("resources")
		for _, kind := range []struct {
			name     string
			old, now corev1.ResourceList
		}{
			{"requests", before.Containers[i].Resources.Requests, spec.Containers[i].Resources.Requests},
			{"limits", before.Containers[i].Resources.Limits, spec.Containers[i].Resources.Limits},
		} {
			for name := range kind.old {
				if _, ok := kind.now[name]; !ok {
					errs = append(errs, field.Forbidden(path.Child(kind.name), "resource "+kind.name+" cannot be removed"))
				}
			}
		}
	}
	return errs
}

// overLimit reports requests above their limits.
func overLimit(spec *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	for i := range spec.Containers {
		path := field.NewPath("spec", "containers").Index(i).Child("resources", "requests")
		for name, request := range spec.Containers[i].Resources.Requests {
			if limit, ok := spec.Containers[i].Resources.Limits[name]; ok && request.Cmp(limit) > 0 {
				errs = append(errs, field.Invalid(path, request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
			}
		}
	}
	// Quantities are in a map, whose iteration order can differ between two runs of a schedule.
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

// withResources returns the spec with cpu and memory set back to the values of before.
func withResources(spec, before *corev1.PodSpec) *corev1.PodSpec {
	out := spec.DeepCopy()
	back := func(containers, from []corev1.Container) {
		for i := range containers {
			set := func(list *corev1.ResourceList, old corev1.ResourceList) {
				for name := range *list {
					if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
						return
					}
				}
				*list = old
			}
			set(&containers[i].Resources.Requests, from[i].Resources.Requests)
			set(&containers[i].Resources.Limits, from[i].Resources.Limits)
		}
	}
	if len(out.Containers) == len(before.Containers) && len(out.InitContainers) == len(before.InitContainers) {
		back(out.Containers, before.Containers)
		back(out.InitContainers, before.InitContainers)
	}
	return out
}

func (podStrategy) grace(obj client.Object, options *metav1.DeleteOptions) (int64, bool) {
	pod := obj.(*corev1.Pod)
	seconds := int64(0)
	switch {
	case pod.Spec.NodeName == "", pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
	case options.GracePeriodSeconds != nil:
		seconds = *options.GracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		seconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	if seconds < 0 {
		seconds = 1
	}
	return seconds, true
}

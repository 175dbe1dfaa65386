package resourcedistribution

import (
	"bytes"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/resourcedistribution"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/reason"
)

// These are reasons why a copy differs from the template.
const (
	// NameTaken means that an object that the ResourceDistribution does not control has the name of the copy.
	NameTaken reason.Code = "NameTaken"
	// CopyEnding means that the copy is being deleted, and that a finalizer delays its removal. Once the copy is
	// removed, the controller creates a new copy.
	CopyEnding reason.Code = "CopyEnding"
	// CopyImmutable means that the copy is immutable and differs from the template.
	CopyImmutable reason.Code = "CopyImmutable"
	// CopyContested means that another client changes or deletes the copy again and again. The controller restores the
	// copy, each time after a longer back-off.
	CopyContested reason.Code = "CopyContested"
	// SecretTypeFixed means that the copy is a Secret of another type than the template. The type of an existing Secret
	// cannot be changed.
	SecretTypeFixed reason.Code = "SecretTypeFixed"
)

// action is the next step for a copy.
type action string

// These are the actions.
const (
	// none means no action.
	none action = "None"
	// create means that a copy must be created, because no object has the copy's name.
	create action = "Create"
	// look means that the whole object must be read, because the metadata is not enough to decide. Only the function
	// glance returns this action.
	look action = "Look"
	// update means that the patch must be sent to the copy.
	update action = "Update"
	// Leave means that the object with the copy's name is not changed.
	Leave action = "Leave"
)

// decision is the action for a copy, and its reason.
type decision struct {
	Action action
	// Why is set only with the action [Leave].
	Why reason.Reason
	// Patch is set only with the action update. Patch is a JSON merge patch with the fields that differ, and with UID
	// and resourceVersion of the object that was compared.
	Patch map[string]any
}

// Condition returns the type of the condition that reports why a copy is not changed.
func (d decision) Condition() v1beta1.ResourceDistributionConditionType {
	switch d.Why.Code {
	case NameTaken:
		return v1beta1.ResourceDistributionConflictOccurred
	case CopyEnding:
		return v1beta1.ResourceDistributionCreateResourceFailed
	default:
		return v1beta1.ResourceDistributionUpdateResourceFailed
	}
}

// ownerOf returns the name of the ResourceDistribution that controls an object, or "" if no ResourceDistribution
// does. The UID is not compared: if a ResourceDistribution was deleted and created again, for example from a backup,
// an update of the copy corrects the UID.
func ownerOf(object metav1.Object) string {
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil || ref.Kind != kindName {
		return ""
	}
	if gv, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || gv.Group != apps.Group {
		return ""
	}
	return ref.Name
}

const kindName = "ResourceDistribution"

// reference returns the owner reference that copies must have.
func reference(distributor *v1beta1.ResourceDistribution) metav1.OwnerReference {
	return *metav1.NewControllerRef(distributor, v1beta1.GroupVersion.WithKind(kindName))
}

// glance decides from the metadata of the object that has the copy's name; found is nil if there is none. glance reads
// only owner references, UID, resourceVersion and deletionTimestamp.
func glance(resource *api.Resource, distributor metav1.OwnerReference, found metav1.Object, known known) decision {
	switch {
	case found == nil:
		return decision{Action: create}
	case ownerOf(found) != distributor.Name:
		return leave(NameTaken, resource, found, "it belongs to somebody else, and is left as it is", "delete or rename it, or exclude its namespace")
	case found.GetDeletionTimestamp() != nil:
		return leave(CopyEnding, resource, found, "it is being deleted, and is made anew when it is gone", "see to its finalizers")
	case known.UID != string(found.GetUID()) || known.Version != found.GetResourceVersion() || known.Hash != resource.Hash:
		return decision{Action: look}
	case known.Why.Code != "":
		return decision{Action: Leave, Why: known.Why}
	}
	return decision{Action: none}
}

func leave(code reason.Code, resource *api.Resource, found metav1.Object, detail, remedy string) decision {
	return decision{Action: Leave, Why: reason.Reason{Code: code, Object: reason.ObjectOf(resource.Kind, found), Detail: detail, Remedy: remedy}}
}

// decide decides from the whole object that has the copy's name. The object must have the resource's kind.
func decide(resource *api.Resource, distributor metav1.OwnerReference, live api.Object) decision {
	if d := glance(resource, distributor, live, known{}); d.Action != look {
		return d
	}
	want := resource.Copy(live.GetNamespace(), distributor)
	content, fixed := differs(want, live)
	switch fixed {
	case SecretTypeFixed:
		return leave(fixed, resource, live, "its type is another one, which cannot be changed", "delete it, and it is made anew")
	case CopyImmutable:
		return leave(fixed, resource, live, "it is immutable, and differs from the template", "delete it, and it is made anew")
	}
	meta := differingMeta(want, live)
	if len(content) == 0 && len(meta) == 0 {
		return decision{Action: none}
	}
	meta["uid"], meta["resourceVersion"] = live.GetUID(), live.GetResourceVersion()
	content["metadata"] = meta
	return decision{Action: update, Patch: content}
}

// differs returns the content in which the copy differs from the template, or the reason why this content cannot be
// changed.
func differs(want, live api.Object) (patch map[string]any, fixed reason.Code) {
	patch = map[string]any{}
	var wantImmutable, isImmutable *bool
	switch want := want.(type) {
	case *corev1.ConfigMap:
		live, ok := live.(*corev1.ConfigMap)
		if !ok {
			return patch, ""
		}
		put(patch, "data", changed(want.Data, live.Data, func(a, b string) bool { return a == b }, true))
		put(patch, "binaryData", changed(want.BinaryData, live.BinaryData, bytes.Equal, true))
		wantImmutable, isImmutable = want.Immutable, live.Immutable
	case *corev1.Secret:
		live, ok := live.(*corev1.Secret)
		if !ok {
			return patch, ""
		}
		if want.Type != live.Type {
			return patch, SecretTypeFixed
		}
		put(patch, "data", changed(want.Data, live.Data, bytes.Equal, true))
		wantImmutable, isImmutable = want.Immutable, live.Immutable
	}
	if ptr.Deref(wantImmutable, false) != ptr.Deref(isImmutable, false) {
		patch["immutable"] = ptr.Deref(wantImmutable, false)
	}
	if ptr.Deref(isImmutable, false) && len(patch) > 0 {
		return patch, CopyImmutable
	}
	return patch, ""
}

// put sets a key of the patch, unless differing is empty.
func put(patch map[string]any, key string, differing map[string]any) {
	if len(differing) > 0 {
		patch[key] = differing
	}
}

// changed returns the merge patch that changes the map live to the map want. If removes is true, the patch also removes
// the keys that want does not have.
func changed[V any](want, live map[string]V, same func(a, b V) bool, removes bool) map[string]any {
	out := map[string]any{}
	for key, value := range want {
		if is, ok := live[key]; !ok || !same(value, is) {
			out[key] = value
		}
	}
	for key := range live {
		if _, ok := want[key]; !ok && removes {
			out[key] = nil
		}
	}
	return out
}

// differingMeta returns the metadata in which the copy differs from the template. Labels and annotations that other
// clients have added are kept.
func differingMeta(want, live metav1.Object) map[string]any {
	patch, same := map[string]any{}, func(a, b string) bool { return a == b }
	put(patch, "labels", changed(want.GetLabels(), live.GetLabels(), same, false))
	put(patch, "annotations", changed(want.GetAnnotations(), live.GetAnnotations(), same, false))
	finalizers := slices.Clone(live.GetFinalizers())
	for _, finalizer := range want.GetFinalizers() {
		if !slices.Contains(finalizers, finalizer) {
			finalizers = append(finalizers, finalizer)
		}
	}
	if len(finalizers) > len(live.GetFinalizers()) {
		patch["finalizers"] = finalizers
	}
	if owner := want.GetOwnerReferences()[0]; metav1.GetControllerOfNoCopy(live).UID != owner.UID {
		references := slices.Clone(live.GetOwnerReferences())
		for i := range references {
			if ptr.Deref(references[i].Controller, false) {
				references[i] = owner
			}
		}
		patch["ownerReferences"] = references
	}
	return patch
}

// contested returns the reason CopyContested for a copy: the controller waits before it restores the copy, because
// another client changes the copy again and again.
func contested(resource *api.Resource, namespace string) error {
	return reason.Reason{
		Code: CopyContested, Object: reason.Object{Kind: resource.Kind, Namespace: namespace, Name: resource.Name},
		Detail: "somebody changes or deletes the copy again and again", Remedy: "find out who does, by its managed fields for example",
	}
}

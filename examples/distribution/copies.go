package distribution

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

// Reasons why a copy is not as the template wants it, and is left as it is.
const (
	// NameTaken means that something which is not controlled by the ResourceDistribution has the copy's name.
	NameTaken reason.Code = "NameTaken"
	// CopyEnding means that the copy is being deleted, and something holds it. It is made anew when it is gone.
	CopyEnding reason.Code = "CopyEnding"
	// CopyImmutable means that the copy was made immutable, and differs.
	CopyImmutable reason.Code = "CopyImmutable"
	// CopyContested means that somebody changes or deletes the copy as often as it is made. It is made again, later and later.
	CopyContested reason.Code = "CopyContested"
	// SecretTypeFixed means that the copy has another type than the template: Kubernetes lets nobody change it.
	SecretTypeFixed reason.Code = "SecretTypeFixed"
)

// Action is what a copy needs.
type Action string

// Actions.
const (
	// None is needed.
	None Action = "None"
	// Create it: there is nothing of its name.
	Create Action = "Create"
	// Look at the whole object: its metadata does not say enough. [Glance] alone returns it.
	Look Action = "Look"
	// Update it by the patch.
	Update Action = "Update"
	// Leave it, and what it is that takes its place, as it is.
	Leave Action = "Leave"
)

// Decision is what a copy needs, and why.
type Decision struct {
	Action Action
	// Why is set with [Leave] alone.
	Why reason.Reason
	// Patch is set with [Update] alone. It is a JSON merge patch of what differs, with UID and resourceVersion of the object that was compared.
	Patch map[string]any
}

// Condition is where it is said that a copy is left as it is.
func (d Decision) Condition() v1beta1.ResourceDistributionConditionType {
	switch d.Why.Code {
	case NameTaken:
		return v1beta1.ResourceDistributionConflictOccurred
	case CopyEnding:
		return v1beta1.ResourceDistributionCreateResourceFailed
	default:
		return v1beta1.ResourceDistributionUpdateResourceFailed
	}
}

// OwnerOf is the name of the ResourceDistribution that controls an object, empty for none. There is one of a name at a time, so that its UID does
// not matter: that of one which was deleted or restored is put right.
func OwnerOf(object metav1.Object) string {
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

// Reference is the owner reference on copies.
func Reference(distributor *v1beta1.ResourceDistribution) metav1.OwnerReference {
	return *metav1.NewControllerRef(distributor, v1beta1.GroupVersion.WithKind(kindName))
}

// Glance says what a copy needs by the metadata of the object that has its name, nil if there is none. It looks at owner references, UID,
// resourceVersion and deletionTimestamp alone.
func Glance(resource *api.Resource, distributor metav1.OwnerReference, found metav1.Object, known Known) Decision {
	switch {
	case found == nil:
		return Decision{Action: Create}
	case OwnerOf(found) != distributor.Name:
		return leave(NameTaken, resource, found, "it belongs to somebody else, and is left as it is", "delete or rename it, or exclude its namespace")
	case found.GetDeletionTimestamp() != nil:
		return leave(CopyEnding, resource, found, "it is being deleted, and is made anew when it is gone", "see to its finalizers")
	case known.UID != string(found.GetUID()) || known.Version != found.GetResourceVersion() || known.Hash != resource.Hash:
		return Decision{Action: Look}
	case known.Why.Code != "":
		return Decision{Action: Leave, Why: known.Why}
	}
	return Decision{Action: None}
}

func leave(code reason.Code, resource *api.Resource, found metav1.Object, detail, remedy string) Decision {
	return Decision{Action: Leave, Why: reason.Reason{Code: code, Object: reason.ObjectOf(resource.Kind, found), Detail: detail, Remedy: remedy}}
}

// Decide says what a copy needs by the whole object that has its name, which must be of the resource's kind.
func Decide(resource *api.Resource, distributor metav1.OwnerReference, live api.Object) Decision {
	if d := Glance(resource, distributor, live, Known{}); d.Action != Look {
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
		return Decision{Action: None}
	}
	meta["uid"], meta["resourceVersion"] = live.GetUID(), live.GetResourceVersion()
	content["metadata"] = meta
	return Decision{Action: Update, Patch: content}
}

// differs returns what of the content differs, or why it cannot be changed.
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

// put adds what differs, if anything does.
func put(patch map[string]any, key string, differing map[string]any) {
	if len(differing) > 0 {
		patch[key] = differing
	}
}

// changed is the merge patch of a map. Keys that are not wanted go where others must not add any.
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

// differingMeta is what of the metadata differs. What others have added stays.
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

// Contested says why the copy in a namespace is left for a while.
func Contested(resource *api.Resource, namespace string) error {
	return reason.Reason{
		Code: CopyContested, Object: reason.Object{Kind: resource.Kind, Namespace: namespace, Name: resource.Name},
		Detail: "somebody changes or deletes the copy again and again", Remedy: "find out who does, by its managed fields for example",
	}
}

// KeepMetadata is what is kept in memory of the metadata of ConfigMaps and Secrets. It is a transform of a cache. Of objects that no
// ResourceDistribution controls no more is left than that they are there.
func KeepMetadata(obj any) (any, error) {
	found, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	out := &metav1.PartialObjectMetadata{TypeMeta: found.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: found.Namespace, Name: found.Name, UID: found.UID, ResourceVersion: found.ResourceVersion,
	}}
	if OwnerOf(found) != "" {
		out.OwnerReferences, out.DeletionTimestamp = found.OwnerReferences, found.DeletionTimestamp
	}
	return out, nil
}

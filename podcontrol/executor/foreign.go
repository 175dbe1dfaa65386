package executor

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/reason"
)

// NotOwned means that a Pod or a claim is not changed, because somebody else owns the object, or because the object is
// in another namespace than the owner. The caller has passed an object that does not come from the Turn.
const NotOwned reason.Code = "NotOwned"

// foreign returns a final error if the owner must not change a Pod. The owner may change a Pod without a controller if
// the owner has just released the Pod, or if the Turn's Selector lets the owner adopt the Pod.
func (t *Turn[O]) foreign(pod *corev1.Pod) error {
	controller := metav1.GetControllerOf(pod)
	switch {
	case pod.Namespace != t.Owner.GetNamespace():
		return t.notOwned("Pod", pod, "it is in another namespace than")
	case controller != nil && controller.UID == t.Owner.GetUID():
		return nil
	case controller != nil:
		return t.notOwned("Pod", pod, "it is controlled by "+controller.Kind+" "+controller.Name+", not by")
	case t.Selector != nil && t.Selector.Matches(labels.Set(pod.Labels)):
		return nil
	case slices.ContainsFunc(t.Pods, func(known *corev1.Pod) bool { return known.UID == pod.UID }):
		return nil
	}
	return t.notOwned("Pod", pod, "it is not controlled by")
}

// foreignClaim returns a final error if the owner must not change a claim. A claim may outlive its owner and its Pods.
// So an owner may use any claim in its namespace that has no controller.
func (t *Turn[O]) foreignClaim(claim *corev1.PersistentVolumeClaim) error {
	controller := metav1.GetControllerOf(claim)
	switch {
	case claim.Namespace != t.Owner.GetNamespace():
		return t.notOwned("PersistentVolumeClaim", claim, "it is in another namespace than")
	case controller == nil, controller.UID == t.Owner.GetUID(), controller.Kind == "Pod" && !t.isForeign(controller):
		return nil
	}
	return t.notOwned("PersistentVolumeClaim", claim, "it is controlled by "+controller.Kind+" "+controller.Name+", not by")
}

// isForeign reports whether a reference names an object other than the owner.
func (t *Turn[O]) isForeign(ref *metav1.OwnerReference) bool {
	pod, ok := t.executor.cache.Pods.Get(t.Owner.GetNamespace(), ref.Name)
	return ok && pod.UID == ref.UID && t.foreign(pod) != nil
}

func (t *Turn[O]) notOwned(kind string, object client.Object, what string) error {
	owner := reason.ObjectOf(t.executor.cache.Kind().Kind, t.Owner)
	return reason.Final(reason.Reason{Code: NotOwned, Object: reason.ObjectOf(kind, object), Detail: what + " " + owner.String()})
}

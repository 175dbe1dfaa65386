package foresee

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// complete adds placeholders for the Nodes, namespaces and owners that could not be read, and removes references to
// owners for which no placeholder is possible. Otherwise the controllers would treat Pods as lost.
func (w *world) complete(objects *[]client.Object) {
	there, namespaces := map[types.UID]bool{}, map[string]bool{}
	unread := nodesOf(*objects)
	for _, object := range *objects {
		if _, ok := object.(*corev1.Namespace); ok {
			namespaces[object.GetName()] = true
		}
		there[object.GetUID()] = true
	}
	for _, object := range *objects {
		refs := object.GetOwnerReferences()
		kept := refs[:0:0]
		for _, ref := range refs {
			owner, isForeign := w.standIn(object.GetNamespace(), ref)
			if owner != nil && !there[ref.UID] {
				*objects = append(*objects, owner)
				there[ref.UID] = true
			}
			if there[ref.UID] || isForeign {
				kept = append(kept, ref)
			}
		}
		object.SetOwnerReferences(kept)
		if name := object.GetNamespace(); name != "" && !namespaces[name] {
			namespaces[name] = true
			*objects = append(*objects, &corev1.Namespace{ObjectMeta: meta(name)})
		}
	}
	*objects = append(*objects, unread...)
}

// standIn returns a placeholder for an owner that was not read, if the owner is of a kind of Kubernetes; nil for
// other kinds. isForeign is true if the API server in memory does not have the kind: the garbage collector then
// treats the owner as existing, so no placeholder is needed.
func (w *world) standIn(namespace string, ref metav1.OwnerReference) (owner client.Object, isForeign bool) {
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	if !slices.ContainsFunc(served(), func(object client.Object) bool {
		kinds, _, err := w.scheme.ObjectKinds(object)
		return err == nil && kinds[0].GroupKind() == gvk.GroupKind()
	}) {
		return nil, true
	}
	if gvk.Group != appsv1.GroupName {
		return nil, false
	}
	object, err := w.scheme.New(gvk)
	if err != nil {
		return nil, true
	}
	owner, _ = object.(client.Object)
	owner.SetNamespace(namespace)
	owner.SetName(ref.Name)
	owner.SetUID(ref.UID)
	return owner, false
}

// unreadPrefix is the prefix of the UIDs of placeholders for Nodes and namespaces that could not be read.
const unreadPrefix = "unread-"

// nodesOf returns placeholders for unread Nodes on which Pods run, with the labels that the Pods require. If there
// are no Nodes at all, nodesOf returns one placeholder.
func nodesOf(objects []client.Object) (unread []client.Object) {
	read, made := map[string]bool{}, map[string]*corev1.Node{}
	for _, object := range objects {
		if _, ok := object.(*corev1.Node); ok {
			read[object.GetName()] = true
		}
	}
	for _, object := range objects {
		pod, ok := object.(*corev1.Pod)
		if !ok || pod.Spec.NodeName == "" || read[pod.Spec.NodeName] {
			continue
		}
		node := made[pod.Spec.NodeName]
		if node == nil {
			node = &corev1.Node{ObjectMeta: meta(pod.Spec.NodeName)}
			made[node.Name], unread = node, append(unread, node)
		}
		maps.Copy(node.Labels, wantedLabels(&pod.Spec))
	}
	if len(read)+len(made) == 0 {
		unread = append(unread, &corev1.Node{ObjectMeta: meta("any-node")})
	}
	return unread
}

// wantedLabels returns labels of a Node that fit the node selector and the first term of the node affinity of a Pod.
func wantedLabels(spec *corev1.PodSpec) map[string]string {
	out := maps.Clone(spec.NodeSelector)
	if out == nil {
		out = map[string]string{}
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil || spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return out
	}
	terms := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) == 0 {
		return out
	}
	for _, e := range terms[0].MatchExpressions {
		switch {
		case e.Operator == corev1.NodeSelectorOpIn && len(e.Values) > 0:
			out[e.Key] = e.Values[0]
		case e.Operator == corev1.NodeSelectorOpExists:
			out[e.Key] = ""
		}
	}
	return out
}

// isUnread reports whether a Node is a placeholder for a Node that could not be read.
func isUnread(node *corev1.Node) bool { return strings.HasPrefix(string(node.UID), unreadPrefix) }

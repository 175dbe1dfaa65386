package nodepodprobe

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/kruise/probes"
	"github.com/workloadkit/workloadkit/node/probing"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
)

// inOrder returns the PodProbeMarkers that are not being deleted, the oldest first. If two PodProbeMarkers set the
// same label, the older takes precedence.
func inOrder(markers []*v1alpha1.PodProbeMarker) (out []*v1alpha1.PodProbeMarker) {
	for _, m := range markers {
		if m.DeletionTimestamp == nil {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *v1alpha1.PodProbeMarker) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}

// step is an action for the NodePodProbe of a Node.
type step uint8

const (
	leave step = iota
	create
	update
	remove
)

// next returns the next step for the NodePodProbe of a Node. node and list are nil if missing. A NodePodProbe is
// created when the Node becomes ready for the first time, and is deleted with the Node. Virtual Nodes have no agent
// and no NodePodProbe.
func next(node *corev1.Node, list *v1alpha1.NodePodProbe, wanted v1alpha1.NodePodProbeSpec) step {
	hasAgent := node != nil && node.Labels[apps.LabelNodeType] != apps.NodeTypeVirtualKubelet
	switch {
	case list == nil && hasAgent && node.DeletionTimestamp == nil && isReady(node):
		return create
	case list == nil:
		return leave
	case list.DeletionTimestamp != nil:
		return leave
	case !hasAgent:
		return remove
	case isSame(&list.Spec, &wanted):
		return leave
	}
	return update
}

// isSame reports whether two specs contain the same Pods and probes. The order is ignored, because OpenKruise adds
// Pods and probes at the end.
func isSame(a, b *v1alpha1.NodePodProbeSpec) bool {
	return len(a.Undecodable)+len(b.Undecodable) == 0 && apiequality.Semantic.DeepEqual(byName(a), byName(b))
}

func byName(spec *v1alpha1.NodePodProbeSpec) []v1alpha1.PodProbe {
	pods := slices.Clone(spec.PodProbes)
	for i := range pods {
		pods[i].Probes = slices.SortedFunc(slices.Values(pods[i].Probes), func(a, b v1alpha1.ContainerProbe) int { return strings.Compare(a.Name, b.Name) })
	}
	slices.SortFunc(pods, func(a, b v1alpha1.PodProbe) int { return strings.Compare(a.UID, b.UID) })
	return pods
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// wantedSpec returns the spec that a NodePodProbe with the entries should have. A manager restricted to a namespace
// does not change the entries of other namespaces.
func wantedSpec(list *v1alpha1.NodePodProbe, entries []probing.Entry, namespace string) v1alpha1.NodePodProbeSpec {
	if namespace == "" || list == nil {
		return probes.SpecOf(entries)
	}
	others := slices.DeleteFunc(probes.Entries(&list.Spec), func(e probing.Entry) bool { return e.Namespace == namespace })
	entries, _ = probing.Join(others, entries)
	return probes.SpecOf(entries)
}

// isMade reports whether a Pod already has all labels, annotations and conditions of a change.
func isMade(pod *corev1.Pod, now time.Time, change podpatch.Change) bool {
	patches, err := podpatch.Merge(pod, now, change)
	return err == nil && patches.IsEmpty()
}

// changed reports whether a Pod differs in fields that affect its probes or marks.
func changed(before, after *corev1.Pod) bool {
	return before.UID != after.UID || before.Spec.NodeName != after.Spec.NodeName || before.Status.PodIP != after.Status.PodIP ||
		podstate.IsActive(before) != podstate.IsActive(after) || probing.IsProbed(before) != probing.IsProbed(after) ||
		!apiequality.Semantic.DeepEqual(before.Labels, after.Labels) ||
		!apiequality.Semantic.DeepEqual(before.Annotations, after.Annotations) || !sameMarks(before, after)
}

// sameMarks reports whether two versions of a Pod have the same conditions for probe results. A difference enqueues
// the Node, because another writer may have replaced such a condition.
func sameMarks(before, after *corev1.Pod) bool {
	marks := func(pod *corev1.Pod) (out []corev1.PodCondition) {
		for i := range pod.Status.Conditions {
			if isMark(&pod.Status.Conditions[i]) {
				out = append(out, pod.Status.Conditions[i])
			}
		}
		return out
	}
	return apiequality.Semantic.DeepEqual(marks(before), marks(after))
}

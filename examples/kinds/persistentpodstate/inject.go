package persistentpodstate

import (
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/reason"
)

// NodeSelectorReplaced means that Inject has replaced a value in a Pod's nodeSelector by the recorded label value of
// the Node on which the last Pod of the same name ran.
const NodeSelectorReplaced reason.Code = "NodeSelectorReplaced"

// Inject makes the scheduler place a new Pod where the last Pod of the same name ran. The recorded values of required
// keys are added to the nodeSelector, and each preference is added to the node affinity. Inject returns the values of
// the nodeSelector that were replaced. A Pod for which no label was recorded is not changed.
//
// Inject leaves out what the API server would refuse: preferences with a weight of 0 or less, preferences without a
// recorded key, and invalid label values. Weights above the maximum are reduced to the maximum. A second call changes
// nothing more.
func Inject(pod *corev1.Pod, state *v1beta1.PersistentPodState) (replaced reason.List) {
	recorded := state.Status.PodStates[pod.Name].NodeTopologyLabels
	if len(recorded) == 0 {
		return nil
	}
	s, _, _ := resolve(&state.Spec)
	for i, key := range s.required {
		value, ok := usable(recorded, key)
		if !ok {
			continue
		}
		if asked, ok := pod.Spec.NodeSelector[key]; ok && asked != value {
			replaced = append(replaced, reason.Reason{
				Code: NodeSelectorReplaced, Object: reason.ObjectOf("PersistentPodState", state), Path: fmt.Sprintf("spec.requiredPersistentTopology.keys[%d]", i),
				Old: key + "=" + asked, New: key + "=" + value,
				Detail: "Pod " + pod.Name + " asks for another topology than the one it ran in, and gets that",
				Remedy: "take the key out of the PersistentPodState, or the label out of the Pod template",
			})
		}
		put(&pod.Spec.NodeSelector, key, value)
	}
	for i := range s.preferred {
		prefer(pod, &s.preferred[i], recorded)
	}
	put(&pod.Annotations, apps.AnnotationInjectedPersistentPodState, state.Name)
	return replaced
}

func usable(recorded map[string]string, key string) (string, bool) {
	value, ok := recorded[key]
	return value, ok && len(validation.IsValidLabelValue(value)) == 0 && len(validation.IsQualifiedName(key)) == 0
}

// prefer adds a preference to the node affinity.
func prefer(pod *corev1.Pod, wish *v1beta1.PreferredTopologyTerm, recorded map[string]string) {
	term := corev1.PreferredSchedulingTerm{Weight: wish.Weight}
	for _, key := range wish.Preference.Keys {
		if value, ok := usable(recorded, key); ok {
			term.Preference.MatchExpressions = append(term.Preference.MatchExpressions,
				corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}})
		}
	}
	if len(term.Preference.MatchExpressions) == 0 {
		return
	}
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	if pod.Spec.Affinity.NodeAffinity == nil {
		pod.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	terms := &pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if !slices.ContainsFunc(*terms, func(is corev1.PreferredSchedulingTerm) bool { return apiequality.Semantic.DeepEqual(is, term) }) {
		*terms = append(*terms, term)
	}
}

// TopologyGone means that a Pod cannot be scheduled, because the Pod requires recorded labels that no Node has any
// more.
const TopologyGone reason.Code = "TopologyGone"

// stranded returns the unscheduled Pods whose nodeSelector, after the additions by Inject, matches no Node. nodes
// returns all Nodes. nodes is called only if a Pod waits.
func stranded(state *v1beta1.PersistentPodState, s *settings, pods []*corev1.Pod, nodes func() []*corev1.Node) (stranded reason.List) {
	all := sync.OnceValue(nodes)
	for _, pod := range pods {
		if !waits(pod, state.Name) {
			continue
		}
		wanted := map[string]string{}
		for _, key := range s.required {
			if value, ok := usable(state.Status.PodStates[pod.Name].NodeTopologyLabels, key); ok {
				wanted[key] = value
			}
		}
		has := func(node *corev1.Node) bool { return isPart(wanted, node.Labels) }
		if len(wanted) > 0 && !slices.ContainsFunc(all(), has) {
			stranded = append(stranded, reason.Reason{
				Code: TopologyGone, Object: reason.ObjectOf("Pod", pod), Path: "spec.nodeSelector", New: metav1.FormatLabelSelector(metav1.SetAsLabelSelector(wanted)),
				Detail: "it ran on a Node with these labels, and no Node has them now",
				Remedy: "bring such a Node back, or delete the PersistentPodState or this record of its status, and then the Pod",
			})
		}
	}
	return stranded
}

// waits reports whether Inject has changed a Pod for the given PersistentPodState, and the Pod is not bound to a Node
// yet.
func waits(pod *corev1.Pod, state string) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && pod.Annotations[apps.AnnotationInjectedPersistentPodState] == state
}

func isPart(of, labels map[string]string) bool {
	for key, value := range of {
		if has, ok := labels[key]; !ok || has != value {
			return false
		}
	}
	return true
}

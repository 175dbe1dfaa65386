package daemonset

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podstate"
)

// FuzzDecide decides for a DaemonSet on a few Nodes with Pods in any state. The decision is about existing Pods of
// the DaemonSet, no Node gets an unwanted Pod, and a second decision equals the first.
func FuzzDecide(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0}, []byte{0, 0, 0}, []byte{0, 0, 1, 1, 2, 0})
	f.Add([]byte{2, 1, 0, 1}, []byte{0, 1, 2, 3, 0}, []byte{0, 1, 1, 1, 2, 1, 3, 1, 4, 0x11})
	f.Add([]byte{0, 0, 1, 2}, []byte{0, 0, 0}, []byte{0, 1, 0, 0, 1, 5, 2, 3})
	f.Add([]byte{1, 2, 0, 0xfd}, []byte{0, 4, 0, 2}, []byte{0, 6, 1, 7, 2, 8, 3, 9, 9, 1})
	f.Fuzz(func(t *testing.T, spec, nodeBytes, podBytes []byte) {
		set := drawn(spec)
		nodes, pods, orphans := drawnNodes(nodeBytes), drawnPods(set, podBytes), []*corev1.Pod{}
		own := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !metav1.IsControlledBy(pod, set) })
		for _, pod := range pods {
			if metav1.GetControllerOf(pod) == nil {
				orphans = append(orphans, pod)
			}
		}
		decided := func() (*observation, *todo) {
			o := newObserver(t).observe(set, fitted(set), nodes, own)
			o.orphans = orphans
			todo, err := decide(o)
			if err != nil {
				t.Fatal(err)
			}
			return o, todo
		}
		o, first := decided()
		checkDecision(t, o, first)
		_, second := decided()
		if diff := cmp.Diff(told(first), told(second)); diff != "" {
			t.Errorf("decided again (-first +second):\n%s", diff)
		}
		if t.Failed() {
			for _, pod := range pods {
				t.Logf("Pod %s on %q, %v, phase %s, dying %t", pod.Name, pod.Spec.NodeName, pod.Labels, pod.Status.Phase, pod.DeletionTimestamp != nil)
			}
			t.Logf("decided %v", told(first))
		}
	})
}

func told(t *todo) map[string][]string {
	return map[string][]string{
		"create": t.step.Create, "delete": named(t.remove), "update": named(t.update), "adopt": named(t.adopt), "release": named(t.release),
	}
}

// drawn returns a DaemonSet that admission accepts.
func drawn(data []byte) *v1beta1.DaemonSet {
	at := func(i int) byte {
		if i < len(data) {
			return data[i]
		}
		return 0
	}
	return agents(func(set *v1beta1.DaemonSet) {
		ru, flags := rollingUpdateOf(set), at(3)
		ru.Partition, ru.MaxUnavailable = number(int32(at(0)%5)), number(int32(at(1)%4))
		if surge := at(2) % 4; surge > 0 {
			ru.MaxSurge, ru.MaxUnavailable, ru.RollingUpdateType = number(int32(surge)), number(0), v1beta1.StandardRollingUpdateType
		}
		ru.Paused = ptr.To(flags&1 > 0)
		if flags&2 > 0 {
			ru.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"wave": "a"}}
		}
		if flags&4 > 0 {
			set.Spec.ScaleStrategy = &v1beta1.DaemonSetScaleStrategy{PartitionedScaling: true}
		}
		if flags&8 > 0 {
			set.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "web"}
		}
		if flags&16 > 0 {
			set.Annotations = map[string]string{apps.AnnotationTemplateGeneration: "4"}
		}
		if flags&32 > 0 {
			set.Spec.UpdateStrategy = v1beta1.DaemonSetUpdateStrategy{Type: v1beta1.OnDeleteDaemonSetStrategyType}
		}
		if flags&64 > 0 {
			set.DeletionTimestamp = new(metav1.NewTime(decidedAt))
		}
		if flags&128 > 0 {
			set.Spec.BurstReplicas = percentage("30%")
		}
	})
}

func drawnNodes(data []byte) (nodes []*corev1.Node) {
	kinds := [][]func(*corev1.Node){
		{nodeLabelled("pool", "web")},
		{nodeTainted(corev1.TaintEffectNoSchedule)},
		{nodeTainted(corev1.TaintEffectNoExecute)},
		{nodeLabelled("wave", "a")},
		{nodeLabelled("wave", "a"), nodeLabelled("pool", "web")},
		{},
	}
	for i, b := range data[:min(len(data), 8)] {
		nodes = append(nodes, machine(fmt.Sprintf("n%d", i), kinds[int(b)%len(kinds)]...))
	}
	return nodes
}

// drawnPods returns Pods on existing and deleted Nodes, each with at most two special properties.
func drawnPods(set *v1beta1.DaemonSet, data []byte) (pods []*corev1.Pod) {
	kinds := []func(*corev1.Pod){
		func(*corev1.Pod) {}, isOld, isUnready, isClosed, isTerminating,
		func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed },
		func(pod *corev1.Pod) { nodefit.Pin(&pod.Spec, pod.Spec.NodeName); pod.Spec.NodeName = "" },
		func(pod *corev1.Pod) { pod.Spec.NodeName = "" },
		podLabelled("app", "other"), podLabelled(apps.LabelTemplateGeneration, "4"), podLabelled(apps.LabelLifecycleState, "PreparingDelete"),
		func(pod *corev1.Pod) { pod.OwnerReferences = nil },
		func(pod *corev1.Pod) { pod.OwnerReferences[0].UID = "uid-other" },
		isReadySince(1), func(pod *corev1.Pod) { pod.Spec.ReadinessGates = nil }, func(pod *corev1.Pod) { pod.Annotations = map[string]string{apps.AnnotationInPlaceUpdateState: "{"} },
	}
	for i, pair := range slices.Collect(slices.Chunk(data[:min(len(data), 32)], 2)) {
		if len(pair) < 2 {
			break
		}
		pod := agentOn(set, fmt.Sprintf("n%d", pair[0]%10))
		pod.Name = fmt.Sprintf("agent-%d", i)
		pod.UID = types.UID("uid-" + pod.Name)
		kinds[pair[1]&15](pod)
		if second := pair[1] >> 4; len(pod.OwnerReferences) > 0 {
			kinds[second](pod)
		}
		pods = append(pods, pod)
	}
	return pods
}

// checkDecision checks that all Pods belong to the DaemonSet, and each is in a single list. A Node gets a Pod only if
// the Node fits, and if either no Pod runs on the Node or the Node's old Pod is replaced.
func checkDecision(t *testing.T, o *observation, todo *todo) {
	t.Helper()
	in := map[string]string{}
	for what, list := range map[string][]*corev1.Pod{"delete": todo.remove, "update": todo.update, "release": todo.release} {
		for _, pod := range list {
			if before := in[pod.Name]; before != "" {
				t.Errorf("Pod %s is in %s and %s", pod.Name, before, what)
			}
			in[pod.Name] = what
			selected := pod.Labels["app"] == "agent"
			if !metav1.IsControlledBy(pod, o.set) || selected != (what != "release") || what != "release" && pod.DeletionTimestamp != nil || what == "update" && !podstate.IsActive(pod) {
				t.Errorf("%s: Pod %s is none to work on", what, pod.Name)
			}
		}
	}
	for _, pod := range todo.adopt {
		if metav1.GetControllerOf(pod) != nil || pod.Labels["app"] != "agent" || o.set.DeletionTimestamp != nil {
			t.Errorf("Pod %s is adopted", pod.Name)
		}
	}
	running := map[string]int{}
	for i, p := range o.perNode.Pods {
		if podstate.IsActive(o.perNode.Of([]int{i})[0]) && !p.NotSelected {
			running[p.Node]++
		}
	}
	created := map[string]bool{}
	for _, name := range todo.step.Create {
		i := slices.IndexFunc(o.nodes, func(node *corev1.Node) bool { return node.Name == name })
		if i < 0 || created[name] || !o.fit.requirements.Fits(o.nodes[i]).Run {
			t.Errorf("a Pod is created for Node %s, which is not there or does not fit, or has got one", name)
		}
		if created[name] = true; running[name] > 1 || running[name] > 0 && rollingOf(o.set).MaxSurge == nil {
			t.Errorf("a Pod is created for Node %s beside %d", name, running[name])
		}
	}
}

package persistentpodstate

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func Example_inject() {
	state := &v1beta1.PersistentPodState{}
	state.Spec.RequiredPersistentTopology = &v1beta1.NodeTopologyTerm{Keys: []string{"topology.kubernetes.io/zone"}}
	state.Status.PodStates = map[string]v1beta1.PodState{"db-0": {NodeName: "n1", NodeTopologyLabels: map[string]string{"topology.kubernetes.io/zone": "a"}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db-0"}}
	_ = Inject(pod, state)
	fmt.Println(pod.Spec.NodeSelector)
	// Output: map[topology.kubernetes.io/zone:a]
}

func term(weight int32, pairs ...string) corev1.PreferredSchedulingTerm {
	out := corev1.PreferredSchedulingTerm{Weight: weight}
	for i := 0; i < len(pairs); i += 2 {
		out.Preference.MatchExpressions = append(out.Preference.MatchExpressions, corev1.NodeSelectorRequirement{Key: pairs[i], Operator: corev1.NodeSelectorOpIn, Values: []string{pairs[i+1]}})
	}
	return out
}

func prefers(terms ...corev1.PreferredSchedulingTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms}}
}

func TestInject(t *testing.T) {
	weights := func(terms ...v1beta1.PreferredTopologyTerm) func(*v1beta1.PersistentPodStateSpec) {
		return func(s *v1beta1.PersistentPodStateSpec) { s.PreferredPersistentTopology = terms }
	}
	preference := func(weight int32, keys ...string) v1beta1.PreferredTopologyTerm {
		return v1beta1.PreferredTopologyTerm{Weight: weight, Preference: v1beta1.NodeTopologyTerm{Keys: keys}}
	}
	for _, c := range []struct {
		name     string
		spec     *v1beta1.PersistentPodStateSpec
		recorded v1beta1.PodState
		asked    corev1.PodSpec
		selector map[string]string
		affinity *corev1.Affinity
		injected bool
		replaced int
	}{
		{name: "PS-3 the example", spec: spec(), recorded: at("n1", "zone=a", "host=n1"), selector: pairs("zone=a"), affinity: prefers(term(100, "host", "n1")), injected: true},
		{name: "PS-3 nothing is recorded", spec: spec()},
		{name: "PS-3 no label is recorded", spec: spec(), recorded: at("n1")},
		{name: "PS-3 other selectors and affinities stay", spec: spec(), recorded: at("n1", "zone=a", "host=n1"), asked: corev1.PodSpec{NodeSelector: pairs("disk=ssd"), Affinity: prefers(term(1, "x", "y"))}, selector: pairs("disk=ssd", "zone=a"), affinity: prefers(term(1, "x", "y"), term(100, "host", "n1")), injected: true},
		{name: "PS-3 another value is replaced, and that is said", spec: spec(), recorded: at("n1", "zone=a"), asked: corev1.PodSpec{NodeSelector: pairs("zone=b")}, selector: pairs("zone=a"), injected: true, replaced: 1},
		{name: "PS-3 the same value is not", spec: spec(), recorded: at("n1", "zone=a"), asked: corev1.PodSpec{NodeSelector: pairs("zone=a")}, selector: pairs("zone=a"), injected: true},
		{name: "PS-3 once", spec: spec(), recorded: at("n1", "host=n1"), asked: corev1.PodSpec{Affinity: prefers(term(100, "host", "n1"))}, affinity: prefers(term(100, "host", "n1")), injected: true},
		{name: "PS-4 a preference without a recorded key", spec: spec(), recorded: at("n1", "zone=a"), selector: pairs("zone=a"), injected: true},
		{name: "PS-3 several keys in one", spec: spec(weights(preference(7, "host", "rack", "none"))), recorded: at("n1", "host=n1", "rack=r"), affinity: prefers(term(7, "host", "n1", "rack", "r")), injected: true},
		{name: "PS-3 weight 0 would have the Pod refused", spec: spec(weights(preference(0, "host"), preference(-1, "host"))), recorded: at("n1", "host=n1"), injected: true},
		{name: "PS-3 so would more than 100", spec: spec(weights(preference(101, "host"))), recorded: at("n1", "host=n1"), affinity: prefers(term(100, "host", "n1")), injected: true},
		{name: "PS-3 values and keys that no label has", spec: spec(weights(preference(1, "a b"))), recorded: at("n1", "zone=a b", "a b=c"), injected: true},
		{name: "PS-5 annotations are not put on the Pod", spec: spec(), recorded: v1beta1.PodState{NodeTopologyLabels: pairs("zone=a"), Annotations: pairs("ip=1")}, selector: pairs("zone=a"), injected: true},
		{name: "PS-3 keys that were taken out of the spec", spec: spec(func(s *v1beta1.PersistentPodStateSpec) { s.RequiredPersistentTopology = nil }), recorded: at("n1", "zone=a"), injected: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			state := &v1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Name: "keep"}, Spec: *c.spec}
			state.Status.PodStates = records{"db-0": c.recorded, "db-1": at("n2", "zone=other")}
			before := state.DeepCopy()
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db-0"}, Spec: c.asked}
			replaced := Inject(pod, state)
			want := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db-0"}, Spec: corev1.PodSpec{NodeSelector: c.selector, Affinity: c.affinity}}
			if c.injected {
				want.Annotations = pairs("kruise.io/injected-persistent-pod-state=keep")
			}
			if diff := cmp.Diff(want, pod); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(replaced) != c.replaced {
				t.Errorf("replaced: %v", replaced)
			}
			if diff := cmp.Diff(before, state); diff != "" {
				t.Errorf("the cache's object has changed:\n%s", diff)
			}
		})
	}
}

func TestStranded(t *testing.T) {
	state := &v1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Name: "keep"}, Spec: *spec()}
	state.Spec.RequiredPersistentTopology.Keys = []string{"zone", "host"}
	state.Status.PodStates = records{"db-0": at("n1", "zone=a", "host=n1"), "db-1": at("n2", "zone=b", "host=n2"), "db-2": at("n3")}
	waiting := func(name string, edits ...func(*corev1.Pod)) *corev1.Pod {
		pod := readyPod(name, "", annotated("kruise.io/injected-persistent-pod-state=keep"))
		for _, edit := range edits {
			edit(pod)
		}
		return pod
	}
	n1, _ := nodes("n1")
	half, _ := nodes("half")
	all := func() []*corev1.Node { return []*corev1.Node{n1, half} }
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		want int
	}{
		{"its Node is there", waiting("db-0"), 0},
		{"no Node has both labels", waiting("db-1"), 1},
		{"nothing is required of it", waiting("db-2"), 0},
		{"it is on a Node", waiting("db-1", func(pod *corev1.Pod) { pod.Spec.NodeName = "n9" }), 0},
		{"it is about to go", waiting("db-1", terminating), 0},
		{"another has injected it", waiting("db-1", annotated("kruise.io/injected-persistent-pod-state=other")), 0},
	} {
		t.Run("PS-3 "+c.name, func(t *testing.T) {
			if got := stranded(state, read(&state.Spec), []*corev1.Pod{c.pod}, all); len(got) != c.want {
				t.Errorf("%v", got)
			}
		})
	}
	state.Spec.RequiredPersistentTopology = nil
	if got := stranded(state, read(&state.Spec), []*corev1.Pod{waiting("db-1")}, nil); len(got) > 0 {
		t.Errorf("nothing is required: %v", got)
	}
}

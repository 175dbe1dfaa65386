package nodepodprobe

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/kruise/probes"
	"github.com/workloadkit/workloadkit/node/probing"
)

func nodeOf(ready corev1.ConditionStatus, labels map[string]string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	return n
}

func entry(namespace, name string) probing.Entry {
	return probing.Entry{Namespace: namespace, Name: name, UID: types.UID(namespace + name), IP: "10.0.0.1", Probes: []probing.Assigned{{
		Name: "m#p", Container: "app", Probe: corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}},
	}}}
}

func TestNext(t *testing.T) {
	virtual := map[string]string{apps.LabelNodeType: apps.NodeTypeVirtualKubelet}
	spec := probes.SpecOf([]probing.Entry{entry("a", "x")})
	empty, full := &v1alpha1.NodePodProbe{}, &v1alpha1.NodePodProbe{Spec: spec}
	two := probes.SpecOf([]probing.Entry{entry("a", "x"), entry("a", "y")})
	turned := &v1alpha1.NodePodProbe{Spec: probes.SpecOf([]probing.Entry{entry("a", "y"), entry("a", "x")})}
	damaged := full.DeepCopy()
	damaged.Spec.Undecodable = []decode.Problem{{}}
	going := full.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{}
	for _, tt := range []struct {
		name   string
		node   *corev1.Node
		list   *v1alpha1.NodePodProbe
		wanted v1alpha1.NodePodProbeSpec
		want   step
	}{
		{"PP-1 a Node is ready", nodeOf("True", nil), nil, v1alpha1.NodePodProbeSpec{}, create},
		{"PP-1 a Node is not ready yet", nodeOf("False", nil), nil, spec, leave},
		{"PP-1 a Node is no longer ready", nodeOf("Unknown", nil), full, spec, leave},
		{"PP-1 a virtual Node", nodeOf("True", virtual), nil, spec, leave},
		{"PP-1 a Node has become virtual", nodeOf("True", virtual), full, spec, remove},
		{"PP-1 the Node has gone", nil, full, spec, remove},
		{"PP-64 neither Node nor list", nil, nil, spec, leave},
		{"PP-3 new probes", nodeOf("True", nil), empty, spec, update},
		{"7.4 no probes any more", nodeOf("True", nil), full, v1alpha1.NodePodProbeSpec{}, update},
		{"ND-35 nothing new", nodeOf("True", nil), full, spec, leave},
		{"7.2 another order", nodeOf("True", nil), turned, two, leave},
		{"7.2 a field that cannot be decoded", nodeOf("True", nil), damaged, spec, update},
		{"the list is being deleted", nodeOf("True", nil), going, v1alpha1.NodePodProbeSpec{}, leave},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := next(tt.node, tt.list, tt.wanted); got != tt.want {
				t.Errorf("step %d, want %d", got, tt.want)
			}
		})
	}
}

func TestWantedSpec(t *testing.T) {
	list := &v1alpha1.NodePodProbe{Spec: probes.SpecOf([]probing.Entry{entry("a", "x"), entry("b", "y")})}
	for name, tt := range map[string]struct {
		namespace string
		want      []probing.Entry
	}{
		"all namespaces: other entries go":    {"", []probing.Entry{entry("b", "z")}},
		"a single namespace: the others stay": {"b", []probing.Entry{entry("a", "x"), entry("b", "z")}},
	} {
		t.Run(name, func(t *testing.T) {
			got := wantedSpec(list, []probing.Entry{entry("b", "z")}, tt.namespace)
			if diff := cmp.Diff(tt.want, probes.Entries(&got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOrder(t *testing.T) {
	at := func(name string, second int64, goes bool) *v1alpha1.PodProbeMarker {
		m := &v1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(second, 0)}}
		if goes {
			m.DeletionTimestamp = &metav1.Time{}
		}
		return m
	}
	var names []string
	for _, m := range inOrder([]*v1alpha1.PodProbeMarker{at("c", 2, false), at("gone", 1, true), at("b", 2, false), at("z", 1, false)}) {
		names = append(names, m.Name)
	}
	if diff := cmp.Diff([]string{"z", "b", "c"}, names); diff != "" {
		t.Errorf("PP-9 (-want +got):\n%s", diff)
	}
}

// TestHostileStatus: a result in the status changes no Pod if the spec contains no probe of this name.
func TestHostileStatus(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", UID: "ax"}, Spec: corev1.PodSpec{NodeName: "n"}}
	spec := probes.SpecOf([]probing.Entry{entry("a", "x")})
	state := func(name string) v1alpha1.NodePodProbeStatus {
		return v1alpha1.NodePodProbeStatus{PodProbeStatuses: []v1alpha1.PodProbeStatus{{
			Namespace: "a", Name: "x", UID: "ax", ProbeStates: []v1alpha1.ContainerProbeState{{Name: name, State: v1alpha1.ProbeSucceeded}},
		}}}
	}
	for name, tt := range map[string]struct {
		status v1alpha1.NodePodProbeStatus
		node   string
		want   int
	}{
		"PP-62 as asked":                     {state("m#p"), "n", 1},
		"PP-61 no #":                         {state("p"), "n", 0},
		"PP-62 a probe of another marker":    {state("other#p"), "n", 0},
		"PP-62 a Pod on another Node":        {state("m#p"), "other", 0},
		"PP-62 another Pod of the same name": {v1alpha1.NodePodProbeStatus{PodProbeStatuses: []v1alpha1.PodProbeStatus{{Namespace: "a", Name: "x", UID: "y"}}}, "n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			states, _ := probing.Accept(tt.node, probes.Entries(&spec), probes.Reports(&tt.status), []*corev1.Pod{pod})
			if got := len(states["ax"]); got != tt.want {
				t.Errorf("%d states, want %d", got, tt.want)
			}
		})
	}
}

package persistentpodstate

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/ordinals"
)

// at returns the record of a Pod on a Node, with labels of the Node such as "zone=a".
func at(node string, labels ...string) v1beta1.PodState {
	return v1beta1.PodState{NodeName: node, NodeTopologyLabels: pairs(labels...)}
}

func pairs(list ...string) map[string]string {
	var out map[string]string
	for _, pair := range list {
		if out == nil {
			out = map[string]string{}
		}
		key, value, _ := strings.Cut(pair, "=")
		out[key] = value
	}
	return out
}

func readyPod(name, node string, edits ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

func unready(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse }

func terminating(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }

func annotated(list ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations = pairs(list...) }
}

func read(spec *v1beta1.PersistentPodStateSpec) *settings {
	s, _, _ := resolve(spec)
	return s
}

func spec(edits ...func(*v1beta1.PersistentPodStateSpec)) *v1beta1.PersistentPodStateSpec {
	s := &v1beta1.PersistentPodStateSpec{
		RequiredPersistentTopology: &v1beta1.NodeTopologyTerm{Keys: []string{"zone"}},
		PreferredPersistentTopology: []v1beta1.PreferredTopologyTerm{
			{Weight: 100, Preference: v1beta1.NodeTopologyTerm{Keys: []string{"host"}}},
		},
		PersistentPodAnnotations: []v1beta1.PersistentPodAnnotation{{Key: "ip"}},
	}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func whenDeleted(s *v1beta1.PersistentPodStateSpec) {
	s.PersistentPodStateRetentionPolicy = v1beta1.PersistentPodStateWhenDeleted
}

// wants returns a workload with the given start ordinal, replicas and reserved ordinals.
func wants(t testing.TB, start, replicas int, reserved ...intstr.IntOrString) *workloads.Workload {
	t.Helper()
	set, err := ordinals.Of(ordinals.Paths{}, start, replicas, reserved...)
	if err != nil {
		t.Fatal(err)
	}
	return &workloads.Workload{Object: &metav1.ObjectMeta{Name: "db"}, Wanted: set}
}

func nodes(name string) (*corev1.Node, bool) {
	labels, ok := map[string]map[string]string{
		"n1": pairs("zone=a", "host=n1", "rack=r"), "n2": pairs("zone=b", "host=n2"), "bare": nil, "half": pairs("zone=a"),
	}[name]
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, ok
}

func TestRecord(t *testing.T) {
	type pods = []*corev1.Pod
	three := records{"db-0": at("n1", "zone=a"), "db-1": at("n2", "zone=b"), "db-2": at("n1", "zone=a")}
	only := func(names ...string) records {
		out := records{}
		for _, name := range names {
			out[name] = three[name]
		}
		return out
	}
	for _, c := range []struct {
		name     string
		spec     *v1beta1.PersistentPodStateSpec
		before   records
		workload *workloads.Workload
		pods     pods
		want     records
	}{
		{"PS-1 a ready Pod", spec(), nil, wants(t, 0, 1), pods{readyPod("db-0", "n1", annotated("ip=10.0.0.1", "other=x"))}, records{"db-0": {NodeName: "n1", NodeTopologyLabels: pairs("zone=a", "host=n1"), Annotations: pairs("ip=10.0.0.1")}}},
		{"PS-1 labels that the Node has", spec(), nil, wants(t, 0, 2), pods{readyPod("db-0", "half"), readyPod("db-1", "bare")}, records{"db-0": at("half", "zone=a"), "db-1": at("bare")}},
		{"PS-1 one that is not ready", spec(), nil, wants(t, 0, 1), pods{readyPod("db-0", "n1", unready)}, nil},
		{"PS-1 one that is not scheduled", spec(), nil, wants(t, 0, 1), pods{readyPod("db-0", "")}, nil},
		{"PS-12 one that terminates keeps its record", spec(), three, wants(t, 0, 3), pods{readyPod("db-0", "n2", terminating)}, three},
		{"PS-1 an unknown Node", spec(), only("db-0"), wants(t, 0, 2), pods{readyPod("db-0", "gone"), readyPod("db-1", "gone")}, only("db-0")},
		{"PS-2 on another Node", spec(), only("db-0"), wants(t, 0, 1), pods{readyPod("db-0", "n2")}, records{"db-0": at("n2", "zone=b", "host=n2")}},
		{"PS-2 another value of an annotation", spec(), records{"db-0": {NodeName: "bare", Annotations: pairs("ip=1")}}, wants(t, 0, 1), pods{readyPod("db-0", "bare", annotated("ip=2"))}, records{"db-0": {NodeName: "bare", Annotations: pairs("ip=2")}}},
		{"PS-6 scaled in", spec(), three, wants(t, 0, 1), nil, only("db-0")},
		{"PS-6 scaled in, and the Pod is still there", spec(), three, wants(t, 0, 1), pods{readyPod("db-1", "n2", terminating), readyPod("db-2", "n1", unready)}, three},
		{"PS-6 reserved 1 of 3: 0, 2, 3", spec(), three, wants(t, 0, 3, intstr.FromInt32(1)), nil, only("db-0", "db-2")},
		{"PS-6 a reserved range", spec(), three, wants(t, 0, 2, intstr.FromString("0-1")), nil, only("db-2")},
		{"PS-6 a start", spec(), records{"db-0": at("n1"), "db-5": at("n1"), "db-7": at("n1")}, wants(t, 5, 2), nil, records{"db-5": at("n1")}},
		{"PS-6 no replicas", spec(), three, wants(t, 0, 0), nil, nil},
		{"PS-6 names without an ordinal stay", spec(), records{"db": at("n1"), "db-x": at("n1"), "db-01": at("n1"), "db-9": at("n1")}, wants(t, 0, 1), nil, records{"db": at("n1"), "db-x": at("n1"), "db-01": at("n1")}},
		{"PS-6 nobody knows what is wanted", spec(), three, &workloads.Workload{Object: &metav1.ObjectMeta{}}, nil, three},
		{"PS-7 WhenDeleted", spec(whenDeleted), three, wants(t, 0, 1), nil, three},
		{"PS-7 the target is gone", spec(whenDeleted), three, nil, nil, nil},
		{"PS-7 the target is going", spec(), three, &workloads.Workload{Object: &metav1.ObjectMeta{}, Ending: true}, pods{readyPod("db-0", "n1")}, nil},
		{"an unknown policy is WhenScaled", spec(func(s *v1beta1.PersistentPodStateSpec) { s.PersistentPodStateRetentionPolicy = "Other" }), three, wants(t, 0, 1), nil, only("db-0")},
		{"PS-1 without a topology", &v1beta1.PersistentPodStateSpec{}, nil, wants(t, 0, 1), pods{readyPod("db-0", "n1")}, records{"db-0": at("n1")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			kept := maps.Clone(c.before)
			got, differs := recordOf(read(c.spec), c.before, c.workload, c.pods, nodes)
			if differs == cmp.Equal(c.before, got, cmpopts.EquateEmpty()) {
				t.Errorf("it differs: %t", differs)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(kept, c.before); diff != "" {
				t.Errorf("what was there has changed:\n%s", diff)
			}
		})
	}
}

func jsonSize(t testing.TB, r records) int {
	t.Helper()
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return len(raw)
}

func TestFit(t *testing.T) {
	long := func(text string) v1beta1.PodState { return at(strings.Repeat(text, 100)) }
	for _, c := range []struct {
		name          string
		before, after records
		most          int
		want          records
		left          []string
	}{
		{"all fit", records{"db-0": at("a")}, records{"db-0": at("b"), "db-1": at("c")}, 1000, records{"db-0": at("b"), "db-1": at("c")}, nil},
		{"new ones by ordinal, until there is no room", nil, records{"db-10": long("a"), "db-2": long("b"), "db-3": long("c")}, 400, records{"db-2": long("b"), "db-3": long("c")}, []string{"db-10"}},
		{"what is there goes never", records{"db-9": long("a")}, records{"db-9": long("a"), "db-0": long("b")}, 200, records{"db-9": long("a")}, []string{"db-0"}},
		{"what is there comes before what is new", records{"db-9": at("a")}, records{"db-9": long("a"), "db-0": long("b")}, 200, records{"db-9": long("a")}, []string{"db-0"}},
		{"what does not fit any more stays as it was", records{"db-0": at("a")}, records{"db-0": long("b")}, 100, records{"db-0": at("a")}, []string{"db-0"}},
		{"what gets smaller is taken", records{"db-0": long("a"), "db-1": long("b")}, records{"db-0": at("a"), "db-1": long("b")}, 100, records{"db-0": at("a"), "db-1": long("b")}, nil},
		{"what was dropped makes room", records{"db-0": long("a")}, records{"db-1": long("b")}, 200, records{"db-1": long("b")}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, left := fit(c.before, c.after, c.most)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.left, left); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// TestThousandsFit: 10,000 records of Pods with short names fit, and their JSON stays within the limit.
func TestThousandsFit(t *testing.T) {
	all := records{}
	for i := range 10_000 {
		node := fmt.Sprintf("node-%04d", i)
		all[fmt.Sprintf("db-%d", i)] = at(node, "kubernetes.io/hostname="+node)
	}
	fitting, left := fit(nil, all, maxSize)
	if len(left) > 0 || len(fitting) != len(all) {
		t.Errorf("%d fit, %d do not", len(fitting), len(left))
	}
	for i := range 10_000 {
		name := fmt.Sprintf("db-%d", i)
		all[name] = v1beta1.PodState{NodeName: "n", Annotations: map[string]string{"a": strings.Repeat("<é\"", 20)}}
	}
	fitting, left = fit(nil, all, maxSize)
	if size := jsonSize(t, fitting); size > maxSize || len(left) == 0 {
		t.Errorf("%d bytes, %d do not fit", size, len(left))
	}
}

// FuzzRecord: the record of an existing or wanted Pod is never removed, and every recorded value comes from a Node or
// from an earlier record.
func FuzzRecord(f *testing.F) {
	f.Add(uint8(3), uint8(1), uint8(5), uint8(0b101), uint8(0b010), false, 200)
	f.Add(uint8(0), uint8(0), uint8(0), uint8(0), uint8(0xff), true, 1000)
	f.Fuzz(func(t *testing.T, replicas, start, reserved, recorded, running uint8, keep bool, most int) {
		workload := wants(t, int(start%4), int(replicas%8), intstr.FromInt32(int32(reserved%8)))
		s, before := spec(), records{}
		if keep {
			whenDeleted(s)
		}
		var pods []*corev1.Pod
		for i := range 8 {
			name := fmt.Sprintf("db-%d", i)
			if recorded>>i&1 == 1 {
				before[name] = at("old", "zone=old")
			}
			if running>>i&1 == 1 {
				pods = append(pods, readyPod(name, []string{"n1", "gone"}[i%2]))
			}
		}
		after, _ := recordOf(read(s), before, workload, pods, nodes)
		fitting, left := fit(before, after, most)
		for i := range 8 {
			name := fmt.Sprintf("db-%d", i)
			is, ok := fitting[name]
			was, had := before[name]
			runs, wanted := running>>i&1 == 1, keep || workload.Wanted.Contains(i)
			switch {
			case had && (runs || wanted) && !ok:
				t.Errorf("the record of %s is lost", name)
			case !had && !runs && ok, had && !runs && !wanted && ok:
				t.Errorf("%s has a record %v", name, is)
			case ok && is.NodeName == "n1" && (!runs || i%2 == 1), ok && is.NodeName == "old" && !cmp.Equal(is, was):
				t.Errorf("the record of %s is %v", name, is)
			}
		}
		for name := range after {
			if _, ok := fitting[name]; !ok && !strings.Contains(strings.Join(left, " ")+" ", name+" ") {
				t.Errorf("nobody is told that %s does not fit", name)
			}
		}
	})
}

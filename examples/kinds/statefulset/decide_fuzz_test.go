package statefulset

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podstate"
)

// FuzzDecide decides for a StatefulSet with a few Pods and claims in any state. The decision is about existing objects
// of the StatefulSet, and a second decision equals the first.
func FuzzDecide(f *testing.F) {
	f.Add([]byte{4, 0, 1, 0, 0, 0}, []byte{0, 0, 1, 0, 2, 0}, []byte{0, 0, 1, 0})
	f.Add([]byte{5, 2, 3, 1, 1, 0}, []byte{0, 9, 1, 17, 2, 33, 3, 12, 7, 1}, []byte{0, 1, 1, 2, 2, 3, 3, 4})
	f.Add([]byte{3, 0, 1, 0, 7, 0xff}, []byte{0, 5, 1, 6, 2, 10, 5, 11}, []byte{0, 4, 1, 5, 2, 6, 5, 7})
	f.Add([]byte{8, 1, 2, 2, 2, 0x5a}, []byte{0, 1, 1, 1, 2, 1, 3, 1, 4, 0x81, 5, 0x91}, []byte{})
	f.Fuzz(func(t *testing.T, spec, pods, volumes []byte) {
		in := situation{set: drawn(spec), pods: drawnPods(pods), claims: drawnClaims(volumes)}
		o := observe(t, in)
		todo, err := decide(o)
		if err != nil {
			t.Fatalf("%v\nPods %s\nclaims %s", err, in.pods, in.claims)
		}
		checkPods(t, o, todo)
		checkClaims(t, o, todo)
		again, err := decide(observe(t, in))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(todo.told(), again.told()); diff != "" {
			t.Errorf("decided again (-first +second):\n%s", diff)
		}
		if t.Failed() {
			t.Logf("decided %s\nPods %s\nclaims %s", todo.told(), in.pods, in.claims)
		}
	})
}

// drawn returns a StatefulSet that admission accepts.
func drawn(data []byte) *v1beta1.StatefulSet {
	at := func(i int) byte {
		if i < len(data) {
			return data[i]
		}
		return 0
	}
	edits := []edit{keep(int32(at(1) % 6)), budget(fmt.Sprint(at(2)%4 + 1))}
	if reserved := at(3) % 4; reserved > 0 {
		edits = append(edits, reserve("1", fmt.Sprintf("3-%d", 3+reserved)))
	}
	flags := at(5)
	for i, e := range []edit{
		inOrder, scaleBy("1"), claims("2Gi"), follow("2Gi"), goWith(flags&1 > 0, flags&2 > 0), from(int32(at(4) % 3)),
		rolling(func(r *v1beta1.RollingUpdateStatefulSet) { r.Paused = true }), onDelete,
	} {
		if flags&(1<<i) > 0 {
			edits = append(edits, e)
		}
	}
	return db(int32(at(0)%9), edits...)
}

// drawnPods returns a list of Pods such as "0 old, 1 new down": at most one Pod for each ordinal, with up to two
// words that describe the Pod.
func drawnPods(data []byte) string {
	words := []string{
		"new", "old", "down", "fresh", "pending", "failed", "succeeded", "terminating", "specified", "updating", "asked", "held", "closed", "taken",
		"orphan", "foreign", "mistaken",
	}
	var list []string
	seen := map[byte]bool{}
	for pair := range slices.Chunk(data[:min(len(data), 40)], 2) {
		if ordinal := pair[0] % 12; len(pair) == 2 && !seen[ordinal] {
			seen[ordinal] = true
			first, second := words[int(pair[1]&15)], words[int(pair[1]>>4)+1]
			if first == "pending" || first == "orphan" {
				second = "new" // the two words would contradict
			}
			list = append(list, fmt.Sprintf("%d %s %s", ordinal, first, second))
		}
	}
	return strings.Join(list, ", ")
}

func drawnClaims(data []byte) string {
	words := []string{
		"1Gi", "2Gi", "2Gi/1Gi", "3Gi", "1Gi slow", "1Gi dying", "2Gi restart", "1Gi ofset", "1Gi ofpod", "2Gi earlier", "1Gi foreign", "1Gi another", "1Gi refused",
	}
	var list []string
	seen := map[byte]bool{}
	for pair := range slices.Chunk(data[:min(len(data), 40)], 2) {
		if ordinal := pair[0] % 12; len(pair) == 2 && !seen[ordinal] {
			seen[ordinal] = true
			list = append(list, fmt.Sprintf("%d %s", ordinal, words[int(pair[1])%len(words)]))
		}
	}
	return strings.Join(list, ", ")
}

// checkPods checks that all Pods belong to the StatefulSet, and each is in a single list. Pods are created only for
// wanted ordinals without a Pod.
func checkPods(t *testing.T, o *observation, todo *todo) {
	t.Helper()
	held, in := map[int]bool{}, map[string]string{}
	for _, p := range o.members.Pods {
		held[p.Ordinal] = true
	}
	for what, list := range map[string][]*corev1.Pod{"delete": todo.remove, "cancel": todo.cancel, "update": todo.update} {
		for _, pod := range list {
			if before := in[pod.Name]; before != "" {
				t.Errorf("Pod %s is in %s and %s", pod.Name, before, what)
			}
			in[pod.Name] = what
			if !metav1.IsControlledBy(pod, o.set) || pod.DeletionTimestamp != nil || pod.Labels["app"] != "db" || what != "delete" && !podstate.IsActive(pod) {
				t.Errorf("%s: Pod %s is none to work on", what, pod.Name)
			}
		}
	}
	for _, pod := range todo.remove {
		ordinal, _ := ordinals.OfPod("db", pod)
		asked := pod.Labels[apps.LabelSpecifiedDelete] != "" || pod.Labels[apps.LabelLifecycleState] == "PreparingDelete"
		if o.settings.rollout.Wanted.Contains(ordinal) && podstate.IsActive(pod) && !asked {
			t.Errorf("Pod %s is deleted for no reason", pod.Name)
		}
	}
	for _, c := range todo.create {
		if held[c.Ordinal] || !o.settings.rollout.Wanted.Contains(c.Ordinal) {
			t.Errorf("a Pod of ordinal %d is created, which is held %t", c.Ordinal, held[c.Ordinal])
		}
		held[c.Ordinal] = true
	}
	for _, pod := range todo.adopt {
		if metav1.GetControllerOf(pod) != nil || pod.Labels["app"] != "db" {
			t.Errorf("Pod %s is adopted", pod.Name)
		}
	}
}

// checkClaims checks that claims of other owners are not changed, and no claim becomes smaller.
func checkClaims(t *testing.T, o *observation, todo *todo) {
	t.Helper()
	for _, owned := range todo.own {
		if c := metav1.GetControllerOf(owned.PersistentVolumeClaim); c != nil && c.UID != o.set.UID {
			t.Errorf("claim %s of somebody else gets owners", owned.Name)
		}
	}
	for _, small := range todo.grow {
		c := metav1.GetControllerOf(small.PersistentVolumeClaim)
		asks, wanted := small.Spec.Resources.Requests.Storage(), small.Template.Spec.Resources.Requests.Storage()
		if c != nil && c.UID != o.set.UID || asks.Cmp(*wanted) >= 0 || !o.settings.grows {
			t.Errorf("claim %s of %v grows from %s to %s", small.Name, c, asks, wanted)
		}
	}
}

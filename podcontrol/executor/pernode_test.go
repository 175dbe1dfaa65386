package executor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/reason"
)

// perNode says what Pods for Nodes are made from; they are pinned to their Node.
func perNode(w *world) executor.NodeTemplates {
	return executor.NodeTemplates{History: historyOf(w), Prepare: func(pod *corev1.Pod, node string) { nodefit.Pin(&pod.Spec, node) }}
}

// nameFor is the name of web's Pod for a Node, where these are taken.
func (w *world) nameFor(node string, taken ...string) string {
	return nodefit.PodName("web", "uid-web", node, historyOf(w).Update.Name, func(name string) bool { return slices.Contains(taken, name) })
}

// placed are the Pods of web in the cache, and their Nodes.
func placed(w *world) map[string]string {
	out := map[string]string{}
	for _, pod := range w.cache.Pods.Of("default", "uid-web") {
		out[pod.Name], _ = nodefit.NodeOf(pod)
	}
	return out
}

func TestCreatePerNode(t *testing.T) {
	w := newWorld(t)
	from := perNode(w)
	made, err := w.begin().CreatePerNode(t.Context(), []string{"n2", "n1"}, from)
	if made != 2 || err != nil {
		t.Fatalf("CreatePerNode = %d, %v, want 2", made, err)
	}
	w.deliver()
	if diff := cmp.Diff(map[string]string{w.nameFor("n1"): "n1", w.nameFor("n2"): "n2"}, placed(w)); diff != "" {
		t.Errorf("Pods and their Nodes (-want +got):\n%s", diff)
	}
	pod := w.pod(w.nameFor("n1"))
	want := map[string]string{"app": "web", revisionLabel: from.History.Update.Name, stateLabel: "PreparingNormal"}
	if diff := cmp.Diff(want, pod.Labels); diff != "" || pod.GenerateName != "web-" || pod.Spec.Containers[0].Image != "app:v1" {
		t.Errorf("Pod %+v, labels (-want +got):\n%s", pod, diff)
	}
	if controller := metav1.GetControllerOf(pod); controller == nil || controller.UID != "uid-web" {
		t.Errorf("controlled by %v", controller)
	}
}

// TestCreatePerNodeTwice: whoever asks with the same view asks for the same name, and the API server refuses the second one.
func TestCreatePerNodeTwice(t *testing.T) {
	w := newWorld(t)
	from := perNode(w)
	leader, other := w.begin(), w.begin() // who both take themselves for the leader
	if made, err := leader.CreatePerNode(t.Context(), []string{"n1"}, from); made != 1 || err != nil {
		t.Fatalf("CreatePerNode = %d, %v", made, err)
	}
	made, err := other.CreatePerNode(t.Context(), []string{"n1"}, from)
	if made != 0 || !apierrors.IsAlreadyExists(err) || !strings.Contains(err.Error(), w.nameFor("n1")) {
		t.Errorf("CreatePerNode = %d, %v, want that a Pod of this name exists", made, err)
	}
	w.deliver()
	if diff := cmp.Diff(map[string]string{w.nameFor("n1"): "n1"}, placed(w)); diff != "" {
		t.Errorf("Pods and their Nodes (-want +got):\n%s", diff)
	}
}

// TestCreatePerNodeBeside: where the cache shows a Pod of the name, the next one is asked for, whoever's Pod it is.
func TestCreatePerNodeBeside(t *testing.T) {
	w := newWorld(t)
	from := perNode(w)
	w.add(w.nameFor("n1"), func(pod *corev1.Pod) { pod.Spec.NodeName = "n1" })
	w.add(w.nameFor("n2"), func(pod *corev1.Pod) { pod.OwnerReferences[0].UID = "another" })
	if made, err := w.begin().CreatePerNode(t.Context(), []string{"n1", "n2"}, from); made != 2 || err != nil {
		t.Fatalf("CreatePerNode = %d, %v", made, err)
	}
	w.deliver()
	want := map[string]string{w.nameFor("n1"): "n1", w.nameFor("n1", w.nameFor("n1")): "n1", w.nameFor("n2", w.nameFor("n2")): "n2"}
	if diff := cmp.Diff(want, placed(w)); len(want) != 3 || diff != "" {
		t.Errorf("Pods and their Nodes (-want +got):\n%s", diff)
	}
}

// TestCreatePerNodeRefused: a Node whose Pod is refused does not keep the others from having theirs.
func TestCreatePerNodeRefused(t *testing.T) {
	w := newWorld(t)
	from := perNode(w)
	w.Answer = refuses("create Pod " + w.nameFor("n1"))
	create := func(want map[string]string, nodes ...string) {
		t.Helper()
		_, err := w.begin().CreatePerNode(t.Context(), nodes, from)
		if err == nil || !strings.Contains(err.Error(), w.nameFor("n1")) || !reason.IsFinal(err) {
			t.Errorf("got %v, want the refusal, for good and with the name of the Pod", err)
		}
		w.deliver()
		if diff := cmp.Diff(want, placed(w)); diff != "" {
			t.Errorf("Pods and their Nodes (-want +got):\n%s", diff)
		}
	}
	create(map[string]string{}, "n1", "n2", "n3", "n4")
	w.clock.SetTime(begin.Add(2 * time.Second))
	create(map[string]string{w.nameFor("n2"): "n2", w.nameFor("n3"): "n3", w.nameFor("n4"): "n4"}, "n1", "n2", "n3", "n4")
	if got := w.Requests(); len(got) != 4 || got[3] != "create Pod "+w.nameFor("n1") {
		t.Errorf("requests %q, want the one that was refused last", got)
	}
	w.Answer = nil
	w.clock.SetTime(begin.Add(time.Hour))
	if made, err := w.begin().CreatePerNode(t.Context(), []string{"n1"}, from); made != 1 || err != nil {
		t.Errorf("CreatePerNode = %d, %v once it is allowed", made, err)
	}
}

// TestCreatePerNodeUnusable: without a template, or where admission makes a stranger of the Pod, there is no Pod.
func TestCreatePerNodeUnusable(t *testing.T) {
	w := newWorld(t)
	from := perNode(w)
	from.History.Update.Data.Raw = []byte(`{`)
	if made, err := w.begin().CreatePerNode(t.Context(), nil, from); made != 0 || err != nil {
		t.Errorf("CreatePerNode = %d, %v without Nodes", made, err)
	}
	if made, err := w.begin().CreatePerNode(t.Context(), []string{"n1"}, from); made != 0 || !reason.IsFinal(err) {
		t.Errorf("CreatePerNode = %d, %v, want a final error", made, err)
	}
	if got := w.Requests(); len(got) > 0 {
		t.Errorf("requests %q", got)
	}
	from = perNode(w)
	from.Selector = labels.SelectorFromSet(labels.Set{"app": "other"})
	if made, err := w.begin().CreatePerNode(t.Context(), []string{"n1"}, from); made != 0 || err == nil {
		t.Errorf("CreatePerNode = %d, %v for a Pod that is not selected", made, err)
	}
	w.deliver()
	if got := placed(w); len(got) > 0 {
		t.Errorf("Pods %v are left", got)
	}
}

// TestCreatePerNodeUnpinned: a Pod that no longer names its Node would not be counted there, and be made again and again.
func TestCreatePerNodeUnpinned(t *testing.T) {
	w := newWorld(t)
	w.Change = func(o client.Object) {
		if pod, ok := o.(*corev1.Pod); ok {
			pod.Spec.Affinity = nil
		}
	}
	if made, err := w.begin().CreatePerNode(t.Context(), []string{"n1"}, perNode(w)); made != 0 || err == nil || !strings.Contains(err.Error(), "Node n1") {
		t.Errorf("CreatePerNode = %d, %v for a Pod whose Node was taken", made, err)
	}
	w.deliver()
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: w.nameFor("n1")}, &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Pod is left: %v", err)
	}
}

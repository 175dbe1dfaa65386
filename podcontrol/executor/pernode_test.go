package executor_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/reason"
)

// perNode returns NodeTemplates for Pods that are pinned to their Node.
func perNode(w *world) executor.NodeTemplates {
	return executor.NodeTemplates{Prepare: func(pod *corev1.Pod, node string) { nodefit.Pin(&pod.Spec, node) }}
}

// nameFor returns the name of web's Pod for a Node if other Pods have the names in taken.
func (w *world) nameFor(node string, taken ...string) string {
	return nodefit.PodName("web", "uid-web", node, historyOf(w).Update.Name, func(name string) bool { return slices.Contains(taken, name) })
}

// placed maps the names of web's Pods in the cache to their Nodes.
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
	made, err := w.beginAt(historyOf(w)).CreatePerNode(t.Context(), []string{"n2", "n1"}, from)
	if made != 2 || err != nil {
		t.Fatalf("CreatePerNode = %d, %v, want 2", made, err)
	}
	w.deliver()
	if diff := cmp.Diff(map[string]string{w.nameFor("n1"): "n1", w.nameFor("n2"): "n2"}, placed(w)); diff != "" {
		t.Errorf("Pods and their Nodes (-want +got):\n%s", diff)
	}
	pod := w.pod(w.nameFor("n1"))
	want := map[string]string{"app": "web", revisionLabel: historyOf(w).Update.Name, stateLabel: "PreparingNormal"}
	if diff := cmp.Diff(want, pod.Labels); diff != "" || pod.GenerateName != "web-" || pod.Spec.Containers[0].Image != "app:v1" {
		t.Errorf("Pod %+v, labels (-want +got):\n%s", pod, diff)
	}
	if controller := metav1.GetControllerOf(pod); controller == nil || controller.UID != "uid-web" {
		t.Errorf("controlled by %v", controller)
	}
}

// TestCreatePerNodeWithoutRevisions: the Pods of a job have no revision. CreatePerNode returns an error unless
// exactly one source has a template.
func TestCreatePerNodeWithoutRevisions(t *testing.T) {
	w := newWorld(t)
	from := perNode(w)
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "job:v1"}}}}
	for name, wrong := range map[string]struct {
		turn *turn
		from executor.NodeTemplates
	}{
		"none":            {w.begin(), executor.NodeTemplates{Prepare: from.Prepare}},
		"both":            {w.beginAt(historyOf(w)), executor.NodeTemplates{Prepare: from.Prepare, Template: template}},
		"nobody prepares": {w.begin(), executor.NodeTemplates{Template: template}},
	} {
		if made, err := wrong.turn.CreatePerNode(t.Context(), []string{"n1"}, wrong.from); made != 0 || err == nil || !reason.IsFinal(err) {
			t.Errorf("%s: %d, %v", name, made, err)
		}
	}
	if made, err := w.begin().CreatePerNode(t.Context(), []string{"n1"}, executor.NodeTemplates{Template: template, Prepare: from.Prepare}); made != 1 || err != nil {
		t.Fatalf("CreatePerNode = %d, %v", made, err)
	}
	w.deliver()
	for name, node := range placed(w) {
		if pod := w.pod(name); node != "n1" || pod.Spec.Containers[0].Image != "job:v1" || pod.Labels[revisionLabel] != "" {
			t.Errorf("Pod %+v", pod)
		}
	}
}

// TestCreatePerNodeTwice: two reconciles with the same view request the same name for the Pod of a Node, and the API
// server refuses the second Pod.
func TestCreatePerNodeTwice(t *testing.T) {
	w := newWorld(t)
	from := perNode(w)
	leader, other := w.beginAt(historyOf(w)), w.beginAt(historyOf(w)) // both replicas act as the leader
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

// TestCreatePerNodeBeside: if the cache shows a Pod of any owner with the name, CreatePerNode uses the next name.
func TestCreatePerNodeBeside(t *testing.T) {
	w := newWorld(t)
	from := perNode(w)
	w.add(w.nameFor("n1"), func(pod *corev1.Pod) { pod.Spec.NodeName = "n1" })
	w.add(w.nameFor("n2"), func(pod *corev1.Pod) { pod.OwnerReferences[0].UID = "another" })
	if made, err := w.beginAt(historyOf(w)).CreatePerNode(t.Context(), []string{"n1", "n2"}, from); made != 2 || err != nil {
		t.Fatalf("CreatePerNode = %d, %v", made, err)
	}
	w.deliver()
	want := map[string]string{w.nameFor("n1"): "n1", w.nameFor("n1", w.nameFor("n1")): "n1", w.nameFor("n2", w.nameFor("n2")): "n2"}
	if diff := cmp.Diff(want, placed(w)); len(want) != 3 || diff != "" {
		t.Errorf("Pods and their Nodes (-want +got):\n%s", diff)
	}
}

// TestCreatePerNodeRefused: if the Pod of a Node is refused, the Pods of other Nodes are still created.
func TestCreatePerNodeRefused(t *testing.T) {
	w := newWorld(t)
	from := perNode(w)
	w.Answer = refuses("create Pod " + w.nameFor("n1"))
	create := func(want map[string]string, nodes ...string) {
		t.Helper()
		_, err := w.beginAt(historyOf(w)).CreatePerNode(t.Context(), nodes, from)
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
	if made, err := w.beginAt(historyOf(w)).CreatePerNode(t.Context(), []string{"n1"}, from); made != 1 || err != nil {
		t.Errorf("CreatePerNode = %d, %v once it is allowed", made, err)
	}
}

// TestCreatePerNodeUnusable: no Pod remains in the API server if the template is missing, or if an admission webhook
// removes the Pod's owner reference.
func TestCreatePerNodeUnusable(t *testing.T) {
	w := newWorld(t)
	from, h := perNode(w), historyOf(w)
	h.Update.Data.Raw = []byte(`{`)
	if made, err := w.beginAt(h).CreatePerNode(t.Context(), nil, from); made != 0 || err != nil {
		t.Errorf("CreatePerNode = %d, %v without Nodes", made, err)
	}
	if made, err := w.beginAt(h).CreatePerNode(t.Context(), []string{"n1"}, from); made != 0 || !reason.IsFinal(err) {
		t.Errorf("CreatePerNode = %d, %v, want a final error", made, err)
	}
	if got := w.Requests(); len(got) > 0 {
		t.Errorf("requests %q", got)
	}
}

// TestCreatePerNodeRefuses: CreatePerNode sends no request for a Pod that would not belong to the owner.
func TestCreatePerNodeRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(p *turn, from *executor.NodeTemplates)
		want   reason.Code
	}{
		{"no history", func(p *turn, _ *executor.NodeTemplates) { p.History = nil }, ""},
		{"nothing prepares the Pods", func(_ *turn, from *executor.NodeTemplates) { from.Prepare = nil }, ""},
		{"not selected", func(p *turn, _ *executor.NodeTemplates) {
			p.Selector = labels.SelectorFromSet(labels.Set{"app": "other"})
		}, executor.UnusablePod},
		{"not pinned", func(_ *turn, from *executor.NodeTemplates) { from.Prepare = func(*corev1.Pod, string) {} }, executor.UnusablePod},
		{"pinned to another Node", func(_ *turn, from *executor.NodeTemplates) {
			from.Prepare = func(pod *corev1.Pod, _ string) { nodefit.Pin(&pod.Spec, "n2") }
		}, executor.UnusablePod},
		{"the owner is being deleted", func(p *turn, _ *executor.NodeTemplates) {
			p.Owner.DeletionTimestamp = new(metav1.NewTime(begin))
		}, executor.OwnerDeleting},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			from, p := perNode(w), w.beginAt(historyOf(w))
			tc.change(p, &from)
			made, err := p.CreatePerNode(t.Context(), []string{"n1"}, from)
			if made != 0 || !reason.IsFinal(err) || tc.want != "" && !errors.Is(err, tc.want) {
				t.Errorf("CreatePerNode = %d, %v, want %s for good", made, err, tc.want)
			}
			if got := w.Requests(); len(got) > 0 {
				t.Errorf("requests %q", got)
			}
		})
	}
}

// TestCreateRelabelled: a created Pod without its revision label is deleted, because the owner would recreate the Pod
// again and again.
func TestCreateRelabelled(t *testing.T) {
	for name, change := range map[string]func(labels map[string]string){
		"taken":    func(labels map[string]string) { delete(labels, revisionLabel) },
		"replaced": func(labels map[string]string) { labels[revisionLabel] = "policy" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Change = func(o client.Object) {
				if pod, ok := o.(*corev1.Pod); ok {
					change(pod.Labels)
				}
			}
			made, err := w.beginAt(historyOf(w)).CreatePerNode(t.Context(), []string{"n1"}, perNode(w))
			if made != 0 || !reason.IsFinal(err) || !strings.Contains(err.Error(), "revision label did not survive") {
				t.Errorf("CreatePerNode = %d, %v", made, err)
			}
			w.deliver()
			if got := placed(w); len(got) > 0 {
				t.Errorf("Pods %v are left", got)
			}
		})
	}
}

// TestEnded: the first ended Pod of an ordinal or Node is replaced at once, later Pods after growing waits, until the
// owner's spec changes.
func TestEnded(t *testing.T) {
	w := newWorld(t)
	ended := func(name, node string) *corev1.Pod {
		return w.add(name, func(pod *corev1.Pod) { pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodFailed })
	}
	first, other := ended("a", "n1"), ended("b", "n2")
	p := w.begin()
	if wait := p.Ended(first, "n1"); wait != 0 {
		t.Errorf("the first rests for %v", wait)
	}
	if changed, err := p.DeleteFrom(t.Context(), first, "n1"); !changed || err != nil {
		t.Fatalf("DeleteFrom = %t, %v", changed, err)
	}
	w.check("replaced", []string{"delete Pod a"}, []string{"Deleted a", "Replaced a"})
	w.deliver()
	second := ended("c", "n1")
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		p = w.begin()
		if wait := p.Ended(second, "n1"); wait != want {
			t.Errorf("another rests for %v, want %v", wait, want)
		}
		if result, _ := w.pass.Result(nil); result.RequeueAfter != want {
			t.Errorf("the pass is repeated in %v, want %v", result.RequeueAfter, want)
		}
		if wait := p.Ended(other, "n2"); wait != 0 {
			t.Errorf("one of another Node rests for %v", wait)
		}
		w.clock.SetTime(w.clock.Now().Add(want))
		p = w.begin()
		if wait := p.Ended(second, "n1"); wait != 0 {
			t.Errorf("it rests for %v after its time", wait)
		}
		if changed, err := p.DeleteFrom(t.Context(), second, "n1"); !changed || err != nil {
			t.Fatalf("DeleteFrom = %t, %v", changed, err)
		}
		w.deliver()
		second = ended("c", "n1")
	}
	web := &appsv1.ReplicaSet{}
	w.must(w.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, web))
	web.Generation++
	w.must(w.Update(t.Context(), web))
	w.deliver()
	if wait := w.begin().Ended(second, "n1"); wait != 0 {
		t.Errorf("it rests for %v although the spec has changed", wait)
	}
}

// TestDeleteFrom: the deletion of a running Pod does not delay later deletions.
func TestDeleteFrom(t *testing.T) {
	w := newWorld(t)
	running := w.add("a", func(pod *corev1.Pod) { pod.Spec.NodeName = "n1" })
	if changed, err := w.begin().DeleteFrom(t.Context(), running, "n1"); !changed || err != nil {
		t.Fatalf("DeleteFrom = %t, %v", changed, err)
	}
	w.check("deleted", []string{"delete Pod a"}, []string{"Deleted a"})
	if n := w.fanout.Backoff.Len(); n != 0 {
		t.Errorf("something is remembered of %d objects", n)
	}
}

// TestDeleteCounts: after Delete of an ended Pod, the next ended Pod of the same ordinal or Node is kept for a while,
// even if the caller sets neither Rest nor Ended.
func TestDeleteCounts(t *testing.T) {
	type rests struct{ Numbered, PerNode, Fanout bool }
	for name, tc := range map[string]struct {
		pod    string
		byNode bool
		want   rests
	}{
		"an ordinal":               {"web-0", false, rests{Numbered: true, Fanout: true}},
		"a Node":                   {"web-x", true, rests{PerNode: true, Fanout: true}},
		"no place: Pods all alike": {"web-x", false, rests{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ended := func() *corev1.Pod {
				return w.add(tc.pod, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })
			}
			ended()
			p := w.begin()
			if p.Read(podcontrol.Want{}); tc.byNode {
				p.PerNode(podcontrol.PerNodeOptions{})
			}
			if changed, err := p.Delete(t.Context(), p.Set.Inactive[0]); !changed || err != nil {
				t.Fatalf("Delete = %t, %v", changed, err)
			}
			w.deliver()
			ended()
			p = w.begin()
			p.Read(podcontrol.Want{})
			got := rests{Fanout: w.fanout.Backoff.Len() > 0}
			for _, pod := range p.Numbered(podcontrol.NumberedOptions{}).Pods {
				got.Numbered = got.Numbered || pod.Resting
			}
			for _, pod := range p.PerNode(podcontrol.PerNodeOptions{}).Pods {
				got.PerNode = got.PerNode || pod.Resting
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("rests (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCreatePerNodeUnpinned: a created Pod that no longer names its Node is deleted, because the Pod would not count
// for the Node and would be created again and again.
func TestCreatePerNodeUnpinned(t *testing.T) {
	w := newWorld(t)
	w.Change = func(o client.Object) {
		if pod, ok := o.(*corev1.Pod); ok {
			pod.Spec.Affinity = nil
		}
	}
	if made, err := w.beginAt(historyOf(w)).CreatePerNode(t.Context(), []string{"n1"}, perNode(w)); made != 0 || err == nil || !strings.Contains(err.Error(), "Node n1") {
		t.Errorf("CreatePerNode = %d, %v for a Pod whose Node was taken", made, err)
	}
	w.deliver()
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: w.nameFor("n1")}, &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Pod is left: %v", err)
	}
}

package daemonset_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

var tenNodes = []string{"n1", "n10", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"}

// TestWrites counts writes: two for a created Pod, and three for a Pod that is updated in place or recreated.
func TestWrites(t *testing.T) {
	c := start(t, 10)
	offset := controllertest.End(t, c.cp.AuditLog())
	next := func(about string, want map[string]int) {
		t.Helper()
		requests, end := controllertest.Requests(t, c.cp.AuditLog(), offset, "kruise-manager/")
		offset = end
		tally := controllertest.Tally(requests, c.namespace)
		maps.DeleteFunc(tally, func(key string, _ int) bool {
			return !strings.Contains(key, " pods") || strings.HasPrefix(key, "list ")
		})
		if diff := cmp.Diff(want, tally); diff != "" {
			t.Errorf("%s (-want +got):\n%s", about, diff)
		}
	}
	c.create(c.daemonSet("agent"), tenNodes...)
	next("created", map[string]int{"create pods": 10, "patch pods/status": 10})

	before := c.untilPods("agent", tenNodes...)
	c.change("agent", setImage("v2"))
	c.until("agent", settled(10, 10))
	next("D-19, D-20 updated in place", map[string]int{"patch pods": 10, "patch pods/status": 20})
	for i, pod := range c.untilPods("agent", tenNodes...) {
		status := pod.Status.ContainerStatuses[0]
		if before[i].UID != pod.UID || status.RestartCount != 1 || pod.Labels[apps.LabelLifecycleState] != "" || len(pod.Labels[apps.LabelRevision]) > 10 {
			t.Errorf("Pod %s is another, or has labels %v and %d restarts", pod.Name, pod.Labels, status.RestartCount)
		}
	}
	c.change("agent", func(set *v1beta1.DaemonSet) {
		set.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
	})
	c.until("agent", settled(10, 10))
	c.untilPods("agent", tenNodes...)
	next("recreated", map[string]int{"delete pods": 10, "create pods": 10, "patch pods/status": 10})
}

// TestPartition checks a rollout in descending order of Nodes, which is first halted, then restricted to some Nodes,
// and then released.
func TestPartition(t *testing.T) {
	t.Parallel()
	c := start(t, 5)
	nodes := []string{"n1", "n2", "n3", "n4", "n5"}
	c.create(c.daemonSet("agent"), nodes...)
	for _, tc := range []struct {
		name    string
		change  func(*v1beta1.RollingUpdateDaemonSet)
		updated int32
		want    map[string]string
	}{
		{"D-13 with a selector the partition counts all Nodes", func(ru *v1beta1.RollingUpdateDaemonSet) {
			ru.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: metav1.LabelSelectorOpIn, Values: []string{c.nodeName("n1"), c.nodeName("n2")}},
			}}
			ru.Partition = ptr.To(intstr.FromInt32(4))
		}, 1, map[string]string{"n1": "v1", "n2": "v2", "n3": "v1", "n4": "v1", "n5": "v1"}},
		{"D-14 what is updated counts first", func(ru *v1beta1.RollingUpdateDaemonSet) {
			ru.Selector, ru.Partition = nil, ptr.To(intstr.FromInt32(3))
		}, 2, map[string]string{"n1": "v1", "n2": "v2", "n3": "v1", "n4": "v1", "n5": "v2"}},
		{"P-7 half of five, rounded down", func(ru *v1beta1.RollingUpdateDaemonSet) {
			ru.Partition = ptr.To(intstr.FromString("50%"))
		}, 3, map[string]string{"n1": "v1", "n2": "v2", "n3": "v1", "n4": "v2", "n5": "v2"}},
		{"the rest", func(ru *v1beta1.RollingUpdateDaemonSet) { ru.Partition = nil }, 5, map[string]string{"n1": "v2", "n2": "v2", "n3": "v2", "n4": "v2", "n5": "v2"}},
	} {
		c.change("agent", func(set *v1beta1.DaemonSet) {
			setImage("v2")(set)
			tc.change(set.Spec.UpdateStrategy.RollingUpdate)
		})
		c.until("agent", settled(5, tc.updated))
		if diff := cmp.Diff(tc.want, c.atImage("agent")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestProgressive: a new DaemonSet reaches as many Nodes as its partition allows, also with a percentage.
func TestProgressive(t *testing.T) {
	t.Parallel()
	c := start(t, 10)
	c.create(c.daemonSet("agent", func(set *v1beta1.DaemonSet) {
		set.Spec.ScaleStrategy = &v1beta1.DaemonSetScaleStrategy{PartitionedScaling: true}
		set.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To(intstr.FromString("70%"))
	}), "n1", "n10", "n2")
	partition := func(n int32) func(*v1beta1.DaemonSet) {
		return func(set *v1beta1.DaemonSet) {
			set.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To(intstr.FromInt32(n))
		}
	}
	c.change("agent", partition(6))
	c.untilPods("agent", "n1", "n10", "n2", "n3")
	c.change("agent", partition(0))
	c.untilPods("agent", tenNodes...)
}

// TestStandard checks, at every event, a rollout that replaces Pods: each old Pod is deleted before the new Pod is
// created, and at most two Nodes lack a Pod.
func TestStandard(t *testing.T) {
	t.Parallel()
	c := start(t, 5)
	nodes := []string{"n1", "n2", "n3", "n4", "n5"}
	c.create(c.daemonSet("agent", standard, func(set *v1beta1.DaemonSet) {
		set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromString("30%")) // two of five Pods
	}), nodes...)
	c.watch("agent", 3, 1)
	c.change("agent", setImage("v2"))
	c.until("agent", settled(5, 5))
	c.untilPods("agent", nodes...)
}

// TestSurgeLeavesUnfitNodes: if a Node was tainted, its old Pod is deleted in the next update, because the Node gets
// no new Pod.
func TestSurgeLeavesUnfitNodes(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	c.create(c.daemonSet("agent", func(set *v1beta1.DaemonSet) {
		set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateDaemonSet{MaxSurge: ptr.To(intstr.FromInt32(1)), MaxUnavailable: ptr.To(intstr.FromInt32(0))}
	}), "n1", "n2", "n3")
	c.changeNode("n3", func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "example.test/dedicated", Effect: corev1.TaintEffectNoSchedule})
	})
	c.until("agent", func(set *v1beta1.DaemonSet) error {
		if set.Status.NumberMisscheduled != 1 {
			return fmt.Errorf("status %+v", set.Status)
		}
		return nil
	})
	c.change("agent", func(set *v1beta1.DaemonSet) { set.Spec.Template.Spec.Containers[0].Image = "example.test/agent:v2" })
	c.until("agent", func(set *v1beta1.DaemonSet) error {
		if s := set.Status; s.UpdatedNumberScheduled != 2 || s.NumberMisscheduled != 0 || len(s.Conditions) > 0 {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
	c.untilPods("agent", "n1", "n2")
}

// TestSurge checks a rollout with maxSurge, where a Node first gets a second Pod: no Node is ever without an
// available Pod.
func TestSurge(t *testing.T) {
	t.Parallel()
	c := start(t, 4)
	nodes := []string{"n1", "n2", "n3", "n4"}
	c.create(c.daemonSet("agent", standard, func(set *v1beta1.DaemonSet) {
		set.Spec.MinReadySeconds = 1
		set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateDaemonSet{MaxSurge: ptr.To(intstr.FromInt32(2)), MaxUnavailable: ptr.To(intstr.FromInt32(0))}
	}), nodes...)
	c.watch("agent", 4, 2)
	c.change("agent", setImage("v2"))
	c.until("agent", settled(4, 4))
	c.untilPods("agent", nodes...)
}

// watch checks every event after the first complete state: at least the given number of Nodes have a ready Pod that
// is not being deleted, and no Node has more than perNode Pods.
func (c *cluster) watch(name string, ready, perNode int) {
	complete := false
	controllertest.Watch(c.t, c, c.namespace, func(pods map[types.UID]*corev1.Pod) {
		serving, all := map[string]bool{}, map[string]int{}
		for _, pod := range pods {
			node := c.nodeOf(pod)
			if podstate.IsReady(pod) && pod.DeletionTimestamp == nil {
				serving[node] = true
			}
			if all[node]++; all[node] > perNode {
				c.t.Errorf("Node %s has %d Pods of %s, want %d at most", node, all[node], name, perNode)
			}
		}
		if complete = complete || len(serving) > ready || ready == len(serving); complete && len(serving) < ready {
			c.t.Errorf("%d Nodes have a ready Pod, want %d at least", len(serving), ready)
		}
	})
}

// TestSwitchToInPlace: Pods that were created without the readiness gate are recreated once. Later updates are made
// in place.
func TestSwitchToInPlace(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	c.create(c.daemonSet("agent", standard), "n1", "n2")
	first := c.untilPods("agent", "n1", "n2")
	c.change("agent", func(set *v1beta1.DaemonSet) {
		setImage("v2")(set)
		set.Spec.UpdateStrategy.RollingUpdate.RollingUpdateType = v1beta1.InPlaceIfPossibleRollingUpdateType
	})
	c.until("agent", settled(2, 2))
	second := c.untilPods("agent", "n1", "n2")
	c.change("agent", setImage("v3"))
	c.until("agent", settled(2, 2))
	third := c.untilPods("agent", "n1", "n2")
	for i := range first {
		if first[i].UID == second[i].UID || second[i].UID != third[i].UID {
			t.Errorf("D-19 Node %s: Pods %s, %s, %s", c.nodeOf(first[i]), first[i].UID, second[i].UID, third[i].UID)
		}
	}
}

// TestOnDelete: no Pod is updated, and if a user deletes a Pod, the new Pod is at the newest revision. The same holds
// while an update is paused.
func TestOnDelete(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	for name, change := range map[string]func(*v1beta1.DaemonSet){
		"on-delete": func(set *v1beta1.DaemonSet) {
			set.Spec.UpdateStrategy = v1beta1.DaemonSetUpdateStrategy{Type: v1beta1.OnDeleteDaemonSetStrategyType}
		},
		"paused": func(set *v1beta1.DaemonSet) { set.Spec.UpdateStrategy.RollingUpdate.Paused = ptr.To(true) },
	} {
		c.create(c.daemonSet(name, change), "n1", "n2")
		c.change(name, setImage("v2"))
		c.until(name, settled(2, 0))
		pods := c.untilPods(name, "n1", "n2")
		if err := c.Delete(t.Context(), pods[1]); err != nil {
			t.Fatal(err)
		}
		c.until(name, settled(2, 1))
		if diff := cmp.Diff(map[string]string{"n1": "v1", "n2": "v2"}, c.atImage(name)); diff != "" {
			t.Errorf("D-8, D-12, D-22 %s (-want +got):\n%s", name, diff)
		}
	}
}

// TestPreDelete: a Pod with a preDelete hook waits in the state PreparingDelete until the hook releases the Pod. Then
// the Pod on the next Node is updated.
func TestPreDelete(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	hold := map[string]string{"example.test/hold": "yes"}
	c.create(c.daemonSet("agent", standard, func(set *v1beta1.DaemonSet) {
		set.Spec.Lifecycle = &pub.Lifecycle{PreDelete: &pub.LifecycleHook{LabelsHandler: hold}}
		maps.Copy(set.Spec.Template.Labels, hold)
	}), "n1", "n2")
	c.change("agent", setImage("v2"))
	for i, node := range []string{"n2", "n1"} {
		var waiting *corev1.Pod
		controlplanetest.Eventually(t, minute, func(ctx context.Context) error {
			pods, err := c.pods(ctx, "agent")
			if err != nil {
				return err
			}
			states := map[string]string{}
			for _, pod := range pods {
				if state := pod.Labels[apps.LabelLifecycleState]; state != "" {
					states[c.nodeOf(pod)], waiting = state, pod
				}
			}
			if diff := cmp.Diff(map[string]string{node: "PreparingDelete"}, states); diff != "" {
				return fmt.Errorf("D-21 states (-want +got):\n%s", diff)
			}
			return nil
		})
		if err := c.Patch(t.Context(), waiting, rawPatch(types.MergePatchType, `{"metadata":{"labels":{"example.test/hold":null}}}`)); err != nil {
			t.Fatal(err)
		}
		c.until("agent", func(set *v1beta1.DaemonSet) error {
			if n := int(set.Status.UpdatedNumberScheduled); n != i+1 {
				return fmt.Errorf("%d Nodes are updated, want %d", n, i+1)
			}
			return nil
		})
	}
	c.until("agent", settled(2, 2))
}

// TestBound: without the scheduler, Pods are bound to their Node when they are created.
func TestBound(t *testing.T) {
	t.Parallel()
	c := idle(t)
	c.addNode("n1")
	c.runBound()
	c.create(c.daemonSet("agent"), "n1")
	pod := c.untilPods("agent", "n1")[0]
	if pod.Spec.SchedulerName != "kubernetes.io/daemonset-controller" || pod.Spec.Affinity != nil {
		t.Errorf("D-2 scheduler %s, affinity %+v", pod.Spec.SchedulerName, pod.Spec.Affinity)
	}
}

// TestHistory: all old revisions count for the history limit, and revisions in use are kept. If a revision was
// written twice, no Pod is deleted because of the second copy.
func TestHistory(t *testing.T) {
	t.Parallel()
	c := start(t, 1)
	c.create(c.daemonSet("agent", standard, func(set *v1beta1.DaemonSet) { set.Spec.RevisionHistoryLimit = ptr.To[int32](1) }), "n1")
	for _, tag := range []string{"v2", "v3"} {
		c.change("agent", setImage(tag))
		c.until("agent", settled(1, 1))
	}
	c.untilRevisions("R-9", 2)
	pod := c.untilPods("agent", "n1")[0]
	newest := c.revisions(t.Context())[1]
	twin := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "agent-twin", Labels: maps.Clone(newest.Labels), OwnerReferences: newest.OwnerReferences},
		Data:       newest.Data, Revision: newest.Revision + 1,
	}
	twin.Labels[apps.LabelRevision] = "twin"
	if err := c.Create(t.Context(), twin); err != nil {
		t.Fatal(err)
	}
	c.change("agent", func(set *v1beta1.DaemonSet) { set.Annotations = map[string]string{"example.test/look": "again"} })
	c.until("agent", func(set *v1beta1.DaemonSet) error {
		if set.Status.UpdateRevision != "twin" {
			return fmt.Errorf("D-29 update revision %s", set.Status.UpdateRevision)
		}
		return settled(1, 1)(set)
	})
	if same := c.untilPods("agent", "n1")[0]; same.UID != pod.UID || same.Labels[apps.LabelRevision] != "twin" {
		t.Errorf("D-29 Pod %s with labels %v, want %s", same.UID, same.Labels, pod.UID)
	}
	c.untilRevisions("D-29", 2)
}

// TestCollision: if a revision of another owner has the name of the next revision, the controller uses another name,
// and counts the collision in the status of the DaemonSet.
func TestCollision(t *testing.T) {
	t.Parallel()
	c := start(t, 1)
	set := c.daemonSet("agent", setImage("v2"))
	c.create(set, "n1")
	name := c.revisions(t.Context())[0].Name
	if err := c.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	taken := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}, Data: runtime.RawExtension{Raw: []byte(`{"spec":{}}`)}, Revision: 1,
	}
	// The garbage collector would delete the object, too, but only after the next discovery of the API server's
	// kinds.
	if err := client.IgnoreNotFound(c.Delete(t.Context(), taken.DeepCopy())); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	c.create(c.daemonSet("agent"), "n1")
	c.change("agent", setImage("v2"))
	set = c.until("agent", func(set *v1beta1.DaemonSet) error {
		if set.Status.CollisionCount == nil || *set.Status.CollisionCount != 1 {
			return fmt.Errorf("D-28 collisions %v", set.Status.CollisionCount)
		}
		return settled(1, 1)(set)
	})
	if diff := cmp.Diff(map[string]string{"n1": "v2"}, c.atImage("agent")); diff != "" || "agent-"+set.Status.UpdateRevision == name {
		t.Errorf("D-28 at revision %s, %s is taken (-want +got):\n%s", set.Status.UpdateRevision, name, diff)
	}
}

func (c *cluster) revisions(ctx context.Context) []appsv1.ControllerRevision {
	c.t.Helper()
	var list appsv1.ControllerRevisionList
	if err := c.List(ctx, &list, client.InNamespace(c.namespace)); err != nil {
		c.t.Error(err)
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	return list.Items
}

func (c *cluster) untilRevisions(about string, want int) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		if n := len(c.revisions(ctx)); n != want {
			return fmt.Errorf("%s: %d revisions, want %d", about, n, want)
		}
		return nil
	})
}

// TestEnded: a Pod that has ended is replaced at once; if the new Pod ends as well, a replacement follows only after
// a pause.
func TestEnded(t *testing.T) {
	t.Parallel()
	c := start(t, 1)
	c.create(c.daemonSet("agent"), "n1")
	var uids []types.UID
	for range 3 {
		pod := c.untilPods("agent", "n1")[0]
		uids = append(uids, pod.UID)
		if err := c.Status().Patch(t.Context(), pod, rawPatch(types.MergePatchType, `{"status":{"phase":"Failed"}}`)); err != nil {
			t.Fatal(err)
		}
		controlplanetest.Eventually(t, minute, func(ctx context.Context) error {
			// The new Pod has another name, because a client that waits for the deletion of the old name would wait forever.
			if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod.DeepCopy()); !apierrors.IsNotFound(err) {
				return fmt.Errorf("D-4: there still is a Pod %s: %w", pod.Name, err)
			}
			return nil
		})
	}
	if uids[0] == uids[1] || uids[1] == uids[2] {
		t.Errorf("D-4 Pods %v", uids)
	}
	controlplanetest.Eventually(t, minute, func(ctx context.Context) error {
		var events corev1.EventList
		if err := c.List(ctx, &events, client.InNamespace(c.namespace)); err != nil {
			return err
		}
		n := 0
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == apps.EventFailedDaemonPod {
				n += int(max(e.Count, 1))
			}
		}
		if n != 3 {
			return fmt.Errorf("%d events %s, want 3", n, apps.EventFailedDaemonPod)
		}
		return nil
	})
}

// TestBadInput: a condition reports a spec by which no Pods can be created, and no object is changed.
func TestBadInput(t *testing.T) {
	t.Parallel()
	c := start(t, 1)
	for _, tc := range []struct {
		name   string
		change func(*v1beta1.DaemonSet)
		path   string
	}{
		{"selects-all", func(set *v1beta1.DaemonSet) { set.Spec.Selector = &metav1.LabelSelector{} }, "spec.selector"},
		{"selects-others", func(set *v1beta1.DaemonSet) {
			set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}
		}, "spec.template.metadata.labels"},
		{"partition", func(set *v1beta1.DaemonSet) {
			set.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To(intstr.FromString("all"))
		}, "spec.updateStrategy.rollingUpdate.partition"},
		{"surge-in-place", func(set *v1beta1.DaemonSet) {
			set.Spec.UpdateStrategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromInt32(1))
		}, "spec.updateStrategy.rollingUpdate.maxSurge"},
	} {
		if err := c.Create(t.Context(), c.daemonSet(tc.name, tc.change)); err != nil {
			t.Fatal(err)
		}
		c.until(tc.name, func(set *v1beta1.DaemonSet) error {
			condition := set.Status.Conditions.Find(apps.ConditionInvalidSpec)
			if condition == nil || !strings.Contains(condition.Message, tc.path) || set.Status.ObservedGeneration != set.Generation {
				return fmt.Errorf("D-11 condition %+v, want one about %s", condition, tc.path)
			}
			return nil
		})
		if pods, err := c.pods(t.Context(), tc.name); err != nil || len(pods) > 0 {
			t.Errorf("%s: %d Pods, %v", tc.name, len(pods), err)
		}
	}
}

// runBound runs the controllers with the flag for binding Pods.
func (c *cluster) runBound() {
	c.t.Helper()
	table := kinds.All()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	kind.AddFlags(table, flags)
	if err := flags.Parse([]string{"--assign-pods-by-scheduler=false"}); err != nil {
		c.t.Fatal(err)
	}
	c.run(func(o *manager.Options) { o.Kinds = table })
}

package statefulset_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestOrdinals checks the examples in OpenKruise's release announcements.
func TestOrdinals(t *testing.T) {
	t.Parallel()
	c := start(t, "StatefulSetStartOrdinal=true")
	t.Run("B-5, B-6 and B-7", func(t *testing.T) {
		c := c.on(t)
		c.create(c.statefulSet("db", 4, func(set *v1beta1.StatefulSet) { set.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromInt32(1)} }), 0, 2, 3, 4)
		reserve := func(set *v1beta1.StatefulSet) {
			set.Spec.ReserveOrdinals = append(set.Spec.ReserveOrdinals, intstr.FromInt32(3))
		}
		c.change("db", reserve)
		c.untilPods("db", 0, 2, 4, 5)
		c.change("db", func(set *v1beta1.StatefulSet) {
			set.Spec.Replicas = ptr.To[int32](3)
			set.Spec.ReserveOrdinals = append(set.Spec.ReserveOrdinals, intstr.FromString("5-7"))
		})
		c.untilPods("db", 0, 2, 4)
	})
	t.Run("B-4, and B-7 in order", func(t *testing.T) {
		c := c.on(t)
		c.create(c.statefulSet("seq", 4, ordered), 0, 1, 2, 3)
		c.change("seq", func(set *v1beta1.StatefulSet) {
			set.Spec.Replicas, set.Spec.ReserveOrdinals = ptr.To[int32](3), []intstr.IntOrString{intstr.FromInt32(3)}
		})
		c.untilPods("seq", 0, 1, 2)
	})
	t.Run("D-7", func(t *testing.T) {
		c := c.on(t)
		c.create(c.statefulSet("sample", 5, func(set *v1beta1.StatefulSet) { set.Spec.Ordinals = startAt(3) }), 3, 4, 5, 6, 7)
		c.change("sample", func(set *v1beta1.StatefulSet) { set.Spec.Ordinals = startAt(5) })
		pods := c.untilPods("sample", 5, 6, 7, 8, 9)
		if pod := pods[0]; pod.Labels["apps.kubernetes.io/pod-index"] != "5" || pod.Labels["statefulset.kubernetes.io/pod-name"] != "sample-5" ||
			pod.Spec.Hostname != "sample-5" || pod.Spec.Subdomain != "sample" {
			t.Errorf("labels %v, host name %s.%s", pod.Labels, pod.Spec.Hostname, pod.Spec.Subdomain)
		}
	})
}

// on returns a copy of the cluster that reports failures to another test.
func (c *cluster) on(t testing.TB) *cluster {
	other := *c
	other.t = t
	return &other
}

// TestWrites counts writes: two for a created Pod, and three for a Pod that is updated in place or recreated. The
// test also checks the events.
func TestWrites(t *testing.T) {
	const replicas = 6 // client-go drops the events of an object after the first 25: four are written for each Pod
	c := start(t, "")
	var all []int
	for o := range replicas {
		all = append(all, o)
	}
	offset := controllertest.End(t, c.cp.AuditLog())
	next := func(about string, want map[string]int) {
		t.Helper()
		requests, end := controllertest.Requests(t, c.cp.AuditLog(), offset, "kruise-manager/")
		offset = end
		tally := controllertest.Tally(slices.DeleteFunc(requests, func(r controllertest.Request) bool { return !r.IsWrite() }), c.namespace)
		for key := range tally {
			if !strings.Contains(key, " pods") {
				delete(tally, key)
			}
		}
		if diff := cmp.Diff(want, tally); diff != "" {
			t.Errorf("%s (-want +got):\n%s", about, diff)
		}
	}
	c.create(c.statefulSet("db", replicas), all...)
	next("created", map[string]int{"create pods": replicas, "patch pods/status": replicas})

	before := c.untilPods("db", all...)
	c.change("db", setImage("example.test/app:v2"))
	after := c.untilPods("db", all...)
	next("updated in place", map[string]int{"patch pods": replicas, "patch pods/status": 2 * replicas})
	for i := range after {
		if before[i].UID != after[i].UID || after[i].Status.ContainerStatuses[0].Image != "example.test/app:v2" || after[i].Status.ContainerStatuses[0].RestartCount != 1 {
			t.Errorf("Pod %s runs %s after %d restarts", after[i].Name, after[i].Status.ContainerStatuses[0].Image, after[i].Status.ContainerStatuses[0].RestartCount)
		}
	}
	c.change("db", func(set *v1beta1.StatefulSet) {
		set.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
	})
	c.untilPods("db", all...)
	next("recreated", map[string]int{"delete pods": replicas, "create pods": replicas, "patch pods/status": replicas})
	c.untilEvents("db", "SuccessfulCreate", "SuccessfulDelete", "SuccessfulUpdatePodInPlace", "SuccessfulUpdatePodReCreate")
}

// TestOrderedRollout checks every event of an update with OrderedReady: from the highest ordinal down, one Pod at a
// time, until the update revision is the current revision.
func TestOrderedRollout(t *testing.T) {
	t.Parallel()
	for _, policy := range []v1beta1.PodUpdatePolicy{v1beta1.ReCreate, v1beta1.InPlaceIfPossible} {
		t.Run(string(policy), func(t *testing.T) {
			c := start(t, "")
			c.create(c.statefulSet("seq", 4, ordered, func(set *v1beta1.StatefulSet) {
				set.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = policy
			}), 0, 1, 2, 3)
			complete := false
			recorder := controllertest.Watch(t, c, c.namespace, func(pods map[types.UID]*corev1.Pod) {
				ready := 0
				for _, pod := range pods {
					if podstate.IsReady(pod) && pod.DeletionTimestamp == nil {
						ready++
					}
				}
				if complete = complete || ready == 4; complete && ready < 3 {
					t.Errorf("%d Pods are ready, want 3 at least", ready)
				}
			})
			c.change("seq", setImage("example.test/app:v2"))
			c.untilPods("seq", 0, 1, 2, 3)
			c.until("seq", func(set *v1beta1.StatefulSet) error {
				if set.Status.CurrentRevision != set.Status.UpdateRevision {
					return fmt.Errorf("current %s, update %s", set.Status.CurrentRevision, set.Status.UpdateRevision)
				}
				return nil
			})
			var order []int
			for _, e := range recorder.Events() {
				ordinal, _ := ordinals.OfPod("seq", e.Pod)
				if e.Pod.Spec.Containers[0].Image == "example.test/app:v2" && !slices.Contains(order, ordinal) {
					order = append(order, ordinal)
				}
			}
			if diff := cmp.Diff([]int{3, 2, 1, 0}, order); diff != "" {
				t.Errorf("order of updates (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPartition: the partition counts Pods from the lowest ordinal that is not reserved. If a Pod below the partition
// is deleted, the new Pod is at the old revision, which stays the current revision.
func TestPartition(t *testing.T) {
	t.Parallel()
	c := start(t, "")
	c.create(c.statefulSet("db", 5, func(set *v1beta1.StatefulSet) {
		set.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromInt32(1), intstr.FromInt32(3)}
	}), 0, 2, 4, 5, 6)
	c.change("db", func(set *v1beta1.StatefulSet) {
		setImage("example.test/app:v2")(set)
		set.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To[int32](2)
	})
	partly := func(uids map[string]types.UID) map[string]types.UID {
		t.Helper()
		now := map[string]types.UID{}
		controlplanetest.Eventually(t, minute, func(ctx context.Context) error {
			pods, err := c.pods(ctx, "db")
			if err != nil {
				return err
			}
			got := map[string]string{}
			for _, pod := range pods {
				got[pod.Name] = strings.TrimPrefix(pod.Spec.Containers[0].Image, "example.test/app:")
				if now[pod.Name] = pod.UID; uids[pod.Name] == pod.UID {
					return fmt.Errorf("%s is still there", pod.Name)
				}
			}
			want := map[string]string{"db-0": "v1", "db-2": "v1", "db-4": "v2", "db-5": "v2", "db-6": "v2"}
			if diff := cmp.Diff(want, got); diff != "" {
				return fmt.Errorf("images (-want +got):\n%s", diff)
			}
			return nil
		})
		set := c.until("db", settled)
		if s := set.Status; s.CurrentRevision == s.UpdateRevision || s.CurrentReplicas != 2 || s.UpdatedReplicas != 3 {
			t.Errorf("status %+v, want 2 Pods of the current revision, and 3 of the update revision", s)
		}
		return now
	}
	uids := partly(nil)
	gone := map[string]types.UID{"db-0": uids["db-0"], "db-2": uids["db-2"]}
	for name, ask := range map[string]func(client.Object) error{
		"db-0": func(pod client.Object) error { return c.Delete(t.Context(), pod) },
		"db-2": func(pod client.Object) error {
			return c.Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"apps.kruise.io/specified-delete":""}}}`)))
		},
	} {
		if err := ask(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	partly(gone)
}

func startAt(ordinal int32) *appsv1.StatefulSetOrdinals {
	return &appsv1.StatefulSetOrdinals{Start: ordinal}
}

// TestOrderedScaleInHalts: with OrderedReady, if several Pods become unready at the same time, no Pod is deleted for
// a smaller number of replicas until the Pods are ready again. The condition names a Pod and the reason.
func TestOrderedScaleInHalts(t *testing.T) {
	t.Parallel()
	c := start(t, "")
	c.create(c.statefulSet("seq", 3, ordered), 0, 1, 2)
	annotate := func(value string) {
		t.Helper()
		body := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, controlplane.Unready, value)
		for ordinal := range 3 {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: ordinals.Name("seq", ordinal)}}
			if err := c.Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
				t.Fatal(err)
			}
		}
	}
	annotate(`"*"`)
	c.until("seq", func(set *v1beta1.StatefulSet) error {
		if set.Status.ReadyReplicas > 0 {
			return fmt.Errorf("%d Pods are ready", set.Status.ReadyReplicas)
		}
		return nil
	})
	recorder := controllertest.Watch(t, c, c.namespace, func(map[types.UID]*corev1.Pod) {})
	c.change("seq", func(set *v1beta1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](0) })
	c.until("seq", func(set *v1beta1.StatefulSet) error {
		waiting := set.Status.Conditions.Find(apps.ConditionWaiting)
		if waiting == nil || !strings.Contains(waiting.Message, "seq-2") || !strings.Contains(waiting.Message, "unready status: [app]") || set.Status.Replicas != 3 {
			return fmt.Errorf("%d Pods, condition %+v", set.Status.Replicas, waiting)
		}
		return nil
	})
	c.create(c.statefulSet("witness", 1), 0) // by then the unwanted Pods would have been deleted
	if pods, err := c.pods(t.Context(), "seq"); err != nil || len(pods) != 3 {
		t.Fatalf("%d Pods are left, %v", len(pods), err)
	}
	annotate("null")
	c.untilPods("seq")
	var order []int
	for _, e := range recorder.Events() {
		if ordinal, ok := ordinals.OfPod("seq", e.Pod); ok && e.Pod.DeletionTimestamp != nil && !slices.Contains(order, ordinal) {
			order = append(order, ordinal)
		}
	}
	if diff := cmp.Diff([]int{2, 1, 0}, order); diff != "" {
		t.Errorf("order of deletions (-want +got):\n%s", diff)
	}
}

package uniteddeployment

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// course simulates workloads, Pods and Nodes. The decisions of a reconciliation are carried out at once.
type course struct {
	testing.TB

	ud        *v1beta1.UnitedDeployment
	revision  string
	workloads []workload
	pods      map[types.UID][]*corev1.Pod
	room      map[string]int // number of Pods that can run, by subset; a missing subset can run any number
	now       time.Time
	made      int
	fewest    int // smallest number of ready Pods after any reconciliation since the field was set
	last      *todo
}

func newCourse(t testing.TB, edits ...string) *course {
	return &course{TB: t, ud: small(t, edits...), revision: "web-1", pods: map[types.UID][]*corev1.Pod{}, room: map[string]int{}, now: time.Unix(1_800_000_000, 0)}
}

// pass makes a decision, and carries the decision out. wrote is true if an object was written.
func (c *course) pass() (wrote bool) {
	o := &observation{
		ud: c.ud, settings: mustResolve(c, c.ud), revision: c.revision, workloads: c.workloads, now: c.now,
		pods: func(uid types.UID) []*corev1.Pod { return c.pods[uid] },
	}
	t := decide(o)
	c.last = t
	if t.remember {
		c.ud.Status = o.remembered(t)
		return true
	}
	for _, w := range slices.Concat(t.surplus, t.gone, t.changes) {
		wrote = true
		switch object := w.workload.(type) {
		case *corev1.Pod:
			c.applyTo(object, w.patch)
		default:
			if w.patch == nil {
				c.remove(object)
			} else {
				c.apply(object, w.patch)
			}
		}
	}
	for _, w := range t.create {
		wrote = true
		c.made++
		w.SetUID(types.UID(fmt.Sprint("w", c.made)))
		w.SetName(fmt.Sprint(w.GetGenerateName(), c.made))
		w.SetCreationTimestamp(metav1.NewTime(c.now))
		c.workloads = append(c.workloads, w)
	}
	status := nextStatus(o, t, outcome{update: t.err}, new(int32))
	wrote = wrote || !cmp.Equal(status, c.ud.Status)
	c.ud.Status = status
	c.live()
	c.fewest = min(c.fewest, c.ready())
	return wrote
}

// applyTo changes a Pod, or deletes the Pod if change is nil.
func (c *course) applyTo(pod *corev1.Pod, change *patch) {
	if change != nil {
		c.apply(pod, change)
		return
	}
	for uid := range c.pods {
		c.pods[uid] = slices.DeleteFunc(c.pods[uid], func(other *corev1.Pod) bool { return other == pod })
	}
}

func (c *course) remove(w workload) {
	c.workloads = slices.DeleteFunc(c.workloads, func(other workload) bool { return other == w })
	delete(c.pods, w.GetUID())
}

func (c *course) apply(w workload, change *patch) {
	before, body := mustJSON(c, w), mustJSON(c, change.Body)
	var after []byte
	var err error
	if change.Type == types.MergePatchType {
		after, err = jsonpatch.MergePatch(before, body)
	} else {
		var decoded jsonpatch.Patch
		if decoded, err = jsonpatch.DecodePatch(body); err == nil {
			after, err = decoded.Apply(before)
		}
	}
	if err == nil {
		err = json.Unmarshal(after, w)
	}
	if err != nil {
		c.Fatalf("%s: %v", body, err)
	}
}

// live acts as the workloads' controllers, which create, update and delete Pods, and as the scheduler. A scheduled
// Pod is ready.
func (c *course) live() {
	used := map[string]int{}
	for _, w := range c.workloads {
		subset := w.GetLabels()[apps.LabelSubsetName]
		pods := c.pods[w.GetUID()]
		placed := func(pod *corev1.Pod) int { return map[bool]int{true: 0, false: 1}[pod.Spec.NodeName != ""] }
		slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return placed(a) - placed(b) })
		want := int(partsOf(w).replicas)
		pods = pods[:min(len(pods), want)]
		for len(pods) < want {
			c.made++
			pods = append(pods, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", c.made), UID: types.UID(fmt.Sprint("p", c.made)), CreationTimestamp: metav1.NewTime(c.now), Labels: maps.Clone(partsOf(w).pod.Labels)},
				Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(c.now),
				}}},
			})
		}
		for _, pod := range pods {
			room, bounded := c.room[subset]
			if used[subset]++; pod.Spec.NodeName == "" && (!bounded || used[subset] <= room) {
				pod.Spec.NodeName, pod.Status.Phase = "n", corev1.PodRunning
				pod.Status.Conditions = []corev1.PodCondition{
					{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(c.now)},
				}
			}
		}
		c.pods[w.GetUID()] = pods
		c.count(w, pods)
	}
}

// count writes the status of a workload.
func (c *course) count(w workload, pods []*corev1.Pod) {
	ready := int32(0)
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodRunning {
			ready++
		}
	}
	switch w := w.(type) {
	case *v1beta1.CloneSet:
		w.Status.Replicas, w.Status.ReadyReplicas = int32(len(pods)), ready
	case *appsv1.Deployment:
		w.Status.Replicas, w.Status.ReadyReplicas = int32(len(pods)), ready
	case *appsv1.StatefulSet:
		w.Status.Replicas, w.Status.ReadyReplicas = int32(len(pods)), ready
	}
}

// ready counts the ready Pods.
func (c *course) ready() (n int) {
	for _, w := range c.workloads {
		n += int(partsOf(w).ready)
	}
	return n
}

// settle reconciles until no object is written, without an advance of the clock.
func (c *course) settle() {
	c.Helper()
	for n := 0; c.pass(); n++ {
		if n > 50 {
			c.Fatalf("no end: %v, %s", c.replicas(), mustJSON(c, c.ud.Status))
		}
	}
}

// wait advances the clock, and reconciles at the times that earlier reconciliations have requested.
func (c *course) wait(d time.Duration) {
	c.Helper()
	for end := c.now.Add(d); ; {
		c.settle()
		if c.last.wake <= 0 || c.now.Add(c.last.wake).After(end) {
			c.now = end
			c.settle()
			return
		}
		c.now = c.now.Add(c.last.wake)
	}
}

func (c *course) scale(n int32) {
	c.ud.Spec.Replicas = &n
	c.ud.Generation++
}

// replicas returns the numbers of replicas of the subsets, in the order of the subsets.
func (c *course) replicas() (out []int) {
	for _, s := range c.ud.Status.SubsetStatuses {
		out = append(out, int(s.Replicas))
	}
	return out
}

func (c *course) reserved() (out []int) {
	for _, s := range c.ud.Status.SubsetStatuses {
		out = append(out, int(s.ReservedPods))
	}
	return out
}

// three replaces the subsets by three subsets, with additional lines for the first two.
func three(a, b string) []string {
	return all(in(subsetA, a), in(subsetB, b), []string{"values: [b]}]}\n", "values: [b]}]}\n    - name: c\n"})
}

// TestAdaptiveCourse: Pods that no Node can run are recreated in other subsets and stay there. The next scaling uses
// the first subset again.
func TestAdaptiveCourse(t *testing.T) {
	c := newCourse(t, all(adaptive(""), three("maxReplicas: 2", "maxReplicas: 2"))...)
	c.room["b"] = 0
	check := func(name string, want ...int) {
		t.Helper()
		if diff := cmp.Diff(want, c.replicas()); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", name, diff)
		}
	}
	c.scale(3)
	c.settle()
	check("UD-24 at first", 2, 1, 0)
	c.wait(29 * time.Second)
	check("UD-24 before the timeout", 2, 1, 0)
	c.wait(2 * time.Second)
	check("UD-24 after the timeout", 2, 0, 1)
	if s := c.ud.Status.SubsetStatuses[1].Conditions.Find(apps.ConditionSubsetSchedulable); s == nil || s.Status != corev1.ConditionFalse || s.Reason != apps.ReasonSubsetReschedule {
		t.Errorf("UD-21 %+v", s)
	}
	c.scale(5)
	c.settle()
	check("UD-24 scaled to 5 while closed", 2, 0, 3)
	c.scale(4)
	c.settle()
	check("UD-24 scaled to 4", 2, 0, 2)
	delete(c.room, "b")
	c.wait(310 * time.Second)
	check("UD-24 recovered: running Pods stay", 2, 0, 2)
	if s := c.ud.Status.SubsetStatuses[1].Conditions.Find(apps.ConditionSubsetSchedulable); s == nil || s.Status != corev1.ConditionTrue || s.Reason != apps.ReasonSubsetRecover {
		t.Errorf("UD-23 %+v", s)
	}
	c.scale(5)
	c.settle()
	check("UD-24 recovered and scaled to 5", 2, 1, 2)
}

// TestGuaranteedCourse: a subset keeps a pending Pod if minReplicas requires the Pod.
func TestGuaranteedCourse(t *testing.T) {
	c := newCourse(t, all(adaptive(""), in(subsetA, "minReplicas: 1", "maxReplicas: 2"))...)
	c.room["a"] = 0
	c.scale(3)
	c.wait(40 * time.Second)
	if diff := cmp.Diff([]int{1, 2}, c.replicas()); diff != "" {
		t.Errorf("UD-25 (-want +got):\n%s", diff)
	}
}

// TestLastSubsetStaysOpen: every replica has a Pod, so that an autoscaler adds Nodes for the pending Pods.
func TestLastSubsetStaysOpen(t *testing.T) {
	c := newCourse(t, all(adaptive(""), in(subsetA, "maxReplicas: 2"))...)
	c.room["a"], c.room["b"] = 1, 1
	c.wait(20 * time.Minute)
	if diff := cmp.Diff([]int{1, 4}, c.replicas()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestReserveCourse: pending Pods stay in their subsets, and have substitutes in other subsets until the pending Pods
// run.
func TestReserveCourse(t *testing.T) {
	for _, kind := range [][]string{nil, deployment()} {
		c := newCourse(t, all(adaptive("reserveUnschedulablePods: true"), three("maxReplicas: null", "maxReplicas: null"), kind)...)
		c.room["a"], c.room["b"] = 0, 0
		check := func(name string, replicas, reserved []int) {
			t.Helper()
			if diff := cmp.Diff([][]int{replicas, reserved}, [][]int{c.replicas(), c.reserved()}); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", name, diff)
			}
			if n := replicas[0] + replicas[1] + replicas[2] - reserved[0] - reserved[1] - reserved[2]; int(c.ud.Status.Replicas) != n || int(c.ud.Status.ReservedPods) != reserved[0]+reserved[1]+reserved[2] {
				t.Fatalf("UD-61 %s: %d replicas, %d reserved", name, c.ud.Status.Replicas, c.ud.Status.ReservedPods)
			}
		}
		c.scale(2)
		c.wait(100 * time.Second)
		check("UD-32 replicas 2", []int{2, 2, 2}, []int{2, 2, 0})
		if want := "app=web,apps.kruise.io/united-deployment-reserved-pod=false"; c.ud.Status.LabelSelector != want {
			t.Errorf("UD-27 %s", c.ud.Status.LabelSelector)
		}
		c.scale(4)
		c.wait(time.Minute)
		check("UD-32 replicas 4", []int{2, 2, 4}, []int{2, 2, 0})
		c.scale(2)
		c.wait(time.Minute)
		check("UD-32 back to 2", []int{2, 2, 2}, []int{2, 2, 0})
		c.scale(4)
		c.wait(time.Minute)
		delete(c.room, "a")
		c.wait(20 * time.Second)
		check("UD-29 ready for a moment", []int{2, 2, 4}, []int{2, 2, 0})
		c.wait(30 * time.Minute)
		check("UD-32 capacity at 4", []int{4, 0, 0}, []int{0, 0, 0})
	}
}

// TestTrialCourse: if some pending Pods of a subset run again, the substitutes of the remaining pending Pods stay
// until these Pods run, too.
func TestTrialCourse(t *testing.T) {
	c := newCourse(t, all(adaptive("reserveUnschedulablePods: true"), three("maxReplicas: null", "maxReplicas: null"))...)
	c.room["a"], c.room["b"] = 0, 0
	for _, n := range []int32{2, 4} { // a closed subset gets no further Pods
		c.scale(n)
		c.wait(10 * time.Minute)
	}
	if diff := cmp.Diff([]int{2, 2, 4}, c.replicas()); diff != "" {
		t.Fatalf("closed (-want +got):\n%s", diff)
	}
	c.room["a"] = 2
	c.fewest = 4
	c.wait(30 * time.Minute)
	if diff := cmp.Diff([][]int{{4, 2, 2}, {2, 2, 0}}, [][]int{c.replicas(), c.reserved()}); diff != "" || c.fewest < 4 {
		t.Errorf("%d Pods were ready at times, want 4 (-want +got):\n%s", c.fewest, diff)
	}
}

// TestReservedMinimumCourse: reserved Pods stay if minReplicas requires them.
func TestReservedMinimumCourse(t *testing.T) {
	c := newCourse(t, all(adaptive("reserveUnschedulablePods: true"), three("minReplicas: 1", "minReplicas: 1"))...)
	c.room["a"], c.room["b"] = 0, 0
	for _, step := range []struct {
		name               string
		scale              int32
		replicas, reserved []int
	}{
		{"UD-33 replicas 2", 2, []int{1, 1, 2}, []int{1, 1, 0}},
		{"UD-33 replicas 4", 4, []int{1, 1, 4}, []int{1, 1, 0}},
		{"UD-33 the first recovered", 4, []int{4, 1, 0}, []int{0, 1, 0}},
	} {
		if c.scale(step.scale); step.name == "UD-33 the first recovered" {
			delete(c.room, "a")
		}
		c.wait(30 * time.Minute)
		if diff := cmp.Diff([][]int{step.replicas, step.reserved}, [][]int{c.replicas(), c.reserved()}); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

// TestRandomCourses: after any events, the reconciliations come to an end, the replicas add up, and the bounds hold.
func TestRandomCourses(t *testing.T) {
	modes := [][]string{
		nil, deployment(), all(set(), in(subsetA, "maxReplicas: 3")), all(adaptive(""), in(subsetA, "minReplicas: 1", "maxReplicas: 3")), all(adaptive(""), three("maxReplicas: 2", "maxReplicas: 2")),
		all(adaptive("reserveUnschedulablePods: true"), three("maxReplicas: 4", "minReplicas: 1")), all(adaptive("reserveUnschedulablePods: true"), deployment()),
	}
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := newCourse(t, modes[rng.IntN(len(modes))]...)
		for range 25 {
			c.happen(rng)
			if c.settle(); c.last.err != nil {
				t.Fatalf("seed %d: %v", seed, c.last.err)
			}
			c.check(seed)
		}
	}
}

// happen makes a random change of the spec, the Nodes, the Pods or the clock.
func (c *course) happen(rng *rand.Rand) {
	subset := []string{"a", "b", "c"}[rng.IntN(3)]
	switch rng.IntN(6) {
	case 0:
		c.scale(int32(rng.IntN(8)))
	case 1:
		c.room[subset] = rng.IntN(5)
	case 2:
		delete(c.room, subset)
	case 3:
		c.revision = fmt.Sprint("web-", rng.IntN(3))
	case 4:
		if n := len(c.workloads); n > 0 {
			c.remove(c.workloads[rng.IntN(n)])
		}
	default:
		c.wait(time.Duration(rng.IntN(400)) * time.Second)
	}
}

// check checks the state when reconciliations write nothing any more.
func (c *course) check(seed uint64) {
	c.Helper()
	sum, s := c.last.division.Left, mustResolve(c, c.ud)
	for i, p := range c.last.subsets {
		if sum += p.replicas; s.reserve {
			sum -= c.last.division.Reserved[i]
		}
		if bound := p.spec.MaxReplicas; bound != nil && p.replicas > bound.IntValue() {
			c.Fatalf("seed %d: subset %s has %d Pods", seed, p.spec.Name, p.replicas)
		}
		if got := int(partsOf(p.have).replicas); got != p.replicas || len(c.pods[p.have.GetUID()]) != p.replicas {
			c.Fatalf("seed %d: subset %s has %d of %d Pods", seed, p.spec.Name, got, p.replicas)
		}
	}
	if sum != s.replicas || !s.reserve && c.last.division.Left > 0 {
		c.Fatalf("seed %d: %d of %d Pods: %v, %d left", seed, sum, s.replicas, c.replicas(), c.last.division.Left)
	}
	if len(c.workloads) != len(c.ud.Spec.Topology.Subsets) {
		c.Fatalf("seed %d: %d workloads", seed, len(c.workloads))
	}
}

package imagepulljob

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/node/imagepull/kubeletpull"
	"github.com/workloadkit/workloadkit/reason"
)

// warmed is a job whose images kubelets pull, with the state of its Nodes.
type warmed struct {
	t       testing.TB
	job     *v1beta1.ImagePullJob
	targets []target
	pods    map[string]*corev1.Pod
	memory  memory
	resting bool
	puller  *kubeletpull.Puller
	now     time.Time
}

func newWarmed(t testing.TB, job *v1beta1.ImagePullJob, nodes ...string) *warmed {
	t.Helper()
	w := &warmed{t: t, job: job, pods: map[string]*corev1.Pod{}, now: noon}
	for _, name := range nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.36.3", ContainerRuntimeVersion: "containerd://2.1.0"}
		w.targets = append(w.targets, target{Name: name, Node: node})
	}
	return w
}

func (w *warmed) at(name string) *target {
	i := slices.IndexFunc(w.targets, func(t target) bool { return t.Name == name })
	return &w.targets[i]
}

// pass makes a decision and carries out the decision. The strings in the result are actions, each with the name of a
// Node.
func (w *warmed) pass() (*decision, []string) {
	w.t.Helper()
	r := &Reconciler{options: Options{PauseImage: DefaultPauseImage, Registries: []string{"*"}}}
	puller, err := kubeletpull.New(r.pulls(w.job, metav1.OwnerReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "ImagePullJob", Name: w.job.Name, UID: w.job.UID}))
	if err != nil {
		w.t.Fatal(err)
	}
	w.puller = puller
	o := &observation{Job: w.job, Settings: settingsFor(w.t, w.job), Targets: w.targets, Puller: puller, Pods: map[string][]*corev1.Pod{}, Memory: w.memory, IsResting: w.resting, Now: w.now}
	for i := range w.targets {
		o.Selected = append(o.Selected, w.targets[i].Name)
	}
	for _, name := range w.names() {
		node, _, _ := w.puller.Holding(w.pods[name])
		o.Pods[node] = append(o.Pods[node], w.pods[name])
	}
	d := decide(o)
	var did []string
	note := func(what string, pod *corev1.Pod) {
		node, _, _ := w.puller.Holding(pod)
		did = append(did, what+" "+node)
	}
	for _, pod := range d.Change {
		note("record", pod)
		w.pods[pod.Name] = pod
	}
	for _, pod := range d.Create {
		note("create", pod)
		pod.CreationTimestamp = metav1.NewTime(w.now)
		w.pods[pod.Name] = pod
	}
	for _, pod := range d.Delete {
		note("delete", pod)
		delete(w.pods, pod.Name)
	}
	w.job.Status, w.memory = d.Status, d.Memory
	return d, did
}

func (w *warmed) names() (names []string) {
	for name := range w.pods {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// kubelet sets the status of the Pods of a Node.
func (w *warmed) kubelet(node string, status corev1.PodStatus) {
	for _, pod := range w.pods {
		if on, _, _ := w.puller.Holding(pod); on == node {
			pod.Status, pod.Spec.NodeName = status, node
		}
	}
}

func pulled(at time.Time) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "pause", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at)}},
	}}}
}

func refusedBy(registry string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "pause", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: registry}},
	}}}
}

func numbers(s *v1beta1.ImagePullJobStatus) []int32 {
	return []int32{s.Desired, s.Active, s.Succeeded, s.Failed}
}

func patient(job *v1beta1.ImagePullJob) {
	job.Spec.PullPolicy = &v1beta1.PullPolicy{BackoffLimit: new(int32(0))}
	job.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(3600))
}

// TestThroughKubelets takes a job whose images kubelets pull from the first Pod to the end: parallelism, order, a
// failed Node, and Pods that stay for the TTL after the end.
func TestThroughKubelets(t *testing.T) {
	job := newJob(patient)
	w := newWarmed(t, job, "n1", "n2", "n3")
	type state struct {
		Did     []string
		Numbers []int32
	}
	step := func(name string, want state) *decision {
		t.Helper()
		d, did := w.pass()
		if diff := cmp.Diff(want, state{did, numbers(&job.Status)}); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", name, diff)
		}
		return d
	}
	step("IP-10 two at once, in order", state{[]string{"create n1", "create n2"}, []int32{3, 2, 0, 0}})
	step("nothing new", state{nil, []int32{3, 2, 0, 0}})
	w.kubelet("n1", pulled(w.now))
	step("IP-10 the next Node", state{[]string{"create n3"}, []int32{3, 2, 1, 0}})
	w.kubelet("n2", refusedBy("manifest unknown"))
	step("IP-9 a Node fails", state{[]string{"record n2"}, []int32{3, 1, 1, 1}})
	w.kubelet("n3", pulled(w.now))
	d := step("IP-11 the end", state{[]string{"delete n2"}, []int32{3, 0, 2, 1}})
	if want := []v1beta1.ImagePullJobFailure{{Node: "n2", Reason: "PullFailed", Message: "PullFailed: ErrImagePull: manifest unknown"}}; d.Step.State != completion.Complete || len(job.Status.Failures) != 1 || job.Status.Failures[0].Node != want[0].Node || !strings.Contains(job.Status.Failures[0].Message, "manifest unknown") {
		t.Errorf("IP-70 %s %+v", d.Step.State, job.Status.Failures)
	}
	w.targets = nil
	if d := step("IP-7 images are held", state{nil, []int32{3, 0, 2, 1}}); d.After <= 0 || d.After > time.Hour {
		t.Errorf("after %s", d.After)
	}
	ttl := *settingsFor(t, job).policy.TTL
	w.now = w.now.Add(ttl)
	step("IP-33 the TTL of the claims", state{[]string{"delete n1", "delete n3"}, []int32{3, 0, 2, 1}})
}

// TestKubeletsWait: the status gives a reason for each Node that cannot pull now, and no Pod of such a Node is
// created, changed or deleted.
func TestKubeletsWait(t *testing.T) {
	job := newJob(patient)
	w := newWarmed(t, job, "n1", "n2", "n3")
	w.at("n2").NotReady = nodeNotReady
	if _, did := w.pass(); !slices.Equal(did, []string{"create n1", "create n3"}) {
		t.Fatalf("IP-66 %q", did)
	}
	w.isFull("n1")
	w.isFull("n3")
	w.pass()
	w.now = w.now.Add(patience - time.Second)
	if d, did := w.pass(); len(did) > 0 || d.After != time.Second || !slices.Equal(numbers(&job.Status), []int32{3, 2, 0, 0}) {
		t.Errorf("IP-66 the scheduler may still find room: %q, %v, %s", did, numbers(&job.Status), d.After)
	}
	w.now = w.now.Add(time.Second)
	d, did := w.pass()
	c := meta.FindStatusCondition(job.Status.Conditions, apps.ConditionWaiting)
	if !slices.Equal(did, []string{"delete n1", "delete n3"}) || d.Step.State != completion.Running || c == nil || c.Reason != string(imagepull.NodesNotReady) ||
		!strings.Contains(c.Message, "n1 (the Pod to pull cannot be scheduled: too many pods)") || !strings.Contains(c.Message, "n2 (the Node is not ready)") {
		t.Errorf("IP-66 %q, %s, %+v", did, d.Step.State, c)
	}
	w.at("n2").NotReady = ""
	if _, did := w.pass(); !slices.Equal(did, []string{"create n2"}) {
		t.Errorf("IP-66 the Node is ready again: %q", did)
	}
}

// TestKubeletsOnFullNodes: if the next attempt's Pod cannot be scheduled, the Pod of the failed attempt is deleted to
// free resources. The time limit of an attempt begins when the Pod is bound to a Node.
func TestKubeletsOnFullNodes(t *testing.T) {
	w := newWarmed(t, newJob(func(job *v1beta1.ImagePullJob) {
		job.Spec.PullPolicy = &v1beta1.PullPolicy{BackoffLimit: new(int32(3))}
	}), "n1")
	w.pass()
	w.kubelet("n1", refusedBy("registry"))
	for len(w.pods) < 2 {
		w.now = w.now.Add(time.Minute)
		if _, did := w.pass(); slices.Contains(did, "delete n1") {
			t.Fatalf("%q", did)
		}
	}
	var next *corev1.Pod
	for _, pod := range w.pods {
		if pod.Spec.NodeName == "" {
			next = pod
		}
	}
	next.Status = unschedulable(w.now)
	if _, did := w.pass(); !slices.Equal(did, []string{"delete n1"}) || w.pods[next.Name] == nil {
		t.Errorf("IP-66 a full Node: %q", did)
	}
	w.now = w.now.Add(time.Hour)
	next.Spec.NodeName = "n1"
	next.Status.Conditions[0].Status, next.Status.Conditions[0].LastTransitionTime = corev1.ConditionTrue, metav1.NewTime(w.now)
	if _, did := w.pass(); len(did) > 0 {
		t.Errorf("IP-7 an attempt that begins after an hour: %q", did)
	}
}

func unschedulable(since time.Time) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "too many pods", LastTransitionTime: metav1.NewTime(since),
	}}}
}

// isFull sets the condition PodScheduled of a Node's Pods, as if the scheduler had found no room on the Node.
func (w *warmed) isFull(node string) {
	w.kubelet(node, unschedulable(w.now))
	for _, pod := range w.pods {
		if on, _, _ := w.puller.Holding(pod); on == node {
			pod.Spec.NodeName = ""
		}
	}
}

// steps are moments in the life of a job: what happens, and what the next decision does.
type steps []struct {
	name   string
	happen func()
	did    []string
	want   []int32
}

func (s steps) run(t *testing.T, w *warmed) {
	t.Helper()
	for _, step := range s {
		if step.happen != nil {
			step.happen()
		}
		_, did := w.pass()
		if diff := cmp.Diff([]any{step.did, step.want}, []any{did, numbers(&w.job.Status)}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

func oneAtOnce(job *v1beta1.ImagePullJob) { job.Spec.Parallelism = new(intstr.FromInt32(1)) }

func forever(job *v1beta1.ImagePullJob) { job.Spec.CompletionPolicy.Type = v1beta1.Never }

// TestFullNodes: a Pod that the scheduler cannot place counts for the parallelism for a minute. Then the next Node
// begins, and the full Node is tried again later, after all other Nodes.
func TestFullNodes(t *testing.T) {
	w := newWarmed(t, newJob(oneAtOnce), "n1", "n2", "n3")
	wait := func(d time.Duration) func() { return func() { w.now = w.now.Add(d) } }
	steps{
		{"IP-10 the first Node", nil, []string{"create n1"}, []int32{3, 1, 0, 0}},
		{"IP-66 no room", func() { w.isFull("n1") }, nil, []int32{3, 1, 0, 0}},
		{"IP-66 no room for a minute", wait(patience), []string{"create n2", "delete n1"}, []int32{3, 1, 0, 0}},
		{"IP-10 the full Node comes last", func() { w.kubelet("n2", pulled(w.now)); w.now = w.now.Add(fullFor) }, []string{"create n3"}, []int32{3, 1, 1, 0}},
		{"IP-66 once more", func() { w.kubelet("n3", pulled(w.now)) }, []string{"create n1"}, []int32{3, 1, 2, 0}},
		{"IP-11 the end", func() { w.kubelet("n1", pulled(w.now)) }, nil, []int32{3, 0, 3, 0}},
	}.run(t, w)
}

// TestPulledStays: if the Pod of a Node that has pulled is deleted, for example by a drain, the Node still counts as
// succeeded. A job that keeps images pulls again, but not on a cordoned Node.
func TestPulledStays(t *testing.T) {
	gone := func(w *warmed) func() { return func() { clear(w.pods) } }
	cordoned := func(w *warmed, is bool) func() {
		return func() { clear(w.pods); w.at("n1").Node.Spec.Unschedulable = is }
	}
	w := newWarmed(t, newJob(oneAtOnce), "n1", "n2")
	steps{
		{"IP-10 the first Node", nil, []string{"create n1"}, []int32{2, 1, 0, 0}},
		{"IP-10 the second Node", func() { w.kubelet("n1", pulled(w.now)) }, []string{"create n2"}, []int32{2, 1, 1, 0}},
		{"IP-8 both Pods are gone", gone(w), []string{"create n2"}, []int32{2, 1, 1, 0}},
		{"IP-8 a new Node of the name", func() { w.at("n1").Node.UID = "new" }, nil, []int32{2, 1, 0, 0}},
	}.run(t, w)
	w = newWarmed(t, newJob(oneAtOnce), "n1", "n2")
	steps{
		{"IP-10 the first Node", nil, []string{"create n1"}, []int32{2, 1, 0, 0}},
		{"IP-10 the second Node", func() { w.kubelet("n1", pulled(w.now)) }, []string{"create n2"}, []int32{2, 1, 1, 0}},
		{"IP-64 another image", func() { clear(w.pods); w.job.Spec.Image = "nginx:2" }, []string{"create n1"}, []int32{2, 1, 0, 0}},
	}.run(t, w)
	w = newWarmed(t, newJob(forever), "n1")
	steps{
		{"IP-10 the Node", nil, []string{"create n1"}, []int32{1, 1, 0, 0}},
		{"IP-33 pulled", func() { w.kubelet("n1", pulled(w.now)) }, nil, []int32{1, 0, 1, 0}},
		{"IP-33 drained", cordoned(w, true), nil, []int32{1, 0, 0, 0}},
		{"IP-33 back in service", cordoned(w, false), []string{"create n1"}, []int32{1, 1, 0, 0}},
		{"IP-33 pulled again", func() { w.kubelet("n1", pulled(w.now)) }, nil, []int32{1, 0, 1, 0}},
		{"IP-33 evicted", gone(w), []string{"create n1"}, []int32{1, 1, 0, 0}},
	}.run(t, w)
}

// TestQuota: if a quota refuses new Pods, Pods whose image was pulled are deleted, unless the job keeps images.
func TestQuota(t *testing.T) {
	w := newWarmed(t, newJob(oneAtOnce), "n1", "n2")
	short := func() { w.memory.isShort = true }
	steps{
		{"IP-10 the first Node", nil, []string{"create n1"}, []int32{2, 1, 0, 0}},
		{"IP-10 the quota refuses the second Pod", func() { w.kubelet("n1", pulled(w.now)); short() }, []string{"create n2", "delete n1"}, []int32{2, 1, 1, 0}},
		{"IP-11 the first Node has pulled", func() { w.kubelet("n2", pulled(w.now)) }, nil, []int32{2, 0, 2, 0}},
	}.run(t, w)
	w = newWarmed(t, newJob(oneAtOnce, forever), "n1", "n2")
	steps{
		{"IP-10 the first Node", nil, []string{"create n1"}, []int32{2, 1, 0, 0}},
		{"IP-33 the image is kept", func() { w.kubelet("n1", pulled(w.now)); short() }, []string{"create n2"}, []int32{2, 1, 1, 0}},
	}.run(t, w)
	exceeded := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"))
	for _, tc := range []struct {
		err  error
		want bool
	}{{nil, false}, {errors.Join(fmt.Errorf("creating a: %w", exceeded)), true}, {errors.New("exceeded quota"), false}} {
		if got := isOverQuota(tc.err); got != tc.want {
			t.Errorf("isOverQuota(%v) = %t", tc.err, got)
		}
	}
}

// TestRetriesUnderQuota: the Pod of a failed attempt makes room for the next attempt's Pod if a quota refuses the next
// Pod, and the attempts go on counting.
func TestRetriesUnderQuota(t *testing.T) {
	w := newWarmed(t, newJob(oneAtOnce, func(job *v1beta1.ImagePullJob) {
		job.Spec.PullPolicy = &v1beta1.PullPolicy{BackoffLimit: new(int32(1))}
	}), "n1")
	fails := func() { w.kubelet("n1", refusedBy("registry")) }
	steps{
		{"IP-10 the first attempt", nil, []string{"create n1"}, []int32{1, 1, 0, 0}},
		{"IP-9 the attempt fails", fails, []string{"record n1"}, []int32{1, 1, 0, 0}},
		{"IP-9 the quota has no room", func() { w.memory.isShort = true; w.now = w.now.Add(time.Minute) }, []string{"create n1", "delete n1"}, []int32{1, 1, 0, 0}},
		{"IP-9 the creation is refused", func() { clear(w.pods) }, []string{"create n1"}, []int32{1, 1, 0, 0}},
		{"IP-9 the second attempt is the last", fails, []string{"delete n1"}, []int32{1, 0, 0, 1}},
	}.run(t, w)
}

// TestRoomIsMadeOnce: no Pod gives way while Pods cannot be created, or for a place that is about to become free.
func TestRoomIsMadeOnce(t *testing.T) {
	w := newWarmed(t, newJob(oneAtOnce), "n1", "n2", "n3")
	pull := func(node string) func() { return func() { w.kubelet(node, pulled(w.now)) } }
	leaves := func() {
		w.resting = false
		for _, pod := range w.pods {
			if on, _, _ := w.puller.Holding(pod); on == "n1" {
				pod.DeletionTimestamp = new(metav1.NewTime(w.now))
			}
		}
	}
	steps{
		{"IP-10 the first Node", nil, []string{"create n1"}, []int32{3, 1, 0, 0}},
		{"IP-10 the second Node", pull("n1"), []string{"create n2"}, []int32{3, 1, 1, 0}},
		{"IP-10 the third Node while creations rest", func() { pull("n2")(); w.memory.isShort, w.resting = true, true }, []string{"create n3"}, []int32{3, 1, 2, 0}},
		{"IP-10 a Pod is leaving", func() { w.remove("n3"); leaves() }, []string{"create n3"}, []int32{3, 1, 2, 0}},
	}.run(t, w)
}

// remove deletes the Pods of a Node.
func (w *warmed) remove(node string) {
	for name, pod := range w.pods {
		if on, _, _ := w.puller.Holding(pod); on == node {
			delete(w.pods, name)
		}
	}
}

// TestLostImages: a Node whose image is pulled again after an eviction has not failed, at any time after the claim.
func TestLostImages(t *testing.T) {
	w := newWarmed(t, newJob(forever), "n1")
	w.pass()
	w.kubelet("n1", pulled(w.now))
	w.pass()
	w.now = w.now.Add(3 * time.Hour)
	gone := pulled(w.now)
	gone.Phase, gone.Reason = corev1.PodFailed, "Evicted"
	w.kubelet("n1", gone)
	for i := range 5 {
		w.pass()
		if s := &w.job.Status; s.Failed > 0 {
			t.Fatalf("IP-33 pass %d: %+v", i, s.Failures)
		}
		w.now = w.now.Add(10 * time.Second)
	}
}

// TestFullNodesStayLast: full Nodes come after all other Nodes, also if the time to try again ends while no Node may
// begin.
func TestFullNodesStayLast(t *testing.T) {
	w := newWarmed(t, newJob(oneAtOnce), "n1", "n2", "n3")
	wait := func(d time.Duration) func() { return func() { w.now = w.now.Add(d) } }
	steps{
		{"IP-10 the first Node", nil, []string{"create n1"}, []int32{3, 1, 0, 0}},
		{"IP-66 no room", func() { w.isFull("n1") }, nil, []int32{3, 1, 0, 0}},
		{"IP-66 no room for a minute", wait(patience), []string{"create n2", "delete n1"}, []int32{3, 1, 0, 0}},
		{"IP-66 n1 may try again, and n2 still pulls", wait(fullFor), nil, []int32{3, 1, 0, 0}},
		{"IP-10 n3 is before n1", func() { w.kubelet("n2", pulled(w.now)) }, []string{"create n3"}, []int32{3, 1, 1, 0}},
	}.run(t, w)
}

// TestRenewalWaits: a Node that cannot pull keeps the image that the Node has.
func TestRenewalWaits(t *testing.T) {
	w := newWarmed(t, newJob(forever, func(job *v1beta1.ImagePullJob) { job.Spec.ImagePullPolicy = corev1.PullAlways }), "n1")
	w.pass()
	for range 2 {
		w.kubelet("n1", pulled(w.now))
		w.pass()
	}
	if d, _ := w.pass(); d.After <= 0 || d.After > 25*time.Hour {
		t.Errorf("IP-33 the next pull is after %s", d.After)
	}
	w.now, w.at("n1").NotReady = w.now.Add(25*time.Hour), "the Node has disk pressure"
	if _, did := w.pass(); len(did) > 0 {
		t.Errorf("IP-66 a Node without room for an image: %q", did)
	}
}

// TestAlwaysEnds: after the end of a job, Pods with the pull policy Always are deleted, because the kubelet would ask
// the registry again and again.
func TestAlwaysEnds(t *testing.T) {
	w := newWarmed(t, newJob(patient, func(job *v1beta1.ImagePullJob) { job.Spec.ImagePullPolicy = corev1.PullAlways }), "n1")
	w.pass()
	w.kubelet("n1", pulled(w.now))
	if d, did := w.pass(); d.Step.State != completion.Complete || !slices.Equal(did, []string{"delete n1"}) {
		t.Errorf("IP-33 %s: %q", d.Step.State, did)
	}
}

// TestNodeChanges: the changes of a Node after which a job decides again.
func TestNodeChanges(t *testing.T) {
	for name, change := range map[string]func(*corev1.Node){
		"uncordoned": func(n *corev1.Node) { n.Spec.Unschedulable = true },
		"replaced":   func(n *corev1.Node) { n.UID = "new" },
		"ready": func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		},
		"labels":   func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} },
		"runtime":  func(n *corev1.Node) { n.Status.NodeInfo.ContainerRuntimeVersion = "containerd://2.1.0" },
		"pressure": func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeDiskPressure}} },
	} {
		was, is := &corev1.Node{}, &corev1.Node{}
		if !isSameNode(was, is) {
			t.Fatal("IP-66 equal Nodes differ")
		}
		if change(is); isSameNode(was, is) {
			t.Errorf("IP-66 %s: no job decides again", name)
		}
	}
}

// TestLateVerdict: the time of a Pod's condition may be the time of a scheduling gate, so the minute begins when the
// process first sees that the scheduler has no room. A Pod for which the scheduler evicts others may wait for longer.
func TestLateVerdict(t *testing.T) {
	w := newWarmed(t, newJob(oneAtOnce), "n1")
	nominated := func(node string) func() {
		return func() {
			for _, pod := range w.pods {
				pod.Status.NominatedNodeName = node
			}
			w.now = w.now.Add(2 * patience)
		}
	}
	steps{
		{"IP-10 the Node", nil, []string{"create n1"}, []int32{1, 1, 0, 0}},
		{"IP-66 a condition of long ago", func() {
			w.isFull("n1")
			for _, pod := range w.pods {
				pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(w.now.Add(-time.Hour))
			}
		}, nil, []int32{1, 1, 0, 0}},
		{"IP-66 the scheduler evicts other Pods", nominated("n1"), nil, []int32{1, 1, 0, 0}},
		{"IP-66 no room after all", nominated(""), []string{"delete n1"}, []int32{1, 0, 0, 0}},
	}.run(t, w)
}

// TestPressure: no Pod is created for a Node with disk or PID pressure, because the kubelet would reject the Pod.
func TestPressure(t *testing.T) {
	for key, want := range map[string]string{corev1.TaintNodeDiskPressure: "disk pressure", corev1.TaintNodePIDPressure: "PID pressure", corev1.TaintNodeMemoryPressure: ""} {
		node := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: key}}}}
		if got := pressure(node); !strings.HasSuffix(got, want) || (want == "") != (got == "") {
			t.Errorf("IP-66 taint %s: %q", key, got)
		}
	}
}

// TestKubeletsChange: Pods for an earlier image, and Pods on Nodes that are not selected any more, are deleted.
func TestKubeletsChange(t *testing.T) {
	job := newJob(patient)
	w := newWarmed(t, job, "n1", "n2")
	w.pass()
	w.targets = w.targets[:1]
	if _, did := w.pass(); !slices.Equal(did, []string{"delete n2"}) {
		t.Errorf("IP-64 another selector: %q", did)
	}
	w.kubelet("n1", pulled(w.now))
	w.job.Spec.Image = "nginx:2"
	if _, did := w.pass(); !slices.Contains(did, "delete n1") || !slices.Contains(did, "create n1") {
		t.Errorf("IP-64 another image: %q", did)
	}
}

// TestKubeletsRenew: a job of type Never with the pull policy Always pulls again each day, as through agents. With
// any other pull policy the Pod stays.
func TestKubeletsRenew(t *testing.T) {
	for _, always := range []bool{false, true} {
		job := newJob(func(job *v1beta1.ImagePullJob) {
			job.Spec.CompletionPolicy.Type = v1beta1.Never
			if always {
				job.Spec.ImagePullPolicy = corev1.PullAlways
			}
		})
		w := newWarmed(t, job, "n1")
		w.pass()
		for range 2 { // the second Pod only keeps the image in use
			w.kubelet("n1", pulled(w.now))
			w.pass()
		}
		w.now = w.now.Add(25 * time.Hour)
		_, did := w.pass()
		if isRenewed := slices.Contains(did, "delete n1"); isRenewed != always {
			t.Errorf("IP-33 always %t: %q", always, did)
		}
	}
}

// TestUnableKubelets: a Node without image volumes fails with a typed reason, or the agent pulls and the job's status
// says so.
func TestUnableKubelets(t *testing.T) {
	unable := reason.Reason{Code: kubeletpull.ImageVolumesMissing, Detail: "containerd 2.1 is needed"}
	job := newJob(patient)
	w := newWarmed(t, job, "n1", "n2", "n3")
	w.at("n2").Node, w.at("n2").Unable = nil, unable
	w.at("n3").Node, w.at("n3").Unable, w.at("n3").Image = nil, unable, onNode(t, job, "n3", "")
	d, did := w.pass()
	if !slices.Equal(did, []string{"create n1"}) || len(d.Claim) != 1 || d.Claim[0].Name != "n3" {
		t.Errorf("did %q, claims %v", did, d.Claim)
	}
	if f := job.Status.Failures; len(f) != 1 || f[0].Node != "n2" || f[0].Reason != string(kubeletpull.ImageVolumesMissing) {
		t.Errorf("failures %+v", f)
	}
	c := meta.FindStatusCondition(job.Status.Conditions, apps.ConditionPulledByAgents)
	if c == nil || c.Reason != string(kubeletpull.ImageVolumesMissing) || !strings.Contains(c.Message, "n3") || strings.Contains(c.Message, "n2") {
		t.Errorf("condition %+v", c)
	}
}

// TestNamesWait: a named Node without a NodeImage waits, and the status lists names for which no Node exists.
func TestNamesWait(t *testing.T) {
	job := newJob(func(job *v1beta1.ImagePullJob) {
		job.Spec.Selector = &v1beta1.ImagePullJobNodeSelector{Names: []string{"n1", "gone"}}
		job.Spec.Parallelism = new(intstr.FromInt32(5))
	})
	o := &observation{Job: job, Settings: settingsFor(t, job), Selected: []string{"n1", "gone"}, Missing: []string{"gone"}, Now: noon}
	o.Targets = []target{{Name: "n1", NotReady: "the Node has no NodeImage yet"}}
	d := decide(o)
	waits, gone := meta.FindStatusCondition(d.Status.Conditions, apps.ConditionWaiting), meta.FindStatusCondition(d.Status.Conditions, apps.ConditionNodesMissing)
	if d.Step.State != completion.Running || d.Status.Desired != 1 || len(d.Claim) > 0 || waits == nil || !strings.Contains(waits.Message, "n1 (the Node has no NodeImage yet)") {
		t.Errorf("%s %+v", d.Step.State, d.Status)
	}
	if gone == nil || gone.Reason != string(imagepull.NodesNotFound) || !strings.Contains(gone.Message, "gone") {
		t.Errorf("condition %+v", gone)
	}
	o.Targets, o.Missing = nil, []string{"n1", "gone"}
	if d := decide(o); d.Step.State != completion.Complete || d.Status.Desired != 0 || meta.FindStatusCondition(d.Status.Conditions, apps.ConditionNodesMissing) == nil {
		t.Errorf("no Node at all: %s %+v", d.Step.State, d.Status)
	}
}

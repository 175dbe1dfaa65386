package broadcastjob

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/broadcastjob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/nodefit"
)

func second(n int) time.Time { return time.Unix(1_700_000_000+int64(n), 0) }

func timeAt(n int) *metav1.Time { return new(metav1.NewTime(second(n))) }

// job returns a job that admission accepts, after edits. The Pods' restart policy is Never.
func job(edits ...func(*v1beta1.BroadcastJob)) *v1beta1.BroadcastJob {
	out := &v1beta1.BroadcastJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "upgrade", UID: "job", Generation: 1}}
	out.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "app", Image: "app:v1"}}}
	for _, edit := range edits {
		edit(out)
	}
	broadcastjob.Default(out)
	return out
}

type edit = func(*v1beta1.BroadcastJob)

func parallelism(value intstr.IntOrString) edit {
	return func(j *v1beta1.BroadcastJob) { j.Spec.Parallelism = &value }
}

func policy(kind v1beta1.FailurePolicyType) edit {
	return func(j *v1beta1.BroadcastJob) { j.Spec.FailurePolicy.Type = kind }
}

func restartLimit(n int32) edit {
	return func(j *v1beta1.BroadcastJob) {
		j.Spec.FailurePolicy.RestartLimit, j.Spec.Template.Spec.RestartPolicy = n, corev1.RestartPolicyOnFailure
	}
}

func never(j *v1beta1.BroadcastJob)  { j.Spec.CompletionPolicy.Type = v1beta1.Never }
func paused(j *v1beta1.BroadcastJob) { j.Spec.Paused = true }

func deadline(n int64) edit {
	return func(j *v1beta1.BroadcastJob) { j.Spec.CompletionPolicy.ActiveDeadlineSeconds = &n }
}

func ttl(n int32) edit {
	return func(j *v1beta1.BroadcastJob) { j.Spec.CompletionPolicy.TTLSecondsAfterFinished = &n }
}

func generation(n int64) edit { return func(j *v1beta1.BroadcastJob) { j.Generation = n } }

func was(status v1beta1.BroadcastJobStatus) edit {
	return func(j *v1beta1.BroadcastJob) {
		if j.Status = status; j.Status.StartTime == nil {
			j.Status.StartTime = timeAt(0)
		}
	}
}

func held(generation int64) v1beta1.JobCondition {
	return v1beta1.JobCondition{Type: v1beta1.JobPaused, Status: corev1.ConditionTrue, Reason: string(completion.HeldByFailures), ObservedGeneration: generation}
}

// node returns a Node with two cores, after edits.
func node(name string, edits ...func(*corev1.Node)) *corev1.Node {
	out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "web"}}}
	out.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	for _, edit := range edits {
		edit(out)
	}
	return out
}

func nodes(n int) (out []*corev1.Node) {
	for i := range n {
		out = append(out, node(fmt.Sprintf("n%d", i)))
	}
	return out
}

func tainted(effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: effect}} }
}

// sick gives a Node the taints of an unreachable Node.
func sick(n *corev1.Node) {
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: effect})
	}
}

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

// pod returns a running Pod on a Node, after edits. The Pod's name contains the name of the Node.
func pod(node string, edits ...func(*corev1.Pod)) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p-" + node}, Spec: corev1.PodSpec{NodeName: node, RestartPolicy: corev1.RestartPolicyNever}}
	out.Status.Phase = corev1.PodRunning
	for _, edit := range edits {
		edit(out)
	}
	out.UID = types.UID(out.Name)
	return out
}

func phase(p corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Phase = p }
}
func named(name string) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.Name = name } }
func dying(pod *corev1.Pod)               { pod.DeletionTimestamp = timeAt(9) }
func pinned(pod *corev1.Pod) {
	nodefit.Pin(&pod.Spec, pod.Spec.NodeName)
	pod.Spec.NodeName = ""
}

func restarted(init int32, containers ...int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{RestartCount: init}}
		for _, n := range containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{RestartCount: n})
		}
	}
}

var (
	well   = phase(corev1.PodSucceeded)
	broken = phase(corev1.PodFailed)
)

// outcome contains the parts of a decision that the tests compare.
type outcome struct {
	Create, Delete, Duplicates []string
	Phase                      v1beta1.BroadcastJobPhase
	// Numbers are desired, active, succeeded and failed.
	Numbers [4]int32
	Why     string // the reason of the True condition
	After   time.Duration
	Remove  bool
}

func decided(t *testing.T, j *v1beta1.BroadcastJob, nodes []*corev1.Node, pods []*corev1.Pod, now int) outcome {
	t.Helper()
	s := settingsOf(j)
	if s.Problems != nil {
		t.Fatal(s.Problems)
	}
	before := j.DeepCopy()
	d, err := decide(&observation{Job: j, Settings: s, Nodes: nodes, Pods: pods, Now: second(now)})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, j); diff != "" {
		t.Errorf("the job was changed:\n%s", diff)
	}
	out := outcome{
		Create: d.Create, Duplicates: d.Duplicates, Phase: d.Status.Phase, After: d.Step.After, Remove: d.Step.Remove,
		Numbers: [4]int32{d.Status.Desired, d.Status.Active, d.Status.Succeeded, d.Status.Failed},
	}
	for _, r := range d.Delete {
		out.Delete = append(out.Delete, r.Name+" "+string(r.Why))
	}
	for _, c := range d.Status.Conditions {
		out.Why = string(c.Type) + ":" + c.Reason
	}
	return out
}

func TestDecide(t *testing.T) {
	type st = v1beta1.BroadcastJobStatus
	pods := func(p ...*corev1.Pod) []*corev1.Pod { return p }
	const running, completed, failedPhase, pausedPhase = v1beta1.PhaseRunning, v1beta1.PhaseCompleted, v1beta1.PhaseFailed, v1beta1.PhasePaused
	for _, c := range []struct {
		name  string
		job   *v1beta1.BroadcastJob
		nodes []*corev1.Node
		pods  []*corev1.Pod
		now   int
		want  outcome
	}{
		{"BJ-3 a Pod for each Node", job(), nodes(3), nil, 0, outcome{Create: []string{"n0", "n1", "n2"}, Phase: running, Numbers: [4]int32{3}}},
		{"BJ-3 only those with the label", job(func(j *v1beta1.BroadcastJob) { j.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "web"} }), append(nodes(1), node("other", func(n *corev1.Node) { n.Labels = nil })), nil, 0, outcome{Create: []string{"n0"}, Phase: running, Numbers: [4]int32{1}}},
		{"BJ-3 no taint, no cordon", job(), append(nodes(1), node("a", tainted("NoSchedule")), node("b", tainted("NoExecute")), node("c", cordoned), node("d", tainted("PreferNoSchedule"))), nil, 0, outcome{Create: []string{"d", "n0"}, Phase: running, Numbers: [4]int32{2}}},
		{"BJ-3 a cordon that is tolerated", job(func(j *v1beta1.BroadcastJob) {
			j.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}
		}), []*corev1.Node{node("c", cordoned)}, nil, 0, outcome{Create: []string{"c"}, Phase: running, Numbers: [4]int32{1}}},
		{"BJ-3 room for the requests, were it empty", job(func(j *v1beta1.BroadcastJob) {
			j.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		}), append(nodes(1), node("small", func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("1") })), nil, 0, outcome{Create: []string{"n0"}, Phase: running, Numbers: [4]int32{1}}},
		{"BJ-4 a Node that has a Pod gets none", job(), nodes(3), pods(pod("n0"), pod("n1", pinned)), 0, outcome{Create: []string{"n2"}, Phase: running, Numbers: [4]int32{3, 2}}},
		{"BJ-4 two on a Node are told, and none goes", job(), nodes(1), pods(pod("n0"), pod("n0", named("twin"))), 0, outcome{Duplicates: []string{"n0"}, Phase: running, Numbers: [4]int32{1, 2}}},
		{"BJ-4 a Node is done when both have ended", job(), nodes(1), pods(pod("n0", well), pod("n0", named("twin"))), 0, outcome{Duplicates: []string{"n0"}, Phase: running, Numbers: [4]int32{1, 1, 1}}},
		{"BJ-7 20% of 10", job(parallelism(intstr.FromString("20%"))), nodes(10), nil, 0, outcome{Create: []string{"n0", "n1"}, Phase: running, Numbers: [4]int32{10}}},
		{"BJ-7 20% of 10, one has ended", job(parallelism(intstr.FromString("20%"))), nodes(10), pods(pod("n0", well), pod("n1")), 0, outcome{Create: []string{"n2"}, Phase: running, Numbers: [4]int32{10, 1, 1}}},
		{"BJ-8 too many run, and none is deleted", job(parallelism(intstr.FromInt32(1))), nodes(3), pods(pod("n0"), pod("n1")), 0, outcome{Phase: running, Numbers: [4]int32{3, 2}}},
		{"BJ-9 restarts of all containers count", job(restartLimit(2), policy("Continue")), nodes(2), pods(pod("n0", restarted(0, 2, 1)), pod("n1", restarted(1, 1, 0))), 0, outcome{Phase: running, Numbers: [4]int32{2, 1, 0, 1}}},
		{"BJ-9 restarts of a Pod that never restarts do not", job(policy("Continue")), nodes(1), pods(pod("n0", restarted(9), func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever })), 0, outcome{Phase: running, Numbers: [4]int32{1, 1}}},
		{"BJ-9 a Pod that is being deleted is not counted", job(), nodes(2), pods(pod("n0", dying), pod("n1", dying, broken)), 0, outcome{Phase: running, Numbers: [4]int32{2}}},
		{"BJ-10 a failed Pod fails the job", job(), nodes(5), pods(pod("n0", broken), pod("n1"), pod("n2", pinned), pod("n3"), pod("n4")), 0, outcome{
			Delete: []string{"p-n1 JobOver", "p-n2 JobOver", "p-n3 JobOver", "p-n4 JobOver"}, Phase: failedPhase, Why: "Failed:Failed", Numbers: [4]int32{5, 4, 0, 1},
		}},
		{"BJ-10 active Pods count as failed as they go", job(was(st{Phase: failedPhase, Desired: 5, Active: 4, Failed: 1, CompletionTime: timeAt(0)})), nodes(5), pods(pod("n0", broken), pod("n1", dying), pod("n2")), 5, outcome{
			Delete: []string{"p-n2 JobOver"}, Phase: failedPhase, Numbers: [4]int32{5, 1, 0, 4},
		}},
		{"BJ-10 but for those that end well first", job(was(st{Phase: failedPhase, Desired: 5, Active: 4, Failed: 1, CompletionTime: timeAt(0)})), nodes(5), pods(pod("n0", broken), pod("n1", well)), 5, outcome{Phase: failedPhase, Numbers: [4]int32{5, 0, 1, 4}}},
		{"1.3 a crash loop is deleted at the end", job(restartLimit(2)), nodes(2), pods(pod("n0", restarted(3)), pod("n1")), 0, outcome{Delete: []string{"p-n0 JobOver", "p-n1 JobOver"}, Phase: failedPhase, Why: "Failed:Failed", Numbers: [4]int32{2, 1, 0, 1}}},
		{"BJ-11 failures are done, and not retried", job(policy("Continue")), nodes(2), pods(pod("n0", broken), pod("n1")), 0, outcome{Phase: running, Numbers: [4]int32{2, 1, 0, 1}}},
		{"BJ-11 a crash loop does not hold the end up", job(restartLimit(2), policy("Continue")), nodes(2), pods(pod("n0", restarted(3)), pod("n1", well)), 0, outcome{Delete: []string{"p-n0 JobOver"}, Phase: completed, Why: "Complete:Complete", Numbers: [4]int32{2, 0, 1, 1}}},
		{"BJ-12 a failure pauses", job(policy("Pause")), nodes(3), pods(pod("n0", broken), pod("n1")), 0, outcome{Phase: pausedPhase, Why: "Paused:HeldByFailures", Numbers: [4]int32{3, 1, 0, 1}}},
		{"BJ-12 and goes on to", job(policy("Pause"), was(st{Phase: pausedPhase, Failed: 1, Conditions: []v1beta1.JobCondition{held(1)}})), nodes(3), pods(pod("n0", broken)), 0, outcome{Phase: pausedPhase, Why: "Paused:HeldByFailures", Numbers: [4]int32{3, 0, 0, 1}}},
		{"BJ-12 a change of the spec resumes it", job(policy("Pause"), generation(2), was(st{Phase: pausedPhase, Failed: 1, Conditions: []v1beta1.JobCondition{held(1)}})), nodes(2), pods(pod("n0", broken)), 0, outcome{Create: []string{"n1"}, Phase: running, Numbers: [4]int32{2, 0, 0, 1}}},
		{"BJ-12 what is known does not pause it again", job(policy("Pause"), generation(2), was(st{Phase: running, Failed: 1})), nodes(2), pods(pod("n0", broken)), 0, outcome{Create: []string{"n1"}, Phase: running, Numbers: [4]int32{2, 0, 0, 1}}},
		{"BJ-12 another failure does", job(policy("Pause"), generation(2), was(st{Phase: running, Failed: 1})), nodes(3), pods(pod("n0", broken), pod("n1", broken)), 0, outcome{Phase: pausedPhase, Why: "Paused:HeldByFailures", Numbers: [4]int32{3, 0, 0, 2}}},
		{"BJ-12 removing the failed Pods resumes it", job(policy("Pause"), was(st{Phase: pausedPhase, Failed: 1, Conditions: []v1beta1.JobCondition{held(1)}})), nodes(1), nil, 0, outcome{Create: []string{"n0"}, Phase: running, Numbers: [4]int32{1}}},
		{"BJ-12 as OpenKruise leaves it", job(policy("Pause"), was(st{Phase: pausedPhase, Failed: 1})), nodes(2), pods(pod("n0", broken)), 0, outcome{Phase: pausedPhase, Why: "Paused:HeldByFailures", Numbers: [4]int32{2, 0, 0, 1}}},
		{"BJ-13 paused: counted, nothing done, no deadline", job(paused, deadline(5), was(st{Phase: running})), append(nodes(2), node("x", cordoned)), pods(pod("n0", broken), pod("x")), 9, outcome{Phase: pausedPhase, Numbers: [4]int32{2, 1, 0, 1}}},
		{"BJ-13 with the policy Pause it is told from a failure's", job(paused, policy("Pause"), was(st{Phase: running})), nodes(2), pods(pod("n0", broken)), 9, outcome{Phase: pausedPhase, Why: "Paused:JobPaused", Numbers: [4]int32{2, 0, 0, 1}}},
		{"BJ-13 and then goes on whatever has failed meanwhile", job(policy("Pause"), generation(3), was(st{Phase: pausedPhase, Failed: 1, Conditions: []v1beta1.JobCondition{{Type: v1beta1.JobPaused, Status: "True", Reason: "JobPaused", ObservedGeneration: 2}}})), nodes(2), pods(pod("n0", broken)), 9, outcome{Create: []string{"n1"}, Phase: running, Numbers: [4]int32{2, 0, 0, 1}}},
		{"BJ-14 the deadline is ahead, in each pass", job(deadline(10), was(st{Phase: running})), nodes(1), pods(pod("n0")), 7, outcome{Phase: running, Numbers: [4]int32{1, 1}, After: 3 * time.Second}},
		{"BJ-14 the deadline has passed", job(deadline(10), was(st{Phase: running})), nodes(2), pods(pod("n0")), 10, outcome{Delete: []string{"p-n0 JobOver"}, Phase: failedPhase, Why: "Failed:DeadlineExceeded", Numbers: [4]int32{2, 1}}},
		{"BJ-15 complete", job(was(st{Phase: running})), nodes(2), pods(pod("n0", well), pod("n1", well)), 0, outcome{Phase: completed, Why: "Complete:Complete", Numbers: [4]int32{2, 0, 2}}},
		{"BJ-15 not while a Pod terminates that was to run", job(), nodes(2), pods(pod("n0", well), pod("n1", dying)), 0, outcome{Phase: running, Numbers: [4]int32{2, 0, 1}}},
		{"BJ-15 no Node fits", job(), nil, nil, 0, outcome{Phase: running}},
		{"BJ-16 Never goes on", job(never, policy("Continue")), nodes(3), pods(pod("n0", well), pod("n1", broken)), 0, outcome{Create: []string{"n2"}, Phase: running, Numbers: [4]int32{3, 0, 1, 1}}},
		{"BJ-16 Never does not complete", job(never), nodes(1), pods(pod("n0", well)), 0, outcome{Phase: running, Numbers: [4]int32{1, 0, 1}}},
		{"BJ-16 nor fails by a deadline that came past admission", job(never, deadline(1), was(st{Phase: running})), nodes(1), pods(pod("n0")), 9, outcome{Phase: running, Numbers: [4]int32{1, 1}}},
		{"BJ-16 Never fails with FailFast", job(never), nodes(2), pods(pod("n0", broken), pod("n1")), 0, outcome{Delete: []string{"p-n1 JobOver"}, Phase: failedPhase, Why: "Failed:Failed", Numbers: [4]int32{2, 1, 0, 1}}},
		{"BJ-17 a Node that does not fit loses its Pod", job(), append(nodes(1), node("a", cordoned), node("b", tainted("NoSchedule"))), pods(pod("n0"), pod("a"), pod("b", pinned)), 0, outcome{Delete: []string{"p-a NodeUnfit", "p-b NodeUnfit"}, Phase: running, Numbers: [4]int32{1, 3}}},
		{"BJ-17 not one that is terminating, nor one that has ended", job(), append(nodes(1), node("a", cordoned), node("b", cordoned)), pods(pod("n0"), pod("a", dying), pod("b", well)), 0, outcome{Phase: running, Numbers: [4]int32{2, 1, 1}}},
		{"BJ-17 a Node that is gone", job(), nodes(1), pods(pod("n0"), pod("gone")), 0, outcome{Delete: []string{"p-gone NodeGone"}, Phase: running, Numbers: [4]int32{1, 2}}},
		{"BJ-17 a Node that is not ready for a moment keeps what runs there, and gets nothing new", job(), append(nodes(1), node("a", sick), node("b", sick), node("c", sick)), pods(pod("n0"), pod("a"), pod("b", pinned)), 0, outcome{Delete: []string{"p-b NodeUnfit"}, Phase: running, Numbers: [4]int32{2, 3}}},
		{"BJ-17 but not if it is cordoned besides", job(), append(nodes(1), node("a", sick, cordoned)), pods(pod("n0"), pod("a")), 0, outcome{Delete: []string{"p-a NodeUnfit"}, Phase: running, Numbers: [4]int32{1, 2}}},
		{"BJ-15 not complete while a Pod runs on a Node that is not ready", job(), append(nodes(1), node("a", sick)), pods(pod("n0", well), pod("a")), 0, outcome{Phase: running, Numbers: [4]int32{2, 1, 1}}},
		{"BJ-18 a Node whose Pod was deleted is run again", job(was(st{Phase: running, Succeeded: 2})), nodes(2), pods(pod("n0", well)), 0, outcome{Create: []string{"n1"}, Phase: running, Numbers: [4]int32{2, 0, 1}}},
		{"BJ-19 over: nothing changes", job(was(st{Phase: completed, Desired: 2, Succeeded: 2, CompletionTime: timeAt(0)})), nodes(9), pods(pod("n0", well)), 99, outcome{Phase: completed, Numbers: [4]int32{2, 0, 2}}},
		{"BJ-19 to be deleted later", job(ttl(10), was(st{Phase: completed, CompletionTime: timeAt(0)})), nil, nil, 4, outcome{Phase: completed, After: 6 * time.Second}},
		{"BJ-19 to be deleted now", job(ttl(10), was(st{Phase: failedPhase, CompletionTime: timeAt(0)})), nil, nil, 10, outcome{Phase: failedPhase, Remove: true}},
		{"BJ-19 a job that goes on is not deleted", job(ttl(0)), nodes(1), pods(pod("n0")), 99, outcome{Phase: running, Numbers: [4]int32{1, 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := decided(t, c.job, c.nodes, c.pods, c.now)
			if (c.want.Phase == completed || c.want.Phase == failedPhase) && c.job.Status.Ended().IsZero() {
				c.want.After = time.Second // a status write causes no event
			}
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			slices.Reverse(c.nodes)
			slices.Reverse(c.pods)
			if diff := cmp.Diff(got, decided(t, c.job, c.nodes, c.pods, c.now)); diff != "" {
				t.Errorf("another order, another decision:\n%s", diff)
			}
		})
	}
}

// TestStart: the first reconciliation records the start of the job, and later reconciliations do not change the
// start.
//
// The start of a job that is paused from the beginning is not recorded, because the deadline limits the time in which
// the job may work.
func TestStart(t *testing.T) {
	for _, c := range []struct {
		status *metav1.Time
		edit   edit
		want   *metav1.Time
	}{
		{nil, generation(1), timeAt(5)},
		{timeAt(3), generation(1), timeAt(3)},
		{nil, paused, nil},
		{timeAt(3), paused, timeAt(3)},
	} {
		j := job(c.edit)
		j.Status.StartTime = c.status
		d, err := decide(&observation{Job: j, Settings: settingsOf(j), Nodes: nodes(1), Now: second(5)})
		if err != nil || !d.Status.StartTime.Equal(c.want) || d.Status.CompletionTime != nil {
			t.Errorf("%v, %v", d, err)
		}
	}
}

// TestProblems: while a stored spec is invalid, the job creates and deletes no Pods.
func TestProblems(t *testing.T) {
	for path, edit := range map[string]edit{
		"spec.parallelism":                              parallelism(intstr.FromString("many")),
		"spec.failurePolicy.type":                       policy("Retry"),
		"spec.template.spec.restartPolicy":              func(j *v1beta1.BroadcastJob) { j.Spec.Template.Spec.RestartPolicy = "" },
		"spec.completionPolicy.type":                    func(j *v1beta1.BroadcastJob) { j.Spec.CompletionPolicy.Type = "Now" },
		"spec.template.spec.nodeSelector[a b]":          func(j *v1beta1.BroadcastJob) { j.Spec.Template.Spec.NodeSelector = map[string]string{"a b": "c"} },
		"spec.completionPolicy.ttlSecondsAfterFinished": ttl(-1),
	} {
		s := settingsOf(job(edit))
		if len(s.Problems) != 1 || s.Problems[0].Path != path || s.Claim(node("n0")).Fits {
			t.Errorf("%s: %v", path, s.Problems)
		}
	}
}

func TestTransitions(t *testing.T) {
	is := func(phase v1beta1.BroadcastJobPhase, c ...v1beta1.JobCondition) *v1beta1.BroadcastJobStatus {
		return &v1beta1.BroadcastJobStatus{Phase: phase, Conditions: c}
	}
	for _, c := range []struct {
		name          string
		before, after *v1beta1.BroadcastJobStatus
		want          []string
	}{
		{"it begins", is(""), is(v1beta1.PhaseRunning), nil},
		{"BJ-12 once", is(v1beta1.PhaseRunning), is(v1beta1.PhasePaused, held(1)), []string{"Warning Paused"}},
		{"BJ-12 and not again", is(v1beta1.PhasePaused, held(1)), is(v1beta1.PhasePaused, held(1)), nil},
		{"BJ-13 by the spec", is(v1beta1.PhaseRunning), is(v1beta1.PhasePaused), []string{"Normal Paused"}},
		{"BJ-13 goes on", is(v1beta1.PhasePaused), is(v1beta1.PhaseRunning), []string{"Normal Continue"}},
		{"BJ-15 complete", is(v1beta1.PhaseRunning), is(v1beta1.PhaseCompleted), []string{"Normal JobComplete"}},
		{"BJ-10 failed", is(v1beta1.PhaseRunning), is(v1beta1.PhaseFailed), []string{"Warning Failed"}},
		{"BJ-14 too late", is(v1beta1.PhasePaused), is(v1beta1.PhaseFailed, v1beta1.JobCondition{Type: v1beta1.JobFailed, Reason: "DeadlineExceeded"}), []string{"Normal Continue", "Warning DeadlineExceeded"}},
	} {
		var got []string
		for _, e := range transitions(c.before, c.after) {
			got = append(got, e.Type+" "+e.Reason)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

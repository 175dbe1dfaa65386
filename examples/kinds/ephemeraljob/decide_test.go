package ephemeraljob

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
)

func second(n int) time.Time { return time.Unix(1_700_000_000+int64(n), 0) }

func timeAt(n int) *metav1.Time { return new(metav1.NewTime(second(n))) }

type edit = func(*v1alpha1.EphemeralJob)

// job returns a job for all Pods with the label app=web. Admission accepts the job, after edits.
func job(edits ...edit) *v1alpha1.EphemeralJob {
	out := &v1alpha1.EphemeralJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "look", UID: "job", Generation: 1}}
	out.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	containers("debugger")(out)
	for _, edit := range edits {
		edit(out)
	}
	return out
}

func containers(names ...string) edit {
	return func(j *v1alpha1.EphemeralJob) {
		j.Spec.Template.EphemeralContainers = nil
		for _, name := range names {
			j.Spec.Template.EphemeralContainers = append(j.Spec.Template.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: name, Image: "tool:v1", ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			}})
		}
	}
}

func replicas(n int32) edit    { return func(j *v1alpha1.EphemeralJob) { j.Spec.Replicas = &n } }
func parallelism(n int32) edit { return func(j *v1alpha1.EphemeralJob) { j.Spec.Parallelism = &n } }
func ttl(n int32) edit         { return func(j *v1alpha1.EphemeralJob) { j.Spec.TTLSecondsAfterFinished = &n } }

func deadline(n int64) edit {
	return func(j *v1alpha1.EphemeralJob) { j.Spec.ActiveDeadlineSeconds = &n }
}

func paused(j *v1alpha1.EphemeralJob) {
	j.Spec.Paused = true
}

func started(n int) edit { return func(j *v1alpha1.EphemeralJob) { j.Status.StartTime = timeAt(n) } }

func selector(s *metav1.LabelSelector) edit {
	return func(j *v1alpha1.EphemeralJob) { j.Spec.Selector = s }
}

func ended(phase v1alpha1.EphemeralJobPhase, n int) edit {
	return func(j *v1alpha1.EphemeralJob) {
		j.Status = v1alpha1.EphemeralJobStatus{Phase: phase, StartTime: timeAt(0), CompletionTime: timeAt(n), Matches: 7, Succeeded: 7}
	}
}

// pod returns a Pod whose creation time is the given second. The further arguments are containers, each with a name
// and a state: "debugger ok". The states are ok, exit1, run, pull, wait, broken, and ? for none. The name of a
// container that the job has not added begins with "!".
func pod(name string, at int, have ...string) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: "7", CreationTimestamp: *timeAt(at), Labels: map[string]string{"app": "web"},
	}}
	out.Status.Phase = corev1.PodRunning
	for _, text := range have {
		container, state, _ := strings.Cut(text, " ")
		c := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: strings.TrimPrefix(container, "!")}}
		if container == c.Name {
			c.Env = []corev1.EnvVar{{Name: apps.EnvEphemeralJobID, Value: "job"}}
		}
		out.Spec.EphemeralContainers = append(out.Spec.EphemeralContainers, c)
		if status, ok := states()[state]; ok {
			out.Status.EphemeralContainerStatuses = append(out.Status.EphemeralContainerStatuses, corev1.ContainerStatus{Name: c.Name, State: status})
		}
	}
	return out
}

func states() map[string]corev1.ContainerState {
	return map[string]corev1.ContainerState{
		"ok":      {Terminated: &corev1.ContainerStateTerminated{}},
		"exit1":   {Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}},
		"run":     {Running: &corev1.ContainerStateRunning{}},
		"wait":    {Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}},
		"pull":    {Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
		"broken":  {Waiting: &corev1.ContainerStateWaiting{Reason: "RunContainerError"}},
		"nothing": {},
	}
}

func changedPod(pod *corev1.Pod, edit func(*corev1.Pod)) *corev1.Pod {
	edit(pod)
	return pod
}

func dying(p *corev1.Pod)      { p.DeletionTimestamp = timeAt(1) }
func over(p *corev1.Pod)       { p.Status.Phase = corev1.PodSucceeded }
func unlabelled(p *corev1.Pod) { p.Labels = nil }

// told returns a decision as a line of text: the phase with numbers, the Pods that get containers, and the
// conditions.
func told(d *decision) string {
	s := &d.Status
	text := fmt.Sprintf("%s match=%d running=%d waiting=%d succeeded=%d failed=%d", s.Phase, s.Matches, s.Running, s.Waiting, s.Succeeded, s.Failed)
	var names []string
	for _, pod := range d.Open[:min(d.Step.Start, len(d.Open))] {
		names = append(names, pod.Name)
	}
	text += " add " + strings.Join(names, ",")
	for _, c := range s.Conditions {
		if c.Type != v1alpha1.EJobInitialized {
			text += fmt.Sprintf(" %s:%s", c.Type, c.Reason)
		}
	}
	if s.CompletionTime != nil {
		text += " ended"
	}
	if d.Step.Remove {
		text += " delete"
	}
	return text
}

func TestDecide(t *testing.T) {
	a, b, c := pod("a", 1), pod("b", 2), pod("c", 3)
	many := func(names string) (out []*corev1.Pod) {
		for i, name := range strings.Fields(names) {
			out = append(out, pod(name, 10+i))
		}
		return out
	}
	for _, tc := range []struct {
		name string
		job  *v1alpha1.EphemeralJob
		pods []*corev1.Pod
		now  int
		want string
	}{
		{"EJ-3 the oldest first, one at a time", job(), []*corev1.Pod{c, b, a}, 0, "Unknown match=3 running=0 waiting=0 succeeded=0 failed=0 add a"},
		{"EJ-3 by name at the same age", job(parallelism(2)), []*corev1.Pod{pod("z", 1), pod("y", 1), pod("x", 2)}, 0, "Unknown match=3 running=0 waiting=0 succeeded=0 failed=0 add y,z"},
		{"EJ-3 the first replicas", job(replicas(2), parallelism(5)), []*corev1.Pod{c, b, a}, 0, "Unknown match=3 running=0 waiting=0 succeeded=0 failed=0 add a,b"},
		{"EJ-3 a Pod that has the containers keeps its place", job(replicas(1), parallelism(5)), []*corev1.Pod{a, pod("b", 2, "debugger run")}, 0, "Running match=2 running=1 waiting=0 succeeded=0 failed=0 add "},
		{"EJ-3 neither ended nor dying nor other Pods", job(parallelism(9)), []*corev1.Pod{
			changedPod(pod("d", 1), dying), changedPod(pod("e", 1), over), changedPod(pod("f", 1), unlabelled), a,
		}, 0, "Unknown match=1 running=0 waiting=0 succeeded=0 failed=0 add a"},
		{"EJ-3 the name is taken in a Pod", job(parallelism(5)), []*corev1.Pod{pod("a", 1, "!debugger run"), b}, 0, "Unknown match=1 running=0 waiting=0 succeeded=0 failed=0 add b JobWaiting:NameTaken"},
		{"EJ-3 the name is taken in all Pods", job(), []*corev1.Pod{pod("a", 1, "!debugger run")}, 0, "Waiting match=0 running=0 waiting=0 succeeded=0 failed=0 add  MatchedEmpty:MatchedEmpty"},
		{"EJ-3 another name is not taken", job(), []*corev1.Pod{pod("a", 1, "!shell run")}, 0, "Unknown match=1 running=0 waiting=0 succeeded=0 failed=0 add a"},
		{"EJ-5 any container of the template will do", job(containers("debugger", "dump")), []*corev1.Pod{pod("a", 1, "dump run")}, 0, "Running match=1 running=1 waiting=0 succeeded=0 failed=0 add "},
		{"EJ-5 no container of the template", job(containers("dump")), []*corev1.Pod{pod("a", 1, "debugger run")}, 0, "Unknown match=1 running=0 waiting=0 succeeded=0 failed=0 add a"},
		{"EJ-6 one failed", job(containers("x", "y")), []*corev1.Pod{pod("a", 1, "x ok", "y exit1")}, 0, "Failed match=1 running=0 waiting=0 succeeded=0 failed=1 add  JobFailed:CreateFailed ended"},
		{"EJ-6 one cannot run", job(containers("x", "y")), []*corev1.Pod{pod("a", 1, "x run", "y broken"), b}, 0, "Unknown match=2 running=0 waiting=0 succeeded=0 failed=1 add b JobFailed:CreateFailed"},
		{"EJ-6 one ended, one runs", job(containers("x", "y")), []*corev1.Pod{pod("a", 1, "x ok", "y run")}, 0, "Running match=1 running=1 waiting=0 succeeded=0 failed=0 add "},
		{"EJ-6 one runs, one waits", job(containers("x", "y")), []*corev1.Pod{pod("a", 1, "x wait", "y run")}, 0, "Running match=1 running=1 waiting=0 succeeded=0 failed=0 add "},
		{"EJ-6 one ended, one waits", job(containers("x", "y")), []*corev1.Pod{pod("a", 1, "x ok", "y wait")}, 0, "Waiting match=1 running=0 waiting=1 succeeded=0 failed=0 add "},
		{"EJ-6 one ended, one unreported", job(containers("x", "y")), []*corev1.Pod{pod("a", 1, "x ok", "y ?")}, 0, "Unknown match=1 running=0 waiting=0 succeeded=0 failed=0 add  JobWaiting:NotReported"},
		{"EJ-6 a status without a state", job(), []*corev1.Pod{pod("a", 1, "debugger nothing")}, 0, "Unknown match=1 running=0 waiting=0 succeeded=0 failed=0 add  JobWaiting:NotReported"},
		{"EJ-7 the whole room is used", job(parallelism(5)), append(many("d e"), pod("a", 1, "debugger run"), pod("b", 1, "debugger run"), pod("c", 1, "debugger run")), 0, "Running match=5 running=3 waiting=0 succeeded=0 failed=0 add d,e"},
		{"EJ-7 no more than the room", job(parallelism(4)), append(many("d e f"), pod("a", 1, "debugger run"), pod("b", 1, "debugger run"), pod("c", 1, "debugger run")), 0, "Running match=6 running=3 waiting=0 succeeded=0 failed=0 add d"},
		{"EJ-7 a Pod that waits is busy", job(), []*corev1.Pod{pod("a", 1, "debugger wait"), b}, 0, "Waiting match=2 running=0 waiting=1 succeeded=0 failed=0 add "},
		{"EJ-7 a Pod without a report is busy", job(), []*corev1.Pod{pod("a", 1, "debugger ?"), b}, 0, "Unknown match=2 running=0 waiting=0 succeeded=0 failed=0 add  JobWaiting:NotReported"},
		{"EJ-7 more run than allowed", job(parallelism(1)), []*corev1.Pod{pod("a", 1, "debugger run"), pod("b", 1, "debugger run"), c}, 0, "Running match=3 running=2 waiting=0 succeeded=0 failed=0 add "},
		{"EJ-7 beyond the replicas Pods are busy, too", job(replicas(2), parallelism(2)), []*corev1.Pod{pod("a", 1, "debugger ok"), pod("b", 2, "debugger ok"), pod("c", 3, "debugger run")}, 0, "Succeeded match=3 running=0 waiting=0 succeeded=2 failed=0 add  JobSucceeded:JobSucceeded ended"},
		{"EJ-7 nothing may run", job(parallelism(0)), []*corev1.Pod{a}, 0, "Waiting match=1 running=0 waiting=0 succeeded=0 failed=0 add  JobWaiting:ParallelismReached"},
		{"EJ-8 no Pod", job(), nil, 0, "Waiting match=0 running=0 waiting=0 succeeded=0 failed=0 add  MatchedEmpty:MatchedEmpty"},
		{"EJ-8 all succeeded", job(), []*corev1.Pod{pod("a", 1, "debugger ok"), pod("b", 1, "debugger ok")}, 0, "Succeeded match=2 running=0 waiting=0 succeeded=2 failed=0 add  JobSucceeded:JobSucceeded ended"},
		{"EJ-8 the replicas succeeded", job(replicas(1)), []*corev1.Pod{pod("a", 1, "debugger ok"), b}, 0, "Succeeded match=2 running=0 waiting=0 succeeded=1 failed=0 add  JobSucceeded:JobSucceeded ended"},
		{"EJ-8 one runs, one failed", job(), []*corev1.Pod{pod("a", 1, "debugger exit1"), pod("b", 2, "debugger run")}, 0, "Running match=2 running=1 waiting=0 succeeded=0 failed=1 add  JobFailed:CreateFailed"},
		{"EJ-8 all failed", job(), []*corev1.Pod{pod("a", 1, "debugger exit1"), pod("b", 1, "debugger broken")}, 0, "Failed match=2 running=0 waiting=0 succeeded=0 failed=2 add  JobFailed:CreateFailed ended"},
		{"EJ-8 all wait", job(parallelism(2)), []*corev1.Pod{pod("a", 1, "debugger wait"), pod("b", 1, "debugger pull")}, 0, "Waiting match=2 running=0 waiting=2 succeeded=0 failed=0 add  JobWaiting:ContainersWait"},
		{"EJ-8 before the deadline", job(deadline(10), started(0)), []*corev1.Pod{pod("a", 1, "debugger run")}, 9, "Running match=1 running=1 waiting=0 succeeded=0 failed=0 add "},
		{"EJ-11 the deadline, running", job(deadline(10), started(0)), []*corev1.Pod{pod("a", 1, "debugger run"), b}, 10, "Failed match=2 running=1 waiting=0 succeeded=0 failed=0 add  JobFailed:DeadlineExceeded ended"},
		{"EJ-8 the deadline, without Pods", job(deadline(10), started(0)), nil, 10, "Failed match=0 running=0 waiting=0 succeeded=0 failed=0 add  JobFailed:DeadlineExceeded MatchedEmpty:MatchedEmpty ended"},
		{"EJ-8 no replicas", job(replicas(0)), []*corev1.Pod{a}, 0, "Waiting match=1 running=0 waiting=0 succeeded=0 failed=0 add  JobWaiting:NoPodsWanted"},
		{"EJ-9 some succeeded, some failed", job(), []*corev1.Pod{pod("a", 1, "debugger ok"), pod("b", 1, "debugger exit1")}, 0, "Failed match=2 running=0 waiting=0 succeeded=1 failed=1 add  JobFailed:SomePodsFailed ended"},
		{"EJ-9 some succeeded, some failed, more to come", job(), []*corev1.Pod{pod("a", 1, "debugger ok"), pod("b", 1, "debugger exit1"), c}, 0, "Unknown match=3 running=0 waiting=0 succeeded=1 failed=1 add c JobFailed:CreateFailed"},
		{"EJ-9 more replicas than Pods, all ended", job(replicas(5)), []*corev1.Pod{pod("a", 1, "debugger ok"), pod("b", 1, "debugger ok")}, 0, "Waiting match=2 running=0 waiting=0 succeeded=2 failed=0 add  JobWaiting:TooFewPods"},
		{"EJ-9 more replicas than Pods, one runs", job(replicas(5)), []*corev1.Pod{pod("a", 1, "debugger ok"), pod("b", 1, "debugger run")}, 0, "Running match=2 running=1 waiting=0 succeeded=1 failed=0 add  JobWaiting:TooFewPods"},
		{"EJ-9 more replicas than Pods, until the deadline", job(replicas(5), deadline(10), started(0)), []*corev1.Pod{pod("a", 1, "debugger ok")}, 10, "Failed match=1 running=0 waiting=0 succeeded=1 failed=0 add  JobFailed:DeadlineExceeded ended"},
		{"EJ-10 paused", job(paused), []*corev1.Pod{pod("a", 1, "debugger run"), b}, 0, "Paused match=2 running=1 waiting=0 succeeded=0 failed=0 add "},
		{"EJ-10 paused: no end, no deadline", job(paused, deadline(1), started(0)), []*corev1.Pod{pod("a", 1, "debugger ok")}, 10, "Paused match=1 running=0 waiting=0 succeeded=1 failed=0 add "},
		{"EJ-13 before the end of the TTL", job(ttl(5), ended(v1alpha1.EphemeralJobSucceeded, 0)), nil, 4, "Succeeded match=7 running=0 waiting=0 succeeded=7 failed=0 add  ended"},
		{"EJ-13 the TTL", job(ttl(5), ended(v1alpha1.EphemeralJobFailed, 0)), []*corev1.Pod{a}, 5, "Failed match=7 running=0 waiting=0 succeeded=7 failed=0 add  ended delete"},
		{"EJ-13 the default", job(ended(v1alpha1.EphemeralJobSucceeded, 0)), nil, 1800, "Succeeded match=7 running=0 waiting=0 succeeded=7 failed=0 add  ended delete"},
		{"EJ-13 before the default", job(ended(v1alpha1.EphemeralJobSucceeded, 0)), nil, 1799, "Succeeded match=7 running=0 waiting=0 succeeded=7 failed=0 add  ended"},
		{"EJ-60 an empty selector", job(selector(&metav1.LabelSelector{})), []*corev1.Pod{a}, 0, "Waiting match=0 running=0 waiting=0 succeeded=0 failed=0 add  MatchedEmpty:MatchedEmpty"},
		{"EJ-60 no selector", job(selector(nil)), []*corev1.Pod{a}, 0, "Waiting match=0 running=0 waiting=0 succeeded=0 failed=0 add  MatchedEmpty:MatchedEmpty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := settingsOf(tc.job)
			if s.Problems != nil {
				t.Fatal(s.Problems)
			}
			before := tc.job.DeepCopy()
			got := decide(&observation{Job: tc.job, Settings: s, Pods: tc.pods, Now: second(tc.now)})
			if diff := cmp.Diff(tc.want, told(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.job); diff != "" {
				t.Errorf("changed by a decision (-before +after):\n%s", diff)
			}
		})
	}
}

// TestMessages: the conditions contain numbers, names and the next step.
func TestMessages(t *testing.T) {
	for _, tc := range []struct {
		name string
		job  *v1alpha1.EphemeralJob
		pods []*corev1.Pod
		is   v1alpha1.EphemeralJobConditionType
		want string
	}{
		{"EJ-9 some failed", job(), []*corev1.Pod{pod("a", 1, "debugger ok"), pod("b", 1, "debugger exit1")}, v1alpha1.EJobFailed, "of 2 Pods 1 have succeeded and 1 have failed: b"},
		{"EJ-8 the deadline", job(deadline(1), started(0)), []*corev1.Pod{pod("a", 1, "debugger run")}, v1alpha1.EJobFailed, "spec.activeDeadlineSeconds: 1s: of 1 Pods 0 have succeeded and 0 have failed"},
		{"EJ-9 too few", job(replicas(5)), []*corev1.Pod{pod("a", 1, "debugger ok")}, v1alpha1.EJobWaiting, "spec.replicas: 5: 1 match; lower it, or wait for Pods"},
		{"EJ-3 taken", job(), []*corev1.Pod{pod("a", 1, "!debugger run"), pod("b", 1)}, v1alpha1.EJobWaiting, "spec.template.ephemeralContainers: somebody else has added a container of the name to a; use another name"},
		{"EJ-6 an obstacle", job(), []*corev1.Pod{pod("a", 1, "debugger pull")}, v1alpha1.EJobWaiting, "a: debugger: ImagePullBackOff; nobody can remove the containers: see to the obstacle, or delete the Pods"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := decide(&observation{Job: tc.job, Settings: settingsOf(tc.job), Pods: tc.pods, Now: second(20)})
			c := d.Status.Conditions.Get(tc.is)
			if c == nil {
				t.Fatalf("no condition %s: %+v", tc.is, d.Status.Conditions)
			}
			if diff := cmp.Diff(tc.want, c.Message); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWake: a job is reconciled again at the deadline and at the end of the TTL, because no event announces these
// times.
func TestWake(t *testing.T) {
	for _, tc := range []struct {
		name string
		job  *v1alpha1.EphemeralJob
		want time.Duration
	}{
		{"EJ-8 deadline", job(deadline(10), started(0)), 7 * time.Second},
		{"EJ-13 TTL", job(ttl(5), ended(v1alpha1.EphemeralJobFailed, 0)), 2 * time.Second},
		{"neither", job(), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := decide(&observation{Job: tc.job, Settings: settingsOf(tc.job), Now: second(3)}).Step.After; got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// TestMark: the environment of each added container contains the job's UID exactly once.
func TestMark(t *testing.T) {
	j := job(containers("x", "y"), func(j *v1alpha1.EphemeralJob) {
		j.Spec.Template.EphemeralContainers[1].Env = []corev1.EnvVar{{Name: apps.EnvEphemeralJobID, Value: "forged"}, {Name: "A", Value: "b"}}
		j.Spec.Template.EphemeralContainers[1].TargetContainerName = "app"
	})
	before := j.DeepCopy()
	got := settingsOf(j).marked(j.UID)
	want := slices.Clone(before.Spec.Template.EphemeralContainers)
	want[0].Env = []corev1.EnvVar{{Name: apps.EnvEphemeralJobID, Value: "job"}}
	want[1].Env = []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: apps.EnvEphemeralJobID, Value: "job"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("EJ-4 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, j); diff != "" {
		t.Errorf("changed by a mark (-before +after):\n%s", diff)
	}
}

// TestGoesOn: when a job is deleted, its unfinished containers are found, also those that the template no longer
// contains.
func TestGoesOn(t *testing.T) {
	got := goesOn([]*corev1.Pod{
		pod("a", 1, "debugger run"), pod("b", 1, "debugger ok"), pod("c", 1, "!debugger run"), pod("d", 1, "former ?"),
		changedPod(pod("e", 1, "debugger run"), over), changedPod(pod("f", 1, "debugger run"), unlabelled), pod("g", 1, "debugger broken"), pod("h", 1, "debugger wait"),
	}, "job")
	if diff := cmp.Diff([]string{"a", "d", "f", "h"}, got); diff != "" {
		t.Errorf("EJ-12 (-want +got):\n%s", diff)
	}
}

// TestChanged checks for which changes of a Pod the job is reconciled.
func TestChanged(t *testing.T) {
	for _, tc := range []struct {
		name          string
		before, after *corev1.Pod
		want          bool
	}{
		{"EJ-15 nothing", pod("a", 1), pod("a", 1), false},
		{"EJ-15 another phase", pod("a", 1), changedPod(pod("a", 1), func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }), false},
		{"EJ-15 a report", pod("a", 1, "debugger ?"), pod("a", 1, "debugger run"), true},
		{"EJ-15 labels", pod("a", 1), changedPod(pod("a", 1), unlabelled), true},
		{"EJ-15 the end", pod("a", 1), changedPod(pod("a", 1), over), true},
		{"EJ-15 the deletion", pod("a", 1), changedPod(pod("a", 1), dying), true},
		{"EJ-15 somebody's container", pod("a", 1), pod("a", 1, "!debugger ?"), true},
		{"EJ-15 another Pod", pod("a", 1), changedPod(pod("a", 1), func(p *corev1.Pod) { p.UID = "other" }), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := changed(tc.before, tc.after); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

// TestPodFields: a decision about the fields of a Pod that the cache keeps equals the decision about the whole Pod.
func TestPodFields(t *testing.T) {
	j := job(parallelism(5))
	var whole, kept []*corev1.Pod
	for i, state := range []string{"debugger ok", "debugger exit1", "debugger run", "debugger pull", "debugger ?", "!debugger run", "!shell run"} {
		one := pod(fmt.Sprintf("p%d", i), i, state)
		one.Spec.EphemeralContainers[0].Image, one.Spec.Containers = "tool:v1", []corev1.Container{{Name: "app"}}
		part := &corev1.Pod{ObjectMeta: one.ObjectMeta}
		part.Status.Phase = one.Status.Phase
		podFields(part, one)
		if part.Spec.EphemeralContainers[0].Image != "" {
			t.Error("the cache keeps more than is read")
		}
		whole, kept = append(whole, one), append(kept, part)
	}
	decided := func(pods []*corev1.Pod) string {
		return told(decide(&observation{Job: j, Settings: settingsOf(j), Pods: pods, Now: second(0)}))
	}
	if diff := cmp.Diff(decided(whole), decided(kept)); diff != "" {
		t.Errorf("(-whole +kept):\n%s", diff)
	}
}

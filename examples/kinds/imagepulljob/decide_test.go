package imagepulljob

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

func newJob(edits ...func(*v1beta1.ImagePullJob)) *v1beta1.ImagePullJob {
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "warm", UID: "warm-uid", Generation: 1}}
	job.Spec.Image, job.Spec.CompletionPolicy.Type = "nginx:1", v1beta1.Always
	job.Spec.Parallelism = new(intstr.FromInt32(2))
	job.Status.StartTime = new(metav1.NewTime(noon.Add(-time.Minute)))
	for _, edit := range edits {
		edit(job)
	}
	return job
}

func settingsFor(t testing.TB, job *v1beta1.ImagePullJob) *settings {
	t.Helper()
	s := newRules(defaultKeep, []string{"*"}).settingsOf(job)
	if s.Problems != nil {
		t.Fatal(s.Problems)
	}
	return s
}

// onNode returns the NodeImage of a Node in one of these states: "" without a request of the job, "claimed" with a
// request, "Pulling", "Succeeded", "Failed", or "silent" with a request that the agent has not answered for 11
// minutes.
func onNode(t testing.TB, job *v1beta1.ImagePullJob, name, state string, secrets ...v1beta1.ReferenceObject) *v1beta1.NodeImage {
	t.Helper()
	image := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if state == "" {
		return image
	}
	since := noon.Add(-time.Second)
	if state == "silent" {
		since = noon.Add(-11 * time.Minute)
	}
	if _, err := settingsFor(t, job).claim(job, image, secrets, since); err != nil {
		t.Fatal(err)
	}
	if state == "claimed" || state == "silent" {
		return image
	}
	tag := v1beta1.ImageTagStatus{Tag: "1", Phase: v1beta1.ImagePullPhase(state)}
	if state == "Failed" {
		tag.Message = "manifest unknown"
	}
	image.Status.ImageStatuses = map[string]v1beta1.ImageStatus{"nginx": {Tags: []v1beta1.ImageTagStatus{tag}}}
	return image
}

// result summarizes a decision.
type result struct {
	Claim, Release  []string
	Numbers         []int32 // desired, active, succeeded, failed
	Failed          []string
	Message, Waits  string
	Ended, IsRemove bool
}

func resultOf(d *decision) result {
	names := func(images []*v1beta1.NodeImage) (out []string) {
		for _, image := range images {
			out = append(out, image.Name)
		}
		return out
	}
	s := &d.Status
	r := result{
		Claim: names(d.Claim), Release: names(d.Release), Numbers: []int32{s.Desired, s.Active, s.Succeeded, s.Failed}, Message: s.Message,
		Ended: s.CompletionTime != nil, IsRemove: d.Step.Remove,
	}
	for _, f := range s.Failures {
		r.Failed = append(r.Failed, f.Node+": "+f.Reason+": "+f.Message)
	}
	for _, c := range s.Conditions {
		r.Waits += c.Type + ": " + c.Message
	}
	return r
}

func TestDecide(t *testing.T) {
	deadline := func(job *v1beta1.ImagePullJob) {
		job.Spec.PullPolicy = &v1beta1.PullPolicy{TimeoutSeconds: new(int32(5))}
		job.Spec.CompletionPolicy.ActiveDeadlineSeconds = new(int64(60))
	}
	ended := func(job *v1beta1.ImagePullJob) {
		job.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(60))
		job.Status = v1beta1.ImagePullJobStatus{CompletionTime: new(metav1.NewTime(noon.Add(-time.Minute))), Desired: 7, Message: "job has completed"}
	}
	never := func(job *v1beta1.ImagePullJob) { job.Spec.CompletionPolicy.Type = v1beta1.Never }
	for _, tc := range []struct {
		name   string
		job    *v1beta1.ImagePullJob
		states []string // of the Nodes n1, n2, ...
		idle   string   // a Node that is not ready
		want   result
	}{
		{"IP-10 as many as allowed", newJob(), []string{"", "", "Succeeded", "claimed"}, "", result{Claim: []string{"n1"}, Numbers: []int32{4, 2, 1, 0}, Message: "job is running, progress 25.0%"}},
		{"IP-9 an answer of each kind", newJob(), []string{"Succeeded", "Failed", "Pulling"}, "", result{
			Numbers: []int32{3, 1, 1, 1}, Failed: []string{"n2: PullFailed: manifest unknown"}, Message: "job is running, progress 66.7%",
		}},
		{"IP-11 complete", newJob(), []string{"Succeeded", "Failed"}, "", result{
			Numbers: []int32{2, 0, 1, 1}, Failed: []string{"n2: PullFailed: manifest unknown"}, Message: "job has completed", Ended: true,
		}},
		{"IP-11 no Nodes", newJob(), nil, "", result{Numbers: []int32{0, 0, 0, 0}, Message: "job has completed", Ended: true}},
		{"IP-8 never complete", newJob(never), []string{"Succeeded"}, "", result{Numbers: []int32{1, 0, 1, 0}, Message: "job is running, progress 100.0%"}},
		{"IP-8 never complete, without Nodes", newJob(never), nil, "", result{Numbers: []int32{0, 0, 0, 0}, Message: "job is running, no progress"}},
		{"IP-12, IP-63 the deadline", newJob(deadline), []string{"Succeeded", "claimed", "", ""}, "n4", result{
			Numbers: []int32{4, 0, 1, 3}, Message: "job exceeds activeDeadlineSeconds", Ended: true, Failed: []string{
				"n2: DeadlineExceeded: the pull had not ended", "n3: DeadlineExceeded: the pull had not begun", "n4: DeadlineExceeded: the Node could not pull: the Node is not ready",
			},
		}},
		{"IP-66 a Node that is not ready", newJob(), []string{"Succeeded", ""}, "n2", result{
			Numbers: []int32{2, 0, 1, 0}, Message: "job is running, progress 50.0%", Waits: "Waiting: n2 (the Node is not ready); make the Nodes ready, or exclude the Nodes",
		}},
		{"IP-34 no agent answers", newJob(), []string{"silent"}, "", result{
			Numbers: []int32{1, 0, 0, 1}, Message: "job has completed", Ended: true, Failed: []string{"n1: AgentSilentOnNode: no report about the claim within 10m0s"},
		}},
		{"IP-66 no agent on a Node that is not ready", newJob(), []string{"silent"}, "n1", result{
			Numbers: []int32{1, 0, 0, 0}, Message: "job is running, progress 0.0%", Waits: "Waiting: n1 (the Node is not ready); make the Nodes ready, or exclude the Nodes",
		}},
		{"IP-13 the TTL", newJob(ended), []string{""}, "", result{Numbers: []int32{7, 0, 0, 0}, Message: "job has completed", Ended: true, IsRemove: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := &observation{Job: tc.job, Settings: settingsFor(t, tc.job), Now: noon}
			for i, state := range tc.states {
				at := target{Name: "n" + string(rune('1'+i)), Image: onNode(t, tc.job, "n"+string(rune('1'+i)), state)}
				if at.Image.Name == tc.idle {
					at.NotReady = "the Node is not ready"
				}
				o.Targets = append(o.Targets, at)
			}
			if diff := cmp.Diff(tc.want, resultOf(decide(o))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestChanges: after a change of the image or of the selected Nodes, requests for images that are no longer needed
// are removed from NodeImages.
func TestChanges(t *testing.T) {
	job := newJob()
	old, kept := onNode(t, job, "n1", "Succeeded"), onNode(t, job, "n2", "Pulling")
	later := newJob(func(job *v1beta1.ImagePullJob) { job.Spec.Image = "nginx:2" })
	o := &observation{Job: later, Settings: settingsFor(t, later), Selected: []string{"n2"}, Targets: []target{{Name: "n2", Image: kept}}, Claimed: []*v1beta1.NodeImage{kept, old}, Now: noon}
	d := decide(o)
	if diff := cmp.Diff(result{Claim: []string{"n2"}, Release: []string{"n1", "n2"}, Numbers: []int32{1, 1, 0, 0}, Message: "job is running, progress 0.0%"}, resultOf(d)); diff != "" {
		t.Errorf("IP-64 (-want +got):\n%s", diff)
	}
	if !release(later, kept, noon, o.Settings.image) || len(kept.Spec.Images) > 0 {
		t.Errorf("IP-64 left: %+v", kept.Spec)
	}
}

// TestNodeSeemsGone: if the cache does not show a selected Node, the job's request stays in the NodeImage, because
// the Node may have been created again.
func TestNodeSeemsGone(t *testing.T) {
	job := newJob()
	claimed := []*v1beta1.NodeImage{onNode(t, job, "n1", "Pulling"), onNode(t, job, "n2", "Pulling")}
	d := decide(&observation{Job: job, Settings: settingsFor(t, job), Selected: []string{"n1"}, Claimed: claimed, Now: noon})
	if diff := cmp.Diff([]string{"n2"}, resultOf(d).Release); diff != "" {
		t.Errorf("IP-33, IP-64 (-want +got):\n%s", diff)
	}
}

// TestSecrets: a NodeImage that already contains the job's request gets the reference to a Secret, even if the
// parallelism allows no further Node.
func TestSecrets(t *testing.T) {
	job := newJob(func(job *v1beta1.ImagePullJob) {
		job.Spec.PullSecrets, job.Spec.Parallelism = []string{"pull"}, new(intstr.FromInt32(1))
	})
	refs := copied([]string{"pull-123456"})
	o := &observation{
		Job: job, Settings: settingsFor(t, job), Secrets: refs, Now: noon,
		Targets: []target{{Name: "n1", Image: onNode(t, job, "n1", "claimed", refs...)}, {Name: "n2", Image: onNode(t, job, "n2", "claimed")}, {Name: "n3", Image: onNode(t, job, "n3", "")}},
	}
	if diff := cmp.Diff([]string{"n2"}, resultOf(decide(o)).Claim); diff != "" {
		t.Errorf("IP-69 (-want +got):\n%s", diff)
	}
}

func TestPolicy(t *testing.T) {
	for _, tc := range []struct {
		name          string
		edit          func(*v1beta1.ImagePullJob)
		least, most   time.Duration // the TTL
		deadline      time.Duration
		isKept, force bool
	}{
		{"IP-7 a default job", func(*v1beta1.ImagePullJob) {}, 2100 * time.Second, 2399 * time.Second, 0, false, false},
		{"IP-7 the TTL of the job", func(job *v1beta1.ImagePullJob) { job.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(0)) }, 300 * time.Second, 599 * time.Second, 0, false, false},
		{"IP-7 the deadline of the job", func(job *v1beta1.ImagePullJob) { job.Spec.CompletionPolicy.ActiveDeadlineSeconds = new(int64(900)) }, 1200 * time.Second, 1499 * time.Second, 900 * time.Second, false, false},
		{"IP-7 never complete", func(job *v1beta1.ImagePullJob) { job.Spec.CompletionPolicy.Type = v1beta1.Never }, 85800 * time.Second, 87000 * time.Second, 1800 * time.Second, true, false},
		{"3.9 never complete, with a long timeout", func(job *v1beta1.ImagePullJob) {
			job.Spec.CompletionPolicy.Type, job.Spec.ImagePullPolicy = v1beta1.Never, corev1.PullAlways
			job.Spec.PullPolicy = &v1beta1.PullPolicy{TimeoutSeconds: new(int32(7200))}
		}, 85800 * time.Second, 87000 * time.Second, 7200 * time.Second, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			policy := settingsFor(t, newJob(tc.edit)).policy
			if ttl := *policy.TTL; ttl < tc.least || ttl > tc.most {
				t.Errorf("TTL %s, want %s to %s", ttl, tc.least, tc.most)
			}
			var deadline time.Duration
			if policy.Deadline != nil {
				deadline = *policy.Deadline
			}
			if deadline != tc.deadline || policy.Keep != tc.isKept || policy.Always != tc.force {
				t.Errorf("policy %+v, deadline %s", policy, deadline)
			}
		})
	}
}

func TestOrder(t *testing.T) {
	got := inOrder([]string{"n4", "n1", "n3", "n2"}, []string{"n3", "n9", "n1", "n3"})
	if diff := cmp.Diff([]string{"n3", "n1", "n2", "n4"}, got); diff != "" {
		t.Errorf("IP-60 (-want +got):\n%s", diff)
	}
	pod := func(node string, phase corev1.PodPhase, app string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}, Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase}}
	}
	pods := []*corev1.Pod{pod("n2", "Running", "web"), pod("n1", "Pending", "web"), pod("n2", "Running", "web"), pod("", "Pending", "web"), pod("n3", "Succeeded", "web"), pod("n4", "Running", "db")}
	if diff := cmp.Diff([]string{"n1", "n2"}, nodesOfPods(pods, labels.SelectorFromSet(labels.Set{"app": "web"}))); diff != "" {
		t.Errorf("IP-2 (-want +got):\n%s", diff)
	}
	names := settingsFor(t, newJob(func(job *v1beta1.ImagePullJob) {
		job.Spec.Selector = &v1beta1.ImagePullJobNodeSelector{Names: []string{"b", "a"}}
	}))
	if !names.selects("a", nil) || names.selects("c", nil) || !slices.Equal(names.names, []string{"b", "a"}) {
		t.Errorf("IP-2, IP-60 names: %+v", names.names)
	}
}

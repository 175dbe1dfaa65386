package kubeletpull_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/node/imagepull/kubeletpull"
)

const annotation = "example.com/report"

// forgetful is a caller that stores no reports, and reads all reports from the Pods.
type forgetful struct {
	*kubeletpull.Puller
	t      testing.TB
	node   *corev1.Node
	image  imagepull.Reference
	policy imagepull.Policy
	pods   map[string]*corev1.Pod
	now    time.Time
	made   int
}

func newForgetful(t testing.TB, policy imagepull.Policy) *forgetful {
	t.Helper()
	o := options()
	o.Annotation, o.Hold, o.Bounds.Pulls = annotation, true, 1
	p, err := kubeletpull.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &forgetful{
		Puller: p, t: t, node: nodeOf("v1.36.3", "containerd://2.1.0"), image: parse(t, "app:1"), policy: policy,
		pods: map[string]*corev1.Pod{}, now: at(0),
	}
}

// step calls Next once and carries out the result. step returns the report, and a word for each action.
func (f *forgetful) step() (imagepull.Report, string) {
	f.t.Helper()
	seen := kubeletpull.Observed{Node: f.node}
	for _, name := range slices.Sorted(maps.Keys(f.pods)) {
		seen.Pods = append(seen.Pods, f.pods[name])
	}
	var before []imagepull.Report
	report, since, found := f.Recorded(seen, f.image, f.now)
	if found {
		before = append(before, report)
	} else {
		since = f.now
	}
	wants := []imagepull.Want{{Image: f.image, Round: report.Round, Claims: []imagepull.Claim{{Owner: "a", Round: report.Round, Since: since, Policy: f.policy}}}}
	step := f.Next(seen, wants, before, f.now)
	var did []string
	for _, pod := range step.Change {
		did = append(did, "change")
		f.pods[pod.Name] = pod
	}
	for _, pod := range step.Create {
		if f.pods[pod.Name] != nil {
			f.t.Fatalf("a second Pod %s", pod.Name)
		}
		did = append(did, "create")
		f.made++
		pod.CreationTimestamp = metav1.NewTime(f.now)
		f.pods[pod.Name] = pod
	}
	for _, pod := range step.Delete {
		did = append(did, "delete")
		delete(f.pods, pod.Name)
	}
	return step.Reports[0], strings.Join(did, " ")
}

// newest returns the Pod that was created last.
func (f *forgetful) newest() *corev1.Pod {
	var out *corev1.Pod
	for _, pod := range f.pods {
		if out == nil || pod.CreationTimestamp.After(out.CreationTimestamp.Time) {
			out = pod
		}
	}
	return out
}

func started(when time.Time) corev1.PodStatus {
	return status(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(when)}})
}

func evicted(when time.Time) corev1.PodStatus {
	out := status(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(when), FinishedAt: metav1.NewTime(when)}})
	out.Phase, out.Reason = corev1.PodFailed, "Evicted"
	return out
}

// moment is the report and the actions in one step of a caller that stores no reports.
type moment struct {
	Phase    imagepull.Phase
	Attempts int
	Did      string
}

func (f *forgetful) moment(after time.Duration, becomes *corev1.PodStatus) moment {
	f.t.Helper()
	f.now = f.now.Add(after)
	if becomes != nil {
		f.newest().Status = *becomes
	}
	report, did := f.step()
	return moment{report.Phase, report.Attempts, did}
}

func TestRecords(t *testing.T) {
	refused, runs := waiting("ErrImagePull", "manifest unknown"), started(at(time.Second))
	gone := evicted(at(time.Second))
	type turn struct {
		after   time.Duration
		becomes *corev1.PodStatus
		want    moment
	}
	for _, tc := range []struct {
		name   string
		policy imagepull.Policy
		turns  []turn
	}{
		{"a pulled image is held, without a write", imagepull.Policy{}, []turn{
			{0, nil, moment{imagepull.Pulling, 1, "create"}},
			{time.Second, &runs, moment{imagepull.Succeeded, 1, ""}},
			{time.Hour, nil, moment{imagepull.Succeeded, 1, ""}},
		}},
		{"an evicted Pod has pulled the image, and is not replaced", imagepull.Policy{Retries: 3}, []turn{
			{0, nil, moment{imagepull.Pulling, 1, "create"}},
			{time.Second, &gone, moment{imagepull.Succeeded, 1, ""}},
			{time.Hour, nil, moment{imagepull.Succeeded, 1, ""}},
		}},
		{"a kept image is pulled again", imagepull.Policy{Keep: true}, []turn{
			{0, nil, moment{imagepull.Pulling, 1, "create"}},
			{time.Second, &runs, moment{imagepull.Succeeded, 1, ""}},
			{time.Second, &gone, moment{imagepull.Waiting, 0, "change"}},
			{59 * time.Second, nil, moment{imagepull.Waiting, 0, ""}},
			{time.Second, nil, moment{imagepull.Pulling, 1, "create"}},
			{time.Second, &runs, moment{imagepull.Succeeded, 1, "delete"}},
		}},
		{"attempts are counted over Pods, and the last Pod tells of the failure", imagepull.Policy{Retries: 1}, []turn{
			{0, nil, moment{imagepull.Pulling, 1, "create"}},
			{time.Second, &refused, moment{imagepull.Waiting, 1, "change"}},
			{500 * time.Millisecond, nil, moment{imagepull.Waiting, 1, ""}},
			{500 * time.Millisecond, nil, moment{imagepull.Pulling, 2, "create"}},
			{time.Second, &refused, moment{imagepull.Failed, 2, "change delete"}},
			{time.Hour, nil, moment{imagepull.Failed, 2, ""}},
		}},
		{"a late success counts", imagepull.Policy{Retries: 1}, []turn{
			{0, nil, moment{imagepull.Pulling, 1, "create"}},
			{time.Second, &refused, moment{imagepull.Waiting, 1, "change"}},
			{100 * time.Millisecond, &runs, moment{imagepull.Succeeded, 1, ""}},
		}},
		{"an attempt that is too slow makes room for the next", imagepull.Policy{Retries: 1, Timeout: time.Minute}, []turn{
			{0, nil, moment{imagepull.Pulling, 1, "create"}},
			{time.Minute, nil, moment{imagepull.Waiting, 1, "change"}},
			{time.Second, nil, moment{imagepull.Pulling, 2, "create"}},
			{time.Second, nil, moment{imagepull.Pulling, 2, "delete"}},
		}},
		{"a Pod that pulls always is replaced", imagepull.Policy{Always: true}, []turn{
			{0, nil, moment{imagepull.Pulling, 1, "create"}},
			{time.Second, &runs, moment{imagepull.Succeeded, 1, "create"}},
			{time.Second, &runs, moment{imagepull.Succeeded, 1, "delete"}},
			{time.Hour, nil, moment{imagepull.Succeeded, 1, ""}},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newForgetful(t, tc.policy)
			var want, got []moment
			for _, turn := range tc.turns {
				want, got = append(want, turn.want), append(got, f.moment(turn.after, turn.becomes))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if last := got[len(got)-1]; (last.Phase == imagepull.Failed) != (f.newest().Spec.ActiveDeadlineSeconds != nil) {
				t.Errorf("a deadline of the Pod: %v", f.newest().Spec.ActiveDeadlineSeconds)
			}
		})
	}
}

// TestChangedPods: a webhook may change a Pod before the creation. A Pod whose image has a different name is used for
// the pull. A Pod that cannot pull the image onto the Node fails with a reason. The number of Pods is limited in each
// case.
func TestChangedPods(t *testing.T) {
	runs := started(at(time.Second))
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		phase  imagepull.Phase
		why    string
	}{
		"the registry is replaced":      {func(pod *corev1.Pod) { pod.Spec.Volumes[0].Image.Reference = "mirror.test/app:1" }, imagepull.Succeeded, ""},
		"the affinity is gone":          {func(pod *corev1.Pod) { pod.Spec.Affinity, pod.Spec.NodeName = nil, "n1" }, imagepull.Succeeded, ""},
		"the Pod runs on another Node":  {func(pod *corev1.Pod) { pod.Spec.Affinity, pod.Spec.NodeName = nil, "n2" }, imagepull.Failed, "bound to the Node n2"},
		"the volume is gone":            {func(pod *corev1.Pod) { pod.Spec.Volumes = nil }, imagepull.Failed, "no image volume"},
		"the volume has another source": {func(pod *corev1.Pod) { pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{} }, imagepull.Failed, "no image volume"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForgetful(t, imagepull.Policy{Retries: 1})
			var last imagepull.Report
			for range 10 {
				last, _ = f.step()
				for _, pod := range f.pods {
					tc.change(pod)
					pod.Status = runs
				}
				f.now = f.now.Add(time.Minute)
			}
			if last.Phase != tc.phase || !strings.Contains(last.Message, tc.why) || f.made > 2 {
				t.Errorf("%d Pods, the last report %+v", f.made, last)
			}
		})
	}
}

// TestForgedRecord: with any text in the annotation, the report is valid.
func TestForgedRecord(t *testing.T) {
	for _, text := range []string{"", "{", `{"phase":"Odd"}`, `{"phase":"Waiting","again":"9999-01-01T00:00:00Z","attempts":-5}`, `{"phase":"Failed","round":-1}`, `{"phase":"Pulling","message":"` + strings.Repeat("x", 5000) + `"}`} {
		f := newForgetful(t, imagepull.Policy{Retries: 1})
		f.step()
		pod := f.newest()
		pod.Annotations[annotation] = text
		report, _, found := f.Recorded(kubeletpull.Observed{Node: f.node, Pods: []*corev1.Pod{pod}}, f.image, f.now)
		if !found || report.Image != f.image || report.Phase == "Odd" || report.Attempts < 0 || report.Round < 0 || report.Again.After(f.now.Add(5*time.Hour)) || len(report.Message) > 512 {
			t.Errorf("%.40q: %t %+v", text, found, report)
		}
		f.step()
	}
}

// FuzzRecords: a caller that stores no reports makes no more attempts than allowed, keeps at most two Pods, and stops
// writing when no more events occur on the Node.
func FuzzRecords(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		policy := imagepull.Policy{Retries: r.IntN(3), Always: r.IntN(3) == 0, Timeout: time.Minute}
		c := newForgetful(t, policy)
		for range 60 {
			c.now = c.now.Add(time.Duration(r.IntN(40)) * time.Second)
			if pod := c.newest(); pod != nil && !ranOnce(pod) {
				pod.Status = []corev1.PodStatus{{}, waiting("ErrImagePull", "no"), waiting("ContainerCreating", ""), started(c.now), evicted(c.now)}[r.IntN(5)]
			}
			c.step()
			if len(c.pods) > 2 {
				t.Fatalf("%d Pods", len(c.pods))
			}
		}
		if most := policy.Retries + 2; c.made > most { // one more Pod to keep the image in use
			t.Errorf("%d Pods were made, %d are allowed", c.made, most)
		}
		c.newest().Status = started(c.now)
		for range 8 {
			c.now = c.now.Add(time.Hour)
			if report, did := c.step(); did == "" && report.Phase == imagepull.Succeeded {
				return
			}
			c.newest().Status = started(c.now)
		}
		t.Error("no rest")
	})
}

// ranOnce reports whether a Pod has run: such a Pod does not pull again.
func ranOnce(pod *corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running != nil || c.State.Terminated != nil {
			return true
		}
	}
	return false
}

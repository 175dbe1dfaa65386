package kubeletpull_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/node/imagepull/kubeletpull"
)

func at(d time.Duration) time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(d) }

func parse(t testing.TB, name string) imagepull.Reference {
	t.Helper()
	image, err := imagepull.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func options() kubeletpull.Options {
	return kubeletpull.Options{
		Namespace: "jobs", Prefix: "pull", PauseImage: "registry.k8s.io/pause:3.10", Labels: map[string]string{"app": "pull"},
		Owner:       metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "NodeImage", Name: "n1", UID: "u1"},
		PullSecrets: map[imagepull.Owner][]string{"a": {"s2", "s1"}, "b": {"s1"}, "c": {"s3"}},
		Bounds:      imagepull.Bounds{Pulls: 5, Registries: imagepull.Registries{"*"}},
	}
}

func newPuller(t testing.TB) *kubeletpull.Puller {
	t.Helper()
	p, err := kubeletpull.New(options())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func nodeOf(kubelet, runtime string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{
		KubeletVersion: kubelet, ContainerRuntimeVersion: runtime, OperatingSystem: "linux",
	}}}
}

func status(state corev1.ContainerState) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "pause", State: state}}}
}

func waiting(code, message string) corev1.PodStatus {
	return status(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: code, Message: message}})
}

func running() corev1.PodStatus {
	return status(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
}

// run is a simple caller of Next: run records reports, and deletes and creates Pods.
type run struct {
	*kubeletpull.Puller
	t       testing.TB
	node    *corev1.Node
	wants   []imagepull.Want
	reports []imagepull.Report
	pods    []*corev1.Pod
	events  []corev1.Event
	now     time.Time
}

func newRun(t testing.TB, policy imagepull.Policy) *run {
	return &run{
		Puller: newPuller(t), t: t, node: nodeOf("v1.36.3", "containerd://2.1.0"), now: at(0),
		wants: []imagepull.Want{{Image: parse(t, "app:1"), Claims: []imagepull.Claim{{Owner: "a", Since: at(0), Policy: policy}}}},
	}
}

func (r *run) step() kubeletpull.Step {
	step := r.Next(kubeletpull.Observed{Node: r.node, Pods: r.pods, Events: r.events}, r.wants, r.reports, r.now)
	r.reports = step.Reports
	var left []*corev1.Pod
	for _, pod := range r.pods {
		if !contains(step.Delete, pod.Name) {
			left = append(left, pod)
		}
	}
	for _, pod := range step.Create {
		pod.CreationTimestamp = metav1.NewTime(r.now)
		pod.UID = "uid-1"
		left = append(left, pod)
	}
	r.pods = left
	return step
}

func contains(pods []*corev1.Pod, name string) bool {
	for _, pod := range pods {
		if pod.Name == name {
			return true
		}
	}
	return false
}

func TestAttempts(t *testing.T) {
	deleting := &metav1.Time{Time: at(0)}
	for name, c := range map[string]struct {
		policy           imagepull.Policy
		edit             func(r *run)
		phase            imagepull.Phase
		present          bool
		message          string
		created, deleted int
	}{
		"no status yet":                     {edit: func(*run) {}, phase: imagepull.Pulling},
		"creating":                          {edit: func(r *run) { r.pods[0].Status = waiting("ContainerCreating", "") }, phase: imagepull.Pulling},
		"pulled, not kept":                  {edit: func(r *run) { r.pods[0].Status = running() }, phase: imagepull.Succeeded, present: true, deleted: 1},
		"pulled, kept":                      {policy: imagepull.Policy{Keep: true}, edit: func(r *run) { r.pods[0].Status = running() }, phase: imagepull.Succeeded, present: true},
		"pulled with Always, another holds": {policy: imagepull.Policy{Keep: true, Always: true}, edit: func(r *run) { r.pods[0].Status = running() }, phase: imagepull.Succeeded, present: true, created: 1},
		"refused, no attempt is left":       {edit: func(r *run) { r.pods[0].Status = waiting("ErrImagePull", "denied") }, phase: imagepull.Failed, message: "ErrImagePull: denied", deleted: 1},
		"refused, another attempt":          {policy: imagepull.Policy{Retries: 1}, edit: func(r *run) { r.pods[0].Status = waiting("ImagePullBackOff", "denied") }, phase: imagepull.Waiting, message: "ImagePullBackOff: denied", deleted: 1},
		"the pause image is refused":        {edit: func(r *run) { r.pods[0].Status = waiting("ErrImagePull", "no registry.k8s.io/pause:3.10") }, phase: imagepull.Failed, message: "the pause image: ErrImagePull: no registry.k8s.io/pause:3.10; use a pause image that the Node can pull", deleted: 1},
		"a message that names both images": {edit: func(r *run) {
			r.pods[0].Status = waiting("ErrImagePull", "app:1 and registry.k8s.io/pause:3.10")
		}, phase: imagepull.Failed, message: "ErrImagePull: app:1 and registry.k8s.io/pause:3.10", deleted: 1},
		"evicted":                  {edit: func(r *run) { r.pods[0].Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"} }, phase: imagepull.Failed, message: "Evicted", deleted: 1},
		"image volume not mounted": {edit: func(r *run) { r.pods[0].Status = waiting("CreateContainerError", "x") }, phase: imagepull.Failed, message: "CreateContainerError: x", deleted: 1},
		"pause container has ended": {edit: func(r *run) {
			r.pods[0].Status = status(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}})
		}, phase: imagepull.Succeeded, present: true, deleted: 1},
		"lost with the disk of the Node": {edit: func(r *run) {
			r.pods[0].Status = waiting("ErrImagePull", "denied")
			r.pods[0].Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown"}
		}, phase: imagepull.Failed, message: "ErrImagePull: denied", deleted: 1},
		"just before the timeout": {policy: imagepull.Policy{Timeout: time.Minute}, edit: func(r *run) { r.now = at(time.Minute - 1) }, phase: imagepull.Pulling},
		"timeout":                 {policy: imagepull.Policy{Timeout: time.Minute}, edit: func(r *run) { r.now = at(time.Minute) }, phase: imagepull.Failed, message: "no end of the attempt within 1m0s", deleted: 1},
		"timeout, with a warning": {policy: imagepull.Policy{Timeout: time.Minute}, edit: func(r *run) {
			r.now = at(time.Minute)
			r.events = []corev1.Event{
				{InvolvedObject: corev1.ObjectReference{UID: "uid-1"}, Type: corev1.EventTypeWarning, Reason: "Failed", Message: "new", LastTimestamp: metav1.NewTime(at(2))},
				{InvolvedObject: corev1.ObjectReference{UID: "uid-1"}, Type: corev1.EventTypeWarning, Reason: "Failed", Message: "old", LastTimestamp: metav1.NewTime(at(1))},
				{InvolvedObject: corev1.ObjectReference{UID: "uid-2"}, Type: corev1.EventTypeWarning, Reason: "Failed", Message: "other", LastTimestamp: metav1.NewTime(at(3))},
			}
		}, phase: imagepull.Failed, message: "no end of the attempt within 1m0s: Failed: new", deleted: 1},
		"timeout, not scheduled": {policy: imagepull.Policy{Timeout: time.Minute}, edit: func(r *run) {
			r.now = at(time.Minute)
			r.pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "full"}}
		}, phase: imagepull.Failed, message: "no end of the attempt within 1m0s: Unschedulable: full", deleted: 1},
		"deadline":                    {policy: imagepull.Policy{Retries: 9, Deadline: ptr.To(time.Second)}, edit: func(r *run) { r.now = at(time.Second) }, phase: imagepull.Failed, message: "1s; allow more time", deleted: 1},
		"a Pod not in the cache yet":  {edit: func(r *run) { r.pods = nil }, phase: imagepull.Pulling, created: 1},
		"a Pod that is being deleted": {edit: func(r *run) { r.pods[0].DeletionTimestamp = deleting }, phase: imagepull.Pulling},
		"released":                    {edit: func(r *run) { r.wants = nil }, deleted: 1},
		"a Pod of another owner":      {edit: func(r *run) { r.pods[0].OwnerReferences[0].UID = "u2" }, phase: imagepull.Pulling, created: 1},
		"a Pod for another Node":      {edit: func(r *run) { r.node.Name = "n2" }, phase: imagepull.Pulling, created: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, c.policy)
			if first := r.step(); len(first.Create) != 1 || len(first.Delete) != 0 {
				t.Fatalf("first: %+v", first)
			}
			c.edit(r)
			step := r.step()
			if len(step.Create) != c.created || len(step.Delete) != c.deleted {
				t.Errorf("%d created and %d deleted, want %d and %d", len(step.Create), len(step.Delete), c.created, c.deleted)
			}
			if len(r.wants) == 0 {
				return
			}
			got := step.Reports[0]
			if diff := cmp.Diff([]any{c.phase, c.present, c.message}, []any{got.Phase, got.Present, got.Message}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAlwaysIsHandedOver(t *testing.T) {
	r := newRun(t, imagepull.Policy{Keep: true, Always: true})
	r.step()
	r.pods[0].Status = running()
	r.step()
	r.step() // the new Pod does not run yet, so both Pods stay
	if len(r.pods) != 2 || r.pods[1].Spec.Volumes[0].Image.PullPolicy != corev1.PullIfNotPresent {
		t.Fatalf("%+v", r.pods)
	}
	r.pods[1].Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}
	if step := r.step(); len(step.Delete) != 1 || len(step.Create) != 0 || len(r.pods) != 1 {
		t.Fatalf("%+v", step)
	}
	r.step() // the Pod is created again
	r.pods[1].Status = running()
	holds := r.pods[1].Name
	if step := r.step(); len(step.Delete) != 1 || len(r.pods) != 1 || r.pods[0].Name != holds || !step.Reports[0].Present {
		t.Errorf("%+v", step)
	}
	r.pods = nil // the image is lost, and is pulled again after a minute
	if step := r.step(); len(step.Create) != 0 || step.Reports[0].Phase != imagepull.Waiting {
		t.Errorf("%+v", step)
	}
	r.now = at(time.Minute)
	if step := r.step(); len(step.Create) != 1 {
		t.Errorf("%+v", step)
	}
}

// TestImagesAreApart: an image that cannot be pulled does not delay or hide the pull of another image.
func TestImagesAreApart(t *testing.T) {
	r := newRun(t, imagepull.Policy{Keep: true})
	r.wants = append(r.wants, imagepull.Want{Image: parse(t, "bad:1"), Claims: []imagepull.Claim{{Owner: "c"}}})
	r.step()
	for _, pod := range r.pods {
		if pod.Status = running(); pod.Spec.Volumes[0].Image.Reference == "docker.io/library/bad:1" {
			pod.Status = waiting("ErrImagePull", "denied")
		}
	}
	r.step()
	if r.reports[0].Phase != imagepull.Succeeded || r.reports[1].Phase != imagepull.Failed || len(r.pods) != 1 {
		t.Errorf("%+v", r.reports)
	}
}

func TestPod(t *testing.T) {
	r := newRun(t, imagepull.Policy{})
	r.wants[0].Claims = append(r.wants[0].Claims, imagepull.Claim{Owner: "b"})
	pod := r.step().Create[0]
	if diff := cmp.Diff([]corev1.LocalObjectReference{{Name: "s1"}, {Name: "s2"}}, pod.Spec.ImagePullSecrets); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if *pod.Spec.AutomountServiceAccountToken || pod.Spec.Containers[0].VolumeMounts[0].Name != pod.Spec.Volumes[0].Name || !metav1.IsControlledBy(pod, &metav1.ObjectMeta{UID: "u1"}) {
		t.Errorf("%+v", pod)
	}
}

func TestSupport(t *testing.T) {
	for name, c := range map[string]struct {
		kubelet, runtime string
		gateOn, want     bool
	}{
		"1.36": {"v1.36.3", "containerd://2.1.0", false, true}, "1.35 of a vendor": {"v1.35.1-gke.100", "cri-o://1.31.0", false, true},
		"1.34": {"v1.34.9", "containerd://2.1.0", false, false}, "1.34 with the gate": {"v1.34.9", "containerd://2.1.0", true, true},
		"1.30 with the gate": {"v1.30.0", "containerd://2.1.0", true, false}, "containerd 2.0": {"v1.36.0", "containerd://2.0.9", false, false},
		"CRI-O 1.30": {"v1.36.0", "cri-o://1.30.4", false, false}, "no version": {"", "containerd://2.1.0", false, false},
		"unknown runtime": {"v1.36.0", "sim://1", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			err := kubeletpull.Support(nodeOf(c.kubelet, c.runtime), c.gateOn)
			if (err == nil) != c.want || err != nil && !errors.Is(err, kubeletpull.ImageVolumesMissing) {
				t.Error(err)
			}
		})
	}
	t.Run("no Pod, and an answer", func(t *testing.T) {
		r := newRun(t, imagepull.Policy{Keep: true, Retries: 3})
		r.node = nodeOf("v1.33.0", "containerd://2.1.0")
		for range 3 {
			if step := r.step(); len(step.Create) != 0 || step.Reports[0].Phase != imagepull.Failed {
				t.Errorf("%+v", step)
			}
		}
	})
}

func TestNew(t *testing.T) {
	for name, edit := range map[string]func(*kubeletpull.Options){
		"no namespace": func(o *kubeletpull.Options) { o.Namespace = "" }, "no prefix": func(o *kubeletpull.Options) { o.Prefix = "" },
		"no owner": func(o *kubeletpull.Options) { o.Owner.UID = "" }, "a floor": func(o *kubeletpull.Options) { o.Bounds.Floor = 1 },
		"no pause image": func(o *kubeletpull.Options) { o.PauseImage = "" },
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			edit(&o)
			if _, err := kubeletpull.New(o); !errors.Is(err, kubeletpull.InvalidOptions) {
				t.Error(err)
			}
		})
	}
}

package controlplane_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

const (
	within = 30 * time.Second
	gate   = "example.org/Gate"
)

// fixture is a namespace with helpers for Pods.
type fixture struct {
	t         *testing.T
	client    kubernetes.Interface
	namespace string
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	client, err := kubernetes.NewForConfig(env.Start(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	return fixture{t: t, client: client, namespace: env.Namespace(t)}
}

// newPod returns a Pod with an ordinary init container, a native sidecar and two containers; the second container can
// be resized without a restart.
func newPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(0)),
			InitContainers: []corev1.Container{
				{Name: "prepare", Image: "prepare:1"},
				{Name: "mesh", Image: "mesh:1", RestartPolicy: &always},
			},
			Containers: []corev1.Container{
				{Name: "app", Image: "app:1", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
				}},
				{Name: "log", Image: "log:1"},
			},
		},
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value) }
}

func gated(pod *corev1.Pod) {
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
}

func (f fixture) create(pod *corev1.Pod) {
	f.t.Helper()
	if _, err := f.client.CoreV1().Pods(f.namespace).Create(f.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

func (f fixture) get(name string) *corev1.Pod {
	f.t.Helper()
	pod, err := f.client.CoreV1().Pods(f.namespace).Get(f.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return pod
}

func (f fixture) patch(name, body string, subresource ...string) *corev1.Pod {
	f.t.Helper()
	pod, err := f.client.CoreV1().Pods(f.namespace).Patch(f.t.Context(), name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, subresource...)
	if err != nil {
		f.t.Fatalf("patch pod %s with %s: %v", name, body, err)
	}
	return pod
}

// setGate writes the gate's condition, like a controller that leaves Ready to the kubelet.
func (f fixture) setGate(name, status string) {
	f.t.Helper()
	f.patch(name, fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":%q,"reason":"Test"}]}}`, gate, status), "status")
}

// expect polls until the summary of the Pod's status equals want.
func (f fixture) expect(name string, want status) {
	f.t.Helper()
	controlplanetest.Eventually(f.t, within, func(ctx context.Context) error {
		pod, err := f.client.CoreV1().Pods(f.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, short(pod)); diff != "" {
			return fmt.Errorf("status of pod %s (-want +got):\n%s", name, diff)
		}
		return nil
	})
}

// status is the compared summary of a Pod's status.
type status struct {
	Phase      corev1.PodPhase
	Observed   bool
	Containers []string
	Conditions []string
}

func short(pod *corev1.Pod) status {
	s := status{Phase: pod.Status.Phase, Observed: pod.Status.ObservedGeneration == pod.Generation}
	for _, c := range append(append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...) {
		s.Containers = append(s.Containers, shortContainer(&c))
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled || c.Type == corev1.PodReadyToStartContainers {
			continue
		}
		s.Conditions = append(s.Conditions, strings.TrimRight(fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message), " "))
	}
	return s
}

func shortContainer(c *corev1.ContainerStatus) string {
	state := "unknown"
	switch {
	case c.State.Running != nil:
		state = "running"
	case c.State.Waiting != nil:
		state = "waiting:" + c.State.Waiting.Reason
	case c.State.Terminated != nil:
		state = fmt.Sprintf("terminated:%s:%d", c.State.Terminated.Reason, c.State.Terminated.ExitCode)
	}
	text := fmt.Sprintf("%s %s %s restarts=%d", c.Name, c.Image, state, c.RestartCount)
	if c.Ready {
		text += " ready"
	}
	if c.LastTerminationState.Terminated != nil {
		text += " last=" + c.LastTerminationState.Terminated.Reason
	}
	return text
}

// running returns the status of newPod's Pod when all containers run and are ready, with the given changes.
func running(change ...func(*status)) status {
	s := status{
		Phase: corev1.PodRunning, Observed: true,
		Containers: []string{
			"prepare prepare:1 terminated:Completed:0 restarts=0 ready",
			"mesh mesh:1 running restarts=0 ready",
			"app app:1 running restarts=0 ready",
			"log log:1 running restarts=0 ready",
		},
		Conditions: []string{"Initialized=True", "ContainersReady=True", "Ready=True"},
	}
	for _, f := range change {
		f(&s)
	}
	return s
}

func container(i int, text string) func(*status) {
	return func(s *status) { s.Containers[i] = text }
}

func conditions(texts ...string) func(*status) {
	return func(s *status) { s.Conditions = texts }
}

func TestPodRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(newPod("p"))
	f.expect("p", running())
	pod := f.get("p")
	if pod.Status.PodIP == "" || pod.Status.HostIP == "" || pod.Status.StartTime == nil || len(pod.Status.PodIPs) == 0 {
		t.Errorf("status lacks an address or the start time: %+v", pod.Status)
	}
	if pod.Status.QOSClass != corev1.PodQOSBurstable {
		t.Errorf("QOS class %q, want Burstable", pod.Status.QOSClass)
	}
	node, err := f.client.CoreV1().Nodes().Get(t.Context(), pod.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, label := range []string{corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelArchStable, corev1.LabelOSStable} {
		if node.Labels[label] == "" {
			t.Errorf("node %s has no label %s", node.Name, label)
		}
	}
}

func TestPodChanges(t *testing.T) {
	t.Parallel()
	unready := func(names string) func(*status) {
		text := "=False ContainersNotReady containers with unready status: [" + names + "]"
		return conditions("Initialized=True", "ContainersReady"+text, "Ready"+text)
	}
	over := func(phase corev1.PodPhase, reason, state string) func(*status) {
		return func(s *status) {
			s.Phase = phase
			s.Containers = []string{
				"prepare prepare:1 terminated:Completed:0 restarts=0 ready",
				"mesh mesh:1 " + state + " restarts=0", "app app:1 " + state + " restarts=0", "log log:1 " + state + " restarts=0",
			}
			s.Conditions = []string{"Initialized=True", "ContainersReady=False " + reason, "Ready=False " + reason}
		}
	}
	tests := []struct {
		name        string
		patch       string
		subresource []string
		want        status
	}{
		{
			name:  "image of one container",
			patch: `{"spec":{"containers":[{"name":"app","image":"app:2"}]}}`,
			want:  running(container(2, "app app:2 running restarts=1 ready last=Completed")),
		},
		{
			name:  "images of two containers",
			patch: `{"spec":{"containers":[{"name":"app","image":"app:2"},{"name":"log","image":"log:2"}]}}`,
			want: running(container(2, "app app:2 running restarts=1 ready last=Completed"),
				container(3, "log log:2 running restarts=1 ready last=Completed")),
		},
		{
			name:  "image of a native sidecar",
			patch: `{"spec":{"initContainers":[{"name":"mesh","image":"mesh:2"}]}}`,
			want:  running(container(1, "mesh mesh:2 running restarts=1 ready last=Completed")),
		},
		{
			name:  "image of a plain init container is not looked at",
			patch: `{"spec":{"initContainers":[{"name":"prepare","image":"prepare:2"}]}}`,
			want:  running(),
		},
		{
			name:  "an annotation restarts nothing",
			patch: `{"metadata":{"annotations":{"example.org/setting":"2"}}}`,
			want:  running(),
		},
		{
			name:        "resources",
			patch:       `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"200m"}}}]}}`,
			subresource: []string{"resize"},
			want:        running(),
		},
		{
			name:  "a container is not ready",
			patch: `{"metadata":{"annotations":{"` + controlplane.Unready + `":"app"}}}`,
			want:  running(container(2, "app app:1 running restarts=0"), unready("app")),
		},
		{
			name:  "no container is ready",
			patch: `{"metadata":{"annotations":{"` + controlplane.Unready + `":"*"}}}`,
			want: running(container(1, "mesh mesh:1 running restarts=0"), container(2, "app app:1 running restarts=0"),
				container(3, "log log:1 running restarts=0"), unready("mesh app log")),
		},
		{
			name:  "a container crashes",
			patch: `{"metadata":{"annotations":{"` + controlplane.Crash + `":"log"}}}`,
			want:  running(container(3, "log log:1 waiting:CrashLoopBackOff restarts=0 last=Error"), unready("log")),
		},
		{
			name:  "the Pod fails",
			patch: `{"metadata":{"annotations":{"` + controlplane.Fail + `":"Evicted"}}}`,
			want:  running(over(corev1.PodFailed, "PodFailed", "terminated:Error:1")),
		},
		{
			name:  "the Pod completes",
			patch: `{"metadata":{"annotations":{"` + controlplane.Complete + `":""}}}`,
			want:  running(over(corev1.PodSucceeded, "PodCompleted", "terminated:Completed:0")),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.create(newPod("p"))
			f.expect("p", running())
			before := f.get("p")
			f.patch("p", tt.patch, tt.subresource...)
			f.expect("p", tt.want)
			compareIDs(t, before, f.get("p"))
		})
	}
}

// compareIDs checks that exactly the containers with a changed image have new IDs.
func compareIDs(t *testing.T, before, after *corev1.Pod) {
	t.Helper()
	for i := range before.Status.ContainerStatuses {
		b, a := before.Status.ContainerStatuses[i], after.Status.ContainerStatuses[i]
		if (b.Image == a.Image) != (b.ImageID == a.ImageID) {
			t.Errorf("container %s: image %s -> %s, imageID %s -> %s", a.Name, b.Image, a.Image, b.ImageID, a.ImageID)
		}
		if (b.RestartCount == a.RestartCount) != (b.ContainerID == a.ContainerID) {
			t.Errorf("container %s: %d -> %d restarts, containerID %s -> %s", a.Name, b.RestartCount, a.RestartCount, b.ContainerID, a.ContainerID)
		}
	}
	if before.Status.PodIP != after.Status.PodIP {
		t.Errorf("pod IP %s -> %s", before.Status.PodIP, after.Status.PodIP)
	}
}

func TestResize(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(newPod("p"))
	f.expect("p", running())
	// A kubelet without free resources leaves the condition PodResizePending until resources are free.
	f.patch("p", `{"status":{"conditions":[{"type":"PodResizePending","status":"True","reason":"Deferred"}]}}`, "status")
	f.patch("p", `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"200m"}}}]}}`, "resize")
	f.expect("p", running())
	app := f.get("p").Status.ContainerStatuses[0]
	want := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")}
	if diff := cmp.Diff(want, app.AllocatedResources); diff != "" {
		t.Errorf("allocatedResources (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&corev1.ResourceRequirements{Requests: want}, app.Resources); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

func TestResizeThatRestarts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(newPod("p", func(pod *corev1.Pod) {
		pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
	}))
	f.expect("p", running())
	f.patch("p", `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"200m"}}}]}}`, "resize")
	f.expect("p", running(container(2, "app app:1 running restarts=1 ready last=Completed")))
}

func TestReadinessGate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(newPod("p", gated))
	with := func(ready string, gate ...string) status {
		return running(conditions(append(gate, "Initialized=True", "ContainersReady=True", "Ready="+ready)...))
	}
	const prefix = `False ReadinessGatesNotReady `
	f.expect("p", with(prefix+`corresponding condition of pod readiness gate "example.org/Gate" does not exist.`))
	f.setGate("p", "False")
	f.expect("p", with(prefix+`the status of pod readiness gate "example.org/Gate" is not "True", but False`, gate+"=False Test"))
	f.setGate("p", "True")
	f.expect("p", with("True", gate+"=True Test"))
	// The kubelet's writes for other changes keep the gate's condition.
	f.patch("p", `{"spec":{"containers":[{"name":"app","image":"app:2"}]}}`)
	want := with("True", gate+"=True Test")
	want.Containers[2] = "app app:2 running restarts=1 ready last=Completed"
	f.expect("p", want)
}

// TestReadyIsNotWrittenAgain: if a controller writes the gate's condition together with the right Ready condition,
// the kubelet does not write.
func TestReadyIsNotWrittenAgain(t *testing.T) {
	t.Parallel()
	const prefix = "Ready=False ReadinessGatesNotReady "
	closed := fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but False", gate)
	f := newFixture(t)
	f.create(newPod("p", gated))
	f.expect("p", running(conditions("Initialized=True", "ContainersReady=True",
		prefix+fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate))))
	for i, ready := range []string{
		`"status":"True","reason":null,"message":null`,
		fmt.Sprintf(`"status":"False","reason":"ReadinessGatesNotReady","message":%q`, closed),
	} {
		status := []string{"True", "False"}[i]
		written := f.patch("p", fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":%q},{"type":"Ready",%s}]}}`, gate, status, ready), "status")
		// kwok handles events in order. So once the next Pod runs, kwok has handled the event of the write.
		next := fmt.Sprintf("next-%d", i)
		f.create(newPod(next))
		f.expect(next, running())
		if got := f.get("p").ResourceVersion; got != written.ResourceVersion {
			t.Errorf("gate %s: the Pod was written again: resource version %s, want %s", status, got, written.ResourceVersion)
		}
	}
	// If the Ready condition is wrong, the kubelet corrects the condition.
	f.patch("p", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, "status")
	f.expect("p", running(conditions(gate+"=False", "Initialized=True", "ContainersReady=True", prefix+closed)))
}

func TestStartDelay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const delay = 1500 * time.Millisecond
	begin := time.Now()
	f.create(newPod("p", annotated(controlplane.StartDelay, delay.String())))
	const creating = "waiting:ContainerCreating restarts=0"
	const text = "=False ContainersNotReady containers with unready status: [mesh app log]"
	f.expect("p", running(func(s *status) { s.Phase = corev1.PodPending },
		container(1, "mesh mesh:1 "+creating), container(2, "app app:1 "+creating), container(3, "log log:1 "+creating),
		conditions("Initialized=False ContainersNotInitialized containers with incomplete status: [mesh]", "ContainersReady"+text, "Ready"+text)))
	f.expect("p", running())
	if took := time.Since(begin); took < delay {
		t.Errorf("ready after %s, want no less than %s", took, delay)
	}
	begin = time.Now()
	f.patch("p", `{"spec":{"containers":[{"name":"app","image":"app:2"}]}}`)
	const unready = "=False ContainersNotReady containers with unready status: [app]"
	f.expect("p", running(container(2, "app app:1 terminated:Completed:0 restarts=0"),
		conditions("Initialized=True", "ContainersReady"+unready, "Ready"+unready)))
	// Further changes of the Pod during the wait neither shorten nor prolong the wait.
	f.patch("p", `{"metadata":{"annotations":{"example.org/setting":"2"}}}`)
	f.expect("p", running(container(2, "app app:2 running restarts=1 ready last=Completed")))
	if took := time.Since(begin); took < delay {
		t.Errorf("ready again after %s, want no less than %s", took, delay)
	}
}

// TestReportedImages: Nodes report images as containerd does. The reported image need not be the requested image. If
// images share a digest, the image ID does not identify the requested image either.
func TestReportedImages(t *testing.T) {
	t.Parallel()
	const digest = "sha256:aaaa"
	const alias, broken = controlplane.ImageAlias, controlplane.BrokenImage
	use := func(image string) string {
		return fmt.Sprintf(`{"spec":{"containers":[{"name":"app","image":%q}]}}`, image)
	}
	waits := conditions("Initialized=True", "ContainersReady=False ContainersNotReady containers with unready status: [app]",
		"Ready=False ContainersNotReady containers with unready status: [app]")
	config := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(digest)))
	pending := func(s *status) { s.Phase = corev1.PodPending }
	for _, tt := range []struct {
		name     string
		pod      func(*corev1.Pod)
		start    status
		patch    string
		want     status
		id       string // part of the final image ID
		sameID   bool
		notAgain bool // the container is the first container
	}{
		{
			name: "by digest", start: running(), patch: use("x.test/app:2@" + digest), id: "x.test/app@" + digest,
			want: running(container(2, "app "+config+" running restarts=1 ready last=Completed")),
		},
		{
			name: "another tag of the same digest", pod: annotated(alias, "app:1=app:0, app:2=app:0"),
			start: running(container(2, "app app:0 running restarts=0 ready")), patch: use("app:2"), sameID: true,
			want: running(container(2, "app app:0 running restarts=1 ready last=Completed")),
		},
		{
			name: "to the tag that was reported before", pod: annotated(alias, "app:1=app:0"),
			start: running(container(2, "app app:0 running restarts=0 ready")), patch: use("app:0"), sameID: true,
			want: running(container(2, "app app:0 running restarts=1 ready last=Completed")),
		},
		{
			name: "nothing changes under an alias", pod: annotated(alias, "app:1=app:0"), sameID: true, notAgain: true,
			start: running(container(2, "app app:0 running restarts=0 ready")), patch: `{"metadata":{"annotations":{"example.org/setting":"2"}}}`,
			want: running(container(2, "app app:0 running restarts=0 ready")),
		},
		{
			name: "cannot be pulled", pod: annotated(broken, "app:2"), start: running(), patch: use("app:2"), sameID: true, notAgain: true,
			want: running(container(2, "app app:1 waiting:ImagePullBackOff restarts=0 last=Completed"), waits),
		},
		{
			name: "cannot be pulled from the start", pod: annotated(broken, "app:1"), patch: use("app:2"),
			start: running(pending, container(2, "app app:1 waiting:ImagePullBackOff restarts=0"), waits),
			want:  running(container(2, "app app:2 running restarts=0 ready")),
		},
		{
			name: "never seen broken", pod: annotated(broken, "app:9"), start: running(), patch: use("app:2"),
			want: running(container(2, "app app:2 running restarts=1 ready last=Completed")),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.create(newPod("p", func(pod *corev1.Pod) {
				if tt.pod != nil {
					tt.pod(pod)
				}
			}))
			f.expect("p", tt.start)
			before := f.get("p").Status.ContainerStatuses[0]
			f.patch("p", tt.patch)
			f.create(newPod("next")) // kwok handles events in order, so when the next Pod runs, kwok has handled the patch
			f.expect("next", running())
			f.expect("p", tt.want)
			after := f.get("p").Status.ContainerStatuses[0]
			if same := before.ImageID == after.ImageID; same != tt.sameID || !strings.Contains(after.ImageID, tt.id) {
				t.Errorf("imageID %s -> %s", before.ImageID, after.ImageID)
			}
			if same := before.ContainerID == after.ContainerID; same != tt.notAgain {
				t.Errorf("containerID %s -> %s", before.ContainerID, after.ContainerID)
			}
		})
	}
}

// TestBackFromBrokenImage: the change to a broken image ends the running container. If the spec then names the former
// image again, a new container instance starts.
func TestBackFromBrokenImage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(newPod("p", annotated(controlplane.BrokenImage, "app:2")))
	f.expect("p", running())
	before := f.get("p").Status.ContainerStatuses[0]
	f.patch("p", `{"spec":{"containers":[{"name":"app","image":"app:2"}]}}`)
	f.expect("p", running(container(2, "app app:1 waiting:ImagePullBackOff restarts=0 last=Completed"),
		conditions("Initialized=True", "ContainersReady=False ContainersNotReady containers with unready status: [app]",
			"Ready=False ContainersNotReady containers with unready status: [app]")))
	f.patch("p", `{"spec":{"containers":[{"name":"app","image":"app:1"}]}}`)
	f.expect("p", running(container(2, "app app:1 running restarts=1 ready last=Completed")))
	if after := f.get("p").Status.ContainerStatuses[0]; before.ContainerID == after.ContainerID {
		t.Errorf("containerID %s is the same", after.ContainerID)
	}
}

func TestSteeringIsLifted(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		controlplane.Unready: "app app:1 running restarts=0 ready",
		controlplane.Crash:   "app app:1 running restarts=1 ready last=Error",
	} {
		t.Run(strings.TrimPrefix(key, "sim.workloadkit.io/"), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.create(newPod("p", annotated(key, "app")))
			controlplanetest.Eventually(t, within, func(context.Context) error {
				if s := short(f.get("p")); len(s.Containers) < 4 || strings.HasSuffix(s.Containers[2], " ready") {
					return fmt.Errorf("containers %v: app must run and not be ready", s.Containers)
				}
				return nil
			})
			// A container must have run before it can be in CrashLoopBackOff.
			f.patch("p", `{"metadata":{"annotations":{"example.org/setting":"1"}}}`)
			if key == controlplane.Crash {
				controlplanetest.Eventually(t, within, func(context.Context) error {
					if s := short(f.get("p")); !strings.Contains(s.Containers[2], "CrashLoopBackOff") {
						return errors.New(s.Containers[2])
					}
					return nil
				})
			}
			f.patch("p", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, key))
			f.expect("p", running(container(2, want)))
		})
	}
}

func TestDeletion(t *testing.T) {
	t.Parallel()
	grace := func(seconds int64) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = &seconds }
	}
	tests := []struct {
		name     string
		pod      *corev1.Pod
		min, max time.Duration
	}{
		{name: "grace of nothing", pod: newPod("p"), max: 2 * time.Second},
		{name: "grace of two seconds", pod: newPod("p", grace(2)), min: 1900 * time.Millisecond, max: 10 * time.Second},
		{name: "stops earlier", pod: newPod("p", grace(600), annotated(controlplane.StopDelay, "100")), min: 100 * time.Millisecond, max: 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.create(tt.pod)
			f.expect("p", running())
			begin := time.Now()
			if err := f.client.CoreV1().Pods(f.namespace).Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			f.expectGone("p")
			if took := time.Since(begin); took < tt.min || took > tt.max {
				t.Errorf("gone after %s, want between %s and %s", took, tt.min, tt.max)
			}
		})
	}
}

func (f fixture) expectGone(name string) {
	f.t.Helper()
	controlplanetest.Eventually(f.t, within, func(ctx context.Context) error {
		_, err := f.client.CoreV1().Pods(f.namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("pod %s is still there: %w", name, err)
	})
}

func TestFinalizerHoldsPod(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(newPod("p", func(pod *corev1.Pod) {
		pod.Finalizers = []string{"example.org/hold"}
		pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
	}))
	f.expect("p", running())
	if err := f.client.CoreV1().Pods(f.namespace).Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	controlplanetest.Eventually(t, within, func(context.Context) error {
		if phase := f.get("p").Status.Phase; phase != corev1.PodSucceeded {
			return fmt.Errorf("phase %s, want Succeeded: the containers have stopped", phase)
		}
		return nil
	})
	f.patch("p", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.org/hold"]}}`)
	f.expectGone("p")
}

func TestAuditLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(newPod("audited"))
	f.expect("audited", running())
	type event struct {
		Level, Stage, Verb string
		UserAgent          string
		ObjectRef          struct{ Resource, Subresource, Namespace, Name string }
		ResponseStatus     struct{ Code int }
	}
	file, err := os.Open(env.Start(t).AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var got []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			// The last line may be incomplete.
			break
		}
		if e.ObjectRef.Namespace != f.namespace || e.ObjectRef.Resource != "pods" || e.Verb == "get" || e.ResponseStatus.Code == 409 {
			continue
		}
		agent, _, _ := strings.Cut(e.UserAgent, "/")
		if strings.HasSuffix(agent, ".test") {
			agent = "test"
		}
		got = append(got, fmt.Sprintf("%s %s %s %s/%s %d", agent, e.Level, e.Stage, e.Verb, e.ObjectRef.Subresource, e.ResponseStatus.Code))
	}
	// The API server writes the line of a request slightly after the response, so the scheduler may have bound the
	// Pod before.
	slices.Sort(got)
	want := []string{
		"kube-scheduler Metadata ResponseComplete create/binding 201",
		"kwok Metadata ResponseComplete patch/status 200",
		"test Metadata ResponseComplete create/ 201",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("audit log (-want +got):\n%s", diff)
	}
}

// TestStopped: an instance named in the annotation Stopped is replaced after the usual delay, and the annotation then
// has no effect. A Pod with restartPolicy Never ends with its last container.
func TestStopped(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(newPod("p"))
	f.expect("p", running())
	first := f.get("p").Status.ContainerStatuses[0]
	f.patch("p", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, controlplane.Stopped, fmt.Sprintf(`{"app":%q,"log":"sim://other"}`, first.ContainerID)))
	f.expect("p", running(container(2, "app app:1 running restarts=1 ready last=Completed")))
	second := f.get("p").Status.ContainerStatuses[0]
	if second.ContainerID == first.ContainerID || second.LastTerminationState.Terminated.ContainerID != first.ContainerID {
		t.Errorf("IDs %s, then %s with the last %s", first.ContainerID, second.ContainerID, second.LastTerminationState.Terminated.ContainerID)
	}

	f.patch("p", fmt.Sprintf(`{"metadata":{"annotations":{%q:"1h",%q:%q}}}`, controlplane.StartDelay, controlplane.Stopped, fmt.Sprintf(`{"app":%q}`, second.ContainerID)))
	f.expect("p", running(
		container(2, "app app:1 terminated:Completed:0 restarts=1 last=Completed"),
		conditions("Initialized=True", "ContainersReady=False ContainersNotReady containers with unready status: [app]", "Ready=False ContainersNotReady containers with unready status: [app]"),
	))

	f.create(newPod("odd", annotated(controlplane.Stopped, `["app"]`)))
	f.expect("odd", running())

	f.create(newPod("once", func(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyNever }))
	f.expect("once", running())
	app, log := f.get("once").Status.ContainerStatuses[0].ContainerID, f.get("once").Status.ContainerStatuses[1].ContainerID
	f.patch("once", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, controlplane.Stopped, fmt.Sprintf(`{"app":%q}`, app)))
	f.expect("once", running(
		container(2, "app app:1 terminated:Error:143 restarts=0"),
		conditions("Initialized=True", "ContainersReady=False ContainersNotReady containers with unready status: [app]", "Ready=False ContainersNotReady containers with unready status: [app]"),
	))
	f.patch("once", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, controlplane.Stopped, fmt.Sprintf(`{"app":%q,"log":%q}`, app, log)))
	controlplanetest.Eventually(t, within, func(context.Context) error {
		if status := f.get("once").Status; status.Phase != corev1.PodFailed {
			return fmt.Errorf("all containers have ended, and the status is %+v", status)
		}
		return nil
	})
}

// TestEphemeralPrograms: an ephemeral container ends when its program ends, with the program's exit code.
func TestEphemeralPrograms(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(newPod("p"))
	f.expect("p", running())
	programs := []struct {
		argv []string
		want string
	}{
		{nil, "running"},
		{[]string{"true"}, "terminated:Completed:0"},
		{[]string{"/bin/false"}, "terminated:Error:1"},
		{[]string{"exit", "3"}, "terminated:Error:3"},
		{[]string{"sleep", "1"}, "terminated:Completed:0"},
		{[]string{"sleep", "3600"}, "running"},
		{[]string{"sleep", "infinity"}, "running"},
		{[]string{"sh", "-c", "sleep 1; exit 4; true"}, "terminated:Error:4"},
		{[]string{"sh", "-c", "false && exit 5"}, "terminated:Error:1"},
		{[]string{"sh", "-c", "false; true"}, "terminated:Completed:0"},
		{[]string{"sh", "-c", "curl x"}, "terminated:Error:127"},
		{[]string{"curl", "x"}, "terminated:StartError:128"},
	}
	pod := f.get("p")
	var want []string
	for i, p := range programs {
		name := fmt.Sprintf("e%02d", i)
		want = append(want, name+" tool:1 "+p.want+" restarts=0")
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: name, Image: "tool:1", Command: p.argv, TerminationMessagePolicy: corev1.TerminationMessageReadFile, ImagePullPolicy: corev1.PullIfNotPresent,
		}})
	}
	if _, err := f.client.CoreV1().Pods(f.namespace).UpdateEphemeralContainers(t.Context(), "p", pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expectEphemeral := func(want []string) {
		t.Helper()
		controlplanetest.Eventually(t, within, func(ctx context.Context) error {
			pod, err := f.client.CoreV1().Pods(f.namespace).Get(ctx, "p", metav1.GetOptions{})
			if err != nil {
				return err
			}
			var got []string
			for i := range pod.Status.EphemeralContainerStatuses {
				got = append(got, shortContainer(&pod.Status.EphemeralContainerStatuses[i]))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				return fmt.Errorf("ephemeral containers (-want +got):\n%s", diff)
			}
			return nil
		})
	}
	expectEphemeral(want)

	// Stopped ephemeral containers end, and do not start again.
	id := f.get("p").Status.EphemeralContainerStatuses[5].ContainerID
	f.patch("p", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, controlplane.Stopped, fmt.Sprintf(`{"e05":%q}`, id)))
	want[5] = "e05 tool:1 terminated:Error:143 restarts=0"
	expectEphemeral(want)
	f.expect("p", running())
}

package podview_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/testing/fakecri"
	"github.com/workloadkit/workloadkit/testing/fakecri/containerconfig"
	"github.com/workloadkit/workloadkit/testing/fakecri/podview"
)

const within = 30 * time.Second

// fixture is a running Pod, with a client of the CRI server for its Node.
type fixture struct {
	t       *testing.T
	client  kubernetes.Interface
	pod     *corev1.Pod
	runtime runtimeapi.RuntimeServiceClient
}

func newFixture(t *testing.T, change func(*corev1.Pod)) *fixture {
	t.Helper()
	client, err := kubernetes.NewForConfig(env.Start(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	namespace := env.Namespace(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: namespace, Annotations: map[string]string{"color": "blue"}},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{
			{Name: "app", Image: "app:1", Env: []corev1.EnvVar{{Name: "COLOR", ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['color']"},
			}}}},
			{Name: "log", Image: "log:1"},
		}},
	}
	change(pod)
	if pod, err = client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, client: client, pod: pod}
	f.await(func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })

	f.look()
	return f
}

// look creates a new View and a new CRI server.
func (f *fixture) look() {
	t := f.t
	t.Helper()
	view, err := podview.Start(t.Context(), f.client)
	if err != nil {
		t.Fatal(err)
	}
	server, err := fakecri.Start(fakecri.Options{Machine: view.Node(f.pod.Spec.NodeName), Name: podview.Runtime})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	conn, err := server.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	f.runtime = runtimeapi.NewRuntimeServiceClient(conn)
}

// await waits for a state of the Pod.
func (f *fixture) await(is func(*corev1.Pod) bool) {
	f.t.Helper()
	controlplanetest.Eventually(f.t, within, func(ctx context.Context) error {
		pod, err := f.client.CoreV1().Pods(f.pod.Namespace).Get(ctx, f.pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if f.pod = pod; !is(pod) {
			return fmt.Errorf("the status is %+v", pod.Status)
		}
		return nil
	})
}

// containers lists the Pod's containers: name, attempt and state.
func (f *fixture) containers(ctx context.Context) (lines []string, ids map[string]string, err error) {
	list, err := f.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		LabelSelector: map[string]string{containerconfig.PodUIDLabel: string(f.pod.UID)},
	}})
	ids = map[string]string{}
	for _, c := range list.GetContainers() {
		line := fmt.Sprint(c.GetMetadata().GetName(), " ", c.GetMetadata().GetAttempt(), " ", strings.TrimPrefix(c.GetState().String(), "CONTAINER_"))
		lines, ids[line] = append(lines, line), c.GetId()
	}
	slices.Sort(lines)
	return lines, ids, err
}

// expect waits for a list of containers, and returns the IDs.
func (f *fixture) expect(want ...string) map[string]string {
	f.t.Helper()
	var found map[string]string
	controlplanetest.Eventually(f.t, within, func(ctx context.Context) error {
		got, ids, err := f.containers(ctx)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			return fmt.Errorf("containers (-want +got):\n%s\nerror: %w", diff, err)
		}
		found = ids
		return nil
	})
	return found
}

func (f *fixture) env(id string) string {
	f.t.Helper()
	response, err := f.runtime.ExecSync(f.t.Context(), &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"env"}})
	if err != nil {
		f.t.Fatal(err)
	}
	return string(response.GetStdout())
}

func (f *fixture) stop(id string) error {
	ctx, cancel := context.WithTimeout(f.t.Context(), within)
	defer cancel()
	_, err := f.runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 30})
	return err
}

// TestStop: a stopped container has ended when the call returns, and the simulated kubelet starts the next instance,
// with the environment of the present Pod.
func TestStop(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(*corev1.Pod) {})
	ids := f.expect("app 0 RUNNING", "log 0 RUNNING")
	first := ids["app 0 RUNNING"]
	if want := "sim://" + first; f.pod.Status.ContainerStatuses[0].ContainerID != want {
		t.Errorf("the Pod has container %s, and the runtime %s", f.pod.Status.ContainerStatuses[0].ContainerID, want)
	}
	if got := f.env(first); got != "COLOR=blue\n" {
		t.Errorf("environment %q", got)
	}
	pods := f.client.CoreV1().Pods(f.pod.Namespace)
	if _, err := pods.Patch(t.Context(), "p", types.MergePatchType, []byte(`{"metadata":{"annotations":{"color":"red"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	f.await(func(p *corev1.Pod) bool { return p.Annotations["color"] == "red" })
	if got := f.env(first); got != "COLOR=blue\n" {
		t.Errorf("environment %q of an instance older than the annotation", got)
	}
	if err := f.stop(first); err != nil {
		t.Fatal(err)
	}
	status, err := f.runtime.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: first})
	if err != nil || status.GetStatus().GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
		t.Errorf("after the stop: %v, error %v; want the container to be over", status, err)
	}
	ids = f.expect("app 0 EXITED", "app 1 RUNNING", "log 0 RUNNING")
	if got := f.env(ids["app 1 RUNNING"]); got != "COLOR=red\n" {
		t.Errorf("environment %q of the next instance", got)
	}
	if err := f.stop(first); err != nil {
		t.Errorf("the stop of an ended container: %v", err)
	}
	f.look() // the new View starts after both instances
	f.expect("app 0 EXITED", "app 1 RUNNING", "log 0 RUNNING")
}

// TestCrashed: in CRI, a container in CrashLoopBackOff has ended.
func TestCrashed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(*corev1.Pod) {})
	if err := f.stop(f.expect("app 0 RUNNING", "log 0 RUNNING")["app 0 RUNNING"]); err != nil {
		t.Fatal(err)
	}
	f.expect("app 0 EXITED", "app 1 RUNNING", "log 0 RUNNING")
	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:"app"}}}`, controlplane.Crash)
	if _, err := f.client.CoreV1().Pods(f.pod.Namespace).Patch(t.Context(), "p", types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	ids := f.expect("app 1 EXITED", "log 0 RUNNING")
	if _, err := f.runtime.ExecSync(t.Context(), &runtimeapi.ExecSyncRequest{ContainerId: ids["app 1 EXITED"], Cmd: []string{"env"}}); err == nil {
		t.Error("a program ran in a crashed container")
	}
	f.look()
	f.expect("app 1 EXITED", "log 0 RUNNING")
}

// TestStopsSideBySide: two stops in the same Pod at the same time do not overwrite each other's entry in the
// annotation.
func TestStopsSideBySide(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(*corev1.Pod) {})
	ids := f.expect("app 0 RUNNING", "log 0 RUNNING")
	var both sync.WaitGroup
	for _, id := range ids {
		both.Go(func() {
			if err := f.stop(id); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	f.expect("app 0 EXITED", "app 1 RUNNING", "log 0 EXITED", "log 1 RUNNING")
}

// TestStopWhereNothingRestarts: a stopped container of a Pod with restartPolicy Never does not start again, and the
// Pod ends with its last container.
func TestStopWhereNothingRestarts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyNever })
	ids := f.expect("app 0 RUNNING", "log 0 RUNNING")
	if err := f.stop(ids["app 0 RUNNING"]); err != nil {
		t.Fatal(err)
	}
	ended := f.expect("app 0 EXITED", "log 0 RUNNING")
	status, err := f.runtime.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: ended["app 0 EXITED"]})
	if err != nil || status.GetStatus().GetExitCode() != 143 {
		t.Errorf("status %v, error %v; want code 143", status, err)
	}
	f.await(func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && !p.Status.ContainerStatuses[0].Ready
	})
	if err := f.stop(ids["log 0 RUNNING"]); err != nil {
		t.Fatal(err)
	}
	f.await(func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	f.expect("app 0 EXITED", "log 0 EXITED")
}

// TestEphemeral: CRI lists ephemeral containers, and their end.
func TestEphemeral(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(*corev1.Pod) {})
	f.pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug", Image: "tool:1", Command: []string{"sh", "-c", "exit 3"}, ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}}}
	if _, err := f.client.CoreV1().Pods(f.pod.Namespace).UpdateEphemeralContainers(t.Context(), "p", f.pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	ids := f.expect("app 0 RUNNING", "debug 0 EXITED", "log 0 RUNNING")
	status, err := f.runtime.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: ids["debug 0 EXITED"]})
	if err != nil || status.GetStatus().GetExitCode() != 3 || status.GetStatus().GetReason() != "Error" {
		t.Errorf("status %v, error %v; want code 3", status, err)
	}
}

// TestPodLeaves: containers and sandbox disappear with the Pod.
func TestPodLeaves(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(*corev1.Pod) {})
	f.expect("app 0 RUNNING", "log 0 RUNNING")
	selector := map[string]string{containerconfig.PodUIDLabel: string(f.pod.UID)}
	list := func(ctx context.Context) (int, error) {
		r, err := f.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: selector}})
		return len(r.GetItems()), err
	}
	if n, err := list(t.Context()); n != 1 || err != nil {
		t.Errorf("%d sandboxes, error %v; want one", n, err)
	}
	if err := f.client.CoreV1().Pods(f.pod.Namespace).Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.expect([]string(nil)...)
	if n, err := list(t.Context()); n != 0 || err != nil {
		t.Errorf("%d sandboxes, error %v; want none", n, err)
	}
}

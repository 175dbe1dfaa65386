package realnode_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/daemon"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// startAgent returns a fixture with a namespace of its own on the real Node. The manager, its webhooks and the node
// agent run.
func startAgent(t *testing.T) *fixture {
	t.Helper()
	f := startServed(t)
	f.runAgent()
	return f
}

// startServed does the same as startAgent, but starts no agent. The flags are passed to the manager.
func startServed(t *testing.T, flags ...string) *fixture {
	t.Helper()
	f := start(t)
	gates := apps.DefaultGates()
	gates[apps.GateSidecarTerminator], gates[apps.GateImagePullJob] = true, true
	rows, set := kinds.All(), pflag.NewFlagSet("test", pflag.ContinueOnError)
	kind.AddFlags(rows, set)
	if err := set.Parse(flags); err != nil {
		t.Fatal(err)
	}
	controllertest.Serve(t, f.cp, f, manager.Options{Kinds: rows, Gates: gates})
	return f
}

// runAgent runs the node agent until the test ends.
func (f *fixture) runAgent() {
	f.t.Helper()
	config := rest.AddUserAgent(rest.CopyConfig(f.cp.Config()), "kruise-daemon")
	d, err := daemon.New(config, daemon.Options{
		Node: f.node.Name(), Sockets: daemon.Sockets{File: f.node.Socket()}, Registry: prometheus.NewRegistry(),
		Images: daemon.Images{Bounds: imagepull.Bounds{Pulls: 2, Floor: 1, Registries: imagepull.Registries{"*"}}, Root: "/"},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
	})
}

// recreate creates a ContainerRecreateRequest for a Pod, and returns the states of the containers when the request is
// completed.
func (f *fixture) recreate(name, pod string, strategy v1beta1.ContainerRecreateRequestStrategy, containers ...string) []v1beta1.ContainerRecreateRequestContainerRecreateState {
	f.t.Helper()
	r := &v1beta1.ContainerRecreateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name},
		Spec:       v1beta1.ContainerRecreateRequestSpec{PodName: pod, Strategy: &strategy},
	}
	for _, c := range containers {
		r.Spec.Containers = append(r.Spec.Containers, v1beta1.ContainerRecreateRequestContainer{Name: c})
	}
	if err := f.Create(f.t.Context(), r); err != nil {
		f.t.Fatal(err)
	}
	controlplanetest.Eventually(f.t, 2*within, func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		if r.Status.Phase != v1beta1.ContainerRecreateRequestCompleted {
			return errors.Join(fmt.Errorf("status %+v", r.Status), f.troubles(ctx))
		}
		return nil
	})
	return r.Status.ContainerRecreateStates
}

func succeeded(names ...string) (states []v1beta1.ContainerRecreateRequestContainerRecreateState) {
	for _, name := range names {
		states = append(states, v1beta1.ContainerRecreateRequestContainerRecreateState{Name: name, Phase: v1beta1.ContainerRecreateRequestSucceeded, IsKilled: true})
	}
	return states
}

func (f *fixture) podNow(key client.ObjectKey) *corev1.Pod {
	f.t.Helper()
	pod := &corev1.Pod{}
	if err := f.Get(f.t.Context(), key, pod); err != nil {
		f.t.Fatal(err)
	}
	return pod
}

// TestAgentRestarts: with a real kubelet, the agent runs the preStop hooks of containers, kills a container that does
// not end within its grace period, and restarts the containers of a request with ordered recreation one after the
// other. Other containers do not restart.
func TestAgentRestarts(t *testing.T) {
	f := startAgent(t)
	app, log, slow, still := f.container("app", 8080), f.container("log", 8081), f.container("slow", 8082), f.container("still", 8083)
	app.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/app", "write", "/data/stopped", "app"}}}}
	log.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}}
	slow.Env = append(slow.Env, corev1.EnvVar{Name: "STOP_DELAY", Value: "1m"})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "web"},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false), DNSPolicy: corev1.DNSDefault,
			TerminationGracePeriodSeconds: ptr.To(int64(5)), Containers: []corev1.Container{app, log, slow, still},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
	if err := f.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(pod)
	controlplanetest.Eventually(t, 2*within, func(ctx context.Context) error {
		if err := f.Get(ctx, key, pod); err != nil || !podstate.IsReady(pod) {
			return errors.Join(errors.New("not ready"), err, f.troubles(ctx))
		}
		return nil
	})
	states := f.recreate("in-order", "web", v1beta1.ContainerRecreateRequestStrategy{OrderedRecreate: true, MinStartedSeconds: 1}, "app", "log")
	if diff := cmp.Diff(succeeded("app", "log"), states); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	pod = f.podNow(key)
	if diff := cmp.Diff(map[string]int32{"app": 1, "log": 1, "slow": 0, "still": 0}, restarts(pod)); diff != "" {
		t.Errorf("restarts (-want +got):\n%s", diff)
	}
	started := func(name string) time.Time { return podstate.ContainerStatus(pod, name).State.Running.StartedAt.Time }
	if !started("log").After(started("app")) {
		t.Errorf("log has started at %s, app at %s", started("log"), started("app"))
	}
	if got := f.ask(pod, 8083, "GET", "/file", map[string][]string{"path": {"/data/stopped"}}, ""); got != "app" {
		t.Errorf("the hook has written %q", got)
	}
	states = f.recreate("killed", "web", v1beta1.ContainerRecreateRequestStrategy{TerminationGracePeriodSeconds: ptr.To(int64(1))}, "slow")
	if diff := cmp.Diff(succeeded("slow"), states); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	pod = f.podNow(key)
	if last := podstate.ContainerStatus(pod, "slow").LastTerminationState.Terminated; last == nil || last.ExitCode != 137 {
		t.Errorf("slow has ended as %+v, want killed", last)
	}
	if diff := cmp.Diff(map[string]int32{"app": 1, "log": 1, "slow": 1, "still": 0}, restarts(pod)); diff != "" {
		t.Errorf("restarts (-want +got):\n%s", diff)
	}
}

// TestAgentRestartsBehindAService: if a ContainerRecreateRequest has an unready period, no client of the Service
// loses a request during the restart.
func TestAgentRestartsBehindAService(t *testing.T) {
	f := startAgent(t)
	web := f.cloneSet("web", v1beta1.InPlaceIfPossible, 0)
	pods := f.create(web, 2)
	stop := f.load(web, 2)
	for i := range pods {
		name := fmt.Sprintf("drained-%d", i)
		states := f.recreate(name, pods[i].Name, v1beta1.ContainerRecreateRequestStrategy{UnreadyGracePeriodSeconds: ptr.To(int64(3))}, "app")
		if diff := cmp.Diff(succeeded("app"), states); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		f.settled(web)
	}
	count := stop()
	t.Logf("%d requests, %d lost", count.sent, count.losses())
	if count.losses() > 0 {
		t.Errorf("lost: %v\n%v", count.lost, count.seen)
	}
}

// TestAgentSettles prints how long an in-place update takes on a Node with an agent. The agent sees the new container
// before the kubelet reports the container. So the readiness gate is already open when the kubelet computes the
// condition Ready. No version of the Pod is ready while its spec names the new image and its status still shows the
// old container.
func TestAgentSettles(t *testing.T) {
	f := startAgent(t)
	recorder := controllertest.Watch(t, f, f.namespace, nil)
	f.printTimes([]candidate{{"in place, with an agent", f.cloneSet("web", v1beta1.InPlaceIfPossible, 0)}})
	images, early := map[string]string{}, 0 // by instance
	for _, event := range recorder.Events() {
		pod, status := event.Pod, podstate.ContainerStatus(event.Pod, "app")
		if status == nil || status.ContainerID == "" {
			continue
		}
		image := pod.Spec.Containers[0].Image
		was, known := images[status.ContainerID]
		switch isBehind := known && was != image; {
		case !known:
			images[status.ContainerID] = image
		case isBehind && podstate.IsReady(pod):
			t.Errorf("Pod %s is ready with an instance of %s, and wants %s", pod.Name, was, image)
		case isBehind && podstate.IsTrue(pod, apps.ConditionInPlaceUpdateReady):
			early++
		}
	}
	t.Logf("versions of Pods with an open gate before the kubelet reported the container: %d", early)
}

// TestAgentDeliversEnv: after a change of an annotation, the agent restarts the container whose environment contains
// the value. The agent works although the image contains neither a shell nor the command env.
func TestAgentDeliversEnv(t *testing.T) {
	f := startAgent(t)
	web := f.cloneSet("web", v1beta1.InPlaceOnly, 0)
	pods := f.create(web, 1, func(template *corev1.PodTemplateSpec) {
		template.Annotations = map[string]string{"color": "blue"}
		template.Spec.Containers[0].Env = append(template.Spec.Containers[0].Env, corev1.EnvVar{Name: "COLOR", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['color']"},
		}})
	})
	began := time.Now()
	after := f.change(web, func(template *corev1.PodTemplateSpec) { template.Annotations["color"] = "green" })
	t.Logf("the update took %s", time.Since(began).Round(10*time.Millisecond))
	if len(after) != 1 || after[0].UID != pods[0].UID {
		t.Fatalf("%d Pods, or another Pod", len(after))
	}
	if diff := cmp.Diff(map[string]int32{"app": 1, "log": 0}, restarts(&after[0])); diff != "" {
		t.Errorf("restarts (-want +got):\n%s", diff)
	}
	if got := f.ask(&after[0], 8080, "GET", "/env", map[string][]string{"name": {"COLOR"}}, ""); got != "green" {
		t.Errorf("the environment says %q", got)
	}
}

// TestEphemeralJobs: with a real kubelet, an EphemeralJob reports programs that succeed, programs that fail, and
// programs that cannot start.
func TestEphemeralJobs(t *testing.T) {
	f := startAgent(t)
	web := f.cloneSet("web", v1beta1.InPlaceIfPossible, 0)
	f.create(web, 2)
	for _, tc := range []struct {
		name              string
		command           []string
		succeeded, failed int32
	}{
		{"well", []string{"/app", "exit", "0"}, 2, 0},
		{"badly", []string{"/app", "exit", "1"}, 0, 2},
		{"nowhere", []string{"/nowhere"}, 0, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			job := &v1alpha1.EphemeralJob{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: tc.name}}
			job.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
			job.Spec.Template.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "look-" + tc.name, Image: f.image("v1"), Command: tc.command,
				ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			}}}
			if err := f.Create(t.Context(), job); err != nil {
				t.Fatal(err)
			}
			controlplanetest.Eventually(t, 2*within, func(ctx context.Context) error {
				if err := f.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
					return err
				}
				if job.Status.Succeeded != tc.succeeded || job.Status.Failed != tc.failed || job.Status.CompletionTime == nil {
					return errors.Join(fmt.Errorf("status %+v", job.Status), f.troubles(ctx))
				}
				return nil
			})
		})
	}
	for _, pod := range f.pods(web) {
		if !podstate.IsReady(&pod) || slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.RestartCount > 0 }) {
			t.Errorf("Pod %s has suffered: %+v", pod.Name, pod.Status.ContainerStatuses)
		}
	}
}

// TestAgentOutlivesRuntime: containerd is killed, and a new containerd listens on a new socket at the same path. The
// agent connects to the new containerd, restarts the requested containers, and restarts no other container.
func TestAgentOutlivesRuntime(t *testing.T) {
	f := startAgent(t)
	web := f.cloneSet("web", v1beta1.InPlaceIfPossible, 0)
	pod := f.create(web, 1)[0]
	for i := range 3 {
		if err := f.node.KillRuntime(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		states := f.recreate(fmt.Sprint("after-", i), pod.Name, v1beta1.ContainerRecreateRequestStrategy{}, "app")
		t.Logf("the request took %s", time.Since(began).Round(10*time.Millisecond))
		if diff := cmp.Diff(succeeded("app"), states); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	f.settled(web)
	after := f.podNow(client.ObjectKeyFromObject(&pod))
	if diff := cmp.Diff(map[string]int32{"app": 3, "log": 0}, restarts(after)); diff != "" || after.UID != pod.UID {
		t.Errorf("restarts (-want +got):\n%s", diff)
	}
}

// TestSidecarsEndWithTheirJob: with a real kubelet, a sidecar that would run forever ends after the main container.
// The exit code of the sidecar determines the Pod's phase, too, unless the sidecar's environment says that the exit
// code is ignored.
func TestSidecarsEndWithTheirJob(t *testing.T) {
	f := startAgent(t)
	for _, tc := range []struct {
		name, ignore string
		exit         string
		want         corev1.PodPhase
	}{
		{"counts", "", "0", corev1.PodFailed},
		{"ignored", "true", "0", corev1.PodSucceeded},
		{"main-fails", "true", "1", corev1.PodFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			main, sidecar := f.container("main", 8080), f.container("sidecar", 8081)
			main.Command, main.ReadinessProbe = []string{"/app", "exit", tc.exit}, nil
			sidecar.Env = append(sidecar.Env, corev1.EnvVar{Name: apps.EnvTerminateSidecar, Value: "true"}, corev1.EnvVar{Name: "STOP_DELAY", Value: "1m"})
			if tc.ignore != "" {
				sidecar.Env = append(sidecar.Env, corev1.EnvVar{Name: apps.EnvIgnoreExitCode, Value: tc.ignore})
			}
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: tc.name},
				Spec: corev1.PodSpec{
					AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false), DNSPolicy: corev1.DNSDefault,
					RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: ptr.To(int64(2)),
					Containers: []corev1.Container{main, sidecar},
					Volumes:    []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
				},
			}
			if err := f.Create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			controlplanetest.Eventually(t, 2*within, func(ctx context.Context) error {
				if err := f.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
					return err
				}
				if status := podstate.ContainerStatus(pod, "sidecar"); status == nil || status.State.Terminated == nil || pod.Status.Phase != tc.want {
					return errors.Join(fmt.Errorf("phase %s, want %s, containers %+v", pod.Status.Phase, tc.want, pod.Status.ContainerStatuses), f.troubles(ctx))
				}
				return nil
			})
		})
	}
}

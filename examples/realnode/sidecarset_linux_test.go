package realnode_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/child"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestSidecarSet: the kubelet restarts a sidecar that the webhook has injected, and restarts no other container of
// the Pod.
func TestSidecarSet(t *testing.T) {
	f := startWithWebhooks(t)
	for _, tc := range []struct {
		name string
		run  func(f *fixture)
	}{
		{"SU-14 SU-15 cold", func(f *fixture) {
			f.coldUpgrade("cold", func(s *v1beta1.SidecarSetSpec) { s.Containers = []pub.SidecarContainer{{Container: f.mesh()}} })
		}},
		{"E-10 native", func(f *fixture) {
			f.coldUpgrade("native", func(s *v1beta1.SidecarSetSpec) {
				mesh := f.mesh()
				mesh.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
				s.InitContainers = []pub.SidecarContainer{{Container: mesh}}
			})
		}},
		{"HU-10 hot", (*fixture).hotUpgrade},
		{"HU-11 hot, from an image that is missing to a better one", func(f *fixture) {
			f.missingImage("better", "v2", twins{f.image("empty"), f.image("v2"), `{"mesh":"mesh-2"}`, map[string]int32{"app": 0, "mesh-1": 1, "mesh-2": 1}},
				"mesh-1", "mesh-1 mesh-2", "mesh-2")
		}},
		{"HU-12 hot, from an image that is missing back to the one that works", func(f *fixture) {
			f.missingImage("back", "v1", twins{f.image("v1"), f.image("empty"), `{"mesh":"mesh-1"}`, map[string]int32{"app": 0, "mesh-1": 0, "mesh-2": 1}},
				"mesh-1")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			own := *f
			own.t = t
			tc.run(&own)
		})
	}
}

// startWithWebhooks runs the controllers and their webhooks until the test ends.
func startWithWebhooks(t testing.TB) *fixture {
	t.Helper()
	f := start(t)
	// If the webhooks stayed registered, the API server would call the webhooks of the ended manager for the objects of
	// other tests.
	t.Cleanup(func() {
		for name, object := range map[string]client.Object{
			"kruise-mutating-webhook-configuration":   &admissionregistrationv1.MutatingWebhookConfiguration{},
			"kruise-validating-webhook-configuration": &admissionregistrationv1.ValidatingWebhookConfiguration{},
		} {
			object.SetName(name)
			if err := f.Delete(context.WithoutCancel(t.Context()), object); err != nil {
				t.Error(err)
			}
		}
	})
	if err := config.InstallWebhooks(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	port, err := child.FreePort(t.Context(), "localhost")
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Manager(t, f.cp, manager.Options{Webhooks: &manager.Webhooks{
		Namespace: f.namespace, SecretName: "certs", ServiceName: "webhooks", Host: "localhost", Port: port,
	}})
	return f
}

// mesh returns a sidecar that runs beside container app.
func (f *fixture) mesh() corev1.Container {
	f.t.Helper()
	c := f.container("mesh", 8081)
	c.VolumeMounts = nil
	return c
}

// coldUpgrade changes the image of a sidecar. The sidecar restarts, and container app is in service all the time.
func (f *fixture) coldUpgrade(name string, sidecars func(*v1beta1.SidecarSetSpec)) {
	f.t.Helper()
	recorder := controllertest.Watch(f.t, f, f.namespace, nil)
	set := f.sidecarSet(name, sidecars)
	before := f.injected(set, name, "mesh")
	f.logContainers("injected", before)
	begin := time.Now()
	f.upgrade(set, func(s *v1beta1.SidecarSetSpec) {
		for _, list := range [][]pub.SidecarContainer{s.Containers, s.InitContainers} {
			for i := range list {
				list[i].Image = f.image("v2")
			}
		}
	})
	after := f.read(before)
	f.logContainers(fmt.Sprintf("upgraded in %s", time.Since(begin)), after)
	if diff := cmp.Diff(identityOf(before), identityOf(after)); diff != "" || !podstate.IsReady(after) {
		f.t.Errorf("the Pod is ready: %t (-before +after):\n%s", podstate.IsReady(after), diff)
	}
	if diff := cmp.Diff(map[string]int32{"app": 0, "mesh": 1}, restarts(after)); diff != "" {
		f.t.Errorf("restarts (-want +got):\n%s", diff)
	}
	if was, is := instances(before), instances(after); was["mesh"] == is["mesh"] {
		f.t.Errorf("the sidecar is %s as before", is["mesh"])
	}
	if got := podstate.ContainerStatus(after, "mesh").Image; got != f.image("v2") {
		f.t.Errorf("the Node runs %s, want %s", got, f.image("v2"))
	}
	if got := f.ask(after, 8081, http.MethodGet, "/", nil, ""); got != "v2" {
		f.t.Errorf("the sidecar serves %q, want v2", got)
	}
	f.appStays(f.recorded(recorder, before, after))
}

// appStays checks that container app is the same container and ready in all versions of a Pod.
func (f *fixture) appStays(versions []*corev1.Pod) {
	f.t.Helper()
	want := instances(versions[0])["app"]
	for _, pod := range versions {
		app := podstate.ContainerStatus(pod, "app")
		if app == nil || app.ContainerID != want || app.RestartCount != 0 || !app.Ready {
			f.t.Errorf("container app at %s: %+v, want %s, ready and never restarted", pod.ResourceVersion, app, want)
		}
	}
}

// recorded waits until the watch has delivered the version to, and returns the versions of a Pod between from and to.
func (f *fixture) recorded(recorder *controllertest.Recorder, from, to *corev1.Pod) []*corev1.Pod {
	f.t.Helper()
	var out []*corev1.Pod
	controlplanetest.Eventually(f.t, within, func(context.Context) error {
		out = nil
		for _, event := range recorder.Events() {
			if event.Pod.UID != from.UID || (len(out) == 0 && event.Pod.ResourceVersion != from.ResourceVersion) {
				continue
			}
			out = append(out, event.Pod)
			if event.Pod.ResourceVersion == to.ResourceVersion {
				return nil
			}
		}
		return fmt.Errorf("%d versions of Pod %s, none of them %s", len(out), from.Name, to.ResourceVersion)
	})
	return out
}

// probeDelay is how many seconds a container of a hot sidecar runs before it is ready.
const probeDelay = 3

// hotSet creates a SidecarSet with a hot sidecar, which consists of two containers.
func (f *fixture) hotSet(name string) *v1beta1.SidecarSet {
	f.t.Helper()
	return f.sidecarSet(name, func(s *v1beta1.SidecarSetSpec) {
		mesh := f.mesh()
		// The two containers share the Pod's network. So each container listens on a free port, and container app
		// answers the probes of both containers some time after their start.
		mesh.Env = []corev1.EnvVar{{Name: "PORT", Value: "0"}}
		mesh.ReadinessProbe.HTTPGet.Port = intstr.FromInt32(8080)
		mesh.ReadinessProbe.InitialDelaySeconds = probeDelay
		s.Containers = []pub.SidecarContainer{{Container: mesh, UpgradeStrategy: pub.SidecarUpgradeStrategy{
			UpgradeType: pub.SidecarHotUpgrade, HotUpgradeEmptyImage: f.image("empty"),
		}}}
	})
}

// hotUpgrade upgrades a hot sidecar to another image and back. While one of its two containers restarts, the other
// container serves.
func (f *fixture) hotUpgrade() {
	f.t.Helper()
	recorder := controllertest.Watch(f.t, f, f.namespace, nil)
	empty := f.image("empty")
	set := f.hotSet("hot")
	before := f.injected(set, "hot", "mesh-1")
	f.logContainers("injected", before)
	want := twins{First: f.image("v1"), Second: empty, Working: `{"mesh":"mesh-1"}`, Restarts: map[string]int32{"app": 0, "mesh-1": 0, "mesh-2": 0}}
	if diff := cmp.Diff(want, twinsOf(before)); diff != "" {
		f.t.Fatalf("HU-1 HU-2 injected (-want +got):\n%s", diff)
	}
	f.startedWith(before, map[string]handover{"mesh-1": {"1", "0"}, "mesh-2": {"0", "1"}})
	after := before
	for _, step := range []struct {
		version      string
		works, rests string
		want         twins
	}{
		{"v2", "mesh-2", "mesh-1", twins{empty, f.image("v2"), `{"mesh":"mesh-2"}`, map[string]int32{"app": 0, "mesh-1": 1, "mesh-2": 1}}},
		{"v3", "mesh-1", "mesh-2", twins{f.image("v3"), empty, `{"mesh":"mesh-1"}`, map[string]int32{"app": 0, "mesh-1": 2, "mesh-2": 2}}},
	} {
		was := after.Annotations[apps.AnnotationSidecarSetVersionPrefix+step.rests]
		begin := time.Now()
		f.upgrade(set, func(s *v1beta1.SidecarSetSpec) { s.Containers[0].Image = f.image(step.version) })
		after = f.read(before)
		f.logContainers(fmt.Sprintf("%s in %s", step.version, time.Since(begin)), after)
		if diff := cmp.Diff(step.want, twinsOf(after)); diff != "" {
			f.t.Errorf("HU-9 HU-10 %s (-want +got):\n%s", step.version, diff)
		}
		if diff := cmp.Diff(identityOf(before), identityOf(after)); diff != "" || !podstate.IsReady(after) {
			f.t.Errorf("%s: the Pod is ready: %t (-before +after):\n%s", step.version, podstate.IsReady(after), diff)
		}
		is := after.Annotations[apps.AnnotationSidecarSetVersionPrefix+step.works]
		f.startedWith(after, map[string]handover{step.works: {is, was}, step.rests: {"0", is}})
		if f.number(is) <= f.number(was) {
			f.t.Errorf("HU-7 %s is version %s, after %s", step.version, is, was)
		}
	}
	versions := f.recorded(recorder, before, after)
	f.appStays(versions)
	f.serve(versions, "mesh-1", "mesh-1 mesh-2", "mesh-2", "mesh-1 mesh-2", "mesh-1")
	var ready []bool
	for _, pod := range versions {
		ready = append(ready, podstate.IsReady(pod))
	}
	// A Pod is ready only if all containers are ready. So the Pod is unready while either container starts. In each
	// upgrade, both containers start once.
	if diff := cmp.Diff([]bool{true, false, true, false, true, false, true, false, true}, slices.Compact(ready)); diff != "" {
		f.t.Errorf("HU-8 the Pod is ready, over time (-want +got):\n%s", diff)
	}
}

// handover contains the environment of a container of a hot sidecar at its start: the version of the container
// itself, and the version of the sidecar's other container.
type handover struct{ Own, Other string }

// startedWith checks the values that containers have read at their start. A container that starts now might read
// other values.
func (f *fixture) startedWith(pod *corev1.Pod, want map[string]handover) {
	f.t.Helper()
	got := map[string]handover{}
	for name := range want {
		env := f.environment(pod, name)
		got[name] = handover{env[apps.EnvSidecarSetVersion], env[apps.EnvSidecarSetVersionAlt]}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("HU-3 HU-7 versions in the processes (-want +got):\n%s", diff)
	}
}

// environment returns the environment variables of the only process of a container.
func (f *fixture) environment(pod *corev1.Pod, container string) map[string]string {
	f.t.Helper()
	pid, err := f.node.Cgroup(pod.UID, podstate.ContainerStatus(pod, container).ContainerID, "cpu", "cgroup.procs")
	if err != nil {
		f.t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join("/proc", pid, "environ"))
	if err != nil {
		f.t.Fatal(err)
	}
	env := map[string]string{}
	for variable := range strings.SplitSeq(string(raw), "\x00") {
		name, value, _ := strings.Cut(variable, "=")
		env[name] = value
	}
	return env
}

func (f *fixture) number(text string) int {
	f.t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

// twins contains facts about the two containers of a hot sidecar, from the status that the Node has reported and from
// the annotations of the Pod.
type twins struct {
	First, Second string // images
	Working       string
	Restarts      map[string]int32
}

func twinsOf(pod *corev1.Pod) twins {
	return twins{
		podstate.ContainerStatus(pod, "mesh-1").Image, podstate.ContainerStatus(pod, "mesh-2").Image,
		pod.Annotations[apps.AnnotationSidecarSetWorking], restarts(pod),
	}
}

// missingImage upgrades a hot sidecar to a missing image, and then to the image of a version. who lists the
// containers that are in service during both upgrades.
func (f *fixture) missingImage(name, version string, want twins, who ...string) {
	f.t.Helper()
	recorder := controllertest.Watch(f.t, f, f.namespace, nil)
	set := f.hotSet(name)
	before := f.injected(set, name, "mesh-1")
	f.editSet(set, func(s *v1beta1.SidecarSetSpec) { s.Containers[0].Image = f.image("v1") + "-missing" })
	controlplanetest.Eventually(f.t, within, func(context.Context) error {
		pod := f.read(before)
		if waiting := podstate.ContainerStatus(pod, "mesh-2").State.Waiting; waiting == nil || !strings.Contains(waiting.Reason, "ImagePull") {
			return fmt.Errorf("containers %+v", pod.Status.ContainerStatuses)
		}
		return nil
	})
	f.untilStatus(set, func(s *v1beta1.SidecarSetStatus) bool {
		return s.MatchedPods == 1 && s.UpdatedPods == 1 && s.ReadyPods == 0
	})
	f.logContainers("missing", f.read(before))
	begin := time.Now()
	f.upgrade(set, func(s *v1beta1.SidecarSetSpec) { s.Containers[0].Image = f.image(version) })
	after := f.read(before)
	f.logContainers(fmt.Sprintf("%s in %s", version, time.Since(begin)), after)
	if diff := cmp.Diff(want, twinsOf(after)); diff != "" {
		f.t.Errorf("%s (-want +got):\n%s", version, diff)
	}
	if diff := cmp.Diff(identityOf(before), identityOf(after)); diff != "" || !podstate.IsReady(after) {
		f.t.Errorf("the Pod is ready: %t (-before +after):\n%s", podstate.IsReady(after), diff)
	}
	versions := f.recorded(recorder, before, after)
	f.appStays(versions)
	f.serve(versions, who...)
}

// serve checks which containers serve over time. A container serves if the container is ready, runs the image of its
// spec, and this image is not the empty image.
func (f *fixture) serve(versions []*corev1.Pod, want ...string) {
	f.t.Helper()
	var got []string
	for _, pod := range versions {
		var serves []string
		for _, name := range []string{"mesh-1", "mesh-2"} {
			spec, status := podstate.Container(pod, name), podstate.ContainerStatus(pod, name)
			if spec.Image != f.image("empty") && status.Image == spec.Image && status.Ready && status.State.Running != nil {
				serves = append(serves, name)
			}
		}
		got = append(got, strings.Join(serves, " "))
	}
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		f.t.Errorf("HU-8 HU-9 who serves, over %d versions of the Pod (-want +got):\n%s", len(versions), diff)
	}
}

// sidecarSet creates a SidecarSet for the Pods of an app, and waits until the status names the revision.
func (f *fixture) sidecarSet(app string, sidecars func(*v1beta1.SidecarSetSpec)) *v1beta1.SidecarSet {
	f.t.Helper()
	set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: f.namespace + "-" + app}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	set.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: f.namespace}}
	sidecars(&set.Spec)
	// The creation is repeated, because the webhooks may not be ready yet.
	controlplanetest.Eventually(f.t, within, func(ctx context.Context) error { return f.Create(ctx, set) })
	f.t.Cleanup(func() { _ = f.Delete(context.WithoutCancel(f.t.Context()), set) })
	f.untilStatus(set, func(s *v1beta1.SidecarSetStatus) bool { return s.LatestRevision != "" })
	return set
}

// untilStatus waits until a status of the newest generation satisfies the condition want.
func (f *fixture) untilStatus(set *v1beta1.SidecarSet, want func(*v1beta1.SidecarSetStatus) bool) {
	f.t.Helper()
	controlplanetest.Eventually(f.t, within, func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		if set.Status.ObservedGeneration < set.Generation || !want(&set.Status) {
			return errors.Join(fmt.Errorf("generation %d, status %+v", set.Generation, set.Status), f.troubles(ctx))
		}
		return nil
	})
}

// upgrade edits a SidecarSet, and waits until its status says that the Pod is updated and serves.
func (f *fixture) upgrade(set *v1beta1.SidecarSet, edit func(*v1beta1.SidecarSetSpec)) {
	f.t.Helper()
	f.editSet(set, edit)
	f.untilUpdated(set)
}

// editSet edits a SidecarSet. After a conflict, editSet tries again.
func (f *fixture) editSet(set *v1beta1.SidecarSet, edit func(*v1beta1.SidecarSetSpec)) {
	f.t.Helper()
	controlplanetest.Eventually(f.t, within, func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		edit(&set.Spec)
		return f.Update(ctx, set)
	})
}

func (f *fixture) untilUpdated(set *v1beta1.SidecarSet) {
	f.t.Helper()
	f.untilStatus(set, func(s *v1beta1.SidecarSetStatus) bool {
		return s.MatchedPods == 1 && s.UpdatedPods == 1 && s.ReadyPods == 1 && s.UpdatedReadyPods == 1
	})
}

// injected creates a Pod into which the webhook injects a sidecar, and returns the Pod when the Pod is in service.
func (f *fixture) injected(set *v1beta1.SidecarSet, app, sidecar string) *corev1.Pod {
	f.t.Helper()
	var pod *corev1.Pod
	// The creation is repeated, because the webhook's cache shows a new SidecarSet only a moment after its creation.
	controlplanetest.Eventually(f.t, within, func(ctx context.Context) error {
		pod = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, GenerateName: app + "-", Labels: map[string]string{"app": app}},
			Spec: corev1.PodSpec{
				AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false), DNSPolicy: corev1.DNSDefault,
				Containers: []corev1.Container{f.container("app", 8080)},
				Volumes:    []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			},
		}
		if err := f.Create(ctx, pod); err != nil {
			return err
		}
		if podstate.Container(pod, sidecar) == nil {
			return errors.Join(errors.New("the sidecar is not injected yet"), f.Delete(ctx, pod))
		}
		return nil
	})
	f.untilUpdated(set)
	return f.read(pod)
}

func (f *fixture) read(pod *corev1.Pod) *corev1.Pod {
	f.t.Helper()
	out := &corev1.Pod{}
	if err := f.Get(f.t.Context(), client.ObjectKeyFromObject(pod), out); err != nil {
		f.t.Fatal(err)
	}
	return out
}

// logContainers logs the container statuses that the Node has reported.
func (f *fixture) logContainers(step string, pod *corev1.Pod) {
	f.t.Helper()
	for _, c := range containers(pod) {
		f.t.Logf("%s: %s: image %s, containerID %s, restarts %d, ready %t, %+v", step, c.Name, c.Image, c.ContainerID, c.RestartCount, c.Ready, c.State)
	}
}

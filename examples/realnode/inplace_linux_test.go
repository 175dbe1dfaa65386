package realnode_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/controllers/controllertest"
	"github.com/workloadkit/workloadkit/examples/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/podstate"
)

// identity is what an in-place update must not change.
type identity struct {
	UID            types.UID
	Name, Node, IP string
}

func identityOf(pod *corev1.Pod) identity {
	return identity{pod.UID, pod.Name, pod.Spec.NodeName, pod.Status.PodIP}
}

// imageInPlace: a new image restarts that container alone; the Pod and its volume stay.
func (f *fixture) imageInPlace(w workload) {
	f.t.Helper()
	t := f.t
	before := &f.create(w, 1)[0]
	mark := url.Values{"path": {"/data/mark"}}
	f.ask(before, 8080, http.MethodPut, "/file", mark, "kept")

	after := &f.change(w, setImage(0, f.image("v2")))[0]
	if diff := cmp.Diff(identityOf(before), identityOf(after)); diff != "" {
		t.Errorf("the Pod changed (-before +after):\n%s", diff)
	}
	if got := f.ask(after, 8080, http.MethodGet, "/", nil, ""); got != "v2" {
		t.Errorf("app serves %q, want v2", got)
	}
	if got := f.ask(after, 8080, http.MethodGet, "/file", mark, ""); got != "kept" {
		t.Errorf("the volume holds %q, want what was written before", got)
	}
	app, log := podstate.ContainerStatus(after, "app"), podstate.ContainerStatus(after, "log")
	if app.RestartCount != 1 || app.ContainerID == podstate.ContainerStatus(before, "app").ContainerID {
		t.Errorf("app restarted %d times, container %s", app.RestartCount, app.ContainerID)
	}
	if log.RestartCount != 0 || log.ContainerID != podstate.ContainerStatus(before, "log").ContainerID {
		t.Errorf("log restarted %d times, container %s", log.RestartCount, log.ContainerID)
	}
}

// restarts returns how often each container of the Pod was restarted.
func restarts(pod *corev1.Pod) map[string]int32 {
	out := map[string]int32{}
	for _, c := range containers(pod) {
		out[c.Name] = c.RestartCount
	}
	return out
}

// retag: what a Node reports when the new image is another tag of the same digest. The container restarts; its imageID stays,
// and status.image is the first tag of the digest in alphabetical order, whichever the spec asks for.
func (f *fixture) retag(fresh func(name string) workload) {
	f.t.Helper()
	for _, tt := range []struct {
		version, tag, reported string
		completes              bool
	}{
		{version: "retag-b", tag: "retag-a", reported: "retag-a", completes: true},
		// The status is what it was before the update, but for the container's ID: package inplaceupdate waits for ever.
		{version: "retag-y", tag: "retag-z", reported: "retag-y", completes: false},
	} {
		w := fresh(tt.tag)
		before := &f.create(w, 1, setImage(0, f.image(tt.version)))[0]
		tagged, err := f.node.Retag(f.t.Context(), tt.version, tt.tag)
		if err != nil {
			f.t.Fatal(err)
		}
		f.edit(w, setImage(0, tagged))
		var after *corev1.Pod
		controlplanetest.Eventually(f.t, within, func(context.Context) error {
			after = &f.pods(w)[0]
			app := podstate.ContainerStatus(after, "app")
			if after.Status.ObservedGeneration < after.Generation || app.RestartCount == 0 || !app.Ready {
				return fmt.Errorf("generation %d of %d is observed, app: %+v", after.Status.ObservedGeneration, after.Generation, app)
			}
			return nil
		})
		was, app := podstate.ContainerStatus(before, "app"), podstate.ContainerStatus(after, "app")
		if app.Image != f.image(tt.reported) || app.ImageID != was.ImageID || app.ContainerID == was.ContainerID || after.UID != before.UID {
			f.t.Errorf("%s\nbefore: %+v\nafter: %+v", tt.tag, was, app)
		}
		if got := f.settlesSoon(w); got != tt.completes {
			f.t.Errorf("%s: the update completes: %t, known is %t", tt.tag, got, tt.completes)
		}
	}
}

// settlesSoon reports whether the workload settles within a time in which it always does.
func (f *fixture) settlesSoon(w workload) bool {
	err := wait.PollUntilContextTimeout(f.t.Context(), 50*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		return w.isSettled(ctx) == nil, nil
	})
	return err == nil
}

// envFromAnnotation: a container whose image and annotation change together starts with the new value.
func (f *fixture) envFromAnnotation(w workload) {
	f.t.Helper()
	t := f.t
	const key = "example.test/mode"
	before := &f.create(w, 1, func(template *corev1.PodTemplateSpec) {
		template.Annotations = map[string]string{key: "old"}
		app := &template.Spec.Containers[0]
		app.Env = append(app.Env, corev1.EnvVar{Name: "MODE", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + key + "']"},
		}})
	})[0]
	mode := url.Values{"name": {"MODE"}}
	if got := f.ask(before, 8080, http.MethodGet, "/env", mode, ""); got != "old" {
		t.Fatalf("MODE is %q, want old", got)
	}
	after := &f.change(w, setImage(0, f.image("v2")), func(template *corev1.PodTemplateSpec) {
		template.Annotations[key] = "new"
	})[0]
	if got := f.ask(after, 8080, http.MethodGet, "/env", mode, ""); got != "new" {
		t.Errorf("MODE is %q, want new", got)
	}
	if diff := cmp.Diff(map[string]int32{"app": 1, "log": 0}, restarts(after)); diff != "" || after.UID != before.UID {
		t.Errorf("restarts (-want +got):\n%s", diff)
	}
}

// resize: new limits reach the cgroup of the running container.
func (f *fixture) resize(w workload) {
	f.t.Helper()
	t := f.t
	set := func(cpu, memory string) templateEdit {
		return func(template *corev1.PodTemplateSpec) {
			list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
			template.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
		}
	}
	before := &f.create(w, 1, set("100m", "64Mi"))[0]
	for _, tt := range []struct{ cpu, memory, quota, limit string }{
		{"200m", "128Mi", "20000", "134217728"},
		{"100m", "96Mi", "10000", "100663296"},
	} {
		after := &f.change(w, set(tt.cpu, tt.memory))[0]
		app := podstate.ContainerStatus(after, "app")
		for file, want := range map[string]string{"cpu/cpu.cfs_quota_us": tt.quota, "memory/memory.limit_in_bytes": tt.limit} {
			controller, name, _ := strings.Cut(file, "/")
			got, err := f.node.Cgroup(after.UID, app.ContainerID, controller, name)
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("%s: %s is %s, want %s", tt.cpu, file, got, want)
			}
		}
		if after.UID != before.UID || app.RestartCount != 0 {
			t.Errorf("Pod %s, app restarted %d times", after.Name, app.RestartCount)
		}
	}
}

// sidecar: the image of a native sidecar changes without a restart of what runs beside it.
func (f *fixture) sidecar(w workload) {
	f.t.Helper()
	t := f.t
	before := &f.create(w, 1, func(template *corev1.PodTemplateSpec) {
		proxy := f.container("proxy", 8082)
		proxy.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		template.Spec.InitContainers = []corev1.Container{proxy}
	})[0]
	after := &f.change(w, func(template *corev1.PodTemplateSpec) {
		template.Spec.InitContainers[0].Image = f.image("v2")
	})[0]
	if diff := cmp.Diff(identityOf(before), identityOf(after)); diff != "" {
		t.Errorf("the Pod changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int32{"app": 0, "log": 0, "proxy": 1}, restarts(after)); diff != "" {
		t.Errorf("restarts (-want +got):\n%s", diff)
	}
	if got := f.ask(after, 8082, http.MethodGet, "/", nil, ""); got != "v2" {
		t.Errorf("the sidecar serves %q, want v2", got)
	}
}

// batches: containers of lower launch priority change when those of a higher one are ready again. barrier is the environment
// variable that holds the priority.
func (f *fixture) batches(w workload, barrier string) {
	f.t.Helper()
	t := f.t
	before := &f.create(w, 1, f.priorities(w, barrier))[0]
	recorder := controllertest.Watch(t, f, f.namespace, nil)
	after := &f.change(w, setImage(0, f.image("v2")), setImage(1, f.image("v2")))[0]
	if diff := cmp.Diff(identityOf(before), identityOf(after)); diff != "" {
		t.Errorf("the Pod changed (-before +after):\n%s", diff)
	}
	between := false
	for _, event := range recorder.Events() {
		app, log := podstate.Container(event.Pod, "app"), podstate.Container(event.Pod, "log")
		between = between || (app.Image == f.image("v2") && log.Image == f.image("v1"))
		if running := podstate.ContainerStatus(event.Pod, "app"); log.Image == f.image("v2") && (running.Image != f.image("v2") || !running.Ready) {
			t.Errorf("log was changed when app ran %s, ready %t", running.Image, running.Ready)
		}
	}
	if !between {
		t.Error("both containers were changed at once")
	}
	started := func(name string) time.Time { return podstate.ContainerStatus(after, name).State.Running.StartedAt.Time }
	if started("log").Before(started("app")) {
		t.Errorf("log started at %s, before app at %s", started("log"), started("app"))
	}
}

// priorities gives app and log a launch priority of 10 and 0, as the Pod webhook does.
func (f *fixture) priorities(w workload, barrier string) templateEdit {
	f.t.Helper()
	open := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: w.name() + "-barrier"},
		Data:       map[string]string{"p_10": "true", "p_0": "true"},
	}
	if err := f.Create(f.t.Context(), open); err != nil {
		f.t.Fatal(err)
	}
	return func(template *corev1.PodTemplateSpec) {
		for i, key := range []string{"p_10", "p_0"} {
			container := &template.Spec.Containers[i]
			container.Env = append(container.Env, corev1.EnvVar{Name: barrier, ValueFrom: &corev1.EnvVarSource{
				ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: open.Name}, Key: key},
			}})
		}
	}
}

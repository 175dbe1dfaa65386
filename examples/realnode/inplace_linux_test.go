package realnode_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/podstate"
)

// identity contains the parts of a Pod that an update in place must not change.
type identity struct {
	UID            types.UID
	Name, Node, IP string
}

func identityOf(pod *corev1.Pod) identity {
	return identity{pod.UID, pod.Name, pod.Spec.NodeName, pod.Status.PodIP}
}

// imageInPlace checks that after a change of an image, only the container with this image restarts. The Pods get the
// label of the new revision, and the Pods and their volumes stay.
func (f *fixture) imageInPlace(w workload, replicas int) {
	f.t.Helper()
	t := f.t
	before := f.create(w, replicas)
	mark := url.Values{"path": {"/data/mark"}}
	for i := range before {
		f.ask(&before[i], 8080, http.MethodPut, "/file", mark, before[i].Name)
	}
	after := f.change(w, setImage(0, f.image("v2")))
	f.allRestartedOnce(before, after)
	for i := range after {
		pod := &after[i]
		f.serves(pod, "v2")
		if got := f.ask(pod, 8080, http.MethodGet, "/file", mark, ""); got != pod.Name {
			t.Errorf("the volume of %s holds %q, want what was written before", pod.Name, got)
		}
		was, is := instances(&before[i]), instances(pod)
		if was["app"] == is["app"] || was["log"] != is["log"] {
			t.Errorf("containers of %s before: %v, after: %v", pod.Name, was, is)
		}
		if revision := pod.Labels[w.revisionLabel()]; revision == "" || revision == before[i].Labels[w.revisionLabel()] {
			t.Errorf("%s is of revision %q as before", pod.Name, revision)
		}
	}
}

// instances returns the ID of each container of the Pod.
func instances(pod *corev1.Pod) map[string]string {
	out := map[string]string{}
	for _, c := range containers(pod) {
		out[c.Name] = c.ContainerID
	}
	return out
}

// restarts returns how often each container of the Pod was restarted.
func restarts(pod *corev1.Pod) map[string]int32 {
	out := map[string]int32{}
	for _, c := range containers(pod) {
		out[c.Name] = c.RestartCount
	}
	return out
}

// envFromAnnotation checks that a container whose image and annotation change together starts with the new value of
// the annotation.
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

// resizes checks that new resources reach running containers.
func (f *fixture) resizes(t *testing.T, fresh func(f *fixture, name string) workload) {
	t.Helper()
	f.sideBySide(t, fresh, []scenario{{"resize", (*fixture).resize}, {"limits-alone", (*fixture).resizeLimits}})
}

// resize checks that new requests and limits reach the cgroup of the running container.
func (f *fixture) resize(w workload) {
	f.t.Helper()
	set := func(cpu, memory string) templateEdit {
		return func(template *corev1.PodTemplateSpec) {
			list := quantities(cpu, memory)
			template.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
		}
	}
	f.create(w, 1, set("100m", "64Mi"))
	f.checkResizes(w, corev1.PodQOSBurstable, set)
}

// resizeLimits checks a container whose requests the API server has copied from the limits. The requests follow the
// limits, so that the Pod stays Guaranteed.
func (f *fixture) resizeLimits(w workload) {
	f.t.Helper()
	limit := func(containers ...int) func(cpu, memory string) templateEdit {
		return func(cpu, memory string) templateEdit {
			return func(template *corev1.PodTemplateSpec) {
				for _, i := range containers {
					template.Spec.Containers[i].Resources = corev1.ResourceRequirements{Limits: quantities(cpu, memory)}
				}
			}
		}
	}
	f.create(w, 1, limit(0, 1)("100m", "64Mi"))
	f.checkResizes(w, corev1.PodQOSGuaranteed, limit(0))
}

func quantities(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// checkResizes raises the cpu and memory of container app, and then lowers both. The function set returns the edit
// that writes the resources into the template.
func (f *fixture) checkResizes(w workload, qos corev1.PodQOSClass, set func(cpu, memory string) templateEdit) {
	f.t.Helper()
	before := &f.pods(w)[0]
	for _, tt := range []struct{ cpu, memory, shares, quota, limit string }{
		{"200m", "128Mi", "204", "20000", "134217728"},
		{"100m", "96Mi", "102", "10000", "100663296"},
	} {
		after := &f.change(w, set(tt.cpu, tt.memory))[0]
		app := podstate.ContainerStatus(after, "app")
		got := map[string]string{}
		for _, file := range []string{"cpu/cpu.shares", "cpu/cpu.cfs_quota_us", "memory/memory.limit_in_bytes"} {
			controller, name, _ := strings.Cut(file, "/")
			text, err := f.node.Cgroup(after.UID, app.ContainerID, controller, name)
			if err != nil {
				f.t.Fatal(err)
			}
			got[name] = text
		}
		want := map[string]string{"cpu.shares": tt.shares, "cpu.cfs_quota_us": tt.quota, "memory.limit_in_bytes": tt.limit}
		if diff := cmp.Diff(want, got); diff != "" {
			f.t.Errorf("%s: cgroup (-want +got):\n%s", tt.cpu, diff)
		}
		list := quantities(tt.cpu, tt.memory)
		resources := corev1.ResourceRequirements{Requests: list, Limits: list}
		if diff := cmp.Diff(resources, podstate.Container(after, "app").Resources); diff != "" {
			f.t.Errorf("%s: spec (-want +got):\n%s", tt.cpu, diff)
		}
		if diff := cmp.Diff(list, app.AllocatedResources); diff != "" {
			f.t.Errorf("%s: allocated (-want +got):\n%s", tt.cpu, diff)
		}
		if diff := cmp.Diff(&resources, app.Resources); diff != "" {
			f.t.Errorf("%s: status (-want +got):\n%s", tt.cpu, diff)
		}
		if diff := cmp.Diff(restarts(before), restarts(after)); diff != "" || after.UID != before.UID || after.Status.QOSClass != qos {
			f.t.Errorf("Pod %s is %s, want %s; restarts (-want +got):\n%s", after.Name, after.Status.QOSClass, qos, diff)
		}
	}
}

// sidecar checks that the image of a native sidecar changes without a restart of the other containers.
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

// batches checks that an in-place update changes a container of lower launch priority only when the containers of
// higher priority are ready again. barrier is the name of the environment variable with the launch priority.
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

// priorities gives the containers app and log the launch priorities 10 and 0, as the Pod webhook does.
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

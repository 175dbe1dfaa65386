package containerrecreaterequest

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/containerrecreaterequest"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// request returns a request for containers of the Pod web-0.
func request(containers ...string) *v1beta1.ContainerRecreateRequest {
	obj := &v1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Name: "restart"}}
	obj.Spec.PodName = "web-0"
	for _, name := range containers {
		obj.Spec.Containers = append(obj.Spec.Containers, v1beta1.ContainerRecreateRequestContainer{Name: name})
	}
	return obj
}

// runningPod returns a Pod with the container app, which has an HTTP hook, and the container log, which has no hook.
func runningPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "u1"},
		Spec: corev1.PodSpec{
			NodeName: "node-1", TerminationGracePeriodSeconds: new(int64(7)),
			Containers: []corev1.Container{
				{
					Name: "app", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}},
					Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/stop", Port: intstr.FromString("http")}}},
				},
				{Name: "log", Ports: []corev1.ContainerPort{{ContainerPort: 81}}},
			},
			InitContainers: []corev1.Container{{Name: "init"}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.5",
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "log", ContainerID: "containerd://b", RestartCount: 2}, {Name: "app", ContainerID: "containerd://a"},
			},
		},
	}
}

func TestComplete(t *testing.T) {
	type container = v1beta1.ContainerRecreateRequestContainer
	labels := map[string]string{apps.LabelRequestActive: "true", apps.LabelRequestNodeName: "node-1", apps.LabelRequestPodUID: "u1"}
	get := &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/stop", Port: intstr.FromString("http"), Host: "10.0.0.5"}}
	app := container{
		Name: "app", PreStop: get, Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}},
		StatusContext: &v1beta1.ContainerRecreateRequestContainerContext{ContainerID: "containerd://a"},
	}
	log := container{Name: "log", StatusContext: &v1beta1.ContainerRecreateRequestContainerContext{ContainerID: "containerd://b", RestartCount: 2}}
	slow := log
	slow.PreStop = &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}
	hosted := app
	hosted.PreStop = get.DeepCopy()
	hosted.PreStop.HTTPGet.Host = "stop.test"
	for _, tc := range []struct {
		name       string
		containers []string
		pod        func(*corev1.Pod)
		obj        func(*v1beta1.ContainerRecreateRequest)
		node       map[string]string
		wantType   string
		wantGrace  *int64
		want       []container
	}{
		{name: "CR-3 an HTTP hook, with ports and the Pod's address", containers: []string{"app"}, wantGrace: new(int64(7)), want: []container{app}},
		{name: "CR-3 no hook, no ports", containers: []string{"log", "app"}, wantGrace: new(int64(7)), want: []container{log, app}},
		{
			name: "CR-3 a hook with a host keeps it", containers: []string{"app"}, wantGrace: new(int64(7)), want: []container{hosted},
			pod: func(pod *corev1.Pod) { pod.Spec.Containers[0].Lifecycle.PreStop.HTTPGet.Host = "stop.test" },
		},
		{
			name: "4.6 a hook that sleeps is carried", containers: []string{"log"}, wantGrace: new(int64(7)), want: []container{slow},
			pod: func(pod *corev1.Pod) { pod.Spec.Containers[1].Lifecycle = &corev1.Lifecycle{PreStop: slow.PreStop} },
		},
		{
			name: "CR-3 the user's own grace", containers: []string{"log"}, wantGrace: new(int64(0)), want: []container{log},
			obj: func(obj *v1beta1.ContainerRecreateRequest) {
				obj.Spec.Strategy.TerminationGracePeriodSeconds = new(int64(0))
			},
		},
		{
			name: "CR-3 a Pod without a grace", containers: []string{"log"}, want: []container{log},
			pod: func(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = nil },
		},
		{
			name: "CR-3 a virtual Node", containers: []string{"log"}, node: map[string]string{"type": "virtual-kubelet", "a": "b"}, wantType: "virtual-kubelet",
			wantGrace: new(int64(7)), want: []container{log},
		},
		{
			name: "CR-3 a Node of another type", containers: []string{"log"}, node: map[string]string{"type": "other"}, wantGrace: new(int64(7)),
			want: []container{log},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obj, pod := request(tc.containers...), runningPod()
			obj.Labels = map[string]string{"mine": "1", apps.LabelRequestActive: "false", apps.LabelRequestPodUID: "of another"}
			api.Default(obj)
			if tc.pod != nil {
				tc.pod(pod)
			}
			if tc.obj != nil {
				tc.obj(obj)
			}
			untouched := pod.DeepCopy()
			complete(obj, pod, tc.node)
			want := map[string]string{"mine": "1"}
			maps.Copy(want, labels)
			if tc.wantType != "" {
				want["type"] = tc.wantType
			}
			if diff := cmp.Diff(want, obj.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantGrace, obj.Spec.Strategy.TerminationGracePeriodSeconds); diff != "" {
				t.Errorf("grace (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, obj.Spec.Containers); diff != "" {
				t.Errorf("containers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(untouched, pod); diff != "" {
				t.Errorf("the Pod was changed:\n%s", diff)
			}
		})
	}
}

package podwebhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/sidecarcontrol"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
)

// BenchmarkHandle handles requests for Pods that match 3 of 1,000 sets, from the bytes of the Pod to the bytes of the
// patch: for a Pod of a Deployment, and for the largest possible Pod, with 200 containers and 1 MiB.
func BenchmarkHandle(b *testing.B) {
	for name, pod := range map[string][]byte{"usual": deploymentPod(b, 2, 1), "largest": deploymentPod(b, 200, 55)} {
		b.Run(name, func(b *testing.B) { benchmarkHandle(b, pod) })
	}
}

func benchmarkHandle(b *testing.B, pod []byte) {
	control, err := sidecarcontrol.New(sidecarcontrol.Config{Keys: sidecarcontrol.Keys{
		HashAnnotation: "x/hash", HashWithoutImagesAnnotation: "x/plain", InjectedAnnotation: "x/injected", StateAnnotation: "x/state", InjectedEnv: "IS_INJECTED",
	}})
	if err != nil {
		b.Fatal(err)
	}
	index := sidecarcontrol.NewIndex()
	for i := range 1000 {
		app := fmt.Sprintf("other-%d", i)
		if i < 3 {
			app = "web"
		}
		set, err := sidecarcontrol.NewSet(sidecarcontrol.Spec{
			Name: fmt.Sprintf("set-%d", i), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			Containers: []sidecarcontrol.Sidecar{{Container: corev1.Container{Name: fmt.Sprintf("side-%d", i), Image: "side:v1"}, ShareMounts: true}},
		})
		if err != nil {
			b.Fatal(err)
		}
		index.Put(set)
	}
	sidecars, err := podwebhook.Injection{
		Control: control, Clock: clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)),
		Sets: func(_ context.Context, pod *corev1.Pod) ([]*sidecarcontrol.Set, error) {
			return index.Match(pod, nil), nil
		},
	}.Mutator("sidecars")
	if err != nil {
		b.Fatal(err)
	}
	h, r := handler(b, sidecars), request(b, string(pod))
	b.ReportAllocs()
	b.SetBytes(int64(len(pod)))
	for b.Loop() {
		if response := h.Handle(b.Context(), r); len(response.Patch) == 0 {
			b.Fatal(response.Result)
		}
	}
}

// deploymentPod returns the JSON of a Deployment's Pod as the API server sends the Pod: with defaults, and with the
// changes of the admission plugin ServiceAccount.
func deploymentPod(b *testing.B, containers, variables int) []byte {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "web-6574dd96cd-", Labels: map[string]string{"app": "web", "pod-template-hash": "6574dd96cd"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-6574dd96cd", UID: "7890b9d3-a98f-4cf9-8538-99cfd743239b", Controller: ptr.To(true)}},
	}}
	var env []corev1.EnvVar
	for i := range variables {
		env = append(env, corev1.EnvVar{Name: fmt.Sprintf("REGION_%d", i), Value: strings.Repeat("eu", variables/2)})
	}
	for i := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: fmt.Sprintf("app-%d", i), Image: "example.test/app:v1", Env: env,
			Ports:                  []corev1.ContainerPort{{ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
			VolumeMounts:           []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "kube-api-access-d46vg", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile, ImagePullPolicy: corev1.PullIfNotPresent,
		})
	}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: ptr.To[int64](300)}}
	raw, err := json.Marshal(pod)
	if err != nil {
		b.Fatal(err)
	}
	return raw
}

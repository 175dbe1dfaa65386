package kubeletpull_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/node/imagepull/kubeletpull"
)

// A job wants an image on a Node. The kubelet pulls the image for a Pod, and the Pod is deleted after the pull.
func Example() {
	puller, err := kubeletpull.New(kubeletpull.Options{
		Namespace: "jobs", Prefix: "pull", PauseImage: "registry.k8s.io/pause:3.10",
		Owner:       metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "NodeImage", Name: "n1", UID: "u1"},
		PullSecrets: map[imagepull.Owner][]string{"job-1": {"registry"}},
		Bounds:      imagepull.Bounds{Registries: imagepull.Registries{"docker.io"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	image, err := imagepull.Parse("nginx")
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	wants, err := imagepull.AddClaim(nil, nil, image, imagepull.Claim{Owner: "job-1", Since: now})
	if err != nil {
		fmt.Println(err)
		return
	}
	seen := kubeletpull.Observed{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}
	seen.Node.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.36.3", ContainerRuntimeVersion: "containerd://2.1.0"}

	step := puller.Next(seen, wants, nil, now)
	pod := step.Create[0]
	fmt.Println(step.Reports[0].Phase, pod.Spec.Volumes[0].Image.Reference, pod.Spec.ImagePullSecrets[0].Name)

	pod.CreationTimestamp = metav1.NewTime(now)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "pause", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	seen.Pods = []*corev1.Pod{pod}
	step = puller.Next(seen, wants, step.Reports, now.Add(20*time.Second))
	fmt.Println(step.Reports[0].Phase, "and", len(step.Delete), "Pod to delete")
	fmt.Println(imagepull.Judge(wants, step.Reports, image, "job-1", now).State)

	// Output:
	// Pulling docker.io/library/nginx:latest registry
	// Succeeded and 1 Pod to delete
	// Done
}

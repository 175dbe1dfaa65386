package sidecarcontrol_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

// Inject puts a container into a Pod, and a later Upgrade changes its image.
func Example() {
	control, err := sidecarcontrol.New(sidecarcontrol.Config{Keys: sidecarcontrol.Keys{
		HashAnnotation: "example.com/hash", HashWithoutImagesAnnotation: "example.com/hash-without-images",
		InjectedAnnotation: "example.com/injected", StateAnnotation: "example.com/state", InjectedEnv: "INJECTED",
	}})
	if err != nil {
		panic(err)
	}
	version := func(image string) *sidecarcontrol.Set {
		set, err := sidecarcontrol.NewSet(sidecarcontrol.Spec{
			Name: "mesh", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Containers: []sidecarcontrol.Sidecar{{Container: corev1.Container{Name: "proxy", Image: image}}},
		})
		if err != nil {
			panic(err)
		}
		return set
	}
	index, now := sidecarcontrol.NewIndex(version("proxy:v1")), time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	if _, err := control.Inject(pod, index.Match(pod, nil), sidecarcontrol.Facts{Now: now}); err != nil {
		panic(err)
	}
	for i := range pod.Spec.Containers {
		fmt.Println(pod.Spec.Containers[i].Name, pod.Spec.Containers[i].Image)
	}

	set := version("proxy:v2")
	pods := []sidecarcontrol.Standing{control.Read(pod, set, now)}
	choice := sidecarcontrol.Choose(pods, sidecarcontrol.Rollout{MaxUnavailable: 1})
	change, err := control.Upgrade(choice.Upgrade[0], set, now)
	fmt.Println("upgrade:", change.Images, err)
	// Output:
	// proxy proxy:v1
	// app app:v1
	// upgrade: map[proxy:proxy:v2] <nil>
}

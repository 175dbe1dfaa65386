package runtimemeta_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate/runtimemeta"
)

// Example is a single run of a node agent for a Pod whose label has changed during an update in place.
func Example() {
	rules := runtimemeta.Rules{Condition: "example.com/InPlaceUpdateReady"}
	pod := newPod(container("app", fromLabel("ZONE", "zone")))
	pod.Labels = map[string]string{"zone": "b"}
	pod.Status.Conditions = []corev1.PodCondition{{Type: "example.com/InPlaceUpdateReady", Status: corev1.ConditionFalse}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", ContainerID: "containerd://ab12"}}

	instances := []runtimemeta.Instance{{ID: "containerd://ab12", Name: "app", Running: true, Hash: "afa23453"}}
	before, err := runtimemeta.Decode(`{"containers":[]}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	step := rules.Next(pod, instances, before)
	fmt.Println("read", step.Read)

	instances[0].Env = runtimemeta.EnvironmentOf([]string{"PATH=/bin", "ZONE=a", "PASSWORD=secret"})
	fmt.Printf("%+v\n", instances[0].Env)
	step = rules.Next(pod, instances, before)
	fmt.Println("write", step.Changed, step.Report.Encode())
	for _, stop := range step.Stop {
		fmt.Println("stop", stop.ID, "because", stop.Why)
	}
	// Output:
	// read [containerd://ab12]
	// 3 variables
	// write true {"containers":[{"name":"app","containerID":"containerd://ab12","restartCount":0,"hashes":{"plainHash":2946643027,"extractedEnvFromMetadataHash":4156755467}}]}
	// stop containerd://ab12 because EnvOutdated: Pod default/web-0: spec.containers[app]: the container runs with an old value of a label or annotation
}

package lifecycle_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/lifecycle"
)

func Example() {
	machine, err := lifecycle.New(lifecycle.Keys{State: "example.com/state", Timestamp: "example.com/state-since"})
	if err != nil {
		fmt.Println(err)
		return
	}
	machine = machine.With(lifecycle.Hooks{PreDelete: &lifecycle.Hook{
		Finalizers: []string{"example.com/drain"}, MarkNotReady: true,
	}})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web-0", Labels: map[string]string{"example.com/state": "Normal"},
		Finalizers: []string{"example.com/drain"},
	}}

	t := machine.Next(pod, lifecycle.Want{Intent: lifecycle.Delete})
	fmt.Println(t.From, "->", t.To, "hold the gate for", t.Hold)
	fmt.Println(t.Why)

	pod.Labels["example.com/state"] = string(t.To) // as machine.Change does
	pod.Finalizers = nil                           // the hook's owner has drained the Pod
	fmt.Println(machine.Next(pod, lifecycle.Want{Intent: lifecycle.Delete}).Act == lifecycle.DeletePod)
	// Output:
	// Normal -> PreparingDelete hold the gate for preDelete
	// HookHolds: Pod default/web-0: metadata.finalizers: example.com/drain: preDelete hook; remove it when the Pod may be touched
	// true
}

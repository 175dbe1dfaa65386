package numbered_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/numbered"
)

// Server is an example of a kind with numbered Pods.
type Server struct {
	Name           string
	Replicas       int
	Reserved       []intstr.IntOrString
	Partition      int
	MinReady       time.Duration
	UpdateRevision string
}

// podOf describes a single Pod.
func podOf(server *Server, pod *corev1.Pod, ordinal int, now time.Time) numbered.Pod {
	p := numbered.Pod{Ordinal: ordinal, Updated: pod.Labels["example.com/revision"] == server.UpdateRevision}
	available, _ := podstate.Available(pod, server.MinReady, now) // the second result says when to reconcile again
	switch {
	case pod.DeletionTimestamp != nil:
		p.Health = rollout.Terminating
	case !podstate.IsActive(pod):
		p.Health = rollout.Ended
	case available:
		p.Health = rollout.Available
	default:
		p.Health = rollout.Unavailable
	}
	return p
}

// next plans the next step for the Pods controlled by the Server. pods are all of these Pods, including terminating
// Pods.
func next(server *Server, pods []*corev1.Pod, now time.Time) (numbered.Step, map[int]*corev1.Pod, error) {
	wanted, err := ordinals.Of(ordinals.Paths{Reserved: "spec.reserved"}, 0, server.Replicas, server.Reserved...)
	if err != nil {
		return numbered.Step{}, nil, err
	}
	byOrdinal := map[int]*corev1.Pod{}
	var members []numbered.Pod
	for _, pod := range pods {
		if ordinal, ok := ordinals.OfPod(server.Name, pod); ok {
			byOrdinal[ordinal] = pod
			members = append(members, podOf(server, pod, ordinal, now))
		}
	}
	spec := numbered.Spec{Wanted: wanted, Partition: server.Partition, MaxUnavailable: 2, Parallel: true}
	step, err := numbered.Plan(spec, members)
	return step, byOrdinal, err
}

// ExamplePlan has 5 replicas with the ordinals 0, 2, 3, 4 and 5, because ordinal 1 is reserved. The partition keeps
// two Pods at the old revision. Pod 4 is broken, and Pod 5 was deleted for its update and is still terminating.
func ExamplePlan() {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	pod := func(name string, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"example.com/revision": "game-1"}},
			Status: corev1.PodStatus{
				Phase:      corev1.PodRunning,
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}},
			},
		}
	}
	pods := []*corev1.Pod{
		pod("game-0", corev1.ConditionTrue), pod("game-2", corev1.ConditionTrue),
		pod("game-4", corev1.ConditionFalse), pod("game-5", corev1.ConditionTrue),
	}
	pods[3].DeletionTimestamp = new(metav1.NewTime(now))

	server := &Server{Name: "game", Replicas: 5, Reserved: []intstr.IntOrString{intstr.FromInt32(1)}, Partition: 2, UpdateRevision: "game-2"}
	step, byOrdinal, err := next(server, pods, now)
	if err != nil {
		fmt.Println(err) // and change no Pod
		return
	}
	for _, c := range step.Create {
		fmt.Println("create", ordinals.Name(server.Name, c.Ordinal), "at the old revision:", c.Old)
	}
	for _, ordinal := range step.Delete {
		fmt.Println("delete", byOrdinal[ordinal].Name)
	}
	for _, ordinal := range step.Update { // in place, or by deletion: the next Pod has the new revision
		fmt.Println("update", byOrdinal[ordinal].Name)
	}
	for _, limit := range step.Limits {
		fmt.Println(limit)
	}
	// Output:
	// create game-3 at the old revision: false
	// update game-4
	// OrdinalTerminating: 1 Pods are terminating and will be created again, the first is 5; wait until it is gone
}

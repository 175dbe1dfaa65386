package completion_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/completion"
)

// ExampleOnNodes is a job that runs once on each of four Nodes, with two Pods at a time. The first Pod has ended.
func ExampleOnNodes() {
	pods := []*corev1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Name: "check-a"}, Spec: corev1.PodSpec{NodeName: "a"}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded},
	}, {
		ObjectMeta: metav1.ObjectMeta{Name: "check-b"}, Spec: corev1.PodSpec{NodeName: "b"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}}
	fits := completion.Claim{Fits: true, Keeps: true} // for a real Node, use package nodefit
	there := completion.OnNodes(pods, map[string]completion.Claim{"a": fits, "b": fits, "c": fits, "d": fits}, 0)

	hour := time.Hour
	rules := completion.Rules{Parallelism: 2, Deadline: &hour, OnFailure: completion.End}
	begun := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	step := completion.Next(rules, completion.Progress{
		Started: begun, Wanted: there.Wanted, Done: there.Done, Active: there.Active, Missing: len(there.Missing), Failed: there.Failed,
	}, begun.Add(10*time.Minute))

	fmt.Println(step.State, "start on", there.Missing[:step.Start], "and look again in", step.After)
	fmt.Println(step.Why)
	// Output:
	// Running start on [c] and look again in 50m0s
	// ParallelismReached: 2: 1 wait for others to end; wait, or raise it
}

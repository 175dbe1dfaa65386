package pernode_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/pernode"
)

// Agent is an example of a kind with a Pod on every fitting Node.
type Agent struct {
	Name           string
	Template       corev1.PodTemplateSpec
	MinReady       time.Duration
	UpdateRevision string
}

// podOf describes a single Pod.
func podOf(agent *Agent, pod *corev1.Pod, now time.Time) pernode.Pod {
	p := pernode.Pod{
		Name: pod.Name, Scheduled: podstate.IsScheduled(pod), Created: pod.CreationTimestamp.Time,
		Updated: pod.Labels["example.com/revision"] == agent.UpdateRevision, Ready: podstate.IsReady(pod),
	}
	p.Node, _ = nodefit.NodeOf(pod)                              // also for a Pod that is not bound yet
	available, _ := podstate.Available(pod, agent.MinReady, now) // the second result says when to reconcile again
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

// next plans the next step for the Pods controlled by the Agent. nodes are all Nodes, and pods all Pods of the Agent,
// including terminating Pods.
func next(agent *Agent, nodes []*corev1.Node, pods []*corev1.Pod, now time.Time) (pernode.Step, error) {
	requirements, err := nodefit.New(&agent.Template.Spec, nodefit.DaemonSetTolerations(agent.Template.Spec.HostNetwork)...)
	if err != nil {
		return pernode.Step{}, err
	}
	var all []pernode.Node
	for _, node := range nodes {
		verdict := requirements.Fits(node)
		all = append(all, pernode.Node{Name: node.Name, Run: verdict.Run, Continue: verdict.Continue})
	}
	var members []pernode.Pod
	for _, pod := range pods {
		members = append(members, podOf(agent, pod, now))
	}
	return pernode.Plan(pernode.Spec{Partition: 1, MaxUnavailable: 2, LeaveUnfit: true}, all, members)
}

// ExamplePlan has five Nodes, and four of these should have a Pod: gpu-1 does not fit any more, and disk-1 is new. A
// Pod is broken, and the partition keeps a Node at the old revision.
func ExamplePlan() {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	var nodes []*corev1.Node
	for _, name := range []string{"web-1", "web-2", "web-3", "disk-1", "gpu-1"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if name == "gpu-1" {
			node.Spec.Taints = []corev1.Taint{{Key: "example.com/gpu", Effect: corev1.TaintEffectNoExecute}}
		}
		nodes = append(nodes, node)
	}
	pod := func(name, node string, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"example.com/revision": "agent-1"}},
			Spec:       corev1.PodSpec{NodeName: node},
			Status: corev1.PodStatus{
				Phase:      corev1.PodRunning,
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}},
			},
		}
	}
	pods := []*corev1.Pod{
		pod("agent-a", "web-1", corev1.ConditionTrue), pod("agent-b", "web-2", corev1.ConditionFalse),
		pod("agent-c", "web-3", corev1.ConditionTrue), pod("agent-d", "gpu-1", corev1.ConditionTrue),
	}

	step, err := next(&Agent{Name: "agent", UpdateRevision: "agent-2"}, nodes, pods, now)
	if err != nil {
		fmt.Println(err) // and change no Pod
		return
	}
	for _, node := range step.Create { // with the name from nodefit.PodName, pinned by nodefit.Requirements.Place
		fmt.Println("create a Pod for", node)
	}
	for _, i := range step.Delete {
		fmt.Println("delete", pods[i].Name)
	}
	for _, i := range step.Update { // in place, or by deletion: its Node gets another Pod at the new revision
		fmt.Println("update", pods[i].Name)
	}
	for _, limit := range step.Limits {
		fmt.Println(limit)
	}
	fmt.Printf("%d of %d Nodes have an available Pod\n", step.Totals.Available, step.Totals.Desired)
	// Output:
	// create a Pod for disk-1
	// delete agent-d
	// update agent-b
	// UpdateLimited: maxUnavailable: 1 Nodes wait for their update; 2 lack an available Pod, 2 may; wait for Pods to become available, or raise the limit
	// 2 of 4 Nodes have an available Pod
}

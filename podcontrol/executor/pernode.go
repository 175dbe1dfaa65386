package executor

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

// NodeTemplates say what Pods for Nodes are made from.
type NodeTemplates struct {
	// History holds the template: that of its Update. Required.
	History *revision.History
	// Selector is the owner's, as in Create; nil selects all of its Pods.
	Selector labels.Selector
	// Most is how many Pods are created at most; nil stands for fanout.PerPass.
	Most *int
	// Prepare completes a Pod for a Node before it is created: nodefit.Requirements.Place does what is needed. It must be safe for concurrent
	// use. Required.
	Prepare func(pod *corev1.Pod, node string)
}

// CreatePerNode creates the Pods that rollout.PerNode names, under the names of nodefit.PodName: where the view does not hold a Pod that
// exists, the API server refuses another. A Pod that a webhook or policy has taken the Node from is deleted again, as in Create. It returns how
// many it has created. A Node whose Pod was refused is tried after the others. All
// errors are final, as those of fanout.Pass.Create.
func (p *Pods[O]) CreatePerNode(ctx context.Context, nodes []string, from NodeTemplates) (made int, err error) {
	if len(nodes) == 0 {
		return 0, nil
	}
	if from.History == nil || from.History.Update == nil || from.Prepare == nil {
		return 0, reason.Final(errors.New("executor: NodeTemplates need a history with an update revision, and Prepare"))
	}
	rev := from.History.Update
	template, err := from.History.Template(rev)
	if err != nil {
		return 0, reason.Final(err)
	}
	owner := p.view.Owner
	// A Pod of the owner's own that the decision does not know, because somebody else has created it since, takes no name: the API server is
	// to refuse the second one.
	taken := func(name string) bool {
		pod, taken := p.executor.cache.Pods.Get(owner.GetNamespace(), name)
		return taken && (!metav1.IsControlledBy(pod, owner) || slices.ContainsFunc(p.view.Pods, func(known *corev1.Pod) bool { return known.UID == pod.UID }))
	}
	return p.createEach(ctx, fanout.Task{Name: "create Pods", Most: from.Most}, len(nodes), func(i int) string { return "create a Pod for " + nodes[i] }, from.Selector,
		func(_ context.Context, i int) (*corev1.Pod, string, error) {
			pod := p.NewPod(template, rev.Name)
			pod.Name, pod.GenerateName = nodefit.PodName(owner.GetName(), owner.GetUID(), nodes[i], rev.Name, taken), owner.GetName()+"-"
			from.Prepare(pod, nodes[i])
			return pod, nodes[i], nil
		})
}

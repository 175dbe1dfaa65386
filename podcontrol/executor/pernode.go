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

// NodeTemplates are the sources of Pods for Nodes.
type NodeTemplates struct {
	// History holds the template: the template of its Update.
	History *revision.History
	// Template is the template of Pods without revisions, such as the Pods of a job. Exactly one of History and Template is
	// required.
	Template *corev1.PodTemplateSpec
	// Selector is the owner's, as in Create. Nil selects all of its Pods.
	Selector labels.Selector
	// Most is how many Pods are created at most; nil stands for fanout.PerPass.
	Most *int
	// Prepare completes a Pod for a Node before its creation: nodefit.Requirements.Place makes the needed changes. Prepare
	// must be safe for concurrent use. Required.
	Prepare func(pod *corev1.Pod, node string)
}

// CreatePerNode creates the Pods named by pernode.Plan, under the names of nodefit.PodName: if a Pod exists but is
// missing in the view, the API server refuses a second Pod. If a webhook or policy has taken the Node from a Pod, the
// Pod is deleted again, as in Create. CreatePerNode returns the number of created Pods. A Node with a refused Pod is
// tried after all other Nodes. All errors are final, as in fanout.Pass.Create.
func (p *Pods[O]) CreatePerNode(ctx context.Context, nodes []string, from NodeTemplates) (made int, err error) {
	if len(nodes) == 0 {
		return 0, nil
	}
	template, rev, err := from.template()
	if err != nil {
		return 0, reason.Final(err)
	}
	owner := p.view.Owner
	// A Pod of the owner unknown to the decision, because somebody else has created the Pod since, takes no name: the API
	// server must refuse the second Pod.
	taken := func(name string) bool {
		pod, taken := p.executor.cache.Pods.Get(owner.GetNamespace(), name)
		return taken && (!metav1.IsControlledBy(pod, owner) || slices.ContainsFunc(p.view.Pods, func(known *corev1.Pod) bool { return known.UID == pod.UID }))
	}
	return p.createEach(ctx, fanout.Task{Name: "create Pods", Most: from.Most}, len(nodes), func(i int) string { return "create a Pod for " + nodes[i] }, from.Selector,
		func(_ context.Context, i int) (*corev1.Pod, string, error) {
			pod := p.NewPod(template, rev)
			pod.Name, pod.GenerateName = nodefit.PodName(owner.GetName(), owner.GetUID(), nodes[i], rev, taken), owner.GetName()+"-"
			from.Prepare(pod, nodes[i])
			return pod, nodes[i], nil
		})
}

// template returns the template of new Pods, and the name of its revision, empty without revisions.
func (t *NodeTemplates) template() (template *corev1.PodTemplateSpec, rev string, err error) {
	switch {
	case t.Prepare == nil, t.Template != nil && t.History != nil, t.Template == nil && (t.History == nil || t.History.Update == nil):
		return nil, "", errors.New("executor: NodeTemplates need Prepare, and either a Template or a History with an update revision")
	case t.Template != nil:
		return t.Template, "", nil
	}
	template, err = t.History.Template(t.History.Update)
	return template, t.History.Update.Name, err
}

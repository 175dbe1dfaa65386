package executor

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/reason"
)

// NodeTemplates are the sources of Pods for Nodes.
type NodeTemplates struct {
	// Template is the template of Pods without revisions, such as the Pods of a job. Nil stands for the template of the
	// Turn's History.
	Template *corev1.PodTemplateSpec
	// Most is how many Pods are created at most; nil stands for fanout.PerPass.
	Most *int
	// Prepare completes a Pod for a Node before its creation, as in PodTemplates: nodefit.Requirements.Place makes the
	// needed changes. Prepare must be safe for concurrent use. Required.
	Prepare func(pod *corev1.Pod, node string)
}

// CreatePerNode creates the Pods named by pernode.Plan, under the names of nodefit.PodName: if a Pod exists but is
// missing in the view, the API server refuses a second Pod. If a webhook or policy has taken the Node from a Pod, the
// Pod is deleted again, as in Create. CreatePerNode returns the number of created Pods. A Node with a refused Pod is
// tried after all other Nodes. All errors are final, as in fanout.Pass.Create.
func (t *Turn[O]) CreatePerNode(ctx context.Context, nodes []string, from NodeTemplates) (made int, err error) {
	if len(nodes) == 0 {
		return 0, nil
	}
	template, rev, err := t.templateOf(from)
	if err != nil {
		return 0, reason.Final(err)
	}
	owner := t.Owner
	// A Pod of the owner unknown to the decision, because somebody else has created the Pod since, takes no name: the API
	// server must refuse the second Pod.
	taken := func(name string) bool {
		pod, taken := t.executor.cache.Pods.Get(owner.GetNamespace(), name)
		return taken && (!metav1.IsControlledBy(pod, owner) || slices.ContainsFunc(t.Pods, func(known *corev1.Pod) bool { return known.UID == pod.UID }))
	}
	return t.createEach(ctx, fanout.Task{Name: "create Pods", Most: from.Most}, len(nodes), func(i int) string { return "create a Pod for " + nodes[i] },
		func(i int) draft {
			pod := t.NewPod(template, rev)
			pod.Name, pod.GenerateName = nodefit.PodName(owner.GetName(), owner.GetUID(), nodes[i], rev, taken), owner.GetName()+"-"
			d := t.draftOf(pod)
			d.node = nodes[i]
			from.Prepare(pod, nodes[i])
			return d
		})
}

// templateOf returns the template of new Pods, and the name of its revision, empty without revisions.
func (t *Turn[O]) templateOf(from NodeTemplates) (template *corev1.PodTemplateSpec, rev string, err error) {
	switch {
	case from.Prepare == nil, from.Template == nil && (t.History == nil || t.History.Update == nil):
		return nil, "", errors.New("executor: NodeTemplates need Prepare, and either a Template or a history with an update revision")
	case from.Template != nil && t.History != nil:
		return nil, "", errors.New("executor: a Template for Pods without revisions, and a history")
	case from.Template != nil:
		return from.Template, "", nil
	}
	template, err = t.History.Template(t.History.Update)
	return template, t.History.Update.Name, err
}

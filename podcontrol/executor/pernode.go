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

// NodeTemplates are the sources of new Pods for Nodes.
type NodeTemplates struct {
	// Template is the template of Pods without revisions, such as the Pods of a job. If nil, the template of the Turn's
	// History is used.
	Template *corev1.PodTemplateSpec
	// Most is the largest number of Pods to create in a call; nil means fanout.PerPass.
	Most *int
	// Prepare completes a Pod for a Node before the Pod is created, as in PodTemplates: call nodefit.Requirements.Place
	// in Prepare. Prepare must be safe for concurrent use. Required.
	Prepare func(pod *corev1.Pod, node string)
}

// CreatePerNode creates Pods for the Nodes in the list of pernode.Plan, with names from nodefit.PodName: if a Node has
// a Pod that the cache does not show yet, the API server refuses a second Pod of the same name. If a webhook or policy
// has removed the Node from a Pod, CreatePerNode deletes the Pod again, as Create does. CreatePerNode returns the
// number of created Pods. Nodes whose Pod was refused before are tried last. All errors are final, as in
// fanout.Pass.Create.
func (t *Turn[O]) CreatePerNode(ctx context.Context, nodes []string, from NodeTemplates) (made int, err error) {
	if len(nodes) == 0 {
		return 0, nil
	}
	template, rev, err := t.templateOf(from)
	if err != nil {
		return 0, reason.Final(err)
	}
	owner := t.Owner
	// A Pod that somebody has created for the owner since the decision does not reserve its name: CreatePerNode requests
	// the same name again, and the API server refuses the second Pod.
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

// templateOf returns the template of new Pods and the name of its revision; the name is empty if there are no
// revisions.
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

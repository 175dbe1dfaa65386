package daemonset

import (
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/workloadkit/workloadkit/adopt"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/examples/kruise/predownload"
	"github.com/workloadkit/workloadkit/examples/kruise/restart"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/pernode"
)

// observation contains all inputs of a reconciliation.
type observation struct {
	set      *v1beta1.DaemonSet
	settings *settings
	fit      *fit
	nodes    []*corev1.Node
	pods     *podcontrol.Set
	perNode  *podcontrol.PerNode
	orphans  []*corev1.Pod
	history  *revision.History
	// frozen is the number of Pods that count as updated only because of the label with their template generation.
	frozen int
	// twins are revisions besides the newest revision that have the same template as the newest revision. Pods at a
	// twin need no update.
	twins []*appsv1.ControllerRevision
	// restarts is the state of the containers whose restart the spec requests.
	restarts *restart.View
	// downloads is nil if no image is pulled before a rollout.
	downloads *predownload.View
}

// todo says what a reconciliation must do. The steps are carried out in the order of the fields, up to and including
// the first step that changes an object.
type todo struct {
	release, adopt []*corev1.Pod
	// relabel are Pods whose revision is a twin: an older revision with the same template as the newest revision.
	// Such a Pod only needs the label of the newest revision. keepTwins is true if twins must not be deleted yet,
	// because the update state of other Pods names a twin.
	relabel   []*corev1.Pod
	keepTwins bool
	step      pernode.Step
	remove    []*corev1.Pod
	update    []*corev1.Pod
	// burst is the largest number of Pods that one reconciliation may create, delete or update.
	burst int
	// odd are valid values of the spec that probably have an unintended effect; held are the lifecycle hooks and the
	// disruption budgets for which Pods wait.
	odd, held reason.List
	restart   *restart.Plan
	download  *predownload.Plan
}

// decide plans a whole reconciliation. The decision depends on o alone. The error says what is invalid in the spec.
func decide(o *observation) (*todo, error) {
	t := &todo{release: o.pods.NotSelected}
	owner := adopt.Owner{UID: o.set.UID, Namespace: o.set.Namespace, Selector: o.settings.selector, Deleting: o.set.DeletionTimestamp != nil}
	split, err := adopt.Split(owner, "Pod", o.orphans, adopt.Options{Adopt: true})
	if err != nil {
		return nil, err
	}
	t.adopt = split.Adopt
	if len(o.twins) > 0 {
		t.relabel = o.pods.Select(func(p *podcontrol.Pod) bool { return isAtTwin(p.Pod, o.twins) && !p.Updating })
		t.keepTwins = len(o.pods.Select(func(p *podcontrol.Pod) bool { return isAtTwin(p.Pod, o.twins) && p.Updating })) > 0
	}
	nodes, fitting := make([]pernode.Node, len(o.nodes)), 0
	for i, node := range o.nodes {
		c := o.fit.claim(node)
		nodes[i] = pernode.Node{Name: node.Name, Run: c.Run, Continue: c.Continue, Excluded: c.Excluded}
		if c.Run {
			fitting++
		}
	}
	spec, burst, problems := o.settings.count(o.set, fitting)
	if problems != nil {
		return nil, problems
	}
	if t.step, err = pernode.Plan(spec, nodes, o.perNode.Pods); err != nil {
		return nil, err
	}
	t.step.Limits = explainSurge(t.step.Limits, crowdingOf(o.set))
	t.burst, t.odd = burst, slices.Concat(o.settings.warnings, o.fit.oddities, o.oddities(burst))
	t.remove, t.update = o.perNode.Of(t.step.Delete), o.perNode.Of(t.step.Update)
	t.restart = restart.Decide(o.restarts, o.pods, func() restart.Rules { return o.restartRules(spec) })
	t.download = predownload.Decide(o.downloads, o.pods, func() predownload.Rules { return o.downloadRules(spec, fitting) })
	return t, nil
}

// downloadRules returns the rules by which images are pulled before the rollout. A DaemonSet's new Pod runs on the
// Node of the old Pod, so images are also pulled for Pods that will be recreated.
func (o *observation) downloadRules(spec pernode.Spec, fitting int) predownload.Rules {
	return predownload.Rules{
		Settings: o.settings.download, Replicas: fitting, IsShort: spec.OnDelete || spec.Partition == 0 && spec.MaxUnavailable >= fitting,
		Order: o.restartRules(spec).Order,
	}
}

// restartRules returns the rules for a restart, which are those of an update. Pods on excluded Nodes are not restarted,
// and a fitting Node without a Pod counts as unavailable.
func (o *observation) restartRules(spec pernode.Spec) restart.Rules {
	bare, excluded := sets.New[string](), sets.New[string]()
	for _, node := range o.nodes {
		if c := o.fit.claim(node); c.Excluded {
			excluded.Insert(node.Name)
		} else if c.Run {
			bare.Insert(node.Name)
		}
	}
	for i := range o.pods.Active {
		node, _ := nodefit.NodeOf(o.pods.Active[i].Pod)
		bare.Delete(node)
	}
	keeps := func(pod *corev1.Pod) bool { return excluded.Has(pod.Spec.NodeName) }
	return restart.Rules{
		Replicas: len(o.pods.Active) + bare.Len(), Partition: spec.Partition, MaxUnavailable: spec.MaxUnavailable, Paused: spec.Paused, Paths: spec.Paths, Keeps: keeps,
		Order: func() []*corev1.Pod {
			return slices.Concat(o.pods.Select(func(p *podcontrol.Pod) bool { return !keeps(p.Pod) }), o.pods.Select(func(p *podcontrol.Pod) bool { return keeps(p.Pod) }))
		},
	}
}

// isAtTwin reports whether the revision of a Pod is one of the twins.
func isAtTwin(pod *corev1.Pod, twins []*appsv1.ControllerRevision) bool {
	return slices.ContainsFunc(twins, func(twin *appsv1.ControllerRevision) bool {
		return revision.Same(pod.Labels[apps.LabelRevision], twin.Name)
	})
}

// claim says how a DaemonSet uses a Node: whether a new Pod may run there, whether a running Pod may stay, and whether
// updates exclude the Node.
type claim struct{ Run, Continue, Excluded bool }

// fit decides which Nodes a DaemonSet uses, and which Pods belong to the DaemonSet. The zero value uses no Nodes and no
// Pods.
type fit struct {
	selector     labels.Selector
	requirements *nodefit.Requirements
	updated      labels.Selector // nil selects all Nodes for updates
	// oddities are requirements of the template that no Node can meet.
	oddities reason.List
}

// newFit compiles the requirements that the Pod template of a valid DaemonSet sets for Nodes.
func newFit(set *v1beta1.DaemonSet, selector labels.Selector) *fit {
	spec, f := &set.Spec.Template.Spec, &fit{selector: selector}
	requirements, err := nodefit.New(spec, nodefit.DaemonSetTolerations(spec.HostNetwork)...)
	f.requirements = requirements
	f.oddities.Add(nodefit.InvalidNodeTerm, err)
	// A few reasons are enough if thousands of terms have the same error.
	f.oddities = slices.Clone(f.oddities[:min(len(f.oddities), kruise.ReasonsInEvent)])
	if selector := rollingOf(set).Selector; selector != nil {
		f.updated = (&judge.Reading{}).Selector(rollingUpdate+".selector", selector)
	}
	return f
}

// fitOf returns the fit of a DaemonSet. An invalid DaemonSet gets the zero value.
func fitOf(set *v1beta1.DaemonSet, gates map[apps.Gate]bool) *fit {
	s, problems, _ := resolve(set, gates)
	if problems != nil {
		return &fit{}
	}
	return newFit(set, s.selector)
}

func (f *fit) selects(pod *corev1.Pod) bool {
	return f.selector != nil && f.selector.Matches(labels.Set(pod.Labels))
}

func (f *fit) claim(node *corev1.Node) claim {
	if f.requirements == nil {
		return claim{}
	}
	verdict := f.requirements.Fits(node)
	c := claim{Run: verdict.Run, Continue: verdict.Continue}
	c.Excluded = c.Continue && f.updated != nil && !f.updated.Matches(labels.Set(node.Labels))
	return c
}

// describe assigns the Pods to their Nodes. If the DaemonSet has the annotation with a template generation, Pods with
// the same generation in a label count as updated.
func (o *observation) describe(options podcontrol.PerNodeOptions) *podcontrol.PerNode {
	perNode, generation := o.pods.PerNode(options), o.set.Annotations[apps.AnnotationTemplateGeneration]
	if generation == "" && len(o.twins) == 0 {
		return perNode
	}
	for i := range perNode.Pods {
		p, pod := &perNode.Pods[i], perNode.Of([]int{i})[0]
		switch {
		case p.Updated:
		case isAtTwin(pod, o.twins):
			p.Updated = true
		case generation != "" && pod.Labels[apps.LabelTemplateGeneration] == generation:
			p.Updated = true
			o.frozen++
		}
	}
	return perNode
}

// explainSurge changes the reason why updates wait for maxSurge, if a new Pod cannot run beside the old Pod on the
// same Node: the changed reason does not suggest a higher maxSurge.
func explainSurge(limits reason.List, crowding *crowding) reason.List {
	for i := range limits {
		if why := &limits[i]; crowding != nil && why.Code == rollout.UpdateLimited && why.Path == rollingUpdate+".maxSurge" {
			why.Detail += "; two may not run on one Node, because of " + crowding.Path + " " + crowding.Value
			why.Remedy = crowdingRemedy
		}
	}
	return limits
}

// oddities returns reasons why the controller cannot do its work even though all values are valid.
func (o *observation) oddities(burst int) (odd reason.List) {
	if burst == 0 {
		odd = append(odd, reason.Reason{
			Code: judge.OddValue, Path: "spec.burstReplicas", New: "0", Detail: "no Pod is created, deleted or updated", Remedy: "use 1 or more",
		})
	}
	if crowding := crowdingOf(o.set); crowding != nil && crowding.Certain {
		odd = append(odd, reason.Reason{
			Code: judge.OddValue, Path: crowding.Path, New: crowding.Value,
			Detail: "the port has room for one Pod on a Node, so no update with maxSurge ends", Remedy: crowdingRemedy,
		})
	}
	if o.frozen > 0 {
		odd = append(odd, reason.Reason{
			Code: judge.OddValue, Path: "metadata.annotations[" + apps.AnnotationTemplateGeneration + "]", New: o.set.Annotations[apps.AnnotationTemplateGeneration],
			Detail: strconv.Itoa(o.frozen) + " Pods of other revisions are not updated, because they are of this generation", Remedy: "raise it, or remove it",
		})
	}
	return odd
}

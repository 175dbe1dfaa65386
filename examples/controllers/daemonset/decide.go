package daemonset

import (
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/adopt"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/daemonset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout"
)

// observation is everything that a pass is decided on.
type observation struct {
	set      *v1beta1.DaemonSet
	settings *settings
	fit      *fit
	nodes    []*corev1.Node
	pods     *podcontrol.Set
	perNode  *podcontrol.PerNode
	orphans  []*corev1.Pod
	history  *revision.History
	// frozen is how many Pods count as updated for their generation alone.
	frozen int
	// twins are other revisions of the same template as the newest. Pods at them are not to be updated for it.
	twins []*appsv1.ControllerRevision
}

// todo is a whole pass as data. What comes first is done first, and what comes after it only if that has changed nothing.
type todo struct {
	release, adopt []*corev1.Pod
	// relabel are Pods at a twin, a revision of the same template as the newest. keepTwins says that other Pods still name a twin: the state of an
	// update that goes on names its revision.
	relabel   []*corev1.Pod
	keepTwins bool
	step      rollout.NodeStep
	remove    []*corev1.Pod
	update    []*corev1.Pod
	// burst is how many Pods are created at most, how many deleted and how many updated.
	burst int
	// odd is what of the spec is not what was meant, presumably.
	odd reason.List
}

// decide decides a whole pass. It depends on its argument alone. The error says what of the spec makes no sense.
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
	nodes, fitting := make([]rollout.Node, len(o.nodes)), 0
	for i, node := range o.nodes {
		c := o.fit.claim(node)
		nodes[i] = rollout.Node{Name: node.Name, Run: c.Run, Continue: c.Continue, Excluded: c.Excluded}
		if c.Run {
			fitting++
		}
	}
	spec, burst, problems := o.settings.count(o.set, fitting)
	if problems != nil {
		return nil, problems
	}
	if t.step, err = rollout.PerNode(spec, nodes, o.perNode.Pods); err != nil {
		return nil, err
	}
	t.step.Limits = explainSurge(t.step.Limits, api.CrowdingOf(o.set))
	t.burst, t.odd = burst, slices.Concat(o.settings.warnings, o.fit.oddities, o.oddities(burst))
	t.remove, t.update = o.perNode.Of(t.step.Delete), o.perNode.Of(t.step.Update)
	return t, nil
}

// isAtTwin reports whether a Pod is at a revision of the same template as the newest.
func isAtTwin(pod *corev1.Pod, twins []*appsv1.ControllerRevision) bool {
	return slices.ContainsFunc(twins, func(twin *appsv1.ControllerRevision) bool {
		return revision.Same(pod.Labels[apps.LabelRevision], twin.Name)
	})
}

// claim is what a Node is to a DaemonSet.
type claim struct{ Run, Continue, Excluded bool }

// fit says what Nodes and Pods are to a DaemonSet. The zero value has no interest in any.
type fit struct {
	selector     labels.Selector
	requirements *nodefit.Requirements
	updated      labels.Selector // nil for all
	// oddities are what of the template no Node can fulfil.
	oddities reason.List
}

// newFit compiles what a DaemonSet whose spec can be used requires of Nodes.
func newFit(set *v1beta1.DaemonSet, selector labels.Selector) *fit {
	spec, f := &set.Spec.Template.Spec, &fit{selector: selector}
	requirements, err := nodefit.New(spec, nodefit.DaemonSetTolerations(spec.HostNetwork)...)
	f.requirements = requirements
	f.oddities.Add(nodefit.InvalidNodeTerm, err)
	f.oddities = slices.Clone(f.oddities[:min(len(f.oddities), kruise.ReasonsInEvent)]) // the first tell what is wrong with thousands
	if selector := rollingOf(set).Selector; selector != nil {
		f.updated = (&kruise.Reading{}).Selector(rollingUpdate+".selector", selector)
	}
	return f
}

// fitOf is the fit of a DaemonSet. One that no Pod is made for has no interest in Nodes and Pods.
func fitOf(set *v1beta1.DaemonSet, gates map[apps.Gate]bool) *fit {
	s, problems := resolve(set, gates)
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

// describe describes the Pods by their Nodes. Pods that are as old as the generation of templates are told by that.
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

// explainSurge says of an update that waits for room beside old Pods when there is none: a higher limit does not help.
func explainSurge(limits reason.List, crowding *api.Crowding) reason.List {
	for i := range limits {
		if why := &limits[i]; crowding != nil && why.Code == rollout.UpdateLimited && why.Path == rollingUpdate+".maxSurge" {
			why.Detail += "; two may not run on one Node, because of " + crowding.Path + " " + crowding.Value
			why.Remedy = api.CrowdingRemedy
		}
	}
	return limits
}

// oddities are what keeps the controller from its work although every value is a good one.
func (o *observation) oddities(burst int) (odd reason.List) {
	if burst == 0 {
		odd = append(odd, reason.Reason{
			Code: kruise.OddValue, Path: "spec.burstReplicas", New: "0", Detail: "no Pod is created, deleted or updated", Remedy: "use 1 or more",
		})
	}
	if crowding := api.CrowdingOf(o.set); crowding != nil && crowding.Certain {
		odd = append(odd, reason.Reason{
			Code: kruise.OddValue, Path: crowding.Path, New: crowding.Value,
			Detail: "the port has room for one Pod on a Node, so no update with maxSurge ends", Remedy: api.CrowdingRemedy,
		})
	}
	if o.frozen > 0 {
		odd = append(odd, reason.Reason{
			Code: kruise.OddValue, Path: "metadata.annotations[" + apps.AnnotationTemplateGeneration + "]", New: o.set.Annotations[apps.AnnotationTemplateGeneration],
			Detail: strconv.Itoa(o.frozen) + " Pods of other revisions are not updated, because they are of this generation", Remedy: "raise it, or remove it",
		})
	}
	return odd
}

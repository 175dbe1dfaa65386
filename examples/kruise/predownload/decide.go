package predownload

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podcontrol"
)

// View contains the state of a rollout and of the workload's ImagePullJobs. A nil View means that no images are
// pulled before rollouts, because a feature gate is off or the API server does not serve ImagePullJobs.
type View struct {
	// Owner becomes the owner reference of new jobs. Namespace is the workload's namespace.
	Owner     metav1.OwnerReference
	Namespace string
	// Selector and Template are the selector and the Pod template of the workload's spec. Update is the revision with
	// this template.
	Selector *metav1.LabelSelector
	Template *corev1.PodTemplateSpec
	Update   *appsv1.ControllerRevision
	// TemplateOf returns the template of the revision that a Pod's label names; nil if the revision is unknown.
	TemplateOf func(revision string) *corev1.PodTemplateSpec
	// Jobs are the ImagePullJobs that the workload controls.
	Jobs []*v1beta1.ImagePullJob
}

// Few is the largest number of Pods that are updated in place without pulling images beforehand, as in OpenKruise.
const Few = 3

// Rules are the values of a rollout on which the decision depends whether images are pulled before the update.
type Rules struct {
	Settings

	// Replicas is the wanted number of Pods.
	Replicas int
	// IsShort is true if the rollout is too short for an advance pull: all Pods may be updated at once, or the
	// workload has few Pods.
	IsShort bool
	// InPlace reports whether an outdated Pod can be updated in place. Nil means that the new Pod always runs on the
	// Node of the old Pod.
	InPlace func(*corev1.Pod) bool
	// Order returns the Pods in the order in which they are updated.
	Order func() []*corev1.Pod
}

// Plan contains the writes of a reconciliation for pulling images.
type Plan struct {
	// Create are the jobs to create. Label is the label to set on the update revision after all jobs exist; empty if
	// an earlier reconciliation has set the label, or if the decision must wait.
	Create []*v1beta1.ImagePullJob
	Label  string
	// Delete are the jobs of former rollouts.
	Delete []*v1beta1.ImagePullJob
}

// Decide decides which jobs to create and delete. The decision depends on the arguments alone. rulesOf is called only
// if the decision about the update revision is still to be made.
func Decide(v *View, set *podcontrol.Set, rulesOf func() Rules) *Plan {
	p := &Plan{}
	if v == nil {
		return p
	}
	isOver := !slices.ContainsFunc(set.Active, func(pod podcontrol.Pod) bool { return isOutdated(&pod) })
	begun := v.sort(p, isOver)
	if isOver || v.isDecided() {
		return p
	}
	rules := rulesOf()
	switch {
	case begun.Len() > 0:
	case rules.IsShort:
		p.Label = apps.LabelPreDownloadIgnored
		return p
	case readyAtUpdate(set) < rules.minReady(rules.Replicas):
		return p
	}
	outdated := slices.DeleteFunc(slices.Clone(rules.Order()), func(pod *corev1.Pod) bool {
		facts := set.Of(pod)
		return facts == nil || !isOutdated(facts)
	})
	changed := v.changed(set, outdated, rules.InPlace)
	p.Label = apps.LabelPreDownloadCreated
	if len(changed) == 0 && begun.Len() == 0 {
		p.Label = apps.LabelPreDownloadIgnored
	}
	order := nodesOf(outdated)
	for _, container := range changed {
		if job := v.job(container, rules.Settings, order); !begun.Has(job.Name) {
			p.Create = append(p.Create, job)
		}
	}
	return p
}

// sort sets the field Delete of the plan, and returns the names of the jobs that stay: jobs of the update revision,
// possibly created by an earlier reconciliation that could not record the decision.
func (v *View) sort(p *Plan, isOver bool) sets.Set[string] {
	stay := sets.New[string]()
	for _, job := range v.Jobs {
		switch {
		case job.DeletionTimestamp != nil:
		case isOver || !strings.HasPrefix(job.Name, v.Update.Name+"-"):
			p.Delete = append(p.Delete, job)
		default:
			stay.Insert(job.Name)
		}
	}
	slices.SortFunc(p.Delete, func(a, b *v1beta1.ImagePullJob) int { return strings.Compare(a.Name, b.Name) })
	return stay
}

// isOutdated reports whether a Pod waits for the update.
func isOutdated(pod *podcontrol.Pod) bool { return !pod.Updated && !pod.Leaving }

// isDecided reports whether the decision about the update revision is recorded.
func (v *View) isDecided() bool {
	return v.Update.Labels[apps.LabelPreDownloadCreated] == "true" || v.Update.Labels[apps.LabelPreDownloadIgnored] == "true"
}

func readyAtUpdate(set *podcontrol.Set) (n int) {
	for i := range set.Active {
		if set.Active[i].Updated && set.Active[i].Ready {
			n++
		}
	}
	return n
}

// changed returns the containers of the template that are new, or have another image than in the revision of some
// outdated Pod. Of several containers with the same image, only the first is returned.
func (v *View) changed(set *podcontrol.Set, outdated []*corev1.Pod, inPlace func(*corev1.Pod) bool) (out []*corev1.Container) {
	former := map[string]*corev1.PodTemplateSpec{}
	for _, pod := range outdated {
		label := set.Of(pod).Revision
		if _, known := former[label]; !known && (inPlace == nil || inPlace(pod)) {
			former[label] = v.TemplateOf(label)
		}
	}
	images := sets.New[string]()
	for _, list := range [][]corev1.Container{v.Template.Spec.InitContainers, v.Template.Spec.Containers} {
		for i := range list {
			for _, template := range former {
				if template == nil || imageIn(template, list[i].Name) != list[i].Image {
					if !images.Has(list[i].Image) {
						out = append(out, &list[i])
					}
					images.Insert(list[i].Image)
					break
				}
			}
		}
	}
	return out
}

// imageIn returns the image of the container with a given name in a template; empty if there is no such container.
func imageIn(template *corev1.PodTemplateSpec, name string) string {
	for _, list := range [][]corev1.Container{template.Spec.InitContainers, template.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return list[i].Image
			}
		}
	}
	return ""
}

// mostNodes is the largest number of Nodes in the annotation with the order of Nodes. Further Nodes pull later, in
// the order of their names.
const mostNodes = 1000

// nodesOf returns the names of the Nodes of Pods, each Node once, in the order of the Pods.
func nodesOf(pods []*corev1.Pod) (names []string) {
	seen := sets.New[string]()
	for _, pod := range pods {
		if node := pod.Spec.NodeName; node != "" && !seen.Has(node) && len(names) < mostNodes {
			seen.Insert(node)
			names = append(names, node)
		}
	}
	return names
}

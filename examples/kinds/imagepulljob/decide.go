package imagepulljob

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/nodeimage/onnode"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/node/imagepull/kubeletpull"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// observation contains all inputs of a reconciliation.
type observation struct {
	Job      *v1beta1.ImagePullJob
	Settings *settings
	// Selected are the names of the Nodes that the job selects. Targets are the selected Nodes that can pull, now or
	// later. Both lists are in the order in which pulls begin.
	Selected []string
	Targets  []target
	// Missing are the names in the spec for which no Node exists.
	Missing []string
	// Claimed are the NodeImages with claims of the job. A claim is a request of a job for an image.
	Claimed []*v1beta1.NodeImage
	// Secrets are references to the job's pull secrets, in the form in which NodeImages contain references.
	Secrets []v1beta1.ReferenceObject
	// Puller decides about the Pods of the job, if kubelets pull. Pods are the Pods of the job, keyed by the names of
	// their Nodes.
	Puller *kubeletpull.Puller
	Pods   map[string][]*corev1.Pod
	// IsResting is true if no Pod may be created now, because an earlier creation was refused a moment ago.
	IsResting bool
	// Memory contains facts from earlier decisions.
	Memory memory
	Now    time.Time
}

// target is a selected Node. Exactly one of the agent and the kubelet pulls on the Node.
type target struct {
	Name string
	// Image is the NodeImage of the Node, through which the agent pulls; nil if there is none yet.
	Image *v1beta1.NodeImage
	// Node is the Node if the kubelet pulls; otherwise nil.
	Node *corev1.Node
	// NotReady says why the Node cannot pull now; empty if the Node can pull.
	NotReady string
	// Unable is the reason why the kubelet cannot pull although the job asks for kubelets: the agent pulls if Image
	// is set, and otherwise the Node fails. The code is empty if the kubelet can pull.
	Unable reason.Reason
}

// decision says what a reconciliation must do.
type decision struct {
	Step imagepull.JobStep
	// Claim are the NodeImages that get a claim, a request of the job for its image, or references to Secrets now, in
	// order.
	Claim []*v1beta1.NodeImage
	// Release are the NodeImages with claims of the job for an earlier image, or for a Node that is not selected any
	// more.
	Release []*v1beta1.NodeImage
	// Change, Create and Delete are Pods to patch, to create and to delete.
	Change, Create, Delete []*corev1.Pod
	// Memory contains facts for the next decisions.
	Memory memory
	// After is the time after which decide must be called again even if no event occurs; 0 for never.
	After time.Duration
	// Status is the status to write.
	Status v1beta1.ImagePullJobStatus
}

// decide plans a whole reconciliation for a job with valid settings. The decision depends on o alone.
func decide(o *observation) *decision {
	d := &decision{Memory: o.recall()}
	targets := o.inTurn()
	nodes := make([]imagepull.Node, len(targets))
	byName := make(map[string]*target, len(targets))
	for i := range targets {
		nodes[i] = o.look(&targets[i], d)
		byName[nodes[i].Name] = &targets[i]
	}
	progress := imagepull.Progress{Started: timeOf(o.Job.Status.StartTime), Ended: timeOf(o.Job.Status.CompletionTime)}
	if progress.Started.IsZero() {
		progress.Started = o.Now
	}
	d.Step = imagepull.Plan(nodes, o.Settings.rules, progress, o.Now)
	d.wake(d.Step.After)
	for _, names := range [][]string{d.Step.Start, d.Step.AddSecrets} {
		for _, name := range names {
			if t := byName[name]; t.Node != nil {
				o.begin(t, d)
			} else {
				d.Claim = append(d.Claim, t.Image)
			}
		}
	}
	if progress.Ended.IsZero() {
		d.Release = o.stale(byName)
	}
	o.makeRoom(targets, nodes, d)
	o.tidyPods(byName, d)
	d.Status = o.status(&d.Step, nodes)
	return d
}

// wake makes the caller decide again after a while.
func (d *decision) wake(after time.Duration) {
	if after > 0 && (d.After == 0 || after < d.After) {
		d.After = after
	}
}

// look returns the progress of the job on a Node.
func (o *observation) look(t *target, d *decision) imagepull.Node {
	node := imagepull.Node{Name: t.Name, NotReady: t.NotReady}
	switch {
	case t.Node != nil:
		return o.lookAtPods(t, d)
	case t.Image == nil && t.Unable.Code != "":
		node.Standing = imagepull.Standing{State: imagepull.Broken, Why: t.Unable}
		return node
	case t.Image == nil:
		node.Standing = imagepull.Standing{State: imagepull.Unclaimed}
		return node
	}
	wants, reports := onnode.Look(t.Image, o.Settings.image, o.Now)
	node.Standing = imagepull.Judge(wants, reports, o.Settings.image, owner(o.Job), o.Now)
	node.LacksSecret = len(o.Secrets) > 0 && node.Standing.State == imagepull.Active && onnode.Lacks(&t.Image.Spec, o.Settings.image, o.Secrets)
	return node
}

func owner(job *v1beta1.ImagePullJob) imagepull.Owner { return imagepull.Owner(job.UID) }

// stale returns the NodeImages from which claims, the job's requests for images, must be removed, because the job's
// image or the selected Nodes have changed. If the cache does not show a selected Node, the claims stay, because the
// cache may be outdated and the Node may have been created again. If the Node was deleted, the NodeImage is deleted
// too. No claim is needed on a Node whose kubelet pulls, or on a Node that fails because the kubelet cannot pull.
func (o *observation) stale(targets map[string]*target) (out []*v1beta1.NodeImage) {
	selected := sets.New(o.Selected...)
	for _, image := range o.Claimed {
		if len(image.Spec.Undecodable) > 0 {
			continue
		}
		for _, want := range onnode.Wants(&image.Spec) {
			isOwn := slices.ContainsFunc(want.Claims, func(c imagepull.Claim) bool { return c.Owner == owner(o.Job) })
			t := targets[image.Name]
			if isOwn && (!selected.Has(image.Name) || want.Image != o.Settings.image || t != nil && t.Unable.Code != "" && t.Image == nil || t != nil && t.Node != nil) {
				out = append(out, image)
				break
			}
		}
	}
	slices.SortFunc(out, func(a, b *v1beta1.NodeImage) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// claim adds the job's request for the image to a NodeImage, and reports whether the NodeImage has changed. secrets
// are the pull secrets of all owners of the tag.
func (s *settings) claim(job *v1beta1.ImagePullJob, image *v1beta1.NodeImage, secrets []v1beta1.ReferenceObject, now time.Time) (changed bool, err error) {
	wants := onnode.Wants(&image.Spec)
	reports, _ := imagepull.Merge(wants, nil, onnode.Reports(image), now)
	if imagepull.Judge(wants, reports, s.image, owner(job), now).State == imagepull.Unclaimed {
		wants, err = imagepull.AddClaim(wants, reports, s.image, imagepull.Claim{Owner: owner(job), Since: now, Policy: s.policy})
		if err != nil {
			return false, err
		}
		ref := corev1.ObjectReference{
			APIVersion: v1beta1.GroupVersion.String(), Kind: "ImagePullJob", Namespace: job.Namespace, Name: job.Name, UID: job.UID,
		}
		changed = onnode.SetWants(&image.Spec, wants, map[imagepull.Owner]corev1.ObjectReference{owner(job): ref}, now)
		changed = onnode.SetSandbox(&image.Spec, s.image, job.Spec.SandboxConfig) || changed
	}
	return onnode.SetSecrets(&image.Spec, s.image, secrets) || changed, nil
}

// release removes the job's requests for images from a NodeImage, except the requests for the images in kept.
func release(job *v1beta1.ImagePullJob, image *v1beta1.NodeImage, now time.Time, kept ...imagepull.Reference) (changed bool) {
	return onnode.SetWants(&image.Spec, imagepull.Release(onnode.Wants(&image.Spec), owner(job), kept...), nil, now)
}

// nodesOfPods returns the names of the Nodes of active Pods that a selector matches, each Node once, sorted by name.
func nodesOfPods(pods []*corev1.Pod, selector labels.Selector) (names []string) {
	for _, pod := range pods {
		if pod.Spec.NodeName != "" && !isOfJob(pod) && podstate.IsActive(pod) && selector.Matches(labels.Set(pod.Labels)) {
			names = append(names, pod.Spec.NodeName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// inOrder sorts names of Nodes: the names in first come first, in that order, and the others follow by name.
func inOrder(names, first []string) []string {
	rank := make(map[string]int, len(first))
	for i, name := range first {
		if _, known := rank[name]; !known {
			rank[name] = i - len(first)
		}
	}
	out := slices.Clone(names)
	slices.SortFunc(out, func(a, b string) int {
		if before := rank[a] - rank[b]; before != 0 {
			return before
		}
		return strings.Compare(a, b)
	})
	return out
}

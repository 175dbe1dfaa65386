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
	"github.com/workloadkit/workloadkit/podstate"
)

// observation contains all inputs of a reconciliation.
type observation struct {
	Job      *v1beta1.ImagePullJob
	Settings *settings
	// Selected are the names of the Nodes that the job selects. Targets are the Nodes among them that exist and have a
	// NodeImage. Both have the order in which the Nodes begin.
	Selected []string
	Targets  []target
	// Claimed are the NodeImages with claims of the job.
	Claimed []*v1beta1.NodeImage
	// Secrets are the job's pull secrets, as NodeImages name the Secrets.
	Secrets []v1beta1.ReferenceObject
	Now     time.Time
}

// target is a selected Node.
type target struct {
	Image *v1beta1.NodeImage
	// NotReady says why the Node cannot pull now; empty if the Node can.
	NotReady string
}

// decision says what a reconciliation must do.
type decision struct {
	Step imagepull.JobStep
	// Claim are the NodeImages that get a claim or secrets now, in order.
	Claim []*v1beta1.NodeImage
	// Release are the NodeImages with claims of the job for an earlier image, or for a Node that is not selected any
	// more.
	Release []*v1beta1.NodeImage
	// Status is the status to write.
	Status v1beta1.ImagePullJobStatus
}

// decide plans a whole reconciliation for a job with valid settings, from its argument alone.
func decide(o *observation) *decision {
	nodes := make([]imagepull.Node, len(o.Targets))
	byName := make(map[string]*v1beta1.NodeImage, len(o.Targets))
	for i := range o.Targets {
		nodes[i] = o.look(&o.Targets[i])
		byName[nodes[i].Name] = o.Targets[i].Image
	}
	progress := imagepull.Progress{Started: timeOf(o.Job.Status.StartTime), Ended: timeOf(o.Job.Status.CompletionTime)}
	if progress.Started.IsZero() {
		progress.Started = o.Now
	}
	d := &decision{Step: imagepull.Plan(nodes, o.Settings.rules, progress, o.Now)}
	for _, names := range [][]string{d.Step.Start, d.Step.AddSecrets} {
		for _, name := range names {
			d.Claim = append(d.Claim, byName[name])
		}
	}
	if progress.Ended.IsZero() {
		d.Release = o.stale()
	}
	d.Status = o.status(&d.Step, nodes)
	return d
}

// look says how far the job is on a Node.
func (o *observation) look(t *target) imagepull.Node {
	node := imagepull.Node{Name: t.Image.Name, NotReady: t.NotReady}
	wants, reports := onnode.Look(t.Image, o.Settings.image, o.Now)
	node.Standing = imagepull.Judge(wants, reports, o.Settings.image, owner(o.Job), o.Now)
	node.LacksSecret = len(o.Secrets) > 0 && node.Standing.State == imagepull.Active && onnode.Lacks(&t.Image.Spec, o.Settings.image, o.Secrets)
	return node
}

func owner(job *v1beta1.ImagePullJob) imagepull.Owner { return imagepull.Owner(job.UID) }

// stale returns the NodeImages in which the job must release claims: after a change of the image or of the selected
// Nodes, no claim of the job may stay behind. A selected Node that seems to be gone keeps its claims: the NodeImage goes
// with the Node, and a Node that was created again can be missing in an outdated cache.
func (o *observation) stale() (out []*v1beta1.NodeImage) {
	selected := sets.New(o.Selected...)
	for _, image := range o.Claimed {
		if len(image.Spec.Undecodable) > 0 {
			continue
		}
		for _, want := range onnode.Wants(&image.Spec) {
			isOwn := slices.ContainsFunc(want.Claims, func(c imagepull.Claim) bool { return c.Owner == owner(o.Job) })
			if isOwn && (!selected.Has(image.Name) || want.Image != o.Settings.image) {
				out = append(out, image)
				break
			}
		}
	}
	slices.SortFunc(out, func(a, b *v1beta1.NodeImage) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// claim adds the claim of the job to a NodeImage, and reports whether the NodeImage has changed. secrets are the pull
// secrets of all owners of the tag.
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

// release removes the claims of the job from a NodeImage, except the claim for a kept image.
func release(job *v1beta1.ImagePullJob, image *v1beta1.NodeImage, now time.Time, kept ...imagepull.Reference) (changed bool) {
	return onnode.SetWants(&image.Spec, imagepull.Release(onnode.Wants(&image.Spec), owner(job), kept...), nil, now)
}

// nodesOfPods returns the names of the Nodes of active Pods that a selector matches, each Node once. Nodes come first
// that are first in the given list; the others follow in the order of their names.
func nodesOfPods(pods []*corev1.Pod, selector labels.Selector) (names []string) {
	for _, pod := range pods {
		if pod.Spec.NodeName != "" && podstate.IsActive(pod) && selector.Matches(labels.Set(pod.Labels)) {
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

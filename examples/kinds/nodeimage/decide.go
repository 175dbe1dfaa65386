package nodeimage

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/nodeimage/onnode"
	"github.com/workloadkit/workloadkit/node/imagepull"
)

// observation contains all inputs of a reconciliation.
type observation struct {
	// Node is the Node. Image is the NodeImage with the Node's name, or nil if there is none.
	Node  *corev1.Node
	Image *v1beta1.NodeImage
	// Delay is how long a Node must have been ready before the NodeImage is created.
	Delay time.Duration
	// Exists reports whether the owner of a tag exists. Runs reports whether the owner is a job that has not ended
	// and still counts the results of its Nodes.
	Exists, Runs func(corev1.ObjectReference) bool
	Now          time.Time
}

// decision says what a reconciliation must do.
type decision struct {
	// Create is the NodeImage to create, and Change is the changed NodeImage to write; nil if there is nothing to
	// write. If Delete is true, the NodeImage must be deleted.
	Create, Change *v1beta1.NodeImage
	Delete         bool
	// After is the time after which decide must be called again even if no event occurs; 0 for never.
	After time.Duration
}

// decide plans a whole reconciliation. The decision depends on o alone.
func decide(o *observation) (d decision) {
	switch isVirtual := o.Node.Labels[apps.LabelNodeType] == apps.NodeTypeVirtualKubelet; {
	case o.Node.DeletionTimestamp != nil:
		d.Delete = isOurs(o.Image)
	case o.Image == nil && !isVirtual:
		d.create(o)
	case o.Image != nil && o.Image.DeletionTimestamp == nil && len(o.Image.Spec.Undecodable) == 0:
		d.tidy(o)
	}
	return d
}

// isOurs reports whether the controller may delete a NodeImage. A NodeImage with the label LabelFakeNodeImage is for
// tests and stays without a Node.
func isOurs(image *v1beta1.NodeImage) bool {
	if image == nil || image.DeletionTimestamp != nil {
		return false
	}
	_, isFake := image.Labels[apps.LabelFakeNodeImage]
	return !isFake
}

func (d *decision) create(o *observation) {
	since, ready := readySince(o.Node)
	if !ready {
		return
	}
	if wait := since.Add(o.Delay).Sub(o.Now); wait > 0 {
		d.After = wait
		return
	}
	d.Create = &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: o.Node.Name, Labels: maps.Clone(o.Node.Labels)}}
}

func readySince(node *corev1.Node) (since time.Time, ready bool) {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// tidy copies the Node's labels to the NodeImage, and removes the tags that no job needs any more.
func (d *decision) tidy(o *observation) {
	next := o.Image.DeepCopy()
	changed := !maps.Equal(next.Labels, o.Node.Labels)
	next.Labels = maps.Clone(o.Node.Labels)
	refs := refsOf(&next.Spec)
	wants := onnode.Wants(&next.Spec)
	for i := range wants {
		for j := range wants[i].Claims {
			// The result of a Node's pull must stay as long as the job runs, because the job may wait long for other
			// Nodes.
			if claim := &wants[i].Claims[j]; claim.Owner != "" && o.Runs(refs[claim.Owner]) {
				claim.Policy.TTL = nil
			}
		}
	}
	reports, _ := imagepull.Merge(wants, nil, onnode.Reports(next), o.Now)
	left, after := imagepull.Sweep(wants, reports, func(owner imagepull.Owner) bool {
		return owner == "" || o.Exists(refs[owner])
	}, o.Now)
	if d.After = after; onnode.SetWants(&next.Spec, left, nil, o.Now) {
		changed = true
	}
	if changed {
		d.Change = next
	}
}

// refsOf returns the references to owners, by UID.
func refsOf(spec *v1beta1.NodeImageSpec) map[imagepull.Owner]corev1.ObjectReference {
	refs := map[imagepull.Owner]corev1.ObjectReference{}
	for _, image := range spec.Images {
		for i := range image.Tags {
			for _, ref := range image.Tags[i].OwnerReferences {
				refs[imagepull.Owner(ref.UID)] = ref
			}
		}
	}
	return refs
}

// ownersOf returns the UIDs of the jobs that own tags.
func ownersOf(image *v1beta1.NodeImage) (uids []types.UID) {
	seen := map[types.UID]bool{}
	for _, in := range image.Spec.Images {
		for i := range in.Tags {
			for _, ref := range in.Tags[i].OwnerReferences {
				if !seen[ref.UID] {
					seen[ref.UID] = true
					uids = append(uids, ref.UID)
				}
			}
		}
	}
	return uids
}

package pvc

import (
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// ClaimInTheWay means that a Pod must not be created yet: a claim of the Pod's name is being deleted, and the Pod would
// lose the claim.
const ClaimInTheWay reason.Code = "ClaimInTheWay"

// NoLookup means that a Pod's claims cannot be found because Numbered.Claim is not set. NoLookup means a bug in the
// calling program.
const NoLookup reason.Code = "NoLookup"

// Numbered decides which claims to create, keep, resize and delete for Pods recreated with the same name, like the
// Pods of a StatefulSet. Templates and Claim are required. The methods of Numbered only read, and see the claims that
// the function Claim returns. If Claim is nil, no Pod may be created, and no claim counts as missing or is resized
// (NoLookup).
type Numbered struct {
	Templates []corev1.PersistentVolumeClaim
	// Claim finds a claim in the owner's namespace by name, whoever owns the claim: a Pod uses any claim with the name.
	// ownercache.Cache.Claims has these claims; a View has only claims with a controller.
	Claim func(name string) (*corev1.PersistentVolumeClaim, bool)
	// Namespace and Labels are set on new claims. Labels are added to the labels of the templates.
	Namespace string
	Labels    map[string]string
	// Retention says with which object claims are deleted. If nil, the owner references of claims are not changed.
	// Owner is the reference to the owner of the Pods, without controller: claims are kept after the owner's deletion
	// unless Retention says otherwise. Owner is required for Owned and Sizes.
	Retention *Retention
	Owner     metav1.OwnerReference
	// Shared reports whether another owner's Pods use a claim. Two owners can share a claim if the names of the owners
	// and of their templates give the same claim name. A shared claim is not deleted with any Pod or owner, and is not
	// resized. Nil means that claims are never shared. Numbered calls Shared if Retention would delete claims, and
	// before a resize.
	Shared func(claim *corev1.PersistentVolumeClaim) bool
	// Rest returns how long the back-off of a claim still lasts after a refused resize, or zero. Nil means that there
	// is no back-off.
	Rest func(claim *corev1.PersistentVolumeClaim) time.Duration
}

// Owned is a claim and its wanted owner references.
type Owned struct {
	*corev1.PersistentVolumeClaim

	Owners []metav1.OwnerReference
}

// Small is a claim to resize to the size in its template.
type Small struct {
	*corev1.PersistentVolumeClaim

	Template *corev1.PersistentVolumeClaim
}

// Sizes compares the claims of a Pod with the sizes in their templates. Missing claims and claims that are being
// deleted do not count.
type Sizes struct {
	// Small are the claims to resize. Rest is the longest remaining back-off of these claims.
	Small []Small
	Rest  time.Duration
	// Stuck says which claims are too small and cannot be resized to match their templates.
	Stuck reason.List
	// Growing says that a volume is smaller than its claim requests. NeedsRestart says that all such volumes only wait
	// for a restart of the Pod.
	Growing, NeedsRestart bool
}

// Fit reports whether all claims request at least the size in their templates.
func (s *Sizes) Fit() bool { return len(s.Small) == 0 && len(s.Stuck) == 0 }

// Ready reports whether no claim delays an update of the Pod. A claim that waits for a restart does not delay the
// update, because the update may restart the Pod.
func (s *Sizes) Ready() bool { return s.Fit() && (!s.Growing || s.NeedsRestart) }

func (n *Numbered) isShared(claim *corev1.PersistentVolumeClaim) bool {
	return n.Shared != nil && n.Shared(claim)
}

// each calls f for each claim template with the claim of the Pod, nil if missing.
func (n *Numbered) each(pod string, f func(template, claim *corev1.PersistentVolumeClaim)) {
	if n.Claim == nil {
		return
	}
	for i := range n.Templates {
		if claim, ok := n.Claim(Name(n.Templates[i].Name, pod)); ok {
			f(&n.Templates[i], claim)
		}
	}
}

// Missing returns the claims that must be created for a new Pod.
func (n *Numbered) Missing(pod string) []*corev1.PersistentVolumeClaim {
	return Missing(n.Templates, n.Namespace, pod, n.Labels, n.owner(), n.exists)
}

// MissingOf returns the claims of an existing Pod that do not exist.
func (n *Numbered) MissingOf(pod *corev1.Pod) []*corev1.PersistentVolumeClaim {
	return MissingOf(pod, n.Templates, n.Labels, n.owner(), n.exists)
}

// exists reports whether a claim exists. If Claim is nil, exists returns true, because the claim may exist.
func (n *Numbered) exists(name string) bool {
	if n.Claim == nil {
		return true
	}
	_, exists := n.Claim(name)
	return exists
}

// unknown returns the reason if Claim is not set, otherwise nil.
func (n *Numbered) unknown(pod string) reason.List {
	if n.Claim != nil || len(n.Templates) == 0 {
		return nil
	}
	return reason.List{{Code: NoLookup, Object: reason.Object{Kind: "Pod", Namespace: n.Namespace, Name: pod}, Detail: "Numbered.Claim is missing"}}
}

// owner returns the owner reference for new claims of wanted Pods.
func (n *Numbered) owner() *metav1.OwnerReference {
	if n.Retention != nil && n.Retention.WithOwner {
		return &n.Owner
	}
	return nil
}

// With returns a copy of Numbered with the given templates.
func (n *Numbered) With(templates []corev1.PersistentVolumeClaim) *Numbered {
	other := *n
	other.Templates = templates
	return &other
}

// InTheWay says which claims delay the creation of a Pod: claims that are being deleted, and claims that will be
// deleted with an earlier Pod of the same name. Events of these claims do not always enqueue the owner.
func (n *Numbered) InTheWay(pod string) (list reason.List) {
	list = n.unknown(pod)
	n.each(pod, func(_, claim *corev1.PersistentVolumeClaim) {
		if claim.DeletionTimestamp != nil || n.Retention != nil && n.Retention.WithPod && IsStale(claim, pod, "") {
			list = append(list, reason.Reason{
				Code: ClaimInTheWay, Object: reason.ObjectOf("PersistentVolumeClaim", claim), Detail: "it is on its way out", Remedy: "wait until it is gone",
			})
		}
	})
	return list
}

// Owned returns the claims of a Pod whose owner references must change. pod is nil if the Pod does not exist. wanted
// says whether the owner wants a Pod with the name.
func (n *Numbered) Owned(name string, pod *corev1.Pod, wanted bool) (out []Owned) {
	if n.Retention == nil {
		return nil
	}
	n.each(name, func(_, claim *corev1.PersistentVolumeClaim) {
		retention := *n.Retention
		if retention != (Retention{}) && n.isShared(claim) {
			retention = Retention{} // a shared claim must not be deleted with the owner's Pods
		}
		if owners, differ := retention.Owners(claim, n.Owner, name, pod, wanted); differ && claim.DeletionTimestamp == nil {
			out = append(out, Owned{claim, owners})
		}
	})
	return out
}

// Sizes compares the claims of a Pod with their templates.
func (n *Numbered) Sizes(pod string) (s Sizes) {
	s.NeedsRestart, s.Stuck = true, n.unknown(pod)
	n.each(pod, func(template, claim *corev1.PersistentVolumeClaim) {
		if claim.DeletionTimestamp != nil {
			return
		}
		if IsSmaller(claim, template) {
			if obstacles := n.obstacles(claim, template, pod); len(obstacles) > 0 {
				s.Stuck = append(s.Stuck, obstacles...)
			} else {
				s.Small = append(s.Small, Small{claim, template})
				if n.Rest != nil {
					s.Rest = max(s.Rest, n.Rest(claim))
				}
			}
		}
		if !HasGrown(claim) {
			s.Growing = true
			s.NeedsRestart = s.NeedsRestart && NeedsRestart(claim)
		}
	})
	s.NeedsRestart = s.NeedsRestart && s.Growing
	return s
}

// obstacles says why a claim of a Pod cannot be resized to the size in its template.
func (n *Numbered) obstacles(claim, template *corev1.PersistentVolumeClaim, pod string) reason.List {
	list := Differences(claim, template)
	if other := controllerBeside(claim, n.Owner.UID, pod); other != nil {
		list = append(list, reason.Reason{
			Code: ClaimOfAnother, Object: reason.ObjectOf("PersistentVolumeClaim", claim), Path: "metadata.ownerReferences",
			Detail: "it is controlled by " + other.Kind + " " + other.Name, Remedy: "have that one enlarge the claim",
		})
	} else if n.isShared(claim) {
		list = append(list, reason.Reason{
			Code: ClaimOfAnother, Object: reason.ObjectOf("PersistentVolumeClaim", claim),
			Detail: "Pods of somebody else use it", Remedy: "give this workload or its template another name",
		})
	}
	return list
}

// Count counts the named Pods whose claim of a template requests at least the template's size (fit), and among these
// the Pods whose volume has this size (grown).
func (n *Numbered) Count(template *corev1.PersistentVolumeClaim, pods iter.Seq[string]) (fit, grown int32) {
	if n.Claim == nil {
		return 0, 0
	}
	for pod := range pods {
		claim, ok := n.Claim(Name(template.Name, pod))
		if !ok || IsSmaller(claim, template) || len(Differences(claim, template)) > 0 {
			continue
		}
		if fit++; HasGrown(claim) {
			grown++
		}
	}
	return fit, grown
}

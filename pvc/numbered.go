package pvc

import (
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// ClaimInTheWay means that a Pod must not be created yet: a claim of its name is on its way out, and the Pod would have
// no claim.
const ClaimInTheWay reason.Code = "ClaimInTheWay"

// NoLookup means that nothing is known about the claims of a Pod, because Numbered.Claim is missing. NoLookup is an
// error of the program.
const NoLookup reason.Code = "NoLookup"

// Numbered is the claims of Pods made again under the same name, like the Pods of a StatefulSet. Templates and Claim
// are required. Numbered only reads. Answers hold as long as the answers of Claim. Without Claim no Pod may be created
// and no claim is missing or grows (NoLookup).
type Numbered struct {
	Templates []corev1.PersistentVolumeClaim
	// Claim looks a claim up in the owner's namespace, regardless of the claim's owner: Pods use any claim of the name. An
	// ownercache.Cache has such claims in Claims; the claims of a View are those with a controller.
	Claim func(name string) (*corev1.PersistentVolumeClaim, bool)
	// Namespace and Labels go to new claims. Labels are added to the labels of the templates.
	Namespace string
	Labels    map[string]string
	// Retention says with whom claims go. Nil leaves their owner references alone. Owner refers to the owner of the Pods,
	// not as a controller: claims outlive the owner unless Retention says otherwise. Owner is required for Owned and
	// Sizes.
	Retention *Retention
	Owner     metav1.OwnerReference
	// Shared reports whether somebody else's Pods use a claim. Sharing happens if two owners and their templates give the
	// same claim name. A shared claim goes with nobody, and does not grow. Nil means never. Numbered calls Shared if
	// Retention has claims go, and before growth.
	Shared func(claim *corev1.PersistentVolumeClaim) bool
	// Rest is the remaining rest of a claim whose last attempt to grow was refused, or zero. Nil for no rest.
	Rest func(claim *corev1.PersistentVolumeClaim) time.Duration
}

// Owned is a claim and its wanted owner references.
type Owned struct {
	*corev1.PersistentVolumeClaim

	Owners []metav1.OwnerReference
}

// Small is a claim to grow to the size of its template.
type Small struct {
	*corev1.PersistentVolumeClaim

	Template *corev1.PersistentVolumeClaim
}

// Sizes compares the claims of a Pod with their enlarged templates. Missing claims and claims on their way out do not
// count.
type Sizes struct {
	// Small claims are to grow. Rest is the longest of their rests.
	Small []Small
	Rest  time.Duration
	// Stuck says which claims are too small and cannot become like their templates.
	Stuck reason.List
	// Growing says that a volume is smaller than its claim asks for. NeedsRestart says that only a start of the Pod is
	// missing for all such volumes.
	Growing, NeedsRestart bool
}

// Fit reports whether all claims ask for at least the size in their templates.
func (s *Sizes) Fit() bool { return len(s.Small) == 0 && len(s.Stuck) == 0 }

// Ready reports whether no claim keeps the Pod from an update. An update may start the Pod again.
func (s *Sizes) Ready() bool { return s.Fit() && (!s.Growing || s.NeedsRestart) }

func (n *Numbered) isShared(claim *corev1.PersistentVolumeClaim) bool {
	return n.Shared != nil && n.Shared(claim)
}

// each calls f with the claims of Pods of the name.
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

// Missing returns the missing claims of a new Pod.
func (n *Numbered) Missing(pod string) []*corev1.PersistentVolumeClaim {
	return Missing(n.Templates, n.Namespace, pod, n.Labels, n.owner(), n.exists)
}

// MissingOf returns the missing claims of an existing Pod.
func (n *Numbered) MissingOf(pod *corev1.Pod) []*corev1.PersistentVolumeClaim {
	return MissingOf(pod, n.Templates, n.Labels, n.owner(), n.exists)
}

// exists reports whether a claim exists, or may exist.
func (n *Numbered) exists(name string) bool {
	if n.Claim == nil {
		return true
	}
	_, exists := n.Claim(name)
	return exists
}

// unknown says that nothing is known about claims, nil if Claim tells.
func (n *Numbered) unknown(pod string) reason.List {
	if n.Claim != nil || len(n.Templates) == 0 {
		return nil
	}
	return reason.List{{Code: NoLookup, Object: reason.Object{Kind: "Pod", Namespace: n.Namespace, Name: pod}, Detail: "Numbered.Claim is missing"}}
}

// owner is the owner of new claims of wanted Pods.
func (n *Numbered) owner() *metav1.OwnerReference {
	if n.Retention != nil && n.Retention.WithOwner {
		return &n.Owner
	}
	return nil
}

// With returns the claims of Pods with other templates.
func (n *Numbered) With(templates []corev1.PersistentVolumeClaim) *Numbered {
	other := *n
	other.Templates = templates
	return &other
}

// InTheWay says which claims keep a Pod from being created: claims on their way out, and claims going with an earlier
// Pod. The claims' events need not wake the owner.
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

// Owned returns the claims of a Pod with changed owners. pod is nil while missing. wanted says that there is to be a
// Pod.
func (n *Numbered) Owned(name string, pod *corev1.Pod, wanted bool) (out []Owned) {
	if n.Retention == nil {
		return nil
	}
	n.each(name, func(_, claim *corev1.PersistentVolumeClaim) {
		retention := *n.Retention
		if retention != (Retention{}) && n.isShared(claim) {
			retention = Retention{} // a shared claim must not go with the owner's Pods
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

// obstacles says why a claim of a Pod cannot grow to the size of its template.
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

// Count counts, among the Pods with the given names, the Pods whose claim of a template has at least the template's
// size (fit), and the fit Pods whose volume has followed (grown).
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

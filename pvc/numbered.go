package pvc

import (
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// ClaimInTheWay means that a Pod must not be created yet: a claim of its name is on its way out, and the Pod would be left without.
const ClaimInTheWay reason.Code = "ClaimInTheWay"

// Numbered is the claims of Pods that are made again under their name, as those of a StatefulSet are. Templates and Claim are required.
// It reads, and modifies nothing; answers hold for as long as those of Claim do.
type Numbered struct {
	Templates []corev1.PersistentVolumeClaim
	// Claim looks a claim up in the owner's namespace, whoever owns it: what has the name is used.
	Claim func(name string) (*corev1.PersistentVolumeClaim, bool)
	// Namespace and Labels are those of new claims. The labels are added to those of the templates.
	Namespace string
	Labels    map[string]string
	// Retention says with whom claims go; nil leaves their owner references alone. Owner refers to the owner of the Pods, not as a
	// controller: claims outlive it where Retention does not say otherwise. It is required for Owned and Sizes.
	Retention *Retention
	Owner     metav1.OwnerReference
	// Shared reports whether somebody else's Pods use a claim, as happens where the names of two owners and their templates come to the same:
	// such a claim goes with nobody, and does not grow. nil for never. It is asked where Retention has claims go, and where one is to grow.
	Shared func(claim *corev1.PersistentVolumeClaim) bool
	// Rest is positive for claims whose last attempt to grow was refused: for how much longer they rest; nil for none.
	Rest func(claim *corev1.PersistentVolumeClaim) time.Duration
}

// Owned is a claim and the owner references that it is to have.
type Owned struct {
	*corev1.PersistentVolumeClaim

	Owners []metav1.OwnerReference
}

// Small is a claim that is to grow to the size of its template.
type Small struct {
	*corev1.PersistentVolumeClaim

	Template *corev1.PersistentVolumeClaim
}

// Sizes are how the claims of a Pod compare with templates that have become larger. Claims that are missing or on their way out do not
// count.
type Sizes struct {
	// Small claims are to grow. Rest is the longest of their rests.
	Small []Small
	Rest  time.Duration
	// Stuck says which claims are too small and cannot become what their templates say.
	Stuck reason.List
	// Growing says that a volume is smaller than its claim asks for, and NeedsRestart that nothing but a start of the Pod is
	// missing for all such volumes.
	Growing, NeedsRestart bool
}

// Fit reports whether all claims ask for what their templates do, or more.
func (s *Sizes) Fit() bool { return len(s.Small) == 0 && len(s.Stuck) == 0 }

// Ready reports whether no claim keeps the Pod from being updated, which may start it again.
func (s *Sizes) Ready() bool { return s.Fit() && (!s.Growing || s.NeedsRestart) }

func (n *Numbered) isShared(claim *corev1.PersistentVolumeClaim) bool {
	return n.Shared != nil && n.Shared(claim)
}

// each calls f with the claims that Pods of the name use.
func (n *Numbered) each(pod string, f func(template, claim *corev1.PersistentVolumeClaim)) {
	for i := range n.Templates {
		if claim, ok := n.Claim(Name(n.Templates[i].Name, pod)); ok {
			f(&n.Templates[i], claim)
		}
	}
}

// Missing returns the claims of a Pod to be made that do not exist.
func (n *Numbered) Missing(pod string) []*corev1.PersistentVolumeClaim {
	return Missing(n.Templates, n.Namespace, pod, n.Labels, n.owner(), n.exists)
}

// MissingOf returns the claims that a Pod uses and that do not exist.
func (n *Numbered) MissingOf(pod *corev1.Pod) []*corev1.PersistentVolumeClaim {
	return MissingOf(pod, n.Templates, n.Labels, n.owner(), n.exists)
}

func (n *Numbered) exists(name string) bool {
	_, exists := n.Claim(name)
	return exists
}

// owner is that of new claims of wanted Pods.
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

// InTheWay says which claims keep a Pod from being created: those on their way out, and those that are going with an earlier Pod. No
// event of theirs need wake the owner.
func (n *Numbered) InTheWay(pod string) (list reason.List) {
	n.each(pod, func(_, claim *corev1.PersistentVolumeClaim) {
		if claim.DeletionTimestamp != nil || n.Retention != nil && n.Retention.WithPod && IsStale(claim, pod, "") {
			list = append(list, reason.Reason{
				Code: ClaimInTheWay, Object: reason.ObjectOf("PersistentVolumeClaim", claim), Detail: "it is on its way out", Remedy: "wait until it is gone",
			})
		}
	})
	return list
}

// Owned returns which claims of a Pod are to get other owners. pod is nil while there is none; wanted says that there is to be one.
func (n *Numbered) Owned(name string, pod *corev1.Pod, wanted bool) (out []Owned) {
	if n.Retention == nil {
		return nil
	}
	n.each(name, func(_, claim *corev1.PersistentVolumeClaim) {
		retention := *n.Retention
		if retention != (Retention{}) && n.isShared(claim) {
			retention = Retention{} // it must not go with our Pods while somebody else uses it
		}
		if owners, differ := retention.Owners(claim, n.Owner, name, pod, wanted); differ && claim.DeletionTimestamp == nil {
			out = append(out, Owned{claim, owners})
		}
	})
	return out
}

// Sizes compares the claims of a Pod with their templates.
func (n *Numbered) Sizes(pod string) (s Sizes) {
	s.NeedsRestart = true
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

// obstacles says what keeps a claim of a Pod from growing to the size of its template.
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

// Count counts, of the Pods of these names, those whose claim of a template asks for what the template does, or for more, and those of
// them whose volume has followed.
func (n *Numbered) Count(template *corev1.PersistentVolumeClaim, pods iter.Seq[string]) (fit, grown int32) {
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

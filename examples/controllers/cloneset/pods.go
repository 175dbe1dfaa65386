package cloneset

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

// ClaimTemplatesChanged means that the claim templates differ between two revisions and the gate
// RecreatePodWhenChangeVCTInCloneSetGate wants Pods recreated for that.
const ClaimTemplatesChanged reason.Code = "ClaimTemplatesChanged"

func labelSet(m map[string]string) labels.Set { return m }

func ownerReference(cs *v1beta1.CloneSet) metav1.OwnerReference {
	return *metav1.NewControllerRef(cs, kind())
}

func revisionOwner(cs *v1beta1.CloneSet) revision.Owner {
	return revision.Owner{Namespace: cs.Namespace, Name: cs.Name, Reference: ownerReference(cs), Annotations: cs.Annotations}
}

func (r *Reconciler) revisionKeys() revision.Keys { return kruise.RevisionKeys() }

// revisionLabels are the labels of a Pod at a revision: the full name, or the hash alone where the gate asks
// for it.
func (r *Reconciler) revisionLabels(name string) map[string]string {
	full := name
	if r.options.Gates[apps.GateCloneSetShortHash] {
		full = podstate.ShortRevision(name)
	}
	return map[string]string{apps.LabelRevision: full, apps.LabelPodTemplateHash: podstate.ShortRevision(name)}
}

// newPod builds the Pod with an instance id from a template. The template is not modified.
func (r *Reconciler) newPod(v *view, template *corev1.PodTemplateSpec, rev *appsv1.ControllerRevision, id string) *corev1.Pod {
	pod := podstate.FromTemplate(template, v.cs.Namespace, ownerReference(v.cs), apps.ConditionInPlaceUpdateReady)
	r.inPlace.StripReserved(&pod.ObjectMeta)
	pod.Name, pod.GenerateName = podName(v.cs, id), podName(v.cs, "")
	maps.Copy(pod.Labels, r.revisionLabels(rev.Name))
	pod.Labels[apps.LabelInstanceID] = id
	v.machine.Stamp(&pod.ObjectMeta, lifecycle.PreparingNormal, v.now)
	for i := range v.cs.Spec.VolumeClaimTemplates {
		name := v.cs.Spec.VolumeClaimTemplates[i].Name
		setVolume(pod, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(v.cs, name, id)},
		}})
	}
	return pod
}

func setVolume(pod *corev1.Pod, volume corev1.Volume) {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == volume.Name {
			pod.Spec.Volumes[i] = volume
			return
		}
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
}

func claimName(cs *v1beta1.CloneSet, template, id string) string {
	return template + "-" + cs.Name + "-" + id
}

// newClaims builds the claims of an instance that do not exist yet.
func newClaims(v *view, id string, existing sets.Set[string]) []*corev1.PersistentVolumeClaim {
	var claims []*corev1.PersistentVolumeClaim
	for i := range v.cs.Spec.VolumeClaimTemplates {
		claim := v.cs.Spec.VolumeClaimTemplates[i].DeepCopy()
		claim.Name = claimName(v.cs, claim.Name, id)
		if existing.Has(claim.Name) {
			continue
		}
		claim.Namespace = v.cs.Namespace
		claim.Status = corev1.PersistentVolumeClaimStatus{}
		claim.OwnerReferences = []metav1.OwnerReference{ownerReference(v.cs)}
		if claim.Labels == nil {
			claim.Labels = map[string]string{}
		}
		maps.Copy(claim.Labels, v.cs.Spec.Selector.MatchLabels)
		claim.Labels[apps.LabelInstanceID] = id
		claims = append(claims, claim)
	}
	return claims
}

// instanceIDs returns ids for up to n new Pods, and for no more than one pass creates: first those of claims whose Pod could not
// be created and, with reuse, of claims that lost their Pod, then new ones that neither a Pod nor a claim has. There are fewer
// than n where the Pod that a surviving claim belongs to is still on its way out: it has the name that its successor is to have.
func (r *Reconciler) instanceIDs(v *view, n int) []string {
	n = min(n, maxCreations)
	taken := sets.New[string]()
	for i := range v.members {
		taken.Insert(v.members[i].pod.Labels[apps.LabelInstanceID])
	}
	leaving := sets.New[string]()
	for _, pod := range v.inactive {
		leaving.Insert(pod.Labels[apps.LabelInstanceID])
	}
	taken = taken.Union(leaving)
	var ids []string
	awaited := 0
	for _, id := range r.survivingIDs(v) {
		pod, exists := r.pods.Get(v.cs.Namespace, podName(v.cs, id))
		switch {
		case !exists && !taken.Has(id):
			ids = append(ids, id)
		case !exists && leaving.Has(id):
			awaited++ // it has gone since the pass began, and its event is about to wake the next
		case exists && pod.DeletionTimestamp != nil && metav1.IsControlledBy(pod, v.cs):
			awaited++
		}
		taken.Insert(id)
	}
	n = max(n-awaited, min(n, len(ids)))
	ids = ids[:min(len(ids), n)]
	for _, claim := range v.claims {
		taken.Insert(claim.Labels[apps.LabelInstanceID])
	}
	for len(ids) < n {
		id := r.options.NewID()
		if _, exists := r.pods.Get(v.cs.Namespace, podName(v.cs, id)); !exists && !taken.Has(id) {
			taken.Insert(id)
			ids = append(ids, id)
		}
	}
	return ids
}

// survivingIDs returns, sorted, the ids of claims that another Pod may have. An id of several claims that has lost one of them,
// or whose Pod took one along, is none, nor is one whose Pod podsToDelete names: a successor of its name would be deleted at once.
func (r *Reconciler) survivingIDs(v *view) []string {
	usable := map[string]bool{}
	for _, claim := range v.claims {
		id := claim.Labels[apps.LabelInstanceID]
		if !isOfInstance(claim, v.cs, id) || !v.cs.Spec.ScaleStrategy.EnablePVCReuse && !r.unborn.has(v.cs.UID, id) {
			continue
		}
		known, ok := usable[id]
		usable[id] = claim.DeletionTimestamp == nil && (known || !ok)
	}
	maps.DeleteFunc(usable, func(id string, ok bool) bool {
		return !ok || r.claimTaken(v, id) || slices.Contains(v.cs.Spec.ScaleStrategy.PodsToDelete, podName(v.cs, id))
	})
	return slices.Sorted(maps.Keys(usable))
}

// isOfInstance reports whether a claim's name says the same as its label, which somebody may have changed.
func isOfInstance(claim *corev1.PersistentVolumeClaim, cs *v1beta1.CloneSet, id string) bool {
	return id != "" && strings.HasSuffix(claim.Name, "-"+podName(cs, id))
}

// claimTaken reports whether a claim that a Pod with the id would use belongs to somebody else, such as the Pod that had the id
// and goes with it.
func (r *Reconciler) claimTaken(v *view, id string) bool {
	return slices.ContainsFunc(v.cs.Spec.VolumeClaimTemplates, func(template corev1.PersistentVolumeClaim) bool {
		claim, exists := r.claims.Get(v.cs.Namespace, claimName(v.cs, template.Name, id))
		return exists && !metav1.IsControlledBy(claim, v.cs)
	})
}

func podName(cs *v1beta1.CloneSet, id string) string { return cs.Name + "-" + id }

// stampClaimTemplates writes the hash of the claim templates on a revision that is about to be created, or taken up again with
// other claim templates.
func stampClaimTemplates(decision *revision.Decision, cs *v1beta1.CloneSet) {
	hash := claimTemplateHash(cs.Spec.VolumeClaimTemplates)
	switch rev := decision.Revision; decision.Action {
	case revision.Create:
		rev.Annotations[apps.AnnotationClaimTemplateHash] = hash
	case revision.Bump:
		if rev.Annotations[kruise.AnnotationHashVersion] != "" && rev.Annotations[apps.AnnotationClaimTemplateHash] != hash {
			decision.Annotations = map[string]string{apps.AnnotationClaimTemplateHash: hash}
		}
	}
}

func claimTemplateHash(templates []corev1.PersistentVolumeClaim) string {
	if len(templates) == 0 {
		return ""
	}
	h := fnv.New32a()
	for i := range templates {
		raw, err := json.Marshal(templates[i].Spec)
		if err != nil {
			raw = fmt.Append(nil, err) // cannot happen for a decoded API type
		}
		_, _ = fmt.Fprintf(h, "%s=%s;", templates[i].Name, raw)
	}
	return strconv.FormatUint(uint64(h.Sum32()), 10)
}

// claimTemplatesBlock is what the planner asks beside the templates. Only hashes of this kit's own recipe are
// compared: OpenKruise's recipe is not known, and a difference between the two would prove nothing.
func claimTemplatesBlock(from, to *appsv1.ControllerRevision) reason.List {
	if from.Annotations[kruise.AnnotationHashVersion] == "" || to.Annotations[kruise.AnnotationHashVersion] == "" {
		return nil
	}
	was, known := from.Annotations[apps.AnnotationClaimTemplateHash]
	is, alsoKnown := to.Annotations[apps.AnnotationClaimTemplateHash]
	if !known || !alsoKnown || was == is {
		return nil
	}
	return reason.List{{
		Code: ClaimTemplatesChanged, Path: "spec.volumeClaimTemplates", Old: was, New: is, Remedy: "recreate the Pod, or switch the gate off",
	}}
}

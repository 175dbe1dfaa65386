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
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

// ClaimTemplatesChanged means that the claim templates differ between two revisions and the gate
// RecreatePodWhenChangeVCTInCloneSetGate wants Pods recreated for that.
const ClaimTemplatesChanged reason.Code = "ClaimTemplatesChanged"

func labelSet(m map[string]string) labels.Set { return m }

func ownerReference(cs *v1beta1.CloneSet) metav1.OwnerReference {
	return *metav1.NewControllerRef(cs, v1beta1.GroupVersion.WithKind("CloneSet"))
}

func isOwned(object metav1.Object, cs *v1beta1.CloneSet) bool {
	return metav1.IsControlledBy(object, cs)
}

func podName(cs *v1beta1.CloneSet, id string) string { return cs.Name + "-" + id }

// podOf returns the name of the Pod that a claim was made for, empty for none.
func podOf(cs *v1beta1.CloneSet, claim *corev1.PersistentVolumeClaim) string {
	if id := claim.Labels[apps.LabelInstanceID]; id != "" {
		return podName(cs, id)
	}
	return ""
}

func sortedPods(byName map[string]*corev1.Pod) (out []*corev1.Pod) {
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[name])
	}
	return out
}

// instanceIDs returns ids for up to n new Pods, and for no more than one pass creates: first those of claims whose Pod could not
// be created and, with reuse, of claims that lost their Pod, then new ones that neither a Pod nor a claim has. There are fewer
// than n where the Pod that a surviving claim belongs to is still on its way out: it has the name that its successor is to have.
func (o *observation) instanceIDs(n int) []string {
	n = min(n, fanout.PerPass)
	taken, leaving := sets.New[string](), sets.New[string]()
	for i := range o.pods.Active {
		taken.Insert(o.pods.Active[i].Labels[apps.LabelInstanceID])
	}
	for _, pod := range o.pods.Inactive {
		leaving.Insert(pod.Labels[apps.LabelInstanceID])
	}
	taken = taken.Union(leaving)
	var ids []string
	awaited := 0
	for _, id := range o.survivingIDs() {
		pod, exists := o.world.pod(podName(o.cs, id))
		switch {
		case !exists && !taken.Has(id):
			ids = append(ids, id)
		case !exists && leaving.Has(id):
			awaited++ // it has gone since the pass began, and its event is about to wake the next
		case exists && pod.DeletionTimestamp != nil && isOwned(pod, o.cs):
			awaited++
		}
		taken.Insert(id)
	}
	n = max(n-awaited, min(n, len(ids)))
	ids = ids[:min(len(ids), n)]
	for _, claim := range o.claims {
		taken.Insert(claim.Labels[apps.LabelInstanceID])
	}
	for len(ids) < n {
		id := o.world.newID()
		if _, exists := o.world.pod(podName(o.cs, id)); !exists && !taken.Has(id) {
			taken.Insert(id)
			ids = append(ids, id)
		}
	}
	return ids
}

// survivingIDs returns, sorted, the ids of claims that another Pod may have. An id of several claims that has lost one of them,
// or whose Pod took one along, is none, nor is one whose Pod podsToDelete names: a successor of its name would be deleted at once.
func (o *observation) survivingIDs() []string {
	usable := map[string]bool{}
	for _, claim := range o.claims {
		id := claim.Labels[apps.LabelInstanceID]
		pod := podName(o.cs, id)
		isOfInstance := id != "" && strings.HasSuffix(claim.Name, "-"+pod) // somebody may have changed the label
		if !isOfInstance || !o.cs.Spec.ScaleStrategy.EnablePVCReuse && !o.unborn.Has(pod) {
			continue
		}
		known, ok := usable[id]
		usable[id] = claim.DeletionTimestamp == nil && (known || !ok)
	}
	maps.DeleteFunc(usable, func(id string, ok bool) bool {
		return !ok || o.claimTaken(id) || slices.Contains(o.cs.Spec.ScaleStrategy.PodsToDelete, podName(o.cs, id))
	})
	return slices.Sorted(maps.Keys(usable))
}

// claimTaken reports whether a claim that a Pod with the id would use belongs to somebody else, such as the Pod that had the id
// and goes with it.
func (o *observation) claimTaken(id string) bool {
	return slices.ContainsFunc(o.cs.Spec.VolumeClaimTemplates, func(template corev1.PersistentVolumeClaim) bool {
		claim, exists := o.world.claim(pvc.Name(template.Name, podName(o.cs, id)))
		return exists && !isOwned(claim, o.cs)
	})
}

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

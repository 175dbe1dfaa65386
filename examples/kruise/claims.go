package kruise

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

// ClaimTemplatesChanged means that the claim templates differ between two revisions, and the gate
// RecreatePodWhenChangeVCTInCloneSetGate recreates Pods for the difference.
const ClaimTemplatesChanged reason.Code = "ClaimTemplatesChanged"

// ClaimsLacking means that Pods were made without a claim from their owner's present templates. Either the Pods are
// older than the template, or the owner adopted the Pods.
const ClaimsLacking reason.Code = "ClaimsLacking"

// ClaimsLackingBlock returns the claims missing in a Pod after an update in place, because volumes of a Pod never
// change.
func ClaimsLackingBlock(pod *corev1.Pod, templates []corev1.PersistentVolumeClaim) (why reason.List) {
	for _, name := range pvc.Lacking(pod, templates) {
		why = append(why, reason.Reason{
			Code: ClaimsLacking, Path: "spec.volumeClaimTemplates[" + name + "]", Detail: "the Pod was made without its claim", Remedy: "recreate the Pod",
		})
	}
	return why
}

// TellLacking returns the templates with claims missing in Pods at the update revision. Such Pods count as updated:
// claim templates are no part of a revision.
func TellLacking(pods *podcontrol.Set, templates []corev1.PersistentVolumeClaim) (told reason.List) {
	for i := range templates {
		lacking := pods.Select(func(pod *podcontrol.Pod) bool { return pod.Updated && len(pvc.Lacking(pod.Pod, templates[i:i+1])) > 0 })
		if len(lacking) > 0 {
			told = append(told, reason.Reason{
				Code: ClaimsLacking, Path: "spec.volumeClaimTemplates[" + templates[i].Name + "]",
				Detail: fmt.Sprintf("Pods at the update revision without its claim: %d, the first is %s", len(lacking), lacking[0].Name),
				Remedy: "have them made again: delete them, or change the Pod template where that recreates Pods",
			})
		}
	}
	return told
}

// MissingClaims returns the missing claims of Pods that cannot start without the claims. missing returns the claims
// used by a Pod and missing.
func MissingClaims(pods *podcontrol.Set, missing func(*corev1.Pod) []*corev1.PersistentVolumeClaim) (out []*corev1.PersistentVolumeClaim) {
	for i := range pods.Active {
		if pod := pods.Active[i].Pod; pod.Status.Phase == corev1.PodPending && len(pvc.UsedBy(pod)) > 0 {
			out = append(out, missing(pod)...)
		}
		if len(out) >= fanout.PerPass {
			break
		}
	}
	return out[:min(len(out), fanout.PerPass)]
}

// PlansBetween returns a function for plans between revisions. If claim templates count, a difference between the
// templates blocks.
func PlansBetween(planner *inplaceupdate.Planner, claimsCount bool) func(from, to *appsv1.ControllerRevision) *inplaceupdate.Plan {
	if !claimsCount {
		return planner.Plan
	}
	return func(from, to *appsv1.ControllerRevision) *inplaceupdate.Plan {
		return Blocked(planner.Plan(from, to), ClaimTemplatesBlock(from, to))
	}
}

// Blocked returns a plan with more reasons against an update in place.
func Blocked(plan *inplaceupdate.Plan, why reason.List) *inplaceupdate.Plan {
	if len(why) == 0 {
		return plan
	}
	return &inplaceupdate.Plan{Blocking: slices.Concat(plan.Blocking, why)}
}

// StampClaimTemplates writes the hash of the claim templates on a new revision, or on a reused revision with changed
// claim templates.
func StampClaimTemplates(decision *revision.Decision, templates []corev1.PersistentVolumeClaim) {
	hash := claimTemplateHash(templates)
	switch rev := decision.Revision; decision.Action {
	case revision.Create:
		rev.Annotations[apps.AnnotationClaimTemplateHash] = hash
	case revision.Bump:
		if rev.Annotations[AnnotationHashVersion] != "" && rev.Annotations[apps.AnnotationClaimTemplateHash] != hash {
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

// ClaimTemplatesBlock reports whether claim templates differ between two revisions. Only hashes by this kit's own
// recipe are compared: OpenKruise's recipe is unknown, and a difference between the recipes would prove nothing.
// Neither would a missing revision.
func ClaimTemplatesBlock(from, to *appsv1.ControllerRevision) reason.List {
	if from == nil || to == nil {
		return nil
	}
	if from.Annotations[AnnotationHashVersion] == "" || to.Annotations[AnnotationHashVersion] == "" {
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

package podcontrol

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
)

// ClaimsLacking means that Pods do not have all claims of their owner's present templates. Either the Pods are older
// than the template, or the owner adopted the Pods.
const ClaimsLacking reason.Code = "ClaimsLacking"

// LackedClaims returns a reason for each claim template for which the Pod has no volume. An in-place update cannot
// add a volume to a Pod, so pass the reasons to inplaceupdate.Plan.Blocked.
func LackedClaims(pod *corev1.Pod, templates []corev1.PersistentVolumeClaim) (why reason.List) {
	for _, name := range pvc.Lacking(pod, templates) {
		why = append(why, reason.Reason{
			Code: ClaimsLacking, Path: claimPath(name), Detail: "the Pod was made without its claim", Remedy: "recreate the Pod",
		})
	}
	return why
}

// LackedClaims returns the claim templates for which Pods of the update revision have no claim. Such Pods count as
// updated, because claim templates are not part of a revision.
func (s *Set) LackedClaims(templates []corev1.PersistentVolumeClaim) (told reason.List) {
	for i := range templates {
		lacking := s.Select(func(pod *Pod) bool { return pod.Updated && len(pvc.Lacking(pod.Pod, templates[i:i+1])) > 0 })
		if len(lacking) > 0 {
			told = append(told, reason.Reason{
				Code: ClaimsLacking, Path: claimPath(templates[i].Name),
				Detail: fmt.Sprintf("Pods at the update revision without its claim: %d, the first is %s", len(lacking), lacking[0].Name),
				Remedy: "have them made again: delete them, or change the Pod template where that recreates Pods",
			})
		}
	}
	return told
}

func claimPath(name string) string { return "spec.volumeClaimTemplates[" + name + "]" }

// MissingClaims returns at most limit claims that do not exist although Pods need them to start. missing returns the
// claims that a Pod uses and that do not exist.
func (s *Set) MissingClaims(limit int, missing func(*corev1.Pod) []*corev1.PersistentVolumeClaim) (out []*corev1.PersistentVolumeClaim) {
	for i := range s.Active {
		if pod := s.Active[i].Pod; pod.Status.Phase == corev1.PodPending && len(pvc.UsedBy(pod)) > 0 {
			out = append(out, missing(pod)...)
		}
		if len(out) >= limit {
			break
		}
	}
	return out[:max(min(len(out), limit), 0)]
}

package kruise

import (
	"fmt"
	"hash/fnv"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

// ClaimTemplatesChanged means that a Pod is recreated instead of updated in place, because the volumeClaimTemplates of
// its two revisions differ, and the feature gate RecreatePodWhenChangeVCTInCloneSetGate is on.
const ClaimTemplatesChanged reason.Code = "ClaimTemplatesChanged"

// StampClaimTemplates writes the hash of the claim templates into an annotation of a new revision, or of a reused
// revision if the claim templates have changed.
func StampClaimTemplates(decision *revision.Decision, templates []corev1.PersistentVolumeClaim) {
	hash := claimTemplateHash(templates)
	switch rev := decision.Revision; decision.Action {
	case revision.Create:
		rev.Annotations[apps.AnnotationClaimTemplateHash] = hash
	case revision.Bump:
		if rev.Annotations[apps.AnnotationHashVersion] != "" && rev.Annotations[apps.AnnotationClaimTemplateHash] != hash {
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
			raw = fmt.Append(nil, err) // marshaling a decoded API type cannot fail
		}
		_, _ = fmt.Fprintf(h, "%s=%s;", templates[i].Name, raw)
	}
	return strconv.FormatUint(uint64(h.Sum32()), 10)
}

// ClaimTemplatesBlock returns a reason if the claim templates differ between the revisions from and to. Only hashes
// computed by this project are compared: OpenKruise may compute its hash in a different way, so a difference between
// a hash of OpenKruise and a hash of this project would prove nothing. If one of the revisions is missing, there is
// nothing to compare, and the list is empty.
func ClaimTemplatesBlock(from, to *appsv1.ControllerRevision) reason.List {
	if from == nil || to == nil {
		return nil
	}
	if from.Annotations[apps.AnnotationHashVersion] == "" || to.Annotations[apps.AnnotationHashVersion] == "" {
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

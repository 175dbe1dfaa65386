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

// ClaimTemplatesChanged means that the claim templates differ between two revisions and the gate
// RecreatePodWhenChangeVCTInCloneSetGate wants Pods recreated for that.
const ClaimTemplatesChanged reason.Code = "ClaimTemplatesChanged"

// StampClaimTemplates writes the hash of the claim templates on a revision that is about to be created, or taken up again with
// other claim templates.
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

// ClaimTemplatesBlock is what a planner asks beside the templates. Only hashes of this kit's own recipe are
// compared: OpenKruise's recipe is not known, and a difference between the two would prove nothing.
func ClaimTemplatesBlock(from, to *appsv1.ControllerRevision) reason.List {
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

package revision

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
)

// ClaimTemplateUnknown means that a Pod of an earlier revision cannot be created: the Pod mounts the volume of a claim
// template that was removed and not recorded.
const ClaimTemplateUnknown reason.Code = "ClaimTemplateUnknown"

// maxAnnotations is the largest number of bytes of keys and values of an object's annotations that the API server
// accepts.
const maxAnnotations = 256 << 10

// ClaimTemplatesAt returns the claim templates of a Pod at a revision: the present templates if rev is Update or nil,
// otherwise the templates recorded by RecordClaims. If another controller has written the revision and there is no
// record, former derives the templates from existing claims. The error is ClaimTemplateUnknown, or an error of
// Decode. Callers share the result, so do not modify the templates.
func (h *History) ClaimTemplatesAt(rev *appsv1.ControllerRevision, pod string, former *pvc.Former) ([]corev1.PersistentVolumeClaim, error) {
	if rev == nil || h.Update != nil && rev.Name == h.Update.Name {
		return former.Today, nil
	}
	if templates, known := h.recorded(rev); known {
		return templates, nil
	}
	template, err := h.Template(rev)
	if err != nil {
		return nil, err
	}
	templates, unknown := former.Templates(&template.Spec, pod)
	if len(unknown) > 0 {
		return nil, reason.Reason{
			Code: ClaimTemplateUnknown, Path: "spec.volumeClaimTemplates", Old: strings.Join(unknown, ","), Object: reason.ObjectOf("ControllerRevision", rev),
			Detail: "Pods of the revision mount it, and no claim template and no claim says what it is",
			Remedy: "add the claim template again, or lower the partition to have the Pods made at the update revision",
		}
	}
	return templates, nil
}

// ClaimTemplatesOf is like ClaimTemplatesAt, for the revision named in a Pod's label; if an error occurs, the result is
// the present templates.
func (h *History) ClaimTemplatesOf(label, pod string, former *pvc.Former) []corev1.PersistentVolumeClaim {
	templates, err := h.ClaimTemplatesAt(h.Find(label), pod, former)
	if err != nil {
		return former.Today
	}
	return templates
}

// recorded returns the claim templates recorded with a revision. known says that a record exists and can be parsed.
func (h *History) recorded(rev *appsv1.ControllerRevision) (templates []corev1.PersistentVolumeClaim, known bool) {
	recorded := rev.Annotations[h.keys.ClaimTemplatesAnnotation]
	if recorded == "" {
		return nil, false
	}
	return h.decoder.claimTemplates(rev, recorded)
}

// RecordClaims adds the present claim templates to a decision, to be recorded with the revision of the present Pod
// template under Keys.ClaimTemplatesAnnotation. The record is ignored when revisions are compared. Call RecordClaims
// after Decide.
//
// If claim templates change, no new revision is made, and the record is updated as long as the Pod template fits the
// claim templates. So if a user first removes a claim template and later its volume mount, the record for earlier
// Pods is kept. A revision written by another controller is not changed unless changed says that the owner's spec has
// changed, so that the takeover of a workload from another controller writes nothing. Claim templates that are too
// large for an annotation are not recorded.
func (h *History) RecordClaims(d *Decision, template *corev1.PodTemplateSpec, today []corev1.PersistentVolumeClaim, changed bool) error {
	key := h.keys.ClaimTemplatesAnnotation
	if key == "" || len(pvc.Unmounted(&template.Spec, today)) > 0 {
		return nil
	}
	was, known := h.recorded(d.Revision)
	if d.Action != Create && (known && sameClaims(was, today) || !known && !changed) {
		return nil
	}
	recorded, err := encodeClaims(today)
	if err != nil {
		return fmt.Errorf("history of %s/%s: %w", h.owner.Namespace, h.owner.Name, err)
	}
	size := len(key) + len(recorded)
	for k, v := range d.Revision.Annotations {
		if k != key {
			size += len(k) + len(v)
		}
	}
	if size > maxAnnotations/2 { // half, because other clients write annotations, too
		if !known {
			return nil
		}
		recorded = "" // the old record does not match the present claim templates
	}
	if d.Action == Create {
		d.Revision.Annotations[key] = recorded
		return nil
	}
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[key] = recorded
	return nil
}

// recordedClaim is the recorded part of a claim template: all fields that new claims copy.
type recordedClaim struct {
	Metadata recordedMeta                     `json:"metadata"`
	Spec     corev1.PersistentVolumeClaimSpec `json:"spec"`
}

type recordedMeta struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Finalizers  []string          `json:"finalizers,omitempty"`
}

func recordOf(template *corev1.PersistentVolumeClaim) recordedClaim {
	return recordedClaim{recordedMeta{template.Name, template.Labels, template.Annotations, template.Finalizers}, template.Spec}
}

func encodeClaims(templates []corev1.PersistentVolumeClaim) (string, error) {
	records := make([]recordedClaim, len(templates))
	for i := range templates {
		records[i] = recordOf(&templates[i])
	}
	raw, err := json.Marshal(records)
	if err != nil {
		return "", fmt.Errorf("encoding the claim templates: %w", err)
	}
	return string(raw), nil
}

// sameClaims reports whether both lists of claim templates lead to the same claims, even if their JSON differs.
func sameClaims(a, b []corev1.PersistentVolumeClaim) bool {
	return slices.EqualFunc(a, b, func(a, b corev1.PersistentVolumeClaim) bool {
		return equality.Semantic.DeepEqual(recordOf(&a), recordOf(&b))
	})
}

// recordKey identifies the record of a revision in the cache of decoded records. Unlike a revision's data, the record
// may change, so the key contains the resourceVersion.
type recordKey struct {
	uid     types.UID
	version string
}

// claimTemplates decodes the record of a revision, once for each version of the revision.
func (d *Decoder) claimTemplates(rev *appsv1.ControllerRevision, recorded string) ([]corev1.PersistentVolumeClaim, bool) {
	key := recordKey{rev.UID, rev.ResourceVersion}
	if rev.UID != "" {
		if known, ok := d.claims.Get(key); ok {
			templates, ok := known.([]corev1.PersistentVolumeClaim)
			return templates, ok
		}
	}
	templates, err := decodeClaims(recorded)
	if rev.UID != "" {
		if err != nil {
			d.claims.Add(key, err)
		} else {
			d.claims.Add(key, templates)
		}
	}
	return templates, err == nil
}

func decodeClaims(recorded string) ([]corev1.PersistentVolumeClaim, error) {
	var records []recordedClaim
	if err := json.Unmarshal([]byte(recorded), &records); err != nil {
		return nil, err
	}
	templates := make([]corev1.PersistentVolumeClaim, len(records))
	for i, r := range records {
		if r.Metadata.Name == "" {
			return nil, fmt.Errorf("claim template %d has no name", i)
		}
		templates[i] = corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: r.Metadata.Name, Labels: r.Metadata.Labels, Annotations: r.Metadata.Annotations, Finalizers: r.Metadata.Finalizers},
			Spec:       r.Spec,
		}
	}
	return templates, nil
}

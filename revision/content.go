package revision

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/lru"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/reason"
)

// UnreadableRevision means that a ControllerRevision's data is not a Pod template. Such a revision is compared with
// nothing and never deleted as unreadable. A Pod of the revision cannot be updated in place.
const UnreadableRevision reason.Code = "UnreadableRevision"

// Content is the decoded content of a ControllerRevision. Callers share a Content: read only.
type Content struct {
	// Template is the Pod template.
	Template *corev1.PodTemplateSpec
	// Outside holds, as JSON, the data beside spec.template; nil in every revision written by the kit. A difference in
	// Outside is never delivered in place.
	Outside []byte
}

// Decode reads a revision. The error is a reason.Reason with code UnreadableRevision and the revision as its object.
func Decode(rev *appsv1.ControllerRevision) (*Content, error) {
	content, err := readData(rev.Data.Raw)
	if err != nil {
		return nil, reason.Reason{
			Code:   UnreadableRevision,
			Object: reason.Object{Kind: "ControllerRevision", Namespace: rev.Namespace, Name: rev.Name, UID: rev.UID},
			Path:   "data",
			New:    reason.Shorten(string(rev.Data.Raw), 60),
			Detail: err.Error(),
			Remedy: "delete the revision if no Pod was made from it",
		}
	}
	return content, nil
}

func readData(raw []byte) (*Content, error) {
	var data, spec map[string]json.RawMessage
	if err := json.Unmarshal(raw, &data); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	if err := json.Unmarshal(data["spec"], &spec); err != nil {
		return nil, fmt.Errorf("data.spec: %w", err)
	}
	encoded, ok := spec["template"]
	if !ok || string(encoded) == "null" {
		return nil, errors.New("data.spec.template: missing")
	}
	content := &Content{Template: &corev1.PodTemplateSpec{}}
	if err := decode.Object(encoded, content.Template); err != nil {
		return nil, fmt.Errorf("data.spec.template: %w", err)
	}
	delete(spec, "template")
	delete(data, "spec")
	if len(spec)+len(data) > 0 {
		outside, err := json.Marshal([]any{data, spec}) // maps are written in key order: equal content, equal bytes
		if err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
		content.Outside = outside
	}
	return content, nil
}

// SameTemplate reports whether two templates mean the same: absent and empty lists and maps are equal, quantities
// compare by value, everything else must agree, fields unknown to the code included. defaults, unless nil, is applied
// to copies of both first. The templates are not modified.
func SameTemplate(a, b *corev1.PodTemplateSpec, defaults func(*corev1.PodTemplateSpec)) bool {
	if equality.Semantic.DeepEqual(a, b) {
		return true
	}
	if defaults == nil {
		return false
	}
	a, b = a.DeepCopy(), b.DeepCopy()
	defaults(a)
	defaults(b)
	return equality.Semantic.DeepEqual(a, b)
}

// Decoder decodes each revision once. A ControllerRevision's data never changes after its creation (the API server
// refuses changes), so the UID is enough of a key. Safe for concurrent use.
type Decoder struct {
	defaults func(*corev1.PodTemplateSpec)
	contents *lru.Cache
	claims   *lru.Cache // by recordKey
}

// NewDecoder returns a Decoder that remembers up to size revisions. defaults is the argument for SameTemplate and may
// be nil.
func NewDecoder(size int, defaults func(*corev1.PodTemplateSpec)) *Decoder {
	return &Decoder{defaults: defaults, contents: lru.New(size), claims: lru.New(size)}
}

// Content returns the content of the revision. Errors are the errors of Decode.
func (d *Decoder) Content(rev *appsv1.ControllerRevision) (*Content, error) {
	if rev.UID != "" {
		if known, ok := d.contents.Get(rev.UID); ok {
			return known.(*Content), nil
		}
	}
	content, err := Decode(rev)
	if err != nil {
		return nil, err
	}
	if rev.UID != "" {
		d.contents.Add(rev.UID, content)
	}
	return content, nil
}

// holds reports whether the revision is of the given template. An unreadable revision is of none.
func (d *Decoder) holds(rev *appsv1.ControllerRevision, template *corev1.PodTemplateSpec, encoded []byte) bool {
	if bytes.Equal(rev.Data.Raw, encoded) {
		return true
	}
	content, err := d.Content(rev)
	return err == nil && content.Outside == nil && SameTemplate(content.Template, template, d.defaults)
}

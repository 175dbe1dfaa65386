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

// UnreadableRevision means that a ControllerRevision's data cannot be decoded as a Pod template. Such a revision
// never equals a template, and is not deleted only because it is unreadable. A Pod of the revision cannot be updated
// in place.
const UnreadableRevision reason.Code = "UnreadableRevision"

// Content is the decoded content of a ControllerRevision. Callers share a Content, so do not modify a Content.
type Content struct {
	// Template is the Pod template.
	Template *corev1.PodTemplateSpec
	// Outside is the data outside spec.template, as JSON; nil in every revision written by the kit. If Outside differs,
	// an in-place update is impossible.
	Outside []byte
}

// Decode decodes a revision's data. The error is a reason.Reason with code UnreadableRevision and the revision as its
// object.
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
		// JSON maps are encoded in the order of keys, so equal content gives equal bytes.
		outside, err := json.Marshal([]any{data, spec})
		if err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
		content.Outside = outside
	}
	return content, nil
}

// SameTemplate reports whether two templates mean the same: absent and empty lists and maps are equal, and quantities
// are compared by value; everything else must be equal, including fields unknown to the code. defaults, unless nil, is
// applied to copies of both templates first. The templates are not modified.
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

// Decoder decodes each revision only once. The API server refuses changes of a ControllerRevision's data, so the UID is
// a sufficient key. A Decoder is safe for concurrent use.
type Decoder struct {
	defaults func(*corev1.PodTemplateSpec)
	contents *lru.Cache
	claims   *lru.Cache // decoded records, by recordKey
}

// NewDecoder returns a Decoder that keeps up to size decoded revisions. defaults is the argument of SameTemplate, and
// may be nil.
func NewDecoder(size int, defaults func(*corev1.PodTemplateSpec)) *Decoder {
	return &Decoder{defaults: defaults, contents: lru.New(size), claims: lru.New(size)}
}

// Content returns the decoded content of the revision. The errors are those of Decode.
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

// holds reports whether the revision's template is equivalent to the given template. The result is false for a
// revision that cannot be decoded.
func (d *Decoder) holds(rev *appsv1.ControllerRevision, template *corev1.PodTemplateSpec, encoded []byte) bool {
	if bytes.Equal(rev.Data.Raw, encoded) {
		return true
	}
	content, err := d.Content(rev)
	return err == nil && content.Outside == nil && SameTemplate(content.Template, template, d.defaults)
}

package conversion

import (
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

const kindBroadcastJob = "BroadcastJob"

// BroadcastJobToV1beta1 converts. The result shares no memory with src. An error means: src was not decoded in full.
func BroadcastJobToV1beta1(src *v1alpha1.BroadcastJob) (*v1beta1.BroadcastJob, error) {
	if len(src.Spec.Undecodable) > 0 {
		return nil, src.Spec.Undecodable[0]
	}
	src = src.DeepCopy()
	dst := &v1beta1.BroadcastJob{TypeMeta: src.TypeMeta, ObjectMeta: src.ObjectMeta, Spec: src.Spec, Status: src.Status}
	dst.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(kindBroadcastJob))
	return dst, nil
}

// BroadcastJobToV1alpha1 converts. The result shares no memory with src. An error means: src was not decoded in full.
func BroadcastJobToV1alpha1(src *v1beta1.BroadcastJob) (*v1alpha1.BroadcastJob, error) {
	if len(src.Spec.Undecodable) > 0 {
		return nil, src.Spec.Undecodable[0]
	}
	src = src.DeepCopy()
	dst := &v1alpha1.BroadcastJob{TypeMeta: src.TypeMeta, ObjectMeta: src.ObjectMeta, Spec: src.Spec, Status: src.Status}
	dst.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kindBroadcastJob))
	return dst, nil
}

func broadcastJobToBeta(object []byte) ([]byte, error) {
	return inVersion(object, v1beta1.GroupVersion.String())
}

func broadcastJobToAlpha(object []byte) ([]byte, error) {
	return inVersion(object, v1alpha1.GroupVersion.String())
}

// inVersion writes an object with a new version and no further change.
func inVersion(object []byte, apiVersion string) ([]byte, error) {
	whole, err := split(object)
	if err != nil {
		return nil, err
	}
	return whole.in(apiVersion)
}

// broadcastJobParts is empty: no part needs room in an annotation.
func broadcastJobParts([]byte, string) (map[string]any, error) { return map[string]any{}, nil }

package sidecarset

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/revision"
)

// content is the part of a SidecarSet that its revisions record. In JSON, fields that are not set are null, as
// OpenKruise writes such fields.
type content struct {
	Volumes          []corev1.Volume                  `json:"volumes"`
	Containers       []pub.SidecarContainer           `json:"containers"`
	InitContainers   []pub.SidecarContainer           `json:"initContainers"`
	ImagePullSecrets []corev1.LocalObjectReference    `json:"imagePullSecrets"`
	PatchPodMetadata []pub.SidecarSetPatchPodMetadata `json:"patchPodMetadata"`
}

// contentOf returns the content of a SidecarSet's present spec.
func contentOf(set *v1beta1.SidecarSet) content {
	s := &set.Spec
	return content{s.Volumes, s.Containers, s.InitContainers, s.ImagePullSecrets, s.PatchPodMetadata}
}

// Encode returns the data of a revision, with its keys sorted.
func (c content) Encode() ([]byte, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encoding a revision: %w", err)
	}
	var spec map[string]any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&spec); err != nil {
		return nil, fmt.Errorf("encoding a revision: %w", err)
	}
	spec["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": spec})
}

func decodeContent(rev *appsv1.ControllerRevision) (content, error) {
	var data struct {
		Spec content `json:"spec"`
	}
	if err := json.Unmarshal(rev.Data.Raw, &data); err != nil {
		return content{}, fmt.Errorf("reading ControllerRevision %s: %w", rev.Name, err)
	}
	return data.Spec, nil
}

// restored returns the SidecarSet with the sidecars recorded in a revision.
func restored(set *v1beta1.SidecarSet, rev *appsv1.ControllerRevision) (*v1beta1.SidecarSet, error) {
	c, err := decodeContent(rev)
	if err != nil {
		return nil, err
	}
	out := &v1beta1.SidecarSet{ObjectMeta: set.ObjectMeta, Spec: set.Spec}
	out.Spec.Volumes, out.Spec.Containers, out.Spec.InitContainers = c.Volumes, c.Containers, c.InitContainers
	out.Spec.ImagePullSecrets, out.Spec.PatchPodMetadata = c.ImagePullSecrets, c.PatchPodMetadata
	out.Annotations = maps.Clone(set.Annotations)
	for _, key := range []string{apps.AnnotationSidecarSetHash, apps.AnnotationSidecarSetHashWithoutImage} {
		delete(out.Annotations, key)
		if hash, ok := rev.Annotations[key]; ok {
			out.Annotations[key] = hash
		}
	}
	return out, nil
}

// revisionName returns the name of the revision of the SidecarSet's present sidecars. The controller may not have
// created the revision yet.
func revisionName(set *v1beta1.SidecarSet) string {
	if set.Status.ObservedGeneration == set.Generation && set.Status.LatestRevision != "" {
		return set.Status.LatestRevision
	}
	data, err := contentOf(set).Encode()
	if err != nil {
		return set.Status.LatestRevision
	}
	return revision.Name(set.Name, revision.Hash(data, cmp.Or(set.Status.CollisionCount, new(int32))))
}

// find returns the revision that an injection strategy names, or nil if the revision does not exist.
func find(revisions []*appsv1.ControllerRevision, pin *pub.SidecarSetInjectRevision) *appsv1.ControllerRevision {
	for _, rev := range slices.Backward(revision.Sort(revisions)) {
		switch {
		case pin.RevisionName != nil:
			if rev.Name == *pin.RevisionName {
				return rev
			}
		case pin.CustomVersion != nil && rev.Labels[apps.LabelSidecarSetCustomVersion] == *pin.CustomVersion:
			return rev
		}
	}
	return nil
}

// IsIn reports whether a revision records this content. data is the result of Encode for the content.
func (c content) IsIn(rev *appsv1.ControllerRevision, data []byte) bool {
	if bytes.Equal(rev.Data.Raw, data) {
		return true
	}
	stored, err := decodeContent(rev)
	return err == nil && equality.Semantic.DeepEqual(stored, c)
}

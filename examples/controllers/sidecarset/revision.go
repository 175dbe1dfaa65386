package sidecarset

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/revision/history"
)

// content is what a revision keeps of a SidecarSet. Fields that are not set are null, as OpenKruise writes them.
type content struct {
	Volumes          []corev1.Volume                  `json:"volumes"`
	Containers       []pub.SidecarContainer           `json:"containers"`
	InitContainers   []pub.SidecarContainer           `json:"initContainers"`
	ImagePullSecrets []corev1.LocalObjectReference    `json:"imagePullSecrets"`
	PatchPodMetadata []pub.SidecarSetPatchPodMetadata `json:"patchPodMetadata"`
}

func contentOf(set *v1beta1.SidecarSet) content {
	s := &set.Spec
	return content{s.Volumes, s.Containers, s.InitContainers, s.ImagePullSecrets, s.PatchPodMetadata}
}

// encode returns the data of a revision, with its keys sorted.
func (c content) encode() ([]byte, error) {
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

// restored returns a SidecarSet with the sidecars that it had at a revision.
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

// nameOf returns the name of today's revision, which the controller may not have written yet.
func nameOf(set *v1beta1.SidecarSet) string {
	if set.Status.ObservedGeneration == set.Generation && set.Status.LatestRevision != "" {
		return set.Status.LatestRevision
	}
	data, err := contentOf(set).encode()
	if err != nil {
		return set.Status.LatestRevision
	}
	return revision.Name(set.Name, revision.Hash(data, cmp.Or(set.Status.CollisionCount, new(int32))))
}

// find returns the revision that an injection strategy names, nil if there is none.
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

// syncHistory finds or writes the revision of today's sidecars. Update of the history is nil where the pass has to end.
func (r *Reconciler) syncHistory(ctx context.Context, v *view, pass *fanout.Pass) (*revision.History, error) {
	set := v.Owner
	owner := revision.OwnerOf(set, r.Cache.Kind())
	owner.Namespace = r.namespace
	h := r.histories.Of(owner, cmp.Or(set.Status.CollisionCount, new(int32)), v.Revisions)
	return h, pass.Once(ctx, fanout.Task{Name: "write the revision"}, func() (bool, error) {
		today := contentOf(set)
		data, err := today.encode()
		if err != nil {
			return false, err
		}
		labels := maps.Clone(set.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		labels[apps.LabelSidecarSetName] = set.Name
		if set.Spec.CustomVersion != "" {
			labels[apps.LabelSidecarSetCustomVersion] = set.Spec.CustomVersion
		}
		decision := h.DecideData(data, labels, func(rev *appsv1.ControllerRevision) bool { return holds(rev, data, today) })
		if _, err := history.Write(ctx, v.Client, r.Cache.APIReader(), h, decision); err != nil {
			return false, err
		}
		return false, r.labelVersion(ctx, v, h.Update)
	})
}

// holds reports whether a revision is of these sidecars.
func holds(rev *appsv1.ControllerRevision, data []byte, today content) bool {
	if bytes.Equal(rev.Data.Raw, data) {
		return true
	}
	c, err := decodeContent(rev)
	return err == nil && equality.Semantic.DeepEqual(c, today)
}

// labelVersion writes what the user calls this version onto its revision.
func (r *Reconciler) labelVersion(ctx context.Context, v *view, rev *appsv1.ControllerRevision) error {
	version := v.Owner.Spec.CustomVersion
	if version == "" || rev.Labels[apps.LabelSidecarSetCustomVersion] == version {
		return nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": rev.UID, "labels": map[string]string{apps.LabelSidecarSetCustomVersion: version},
	}})
	if err != nil {
		return err
	}
	return v.Client.Patch(ctx, rev.DeepCopy(), client.RawPatch(types.MergePatchType, body))
}

// truncate deletes revisions that nobody needs.
func (r *Reconciler) truncate(ctx context.Context, v *view, pass *fanout.Pass, h *revision.History) error {
	limit := max(int(*cmp.Or(v.Owner.Spec.RevisionHistoryLimit, new(defaultHistory))), 1) - 1 // beside today's
	if len(h.Revisions) <= limit+1 {
		return nil // without a look at thousands of Pods
	}
	return pass.Once(ctx, fanout.Task{Name: "truncate the history"}, func() (bool, error) {
		used := map[string]bool{}
		for _, pod := range v.Pods {
			used[r.control.RevisionOf(pod, v.Owner.Name)] = true
		}
		if pin := v.Owner.Spec.InjectionStrategy.Revision; pin != nil {
			if rev := find(h.Revisions, pin); rev != nil {
				used[rev.Name] = true
			}
		}
		return history.Truncate(ctx, v.Client, h, limit, revision.CountAllOld, func(rev *appsv1.ControllerRevision) bool { return used[rev.Name] })
	})
}

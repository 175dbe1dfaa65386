package sidecarset

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/revision/history"
)

// syncHistory finds or creates the revision of the present sidecars. If the reconciliation must end, the field Update
// of the history is nil.
func (r *Reconciler) syncHistory(ctx context.Context, v *view, pass *fanout.Pass) (*revision.History, error) {
	set := v.Owner
	owner := revision.OwnerOf(set, r.Cache.Kind())
	owner.Namespace = r.namespace
	h := r.histories.Of(owner, cmp.Or(set.Status.CollisionCount, new(int32)), v.Revisions)
	return h, pass.Once(ctx, fanout.Task{Name: "write the revision"}, func() (bool, error) {
		today := contentOf(set)
		data, err := today.Encode()
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
		decision := h.DecideData(data, labels, func(rev *appsv1.ControllerRevision) bool { return today.IsIn(rev, data) })
		if _, err := history.Write(ctx, v.Client, r.Cache.APIReader(), h, decision); err != nil {
			return false, err
		}
		return false, r.labelVersion(ctx, v, h.Update)
	})
}

// labelVersion sets a label on the revision, with the version name that the user has chosen.
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

// truncate deletes revisions beyond the history limit.
func (r *Reconciler) truncate(ctx context.Context, v *view, pass *fanout.Pass, h *revision.History) error {
	// The limit does not count the present revision.
	limit := max(int(*cmp.Or(v.Owner.Spec.RevisionHistoryLimit, new(defaultHistory))), 1) - 1
	if len(h.Revisions) <= limit+1 {
		return nil // avoids reading thousands of Pods for nothing
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

// Package history carries out the decisions of package revision.
//
// RBAC: create, patch and delete on controllerrevisions.apps; and get, for the rare case that the name of a new
// revision exists already.
package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/revision"
)

// maxCollisions is the largest number of names that Write tries in a call. The next call continues from the owner's
// collisionCount.
const maxCollisions = 16

// Sync finds or writes the revision of a template and stores the revision as the history's Update: Sync is
// History.Decide and Write in a single call. Sync reports whether anything was written.
func Sync(ctx context.Context, c client.Writer, apiReader client.Reader, h *revision.History, template *corev1.PodTemplateSpec) (changed bool, err error) {
	decision, err := h.Decide(template)
	if err != nil {
		return false, err
	}
	return Write(ctx, c, apiReader, h, decision)
}

// Write carries out a decision, and stores the revision returned by the API server as the history's Update. apiReader
// must not read from a cache: Write reads only if a name is taken, and a cache may not show the existing revision yet.
// If the existing revision has other data, the history's collision count grows. Write writes nothing for revision.Keep
// without annotations, and nothing for an owner being deleted. If the owner is being deleted and the API server has no
// such revision, Update is nil. Write reports whether anything was written.
func Write(ctx context.Context, c client.Writer, apiReader client.Reader, h *revision.History, decision revision.Decision) (changed bool, err error) {
	rev := decision.Revision
	switch {
	case decision.Action == revision.Create && h.Owner().Deleting:
		h.Update = nil
		return false, nil
	case decision.Action == revision.Keep && len(decision.Annotations) == 0 || h.Owner().Deleting:
		h.Update = rev
		return false, nil
	case decision.Action != revision.Create:
		rev, err = patch(ctx, c, decision)
	default:
		rev, err = create(ctx, c, apiReader, h, rev)
	}
	if err != nil {
		return false, err
	}
	h.Update = rev
	same := func(old *appsv1.ControllerRevision) bool { return old.Name == rev.Name }
	if at := slices.IndexFunc(h.Revisions, same); at >= 0 && decision.Action == revision.Keep {
		h.Revisions[at] = rev
		return true, nil
	}
	h.Revisions = append(slices.DeleteFunc(h.Revisions, same), rev)
	return true, nil
}

func create(ctx context.Context, c client.Writer, apiReader client.Reader, h *revision.History, want *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	for range maxCollisions {
		created := want.DeepCopy()
		err := c.Create(ctx, created)
		if err == nil {
			return created, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("creating ControllerRevision %s/%s: %w", want.Namespace, want.Name, err)
		}
		var taken appsv1.ControllerRevision
		if err := apiReader.Get(ctx, client.ObjectKeyFromObject(want), &taken); err != nil {
			return nil, fmt.Errorf("reading ControllerRevision %s/%s, whose name is taken: %w", want.Namespace, want.Name, err)
		}
		if string(taken.Data.Raw) == string(want.Data.Raw) && isOurs(h, &taken) {
			return &taken, nil // an earlier call has written the revision, and the cache does not show it yet
		}
		want = h.Rename(want)
	}
	return nil, fmt.Errorf("creating a ControllerRevision for %s/%s: %d names in a row are taken", want.Namespace, h.Owner().Name, maxCollisions)
}

func isOurs(h *revision.History, rev *appsv1.ControllerRevision) bool {
	if ref := metav1.GetControllerOf(rev); ref != nil {
		return ref.UID == h.Owner().Reference.UID
	}
	return h.Left != nil && rev.DeletionTimestamp == nil && h.Left(rev)
}

// patch writes annotations and the number of a revision. For revision.Keep the number is not changed.
func patch(ctx context.Context, c client.Writer, decision revision.Decision) (*appsv1.ControllerRevision, error) {
	metadata := map[string]any{"uid": decision.Revision.UID, "resourceVersion": decision.Revision.ResourceVersion}
	if len(decision.Annotations) > 0 {
		metadata["annotations"] = decision.Annotations
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata, "revision": decision.Number})
	if err != nil {
		return nil, fmt.Errorf("encoding the patch of ControllerRevision %s/%s: %w", decision.Revision.Namespace, decision.Revision.Name, err)
	}
	rev := decision.Revision.DeepCopy()
	if err := c.Patch(ctx, rev, client.RawPatch(types.MergePatchType, body)); err != nil {
		return nil, fmt.Errorf("%s of ControllerRevision %s/%s at number %d: %w", decision.Action, rev.Namespace, rev.Name, decision.Number, err)
	}
	return rev, nil
}

// Truncate deletes revisions that are not needed: see revision.History.Excess. Call Truncate even if other parts of a
// reconcile have failed: otherwise old revisions are not deleted while the reconciles of a rollout fail. Truncate
// reports whether any revision was deleted. The error comes from Delete.
func Truncate(
	ctx context.Context, c client.Writer, h *revision.History, limit int, counting revision.Counting,
	inUse func(*appsv1.ControllerRevision) bool, keep ...string,
) (changed bool, err error) {
	return Delete(ctx, c, h.Excess(limit, counting, inUse, keep...))
}

// Delete deletes revisions. A precondition on the UID protects another revision of the same name. A revision already
// deleted is no error. After a failed deletion, Delete continues; the error joins the API server's errors. Delete
// reports whether any revision was deleted.
func Delete(ctx context.Context, c client.Writer, revisions []*appsv1.ControllerRevision) (changed bool, err error) {
	var errs []error
	for _, rev := range revisions {
		if err := c.Delete(ctx, rev, client.Preconditions{UID: &rev.UID}); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting ControllerRevision %s/%s: %w", rev.Namespace, rev.Name, err))
			continue
		}
		changed = true
	}
	return changed, errors.Join(errs...)
}

// Package apply carries out what package revision decided.
//
// RBAC: create, patch and delete on controllerrevisions.apps; get as well, for the rare name that is taken.
package apply

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/revision"
)

// maxCollisions bounds the names tried in one call; the owner's count carries on from there in the next.
const maxCollisions = 16

// Ensure makes the decision true and returns the revision as the API server has it, and the collision count to keep in
// the owner's status (the given one unless a name was taken by other data). live must not read from a cache: it is asked
// only when a name is taken, which a cache may not know yet. Nothing is written for revision.Keep.
func Ensure(ctx context.Context, c client.Writer, live client.Reader, owner revision.Owner, keys revision.Keys,
	decision revision.Decision, collisions *int32,
) (*appsv1.ControllerRevision, *int32, error) {
	switch decision.Action {
	case revision.Keep:
		return decision.Revision, collisions, nil
	case revision.Bump:
		rev, err := bump(ctx, c, decision)
		return rev, collisions, err
	default:
		return create(ctx, c, live, owner, keys, decision.Revision, collisions)
	}
}

// Current finds or writes the revision of a template: revision.Decide and Ensure in one call, for owners that keep no
// collision count. existing are the owner's revisions.
func Current(ctx context.Context, c client.Writer, live client.Reader, owner revision.Owner, keys revision.Keys,
	template *corev1.PodTemplateSpec, existing []*appsv1.ControllerRevision, decoder *revision.Decoder,
) (*appsv1.ControllerRevision, error) {
	decision, err := revision.Decide(owner, keys, template, nil, existing, decoder)
	if err != nil {
		return nil, err
	}
	rev, _, err := Ensure(ctx, c, live, owner, keys, decision, nil)
	return rev, err
}

func create(ctx context.Context, c client.Writer, live client.Reader, owner revision.Owner, keys revision.Keys,
	want *appsv1.ControllerRevision, collisions *int32,
) (*appsv1.ControllerRevision, *int32, error) {
	for range maxCollisions {
		created := want.DeepCopy()
		err := c.Create(ctx, created)
		if err == nil {
			return created, collisions, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, collisions, fmt.Errorf("creating ControllerRevision %s/%s: %w", want.Namespace, want.Name, err)
		}
		var taken appsv1.ControllerRevision
		if err := live.Get(ctx, client.ObjectKeyFromObject(want), &taken); err != nil {
			return nil, collisions, fmt.Errorf("reading ControllerRevision %s/%s, whose name is taken: %w", want.Namespace, want.Name, err)
		}
		if metav1.GetControllerOf(&taken) != nil && metav1.GetControllerOf(&taken).UID == owner.Reference.UID &&
			string(taken.Data.Raw) == string(want.Data.Raw) {
			return &taken, collisions, nil // our own, from before the cache knew it
		}
		next := int32(1)
		if collisions != nil {
			next = *collisions + 1
		}
		collisions = &next
		want = revision.Renamed(owner, keys, want, next)
	}
	return nil, collisions, fmt.Errorf("creating a ControllerRevision for %s/%s: %d names in a row are taken", owner.Namespace, owner.Name, maxCollisions)
}

func bump(ctx context.Context, c client.Writer, decision revision.Decision) (*appsv1.ControllerRevision, error) {
	metadata := map[string]any{"uid": decision.Revision.UID, "resourceVersion": decision.Revision.ResourceVersion}
	if len(decision.Annotations) > 0 {
		metadata["annotations"] = decision.Annotations
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata, "revision": decision.Number})
	if err != nil {
		return nil, fmt.Errorf("encoding the new number of ControllerRevision %s/%s: %w", decision.Revision.Namespace, decision.Revision.Name, err)
	}
	rev := decision.Revision.DeepCopy()
	if err := c.Patch(ctx, rev, client.RawPatch(types.MergePatchType, body)); err != nil {
		return nil, fmt.Errorf("renumbering ControllerRevision %s/%s to %d: %w", rev.Namespace, rev.Name, decision.Number, err)
	}
	return rev, nil
}

// Delete removes the revisions, each only as the object that was decided on. One that is gone already is no error.
func Delete(ctx context.Context, c client.Writer, revisions []*appsv1.ControllerRevision) error {
	for _, rev := range revisions {
		err := c.Delete(ctx, rev, client.Preconditions{UID: &rev.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting ControllerRevision %s/%s: %w", rev.Namespace, rev.Name, err)
		}
	}
	return nil
}

package executor

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/revision/history"
)

// Templates are the parts of an owner that a revision records.
type Templates struct {
	// Pod is the owner's Pod template. Required.
	Pod *corev1.PodTemplateSpec
	// Claims are recorded in the revision under revision.Keys.ClaimTemplatesAnnotation. Observed is the
	// observedGeneration in the owner's status: see revision.History.RecordClaims.
	Claims   []corev1.PersistentVolumeClaim
	Observed int64
	// Collisions is the collisionCount in the owner's status, as for revision.Histories; nil if the status has no
	// count.
	Collisions *int32
	// Stamp adds labels or annotations to a new revision; nil for none.
	Stamp func(*revision.Decision)
}

// SyncHistory finds or creates the revision of the templates, and stores the history in the Turn. If the history has no
// Update afterwards, the reconcile must end.
func (p *Parts[O]) SyncHistory(ctx context.Context, t *Turn[O], from Templates) error {
	if from.Pod == nil {
		return reason.Final(errors.New("executor: Templates.Pod is required"))
	}
	h := p.Histories.Of(revision.OwnerOf(t.Owner, p.Cache.Kind()), from.Collisions, append(t.Revisions, p.Left(t)...))
	h.Left = func(rev *appsv1.ControllerRevision) bool { return p.isLeft(t, rev) }
	t.History = h
	return t.Pass.Once(ctx, fanout.Task{Name: "write the revision"}, func() (bool, error) {
		decision, err := h.Decide(from.Pod)
		if err != nil {
			return false, reason.Final(err)
		}
		if from.Stamp != nil {
			from.Stamp(&decision)
		}
		if p.claims {
			if err := h.RecordClaims(&decision, from.Pod, from.Claims, from.Observed < t.Owner.GetGeneration()); err != nil {
				return false, reason.Final(err)
			}
		}
		_, err = history.Write(ctx, t.Client, p.Cache.APIReader(), h, decision)
		return false, err // the reconcile continues even if the revision is new
	})
}

// Left returns the revisions of an earlier owner of the same name that have no controller and match the Turn's
// Selector. If there is no Selector, Left returns none. SyncHistory reuses such revisions; the controller decides
// whether to adopt them.
func (p *Parts[O]) Left(t *Turn[O]) (out []*appsv1.ControllerRevision) {
	for _, orphan := range p.Cache.Revisions.Orphans(t.Owner.GetNamespace()) {
		if p.isLeft(t, orphan) {
			out = append(out, orphan)
		}
	}
	return out
}

func (p *Parts[O]) isLeft(t *Turn[O], orphan *appsv1.ControllerRevision) bool {
	return t.Selector != nil && t.Selector.Matches(labels.Set(orphan.Labels)) && p.Histories.IsNamedFor(orphan, t.Owner.GetName())
}

// TruncateHistory deletes revisions that no Pod in the Set has, beyond the limit. keep lists the names of further
// revisions to keep, such as the current revision. Call TruncateHistory even if other parts of the reconcile have
// failed.
func (p *Parts[O]) TruncateHistory(ctx context.Context, t *Turn[O], limit int, keep ...string) error {
	if t.History == nil || t.Set == nil {
		return nil
	}
	return t.Pass.Once(ctx, fanout.Task{Name: "truncate the history"}, func() (bool, error) {
		return history.Truncate(ctx, t.Client, t.History, limit, p.counting, t.Set.Uses, keep...)
	})
}

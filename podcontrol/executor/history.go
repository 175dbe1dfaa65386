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

// Templates are the content of a revision.
type Templates struct {
	// Pod is the owner's template. Required.
	Pod *corev1.PodTemplateSpec
	// Claims are recorded with the revision under revision.Keys.ClaimTemplatesAnnotation. Observed is the observed
	// generation in the owner's status: see revision.History.RecordClaims.
	Claims   []corev1.PersistentVolumeClaim
	Observed int64
	// Collisions is the count in the owner's status, as for revision.Histories; nil for an owner without a count.
	Collisions *int32
	// Stamp writes more on a revision; nil for nothing.
	Stamp func(*revision.Decision)
}

// SyncHistory finds or writes the revision of the templates, and keeps the history in the Turn. If the pass has to end,
// the history's Update is nil.
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
		return false, err // the pass goes on with a new revision
	})
}

// Left returns the revisions without an owner left by an earlier owner of the name, with labels matched by the Turn's
// Selector, none without a Selector. SyncHistory uses left revisions; the controller decides about adoption.
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

// TruncateHistory deletes revisions without a Pod in the Set, beyond the limit. keep are the names of further revisions
// to keep, such as the current revision. Call TruncateHistory whatever the result of the rest of a pass.
func (p *Parts[O]) TruncateHistory(ctx context.Context, t *Turn[O], limit int, keep ...string) error {
	if t.History == nil || t.Set == nil {
		return nil
	}
	return t.Pass.Once(ctx, fanout.Task{Name: "truncate the history"}, func() (bool, error) {
		return history.Truncate(ctx, t.Client, t.History, limit, p.counting, t.Set.Uses, keep...)
	})
}

package kruise

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/revision/history"
)

// Templates are the content of a revision.
type Templates struct {
	Pod *corev1.PodTemplateSpec
	// Claims are recorded with the revision, for kinds with claims. Observed is the observed generation in the owner's
	// status.
	Claims   []corev1.PersistentVolumeClaim
	Observed int64
	// Stamp writes more on a revision; nil for nothing.
	Stamp func(*revision.Decision)
	// Collisions is the count in the owner's status.
	Collisions *int32
	Selector   labels.Selector
}

// SyncHistory finds or writes the revision of today's templates. Update of the history is nil where the pass has to
// end.
func (p *Parts[O]) SyncHistory(ctx context.Context, v *ownercache.View[O], pass *fanout.Pass, t Templates) (*revision.History, error) {
	revisions := append(v.Revisions, p.Left(v, t.Selector)...)
	if t.Collisions == nil {
		t.Collisions = new(int32) // OpenKruise hashes with a count of zero from the start
	}
	h := p.Histories.Of(revision.OwnerOf(v.Owner, p.Cache.Kind()), t.Collisions, revisions)
	return h, pass.Once(ctx, fanout.Task{Name: "write the revision"}, func() (bool, error) {
		decision, err := h.Decide(t.Pod)
		if err != nil {
			return false, reason.Final(err)
		}
		if t.Stamp != nil {
			t.Stamp(&decision)
		}
		if p.kind.Claims {
			if err := h.RecordClaims(&decision, t.Pod, t.Claims, t.Observed < v.Owner.GetGeneration()); err != nil {
				return false, reason.Final(err)
			}
		}
		_, err = history.Write(ctx, v.Client, p.Cache.APIReader(), h, decision)
		return false, err // the pass goes on with a new revision
	})
}

// Left returns the revisions without an owner left by an earlier owner of the name. The history uses left revisions;
// the kind decides about adoption.
func (p *Parts[O]) Left(v *ownercache.View[O], selector labels.Selector) (out []*appsv1.ControllerRevision) {
	for _, orphan := range p.Cache.Revisions.Orphans(v.Owner.GetNamespace()) {
		if selector.Matches(labels.Set(orphan.Labels)) && isLeftBy(orphan, v.Owner.GetName(), orphan.Labels[p.kind.HashLabel]) {
			out = append(out, orphan)
		}
	}
	return out
}

// isLeftBy reports whether a revision without an owner may belong to a deleted owner of the name: the revision's name
// follows the naming of owners.
func isLeftBy(rev *appsv1.ControllerRevision, owner, hash string) bool {
	return hash != "" && rev.Name == revision.Name(owner, hash)
}

// Truncate deletes unneeded revisions. keep are further names to keep, such as the current revision.
func (p *Parts[O]) Truncate(
	ctx context.Context, v *ownercache.View[O], pass *fanout.Pass, h *revision.History, pods *podcontrol.Set, limit int, keep ...string,
) error {
	return pass.Once(ctx, fanout.Task{Name: "truncate the history"}, func() (bool, error) {
		return history.Truncate(ctx, v.Client, h, limit, p.kind.Counting, pods.Uses, keep...)
	})
}

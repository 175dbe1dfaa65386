package images

import (
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/nodeimage/onnode"
	"github.com/workloadkit/workloadkit/node/imagepull"
)

// record writes the reports to the status of the NodeImage, if the status changes.
func (a *Agent) record(ctx context.Context, reports []imagepull.Report) error {
	before, v := a.image.Load(), a.view.Load()
	if before == nil {
		return nil
	}
	after, now := before.DeepCopy(), a.options.Clock.Now()
	if wants := onnode.Wants(&before.Spec); len(wants) > 0 || len(before.Status.Conditions) > 0 {
		onnode.SetReports(after, reports, now, imagepull.Condition(apps.ConditionImagesPresent, before.Generation, wants, reports))
	} else {
		onnode.SetReports(after, reports, now)
	}
	patch, err := patchOf(before, after)
	switch {
	case err != nil:
		return fmt.Errorf("report to NodeImage %s: %w", a.node, err)
	case patch == nil:
		return nil
	}
	written, err := v.PatchStatus(ctx, types.NamespacedName{Name: a.node}, patch)
	if err != nil {
		return fmt.Errorf("report to NodeImage %s: %w", a.node, err)
	}
	a.tell(ctx, before, reports)
	return v.writes.Wrote(before.UID, v.store, written.GetResourceVersion())
}

// patchOf returns the merge patch from the status of before to the status of after. The result is nil if both
// statuses are equal with times in whole seconds, as the API server stores times. The UID in the patch is a
// precondition, so a NodeImage that was deleted and created again gets no old reports.
func patchOf(before, after *v1beta1.NodeImage) ([]byte, error) {
	var states [2][]byte
	for i, status := range []*v1beta1.NodeImageStatus{&before.Status, &after.Status} {
		var err error
		if states[i], err = json.Marshal(status); err != nil {
			return nil, err
		}
	}
	change, err := jsonpatch.CreateMergePatch(states[0], states[1])
	if err != nil || string(change) == "{}" {
		return nil, err
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": before.UID}, "status": json.RawMessage(change)})
}

// tell sends an event about each pull that has ended since the earlier reports: a success is an event of the
// NodeImage, and a failure is an event of the NodeImage and of the jobs.
func (a *Agent) tell(ctx context.Context, obj *v1beta1.NodeImage, reports []imagepull.Report) {
	if a.options.Tell == nil {
		return
	}
	earlier := map[imagepull.Reference]imagepull.Report{}
	for _, r := range onnode.Reports(obj) {
		earlier[r.Image] = r
	}
	self := corev1.ObjectReference{APIVersion: obj.APIVersion, Kind: "NodeImage", Name: obj.Name, UID: obj.UID}
	for i := range reports {
		r, was := &reports[i], earlier[reports[i].Image]
		if r.Phase == was.Phase && r.Round == was.Round {
			continue
		}
		switch r.Phase {
		case imagepull.Succeeded:
			a.options.Tell(ctx, Event{self, corev1.EventTypeNormal, "PullImageSucceed", "Image " + r.Image.String() + " is on the Node"})
		case imagepull.Failed:
			message := "Image " + r.Image.String() + " could not be pulled: " + r.Message
			a.options.Tell(ctx, Event{self, corev1.EventTypeWarning, "PullImageFailed", message})
			for _, owner := range onnode.Owners(&obj.Spec, r.Image) {
				a.options.Tell(ctx, Event{owner, corev1.EventTypeWarning, "PullImageFailed", "Node " + a.node + ": " + message})
			}
		}
	}
}

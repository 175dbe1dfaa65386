package progress

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/workloadkit/workloadkit/examples/cli/facts"
	"github.com/workloadkit/workloadkit/examples/cli/fields"
	"github.com/workloadkit/workloadkit/reason"
)

// Native turns kubectl's result for a Deployment, DaemonSet or StatefulSet into a [Progress]. The arguments are
// kubectl's text, whether the rollout is done, and kubectl's error. The error for an exceeded progress deadline
// becomes the state Stuck; other errors are returned.
func Native(u *unstructured.Unstructured, text string, isDone bool, failed error) (Progress, error) {
	text = strings.TrimSuffix(text, "\n")
	path := facts.Pausable(u.GroupVersionKind())
	switch {
	case failed != nil:
		for _, c := range fields.Conditions(u.Object) {
			if c.Type == "Progressing" && c.Reason == "ProgressDeadlineExceeded" {
				return Progress{State: Stuck, Text: failed.Error(), Why: reason.List{conditionReason(c)}}, nil
			}
		}
		return Progress{}, failed
	case isDone:
		return Progress{State: Done, Text: text}, nil
	case path != "" && fields.Bool(u.Object, path):
		j := &judge{}
		return Progress{State: Paused, Text: text, Why: j.because(RolloutPaused, path, "", "kubectl kruise rollout resume")}, nil
	}
	j := &judge{}
	return Progress{State: Running, Text: text, Why: j.because(PodsNotUpdated, "", text, "")}, nil
}

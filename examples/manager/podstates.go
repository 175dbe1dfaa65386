package manager

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/persistentpodstate"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/placements"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
)

// podStates is the step that returns Pods to their former places. namespace is the namespace of the configuration.
func podStates(ctx context.Context, mgr ctrl.Manager, namespace string, served *served) (podwebhook.Step, error) {
	current := served.await(v1beta1.GroupVersion.WithKind("PersistentPodState"))
	step, err := placements.NewStep(ctx, mgr, namespace, current, kruise.Manager(mgr).GetEventRecorderFor(persistentpodstate.ControllerName))
	if err != nil {
		return step, fmt.Errorf("persistent states of Pods: %w", err)
	}
	return step, nil
}

package manager

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/examples/controllers/persistentpodstate"
	"github.com/workloadkit/workloadkit/examples/placements"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
)

// podStates is the step that has Pods come back to where they ran, none where the CRD of PersistentPodStates is not installed. namespace is that of
// the configuration.
func podStates(ctx context.Context, mgr ctrl.Manager, namespace string) ([]podwebhook.Step, error) {
	installed, err := isInstalled(mgr.GetRESTMapper(), v1beta1.GroupVersion.WithKind("PersistentPodState"))
	if err != nil || !installed {
		return nil, err
	}
	step, err := placements.NewStep(ctx, mgr, namespace, kruise.Manager(mgr).GetEventRecorderFor(persistentpodstate.ControllerName))
	if err != nil {
		return nil, fmt.Errorf("persistent states of Pods: %w", err)
	}
	return []podwebhook.Step{step}, nil
}

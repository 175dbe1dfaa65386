package persistentpodstate

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/persistentpodstate"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
)

// stepIndex is the name of the index that the Pod webhook uses. The webhook has an index of its own, because the
// webhook also runs in replicas of the manager that are not the leader.
const stepIndex = "workloadkit/persistentpodstate-target-of-new-pods"

// step is the step of the Pod webhook that adds the recorded labels to new Pods.
type step struct {
	states  *ownercache.Index[*v1beta1.PersistentPodState]
	current func(context.Context) error
	lists   func(schema.GroupKind) (listed, known bool)
	events  record.EventRecorder
}

// newStep returns the step of the Pod webhook that makes the scheduler place a new Pod where the last Pod of its name
// ran. namespace is the namespace of the ConfigMap that lists the workload kinds. events receives the step's events.
// The step runs on every replica, and reads from the manager's cache. Call newStep before the manager starts.
//
// current waits until the cache is up to date. Until then, the requests to create Pods of StatefulSets and similar
// kinds must wait: if a new Pod ran on another Node, the controller would record the new Node, and the old record
// would be lost. If current returns an error, the webhook refuses such Pods, and the Pods' controller tries again.
// Pods of all other kinds are admitted.
func newStep(ctx context.Context, mgr ctrl.Manager, namespace string, current func(context.Context) error, events record.EventRecorder) (podwebhook.Mutator, error) {
	states, err := ownercache.NewIndex(ctx, mgr.GetCache(), &v1beta1.PersistentPodState{})
	if err != nil {
		return podwebhook.Mutator{}, err
	}
	if err := states.Add(stepIndex, byTarget); err != nil {
		return podwebhook.Mutator{}, err
	}
	list, err := workloads.FollowKinds(ctx, mgr, namespace)
	if err != nil {
		return podwebhook.Mutator{}, err
	}
	s := &step{states: states, current: current, lists: list.Lists, events: events}
	return podwebhook.Mutator{Name: "PersistentPodState", Mutate: s.mutate}, nil
}

func (s *step) mutate(ctx context.Context, pod *corev1.Pod, request *admission.Request) error {
	kind, name, ok := controllerOf(pod)
	if !ok || pod.Name == "" {
		return nil
	}
	if err := s.current(ctx); err != nil {
		return apierrors.NewServiceUnavailable(err.Error())
	}
	for _, state := range s.states.By(stepIndex, targetKey(kind, pod.Namespace, name)) {
		if len(state.Status.PodStates[pod.Name].NodeTopologyLabels) == 0 {
			continue
		}
		if !api.IsStatefulSet(kind) {
			listed, known := s.lists(kind)
			if !known {
				return apierrors.NewServiceUnavailable("the list of kinds beside StatefulSets is not read yet")
			}
			if !listed {
				continue
			}
		}
		if replaced := Inject(pod, state); len(replaced) > 0 && !ptr.Deref(request.DryRun, false) {
			s.events.Event(state, corev1.EventTypeWarning, apps.EventNodeSelectorReplaced, replaced.Summary(kruise.ReasonsInEvent))
		}
	}
	return nil
}

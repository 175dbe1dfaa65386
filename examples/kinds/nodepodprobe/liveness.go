package nodepodprobe

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/containerrecreaterequest"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/node/probing"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
)

// movesLiveness reports whether node agents run liveness probes in place of the kubelet. While the feature gate for
// probes is off, no agent runs probes, and liveness probes stay in the Pods' containers.
func movesLiveness(gates map[apps.Gate]bool) bool {
	return gates[apps.GateEnhancedLivenessProbe] && gates[apps.GatePodProbeMarker]
}

// newMutator returns the part of the Pod webhook that moves liveness probes to an annotation.
func newMutator(_ context.Context, _ ctrl.Manager, in kind.PodInputs) (podwebhook.Mutator, error) {
	moves := movesLiveness(in.Gates)
	return podwebhook.Mutator{Name: "EnhancedLivenessProbe", Mutate: func(_ context.Context, pod *corev1.Pod, _ *admission.Request) error {
		if !moves {
			return nil
		}
		return move(pod)
	}}, nil
}

// livenessTask returns the backoff for restarts of a container: as in the kubelet, the waits between restarts grow.
func livenessTask(container string) fanout.Task {
	return fanout.Task{Name: "restart container " + container, First: 10 * time.Second, Last: 5 * time.Minute}
}

// settled is how long a container must run until its backoff is reset, as in the kubelet. soon is the wait before the
// next try if a disruption budget refuses the restart, another container restarts, or the Pod's status is outdated.
const (
	settled = 10 * time.Minute
	soon    = 2 * time.Second
)

// restart requests the restart of a container that has failed its liveness probe, one container of a Pod at a time,
// if the budgets allow. after is the time until restart must be called again; zero for never.
func (r *Reconciler) restart(ctx context.Context, pod *corev1.Pod, states []probing.ProbeState) (after time.Duration, err error) {
	now := r.options.Clock.Now()
	r.forgive(pod, now)
	container, message := failing(pod, states)
	if container == "" {
		return 0, nil
	}
	if r.isRestarting(pod) {
		return soon, nil
	}
	attempt := fanout.Attempt{Object: pod.UID, Task: livenessTask(container)}
	if wait, err := r.backoff.Resting(attempt, now); err != nil {
		return wait, nil //nolint:nilerr // the error was reported when it occurred
	}
	if is, err := r.isBusy(ctx, pod); is || err != nil {
		return soon, err
	}
	if r.options.Permit != nil {
		if err := r.options.Permit(ctx, pod, disruption.Update); err != nil {
			if len(reason.From(err)) == 0 {
				return 0, err
			}
			code, text := reason.Explain(err)
			r.events.Event(pod, corev1.EventTypeWarning, string(code), "the restart of container "+container+" waits: "+text)
			return soon, nil
		}
	}
	err = r.client.Create(ctx, requestOf(pod, container))
	if err == nil || mayBeMade(err) {
		r.backoff.Refused(attempt, reason.Reason{Code: LivenessFailed, Detail: message}, r.options.Clock.Now())
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		return soon, nil
	case err != nil:
		return 0, err
	}
	r.events.Event(pod, corev1.EventTypeWarning, apps.EventLivenessFailed, "container "+container+" has failed its liveness probe and is restarted: "+reason.Shorten(message, 512))
	r.options.Metrics.Done("restarted", 1)
	return soon, nil
}

// forgive resets the backoff of containers that have run for longer than settled.
func (r *Reconciler) forgive(pod *corev1.Pod, now time.Time) {
	for i := range pod.Spec.Containers {
		name := pod.Spec.Containers[i].Name
		if s := podstate.ContainerStatus(pod, name); s != nil && s.State.Running != nil && now.Sub(s.State.Running.StartedAt.Time) > settled {
			r.backoff.Succeeded(pod.UID, livenessTask(name))
		}
	}
}

// mayBeMade reports whether a ContainerRecreateRequest may exist although its creation has returned an error, because
// the API server's response may have been lost.
func mayBeMade(err error) bool {
	status := apierrors.APIStatus(nil)
	return !errors.As(err, &status) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// isRestarting reports whether the cache shows an unfinished restart request for a Pod.
func (r *Reconciler) isRestarting(pod *corev1.Pod) bool {
	return slices.ContainsFunc(r.requests.In(pod.Namespace), func(request *v1beta1.ContainerRecreateRequest) bool {
		return isUnderWay(request, pod)
	})
}

// isBusy reports whether the API server has an unfinished restart request for a Pod. The cache may not show a new
// request yet.
func (r *Reconciler) isBusy(ctx context.Context, pod *corev1.Pod) (bool, error) {
	var list v1beta1.ContainerRecreateRequestList
	err := r.live.List(ctx, &list, client.InNamespace(pod.Namespace), client.MatchingLabels{apps.LabelRequestPodUID: string(pod.UID)})
	return slices.ContainsFunc(list.Items, func(request v1beta1.ContainerRecreateRequest) bool { return isUnderWay(&request, pod) }), err
}

func isUnderWay(request *v1beta1.ContainerRecreateRequest, pod *corev1.Pod) bool {
	return request.Labels[apps.LabelRequestPodUID] == string(pod.UID) && request.DeletionTimestamp == nil && !api.HasEnded(&request.Status)
}

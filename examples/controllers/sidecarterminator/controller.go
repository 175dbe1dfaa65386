package sidecarterminator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/expectations/trackedclient"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/reason"
)

// ControllerName is the name of the controller in logs, and the source of its events.
const ControllerName = "sidecarterminator-controller"

// Reconciler stops the sidecars of Pods that run to completion.
type Reconciler struct {
	options  kruise.Options
	client   client.Client // reads from the cache, writes to the API server
	pods     *ownercache.Index[*corev1.Pod]
	requests *ownercache.Index[*v1beta1.ContainerRecreateRequest]
	clients  *trackedclient.Clients
	scheme   *runtime.Scheme
	events   record.EventRecorder
	backoff  fanout.Backoff
	told     *kruise.Told // reasons that events have reported about a Pod
	gone     []func(pod types.UID)
}

// Reconcile takes the next step towards stopping the sidecars of a Pod.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod, ok := r.pods.Get(req.Namespace, req.Name)
	if !ok || !Concerns(pod) {
		return ctrl.Result{}, nil
	}
	if pending, err := r.clients.Check(ctx, pod); err != nil {
		return ctrl.Result{}, fmt.Errorf("Pod %s: comparing the cache with own writes: %w", req, err)
	} else if pending != nil {
		return ctrl.Result{RequeueAfter: pending.RequeueAfter}, nil
	}
	// The Pod is read again, because only after the check above does the cache show all of the controller's writes.
	if pod, ok = r.pods.Get(req.Namespace, req.Name); !ok {
		return ctrl.Result{}, nil
	}
	due, waits := isDue(pod)
	if !due {
		r.tell(pod, waits)
		return ctrl.Result{}, nil
	}
	virtual, err := r.isVirtual(ctx, pod.Spec.NodeName)
	if err != nil {
		return ctrl.Result{}, err
	}
	t := decide(pod, virtual, func(name string) *v1beta1.ContainerRecreateRequest {
		request, _ := r.requests.Get(pod.Namespace, name)
		return request
	})
	r.tell(pod, t.waits)
	return r.act(ctx, pod, t)
}

// isVirtual reports whether a Node is virtual. No node agent runs on a virtual Node, so no agent can stop containers.
func (r *Reconciler) isVirtual(ctx context.Context, name string) (bool, error) {
	node := &corev1.Node{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return false, fmt.Errorf("reading Node %s: %w", name, err)
	}
	return node.Labels[apps.LabelNodeType] == apps.NodeTypeVirtualKubelet, nil
}

// act carries out the steps of the decision in order, up to the first failure.
func (r *Reconciler) act(ctx context.Context, pod *corev1.Pod, t todo) (ctrl.Result, error) {
	c := r.clients.For(pod.UID)
	for _, step := range []struct {
		wanted bool
		name   string
		do     func() error
	}{
		{len(t.images) > 0, "replace images", func() error { return r.replaceImages(ctx, c, pod, t.images) }},
		{t.phase != "", "set the phase", func() error { return setPhase(ctx, c, pod, t.phase, r.options.Clock.Now()) }},
		{t.request != "", "request the end of sidecars", func() error { return r.create(ctx, c, pod, t) }},
	} {
		if !step.wanted {
			continue
		}
		if result, err := r.try(ctx, pod, step.name, step.do); err != nil || result.RequeueAfter > 0 {
			return result, err
		}
	}
	return ctrl.Result{}, nil
}

// try calls do, the request of a step, unless the back-off after an earlier failure lasts. The back-off doubles after
// each failure, and events of the Pod do not shorten the back-off. After a conflict there is no back-off, because an
// event of the Pod follows.
func (r *Reconciler) try(ctx context.Context, pod *corev1.Pod, name string, do func() error) (ctrl.Result, error) {
	attempt := fanout.Attempt{Object: pod.UID, Task: fanout.Task{Name: name}}
	now := r.options.Clock.Now()
	if rest, err := r.backoff.Resting(attempt, now); err != nil {
		return ctrl.Result{RequeueAfter: rest}, nil //nolint:nilerr // The error was reported before.
	}
	err := do()
	switch {
	case err == nil:
		r.backoff.Succeeded(pod.UID, attempt.Task)
		return ctrl.Result{}, nil
	case apierrors.IsConflict(err), ctx.Err() != nil:
		return ctrl.Result{}, err
	case isGone(err):
		return ctrl.Result{}, nil
	}
	code, message := reason.Explain(err)
	r.events.Eventf(pod, corev1.EventTypeWarning, apps.EventSidecarTerminator, "failed to %s: %s: %s", name, code, message)
	logr.FromContextOrDiscard(ctx).Error(err, "failed to "+name)
	return ctrl.Result{RequeueAfter: r.backoff.Refused(attempt, err, now)}, nil
}

// replaceImages stops sidecars on a virtual Node by replacing their images.
func (r *Reconciler) replaceImages(ctx context.Context, c client.Client, pod *corev1.Pod, images map[string]string) error {
	if _, err := podwrite.Send(ctx, c, pod, r.options.Clock.Now(), podpatch.Change{UID: pod.UID, Images: images}); err != nil {
		return err
	}
	r.events.Eventf(pod, corev1.EventTypeNormal, apps.EventSidecarTerminator,
		"main containers have ended: sidecars %s get images that exit at once", strings.Join(slices.Sorted(maps.Keys(images)), ", "))
	return nil
}

// create creates the ContainerRecreateRequest with which the node agent stops sidecars.
func (r *Reconciler) create(ctx context.Context, c client.Client, pod *corev1.Pod, t todo) error {
	request := &v1beta1.ContainerRecreateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: t.request},
		Spec: v1beta1.ContainerRecreateRequestSpec{PodName: pod.Name, Strategy: &v1beta1.ContainerRecreateRequestStrategy{
			ForceRecreate: true, FailurePolicy: v1beta1.ContainerRecreateRequestFailurePolicyIgnore,
		}},
	}
	for _, name := range t.stop {
		request.Spec.Containers = append(request.Spec.Containers, v1beta1.ContainerRecreateRequestContainer{Name: name})
	}
	// blockOwnerDeletion is not set: the deletion of a Pod need not wait for requests, and the controller then needs no
	// permission for the finalizers of Pods.
	if err := controllerutil.SetControllerReference(pod, request, r.scheme, controllerutil.WithBlockOwnerDeletion(false)); err != nil {
		return err
	}
	if err := c.Create(ctx, request); err != nil {
		return err
	}
	r.events.Eventf(pod, corev1.EventTypeNormal, apps.EventSidecarTerminator,
		"main containers have ended: sidecars %s are stopped by ContainerRecreateRequest %s", strings.Join(t.stop, ", "), t.request)
	return nil
}

// tell sends an event about the reasons why sidecars of a Pod still run, unless the last event had the same reasons.
func (r *Reconciler) tell(pod *corev1.Pod, waits reason.List) {
	if text := waits.Summary(kruise.ReasonsInEvent); r.told.IsNews(pod.UID, "waits", text) {
		r.events.Event(pod, corev1.EventTypeWarning, string(waits[0].Code), text)
	}
}

// forget removes everything about a deleted Pod from the controller's memory.
func (r *Reconciler) forget(pod *corev1.Pod) {
	r.clients.Forget(pod)
	r.backoff.Forget(pod.UID)
	for _, forget := range r.gone {
		forget(pod.UID)
	}
}

// isGone reports whether an error means that the Pod no longer exists.
func isGone(err error) bool {
	return errors.Is(err, podwrite.Replaced) || apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

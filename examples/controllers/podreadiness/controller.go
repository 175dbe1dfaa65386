// Package podreadiness is the controller that opens the readiness gate KruisePodReady of new Pods, by writing the
// condition of the same name. The controllers of some kinds open the readiness gate of their own Pods; the controller
// in package podreadiness opens the readiness gate of all further Pods.
//
// Each Pod costs a single patch of pods/status. If the condition exists already, the condition is not changed,
// whatever its value. Once the kubelet has reported containers, the patch requires the observed resourceVersion, so
// that the patch cannot overwrite the entry of a client that closes the gate at the same time. After a conflict, the
// cache's next event enqueues the Pod again. Before the kubelet has reported containers, the Pod is not ready in any
// case, and the requirement would lead to conflicts with the writes of the scheduler and the kubelet for most Pods.
package podreadiness

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/podstate"
)

// ControllerName is the controller's user agent.
const ControllerName = "pod-readiness-controller"

// name is the name of the reconcile loop.
const name = "pod-readiness"

// Reconciler opens readiness gates.
type Reconciler struct {
	client  client.Client // reads Pods from the cache, writes to the API server
	options kruise.Options
	backoff fanout.Backoff
	// opened contains, by namespace and name, the UIDs of Pods whose condition this process has written, and the
	// cache does not show yet.
	opened sync.Map
}

// Setup adds the controller to a manager. The controller writes with c, which must read from the manager's cache.
func Setup(_ context.Context, mgr ctrl.Manager, c client.Client, options kruise.Options) error {
	r := &Reconciler{client: c, options: options.Complete()}
	return ownercache.AddPodLoop(mgr, name, r, r.closed, r.options.Loop(0, nil))
}

// Concerns reports whether the gate of a Pod must still be opened, by this controller or by the Pod's controller.
func Concerns(pod *corev1.Pod) bool {
	return podstate.HasGate(pod, apps.ConditionKruisePodReady) && podstate.Condition(pod, apps.ConditionKruisePodReady) == nil
}

// closed reports whether the readiness gate of a Pod is closed and this controller must open the gate.
func (r *Reconciler) closed(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && Concerns(pod) && !r.opensItself(pod)
}

// opensItself reports whether the controller of the Pod opens the readiness gates of its Pods, together with conditions
// of its own.
func (r *Reconciler) opensItself(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || r.options.OpensGate == nil {
		return false
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && r.options.OpensGate(schema.GroupKind{Group: gv.Group, Kind: ref.Kind})
}

// refused returns the back-off for requests that the API server refuses. Such a request is tried again with growing
// delays.
func refused() fanout.Task {
	return fanout.Task{Name: "open", First: time.Second, Last: 5 * time.Minute}
}

// Reconcile opens the readiness gate of a Pod.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	if err := r.client.Get(ctx, req.NamespacedName, pod); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if !r.closed(pod) { // closed returns false for a deleted Pod too
		r.backoff.Forget(pod.UID)
		r.opened.Delete(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if uid, ok := r.opened.Load(req.NamespacedName); ok && uid == pod.UID {
		return ctrl.Result{}, nil
	}
	now, attempt := r.options.Clock.Now(), fanout.Attempt{Object: pod.UID, Task: refused()}
	if wait, err := r.backoff.Resting(attempt, now); err != nil {
		return ctrl.Result{RequeueAfter: wait}, nil //nolint:nilerr // The error was reported when it occurred.
	}
	change, err := podreadiness.Edit{Initialize: true}.Change(pod, apps.ConditionKruisePodReady)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !podstate.IsReported(pod) {
		change.ResourceVersion = ""
	}
	_, err = podwrite.Send(ctx, r.client, pod, now, change)
	switch {
	case err == nil:
		r.opened.Store(req.NamespacedName, pod.UID)
		return ctrl.Result{}, nil
	case errors.Is(err, podwrite.Replaced), apierrors.IsConflict(err): // the cache will soon show the change
		return ctrl.Result{}, nil
	case podwrite.IsLasting(err):
		ctrl.LoggerFrom(ctx).Error(err, "the readiness gate stays closed")
		return ctrl.Result{RequeueAfter: r.backoff.Refused(attempt, err, now)}, nil
	}
	return ctrl.Result{}, err
}

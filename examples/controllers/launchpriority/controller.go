// Package launchpriority is the controller that starts the containers of a Pod one launch priority after the other.
// Package launchorder adds a barrier to each container: an environment variable that refers to a key of a ConfigMap,
// without which the kubelet does not start the container. The controller opens the barriers by adding the keys, one
// launch priority after the other.
//
// The controller does not watch ConfigMaps. Instead, the process remembers its own writes as long as the Pod needs
// the ConfigMap. A Pod with two priorities costs three requests: the first request creates the ConfigMap with the
// keys of the higher priority, the second adds the remaining keys, and the third sets an annotation that marks the
// Pod as completed.
//
// The Pod owns the ConfigMap, so the ConfigMap is garbage collected with the Pod. If a deleted Pod of the same name
// has left a ConfigMap, the controller deletes this ConfigMap and creates a new one. Otherwise the old ConfigMap
// would open all barriers at once, and would be garbage collected later. The old ConfigMap exists until the Pod is
// reconciled for the first time, and containers already started by the kubelet are not stopped. A ConfigMap
// without an owner is not changed, and an event on the Pod reports the ConfigMap.
package launchpriority

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/launchorder"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/reason"
)

// ControllerName is the controller's user agent, and the source of events.
const ControllerName = "container-launch-priority-controller"

// BarrierOfAnother means that a ConfigMap with the name that the Pod's containers need has another owner or no owner.
// The controller does not change such a ConfigMap.
const BarrierOfAnother reason.Code = "BarrierOfAnother"

// name is the name of the reconcile loop.
const name = "launch-priority"

// Reconciler opens the barriers of Pods, so that containers start in order.
type Reconciler struct {
	order   *launchorder.Order
	client  client.Client // reads Pods from the cache, writes to the API server
	live    client.Reader
	events  record.EventRecorder
	options kruise.Options
	backoff fanout.Backoff

	mu       sync.Mutex
	barriers map[types.NamespacedName]barrier
}

// barrier contains the knowledge of the process about the ConfigMap of a Pod.
type barrier struct {
	pod, uid types.UID
	opened   map[string]string
	marked   bool
}

// Setup adds the controller to a manager. The controller writes with c, which must read from the manager's cache.
func Setup(_ context.Context, mgr ctrl.Manager, c client.Client, options kruise.Options) error {
	order, err := kruise.LaunchOrder()
	if err != nil {
		return err
	}
	r := &Reconciler{
		order: order, client: c, live: mgr.GetAPIReader(),
		events: kruise.Manager(mgr).GetEventRecorderFor(ControllerName), options: options.Complete(),
		barriers: map[types.NamespacedName]barrier{},
	}
	return ownercache.AddPodLoop(mgr, name, r, order.Needed, r.options.Loop(0, nil))
}

// refused returns the back-off for requests refused by the API server. Such a request is tried again with growing
// delays.
func refused() fanout.Task {
	return fanout.Task{Name: "open", First: time.Second, Last: 5 * time.Minute}
}

// missed returns the back-off for reading the ConfigMap again while a Pod's status shows that the kubelet does not
// find the ConfigMap, although the controller has written it. The pause between two reads grows.
func missed() fanout.Task {
	return fanout.Task{Name: "look", First: 30 * time.Second, Last: 10 * time.Minute}
}

// Reconcile opens the next barriers of a Pod.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	if err := r.client.Get(ctx, req.NamespacedName, pod); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if !r.order.Needed(pod) { // the Pod was deleted, has ended, or has started all containers
		r.backoff.Forget(r.known(req.NamespacedName, pod).pod)
		r.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	attempt := fanout.Attempt{Object: pod.UID, Task: refused()}
	if wait, err := r.backoff.Resting(attempt, r.options.Clock.Now()); err != nil {
		return ctrl.Result{RequeueAfter: wait}, nil //nolint:nilerr // The error was reported when it occurred.
	}
	r.distrust(req.NamespacedName, pod)
	err := r.open(ctx, pod)
	if err == nil {
		r.backoff.Succeeded(pod.UID, refused())
		return ctrl.Result{RequeueAfter: r.distrust(req.NamespacedName, pod)}, nil
	}
	if errors.Is(err, podwrite.Replaced) {
		return ctrl.Result{}, nil // the cache will soon show the change
	}
	if !podwrite.IsLasting(err) && !errors.Is(err, BarrierOfAnother) {
		return ctrl.Result{}, err
	}
	code, message := reason.Explain(err)
	r.events.Event(pod, corev1.EventTypeWarning, string(code), message)
	return ctrl.Result{RequeueAfter: r.backoff.Refused(attempt, err, r.options.Clock.Now())}, nil
}

// open adds the keys for the containers that may start, and marks the Pod as completed after the last key.
func (r *Reconciler) open(ctx context.Context, pod *corev1.Pod) error {
	key := client.ObjectKeyFromObject(pod)
	known := r.known(key, pod)
	step := r.order.Next(pod, known.opened)
	var err error
	switch {
	case known.uid == "":
		known, step, err = r.create(ctx, pod, step)
	case len(step.Open) > 0:
		known, err = r.add(ctx, pod, known, step.Open)
	}
	if err != nil {
		r.forget(key)
		return err
	}
	r.remember(key, known)
	if !step.Complete || known.marked {
		return nil
	}
	if _, err := podwrite.Send(ctx, r.client, pod, r.options.Clock.Now(), r.order.Completion(pod)); err != nil {
		return err
	}
	known.marked = true
	r.remember(key, known)
	return nil
}

// create creates the ConfigMap, or returns the existing ConfigMap if the same Pod owns it.
func (r *Reconciler) create(
	ctx context.Context, pod *corev1.Pod, step launchorder.Step,
) (barrier, launchorder.Step, error) {
	for replaced := false; ; replaced = true {
		made := r.configMap(pod, step.Open)
		err := r.client.Create(ctx, made)
		if err == nil {
			return barrier{pod: pod.UID, uid: made.UID, opened: r.order.Opened(pod, made.Data)}, step, nil
		}
		if !apierrors.IsAlreadyExists(err) || replaced {
			return barrier{}, step, err
		}
		found := &corev1.ConfigMap{}
		if err := r.live.Get(ctx, client.ObjectKeyFromObject(made), found); err != nil {
			return barrier{}, step, err
		}
		switch whose(found, pod) {
		case another:
			return barrier{}, step, reason.Reason{
				Code: BarrierOfAnother, Object: reason.ObjectOf("ConfigMap", found),
				Detail: "containers of this Pod wait for keys in it, but it belongs to somebody else",
				Remedy: "delete or rename it, or give the Pod another name",
			}
		case own:
			known := barrier{pod: pod.UID, uid: found.UID, opened: r.order.Opened(pod, found.Data)}
			step := r.order.Next(pod, found.Data)
			if len(step.Open) > 0 {
				known, err = r.add(ctx, pod, known, step.Open)
				return known, step, err
			}
			return known, step, nil
		}
		err = r.client.Delete(ctx, found,
			client.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return barrier{}, step, fmt.Errorf("deleting what a former Pod of this name has left: %w", err)
		}
	}
}

func (r *Reconciler) configMap(pod *corev1.Pod, keys []string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: r.order.ConfigMapName(pod),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Data: entries(keys),
	}
}

func entries(keys []string) map[string]string {
	out := make(map[string]string, len(keys))
	for _, key := range keys {
		out[key] = launchorder.True
	}
	return out
}

// add adds keys to the known ConfigMap; if a ConfigMap with another UID exists, the request fails.
func (r *Reconciler) add(ctx context.Context, pod *corev1.Pod, known barrier, keys []string) (barrier, error) {
	patch := map[string]any{"metadata": map[string]any{"uid": known.uid}, "data": entries(keys)}
	body, err := json.Marshal(patch)
	if err != nil {
		return known, err
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: r.order.ConfigMapName(pod),
	}}
	if err := r.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, body)); err != nil {
		return known, err
	}
	known.opened = r.order.Opened(pod, object.Data) // keys added by users are not remembered
	return known, nil
}

// owner is the kind of owner of an existing ConfigMap.
type owner int

const (
	own     owner = iota // the Pod owns the ConfigMap
	former               // a deleted Pod of the same name owns the ConfigMap
	another              // the ConfigMap has another owner or no owner
)

func whose(found *corev1.ConfigMap, pod *corev1.Pod) owner {
	out := another
	for _, ref := range found.OwnerReferences {
		if ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name != pod.Name {
			continue
		}
		if ref.UID == pod.UID {
			return own
		}
		out = former
	}
	return out
}

// distrust forgets, with growing pauses, a ConfigMap that the kubelet does not find, so that the next reconciliation
// reads the ConfigMap from the API server. The result is the time until the next reconciliation.
func (r *Reconciler) distrust(key types.NamespacedName, pod *corev1.Pod) time.Duration {
	known := r.known(key, pod)
	if !r.order.Misses(pod, known.opened) {
		r.backoff.Succeeded(pod.UID, missed())
		return 0
	}
	now, attempt := r.options.Clock.Now(), fanout.Attempt{Object: pod.UID, Task: missed()}
	if wait, err := r.backoff.Resting(attempt, now); err != nil {
		return wait
	}
	if r.backoff.WasRefused(pod.UID, missed()) { // the back-off has passed
		r.forget(key)
	}
	return r.backoff.Refused(attempt, launchorder.LaunchNotReady, now)
}

func (r *Reconciler) known(key types.NamespacedName, pod *corev1.Pod) barrier {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.barriers[key]; ok && (known.pod == pod.UID || pod.UID == "") {
		return known
	}
	return barrier{pod: pod.UID}
}

func (r *Reconciler) remember(key types.NamespacedName, known barrier) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.barriers[key] = known
}

func (r *Reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.barriers, key)
}

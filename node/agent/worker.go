package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/node/containerrestart/stopper"
	"github.com/workloadkit/workloadkit/reason"
)

// Work is an agent's work for a Pod of the Node. again is the time until another call even without an event; zero for
// never. After an error work is called again, later each time. Calls for a Pod do not overlap.
type Work func(ctx context.Context, pod *Pod) (again time.Duration, err error)

// WorkerOptions are the options of a Worker. The zero value is usable.
type WorkerOptions struct {
	// Wake is called with a Pod that has to be looked at: a stop has ended. Nil for nobody.
	Wake func(pod types.NamespacedName)
	// HookFailed is called if the preStop hook of a container has failed, for an event. Nil for nobody.
	HookFailed func(pod reason.Object, container string, err error)
	// Clock is the clock of the stops; nil for the real one.
	Clock clock.Clock
}

// Worker does an agent's work for the Pods of a Node. A Worker is a reconcile.Reconciler of Pods, and safe for
// concurrent use. Make a Worker with NewWorker.
type Worker struct {
	node     string
	pods     client.Reader
	runtimes Runtimes
	work     Work
	options  WorkerOptions
	stops    *stopper.Stopper

	mu   sync.Mutex
	keys map[types.NamespacedName]string // of the stops, by Pod
}

// NewWorker returns the worker of a Node. pods reads Pods; Pods of further Nodes are left out. An empty name is an
// error.
func NewWorker(node string, pods client.Reader, runtimes Runtimes, work Work, options WorkerOptions) (*Worker, error) {
	switch {
	case node == "":
		return nil, errors.New("an agent needs the name of its Node")
	case pods == nil || runtimes == nil || work == nil:
		return nil, errors.New("an agent needs a reader of Pods, runtimes and work")
	}
	w := &Worker{node: node, pods: pods, runtimes: runtimes, work: work, options: options, keys: map[types.NamespacedName]string{}}
	w.stops = stopper.New(runtimes, stopper.Options{Clock: options.Clock, Done: w.stopped, HookFailed: w.hookFailed})
	return w, nil
}

// Start runs the stops until the context ends, and returns after the end of the last.
func (w *Worker) Start(ctx context.Context) error { return w.stops.Start(ctx) }

// Reconcile calls the work for a Pod, and forgets the stops of a Pod that is gone.
func (w *Worker) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var pod corev1.Pod
	err := w.pods.Get(ctx, req.NamespacedName, &pod)
	switch {
	case apierrors.IsNotFound(err) || err == nil && pod.Spec.NodeName != w.node:
		w.follow(req.NamespacedName, "")
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("read Pod %s: %w", req, err)
	}
	w.follow(req.NamespacedName, keyOf(&pod))
	again, err := w.work(ctx, &Pod{Pod: &pod, worker: w})
	return ctrl.Result{RequeueAfter: max(again, 0)}, err
}

// follow forgets the stops of an earlier Pod of the name.
func (w *Worker) follow(name types.NamespacedName, key string) {
	w.mu.Lock()
	before := w.keys[name]
	if w.keys[name] = key; key == "" {
		delete(w.keys, name)
	}
	w.mu.Unlock()
	if before != "" && before != key {
		w.stops.Forget(before)
	}
}

// keyOf is the key of a Pod's stops.
func keyOf(pod *corev1.Pod) string {
	return pod.Namespace + "/" + pod.Name + "/" + string(pod.UID)
}

// podOf is the Pod of a key.
func podOf(key string) reason.Object {
	namespace, rest, _ := strings.Cut(key, "/")
	name, uid, _ := strings.Cut(rest, "/")
	return reason.Object{Kind: "Pod", Namespace: namespace, Name: name, UID: types.UID(uid)}
}

// stopped is told of the end of a stop.
func (w *Worker) stopped(key string) {
	if pod := podOf(key); w.options.Wake != nil {
		w.options.Wake(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}
}

// hookFailed is told of a failed hook.
func (w *Worker) hookFailed(key string, order stopper.Order, err error) {
	if w.options.HookFailed != nil {
		w.options.HookFailed(podOf(key), order.Name, err)
	}
}

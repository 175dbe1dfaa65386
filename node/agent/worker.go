package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

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
	HookFailed func(ctx context.Context, pod reason.Object, container string, err error)
	// Clock is the clock of the stops; nil for the real one.
	Clock clock.Clock
}

// Worker does an agent's work for the Pods of a Node, without a watch and a queue. A Worker is safe for concurrent use:
// calls for a Pod must not overlap. Make a Worker with NewWorker.
type Worker struct {
	node     string
	pods     Pods
	runtimes Runtimes
	work     Work
	options  WorkerOptions
	stops    *stopper.Stopper

	mu   sync.Mutex
	keys map[types.NamespacedName]string // of the stops, by Pod
}

// Pods are the Pods of a Node, in a cache: read-only.
type Pods interface {
	// Pod returns a Pod, nil if there is none.
	Pod(name types.NamespacedName) *corev1.Pod
}

// NewWorker returns the worker of a Node. Pods of further Nodes are left out. An empty name is an error.
func NewWorker(node string, pods Pods, runtimes Runtimes, work Work, options WorkerOptions) (*Worker, error) {
	switch {
	case node == "":
		return nil, errors.New("an agent needs the name of its Node")
	case pods == nil || runtimes == nil || work == nil:
		return nil, errors.New("an agent needs Pods, runtimes and work")
	}
	w := &Worker{node: node, pods: pods, runtimes: runtimes, work: work, keys: map[types.NamespacedName]string{}, options: options}
	w.stops = stopper.New(runtimes, stopper.Options{Clock: options.Clock, Done: w.stopped, HookFailed: w.hookFailed})
	return w, nil
}

// Start runs the stops until the context ends, and returns after the end of the last.
func (w *Worker) Start(ctx context.Context) error { return w.stops.Start(ctx) }

// Do calls the work for a Pod, and ends the stops of a Pod that is gone, and the stops that the work has not kept.
// again is the time until the next call, zero for never. A panic of the work is an error: a Pod stops no agent.
func (w *Worker) Do(ctx context.Context, name types.NamespacedName) (again time.Duration, err error) {
	pod := w.pods.Pod(name)
	if pod == nil || pod.Spec.NodeName != w.node {
		w.follow(name, "")
		return 0, nil
	}
	w.follow(name, keyOf(pod))
	defer func() {
		if found := recover(); found != nil {
			again, err = 0, fmt.Errorf("the work for Pod %s panics: %v\n%s", name, found, debug.Stack())
		}
	}()
	pass := &Pod{Pod: pod, worker: w}
	if again, err = w.work(ctx, pass); err == nil && !pass.keepsAll {
		w.stops.Keep(keyOf(pod), pass.keeps...)
	}
	return max(again, 0), err
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
func (w *Worker) hookFailed(ctx context.Context, key string, order stopper.Order, err error) {
	if w.options.HookFailed != nil {
		w.options.HookFailed(ctx, podOf(key), order.Name, err)
	}
}

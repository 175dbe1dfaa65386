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

// Work is the caller's function that an agent calls for each Pod of the Node. again is the time until the next call
// even if no event occurs; zero for never. After an error, Work is called again; the wait grows with each error in a
// row. Calls for a Pod do not overlap.
type Work func(ctx context.Context, pod *Pod) (again time.Duration, err error)

// WorkerOptions are options of a Worker. The zero value is usable.
type WorkerOptions struct {
	// Wake is called with a Pod after a stop of one of its containers has ended: call Do for the Pod. Nil if not
	// needed.
	Wake func(pod types.NamespacedName)
	// HookFailed is called if the preStop hook of a container has failed, for example to record an event. Nil if not
	// needed.
	HookFailed func(ctx context.Context, pod reason.Object, container string, err error)
	// Clock is the clock for stops; nil means the real clock.
	Clock clock.Clock
}

// Worker calls Work for the Pods of a Node. The caller provides the watch and the queue. A Worker is safe for
// concurrent use, except that calls for the same Pod must not overlap. Make a Worker with NewWorker.
type Worker struct {
	node     string
	pods     Pods
	runtimes Runtimes
	work     Work
	options  WorkerOptions
	stops    *stopper.Stopper

	mu   sync.Mutex
	keys map[types.NamespacedName]string // keys of the stops, by Pod
}

// Pods are the Pods of a Node in a cache; callers do not modify the Pods.
type Pods interface {
	// Pod returns the Pod with a name, or nil.
	Pod(name types.NamespacedName) *corev1.Pod
}

// NewWorker returns the Worker of a Node. Pods of other Nodes are ignored. If the Node's name is empty, NewWorker
// returns an error.
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

// Start runs stops until the context ends, and returns after the last stop has ended.
func (w *Worker) Start(ctx context.Context) error { return w.stops.Start(ctx) }

// Do calls Work for a Pod. Do also cancels the stops of a deleted Pod, and the stops that Work has neither begun nor
// kept. again is the time until the next call, zero if none is needed. A panic in Work is returned as an error,
// because one Pod must not end the agent.
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

// follow cancels the stops of an earlier Pod of the same name.
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

// keyOf returns the key under which a Pod's stops are recorded.
func keyOf(pod *corev1.Pod) string {
	return pod.Namespace + "/" + pod.Name + "/" + string(pod.UID)
}

// podOf returns the Pod of a key.
func podOf(key string) reason.Object {
	namespace, rest, _ := strings.Cut(key, "/")
	name, uid, _ := strings.Cut(rest, "/")
	return reason.Object{Kind: "Pod", Namespace: namespace, Name: name, UID: types.UID(uid)}
}

// stopped is called when a stop has ended.
func (w *Worker) stopped(key string) {
	if pod := podOf(key); w.options.Wake != nil {
		w.options.Wake(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}
}

// hookFailed is called when a hook has failed.
func (w *Worker) hookFailed(ctx context.Context, key string, order stopper.Order, err error) {
	if w.options.HookFailed != nil {
		w.options.HookFailed(ctx, podOf(key), order.Name, err)
	}
}

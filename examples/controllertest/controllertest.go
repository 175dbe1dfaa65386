// Package controllertest runs the manager on a control plane for tests, records every Pod event, and counts the
// controllers' requests in the audit log.
package controllertest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/audit"
)

// Client installs missing CRDs, and returns an administrator's client for every API type.
func Client(t testing.TB, cp *controlplane.ControlPlane) client.WithWatch {
	t.Helper()
	c, err := manager.NewClient(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	if err := config.InstallCRDs(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// Manager runs the controllers until stop is called or the test ends; stop returns when the controllers have ended.
func Manager(t testing.TB, cp *controlplane.ControlPlane, options manager.Options) (stop func()) {
	t.Helper()
	options.Version = "test"
	options.Registry = prometheus.NewRegistry()
	var mu sync.Mutex
	log := funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(args, `"level"=0`) && !strings.Contains(args, `"error"`) && !strings.Contains(args, "stays idle") {
			return
		}
		fmt.Fprintln(os.Stderr, prefix, args)
	}, funcr.Options{})
	ctx, cancel := context.WithCancel(logr.NewContext(context.WithoutCancel(t.Context()), log))
	done := make(chan error, 1)
	go func() { done <- manager.Run(ctx, cp.Config(), options) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// Event is a change of a Pod that a watch has reported.
type Event struct {
	Type watch.EventType
	Pod  *corev1.Pod
}

// Recorder records the events of all Pods in a namespace, in their order.
type Recorder struct {
	mu     sync.Mutex
	events []Event
}

// Watch starts to record the events of the Pods in a namespace. The first events report the existing Pods as added.
// check is called with all Pods after each event, and may be nil.
func Watch(t testing.TB, c client.WithWatch, namespace string, check func(pods map[types.UID]*corev1.Pod)) *Recorder {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	watcher, err := c.Watch(ctx, &corev1.PodList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	r := &Recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		pods := map[types.UID]*corev1.Pod{}
		for event := range watcher.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			r.mu.Lock()
			r.events = append(r.events, Event{event.Type, pod})
			r.mu.Unlock()
			if event.Type == watch.Deleted {
				delete(pods, pod.UID)
			} else {
				pods[pod.UID] = pod
			}
			if check != nil {
				check(pods)
			}
		}
	}()
	t.Cleanup(func() {
		select {
		case <-done:
			t.Error("the watch of Pods ended before the test: events were missed")
		default:
		}
		watcher.Stop()
		cancel()
		<-done
	})
	return r
}

// Events returns the events recorded so far.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Event(nil), r.events...)
}

// Request is an answered request of the controllers, as recorded in the audit log.
type Request = audit.Request

// Requests returns the requests after an offset in the audit log, by clients whose user agent begins with agent, and
// the offset for the next call.
func Requests(t testing.TB, auditLog string, offset int64, agent string) ([]Request, int64) {
	t.Helper()
	requests, next, err := audit.Read(auditLog, offset, agent)
	if err != nil {
		t.Fatal(err)
	}
	return requests, next
}

// End returns the offset of the end of the audit log. Later requests are recorded after the offset.
func End(t testing.TB, auditLog string) int64 {
	t.Helper()
	offset, err := audit.End(auditLog)
	if err != nil {
		t.Fatal(err)
	}
	return offset
}

// Tally counts requests by verb and resource, and failed requests by their status code as well.
func Tally(requests []Request, namespace string) map[string]int {
	out := map[string]int{}
	for _, r := range requests {
		if r.Namespace != namespace {
			continue
		}
		out[r.String()]++
	}
	return out
}

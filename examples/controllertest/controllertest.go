// Package controllertest shows a test everything that a controller does: the package runs the manager against a control
// plane, records every Pod event, and counts requests in the audit log.
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

// Client returns an administrator's client for every API type, and installs missing CRDs.
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

// Manager runs the controllers until stop is called or the test ends; stop returns when they have ended.
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

// Event is a change of a Pod, as reported by a watch.
type Event struct {
	Type watch.EventType
	Pod  *corev1.Pod
}

// Recorder records every Pod event of a namespace in order.
type Recorder struct {
	mu     sync.Mutex
	events []Event
}

// Watch starts to record the Pod events of a namespace; existing Pods come first, as added. check, unless nil, is
// called with all Pods after each event.
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

// Request is a request of the controllers that was answered, from the audit log.
type Request = audit.Request

// Requests returns the requests since an offset by clients whose user agent begins with agent, and the next offset.
func Requests(t testing.TB, auditLog string, offset int64, agent string) ([]Request, int64) {
	t.Helper()
	requests, next, err := audit.Read(auditLog, offset, agent)
	if err != nil {
		t.Fatal(err)
	}
	return requests, next
}

// End returns the offset from which on later requests can be read.
func End(t testing.TB, auditLog string) int64 {
	t.Helper()
	offset, err := audit.End(auditLog)
	if err != nil {
		t.Fatal(err)
	}
	return offset
}

// Tally counts requests by verb and resource; failed requests are counted by their code as well.
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

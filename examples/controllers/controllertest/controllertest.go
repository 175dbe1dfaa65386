// Package controllertest answers "how does a controller's test see everything that happens on the API server?": it runs the
// manager against a control plane, follows every Pod event, and counts requests in the audit log.
package controllertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/examples/controlplane"
	"github.com/workloadkit/workloadkit/examples/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/examples/manager"
)

// Client returns an administrator's client that knows every API type, and installs the CRDs if they are not there yet.
func Client(t testing.TB, cp *controlplane.ControlPlane) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := manager.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(cp.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	files, err := config.CRDs.ReadDir("crd")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := config.CRDs.ReadFile("crd/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		InstallCRD(t, c, raw)
	}
	// Discovery follows a moment after a CRD is established.
	controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
		return c.List(ctx, &v1beta1.CloneSetList{}, client.Limit(1))
	})
	return c
}

// InstallCRD creates a CRD from its manifest unless it exists, and waits until it is established.
func InstallCRD(t testing.TB, c client.Client, manifest []byte) {
	t.Helper()
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(manifest, &crd.Object); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), crd); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
			return err
		}
		raw, err := json.Marshal(crd.Object["status"])
		if err != nil {
			return err
		}
		if !strings.Contains(string(raw), `"Established"`) {
			return fmt.Errorf("CRD %s is not established", crd.GetName())
		}
		return nil
	})
}

// Manager runs the controllers until stop is called or the test ends; stop returns once they have ended.
func Manager(t testing.TB, cp *controlplane.ControlPlane, options manager.Options) (stop func()) {
	t.Helper()
	options.Version = "test"
	options.Registry = prometheus.NewRegistry()
	var mu sync.Mutex
	log := funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(args, `"level"=0`) && !strings.Contains(args, `"error"`) {
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

// Event is one change of a Pod as a watch reported it.
type Event struct {
	Type watch.EventType
	Pod  *corev1.Pod
}

// Recorder keeps every Pod event of a namespace in order.
type Recorder struct {
	mu     sync.Mutex
	events []Event
}

// Watch starts to record the Pod events of a namespace; the Pods that exist come first, as added. check, unless nil, sees
// the Pods as they are after each event and is called in their order.
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
	t.Cleanup(func() { watcher.Stop(); cancel(); <-done })
	return r
}

// Events returns what was recorded so far.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Event(nil), r.events...)
}

// Request is one answered request of the controllers, from the audit log.
type Request struct {
	Verb, Resource, Namespace, Name, UserAgent string
	Code                                       int
}

// Requests returns the requests since offset of clients whose user agent begins with agent, and the offset to go on from.
func Requests(t testing.TB, auditLog string, offset int64, agent string) ([]Request, int64) {
	t.Helper()
	raw, err := os.ReadFile(auditLog)
	if err != nil {
		t.Fatal(err)
	}
	var out []Request
	scanner := bufio.NewScanner(bytes.NewReader(raw[offset:]))
	scanner.Buffer(nil, 1<<24)
	for scanner.Scan() {
		var e struct {
			Verb, UserAgent string
			ObjectRef       struct{ Resource, Subresource, Namespace, Name string }
			ResponseStatus  struct{ Code int }
		}
		if json.Unmarshal(scanner.Bytes(), &e) != nil || !strings.HasPrefix(e.UserAgent, agent) {
			continue
		}
		resource := e.ObjectRef.Resource
		if e.ObjectRef.Subresource != "" {
			resource += "/" + e.ObjectRef.Subresource
		}
		out = append(out, Request{e.Verb, resource, e.ObjectRef.Namespace, e.ObjectRef.Name, e.UserAgent, e.ResponseStatus.Code})
	}
	return out, int64(len(raw))
}

// Tally counts requests by verb and resource, failed ones by their code beside.
func Tally(requests []Request, namespace string) map[string]int {
	out := map[string]int{}
	for _, r := range requests {
		if r.Namespace != namespace {
			continue
		}
		key := r.Verb + " " + r.Resource
		if r.Code >= 300 {
			key += fmt.Sprintf(" (%d)", r.Code)
		}
		out[key]++
	}
	return out
}

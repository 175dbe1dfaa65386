package realnode_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/podstate"
)

// requestTime is how long the test program takes for each request of the load.
const requestTime = 50 * time.Millisecond

// tally counts requests.
type tally struct {
	mu   sync.Mutex
	sent int
	lost map[string]int // by error
	seen []string       // losses, states of Pods and lists of endpoints with their times
}

func (t *tally) add(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent++
	if err != nil {
		t.lost[err.Error()]++
		t.notef("lost: %v", err)
	}
}

// notef adds a line to the notes that explain a loss. The caller holds t.mu.
func (t *tally) notef(format string, args ...any) {
	t.seen = append(t.seen, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// followPods adds the states of the Pods to the notes.
func (t *tally) followPods(watcher watch.Interface) {
	for event := range watcher.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		_, held := pod.Annotations[apps.AnnotationInPlaceUpdateGrace]
		app := ptr.Deref(podstate.ContainerStatus(pod, "app"), corev1.ContainerStatus{})
		t.mu.Lock()
		t.notef("Pod %s %s: spec %s, grace period runs %t, ready %t, restarts %d, %s", pod.Name, pod.Status.PodIP,
			pod.Spec.Containers[0].Image, held, podstate.IsReady(pod), app.RestartCount, app.State.String())
		t.mu.Unlock()
	}
}

func (t *tally) losses() (total int) {
	for _, n := range t.lost {
		total += n
	}
	return total
}

// load creates a Service, waits until all Pods are endpoints of the Service, and sends requests to the ready
// endpoints until stop is called.
func (f *fixture) load(w workload, pods int) (stop func() *tally) {
	f.t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: w.name()},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": w.name()},
			Ports: []corev1.ServicePort{{Port: 8080}},
		},
	}
	if err := f.Create(f.t.Context(), service); err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	f.t.Cleanup(cancel)
	watcher, err := f.Watch(ctx, &discoveryv1.EndpointSliceList{},
		client.InNamespace(f.namespace), client.MatchingLabels{discoveryv1.LabelServiceName: w.name()})
	if err != nil {
		f.t.Fatal(err)
	}
	expired, stopWaiting := context.WithTimeout(ctx, within)
	defer stopWaiting()
	count := &tally{lost: map[string]int{}}
	targets := &endpoints{complete: make(chan struct{}), want: pods, bySlice: map[string][]string{}, count: count}
	go targets.follow(watcher)
	select {
	case <-targets.complete:
	case <-expired.Done():
		f.t.Fatalf("Service %s does not have %d endpoints", w.name(), pods)
	}
	podWatcher, err := f.Watch(ctx, &corev1.PodList{}, client.InNamespace(f.namespace), client.MatchingLabels{"app": w.name()})
	if err != nil {
		f.t.Fatal(err)
	}
	go count.followPods(podWatcher)
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() { sendAll(ctx, targets, count) })
	}
	return func() *tally {
		cancel()
		workers.Wait()
		watcher.Stop()
		podWatcher.Stop()
		return count
	}
}

// sendAll sends requests one after the other, each on its own connection.
func sendAll(ctx context.Context, targets *endpoints, count *tally) {
	httpClient := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	for ctx.Err() == nil {
		address := targets.next()
		if address == "" {
			count.add(errors.New("no endpoint is ready"))
			pause(ctx, requestTime)
			continue
		}
		// A request that has already begun is finished, because a request cut off by the end of the load would count as
		// lost.
		err := send(context.WithoutCancel(ctx), httpClient, address)
		count.add(err)
		if err != nil {
			pause(ctx, requestTime) // a client that is refused at once would otherwise send too many requests
		}
	}
}

// pause waits until the duration has passed, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func send(ctx context.Context, httpClient *http.Client, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+":8080/?after="+requestTime.String(), nil)
	if err != nil {
		return err
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// endpoints contains the ready addresses of a Service.
type endpoints struct {
	complete chan struct{}
	want     int
	count    *tally

	mu      sync.Mutex
	bySlice map[string][]string
	all     []string
	turn    int
}

func (e *endpoints) follow(watcher watch.Interface) {
	for event := range watcher.ResultChan() {
		slice, ok := event.Object.(*discoveryv1.EndpointSlice)
		if !ok {
			continue
		}
		var addresses []string
		for _, endpoint := range slice.Endpoints {
			if ptr.Deref(endpoint.Conditions.Ready, false) && event.Type != watch.Deleted {
				addresses = append(addresses, endpoint.Addresses...)
			}
		}
		e.set(slice.Name, addresses)
	}
}

// set stores the addresses of an EndpointSlice. For a moment, an address may be in two EndpointSlices.
func (e *endpoints) set(slice string, addresses []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bySlice[slice] = addresses
	e.count.mu.Lock()
	e.count.notef("endpoints of %s: %v", slice, addresses)
	e.count.mu.Unlock()
	e.all = slices.Compact(slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(e.bySlice))...))))
	if len(e.all) != e.want {
		return
	}
	select {
	case <-e.complete:
	default:
		close(e.complete)
	}
}

// next returns the next address. After the last address the first address follows. Without addresses, next returns an
// empty string.
func (e *endpoints) next() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.all) == 0 {
		return ""
	}
	e.turn++
	return e.all[e.turn%len(e.all)]
}
